"""Faults that a request can ask the demo payload for, so that tests and the demo can see a failure handled.

They are written in a step's parameters: {"faults": [{"node": "proc_000001", "exit_code": 8021, "times": 1}],
"fault_dir": "/a/folder/that/all/jobs/see"}. `node`, `at_site` and `step` say where a fault strikes; left out it is
anywhere, but in a merge only if node or step is "merge". `times` says how often in all; left out it is always.
The kinds are `exit_code`, `signal`, `hang`, `no_output` and, in a merge, `lose_event`. `until` names a file: the job
waits for it first, which lets a test hold a round at a known place; alone it is no failure.
"""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MERGE = "merge"
LOOK_EVERY_SEC = 0.2


class FaultError(Exception):
    """The fault's exit code, on its way into the job report."""

    def __init__(self, code: int) -> None:
        super().__init__(f"a fault that the request asked for, with code {code}")
        self.code = code


@dataclass(frozen=True)
class Fault:
    node: str | None = None
    at_site: str | None = None
    step: str | None = None
    times: int | None = None
    until: str | None = None
    exit_code: int | None = None
    message: str | None = None
    signal: int | None = None
    hang: bool = False
    no_output: bool = False
    lose_event: bool = False

    def strikes(self, job: Mapping[str, Any]) -> bool:
        if MERGE in (job["node"], job["step"]) and MERGE not in (self.node, self.step):
            return False
        wanted = {"node": self.node, "site": self.at_site, "step": self.step}
        return all(value is None or job[key] == value for key, value in wanted.items())

    def act(self) -> None:
        """Wait if it says so, then fail if it is that kind of fault; the others show in what the payload leaves out."""
        while self.until is not None and not Path(self.until).exists():
            time.sleep(LOOK_EVERY_SEC)
        if self.hang:
            while True:
                time.sleep(3600)
        if self.signal is not None:
            os.kill(os.getpid(), signal.Signals(self.signal))
        if self.exit_code is not None:
            error = FaultError(self.exit_code)
            error.args = (self.message,) if self.message else error.args
            raise error


def due_fault(job: Mapping[str, Any]) -> Fault | None:
    """The first fault that strikes this job now; one with `times` is used up by it."""
    parameters = job["parameters"]
    for number, wanted in enumerate(parameters.get("faults", [])):
        fault = Fault(**wanted)
        if fault.strikes(job) and (fault.times is None or _used(job, number, fault.times)):
            return fault
    return None


def _used(job: Mapping[str, Any], number: int, times: int) -> bool:
    """Whether one of the fault's times was left, and is now gone; jobs that ask at the same moment never share one."""
    folder = Path(job["parameters"]["fault_dir"])
    folder.mkdir(parents=True, exist_ok=True)
    for use in range(times):
        try:
            os.close(os.open(folder / f"{job['step']}_fault_{number}_{use}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return True
    return False
