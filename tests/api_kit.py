"""A REST service that runs, an issuer whose tokens it believes, and certificates."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import RSAAlgorithm

from tests.patience import PATIENCE_SEC
from wms2.api.config import ApiConfig
from wms2.api.serve import server
from wms2.config import Settings

AUDIENCE = "https://wms2.example.org"
REQUESTOR, OPERATOR, ADMIN, NOBODY = "requestor-1", "operator-1", "admin-1", "nobody-1"
"""Subjects of tokens: what they may do, they are named after."""
USER = "demo"
"""The user name of the requestor, which the example requests have."""


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """Tells its keys, and makes tokens of all kinds."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0

    def keys(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(rsa_key().public_key()))
        return {"keys": [{**public, "kid": "key-1", "use": "sig", "alg": "RS256"}]}

    def token(self, subject: str, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        """As it should be but for the given claims; those that are None are left out."""
        now = int(time.time())
        usual = {
            "iss": self.url, "sub": subject, "aud": AUDIENCE, "iat": now, "nbf": now, "exp": now + 3600,
            "wlcg.ver": "1.0", "scope": "openid",
        }  # fmt: skip
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(said, key or rsa_key(), algorithm, headers={"kid": "key-1"})


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer on loopback."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            found = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks"}
            content = json.dumps(issuer.keys() if self.path == "/jwks" else found).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    issuer = Issuer(f"http://127.0.0.1:{listening.server_port}")
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield issuer
    finally:
        listening.shutdown()
        listening.server_close()


def config_for(issuer: Issuer, **more: Any) -> ApiConfig:
    """Where each role has its subject."""
    subjects = {REQUESTOR: "requestor", OPERATOR: "operator", ADMIN: "admin"}
    grants = [
        {"role": role, "issuer": issuer.url, "subject": subject}
        | ({"name": USER} if subject == REQUESTOR else {})
        for subject, role in subjects.items()
    ]
    given = {
        "port": 0,
        "issuers": [{"issuer": issuer.url, "audiences": [AUDIENCE]}],
        "grants": [*grants, *more.pop("grants", [])],
        "calls_per_min": 1_000_000,
        "strangers_per_min": 1_000_000,
        **more,
    }
    return ApiConfig.model_validate(given)


@contextmanager
def serving(settings: Settings, config: ApiConfig) -> Iterator[str]:
    """The address of a service that runs in a thread, with uvicorn as in production."""
    running = server(settings, config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    limit = time.monotonic() + PATIENCE_SEC
    while not running.started:
        assert thread.is_alive()
        assert time.monotonic() < limit
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'https' if config.tls else 'http'}://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join(PATIENCE_SEC)
        assert not thread.is_alive()


def nowhere(home: Path) -> Settings:
    """Servers that do not answer: nobody listens at these ports."""
    return Settings(
        home=home,
        database_url="postgresql://nobody@127.0.0.1:9/none",
        temporal_address="127.0.0.1:9",
    )


INHERIT_ALL = "300c300a06082b06010505071501"
INDEPENDENT = "300c300a06082b06010505071502"
LIMITED = "300f300d060b2b060104019b5001010109"
"""What a proxy may do, as its ProxyCertInfo has it."""

# Certificates -------------------------------------------------------------------------------------------


class Authority:
    """Makes certificates, in files below a folder."""

    def __init__(self, folder: Path, name: str = "Test CA") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name.replace(' ', '_')}.pem"
        made = self._signed(self.name, self.key, self.name, self.key, ca=True)
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def server(self) -> tuple[Path, Path]:
        return self.client("127.0.0.1", host=True)

    def client(self, *names: str, host: bool = False) -> tuple[Path, Path]:
        """The files of a certificate and of its key."""
        parts = [x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "ch")]
        subject = x509.Name(parts + [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
        key = ec.generate_private_key(ec.SECP256R1())
        return self._files(key, self._signed(subject, key, self.name, self.key, host=host))

    def proxy_of(self, *names: str, policies: Sequence[str] = (INHERIT_ALL,)) -> tuple[Path, Path]:
        """A proxy of a proxy and so on, as RFC 3820 has them: each is signed by its owner, whose name it lengthens."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "ch")]
        parts += [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names]
        chain = [self._signed(x509.Name(parts), key, self.name, self.key)]
        for policy in policies:
            parts.append(x509.NameAttribute(NameOID.COMMON_NAME, "12345"))
            owner_key, key = key, ec.generate_private_key(ec.SECP256R1())
            made = self._signed(x509.Name(parts), key, chain[0].subject, owner_key, proxy=policy)
            chain.insert(0, made)
        return self._files(key, *chain)

    def revoke(self, *certificates: Path) -> Path:
        """The file of its list of revoked certificates, which holds these alone."""
        now = datetime.now(UTC)
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.name)
            .last_update(now - timedelta(hours=1))
            .next_update(now + timedelta(days=1))
        )
        for file in certificates:
            # The last of a chain is that of a person.
            owner = x509.load_pem_x509_certificates(file.read_bytes())[-1]
            entry = x509.RevokedCertificateBuilder().serial_number(owner.serial_number).revocation_date(now)
            made = made.add_revoked_certificate(entry.build())
        file = self.file.with_suffix(".crl")
        file.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return file

    def _files(self, key: Any, *chain: x509.Certificate) -> tuple[Path, Path]:
        file, key_file = (self.folder / f"{chain[0].serial_number}.{kind}" for kind in ("pem", "key"))
        file.write_bytes(b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return file, key_file

    def _signed(
        self, subject: x509.Name, key: Any, issuer: x509.Name, by: Any,
        *, ca: bool = False, host: bool = False, proxy: str = "",
    ) -> x509.Certificate:  # fmt: skip
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )
        usage = {
            "digital_signature": True, "content_commitment": False, "key_encipherment": False,
            "data_encipherment": False, "key_agreement": False, "key_cert_sign": ca, "crl_sign": ca,
            "encipher_only": False, "decipher_only": False,
        }  # fmt: skip
        made = made.add_extension(x509.KeyUsage(**usage), critical=True)
        if not proxy:
            made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if host:
            names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if proxy:
            info = bytes.fromhex(proxy)
            oid = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.14")
            made = made.add_extension(x509.UnrecognizedExtension(oid, info), critical=True)
        return made.sign(by, hashes.SHA256())
