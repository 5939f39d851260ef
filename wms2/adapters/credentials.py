"""Who WMS2 is for other systems: passwords, certificates and tokens, none of which is ever shown."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wms2.errors import Unavailable, UserError

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Password:
    user: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        # Else the HTTP library refuses it, and shows it in its error.
        if not _fits_a_header(self.password):
            raise UserError("The password for Rucio must be plain ASCII without blanks around it.")


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, or a proxy that holds both. The files are renewed while WMS2 runs."""

    file: Path
    key: Path | None = None


@dataclass(frozen=True)
class TokenFile:
    """A file with a bearer token. It is renewed while WMS2 runs."""

    file: Path


class ClientContext:
    """The TLS of a client that shows a certificate if there is one, and trusts whom OpenSSL and its variables trust."""

    def __init__(self, url: str, certificate: Certificate | None = None) -> None:
        # Reading whom it trusts takes long, and without TLS it trusts nobody.
        is_used = url.startswith("https:")
        self.ssl = ssl.create_default_context() if is_used else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._certificate = certificate
        self._read: Stamp | None = None

    def refresh(self) -> None:
        """Read the certificate again if it was renewed: connections made from now on show the new one."""
        if self._certificate is None:
            return
        file, key = self._certificate.file, self._certificate.key
        try:
            stamp = _stamp(file, key)
            if stamp != self._read:
                self._read = None
                # An empty password: else OpenSSL asks the terminal for that of an encrypted key.
                self.ssl.load_cert_chain(file, key, password="")
                self._read = stamp
        except OSError as error:
            is_read = isinstance(error, ssl.SSLError)
            why = "it is no certificate with its key" if is_read else error.strerror
            raise Unavailable(f"the certificate {file} cannot be used: {why}") from None


class TokenReader:
    """The token in a file, read again when the file was renewed."""

    def __init__(self, source: TokenFile) -> None:
        self._file = source.file
        self._read: Stamp | None = None
        self._token = ""

    def token(self) -> str:
        try:
            stamp = _stamp(self._file)
            if stamp != self._read:
                self._token = self._file.read_text(encoding="ascii").strip()
                self._read = stamp
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no plain ASCII"
            raise Unavailable(f"the token file {self._file} cannot be used: {why}") from None
        if not _fits_a_header(self._token):
            raise Unavailable(f"the token file {self._file} cannot be used: it holds no token")
        return self._token

    def seen(self) -> Iterator[str]:
        if self._token:
            yield self._token


def _fits_a_header(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and text == text.strip()


def _stamp(*files: Path | None) -> Stamp:
    """What tells one state of the files from another."""
    states = (file.stat() for file in files if file is not None)
    return tuple((state.st_mtime_ns, state.st_ino, state.st_size) for state in states)
