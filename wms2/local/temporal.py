"""Temporal: the development server with its database in a file, on loopback."""

import signal
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from wms2.errors import UserError
from wms2.local import process
from wms2.local.ports import LOOPBACK

PART = "temporal"
STOP_SIGNAL = signal.SIGTERM
PORTS = ("temporal", "temporal_ui", "temporal_metrics", "temporal_http")
SEARCH_ATTRIBUTES = {
    "WmsStatus": "Keyword",
    "WmsRequestor": "Keyword",
    "WmsCampaign": "Keyword",
    "WmsSubmitHost": "Keyword",
    "WmsHeldReason": "Keyword",
    "WmsPriority": "Int",
    "WmsRound": "Int",
}


def find_program() -> Path:
    program = Path(sysconfig.get_path("scripts")) / "temporal"
    if not program.exists():
        raise UserError("The temporal program is not installed beside Python: run pip install 'wms2[local]'.")
    return program


@dataclass(frozen=True)
class Temporal:
    """A Temporal server whose database is below `home`."""

    home: Path
    ports: dict[str, int]
    namespace: str = "default"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.ports['temporal']}"

    @property
    def ui(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['temporal_ui']}"

    def command(self) -> list[str | Path]:
        command: list[str | Path] = [find_program(), "server", "start-dev", "--ip", LOOPBACK]
        command += ["--disable-config-file", "--disable-config-env", "--log-level", "warn"]
        command += ["--db-filename", self.home / "temporal" / "temporal.db"]
        command += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"]
        command += ["--namespace", self.namespace]
        options = ("--port", "--ui-port", "--metrics-port", "--http-port")
        for option, name in zip(options, PORTS, strict=True):
            command += [option, str(self.ports[name])]
        for attribute, kind in SEARCH_ATTRIBUTES.items():
            command += ["--search-attribute", f"{attribute}={kind}"]
        return command

    def start(self) -> int:
        (self.home / "temporal").mkdir(exist_ok=True)
        return process.start(PART, self.command(), self.home)

    def problem(self) -> str | None:
        return server_problem(self.address)


def server_problem(address: str) -> str | None:
    """Why the server at that address cannot be used, or nothing."""
    command: list[str | Path] = [find_program(), "operator", "cluster", "health", "--address", address]
    command += ["--disable-config-file", "--disable-config-env"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=15)
    except subprocess.TimeoutExpired:
        return f"Temporal at {address} does not answer"
    return None if "SERVING" in done.stdout else f"Temporal at {address} does not answer"
