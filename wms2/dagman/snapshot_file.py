"""The file of a frozen snapshot: a header, then a line for each input file.

It is written and read line by line, and named by the digest of its bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter

from wms2.core.collector import collector_paused
from wms2.dagman.placing import flush_names, partial_name
from wms2.errors import UserError
from wms2.models.base import Count, Model
from wms2.models.plan import InputFile, Snapshot

FileList = Literal["inputs", "attempted"]
"""The lists of files in a snapshot. Each line names its own."""

_LISTS: tuple[FileList, ...] = get_args(FileList)
_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Frozen:
    """A snapshot that will not change any more. The digest is that of the file's bytes."""

    snapshot: Snapshot
    path: Path
    digest: str


class _Header(Model):
    version: Literal[1] = 1
    files: dict[FileList, Count]
    """How many lines of each list follow: a file that lost its end is no snapshot."""
    snapshot: Snapshot
    """Without the input files."""


_FILE = TypeAdapter(InputFile)
_LINES = TypeAdapter(list[tuple[FileList, InputFile]])


def freeze(snapshot: Snapshot, path: Path) -> Frozen:
    """Put a snapshot in place, for good: where one is already, that one holds and is what comes back."""
    with partial_name(path) as partial:
        digest = _write(snapshot, partial)
        try:
            os.link(partial, path)
        except FileExistsError:
            return _read(path)
        flush_names(path.parent)
    return Frozen(snapshot, path, digest)


def read_frozen(path: Path) -> Frozen | None:
    """What was frozen there; None when nothing was. UserError when it cannot be understood."""
    return _read(path) if path.exists() else None


def _write(snapshot: Snapshot, path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for line in _lines(snapshot):
            digest.update(line)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    lists = {name: getattr(snapshot, name) for name in _LISTS}
    header = _Header(files={name: len(files) for name, files in lists.items()}, snapshot=snapshot)
    yield header.model_dump_json(exclude={"snapshot": set[str](_LISTS)}).encode() + b"\n"
    for name, files in lists.items():
        for file in files:
            yield b'["%s",%s]\n' % (name.encode(), _FILE.dump_json(file))


def _read(path: Path) -> Frozen:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file, collector_paused():
            snapshot = _snapshot(_hashed(file, digest.update))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read, or is no snapshot of this version of WMS2; set it aside and plan again"
        ) from error
    return Frozen(snapshot, path, digest.hexdigest())


def _hashed(lines: Iterable[bytes], update: Callable[[bytes], object]) -> Iterator[bytes]:
    for line in lines:
        update(line)
        yield line


def _snapshot(lines: Iterator[bytes]) -> Snapshot:
    header = _Header.model_validate_json(next(lines, b""))
    lists: dict[FileList, list[InputFile]] = {name: [] for name in _LISTS}
    while some := list(islice(lines, _LINES_AT_ONCE)):
        for name, file in _LINES.validate_json(b"[%s]" % b",".join(some)):
            lists[name].append(file)
    if {name: len(files) for name, files in lists.items()} != header.files:
        raise ValueError("there are more or fewer files than the header says")
    return Snapshot.model_validate(dict(header.snapshot) | lists)
