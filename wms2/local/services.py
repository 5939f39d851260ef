"""Stand-ins for the services of CMS: DBS, Rucio, ReqMgr2 and CRIC, as far as a stack on one machine needs them.

Run as `python -m wms2.local.services HOME PORT`. Each service has its own path: /dbs, /rucio, /reqmgr2 with /couchdb,
/cric. Below /control, which belongs to no service, tests make trouble and do what operators and daemons do.
"""

import gzip
import json
import signal
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx

from wms2.errors import UserError
from wms2.local import process
from wms2.local.catalogue import Catalogue
from wms2.local.cric import QUERY_PATH
from wms2.local.dbs import failure
from wms2.local.journal import Refused
from wms2.local.ports import LOOPBACK
from wms2.local.refusals import RucioFault, RucioRefusal
from wms2.local.reply import BYTES, HTML, STREAM, Reply
from wms2.local.reqmgr2 import COUCH_PATH, REQUEST_PATH
from wms2.local.rucio import Rucio
from wms2.local.trouble import (
    CUT,
    CUT_AFTER,
    CUT_BODY,
    EXISTS,
    SILENCE,
    SLOW,
    STATUS,
    TOKEN,
    Seen,
    Trouble,
    Troubles,
)

PART = "services"
STOP_SIGNAL = signal.SIGTERM
PORTS = ("services",)
LARGEST_BODY = 200_000_000
RUCIO_PATH = "/rucio/"
CONTROL_PATH = "/control/"
PLACES_PATH = "/places"
"""Of no service: by which tests and the demo say where a block lies."""
DBS_STREAM = "application/ndjson"
JSON = "application/json"
ROWS_AT_ONCE = 500
SLOW_PIECES = 10
DAEMONS_SEC = 1.0
"""How often Rucio's daemons run on the local stack."""


