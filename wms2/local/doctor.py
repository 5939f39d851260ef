"""What is wrong with this machine or with the stack on it, and how to mend it."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wms2.config import Settings, load_settings
from wms2.errors import UserError
from wms2.local import pool, postgres, process, services, temporal
from wms2.local.outside import ASK, asked
from wms2.local.ports import listening
from wms2.local.prefix import bindings_version, find_prefix
from wms2.local.stack import WORKER, Stack
from wms2.models.plan import CONCURRENT_WORK_UNITS

ENOUGH_DISK = 5_000_000_000
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. The message of a failed one says what is wrong and how to mend it."""

    name: str
    is_well: bool
    message: str


class Doctor:
    """Looks at everything that a stack needs, whether it is up or not."""

    def __init__(self, home: Path | None) -> None:
        self.stack = Stack(home)
        self.settings: Settings = load_settings(home)
        self.own = self.stack.own_parts()

    def checks(self) -> Iterator[Check]:
        looks: dict[str, Callable[[], str]] = {
            "python": self._python,
            "disk": self._disk,
            "user namespaces": self._user_namespaces,
            "temporal program": self._temporal_program,
            "postgres program": self._postgres_program,
            "condor programs": self._condor_programs,
            "postgres": self._postgres,
            "temporal": self._temporal,
            "services": self._services,
            **{name: partial(asked, name, self.settings) for name in ASK},
            "worker": self._worker,
            "condor": self._condor,
            "sites": self._sites,
            "dagman limit": self._dagman_limit,
            "job limit": self._job_limit,
            "loopback": self._loopback,
        }
        for name, look in looks.items():
            try:
                yield Check(name, True, look())
            except UserError as error:
                yield Check(name, False, str(error))

    def _python(self) -> str:
        if sys.version_info < OLDEST_PYTHON:
            raise UserError(f"Python {sys.version.split()[0]} is too old: use 3.11 or newer.")
        return f"{sys.version.split()[0]} in {sys.prefix}"

    def _disk(self) -> str:
        folder = self.stack.home
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < ENOUGH_DISK:
            raise UserError(
                f"Only {free / 1e9:.1f} GB are free in {folder}: make room, or set WMS2_HOME elsewhere."
            )
        return f"{free / 1e9:.0f} GB free in {folder}"

    def _user_namespaces(self) -> str:
        if os.geteuid() != 0 or not {pool.PART, postgres.PART} & set(self.own):
            return "not needed"
        process.check_user_namespaces()
        return "root can run servers as another user"

    def _temporal_program(self) -> str:
        return str(temporal.find_program()) if temporal.PART in self.own else "not needed"

    def _postgres_program(self) -> str:
        return str(postgres.find_programs() / "postgres") if postgres.PART in self.own else "not needed"

    def _condor_programs(self) -> str:
        if pool.PART in self.own:
            prefix = find_prefix(self.settings.cache)
            if prefix is None:
                raise UserError(
                    "The private HTCondor is not made yet: `wms2 up` makes it, in about ten seconds."
                )
            return str(prefix)
        version = pool.run_client(["condor_version"], self.settings.condor_environment()).stdout
        found = re.search(r"CondorVersion: (\S+)", version)
        if found is None:
            raise UserError(
                "The programs of HTCondor are not on the PATH: install them, or set WMS2_CONDOR_BIN."
            )
        if found[1].split(".")[0] != bindings_version().split(".")[0]:
            raise UserError(
                f"HTCondor is {found[1]}, its Python bindings are {bindings_version()}: use one version."
            )
        return found[1]

    def _running(self, name: str) -> None:
        if name in self.own and not self.stack.is_running(name):
            raise UserError(f"{name} is not running: run `wms2 up`.")

    def _postgres(self) -> str:
        self._running(postgres.PART)
        _raise(postgres.database_problem(self.settings.needed("database_url")), "postgres", self.own)
        return "answers"

    def _temporal(self) -> str:
        self._running(temporal.PART)
        address = self.settings.needed("temporal_address")
        _raise(temporal.server_problem(address), "temporal", self.own)
        return f"answers at {address}"

    def _services(self) -> str:
        self._running(services.PART)
        url = self.settings.needed("services_url")
        _raise(services.services_problem(url), "services", self.own)
        return f"answer at {url}"

    def _worker(self) -> str:
        """Nothing of a request happens without one, and the servers do not miss it."""
        if not self.stack.has_worker():
            return "none is a part of this stack: `wms2 up --worker` or `wms2 worker run` starts one"
        if not self.stack.is_running(WORKER):
            raise UserError("worker is not running: run `wms2 up`.")
        _raise(self.stack.part(WORKER).problem(), WORKER, [WORKER])
        return "asks Temporal for work"

    def _condor(self) -> str:
        self._running(pool.PART)
        missing = pool.missing_parts(self.settings.condor_environment(), [])
        if missing:
            raise UserError(f"The pool's {', '.join(missing)} does not answer: {_mend('condor', self.own)}.")
        return "collector, negotiator and schedd answer"

    def _sites(self) -> str:
        self._running(pool.PART)
        if pool.PART not in self.own:
            return "not looked at: the pool is configured elsewhere"
        missing = self.stack.pool().missing()
        if missing:
            raise UserError(
                f"{', '.join(missing)} has no slot: run `wms2 logs StartLog`, then `wms2 down` and `wms2 up`."
            )
        off = self.stack.pool().sites_off()
        if off:
            file = self.stack.pool().folder / "sites_off.config"
            raise UserError(
                f"{', '.join(off)} is switched off: run `wms2 down`, remove {file}, run `wms2 up`."
            )
        return ", ".join(self.stack.pool().sites)

    def _dagman_limit(self) -> str:
        """Every running request needs a DAGMan, and one more for each of its work units that run at once."""
        self._running(pool.PART)
        limit = pool.dagman_limit(self.settings.condor_environment())
        wanted = self.settings.max_dagmans
        if limit is not None and limit < wanted:
            raise UserError(
                f"The schedd runs at most {limit} DAGMan processes and WMS2 may start {wanted}: "
                "raise START_SCHEDULER_UNIVERSE there, or lower WMS2_MAX_DAGMANS."
            )
        return f"WMS2 may start {wanted} DAGMan processes, the schedd allows {limit or 'any number'}"

    def _job_limit(self) -> str:
        """All slots that fit on the host, with all their work units, each with all its jobs in the queue."""
        self._running(pool.PART)
        limit = pool.job_limit(self.settings.condor_environment())
        slots = self.settings.max_dagmans // (1 + CONCURRENT_WORK_UNITS)
        wanted = self.settings.max_dagmans + slots * CONCURRENT_WORK_UNITS * self.settings.jobs_per_work_unit
        if limit is not None and limit < wanted:
            raise UserError(
                f"The schedd takes at most {limit} jobs and WMS2 may have {wanted} there: raise MAX_JOBS_PER_OWNER "
                "or MAX_JOBS_SUBMITTED there, or lower WMS2_MAX_DAGMANS or WMS2_JOBS_PER_WORK_UNIT."
            )
        return f"WMS2 may have {wanted} jobs in the queue, the schedd takes {limit or 'any number'}"

    def _loopback(self) -> str:
        places = listening(process.running(self.stack.home))
        outside = sorted(f"{address}:{port}" for address, port in places if not address.startswith("127."))
        if outside:
            raise UserError(
                f"The stack listens beyond this machine at {', '.join(outside)}: run `wms2 down`, then `wms2 up`."
            )
        return f"{len(places)} ports, all on 127.0.0.1" if places else "nothing listens"


def _raise(problem: str | None, name: str, own: list[str]) -> None:
    if problem is not None:
        raise UserError(f"{problem[0].upper()}{problem[1:]}: {_mend(name, own)}.")


def _mend(name: str, own: list[str]) -> str:
    return f"run `wms2 logs {name}`" if name in own else "start it, or correct its WMS2_ setting"
