"""The files that a step wrote: what its report names, held against what is really there."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Sequence

from sandbox import fjr

# ROOT's file header: the word "root", a version, where the records begin and where they end.
_MAGIC = b"root"
_HEADER_BYTES = 20
_LARGE_FILE_VERSION = 1_000_000


@dataclass(frozen=True)
class Product:
    """A file that a step wrote."""

    path: Path
    events: int
    lumis: tuple[fjr.Lumi, ...]


def found(folder: Path, report: fjr.StepReport) -> dict[str, Product]:
    """By module, the files that the report names and that are really there, inside the step's own folder."""
    products: dict[str, Product] = {}
    for entry, path in _named(folder, report):
        if path.is_file() and folder.resolve() in path.parents:
            products[entry.module] = Product(path, entry.events, entry.lumis)
    return products


def fault(folder: Path, report: fjr.StepReport, wanted: Sequence[str]) -> str | None:
    """What is wrong with the files of a step that says it ended well, or None."""
    for entry, path in _named(folder, report):
        wrong = _damage(path, entry.size_bytes)
        if wrong:
            return f"output {path.name} of module {entry.module} {wrong}"
    there = found(folder, report)
    missing = [module for module in wanted if module not in there]
    return f"there is no output of module {missing[0]}" if missing else None


def _named(folder: Path, report: fjr.StepReport) -> Iterator[tuple[fjr.OutputEntry, Path]]:
    for entry in report.outputs:
        name = entry.pfn.replace("file:", "", 1)
        if name and "://" not in name:
            yield entry, (folder / name).resolve()


def _damage(path: Path, told_bytes: int) -> str | None:
    try:
        with path.open("rb") as stream:
            size, header = os.fstat(stream.fileno()).st_size, stream.read(_HEADER_BYTES)
    except OSError as error:
        return f"is in the step's report and cannot be opened: {error.strerror or error}"
    if not size:
        return "is empty"
    needed = max(told_bytes, _end(header))
    return f"is cut off: it has {size} bytes, and should have {needed}" if size < needed else None


def _end(header: bytes) -> int:
    """Where a ROOT file ends by its own account; 0 for any other file."""
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return 0
    large = struct.unpack_from(">i", header, 4)[0] >= _LARGE_FILE_VERSION
    return int(struct.unpack_from(">q" if large else ">i", header, 12)[0])
