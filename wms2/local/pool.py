"""An HTCondor pool of one machine, on loopback, with a partitionable slot for each site."""

import fcntl
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wms2.config import client_environment
from wms2.errors import UserError
from wms2.local import process
from wms2.local.sites import SITES, siteconf_root, write_sites

PART = "condor"
# Jobs are ended at once; what is queued stays queued.
STOP_SIGNAL = signal.SIGQUIT
PORTS = ("condor",)
DOMAIN = "wms2.local"
CORES_PER_SITE = 8
MEMORY_PER_SITE_MB = 24_000
DAGMAN_LIMIT = 1000
DAEMONS = ("Collector", "Negotiator", "Scheduler")

# The order of the settings is that of a job's way: who may talk, who runs, matching, starting, DAGMan, records.
CONFIGURATION = """\
RELEASE_DIR = {prefix}
BIN = {prefix}/bin
SBIN = {prefix}/sbin
LIB = {prefix}/lib
LIBEXEC = {prefix}/libexec
LOCAL_DIR = {folder}
LOG = {logs}
SPOOL = {folder}/spool
EXECUTE = {folder}/execute
LOCK = {folder}/lock
RUN = {folder}/run
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
USER_CONFIG_FILE =
CONDOR_IDS = {ids}

CONDOR_HOST = 127.0.0.1:{port}
COLLECTOR_HOST = 127.0.0.1:{port}
SHARED_PORT_PORT = {port}
USE_SHARED_PORT = True
DAEMON_SOCKET_DIR = auto
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
NETWORK_HOSTNAME = {domain}
UID_DOMAIN = {domain}
FILESYSTEM_DOMAIN = {domain}
TRUST_UID_DOMAIN = True
SCHEDD_NAME = wms2
COLLECTOR_BOOTSTRAP_SSL_CERTIFICATE = False
SEC_PASSWORD_DIRECTORY = {folder}/secrets
SEC_TOKEN_DIRECTORY = {folder}/secrets
SEC_TOKEN_SYSTEM_DIRECTORY = {folder}/secrets
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
SEC_CLIENT_AUTHENTICATION_METHODS = FS
ALLOW_READ = {owner}@{domain}
ALLOW_WRITE = {owner}@{domain}
ALLOW_DAEMON = {owner}@{domain}
ALLOW_NEGOTIATOR = {owner}@{domain}
ALLOW_ADMINISTRATOR = {owner}@{domain}
QUEUE_SUPER_USERS = {owner}

DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, SHARED_PORT
MASTER_BACKOFF_CONSTANT = 1
MASTER_BACKOFF_CEILING = 10
SHUTDOWN_FAST_TIMEOUT = 10
# Each start of a job asks every plugin what it can do; an empty list makes the starter crash.
FILETRANSFER_PLUGINS = {prefix}/libexec/data_plugin
# Before a job begins its starter asks the shadow for advice; when that one is not ready for it, both wait five seconds.
GUIDANCE_MUMS_THE_WORD = True
JAVA =
DOCKER =
SINGULARITY =
HIBERNATION_PLUGIN =
BASE_CGROUP =
STARTD_DETECT_GPUS = False
RunBenchmarks = False
CREATE_CORE_FILES = False

NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
# Work spreads over the sites instead of filling the first one.
NEGOTIATOR_PRE_JOB_RANK = 1000000 * (RemoteOwner =?= UNDEFINED) + Cpus
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
PERIODIC_EXPR_INTERVAL = 5
MAX_PERIODIC_EXPR_INTERVAL = 10
UPDATE_INTERVAL = 30
POLLING_INTERVAL = 2
CLAIM_WORKLIFE = 3600
# A job whose machine went down with the stack is given up within a minute, not after forty.
JOB_DEFAULT_LEASE_DURATION = 60
JOB_START_DELAY = 0
JOB_START_COUNT = 100
MAX_JOBS_RUNNING = 2000
START_SCHEDULER_UNIVERSE = TotalSchedulerJobsRunning < {dagmans}
SCHEDULER_UNIVERSE_COOL_DOWN_DURATION = 0

DAGMAN_USE_STRICT = 0
DAGMAN_USER_LOG_SCAN_INTERVAL = 1
DAGMAN_MAX_SUBMITS_PER_INTERVAL = 1000
DAGMAN_QUEUE_UPDATE_INTERVAL = 2

ENABLE_HISTORY_ROTATION = True
MAX_HISTORY_LOG = 50000000
MAX_HISTORY_ROTATIONS = 2
MAX_DEFAULT_LOG = 10 Mb
MAX_NUM_DEFAULT_LOG = 1
# One machine's queue: it survives any process, and the disk is not asked to confirm each line.
CONDOR_FSYNC = False

# A site on this list takes no job and loses those it has, as if it had vanished.
WMS2_SITES_OFF =
include : {folder}/sites_off.config
WMS2_SITE_IS_OFF = stringListMember(MY.GLIDEIN_CMSSite, "$(WMS2_SITES_OFF)")
START = !$(WMS2_SITE_IS_OFF)
PREEMPT = $(WMS2_SITE_IS_OFF)
SUSPEND = False
WANT_SUSPEND = False
WANT_VACATE = False
KILL = True
MAXJOBRETIREMENTTIME = 0
CLAIM_PARTITIONABLE_LEFTOVERS = True

NUM_CPUS = {cpus}
MEMORY = {memory}
WMS2_SitesOff = "$(WMS2_SITES_OFF)"
STARTD_ATTRS = $(STARTD_ATTRS) GLIDEIN_CMSSite WMS2_SitesOff
SYSTEM_JOB_MACHINE_ATTRS = $(SYSTEM_JOB_MACHINE_ATTRS) GLIDEIN_CMSSite
STARTER_JOB_ENVIRONMENT = "{environment}"
"""

