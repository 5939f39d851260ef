"""CRIC, which knows the sites of the experiment."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from wms2.adapters.service import Service
from wms2.errors import Unavailable
from wms2.models.site import CricSite
from wms2.patterns import RSE_NAME, SITE_NAME

QUERY = "api/cms/site/query/"
ACTIVE, INACTIVE = "ACTIVE", "INACTIVE"
PROCESSING = "psn"

Fields = dict[str, Any]


@dataclass(slots=True)
class _Columns:
    columns: list[str]


@dataclass(slots=True)
class _Table:
    """Rows without their column names, which are said once."""

    desc: _Columns
    result: list[list[Any]]


_TABLE = TypeAdapter(_Table)


class Cric(Service):
    """A CRIC server; the URL is that of its host, such as https://cms-cric.cern.ch."""

    name = "CRIC"

    async def sites(self) -> list[CricSite]:
        """The sites where jobs run, active or not, by name."""
        everywhere = await self._rows("site-names", "ANY")
        active = _processing(await self._rows("site-names", ACTIVE))
        rses: dict[str, set[str]] = defaultdict(set)
        for row in await self._rows("data-processing", "ANY"):
            if RSE_NAME.fullmatch(rse := str(row.get("phedex_name"))):
                rses[str(row.get("psn_name"))].add(rse)
        named = _processing(everywhere)
        for what, listed in (("sites", named), ("active sites", active), ("storage", rses)):
            if not listed:
                # Else a mishap there would close all sites here.
                raise Unavailable(f"CRIC at {self._url} lists no {what}")
        return [
            CricSite(
                name=name,
                rses=tuple(sorted(rses.get(name, ()))),
                state=str(fields.get("state") or (ACTIVE if name in active else INACTIVE)),
                tier=int(name[1]),
                slots=_count(fields.get("slots")),
                thresholds=_counts(fields.get("thresholds")),
            )
            for name, fields in sorted(named.items())
        ]

    async def _rows(self, preset: str, state: str) -> list[Fields]:
        query = {"json": "", "preset": preset, "rcsite_state": state}
        table = await self.document(_TABLE, "GET", QUERY, params=query)
        return [dict(zip(table.desc.columns, row, strict=False)) for row in table.result]


def _processing(rows: list[Fields]) -> dict[str, Fields]:
    """What is said of each site where jobs run. Names that no site has are not for us."""
    named = ((str(row.get("alias")), row) for row in rows if row.get("type") == PROCESSING)
    return {name: row for name, row in named if SITE_NAME.fullmatch(name)}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _counts(value: Any) -> dict[str, int]:
    told = value.items() if isinstance(value, dict) else ()
    return {str(name): count for name, number in told if (count := _count(number)) is not None}
