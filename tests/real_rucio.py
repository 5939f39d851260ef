"""A real Rucio server on loopback: its own virtual environment, a database in the stack's PostgreSQL, and its daemons.

It is started once in a test run, by whoever asks first, and ends with the stack that it belongs to.
"""

import fcntl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import create_engine, text

from tests.clients import locked_python, run_client
from tests.patience import PATIENCE_SEC
from tests.rucio_calls import log_in
from wms2.config import Settings
from wms2.local import process
from wms2.local.ports import LOOPBACK, listening
from wms2.local.rucio import ACCOUNT, PASSWORD, USER

RESOURCES = Path(__file__).parent / "resources" / "rucio"
PART = DATABASE = "rucio"
ROOT = "root"
RSES = ("T1_US_FNAL_Disk", "T1_US_FNAL_Tape", "T2_US_Purdue", "T2_DE_DESY", "T2_CH_CERN")
START_SEC = 180.0
LOOK_SEC = 0.1


@dataclass(frozen=True)
class RealRucio:
    """A server that runs, and what an operator of Rucio can do there."""

    url: str
    home: Path
    python: Path

    @contextmanager
    def client(self, account: str = ROOT) -> Iterator[httpx.Client]:
        """A client that has logged in."""
        with httpx.Client(base_url=f"{self.url}/", trust_env=False, timeout=PATIENCE_SEC) as client:
            log_in(client, account, USER, PASSWORD)
            yield client

    def run_daemon(self, name: str, *options: str) -> None:
        """Let a daemon do what there is to do, and end."""
        program = self.python.with_name(f"rucio-{name}")
        run_client([str(program), "--run-once", *options], environment(self.home))

    def judge(self) -> None:
        """Rules take in what was attached after they were made."""
        self.run_daemon("judge-evaluator", "--did-limit", "10000")

    def end_transfers(self, rse: str, lfns: Iterable[str], state: str = "A") -> None:
        """As after a transfer: the files are there, or could not be copied (`U`)."""
        files = [{"scope": "cms", "name": lfn, "state": state} for lfn in lfns]
        with self.client() as client:
            client.put("replicas", json={"rse": rse, "files": files}).raise_for_status()


def environment(home: Path) -> dict[str, str]:
    """What Rucio's programs need besides the usual."""
    return {"RUCIO_HOME": str(home), "PYTHONPATH": str(RESOURCES / "policy"), "PYTHONDONTWRITEBYTECODE": "1"}


def rucio_python() -> Path:
    """The Python that has Rucio's server; making it takes two minutes, once."""
    return locked_python("rucio-server", RESOURCES / "server.lock")


def start_rucio(stack: Settings) -> RealRucio:
    """The Rucio of a stack. Whoever comes first starts it, the others wait for that."""
    home, python = stack.home / PART, rucio_python()
    home.mkdir(exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = home / "url"
        if not ready.exists():
            # Of somebody who began and failed.
            process.sweep(stack.home, PART)
            _configure(stack, home)
            run_client(
                [str(python), str(python.parents[1] / "rucio" / "tools" / "bootstrap.py")], environment(home)
            )
            rucio = RealRucio(_serve(stack.home, home, python), home, python)
            _furnish(rucio)
            ready.write_text(rucio.url, encoding="utf-8")
    return RealRucio(ready.read_text(encoding="utf-8"), home, python)


def _configure(stack: Settings, home: Path) -> None:
    """A database of its own, and the files that tell Rucio of it."""
    url = stack.needed("database_url")
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))
        connection.execute(text(f"CREATE DATABASE {DATABASE}"))
    server.dispose()
    values = {
        "home": home,
        "database": f"{url.rpartition('/')[0]}/{DATABASE}",
        "user": USER,
        "password": PASSWORD,
    }
    for folder in ("etc", "log"):
        (home / folder).mkdir(exist_ok=True)
    for name in ("rucio.cfg", "alembic.ini"):
        content = (RESOURCES / name).read_text(encoding="utf-8")
        for key, value in values.items():
            content = content.replace(f"{{{key}}}", str(value))
        (home / "etc" / name).write_text(content, encoding="utf-8")


def _serve(stack_home: Path, home: Path, python: Path) -> str:
    """Start the server on a port that the system chooses; its URL, when it answers."""
    command = [python.with_name("gunicorn"), "--no-control-socket", "--workers", "2", "--threads", "4"]
    command += ["--timeout", "120", "--bind", f"{LOOPBACK}:0", "rucio.web.rest.main:application"]
    process.start(PART, command, stack_home, environment(home))
    until = time.monotonic() + START_SEC
    while time.monotonic() < until:
        for address, port in listening(process.running(stack_home, PART)):
            url = f"http://{address}:{port}"
            if _answers(url):
                return url
        time.sleep(LOOK_SEC)
    log = process.log_file(stack_home, PART)
    raise AssertionError(f"Rucio did not come up:\n{log.read_text(encoding='utf-8')}")


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ping", trust_env=False, timeout=PATIENCE_SEC).is_success
    except httpx.TransportError:
        return False


def _furnish(rucio: RealRucio) -> None:
    """The scope, the account and the storage that the stand-in has."""
    domain = {"read": 1, "write": 1, "delete": 1}
    protocol = {
        "impl": "rucio.rse.protocols.mock.Default", "scheme": "mock", "hostname": "storage", "port": 1, "prefix": "/",
        "domains": {"lan": domain, "wan": domain},
    }  # fmt: skip
    identity = {"authtype": "USERPASS", "identity": USER, "password": PASSWORD, "email": "wms2@example.org"}
    calls = [
        (f"accounts/{ACCOUNT}", {"type": "SERVICE", "email": "wms2@example.org"}),
        (f"accounts/{ACCOUNT}/identities", identity),
        # What the experiment's own policy grants to its production account.
        (f"accounts/{ACCOUNT}/attr/admin", {"key": "admin", "value": "true"}),
        ("scopes/root/cms", {}),
    ]
    for rse in RSES:
        calls += [
            (f"rses/{rse}", {"deterministic": True, "volatile": False}),
            (f"rses/{rse}/attr/tier", {"value": rse[1]}),
            (f"rses/{rse}/attr/country", {"value": rse[3:5]}),
            (f"rses/{rse}/protocols/mock", protocol),
            *((f"accounts/{account}/limits/local/{rse}", {"bytes": 10**15}) for account in (ROOT, ACCOUNT)),
        ]
    calls += [
        (f"rses/{one}/distances/{other}", {"distance": 1}) for one in RSES for other in RSES if one != other
    ]
    with rucio.client() as client:
        for path, body in calls:
            answer = client.post(path, json=body)
            assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