SLOT = """
SLOT_TYPE_{number} = cpus={cores}, mem={memory}
SLOT_TYPE_{number}_PARTITIONABLE = True
NUM_SLOTS_TYPE_{number} = 1
SLOT{number}_GLIDEIN_CMSSite = "{site}"
"""


@dataclass(frozen=True)
class Pool:
    """A pool below `home`, made of the programs in `prefix`, reached at `port` on loopback."""

    home: Path
    prefix: Path
    port: int
    sites: tuple[str, ...] = SITES

    @property
    def folder(self) -> Path:
        return self.home / "condor"

    @property
    def config_file(self) -> Path:
        return self.folder / "condor_config"

    @property
    def bin_folder(self) -> Path:
        return self.prefix / "bin"

    def configuration(self) -> str:
        """The text of the pool's configuration file."""
        head = CONFIGURATION.format(
            prefix=self.prefix,
            folder=self.folder,
            logs=self.home / "logs" / "condor",
            ids="0.0" if os.geteuid() == 0 else f"{os.geteuid()}.{os.getegid()}",
            port=self.port,
            domain=DOMAIN,
            owner=_owner(),
            dagmans=DAGMAN_LIMIT,
            cpus=CORES_PER_SITE * len(self.sites),
            memory=MEMORY_PER_SITE_MB * len(self.sites),
            environment=self._job_environment(),
        )
        slots = [
            SLOT.format(number=number, cores=CORES_PER_SITE, memory=MEMORY_PER_SITE_MB, site=site)
            for number, site in enumerate(self.sites, start=1)
        ]
        return head + "".join(slots)

    def _job_environment(self) -> str:
        """What a worker node of the site gives its jobs, and the marks by which a stack knows its processes."""
        values = {
            "WMS2_SITECONFIG_ROOT": str(siteconf_root(self.home)),
            "WMS2_SOFTWARE_PYTHON": sys.executable,
            process.STACK: str(self.home),
            process.PART: PART,
        }
        return " ".join(f"{name}='{value}'" for name, value in values.items())

    def environment(self) -> dict[str, str]:
        """What a client of the pool needs in its environment."""
        return client_environment(self.config_file, self.bin_folder)

    def prepare(self) -> None:
        """Write the configuration and the sites' folders. What was queued stays queued."""
        for name in ("spool", "execute", "lock", "run", "secrets"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "secrets").chmod(0o700)
        (self.home / "logs" / "condor").mkdir(parents=True, exist_ok=True)
        write_sites(self.home, self.sites)
        self._write_sites_off(self.sites_off())
        self.config_file.write_text(self.configuration(), encoding="utf-8")

    def start(self) -> int:
        """Start the daemons; the process id of their master."""
        self.prepare()
        command: list[str | Path] = [
            self.prefix / "sbin/condor_master",
            "-f",
            "-pidfile",
            self.folder / "master.pid",
        ]
        return process.start(PART, process.as_other_than_root(command), self.home, self.environment())

    def missing(self) -> list[str]:
        """What does not answer yet: daemons and sites, by name."""
        return missing_parts(self.environment(), self.sites)

    def problem(self) -> str | None:
        missing = self.missing()
        return f"HTCondor is not complete ({', '.join(missing)} missing)" if missing else None

    def sites_off(self) -> list[str]:
        """The sites that have vanished."""
        try:
            text = (self.folder / "sites_off.config").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return text.partition("=")[2].replace(",", " ").split()

    def vanish_site(self, site: str) -> None:
        """Let a site lose its jobs and take no more, until it returns. The others go on."""
        if site not in self.sites:
            raise UserError(f"{site} is not a site of this pool: it has {', '.join(self.sites)}.")
        self._change_sites_off(lambda off: off | {site})

    def return_site(self, site: str) -> None:
        self._change_sites_off(lambda off: off - {site})

    def _change_sites_off(self, change: Callable[[set[str]], set[str]]) -> None:
        """Returns when the pool itself says so. One change at a time, or one would undo another."""
        with (self.folder / "sites_off.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            off = change(set(self.sites_off()))
            self._write_sites_off(sorted(off))
            done = run_client(["condor_reconfig", "-startd"], self.environment())
            if done.returncode != 0:
                raise UserError(f"The pool did not read its configuration again: {done.stderr.strip()}")
            if not process.wait_until(lambda: self._sites_known_off() == off, 20):
                raise UserError("The pool did not take its sites' new state: see the log of its startd.")

    def _sites_known_off(self) -> set[str]:
        """The sites that the pool itself holds to be off; each slot says the same."""
        command = ["condor_status", "-constraint", "PartitionableSlot", "-autoformat", "WMS2_SitesOff"]
        answers = run_client(command, self.environment()).stdout.split("\n")[: len(self.sites)]
        return {"?"} if len(set(answers)) != 1 else {site for site in answers[0].split(",") if site}

    def _write_sites_off(self, sites: Sequence[str]) -> None:
        file = self.folder / "sites_off.config"
        new = file.with_suffix(".new")
        new.write_text(f"WMS2_SITES_OFF = {','.join(sites)}\n", encoding="utf-8")
        new.replace(file)


def _owner() -> str:
    """Whom the daemons see when the owner of the stack talks to them."""
    return pwd.getpwuid(process.STAND_IN_USER if os.geteuid() == 0 else os.geteuid()).pw_name


def run_client(
    command: Sequence[str | Path], environment: dict[str, str], seconds: float = 20
) -> "subprocess.CompletedProcess[str]":
    """Run a client of the pool. One that is not there or never answers counts as failed, with its reason."""
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not on the PATH")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer in {seconds:.0f} seconds")


