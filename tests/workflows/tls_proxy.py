"""A server with TLS in front of one without: what it takes to stand where a guarded Temporal would."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVER_NAME = "temporal.example"


@dataclass(frozen=True)
class Credential:
    certificate: Path
    key: Path


class Authority:
    """Signs certificates, and writes them into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _named(f"{name} authority")
        certificate = self._sign(self._subject, self._key.public_key(), is_authority=True)
        self.path = folder / f"{name}-ca.pem"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_named(name), key.public_key(), is_authority=False)
        made = Credential(
            self._folder / f"{self._name}-{name}.pem", self._folder / f"{self._name}-{name}.key"
        )
        made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return made

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        (common_name,) = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(str(common_name.value).replace(" ", "-"))]),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@asynccontextmanager
async def guarded(
    target: str, server: Credential, clients: Path | None, heard: list[bytes] | None = None
) -> AsyncIterator[str]:
    """The address of a proxy before `target` that lets in whom the authority `clients` knows; all when it is None.

    What clients say is added to `heard`.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)
    context.set_alpn_protocols(["h2"])
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    host, _, port = target.rpartition(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_pass_on(reader, inner_writer, heard), _pass_on(inner_reader, writer, None))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: list[bytes] | None
) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            if heard is not None:
                heard.append(data)
            writer.write(data)
            await writer.drain()
    writer.close()
