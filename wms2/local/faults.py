"""Faults that a request can ask the demo payload for, so that tests and the demo can see a failure handled.

They are written in a step's parameters: {"faults": [{"node": "proc_000001", "exit_code": 8021, "times": 1}],
"fault_dir": "/a/folder/that/all/jobs/see"}. `node`, `at_site` and `step` say where a fault strikes; left out it is
anywhere, but in a merge only if node or step is "merge". `times` says in how many attempts in all, `runs` in how many
runs of the step inside each attempt; left out it is always.

`until` names a file: the job waits for it first, which lets a test hold a round at a known place; alone it is no
failure. The kinds of failure are

- `exit_code`, with a `message`, and `signal`: how the step ends
- `hang` (waits for ever), `spin` (computes for ever and writes nothing), `eat_memory_mb` and `fill_disk_mb` (takes that
  much, then hangs), each of them with `deaf` if it does not end when asked
- `no_output` (exit code 0 without output), `spoil_output` (exit code 0, and then its files are "lost", "empty" or
  "cut"), and in a merge `lose_event`
- `kill_wrapper`: "first" or "last", when the wrapper dies at once, as on a machine that is lost
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping
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
    runs: int | None = None
    until: str | None = None
    exit_code: int | None = None
    message: str | None = None
    signal: int | None = None
    hang: bool = False
    spin: bool = False
    eat_memory_mb: int = 0
    fill_disk_mb: int = 0
    deaf: bool = False
    no_output: bool = False
    spoil_output: str | None = None
    kill_wrapper: str | None = None
    lose_event: bool = False

    def strikes(self, job: Mapping[str, Any]) -> bool:
        if MERGE in (job["node"], job["step"]) and MERGE not in (self.node, self.step):
            return False
        if self.runs is not None and job.get("repetition", 0) >= self.runs:
            return False
        wanted = {"node": self.node, "site": self.at_site, "step": self.step}
        return all(value is None or job[key] == value for key, value in wanted.items())

    def act(self) -> None:
        """Wait if it says so, then fail if it is that kind of fault; the others show in what the payload leaves out."""
        while self.until is not None and not Path(self.until).exists():
            time.sleep(LOOK_EVERY_SEC)
        if self.kill_wrapper == "first":
            _kill_wrapper()
        if self.deaf:
            for number in (signal.SIGUSR2, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        self._never_end()
        if self.signal is not None:
            os.kill(os.getpid(), signal.Signals(self.signal))
        if self.exit_code is not None:
            error = FaultError(self.exit_code)
            error.args = (self.message,) if self.message else error.args
            raise error

    def _never_end(self) -> None:
        taken = b"x" * (self.eat_memory_mb * 1_000_000)
        if self.fill_disk_mb:
            Path("filled").write_bytes(b"x" * (self.fill_disk_mb * 1_000_000))
        while self.spin:
            pass
        while self.hang or taken or self.fill_disk_mb:
            time.sleep(3600)

    def spoil(self, paths: Iterable[Path]) -> None:
        """When the work is done and reported, do to the files, and to the job, what the fault says."""
        for path in paths:
            if self.spoil_output == "lost":
                path.unlink()
            elif self.spoil_output:
                os.truncate(path, 0 if self.spoil_output == "empty" else path.stat().st_size // 2)
        if self.kill_wrapper == "last":
            _kill_wrapper()


def _kill_wrapper() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def due_fault(job: Mapping[str, Any]) -> Fault | None:
    """The first fault that strikes this job now; one with `times` is used up by its first run in an attempt."""
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
    attempt = f"{job['node']} {job.get('cluster')}"
    for use in range(times):
        mark = folder / f"{job['step']}_fault_{number}_{use}"
        if job.get("repetition", 0):
            if mark.exists() and mark.read_text() == attempt:
                return True
            continue
        try:
            with mark.open("x") as stream:
                stream.write(attempt)
        except FileExistsError:
            continue
        return True
    return False
