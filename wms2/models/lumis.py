"""Lumi sections in a compact form: a dataset has millions of them, in few ranges."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, TypeAdapter

from wms2.models.base import Lumi, LumiNumber, RunNumber

LumiRange = tuple[RunNumber, LumiNumber, LumiNumber]
"""A run, and the first and the last of its lumi sections, inclusive."""

_SINGLE_LUMIS = TypeAdapter(tuple[Lumi, ...])


def joined(ranges: Iterable[LumiRange]) -> tuple[LumiRange, ...]:
    """The same lumi sections in as few ranges as possible, in order, each lumi section once."""
    ordered = sorted(ranges)
    if len(ordered) < 2:
        return tuple(ordered)
    found: list[LumiRange] = []
    for run, first, last in ordered:
        if found and found[-1][0] == run and first <= found[-1][2] + 1:
            if last > found[-1][2]:
                found[-1] = (run, found[-1][1], last)
        else:
            found.append((run, first, last))
    return tuple(found)


def lumi_count(ranges: Iterable[LumiRange]) -> int:
    """How many lumi sections are in ranges that do not overlap."""
    count = 0
    for _, first, last in ranges:
        count += last - first + 1
    return count


def ranges_by_run(ranges: Iterable[LumiRange]) -> dict[str, list[tuple[int, int]]]:
    """Pairs of first and last per run, as lumi masks are written."""
    by_run: dict[str, list[tuple[int, int]]] = {}
    for run, first, last in ranges:
        by_run.setdefault(str(run), []).append((first, last))
    return by_run


def _from_single_lumis(value: Any) -> Any:
    """Catalogues list lumi sections one by one: each a mapping, or a Lumi."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (dict, Lumi)):
        return joined((lumi.run, lumi.lumi, lumi.lumi) for lumi in _SINGLE_LUMIS.validate_python(value))
    return value


def _in_order(ranges: tuple[LumiRange, ...]) -> tuple[LumiRange, ...]:
    for _, first, last in ranges:
        if first > last:
            raise ValueError("expected the first lumi section not to be above the last")
    return joined(ranges) if len(ranges) > 1 else ranges


LumiRanges = Annotated[tuple[LumiRange, ...], BeforeValidator(_from_single_lumis), AfterValidator(_in_order)]
"""In order, joined, each lumi section once; a list of single lumi sections is understood as well."""
