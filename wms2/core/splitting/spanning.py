"""Lumi sections that span files: one job must read such a lumi section, with all files that hold a part of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wms2.core.splitting.selection import Span
from wms2.models.lumis import LumiRange


@dataclass(frozen=True, slots=True)
class Spanning:
    """Which lumi sections are in more than one file, and which files they tie together."""

    spans: dict[int, list[Span]]
    """Per run, in order, without overlaps."""
    families: list[list[int]]
    """Numbers of files that are tied together, each family in order; a file on its own is in none."""

    def cut(self, run: int, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
        """A range in pieces, in order: first, last, and whether it is in more than one file."""
        spans = self.spans[run]
        k = bisect_left(spans, first, key=_last)
        while first <= last:
            if k == len(spans) or last < spans[k][0]:
                yield first, last, False
                return
            if first < spans[k][0]:
                yield first, spans[k][0] - 1, False
                first = spans[k][0]
            until = min(last, spans[k][1])
            yield first, until, True
            first, k = until + 1, k + 1


def find_spanning(lumis: Sequence[Sequence[LumiRange]]) -> Spanning:
    """Compare the lumi sections of all files, those of file `k` at place `k`."""
    by_run: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, ranges in enumerate(lumis):
        for run, first, last in ranges:
            by_run[run].append((first, last, number))
    spans: dict[int, list[Span]] = {}
    ties: list[tuple[int, int]] = []
    for run, held in by_run.items():
        if found := _held_twice(sorted(held), ties):
            spans[run] = found
    return Spanning(spans, _families(ties))


def _held_twice(held: list[tuple[int, int, int]], ties: list[tuple[int, int]]) -> list[Span]:
    spans: list[Span] = []
    reached, holder = 0, -1
    for first, last, number in held:
        if first <= reached:
            ties.append((holder, number))
            until = min(last, reached)
            if spans and first <= spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], max(spans[-1][1], until))
            else:
                spans.append((first, until))
        if last > reached:
            reached, holder = last, number
    return spans


def _families(ties: list[tuple[int, int]]) -> list[list[int]]:
    family_of: dict[int, list[int]] = {}
    for one, other in ties:
        mine, theirs = family_of.get(one, [one]), family_of.get(other, [other])
        if mine is theirs:
            continue
        # The smaller joins the larger: so nobody moves often.
        smaller, larger = sorted((mine, theirs), key=len)
        larger.extend(smaller)
        family_of.update(dict.fromkeys(smaller, larger))
        family_of.update({one: larger, other: larger})
    distinct = {id(family): family for family in family_of.values()}
    return sorted(sorted(family) for family in distinct.values())


def _last(span: Span) -> int:
    return span[1]
