"""TLS: the server's own certificate, and the subject of the certificate that a client shows."""

from __future__ import annotations

import _ssl
import asyncio
import logging
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wms2.api.config import Tls
from wms2.api.subjects import subject_of
from wms2.errors import UserError

log = logging.getLogger(__name__)

READ_AGAIN_SEC = 60.0
CLIENT_SUBJECT = "client_subject"
HEAD_SEC = 20.0
LONGEST_HEAD = 512 * 1024
"""For the first line of a call and its headers; the library that reads them has no limits of its own."""


def server_context(tls: Tls) -> ssl.SSLContext:
    """What the server listens with. Its files may be renewed in place: new connections see them within a minute."""
    front = newest = _read(tls)
    read_at = time.monotonic()

    def turn(encrypted: ssl.SSLObject, *_: Any) -> None:
        nonlocal newest, read_at
        if time.monotonic() - read_at > READ_AGAIN_SEC:
            read_at = time.monotonic()
            try:
                newest = _read(tls)
            except UserError as error:
                log.warning("%s; those that were read before hold", error)
        # Certificate, authorities and lists come from the newest; how strictly a client is looked at stays as it began,
        # and no file changes that.
        encrypted.context = newest

    # Called in each handshake, whether it names a server or not.
    front.sni_callback = turn
    return front


def _read(tls: Tls) -> ssl.SSLContext:
    """Certificates of clients are checked where they are shown; who has none may have a token."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key, password="")
        if tls.client_ca is not None:
            _load(context, tls.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        if tls.revoked is not None:
            _load(context, tls.revoked)
            # Of the whole chain: the first of it may be a proxy, which no list names.
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"the certificates below tls cannot be used: {error.strerror or error}") from None
    if tls.proxy_certificates:
        context.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS
        # Python 3.13 is strict by itself; proxies seldom name the key of their owner, as that would want.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.proxy_certificates or tls.revoked is not None:
        # A resumed session would not tell who owns a proxy, nor look at what was revoked since.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    if tls.revoked is not None:
        # Before it sessions have numbers, too, by which they are resumed without a ticket.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _load(context: ssl.SSLContext, place: Path) -> None:
    folder = place.is_dir()
    context.load_verify_locations(cafile=None if folder else place, capath=place if folder else None)


def _checked_chain(encrypted: ssl.SSLObject) -> list[bytes]:
    """The certificate that the client has shown, if any, and those that vouch for it.

    A session that is resumed knows of the first one only.
    """
    if sys.version_info >= (3, 13):
        chain = encrypted.get_verified_chain()
    else:
        found = encrypted._sslobj.get_verified_chain()  # type: ignore[attr-defined]
        chain = [one.public_bytes(_ssl.ENCODING_DER) for one in found or ()]
    shown = encrypted.getpeercert(binary_form=True)
    return chain or ([shown] if shown else [])


class PeerProtocol(HttpToolsProtocol):
    """Tells the application whose certificate TLS has checked, in the state of each call.

    And it waits neither for ever nor for any number of bytes until a call has said what it wants.
    """

    _subject: str | None = None
    _is_in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_a_head()
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None:
            self._subject = subject_of(_checked_chain(encrypted))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > LONGEST_HEAD:
                self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stop_waiting()
        self._is_in_head = True
        self._wait_for_a_head()
        self.scope["state"][CLIENT_SUBJECT] = self._subject

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        # What is left of a body may still come, and uvicorn would wait for its end without one.
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last:
            self._wait_for_a_head()

    def _wait_for_a_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SEC, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
