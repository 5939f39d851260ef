"""Requests of ReqMgr2: what became of their documents, and what ReqMgr2 was told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from wms2.models.base import Count, Model
from wms2.models.chain import LinkedRequest
from wms2.models.mistakes import MOST_MISTAKES, Mistake, RequestFileError
from wms2.models.reqmgr2 import Part
from wms2.models.request import RequestStatus
from wms2.models.request_draft import each_field_once
from wms2.models.request_file import hand_down_release

# Who looks at a document, and changes its status, does not change what it asks for.
_NOT_ASKED_FOR = frozenset({"RequestStatus", "RequestTransition", "PriorityTransition", "_id", "_rev"})


class ImportRecord(Model):
    """A document of ReqMgr2 that WMS2 has looked at. Without a problem it is taken on."""

    name: str
    digest: str
    requests: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be taken on."""
    reported: str = ""
    """The status that it has in ReqMgr2, as far as WMS2 knows."""
    report_problem: str = ""
    """Why ReqMgr2 does not take it."""
    created_at: datetime
    updated_at: datetime

    @property
    def is_taken(self) -> bool:
        return bool(self.requests)


class Taken(Model):
    """A document that was taken on because a person asked for it."""

    record: ImportRecord
    is_same: bool
    """Whether the document is still the one that was taken on."""


class Imported(Model):
    """What an import came to."""

    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"took {', '.join(self.taken)}"] if self.taken else []
        words += [f"refused {', '.join(self.refused)}"] if self.refused else []
        return "; ".join(words) or "nothing new"


class Member(Model):
    """A request of an import, as it stands: its newest version."""

    status: RequestStatus
    rounds: Count = 0
    has_open_round: bool = False


class Standing(Model):
    """An import and how all of its requests stand."""

    name: str
    reported: str
    settled: str
    """The status that ReqMgr2 need not be told again."""
    members: tuple[Member, ...]


class Report(Model):
    """What came of telling ReqMgr2 a status."""

    wanted: str
    found: str
    """What it has in ReqMgr2 now; empty where it is not there."""
    problem: str = ""
    refused: bool = False
    """Whether ReqMgr2 may take another time what it does not take now; any other problem is for people to settle."""


class Reported(Model):
    """What a report to ReqMgr2 came to: the changes of status, and what could not be told."""

    told: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([*self.told, *self.problems]) or "nothing to tell"


def document_digest(document: Mapping[str, Any]) -> str:
    """What a document asks for, in a word."""
    asked = {name: value for name, value in document.items() if name not in _NOT_ASKED_FOR}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def linked_requests(parts: Sequence[Part], source: str) -> list[LinkedRequest]:
    """The requests of a document, or all that is wrong with any of them in one RequestFileError."""
    linked: list[LinkedRequest] = []
    mistakes: list[Mistake] = []
    for part in parts:
        hand_down_release(part.draft)
        try:
            request = part.draft.request(source)
        except RequestFileError as error:
            mistakes += error.mistakes
            continue
        parent = None if part.reads is None or mistakes else linked[part.reads].request.request_name
        linked.append(LinkedRequest(request=request, parent=parent))
    if mistakes:
        raise RequestFileError(each_field_once(mistakes)[:MOST_MISTAKES], source)
    return linked