class Answers:
    """Which call gets which answer. Knows nothing of HTTP but status numbers."""

    def __init__(
        self, home: Path, daemons_sec: float | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.catalogue = Catalogue(home, clock)
        self.rucio = Rucio(self.catalogue, clock, daemons_sec)
        self.troubles = Troubles()
        self.reads: dict[str, Callable[[dict[str, str]], Any]] = {
            "/health": lambda _: {"status": "ok", "home": str(home)},
            QUERY_PATH: self.catalogue.cric.query,
            **self.catalogue.dbs.reads,
        }

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Of all services but Rucio, which has its own."""
        path = path.rstrip("/")
        if method == "GET" and path in self.reads:
            return self.reads[path](query)
        if path.startswith("/dbs/"):
            return self.catalogue.dbs.write(method, path.removeprefix("/dbs/"), query, body)
        if path == REQUEST_PATH or path.startswith(f"{REQUEST_PATH}/"):
            name = unquote(path.removeprefix(REQUEST_PATH).strip("/"))
            return self.catalogue.reqmgr2.answer(method, name, query, body)
        if (method, path) == ("PUT", PLACES_PATH):
            return self.catalogue.holdings.place(query.get("block", ""), body)
        if path.startswith(CONTROL_PATH):
            return self._control(method, path.removeprefix(CONTROL_PATH), query, body)
        raise Refused(404, f"no such call here: {method} {path}")

    def _control(self, method: str, what: str, query: dict[str, str], body: Any) -> Any:
        match [unquote(part) for part in what.split("/")]:
            case ["rucio", *of_rucio]:
                return self.rucio.control(method, of_rucio, body)
            case ["cric", site] if method == "PUT":
                return self.catalogue.cric.tell(site, body)
        return self.troubles.control(method, what, query, body)


class Handler(BaseHTTPRequestHandler):
    """One call over HTTP."""

    protocol_version = "HTTP/1.1"
    # Else the end of each small answer waits for the client to acknowledge its beginning.
    disable_nagle_algorithm = True
    answers: Answers
    seen: Seen | None = None
    cuts_body = False
    slow_sec = 0.0

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        service = url.path.split("/")[1] if url.path.count("/") > 1 else ""
        self.seen, self.cuts_body, self.slow_sec = None, False, 0.0
        if service in ("", "control"):
            self._act(url.path, url.query, self._read())
            return
        self.seen, trouble = self.answers.troubles.meet(service, self.command, self.path)
        body = self._read()
        if trouble is None or self._goes_on(trouble, url.path, url.query, body):
            self._act(url.path, url.query, body)

    def _goes_on(self, trouble: Trouble, path: str, query: str, body: bytes) -> bool:
        """Make the trouble; whether the call is still to be answered."""
        if trouble.kind == STATUS:
            later = {} if trouble.retry_after is None else {"Retry-After": f"{trouble.retry_after:g}"}
            self._send(trouble.status, b"trouble on demand", "text/plain", later)
        if trouble.kind in (CUT_AFTER, EXISTS):
            self._outcome(path, query, body)
        if trouble.kind == SILENCE:
            time.sleep(trouble.seconds)
        if trouble.kind in (SILENCE, CUT, CUT_AFTER):
            self._cut()
        if trouble.kind == TOKEN:
            self.answers.rucio.expire_tokens()
        self.cuts_body = trouble.kind == CUT_BODY
        self.slow_sec = trouble.seconds if trouble.kind == SLOW else 0
        return trouble.kind not in (STATUS, SILENCE, CUT, CUT_AFTER)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _act(self, path: str, query: str, body: bytes) -> None:
        outcome = self._outcome(path, query, body)
        if isinstance(outcome, Refused):
            self._refuse(outcome, path)
        elif isinstance(outcome, Reply):
            self._reply(outcome)
        elif isinstance(outcome, bytes):
            self._send(200, outcome, "text/plain")
        elif isinstance(outcome, Iterator) and self.headers.get("Accept") == DBS_STREAM:
            self._stream(outcome, DBS_STREAM, {})
        else:
            rows = list(outcome) if isinstance(outcome, Iterator) else outcome
            self._send(200, json.dumps(rows).encode(), JSON)

    def _outcome(self, path: str, query: str, body: bytes) -> Any:
        """What the service answers: something to send, or a refusal."""
        try:
            if path.startswith(COUCH_PATH):
                document = self._parsed(body) if path.count("/") == COUCH_PATH.count("/") else None
                name = path.removeprefix(COUCH_PATH)
                return self.answers.catalogue.reqmgr2.couch(self.command, name, body, document)
            if path.startswith(RUCIO_PATH):
                call = path.removeprefix(RUCIO_PATH) + (f"?{query}" if query else "")
                return self.answers.rucio.reply(self.command, call, self.headers, self._parsed(body, path))
            return self.answers.answer(self.command, path, _query(query), self._parsed(body))
        except Refused as refusal:
            return refusal
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # As the services themselves: what nobody has thought of is 500 and the words of the language.
            return RucioFault(str(error))

    def _read(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            self.close_connection = True
            return b""
        return self.rfile.read(length)

    def _parsed(self, body: bytes, path: str = "") -> Any:
        if int(self.headers.get("Content-Length") or 0) > LARGEST_BODY:
            raise Refused(413, "the body is too large")
        try:
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            return json.loads(body) if body else None
        except (ValueError, EOFError, OSError, zlib.error):
            if path:
                message = "cannot decode json parameter dictionary"
                raise RucioRefusal(400, "ValueError", message) from None
            raise Refused(400, "the body is not JSON") from None

    def _refuse(self, refusal: Refused, path: str) -> None:
        if isinstance(refusal, RucioRefusal):
            self._send(refusal.status, json.dumps(refusal.told).encode(), BYTES, refusal.headers)
        elif path.startswith("/dbs/"):
            told = json.dumps(failure(refusal, self.command, path))
            self._send(refusal.status, told.encode(), JSON)
        elif isinstance(refusal, RucioFault) or path.startswith(RUCIO_PATH):
            self._send(refusal.status, refusal.message.encode(), HTML)
        else:
            told = json.dumps({"error": refusal.message})
            self._send(refusal.status, told.encode(), JSON, refusal.headers)

    def _reply(self, reply: Reply) -> None:
        if reply.rows is None:
            self._send(reply.status, reply.text.encode(), reply.form, reply.headers)
        else:
            self._stream(reply.rows, STREAM, reply.headers)

    def _send(self, status: int, text: bytes, form: str, headers: dict[str, str] | None = None) -> None:
        length = str(len(text))
        self._begin(status, {"Content-Type": form, "Content-Length": length, **(headers or {})})
        self._write([text])

    def _stream(self, rows: Iterator[Any], form: str, headers: dict[str, str]) -> None:
        """A row a line, sent while they are made."""
        zipped = "gzip" in self.headers.get("Accept-Encoding", "")
        encoding = {"Content-Encoding": "gzip"} if zipped else {}
        self._begin(200, {"Content-Type": form, "Transfer-Encoding": "chunked", **encoding, **headers})
        self._write(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in _pieces(rows, zipped))
        if not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        if self.seen is not None:
            self.seen.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _write(self, pieces: Any) -> None:
        for piece in pieces:
            if self.cuts_body:
                self.wfile.write(piece[: len(piece) // 2])
                self.wfile.flush()
                self._cut()
                return
            for part in _parts(piece, SLOW_PIECES if self.slow_sec else 1):
                self.wfile.write(part)
                if self.slow_sec:
                    self.wfile.flush()
                    time.sleep(self.slow_sec / SLOW_PIECES)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the calls that were seen can be asked for."""


def handler_class(answers: Answers) -> type[Handler]:
    class Serving(Handler):
        pass

    Serving.answers = answers
    return Serving


def _query(text: str) -> dict[str, str]:
    """Values by name; those of a name that comes several times are one list, written as JSON."""
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(text):
        values.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else json.dumps(found) for name, found in values.items()}


def _parts(piece: bytes, number: int) -> Iterator[bytes]:
    step = max(1, -(-len(piece) // number))
    for start in range(0, len(piece), step):
        yield piece[start : start + step]


def _pieces(rows: Iterator[Any], zipped: bool) -> Iterator[bytes]:
    """The rows as lines, many in a piece; no piece is empty, which would end the answer."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        text = b"".join(json.dumps(row).encode() + b"\n" for row in some)
        if piece := packer.compress(text) if zipped else text:
            yield piece
    if zipped:
        yield packer.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(home: Path, port: int) -> None:
    """Answer until told to stop by SIGTERM."""
    try:
        answers = Answers(home, DAEMONS_SEC)
    except UserError as error:
        sys.exit(str(error))
    server = Server((LOOPBACK, port), handler_class(answers))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever()


@dataclass(frozen=True)
class Services:
    """The stand-ins as a part of the stack."""

    home: Path
    ports: dict[str, int]

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['services']}"

    def start(self) -> int:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "wms2.local.services",
            self.home,
            str(self.ports[PART]),
        ]
        return process.start(PART, command, self.home)

    def problem(self) -> str | None:
        return services_problem(self.url)


def services_problem(url: str) -> str | None:
    """Why the services cannot be used, or nothing."""
    try:
        # A proxy that the environment names is not asked for this machine's own services.
        answer = httpx.get(f"{url}/health", timeout=5, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"the services at {url} do not answer ({error})"
    return None if answer.is_success else f"the services at {url} answer {answer.status_code}"


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
