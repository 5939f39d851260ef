"""What of its input dataset a request wants: blocks, runs and lumi sections."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from wms2.models.lumis import LumiRange, joined
from wms2.models.plan import InputFile
from wms2.models.request import Request

Span = tuple[int, int]
"""First and last lumi section of one run, inclusive."""


class Selection:
    """The block lists, run lists and the lumi mask of a request. A run that a mask does not name is not wanted."""

    def __init__(self, request: Request) -> None:
        self._blocks = frozenset(request.block_whitelist)
        self._no_blocks = frozenset(request.block_blacklist)
        self._runs = frozenset(request.run_whitelist)
        self._no_runs = frozenset(request.run_blacklist)
        self._mask = {
            int(run): [(first, last) for _, first, last in joined((int(run), *span) for span in spans)]
            for run, spans in request.lumi_mask.items()
        }
        self.by_block = bool(self._blocks or self._no_blocks)
        self.by_lumi = bool(self._runs or self._no_runs or self._mask)

    def takes_block(self, block: str) -> bool:
        return block not in self._no_blocks and (not self._blocks or block in self._blocks)

    def takes_run(self, run: int) -> bool:
        return (
            run not in self._no_runs
            and (not self._runs or run in self._runs)
            and (not self._mask or run in self._mask)
        )

    def excludes(self, file: InputFile) -> bool:
        """Whether the file certainly holds nothing that is wanted; one of unknown content may hold some."""
        if file.block is not None and not self.takes_block(file.block):
            return True
        return bool(file.lumis) and not self.part(file.lumis)

    def part(self, lumis: tuple[LumiRange, ...]) -> tuple[LumiRange, ...]:
        """The wanted ones of a file's lumi sections."""
        if not self.by_lumi:
            return lumis
        return tuple(span for span in self.walk(lumis) if span[1] <= span[2])

    def walk(self, lumis: tuple[LumiRange, ...]) -> Sequence[LumiRange]:
        """The wanted lumi sections; for a wanted run without any, a range that ends before it begins."""
        if not self.by_lumi:
            return lumis
        found: list[LumiRange] = []
        for run, of_run in groupby(lumis, itemgetter(0)):
            if self.takes_run(run):
                ranges = list(of_run)
                chosen = _common(ranges, self._mask[run]) if self._mask else ranges
                found.extend(chosen or [(run, 1, 0)])
        return found


def _common(ranges: Sequence[LumiRange], mask: Sequence[Span]) -> list[LumiRange]:
    """The lumi sections that are in both; all in order and without overlaps."""
    found: list[LumiRange] = []
    for run, first, last in ranges:
        k = bisect_left(mask, first, key=itemgetter(1))
        while k < len(mask) and mask[k][0] <= last:
            found.append((run, max(first, mask[k][0]), min(last, mask[k][1])))
            k += 1
    return found
