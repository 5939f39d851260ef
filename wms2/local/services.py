"""Stand-ins for the services of CMS: DBS, ReqMgr2 and CRIC, as far as a stack on one machine needs them.

Run as `python -m wms2.local.services HOME PORT`. Each service has its own path: /dbs, /reqmgr2, /cric.
"""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx

from wms2.local import process
from wms2.local.catalogue import Catalogue, Refused
from wms2.local.ports import LOOPBACK
from wms2.local.sites import siteconf_root

PART = "services"
STOP_SIGNAL = signal.SIGTERM
PORTS = ("services",)
LARGEST_BODY = 200_000_000
REQUEST_PATH = "/reqmgr2/data/request/"


class Site:
    """What CRIC says of a site, made from the stack's own site configuration."""

    def __init__(self, home: Path) -> None:
        self.root = siteconf_root(home)

    def query(self) -> dict[str, Any]:
        names = sorted(path.name for path in self.root.iterdir()) if self.root.exists() else []
        return {
            name: {"name": name, "tier_level": int(name[1]), "state": "ACTIVE", "rses": [name]}
            for name in names
        }


class Answers:
    """Which call gets which answer. Knows nothing of HTTP but status numbers."""

    def __init__(self, home: Path) -> None:
        (home / "services").mkdir(exist_ok=True)
        self.catalogue = Catalogue(home / "services" / "catalogue.json")
        self.sites = Site(home)
        self.reads: dict[str, Callable[[dict[str, str]], Any]] = {
            "/health": lambda _: {"status": "ok", "home": str(home)},
            "/dbs/datasets": self.catalogue.datasets,
            "/dbs/blocks": self.catalogue.blocks,
            "/dbs/files": self.catalogue.files,
            "/dbs/filelumis": self.catalogue.file_lumis,
            "/cric/api/cms/site/query": lambda _: self.sites.query(),
        }

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        path = path.rstrip("/")
        if path.startswith("/rucio"):
            raise Refused(501, "the local stack has no Rucio yet")
        if method == "GET" and path in self.reads:
            return self.reads[path](query)
        if path.startswith(REQUEST_PATH):
            return self._request(method, unquote(path.removeprefix(REQUEST_PATH)), body)
        if (method, path) == ("POST", "/dbs/bulkblocks"):
            return self.catalogue.insert_block(body)
        if (method, path) == ("PUT", "/dbs/datasets"):
            return self.catalogue.set_dataset(query)
        raise Refused(404, f"no such call here: {method} {path}")

    def _request(self, method: str, name: str, body: Any) -> Any:
        if method == "GET":
            return self.catalogue.request(name)
        if method == "PUT" and isinstance(body, dict):
            return self.catalogue.put_request(name, body)
        raise Refused(400, "a request is read with GET and changed with PUT of a JSON object")


def failure(refusal: Refused, method: str, path: str) -> Any:
    """A refusal in the words of the service: DBS has a form of its own."""
    if not path.startswith("/dbs/"):
        return {"error": refusal.message}
    error = {"reason": refusal.message, "message": "", "function": path, "code": refusal.code}
    return [
        {
            "error": error,
            "http": {"method": method, "code": refusal.status, "path": path},
            "exception": refusal.status,
            "type": "HTTPError",
            "message": f"DBSError Code:{refusal.code} Function:{path} Error: {refusal.message}",
        }
    ]


def handler_class(answers: Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def _serve(self) -> None:
            url = urlsplit(self.path)
            try:
                answer = answers.answer(self.command, url.path, dict(parse_qsl(url.query)), self._body())
                self._reply(200, answer)
            except Refused as refusal:
                self._reply(refusal.status, failure(refusal, self.command, url.path))

        def _body(self) -> Any:
            length = int(self.headers.get("Content-Length") or 0)
            if length > LARGEST_BODY:
                self.close_connection = True
                raise Refused(413, "the body is too large")
            try:
                return json.loads(self.rfile.read(length)) if length else None
            except ValueError:
                raise Refused(400, "the body is not JSON") from None

        def _reply(self, status: int, content: Any) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(home: Path, port: int) -> None:
    """Answer until told to stop by SIGTERM."""
    server = Server((LOOPBACK, port), handler_class(Answers(home)))
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
