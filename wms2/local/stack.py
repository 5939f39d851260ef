"""The local stack as a whole: started, looked at and stopped, all of it below one folder.

A part that is configured elsewhere (WMS2_DATABASE_URL, WMS2_TEMPORAL_ADDRESS, WMS2_SERVICES_URL,
WMS2_CONDOR_CONFIG) is used as it is, and never started or stopped from here.
"""

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from wms2.config import RECORD, Settings, StackRecord, configured_settings, load_settings
from wms2.core.plain import plain_line
from wms2.errors import UserError
from wms2.local import pool, postgres, process, services, temporal, worker
from wms2.local.pool import Pool
from wms2.local.ports import LOOPBACK, is_free, listeners, listening, pick_port, sockets_of
from wms2.local.postgres import Postgres
from wms2.local.prefix import Say, ensure_prefix, find_prefix
from wms2.local.services import Services
from wms2.local.sites import SITES
from wms2.local.temporal import Temporal
from wms2.local.worker import Worker

# In the order in which they are stopped: who uses another part goes first.
PARTS = (pool.PART, services.PART, temporal.PART, postgres.PART)
# The worker is there only when it was asked for. It uses all others, so it starts last and stops first.
WORKER = worker.PART
PORTS: dict[str, tuple[str, ...]] = {
    pool.PART: pool.PORTS,
    services.PART: services.PORTS,
    temporal.PART: temporal.PORTS,
    postgres.PART: postgres.PORTS,
    worker.PART: worker.PORTS,
}
STOP_SIGNALS = {
    pool.PART: pool.STOP_SIGNAL,
    services.PART: services.STOP_SIGNAL,
    temporal.PART: temporal.STOP_SIGNAL,
    postgres.PART: postgres.STOP_SIGNAL,
    worker.PART: worker.STOP_SIGNAL,
}
# All that a stack keeps in its folder. Nothing else there is ever touched.
LOCK = ".lock"
STATE = (*PARTS, "logs", "siteconf", "storage", "submit", RECORD, LOCK)
START_SECONDS = 180
PORT_TRIES = 5
PORT_PATIENCE = 2


class Part(Protocol):
    """A server of the stack."""

    def start(self) -> int:
        """Start it, when nothing of it is running; its process id."""

    def problem(self) -> str | None:
        """Why it cannot be used yet, or nothing."""


@dataclass(frozen=True)
class PartState:
    """How one part is doing."""

    name: str
    state: str
    pid: int | None
    address: str
    problem: str | None

    @property
    def is_well(self) -> bool:
        return self.problem is None


def silent(_: str) -> None:
    """For callers that want no progress messages."""


