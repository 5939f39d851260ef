"""The stand-in for CRIC: the sites of the stack and their storage, as the presets of its site query give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wms2.local.journal import Journal, Record, Refused
from wms2.local.storage import TAPE, Storage, rses_of

QUERY_PATH = "/cric/api/cms/site/query"
ACTIVE = "ACTIVE"
Row = list[Any]


class Cric:
    """What CRIC says of sites. What a test said of a site wins over the stack's own configuration."""

    def __init__(self, journal: Journal, storage: Storage) -> None:
        self._journal = journal
        self._storage = storage
        self._told: dict[str, Record | None] = {}
        journal.learn(site=self._take_site)
        self._presets: dict[str, tuple[str, Callable[[dict[str, Record]], list[Row]]]] = {
            "site-names": ("type site_name alias state slots thresholds", _names),
            "data-processing": ("phedex_name psn_name site_name", _processing),
        }

    def _take_site(self, name: str, told: Record | None) -> None:
        self._told[name] = told

    def tell(self, name: str, told: Any) -> Record:
        """From now on the site is so: its state, RSEs, slots and thresholds; nothing at all for one that vanished."""
        if told is not None and not isinstance(told, dict):
            raise Refused(400, "a site is a JSON object, or null if it is gone")
        self._journal.change("site", name, told)
        return {}

    def query(self, asked: dict[str, str]) -> Record:
        sites = self._sites()
        if asked.get("rcsite_state") != "ANY":
            sites = {name: site for name, site in sites.items() if site["state"] == ACTIVE}
        preset = asked.get("preset")
        if preset is None:
            return sites
        if preset not in self._presets:
            raise Refused(400, f"there is no preset {preset}")
        columns, rows = self._presets[preset]
        return {"desc": {"columns": columns.split()}, "result": rows(sites)}

    def _sites(self) -> dict[str, Record]:
        with self._journal.lock:
            told = dict(self._told)
        gone = {name for name, site in told.items() if site is None}
        names = sorted({*self._storage.sites(), *told} - gone)
        return {name: {**_site(name), **(told.get(name) or {})} for name in names}


def _site(name: str) -> Record:
    return {
        "name": name,
        "tier_level": int(name[1]),
        "state": ACTIVE,
        "rses": list(rses_of(name)),
        "slots": None,
        "thresholds": {},
    }


def _names(sites: dict[str, Record]) -> list[Row]:
    """CRIC itself has the first three columns; the others are what the stack knows besides."""
    processing: list[Row] = [
        ["psn", name, name, site["state"], site["slots"], site["thresholds"]] for name, site in sites.items()
    ]
    storage: list[Row] = [
        ["phedex", name, rse, None, None, None] for name, site in sites.items() for rse in site["rses"]
    ]
    return processing + storage


def _processing(sites: dict[str, Record]) -> list[Row]:
    """Tapes serve no jobs. A storage may serve several sites, and a site may have several storages."""
    return [
        [rse, name, name] for name, site in sites.items() for rse in site["rses"] if not rse.endswith(TAPE)
    ]
