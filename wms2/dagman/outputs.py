"""Which work units of a round are complete on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.models.merge_output import MergeOutput

MERGE_OUTPUT_FILE = "merge_output.json"


def read_merge_output(folder: Path, planned: RoundFile, unit: RoundUnit) -> MergeOutput | None:
    """The unit's output; None when it is missing, invalid, or that of another unit."""
    try:
        output = MergeOutput.model_validate_json((folder / unit.name / MERGE_OUTPUT_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    named = (output.request, output.round, output.work_unit)
    return output if named == (planned.request, planned.round, unit.number) else None


def produced_units(
    folder: Path, planned: RoundFile, among: Iterable[RoundUnit] | None = None
) -> Iterator[tuple[RoundUnit, MergeOutput]]:
    """Units that are complete on disk: all such, or those of some. Stateless: it can start from nothing."""
    for unit in planned.work_units if among is None else among:
        if output := read_merge_output(folder, planned, unit):
            yield unit, output
