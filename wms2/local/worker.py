"""The worker as a part of the stack: `wms2 worker run`, started and stopped with the servers that it uses."""

import json
import signal
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from wms2.errors import UserError
from wms2.local import process, temporal
from wms2.temporal.queues import WORKFLOWS

PART = "worker"
STOP_SIGNAL = signal.SIGTERM
PORTS = ()


def find_program() -> Path:
    program = Path(sysconfig.get_path("scripts")) / "wms2"
    if not program.exists():
        raise UserError("The wms2 program is not installed beside Python: run pip install wms2.")
    return program


@dataclass(frozen=True)
class Worker:
    """A worker that serves the stack in `home`; `pid` is its process once it runs."""

    home: Path
    temporal_address: str
    namespace: str
    pid: int | None = None

    def start(self) -> int:
        return process.start(PART, [find_program(), PART, "run"], self.home, {"WMS2_HOME": str(self.home)})

    def problem(self) -> str | None:
        """It is ready when it asks Temporal for work: a process alone says nothing."""
        command: list[str | Path] = [temporal.find_program(), "task-queue", "describe", "--output", "json"]
        command += ["--task-queue", WORKFLOWS, "--namespace", self.namespace]
        command += ["--address", self.temporal_address, "--disable-config-file", "--disable-config-env"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=15)
            pollers = json.loads(done.stdout)["pollers"] or []
        except (subprocess.TimeoutExpired, ValueError, KeyError):
            return "Temporal does not tell who works for it"
        # The SDK names each poller by its process.
        asking = any(str(poller["identity"]).startswith(f"{self.pid}@") for poller in pollers)
        return None if asking else "the worker does not ask Temporal for work"
