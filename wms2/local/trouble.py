"""Trouble on demand with the stand-in services, and the list of the calls that they saw.

`POST /control/trouble` with a JSON object makes trouble for the next calls that match:

    service, method, path    which calls: `dbs`, `rucio`, `reqmgr2`, `cric`, `couchdb`; a method; a regular expression
                             that is searched for in path and query. What is left out matches all.
    kind                     one of KINDS
    times                    for how many calls, 1 unless said
    after                    how many matching calls are left in peace before, 0 unless said
    status, retry_after      for `status`: the answer, and the header Retry-After if it is given
    seconds                  for `silence` and `slow`

`GET /control/trouble` says what is still to come, `DELETE` forgets it. `GET /control/calls?service=&method=&path=`
lists the calls that were seen, `DELETE /control/calls` forgets them.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from wms2.local.journal import Record, Refused

STATUS, SILENCE, CUT, CUT_AFTER, CUT_BODY, SLOW, EXISTS, TOKEN = KINDS = (
    "status",  # answered with this status, and nothing was done
    "silence",  # no answer for so long, then the connection is cut; nothing was done
    "cut",  # the connection is cut; nothing was done
    "cut_after",  # it was done, and then the connection is cut
    "cut_body",  # it was done, and the connection is cut in the middle of the answer
    "slow",  # it was done, and the answer takes so long
    "exists",  # somebody else has done the same just before: it is done, and answered as if asked again
    "token",  # all tokens of Rucio have expired
)
MOST_CALLS = 100_000


@dataclass
class Trouble:
    kind: str
    service: str = ""
    method: str = ""
    path: str = ""
    times: int = 1
    after: int = 0
    status: int = 503
    retry_after: float | None = None
    seconds: float = 60

    def matches(self, service: str, method: str, path: str) -> bool:
        return (
            self.service in ("", service)
            and self.method in ("", method)
            and re.search(self.path, path) is not None
        )


@dataclass
class Seen:
    """A call: what it was, what it got, and the trouble it had."""

    service: str
    method: str
    path: str
    status: int | None = None
    trouble: str | None = None


class Troubles:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._troubles: list[Trouble] = []
        self._calls: deque[Seen] = deque(maxlen=MOST_CALLS)

    def meet(self, service: str, method: str, path: str) -> tuple[Seen, Trouble | None]:
        """Write the call down; with it comes the trouble it is to have."""
        seen = Seen(service, method, path)
        with self._lock:
            self._calls.append(seen)
            trouble = next((one for one in self._troubles if one.matches(service, method, path)), None)
            if trouble is None:
                return seen, None
            if trouble.after:
                trouble.after -= 1
                return seen, None
            trouble.times -= 1
            if trouble.times < 1:
                self._troubles.remove(trouble)
            seen.trouble = trouble.kind
            return seen, trouble

    def control(self, method: str, what: str, query: dict[str, str], body: Any) -> Any:
        match method, what:
            case "POST", "trouble":
                return self._add(body)
            case "GET", "trouble":
                with self._lock:
                    return [asdict(trouble) for trouble in self._troubles]
            case "DELETE", "trouble":
                with self._lock:
                    self._troubles.clear()
                return {}
            case "GET", "calls":
                return self._seen(query)
            case "DELETE", "calls":
                with self._lock:
                    self._calls.clear()
                return {}
        raise Refused(404, f"no such control: {method} {what}")

    def _add(self, body: Any) -> Record:
        try:
            trouble = Trouble(**body)
            re.compile(trouble.path)
        except (TypeError, re.error) as error:
            raise Refused(400, f"no trouble can be made of that: {error}") from None
        if trouble.kind not in KINDS:
            raise Refused(400, f"trouble is one of {', '.join(KINDS)}")
        with self._lock:
            self._troubles.append(trouble)
        return {}

    def _seen(self, query: dict[str, str]) -> list[Record]:
        wanted = Trouble("", query.get("service", ""), query.get("method", ""), query.get("path", ""))
        with self._lock:
            calls = [seen for seen in self._calls if wanted.matches(seen.service, seen.method, seen.path)]
        return [asdict(seen) for seen in calls]