class Stack:
    """The stack in a state folder; without a folder, in the one that is configured."""

    def __init__(self, home: Path | None = None, say: Say = silent) -> None:
        self.settings = configured_settings(home)
        self.home = self.settings.home
        self.say = say
        self.record = StackRecord.read(self.home)

    def configured_elsewhere(self) -> dict[str, str]:
        """The parts that are not this stack's own, with where they are."""
        settings = self.settings
        places = {
            pool.PART: str(settings.condor_config or ("the system's" if settings.condor == "system" else "")),
            services.PART: settings.services_url or "",
            temporal.PART: settings.temporal_address or "",
            postgres.PART: "WMS2_DATABASE_URL" if settings.database_url else "",
        }
        return {name: place for name, place in places.items() if place}

    def own_parts(self) -> list[str]:
        elsewhere = self.configured_elsewhere()
        return [name for name in PARTS if name not in elsewhere]

    def part(self, name: str) -> Part:
        """That part as it was recorded. Making the pool this way needs its prefix to be there."""
        makers: dict[str, Callable[[], Part]] = {
            pool.PART: self.pool,
            services.PART: lambda: Services(self.home, self.record.ports),
            temporal.PART: lambda: Temporal(self.home, self.record.ports, self.settings.temporal_namespace),
            postgres.PART: lambda: Postgres(self.home, self.record.ports),
            worker.PART: self._worker,
        }
        return makers[name]()

    def _worker(self) -> Worker:
        address = self.settings.temporal_address or self.record.temporal_address or ""
        return Worker(self.home, address, self.settings.temporal_namespace, self.record.pids.get(worker.PART))

    def pool(self) -> Pool:
        """The private pool."""
        recorded = self.record.condor_bin.parent if self.record.condor_bin else None
        prefix = recorded or find_prefix(self.settings.cache)
        if prefix is None or "condor" not in self.record.ports:
            raise UserError("There is no private HTCondor pool yet: run `wms2 up`.")
        return Pool(self.home, prefix, self.record.ports["condor"], tuple(self.record.sites or SITES))

    def is_running(self, name: str) -> bool:
        return process.is_running(self.home, name, self.record.pids.get(name))

    def up(self, sites: Sequence[str] | None = None, *, with_worker: bool = False) -> None:
        """Start what is not running, and wait until everything answers.

        A worker that was asked for stays asked for until the stack is stopped.
        """
        self._make_home()
        with self._alone():
            self.record = StackRecord.read(self.home)
            self._choose_sites(sites)
            self._forget_foreign_parts()
            if {pool.PART, postgres.PART} & set(self.own_parts()):
                process.check_user_namespaces()
            if pool.PART in self.own_parts():
                self.record.condor_bin = ensure_prefix(self.settings.cache, self.say) / "bin"
            started = [name for name in self.own_parts() if self._launch(name)]
            for name in self.own_parts():
                self._await(name, just_started=name in started)
            self._describe()
            self._prepare_database()
            if with_worker or self.has_worker():
                self._await(WORKER, just_started=self._launch(WORKER))

    def has_worker(self) -> bool:
        return WORKER in self.record.pids

    def _make_home(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9/_.,+@=-]+", str(self.home)):
            raise UserError(
                f"The state folder {str(self.home)!r} has blanks or signs in its path: choose a plainer one."
            )
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            if other := self._other_thing():
                raise UserError(
                    f"{self.home} holds other things ({other}): give the stack a folder of its own."
                )
            self.home.chmod(0o700)
        except OSError as error:
            raise UserError(
                f"The state folder {self.home} cannot be made ({error.strerror}): set WMS2_HOME."
            ) from None

    def _other_thing(self) -> str | None:
        """What somebody else has in the folder; where a stack was ever made there is its record, or at least its lock.

        Names say little: others have a folder for logs, too.
        """
        names = sorted(path.name for path in self.home.iterdir())
        strange = [name for name in names if name not in STATE]
        if RECORD in names or (LOCK in names and not strange):
            return None
        return next(iter([*strange, *names]), None)

    def _choose_sites(self, sites: Sequence[str] | None) -> None:
        chosen = list(sites or self.record.sites or SITES)
        if self.is_running(pool.PART) and chosen != self.record.sites:
            raise UserError("The pool is running with other sites: run `wms2 down` first.")
        self.record.sites = chosen

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One `up` or `down` at a time for each stack."""
        with (self.home / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say("Another process is starting or stopping this stack: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _forget_foreign_parts(self) -> None:
        for name in self.configured_elsewhere():
            if self.is_running(name):
                raise UserError(
                    f"{name} of this stack is running but configured elsewhere now: run `wms2 down` first."
                )
            self.record.pids.pop(name, None)

    def _launch(self, name: str) -> bool:
        if self.is_running(name):
            self.say(f"{name} is running")
            return False
        was_there = name in self.record.pids
        # What outlived its main process would keep its ports and its files.
        process.sweep(self.home, name)
        self._choose_ports(name)
        self.say(f"{name} is dead: starting it again" if was_there else f"Starting {name}")
        self.record.pids[name] = self.part(name).start()
        self.record.write(self.home)
        return True

    def _choose_ports(self, name: str) -> None:
        """Ports are kept from one start to the next, unless somebody else has taken them."""
        ports = self.record.ports
        for port_name in PORTS[name]:
            kept = ports.get(port_name)
            # A process that was killed a moment ago may still be closing its sockets.
            if kept is None or not process.wait_until(partial(is_free, kept), PORT_PATIENCE):
                ports[port_name] = pick_port(list(ports.values()))

    def _await(self, name: str, just_started: bool) -> None:
        for _ in range(PORT_TRIES if just_started else 1):
            if self._comes_up(name):
                return
            if not self._lost_a_port(name):
                break
            self.say(f"Another program took a port of {name}: trying another")
            self._stop(name)
            self._choose_ports(name)
            self.record.pids[name] = self.part(name).start()
            self.record.write(self.home)
        log = process.log_file(self.home, name)
        problem = self.part(name).problem() or "it listens nowhere"
        if not self.is_running(name) and (said := process.last_lines(log, 1)):
            problem = f"its last words were: {plain_line(said[0])}"
        raise UserError(
            f"{name} did not come up, {problem} (`wms2 logs {name}` shows more; its log is {log})."
        )

    def _comes_up(self, name: str) -> bool:
        part = self.part(name)

        def is_decided() -> bool:
            if not self.is_running(name) or self._lost_a_port(name):
                return True
            return self._listens(name) and part.problem() is None

        process.wait_until(is_decided, START_SECONDS, interval=0.1)
        return self.is_running(name) and self._listens(name) and part.problem() is None

    def _listens(self, name: str) -> bool:
        """Whether it is this stack's own server that has the ports, and not another stack's."""
        places = listening(process.running(self.home, name))
        return all((LOOPBACK, self.record.ports[port]) in places for port in PORTS[name])

    def _lost_a_port(self, name: str) -> bool:
        """Whether somebody else listens where this part should."""
        wanted = {self.record.ports[port] for port in PORTS[name]}
        # First who listens, then which are ours: a server that begins to listen meanwhile is not taken for another.
        there = {inode for inode, (_, port) in listeners().items() if port in wanted}
        return bool(there - sockets_of(process.running(self.home, name)))

    def _describe(self) -> None:
        """Write down where everything is, for the commands that use it."""
        record, own = self.record, self.own_parts()
        server = Temporal(self.home, record.ports)
        record.temporal_address = server.address if temporal.PART in own else None
        record.temporal_ui = server.ui if temporal.PART in own else None
        record.services_url = Services(self.home, record.ports).url if services.PART in own else None
        record.database_url = Postgres(self.home, record.ports).url if postgres.PART in own else None
        record.condor_config = self.pool().config_file if pool.PART in own else None
        record.condor_bin = record.condor_bin if pool.PART in own else None
        record.write(self.home)

    def _prepare_database(self) -> None:
        if postgres.PART in self.own_parts():
            Postgres(self.home, self.record.ports).ensure_database()
        # alembic takes half a second to import, and only this one needs it.
        from wms2.db.migrate import upgrade

        upgrade(self.settings.database_url or self.record.database_url or "")

    def down(self) -> None:
        """Stop everything and leave no process; the state stays."""
        if not self.home.exists():
            return
        if other := self._other_thing():
            raise UserError(
                f"{self.home} holds other things ({other}) and no stack: name the stack's with --home or WMS2_HOME."
            )
        with self._alone():
            self.record = StackRecord.read(self.home)
            for name in (WORKER, *PARTS):
                self._stop(name)
            process.sweep(self.home)
            if self.record.pids:
                self.record.pids = {}
                self.record.write(self.home)

    def _stop(self, name: str) -> None:
        if process.running(self.home, name):
            self.say(f"Stopping {name}")
            process.stop(self.home, name, self.record.pids.get(name), STOP_SIGNALS[name])

    def purge(self) -> None:
        """Remove all state of a stack that is down; what others put into its folder stays."""
        if process.running(self.home):
            raise UserError(f"The stack in {self.home} is running: stop it with `wms2 down` first.")
        for name in STATE:
            path = self.home / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if self.home.exists() and not any(self.home.iterdir()):
            self.home.rmdir()

    def states(self) -> list[PartState]:
        elsewhere = self.configured_elsewhere()
        asked = [WORKER] if self.has_worker() else []
        own = [self._own_state(name) for name in (*self.own_parts(), *asked)]
        others = [PartState(name, "configured", None, place, None) for name, place in elsewhere.items()]
        return sorted(own + others, key=lambda state: state.name)

    def _own_state(self, name: str) -> PartState:
        ports = [self.record.ports[port] for port in PORTS[name] if port in self.record.ports]
        address = f"{LOOPBACK}:{ports[0]}" if ports else ""
        if not self.is_running(name):
            return PartState(name, "stopped", None, address, f"{name} is not running: run `wms2 up`")
        problem = self.part(name).problem()
        state = "running" if problem is None else "not ready"
        return PartState(name, state, self.record.pids[name], address, problem)


def start_stack(
    home: Path, sites: Sequence[str] = SITES, say: Say = silent, *, with_worker: bool = False
) -> Settings:
    """Start a stack in that folder, or what is dead of it; the settings with which to use it."""
    Stack(home, say).up(sites, with_worker=with_worker)
    return load_settings(home)


def stop_stack(home: Path, say: Say = silent) -> None:
    """Stop the stack in that folder. Its state stays."""
    Stack(home, say).down()
