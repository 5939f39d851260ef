"""The site's storage as its storage.json describes it: the physical name of a logical one, and how to reach it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping

from sandbox.failure import NO_STORAGE, Failure
from sandbox.manifest import Record
from sandbox.transfer import Transfer, transfer_for

LOCAL_SITECONF = Path("/cvmfs/cms.cern.ch/SITECONF/local")
OPENED_BY_STEPS = ("root://", "xroot://")
_LONGEST_CHAIN = 5


@dataclass(frozen=True)
class Place:
    """Where a file is or will be, with the tool that reaches it."""

    lfn: str
    pfn: str
    transfer: Transfer


class Storage:
    """One volume of the site: the first on disk that can be written to."""

    def __init__(self, protocols: list[Record]) -> None:
        self._protocols = protocols

    def for_writing(self, lfn: str) -> Place:
        return self._place(lfn, "rw")

    def for_reading(self, lfn: str) -> Place:
        return self._place(lfn, "ro", "rw")

    def address(self, lfn: str, opens_addresses: bool) -> str | None:
        """A path of this machine, or an address that a step opens itself; None when the site has neither."""
        for place in self._places(lfn, "ro", "rw"):
            path = place.transfer.local_path(place.pfn)
            if path is not None:
                return str(path)
            if opens_addresses and place.pfn.startswith(OPENED_BY_STEPS):
                return place.pfn
        return None

    def _place(self, lfn: str, *access: str) -> Place:
        for place in self._places(lfn, *access):
            return place
        raise Failure(
            NO_STORAGE, f"storage.json has no protocol to {'write' if access == ('rw',) else 'read'} {lfn}"
        )

    def _places(self, lfn: str, *access: str) -> Iterator[Place]:
        """Through each protocol that allows it, knows the name and has a tool, in the site's own order."""
        for protocol in self._protocols:
            if str(protocol.get("access", "")).rpartition("-")[2] not in access:
                continue
            pfn = self._pfn(protocol, lfn, _LONGEST_CHAIN)
            transfer = transfer_for(pfn) if pfn else None
            if pfn and transfer:
                yield Place(lfn, pfn, transfer)

    def _pfn(self, protocol: Record, lfn: str, chain_left: int) -> str | None:
        if "prefix" in protocol:
            return str(protocol["prefix"]) + lfn
        for rule in protocol.get("rules", []):
            name: str | None = lfn
            if "chain" in rule:
                name = self._chained(rule["chain"], lfn, chain_left - 1)
            match = re.match(rule["lfn"], name) if name else None
            if match:
                return _substituted(rule["pfn"], match)
        return None

    def _chained(self, name: str, lfn: str, chain_left: int) -> str | None:
        """A rule may build on the physical name of another protocol."""
        protocol = next((p for p in self._protocols if p.get("protocol") == name), None)
        return self._pfn(protocol, lfn, chain_left) if protocol and chain_left > 0 else None


def _substituted(pattern: str, match: re.Match[str]) -> str:
    return re.sub(r"\$(\d)", lambda number: match.group(int(number.group(1))) or "", pattern)


def load(site: str, environment: Mapping[str, str]) -> Storage:
    """The storage of `site`; a Failure of the site when there is none to write to."""
    path = _path(site, environment)
    try:
        volumes = json.loads(path.read_text(encoding="utf-8"))
        protocols = _writable_protocols(volumes, site)
        storage = Storage(protocols)
        storage.for_writing("/store/unmerged/probe")
    except (OSError, ValueError, TypeError, AttributeError, KeyError, IndexError, re.error) as error:
        raise Failure(NO_STORAGE, f"{path} cannot be used: {error}") from None
    return storage


def _path(site: str, environment: Mapping[str, str]) -> Path:
    if environment.get("SITECONFIG_PATH"):
        return Path(environment["SITECONFIG_PATH"]) / "storage.json"
    if environment.get("WMS2_SITECONFIG_ROOT"):
        return Path(environment["WMS2_SITECONFIG_ROOT"]) / site / "storage.json"
    return LOCAL_SITECONF / "storage.json"


def _writable_protocols(volumes: Any, site: str) -> list[Record]:
    """Tape is never written to directly."""
    for volume in volumes:
        if volume["site"] == site and volume.get("type", "DISK") == "DISK":
            protocols: list[Record] = volume["protocols"]
            if any(str(protocol.get("access", "")).endswith("-rw") for protocol in protocols):
                return protocols
    raise ValueError(f"it describes no disk of {site} that can be written to")