def missing_parts(environment: dict[str, str], sites: Sequence[str]) -> list[str]:
    """What of a pool does not answer: daemons and sites, by name."""
    done = run_client(
        ["condor_status", "-any", "-json", "-attributes", "MyType,GLIDEIN_CMSSite"], environment
    )
    if done.returncode != 0:
        return ["Collector"]
    ads = json.loads(done.stdout or "[]")
    there = {ad.get("MyType") for ad in ads} | {ad.get("GLIDEIN_CMSSite") for ad in ads}
    return [name for name in (*DAEMONS, *sites) if name not in there]


def job_limit(environment: dict[str, str]) -> int | None:
    """How many jobs of one owner the schedd takes, as its configuration is now; nothing if any number."""
    answer = run_client(
        ["condor_config_val", "-schedd", "MAX_JOBS_PER_OWNER", "MAX_JOBS_SUBMITTED"], environment
    )
    if answer.returncode != 0:
        raise UserError("The schedd does not tell its limits: see whether it is running with `wms2 status`.")
    return min((int(line) for line in answer.stdout.split() if line.isdigit()), default=None)


def dagman_limit(environment: dict[str, str]) -> int | None:
    """How many DAGMan processes the schedd lets run at once, as its configuration is now; nothing if any number."""
    answer = run_client(["condor_config_val", "-schedd", "START_SCHEDULER_UNIVERSE"], environment)
    if answer.returncode != 0:
        raise UserError("The schedd does not tell its limits: see whether it is running with `wms2 status`.")
    limit = re.search(r"TotalSchedulerJobsRunning\s*<\s*(\d+)", answer.stdout)
    return int(limit[1]) if limit else None
