"""A server whose every answer a test decides: made up, or another server's, whole, cut off or never sent."""

import http.client
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.patience import PATIENCE_SEC
from tests.stand_in import served
from wms2.local.services import Server


@dataclass(frozen=True)
class Call:
    number: int
    """The first one is 1."""
    method: str
    path: str
    headers: Message
    body: bytes
    connection: int
    """Told from others by this number."""
    client: str = ""
    """The name in the certificate that it showed."""


@dataclass(frozen=True)
class Reply:
    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: Literal["", "silent", "half"] = ""
    """The connection is closed instead of an answer, or in the middle of it."""


Script = Callable[[Call], Reply]


@dataclass
class Line:
    url: str
    calls: list[Call] = field(default_factory=list)

    def count(self, beginning: str) -> int:
        return sum(f"{call.method} {call.path}".startswith(beginning) for call in self.calls)


@contextmanager
def wire(script: Script, kind: type[Server] = Server) -> Iterator[Line]:
    """A server that answers by the script, and writes down what it is asked."""
    line, one_at_a_time = Line(""), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and content in one packet: else the content waits for the client's word that it has the headers.
        wbufsize = -1

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with one_at_a_time:
                asked = (len(line.calls) + 1, self.command, self.path, self.headers, body)
                call = Call(*asked, self.client_address[1], _common_name(self.connection))
                line.calls.append(call)
            self._send(script(call))

        do_POST = do_PUT = do_DELETE = do_GET

        def _send(self, reply: Reply) -> None:
            self.close_connection = bool(reply.cut)
            if reply.cut == "silent":
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.content)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.content[: len(reply.content) // 2] if reply.cut else reply.content)

        def log_message(self, *words: Any) -> None:
            pass

    with served(Handler, kind) as url:
        line.url = url if kind is Server else url.replace("http:", "https:")
        yield line


def _common_name(connection: Any) -> str:
    shown = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    subject = (shown or {}).get("subject", ())
    return next((str(value) for part in subject for key, value in part if key == "commonName"), "")


def passed_on(url: str) -> Script:
    """What the server at that URL answers."""
    there = urlsplit(url)

    def script(call: Call) -> Reply:
        connection = http.client.HTTPConnection(there.hostname or "", there.port, timeout=PATIENCE_SEC)
        try:
            headers = {
                name: value for name, value in call.headers.items() if name.lower() != "accept-encoding"
            }
            connection.request(call.method, f"{there.path}{call.path}", call.body or None, headers)
            answer = connection.getresponse()
            hidden = {"content-length", "transfer-encoding", "connection", "server", "date"}
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in hidden}
            return Reply(answer.status, answer.read(), kept)
        finally:
            connection.close()

    return script


def cut_after(script: Script, number: int, how: Literal["silent", "half"] = "silent") -> Script:
    """The same, but nobody hears the answer to that call."""

    def cutting(call: Call) -> Reply:
        reply = script(call)
        return replace(reply, cut=how) if call.number == number else reply

    return cutting


def made_certificates(folder: Path, *names: str) -> Path:
    """An authority in the folder, and those that it vouches for, each with a proxy that holds both its files."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "1")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "names"]
    for name in names:
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)
        proxy = (folder / f"{name}.pem").read_text() + (folder / f"{name}.key").read_text()
        (folder / f"{name}.proxy").write_text(proxy)
    return folder


def secure(certificates: Path) -> type[Server]:
    """A server with the certificate `server`, which asks for that of its clients."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.pem"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")

    class SecureServer(Server):
        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            return context.wrap_socket(connection, server_side=True), address

    return SecureServer
