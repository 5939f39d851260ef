"""The storage elements (RSEs) that the stand-in Rucio and the stand-in CRIC know, and expressions that name some."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from wms2.local.journal import Journal, Record
from wms2.local.sites import SITES, siteconf_root

TERM = re.compile(r"\s*(?:([A-Za-z0-9._-]+)\s*([=<>])\s*([A-Za-z0-9._-]+)|([A-Za-z0-9._-]+)|(\*))\s*")
OPERATOR = re.compile(r"\s*([|&\\])\s*")
SITE_IN_RSE = re.compile(r"(T\d_([A-Z]{2})_\w+?)(?:_Disk|_Tape|_Test|_Temp)?")
TAPE, DISK = "_Tape", "_Disk"
SCHEME, PORT = "davs", 1094


class BadExpression(Exception):
    """An RSE expression that has no meaning."""


def rses_of(site: str) -> tuple[str, ...]:
    """The storage of a site, as CMS names it: a Tier-1 has a disk and a tape, others one that is called as they are."""
    return (f"{site}{DISK}", f"{site}{TAPE}") if site.startswith("T1_") else (site,)


def disk_of(site: str) -> str:
    return rses_of(site)[0]


def rse_id(rse: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_DNS, rse).hex


class Storage:
    """All RSEs: those of the stack's sites, and those that were named otherwise."""

    def __init__(self, home: Path, journal: Journal) -> None:
        self._root = siteconf_root(home)
        self._journal = journal
        self._others: dict[str, None] = {}
        journal.learn(rse=self.take)

    def take(self, rse: str) -> None:
        self._others[rse] = None

    def sites(self) -> list[str]:
        return sorted(path.name for path in self._root.iterdir()) if self._root.exists() else sorted(SITES)

    def names(self) -> list[str]:
        return sorted({*(rse for site in self.sites() for rse in rses_of(site)), *self._others})

    def select(self, expression: str) -> list[str]:
        """The RSEs that the expression names; operators have no precedence, as with Rucio."""
        found, rest = self._union(expression)
        if rest:
            raise BadExpression("Expression does not comply to RSE Expression syntax")
        if not found:
            raise BadExpression("RSE Expression resulted in an empty set.")
        return sorted(found)

    def _union(self, text: str) -> tuple[set[str], str]:
        found, text = self._term(text)
        while operator := OPERATOR.match(text):
            other, text = self._term(text[operator.end() :])
            match operator[1]:
                case "|":
                    found |= other
                case "&":
                    found &= other
                case _:
                    found -= other
        return found, text

    def _term(self, text: str) -> tuple[set[str], str]:
        if text.lstrip().startswith("("):
            found, rest = self._union(text.lstrip()[1:])
            if not rest.startswith(")"):
                raise BadExpression("Expression does not comply to RSE Expression syntax")
            return found, rest[1:].lstrip()
        term = TERM.match(text)
        if term is None:
            raise BadExpression("Expression does not comply to RSE Expression syntax")
        return set(self._matching(term)), text[term.end() :]

    def _matching(self, term: re.Match[str]) -> Iterator[str]:
        key, operator, value, name, everything = term.groups()
        for rse in self.names():
            own = attributes(rse)
            is_named = everything or (name and own.get(name) is True)
            if is_named or (key in own and _holds(str(own[key]), operator, value)):
                yield rse


def attributes(rse: str) -> dict[str, str | bool]:
    """What Rucio knows of an RSE besides its name; the name is an attribute as well."""
    kind = "TAPE" if rse.endswith(TAPE) else "DISK"
    own: dict[str, str | bool] = {rse: True, "rse": rse, "rse_type": kind, "cms_type": "real"}
    if site := SITE_IN_RSE.fullmatch(rse):
        own |= {"tier": rse[1], "country": site[2], "site": site[1]}
    return own


def pfn_of(rse: str, lfn: str) -> str:
    return f"{SCHEME}://{rse.lower()}:{PORT}{lfn}"


def protocols_of(rse: str) -> list[Record]:
    """By which files of an RSE are read and written."""
    allowed = {"read": 1, "write": 1, "delete": 1}
    beyond = {"third_party_copy_read": 1, "third_party_copy_write": 1}
    return [
        {
            "scheme": SCHEME,
            "hostname": rse.lower(),
            "port": PORT,
            "prefix": "/",
            "impl": "rucio.rse.protocols.gfal.Default",
            "domains": {"lan": allowed, "wan": {**allowed, **beyond}},
            "extended_attributes": None,
        }
    ]


def _holds(own: str, operator: str, value: str) -> bool:
    if operator == "=":
        return own == value
    if not (own.isdigit() and value.isdigit()):
        return False
    return int(own) > int(value) if operator == ">" else int(own) < int(value)


def rows_of(rses: Iterable[str]) -> Iterator[Record]:
    """RSEs as Rucio lists them when no expression is given."""
    for rse in rses:
        yield {
            "id": rse_id(rse),
            "rse": rse,
            "rse_type": attributes(rse)["rse_type"],
            "vo": "def",
            "deterministic": True,
            "volatile": False,
            "staging_area": False,
            "deleted": False,
            "availability": 7,
            "availability_read": True,
            "availability_write": True,
            "availability_delete": True,
        }
