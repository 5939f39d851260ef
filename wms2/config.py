"""Settings: what a person configured, and what a running stack has written down about itself.

Every setting is an environment variable with the prefix `WMS2_`. What is not configured comes from `stack.json` in
the state folder, which `wms2 up` writes; so the same command line works on a laptop and on a production host.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from wms2.errors import UserError

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


Folder = Annotated[Path, AfterValidator(_absolute)]
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

    home: Folder = Field(default=Path("~/.local/state/wms2"), validate_default=True)
    """All state of a stack is below this folder."""
    cache: Folder = Field(default=Path("~/.cache/wms2"), validate_default=True)
    """What can be made again: the private HTCondor."""
    submit_root: Folder | None = None
    """Where DAGs are written; `{home}/submit` unless configured."""
    database_url: DatabaseUrl | None = Field(default=None, repr=False)
    temporal_address: str | None = None
    temporal_namespace: str = "default"
    services_url: str | None = None
    condor: Literal["private", "system"] = "private"
    """`system`: the pool that CONDOR_CONFIG or the programs on the PATH offer."""
    condor_config: Folder | None = None
    """The configuration file of a pool to use instead of a private one."""
    condor_bin: Folder | None = None
    """The folder of that pool's programs, where they are not on the PATH."""
    max_dagmans: int = Field(default=500, ge=1)
    """How many DAGMan processes WMS2 may have on this submit host at once."""

    def needed(self, name: Literal["database_url", "temporal_address", "services_url"]) -> str:
        """A setting without which the caller cannot go on."""
        value: str | None = getattr(self, name)
        if value is None:
            raise UserError(f"No {name.replace('_', ' ')}: run `wms2 up`, or set WMS2_{name.upper()}.")
        return value

    def condor_environment(self) -> dict[str, str]:
        """The environment for clients of the pool: which configuration they read, which programs come first."""
        if self.condor_config is None and self.condor == "private":
            raise UserError("No HTCondor pool: run `wms2 up`, or set WMS2_CONDOR_CONFIG.")
        return client_environment(self.condor_config, self.condor_bin)


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
