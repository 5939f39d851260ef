"""Fetching Debian packages without installing them, and without root.

apt-get runs on folders of its own and leaves the machine's package state alone. Which mirror it asks is read from
the machine's own apt sources, and what it fetches is verified with the machine's own Debian keyring.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from wms2.errors import UserError

SOURCES = Path("/etc/apt")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INSTEAD = "or name a pool that exists with WMS2_CONDOR_CONFIG"

# Debian's own suites. Third-party archives use other names, other components, or fail the signature check later.
SUITE = re.compile(
    r"(?:buster|bullseye|bookworm|trixie|forky|duke|sid|oldoldstable|oldstable|stable|testing|unstable)"
    r"(?:-updates|-backports|-proposed-updates)?"
)


@dataclass(frozen=True)
class Source:
    """A Debian archive that the machine uses, and the options apt needs to trust it."""

    uri: str
    options: tuple[str, ...] = ()

    def line(self, suite: str) -> str:
        options = f"[{' '.join(self.options)}] " if self.options else ""
        return f"deb {options}{self.uri} {suite} main\n"


def debian_sources(folder: Path = SOURCES) -> list[Source]:
    """The Debian archives that a machine's apt is configured for, the likeliest first, without security archives."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    found: dict[Source, None] = {}
    for file in files:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        parse = parse_sources if file.suffix == ".sources" else parse_list
        found.update(dict.fromkeys(parse(text)))
    return sorted(found, key=lambda source: not urlparse(source.uri).path.rstrip("/").endswith("/debian"))


def parse_list(text: str) -> Iterator[Source]:
    """The archives in one-line form: `deb [options] URI SUITE COMPONENT...`."""
    for raw in text.splitlines():
        match = re.fullmatch(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+)", raw.partition("#")[0].strip())
        if match is None:
            continue
        options, uri, suite, components = match.groups()
        if _is_debian(uri, [suite], components.split()):
            kept = [word for word in (options or "").split() if word.startswith(("signed-by=", "trusted="))]
            yield Source(uri, tuple(kept) or _default_options())


def parse_sources(text: str) -> Iterator[Source]:
    """The archives in deb822 form: paragraphs of `Field: value`, with continuation lines and comments."""
    for paragraph in re.split(r"\n\s*\n", text):
        fields = _fields(paragraph)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        for uri in fields.get("uris", "").split():
            if _is_debian(uri, fields.get("suites", "").split(), fields.get("components", "").split()):
                yield Source(uri, _trust(fields))


def _fields(paragraph: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _trust(fields: dict[str, str]) -> tuple[str, ...]:
    signed_by = fields.get("signed-by", "")
    # A key written into the file itself cannot go on one line; Debian's keyring stands in for it.
    options = [f"signed-by={signed_by}"] if signed_by.startswith("/") and " " not in signed_by else []
    if fields.get("trusted", "").lower() == "yes":
        options.append("trusted=yes")
    return tuple(options) or _default_options()


def _default_options() -> tuple[str, ...]:
    return (f"signed-by={KEYRING}",) if KEYRING.exists() else ()


def _is_debian(uri: str, suites: list[str], components: list[str]) -> bool:
    # Only Debian's own suites count; "stable" as a component, say, is somebody else's archive.
    own = any(SUITE.fullmatch(suite) for suite in suites)
    return own and "main" in components and "security" not in uri and not uri.startswith("cdrom:")


class Apt:
    """apt-get on its own folders below `folder`, for one suite of one archive."""

    def __init__(self, folder: Path, source: Source, suite: str) -> None:
        self.folder = folder
        self.source = source
        for name in ("lists/partial", "cache/archives/partial", "empty", "packages"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(source.line(suite), encoding="utf-8")
        (folder / "apt.conf").write_text(self._configuration(), encoding="utf-8")

    def _configuration(self) -> str:
        settings = {
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": self.folder / "empty",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": self.folder / "empty",
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false",
            "APT::Update::Error-Mode": "any",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "20",
            "Acquire::https::Timeout": "20",
        }
        own = "".join(f'{key} "{value}";\n' for key, value in settings.items())
        return _machine_proxies() + own

    def update(self) -> None:
        self._run("update")

    def planned(self, package: str) -> dict[str, str]:
        """Each package that installing this one would bring onto an empty machine, with its version."""
        plan = self._run("install", "--simulate", package)
        return dict(re.findall(r"^Inst (\S+) \((\S+)", plan, re.MULTILINE))

    def download(self, packages: list[str]) -> list[Path]:
        """The package files, verified."""
        self._run("download", *packages)
        return sorted((self.folder / "packages").glob("*.deb"))

    def _run(self, *arguments: str) -> str:
        environment = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        done = subprocess.run(
            ["apt-get", "--quiet", "--yes", *arguments],
            cwd=self.folder / "packages",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise UserError(
                f"apt-get {shlex.join(arguments[:1])} failed for {self.source.uri}: {_complaint(done.stderr)}"
            )
        return done.stdout


def _machine_proxies() -> str:
    """How this machine reaches its mirrors; the rest of its apt configuration stays out, hooks above all."""
    if shutil.which("apt-config") is None:
        return ""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    wanted = re.compile(r"Acquire::(?:https?|ftp|tor)::\S* \"[^\"]+\";")
    return "".join(f"{line}\n" for line in dump.splitlines() if wanted.fullmatch(line))


def _complaint(stderr: str) -> str:
    lines = [line[2:].strip() for line in stderr.splitlines() if line.startswith("E:")]
    return lines[0] if lines else "no reason given"


def open_archive(folder: Path, suite: str, sources: Path = SOURCES) -> Apt:
    """apt-get with fresh lists of `suite`, from the first of the machine's Debian archives that has it."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UserError(
            f"HTCondor is fetched with apt-get, which is not here: use a Debian machine, {INSTEAD}."
        )
    candidates = debian_sources(sources)
    if not candidates:
        raise UserError(f"The apt sources in {sources} name no Debian archive: add one, {INSTEAD}.")
    complaints = []
    for source in candidates:
        apt = Apt(folder, source, suite)
        try:
            apt.update()
        except UserError as error:
            complaints.append(str(error))
        else:
            return apt
    raise UserError(
        f"No Debian mirror gave the package lists of {suite}: check the network, {INSTEAD} ({complaints[0]})."
    )
