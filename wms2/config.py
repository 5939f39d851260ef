"""Settings: what a person configured, and what a running stack has written down about itself.

Every setting is an environment variable with the prefix `WMS2_`. What is not configured comes from `stack.json` in
the state folder, which `wms2 up` writes; so the same command line works on a laptop and on a production host.
"""

import os
import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, Field, IPvAnyAddress, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from wms2.core.decisions import Policy
from wms2.errors import UserError
from wms2.models.base import PositiveNumber
from wms2.models.request import RequestStatus
from wms2.patterns import MailAddress

RECORD = "stack.json"


def _absolute(path: Path) -> Path:
    # Without symbolic links: a stack is known by the path of its folder, which must have one spelling.
    return path.expanduser().resolve()


def _psycopg_url(url: str) -> str:
    """SQLAlchemy's own name for the driver that is installed; people write the plain one."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError("expected postgresql://user:password@host:port/database")
    return f"postgresql+psycopg://{rest}"


def _as_given(path: Path) -> Path:
    # With symbolic links: who renews a file may make a new one and let the link name it.
    return path.expanduser().absolute()


def _not_final(status: RequestStatus) -> RequestStatus:
    if status.is_final:
        raise ValueError(f"{status} is final, and lasts for good")
    return status


OpenStatus = Annotated[RequestStatus, AfterValidator(_not_final)]
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
RenewedPath = Annotated[Path, AfterValidator(_as_given)]
DatabaseUrl = Annotated[str, AfterValidator(_psycopg_url)]


class StackRecord(BaseModel):
    """What a local stack knows about itself: `stack.json` in its state folder, readable by its owner only."""

    sites: list[str] = []
    ports: dict[str, int] = {}
    pids: dict[str, int] = {}
    database_url: str | None = Field(default=None, repr=False)
    temporal_address: str | None = None
    temporal_ui: str | None = None
    services_url: str | None = None
    condor_config: Path | None = None
    condor_bin: Path | None = None

    @classmethod
    def read(cls, home: Path) -> "StackRecord":
        """The record in that state folder; an empty one where no stack was ever started."""
        try:
            return cls.model_validate_json((home / RECORD).read_bytes())
        except FileNotFoundError:
            return cls()
        except PermissionError:
            raise UserError(
                f"{home / RECORD} belongs to someone else: name your own folder with WMS2_HOME."
            ) from None
        except ValidationError:
            raise UserError(f"{home / RECORD} is damaged: remove it and run `wms2 up`.") from None

    def write(self, home: Path) -> None:
        new = home / f".{RECORD}.new"
        new.touch(mode=0o600)
        new.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        new.replace(home / RECORD)


class Settings(BaseSettings):
    """Where everything is. `load_settings` makes one."""

    model_config = SettingsConfigDict(env_prefix="WMS2_", extra="ignore")

    home: AbsolutePath = Field(default=Path("~/.local/state/wms2"), validate_default=True)
    """All state of a stack is below this folder."""
    cache: AbsolutePath = Field(default=Path("~/.cache/wms2"), validate_default=True)
    """What can be made again: the private HTCondor."""
    submit_root: AbsolutePath | None = None
    """Where DAGs are written; `{home}/submit` unless configured."""
    database_url: DatabaseUrl | None = Field(default=None, repr=False)
    temporal_address: str | None = None
    temporal_namespace: str = "default"
    temporal_tls_ca: AbsolutePath | None = None
    """The file of the authority that signed Temporal's certificate; without one, those of the machine are trusted."""
    temporal_tls_cert: AbsolutePath | None = None
    """The file of the certificate by which Temporal knows WMS2."""
    temporal_tls_key: AbsolutePath | None = None
    """The file of its key, where that is another."""
    temporal_server_name: str | None = None
    """The name in Temporal's certificate, where the address has another."""
    temporal_api_key: SecretStr | None = None
    temporal_api_key_file: AbsolutePath | None = None
    """The file that holds the API key; it keeps the key out of the environment."""
    services_url: str | None = None
    certificate: AbsolutePath | None = None
    """The file of the client certificate or proxy for all services; it is read again when it changes."""
    key: AbsolutePath | None = None
    """The file of its key, where that is another."""
    token_file: AbsolutePath | None = None
    """The file of a bearer token for all services, where there is no certificate; read again when it changes."""
    dbs_url: str | None = None
    """The stand-in at `{services_url}/dbs` unless configured; so are the three others."""
    reqmgr2_url: str | None = None
    imports: Literal["off", "on"] = "off"
    """Whether what ReqMgr2 has assigned to WMS2 is taken on by itself. `off`: only what a person imports."""
    reqmgr2_every_min: int = Field(default=5, ge=1, le=24 * 60)
    """How often ReqMgr2 is asked for new requests, and told how far the others are."""
    cric_url: str | None = None
    dbs_calls_per_sec: float = Field(default=100, gt=0)
    """How many calls of DBS a second a worker may make with its planners, for all requests; so the three others."""
    rucio_calls_per_sec: float = Field(default=100, gt=0)
    reqmgr2_calls_per_sec: float = Field(default=10, gt=0)
    cric_calls_per_sec: float = Field(default=5, gt=0)
    rucio_url: str | None = None
    rucio_auth_url: str | None = None
    """Where Rucio's tokens are made, if not at the same URL."""
    rucio_account: str = "wms2"
    rucio_user: str | None = None
    """Who logs in with the password; the account unless configured."""
    rucio_password: str | None = Field(default=None, repr=False)
    rucio_certificate: AbsolutePath | None = None
    """The file of another certificate or proxy for Rucio alone; it wins over a password."""
    rucio_key: AbsolutePath | None = None
    """The file of its key, where that is another."""
    job_proxy: RenewedPath | None = None
    """The file where another program renews the proxy that jobs carry; without one they carry none."""
    job_token: RenewedPath | None = None
    """The same for a token."""
    condor: Literal["private", "system"] = "private"
    """`system`: the pool that CONDOR_CONFIG or the programs on the PATH offer."""
    condor_config: AbsolutePath | None = None
    """The configuration file of a pool to use instead of a private one."""
    condor_bin: AbsolutePath | None = None
    """The folder of that pool's programs, where they are not on the PATH."""
    max_dagmans: int = Field(default=500, ge=1)
    """How many DAGMan processes WMS2 may have on this submit host at once."""
    host_silence_min: int = Field(default=15, ge=2, le=24 * 60)
    """How long a worker may not be heard of before its submit host gets no new work, and somebody is told."""
    nodes_per_round: int = Field(default=10_000, ge=1)
    """How many nodes the DAG of one round may have; what does not fit waits for the next round."""
    jobs_per_work_unit: int = Field(default=100, ge=1, le=10_000)
    """How many jobs may be merged together, whatever the size of their outputs."""
    target_job_sec: int = Field(default=8 * 3600, ge=1)
    """How long a job should take."""
    block_files: int = Field(default=500, ge=1)
    """How many files a block of an output dataset may hold."""
    block_bytes: int = Field(default=2 * 10**12, ge=1)
    block_lumis: int = Field(default=50_000, ge=1, le=100_000)
    block_hours: float = Field(default=24, gt=0)
    """For how long a block stays open: its files are in DBS when it is closed."""
    placement_hours: float = Field(default=24, ge=0)
    """How long a block waits for somebody to want it elsewhere; then it stays where it was made."""
    transfer_stuck_hours: float = Field(default=24, ge=0)
    """How long Rucio may be stuck with a transfer of an output before somebody is told."""
    prefetch_stuck_hours: float = Field(default=24, ge=0)
    """How long Rucio may be stuck with an input that is fetched before the request is held."""
    recovery_dir: AbsolutePath | None = None
    """The folder of the scripts that failure handlers of requests may name; without one they name none."""
    same_failures: int = Field(default=5, ge=2)
    """When so many first nodes of a round all fail for good with the same exit code, the round is aborted."""
    error_hold_threshold: float = Field(default=0.2, gt=0, le=1)
    """The failed part of a round's work units that holds a request which does not decide it itself."""
    error_max_rescue_attempts: int = Field(default=3, ge=0, le=100)
    """How often a round of such a request is rescued before it is held."""
    site_ban_failure_ratio: float = Field(default=0.5, ge=0, lt=1)
    """A site that fails more than this part of what a DAG ran there is banned for its request."""
    site_ban_min_failures: int = Field(default=3, ge=1)
    """It must have failed so often."""
    site_ban_promotion_threshold: int = Field(default=3, ge=1)
    """A site that so many requests are kept away from is banned for all."""
    site_ban_duration_days: float = Field(default=7, gt=0, le=3650)
    """How long such a ban lasts."""
    time_limits_hours: dict[OpenStatus, PositiveNumber] = {}
    """How long requests may be in a status, where that is not what `wms2.core.time_limits` has."""
    max_versions: int = Field(default=5, ge=1)
    """How many versions of a request there may be, the first one and its restarts."""
    notify: Literal["off", "on"] = "off"
    """Whether people are told what happens. `off`: nothing is written down for them, and nothing is sent."""
    contacts: AbsolutePath | None = None
    """The file that says who is told of what, see `wms2.models.contacts`."""
    notify_every_min: int = Field(default=10, ge=1, le=24 * 60)
    """How often digests are sent."""
    notify_tries: int = Field(default=20, ge=1, le=1000)
    """How often a digest is tried before it is given up."""
    smtp_host: str | None = None
    """The server that takes mails."""
    smtp_port: int | None = Field(default=None, ge=1, le=65535)
    """Its port; the usual one of its kind of security unless configured."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str | None = None
    """Who logs in there; nobody unless configured."""
    smtp_password: str | None = Field(default=None, repr=False)
    smtp_sender: MailAddress | None = None
    """Whom the mails are from."""
    metrics_address: IPvAnyAddress = IPv4Address("127.0.0.1")
    """Where metrics are served for Prometheus: only for this machine unless configured."""
    log_format: Literal["text", "json"] = "text"
    """How workers, the REST service and the metrics write their logs."""
    traces_url: Annotated[str, Field(pattern="^https?://")] | None = None
    """Where traces are sent by OTLP over HTTP, such as http://localhost:4318/v1/traces; nowhere unless configured."""

    @property
    def secrets(self) -> frozenset[str]:
        """What no log may show: settings that are never shown themselves, passwords in their URLs, a key in a file."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        hidden = (found[name] for name, field in type(self).model_fields.items() if field.repr is False)
        values = {value for value in hidden if isinstance(value, str)}
        values |= {value.get_secret_value() for value in found.values() if isinstance(value, SecretStr)}
        values |= _words_in(self.temporal_api_key_file)
        passwords = {urlsplit(value).password or "" for value in values if "://" in value}
        return frozenset(values | passwords | {unquote(password) for password in passwords}) - {""}

    @property
    def failure_policy(self) -> Policy:
        """What becomes of rounds with failures, of requests that do not decide it themselves."""
        return Policy(hold_threshold=self.error_hold_threshold, max_rescues=self.error_max_rescue_attempts)

    api_config: AbsolutePath | None = None
    """The file that says where the REST service listens, who is let in and what they may do."""
    api_url: str | None = None
    """The address of a REST service: requests are then asked for and acted on through it, not through the servers."""

    @property
    def has_reqmgr2(self) -> bool:
        """Whether requests can come from a ReqMgr2, or from the stand-in for it."""
        return self.reqmgr2_url is not None or self.services_url is not None

    def needed(self, name: Literal["database_url", "temporal_address", "services_url"]) -> str:
        """A setting without which the caller cannot go on."""
        value: str | None = getattr(self, name)
        if value is None and self.api_url is not None:
            raise UserError(
                "this does not go through the REST service and needs the servers' own settings: "
                f"set WMS2_{name.upper()}, or do it on a host that has them"
            )
        if value is None:
            raise UserError(f"No {name.replace('_', ' ')}: run `wms2 up`, or set WMS2_{name.upper()}.")
        return value

    def condor_environment(self) -> dict[str, str]:
        """The environment for clients of the pool: which configuration they read, which programs come first."""
        if self.condor_config is None and self.condor == "private":
            raise UserError("No HTCondor pool: run `wms2 up`, or set WMS2_CONDOR_CONFIG.")
        return client_environment(self.condor_config, self.condor_bin)


def _words_in(path: Path | None) -> set[str]:
    """What a file of one secret holds. One that cannot be read hides nothing; who needs it says what is wrong."""
    try:
        return set() if path is None else {path.read_text(encoding="ascii").strip()}
    except (OSError, UnicodeDecodeError):
        return set()


def client_environment(condor_config: Path | None, bin_folder: Path | None) -> dict[str, str]:
    environment = dict(os.environ)
    if condor_config is not None:
        environment["CONDOR_CONFIG"] = str(condor_config)
    if bin_folder is not None:
        path = environment.get("PATH", os.defpath)
        environment["PATH"] = f"{bin_folder}:{bin_folder.parent / 'sbin'}:{path}"
    return environment


def configured_settings(home: Path | None = None) -> Settings:
    """What was configured, and nothing that a stack wrote."""
    try:
        settings = Settings() if home is None else Settings(home=home)
    except SettingsError as error:
        # Its own sentence names the field and nothing of the value.
        field = re.search(r'field "(\w+)"', str(error))
        raise UserError(
            f"The settings are wrong: WMS2_{field[1].upper() if field else ''} is no JSON."
        ) from None
    except ValidationError as error:
        mistakes = "; ".join(
            f"WMS2_{str(mistake['loc'][0]).upper()}: {mistake['msg'].removeprefix('Value error, ')}"
            for mistake in error.errors()
        )
        raise UserError(f"The settings are wrong: {mistakes}.") from None
    if settings.submit_root is None:
        settings.submit_root = settings.home / "submit"
    return settings


def load_settings(home: Path | None = None) -> Settings:
    """What was configured, completed with what the stack in the state folder says about itself."""
    settings = configured_settings(home)
    record = StackRecord.read(settings.home)
    names = ["database_url", "temporal_address", "services_url"]
    if settings.condor == "private" and settings.condor_config is None:
        names += ["condor_config", "condor_bin"]
    missing = {name: getattr(record, name) for name in names if getattr(settings, name) is None}
    return settings.model_copy(update=missing)
