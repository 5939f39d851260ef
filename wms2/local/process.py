"""The processes of a stack: started detached, found again through /proc, stopped by process id.

Each process carries the stack's folder in its environment. That, not a number in a file, says whose it is: a process
id that the system has given away again is never mistaken for ours.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from wms2.errors import UserError

STACK = "WMS2_STACK"
PART = "WMS2_STACK_PART"

# Flags that the kernel shows in /proc/PID/stat.
EXITING, KERNEL_THREAD = 0x4, 0x200000
EMPTY_LOOKS = 3
EXEC_PATIENCE_SEC = 2.0
"""An exec takes microseconds, and on a busy machine a tenth of a second."""

# Processes that this very process started must be waited for by it, or they stay behind as zombies.
_children: dict[int, subprocess.Popen[bytes]] = {}


def start(
    part: str, command: Sequence[str | Path], home: Path, environment: Mapping[str, str] | None = None
) -> int:
    """Start a server of the stack in a session of its own, its output in `{home}/logs/{part}.log`; its process id."""
    log = log_file(home, part)
    log.parent.mkdir(parents=True, exist_ok=True)
    marks = {STACK: str(home), PART: part}
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, **(environment or {}), **marks},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    return child.pid


def log_file(home: Path, part: str) -> Path:
    return home / "logs" / f"{part}.log"


def last_lines(file: Path, count: int) -> list[str]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        return [line.rstrip("\n") for line in deque(lines, maxlen=count)]


def is_running(home: Path, part: str, pid: int | None) -> bool:
    """Whether that process is there, and is this part of this stack."""
    if pid is None:
        return False
    _reap()
    marks = _environment(pid)
    return marks.get(STACK) == str(home) and marks.get(PART) == part


def running(home: Path, part: str | None = None) -> list[int]:
    """Every process of the stack, or of one part of it, with what the servers started themselves."""
    _reap()
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in numbers if pid != os.getpid() and _belongs(pid, home, part)]


def _belongs(pid: int, home: Path, part: str | None) -> bool:
    owner = _part_of(pid, home)
    return owner is not None and part in (None, owner)


def _part_of(pid: int, home: Path) -> str | None:
    marks = _environment(pid)
    if marks.get(STACK) == str(home):
        return marks.get(PART)
    # DAGMan and its scripts have the environment of who submitted the DAG, and one variable that only they have.
    if "_CONDOR_DAGMAN_LOG" in marks and marks.get("CONDOR_CONFIG") == str(home / "condor" / "condor_config"):
        return "condor"
    # PostgreSQL writes its titles over its environment, but each of its processes works in the data folder.
    if _link(pid, "cwd") == home / "postgres" / "data" and _link(pid, "exe").name == "postgres":
        return "postgres"
    return None


def _environment(pid: int) -> dict[str, str]:
    until = time.monotonic() + EXEC_PATIENCE_SEC
    # An exec may begin and end between two looks: an environment is empty when it is so again and again.
    empty = 0
    while True:
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
            program = "settled" if raw else _program(pid)
        except OSError:
            return {}
        empty = 0 if program == "changing" else empty + 1
        if raw or program == "none" or empty == EMPTY_LOOKS or time.monotonic() > until:
            break
        time.sleep(0.002)
    words = (word.decode(errors="replace").partition("=") for word in raw.split(b"\0"))
    return {name: value for name, equals, value in words if equals}


def _program(pid: int) -> Literal["none", "changing", "settled"]:
    """Zombies and threads of the kernel have none; in the middle of an exec there is no environment for a moment."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    state, flags, environment_end = fields[0], int(fields[6]), int(fields[48])
    if state in "ZX" or flags & (EXITING | KERNEL_THREAD):
        return "none"
    return "settled" if environment_end else "changing"


def _link(pid: int, name: str) -> Path:
    try:
        return Path(f"/proc/{pid}/{name}").readlink()
    except OSError:
        return Path()


def _reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def stop(home: Path, part: str, main: int | None, number: signal.Signals, patience: float = 20) -> None:
    """Ask the main process of a part to end, wait until all of it is gone, and kill what is still there."""
    if main is not None and is_running(home, part, main):
        signal_all([main], number)
        wait_until(lambda: not running(home, part), patience)
    sweep(home, part)


def sweep(home: Path, part: str | None = None) -> None:
    """Kill whatever is left of a part, or of the whole stack."""
    left = running(home, part)
    while left:
        signal_all(left, signal.SIGKILL)
        if not wait_until(lambda: not running(home, part), 10):
            raise UserError(
                f"Processes {left} of the stack in {home} cannot be stopped: look at them with ps."
            )
        left = running(home, part)


def wait_until(condition: Callable[[], bool], seconds: float, interval: float = 0.1) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


def as_other_than_root(command: Sequence[str | Path]) -> Sequence[str | Path]:
    """The same command for servers that refuse to be root.

    Root runs them in a user namespace, where they see another user while the files stay root's own.
    """
    if os.geteuid() != 0:
        return command
    return ["unshare", "--user", f"--map-user={STAND_IN_USER}", f"--map-group={STAND_IN_USER}", *command]


# Debian's user "backup": it exists on every Debian machine, and is neither root nor nobody.
STAND_IN_USER = 34


def check_user_namespaces() -> None:
    """Raise unless root can run servers as another user here."""
    if os.geteuid() != 0:
        return
    try:
        done = subprocess.run(as_other_than_root(["true"]), capture_output=True, text=True, check=False)
        complaint = done.stderr.strip()
    except OSError as error:
        done, complaint = None, str(error)
    if done is None or done.returncode != 0:
        raise UserError(
            "PostgreSQL and HTCondor do not run as root, and user namespaces are not available here "
            f"({complaint}): run wms2 as a normal user."
        )
