"""Who is told of what, and how a digest reads.

Words may come from anywhere: from jobs, from sites, from people. Each is one printable line of a bounded length
before it enters a message, so that none can add a header or a line of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from wms2.core.plain import plain_line
from wms2.models.audit import Action
from wms2.models.contacts import is_mail
from wms2.models.host import SubmitHost
from wms2.models.messages import Alert
from wms2.models.notice import Audience, Digest, Happening, Notice, Reason
from wms2.models.request import RequestStatus

MOST_NOTICES = 200
"""How many a digest holds; what is more waits for the next one."""
LONGEST_WORDS = 500
LONGEST_NAME = 250
LONGEST_SUBJECT = 120
NAMES_IN_SUBJECT = 3
SILENCE = timedelta(days=1)
"""After so long somebody is told of a service that does not answer."""
LONGEST_PAUSE = timedelta(hours=6)
"""Between two tries to send a digest."""
ALERTED, WATCHER = "alert", "wms2"
"""How the audit trail calls an alert, and who raises it."""
_NOT_IN_A_HEADER = re.compile(r"[^ -~]")
_DIGESTS = UUID("5f0a1c52-6f0e-4d8f-9a54-0f5a3a1f7c11")

OPERATORS, REQUESTOR, SITE = Audience.OPERATORS, Audience.REQUESTOR, Audience.SITE

_ERRORS = "`wms2 request errors {about}` shows what failed."
_BANS = "`wms2 site bans` shows all bans."

WHAT_TO_DO: Mapping[Reason, Mapping[Audience, str]] = {
    Reason.HELD: {
        OPERATORS: f"{_ERRORS} `wms2 request release {{about}}` lets it go on.",
        REQUESTOR: f"An operator decides what becomes of it. {_ERRORS}",
    },
    Reason.FAILURES: {REQUESTOR: f"There is nothing to do: it goes on by itself, or is held. {_ERRORS}"},
    Reason.COMPLETED: {REQUESTOR: "`wms2 request show {about}` shows its outputs."},
    Reason.FAILED: {REQUESTOR: "`wms2 request why {about}` tells how it came to that."},
    Reason.ABORTED: {REQUESTOR: "`wms2 request why {about}` tells how it came to that."},
    Reason.REPLACED: {REQUESTOR: "`wms2 request list` shows its next version."},
    Reason.LONG_STATUS: {OPERATORS: "`wms2 request why {about}` tells how it came there."},
    Reason.LOST_HOST: {
        OPERATORS: "Start what is missing on that host: its schedd, or `wms2 worker run`; `wms2 host lost` is for one "
        "that does not come back. `wms2 host list` shows all of them."
    },
    Reason.LOST_WORKFLOW: {
        OPERATORS: "Look at its workflow in Temporal. One that is gone must be reset there before it can go on; one "
        "that is stuck goes on by itself once a release that mends it is installed."
    },
    Reason.ALERT: {OPERATORS: "`wms2 request show {about}` shows where it stands."},
    Reason.BAN: {
        OPERATORS: f"{_BANS} `wms2 site unban {{about}}` lifts those of this site.",
        SITE: "Tell the operators when the cause is mended: they can lift the ban.",
    },
    Reason.BAN_FOR_ALL: {
        OPERATORS: f"{_BANS} `wms2 site unban {{about}}` lifts those of this site.",
        SITE: "Tell the operators when the cause is mended: they can lift the ban.",
    },
    Reason.BAN_ENDED: {OPERATORS: _BANS, SITE: "There is nothing to do: jobs may come again."},
    Reason.SILENT_SERVICE: {
        OPERATORS: "Look after the server, or after its setting: the worker's log says more."
    },
    Reason.CREDENTIAL: {OPERATORS: "Look after the program that renews the file."},
}
"""Who hears of a reason, and what they can do about it. An address that is several of these is told as the first."""

_WHY_YOU = {
    OPERATORS: "You are one of the operators. The contacts file says who is, and what they do not want to hear of.",
    REQUESTOR: "You asked for it, or are named in it. A request that says `notify: none` tells nobody.",
    SITE: "You look after the site. Ask the operators if somebody else does.",
}

_TOLD_STATUSES = {
    RequestStatus.HELD: (Reason.HELD, "is held"),
    RequestStatus.PARTIAL: (Reason.FAILURES, "has failures"),
    RequestStatus.COMPLETED: (Reason.COMPLETED, "is completed"),
    RequestStatus.FAILED: (Reason.FAILED, "has failed"),
    RequestStatus.ABORTED: (Reason.ABORTED, "was aborted"),
}

_ALERTS = {
    "slow_dag": Reason.LONG_STATUS,
    "slow_outputs": Reason.LONG_STATUS,
    "slow_stop": Reason.LONG_STATUS,
    "lost_dag": Reason.LONG_STATUS,
    "lost_host": Reason.LOST_HOST,
    "schedd_unreachable": Reason.LOST_HOST,
    "lost_workflow": Reason.LOST_WORKFLOW,
    "stuck_workflow": Reason.LOST_WORKFLOW,
}


def status_happening(
    request: str, status: RequestStatus, sequence: int, reason: str, replaced_by: str | None
) -> Happening | None:
    """What there is to tell of a new status; of many, nothing."""
    if status not in _TOLD_STATUSES:
        return None
    why, verb = _TOLD_STATUSES[status]
    if status is RequestStatus.FAILED and replaced_by is not None:
        why, verb = Reason.REPLACED, f"was replaced by {replaced_by}"
    return Happening(
        key=f"status:{request}:{sequence}",
        reason=why,
        about=request,
        words=f"{verb}: {reason}" if reason else verb,
        request=request,
    )


def alert_happening(alert: Alert, day: str) -> Happening:
    """The same alert is told once a day, however often it is raised."""
    long = alert.kind.startswith("long_")
    return Happening(
        key=f"alert:{alert.request}:{alert.kind}:{uuid5(_DIGESTS, plain_line(alert.message))}:{day}",
        reason=Reason.LONG_STATUS if long else _ALERTS.get(alert.kind, Reason.ALERT),
        about=alert.request,
        words=alert.message,
        request=alert.request,
    )


def alert_record(alert: Alert, day: str) -> Action:
    """The same alert is recorded once a day, however often it is raised."""
    words = plain_line(alert.message, LONGEST_WORDS)
    return Action(
        action_id=f"alert-{uuid5(_DIGESTS, json.dumps([alert.request, alert.kind, words, day]))}",
        actor=WATCHER,
        action=ALERTED,
        request_name=alert.request,
        reason=words,
        detail={"kind": alert.kind},
    )


def host_record(what: Happening) -> Action:
    """An alert about a submit host, for the audit trail: the same one is recorded once."""
    return Action(
        action_id=f"alert-{uuid5(_DIGESTS, what.key)}",
        actor=WATCHER,
        action=ALERTED,
        reason=plain_line(what.words, LONGEST_WORDS),
        detail={"kind": "lost_host", "host": what.about},
    )


def ban_happening(key: str, site: str, request: str | None, until: datetime, reason: str) -> Happening:
    """A site that jobs are kept away from, and what failed there."""
    return Happening(
        key=key,
        reason=Reason.BAN if request else Reason.BAN_FOR_ALL,
        about=site,
        words=f"is banned for {request or 'all requests'} until {_minute(until)}: {reason}",
        request=request,
        site=site,
    )


def ban_over_happening(key: str, site: str, request: str | None, reason: str) -> Happening:
    """A site that jobs may go to again; one may be kept away by another ban."""
    return Happening(
        key=key,
        reason=Reason.BAN_ENDED,
        about=site,
        words=f"is no longer banned for {request or 'all requests'}: {reason}",
        request=request,
        site=site,
    )


def silence_happening(
    service: str, answered_at: datetime | None, now: datetime, meanwhile: str = "what it said before holds"
) -> Happening:
    """A service that does not answer is told of once a day."""
    since = f"since {_minute(answered_at)}" if answered_at else "yet"
    return Happening(
        key=f"silence:{service}:{now.astimezone(UTC):%Y-%m-%d}",
        reason=Reason.SILENT_SERVICE,
        about=service,
        words=f"has not answered {since}; {meanwhile}",
    )


def silent_host_happening(host: SubmitHost, requests: int) -> Happening:
    """A submit host whose worker is not heard of is told of once, until it is heard of again."""
    return Happening(
        key=f"silent_host:{host.name}:{host.last_seen_at.astimezone(UTC).isoformat()}",
        reason=Reason.LOST_HOST,
        about=host.name,
        words=f"is silent since {_minute(host.last_seen_at)} and gets no new work; "
        f"{requests} requests have a round open there",
    )


def cut_off_host_happening(host: SubmitHost) -> Happening:
    """A submit host whose schedd the collector does not know is told of once, until it knows it again."""
    since = host.schedd_gone_at or host.last_seen_at
    return Happening(
        key=f"cut_off_host:{host.name}:{since.astimezone(UTC).isoformat()}",
        reason=Reason.LOST_HOST,
        about=host.name,
        words=f"has a schedd that the collector does not know since {_minute(since)}: it gets no new work, and jobs of "
        "its open rounds may find no machine",
    )


def stuck_happening(workflow_id: str, words: str, now: datetime) -> Happening:
    """A workflow that serves all requests and cannot go on is told of once a day."""
    return Happening(
        key=f"stuck:{workflow_id}:{now.astimezone(UTC):%Y-%m-%d}",
        reason=Reason.LOST_WORKFLOW,
        about=workflow_id,
        words=f"is stuck: {words}",
    )


def credential_happening(name: str, host: str, words: str, now: datetime) -> Happening:
    """A credential that lives not much longer is told of once a day."""
    return Happening(
        key=f"credential:{host}:{name}:{now.astimezone(UTC):%Y-%m-%d}",
        reason=Reason.CREDENTIAL,
        about=f"{name} on {host}",
        words=words,
    )


def digest_of(address: str, notices: Sequence[Notice], at: datetime) -> Digest:
    """The message for an address. The same notices make the same one, under the same id."""
    name = uuid5(_DIGESTS, "\n".join([address, *(notice.key for notice in notices)]))
    told, text = subject(notices), body(notices)
    if not is_mail(address):
        text = _document(name, told, text, notices, at)
    return Digest(id=name, address=address, subject=told, body=text, at=at)


def trial_digest(address: str, name: UUID, at: datetime) -> Digest:
    """A message that says nothing but that it came."""
    told = "WMS2: a test"
    text = "Somebody gave `wms2 notice test`. This address works; there is nothing to do.\n"
    if not is_mail(address):
        text = _document(name, told, text, (), at)
    return Digest(id=name, address=address, subject=told, body=text, at=at)


def subject(notices: Sequence[Notice]) -> str:
    """What it is about, in a line."""
    topics = list(dict.fromkeys(f"{_name(one)} ({one.reason.replace('_', ' ')})" for one in notices))
    listed = ", ".join(topics[:NAMES_IN_SUBJECT])
    more = len(topics) - NAMES_IN_SUBJECT
    told = f"WMS2: {listed}" + (f" and {more} more" if more > 0 else "")
    # A header is folded and put together again on its way, and only plain characters come through that unchanged.
    return _NOT_IN_A_HEADER.sub("?", told.replace("=", "-"))[:LONGEST_SUBJECT].rstrip()


def body(notices: Sequence[Notice]) -> str:
    """Grouped by request and site, a line for each notice, in the order in which things happened."""
    groups: dict[str, list[Notice]] = {}
    for notice in _without_echoes(notices):
        groups.setdefault(_name(notice), []).append(notice)
    lines = []
    for name, group in groups.items():
        lines += [name, *(f"- {_minute(notice.at)}: {sentence(notice)}" for notice in group), ""]
    audiences = [audience for audience in Audience if any(one.audience is audience for one in notices)]
    return "\n".join([*lines, "-- ", *(_WHY_YOU[audience] for audience in audiences)]) + "\n"


def sentence(notice: Notice) -> str:
    """What happened, and what a person can do; one line."""
    words = plain_line(notice.words, LONGEST_WORDS).rstrip(".")
    advice = WHAT_TO_DO[notice.reason].get(notice.audience, "").format(about=_name(notice))
    return f"{words}. {advice}".rstrip()


def pause_after(tries: int, between_runs: timedelta) -> timedelta:
    """How long a digest rests after so many tries in vain."""
    doubled: int = 2 ** min(tries, 20)
    return min(between_runs * doubled, LONGEST_PAUSE)


def _without_echoes(notices: Sequence[Notice]) -> list[Notice]:
    """Failures that held their request are told once: the hold repeats them."""
    held = [(one.about, one.words) for one in notices if one.reason is Reason.HELD]

    def is_echoed(one: Notice) -> bool:
        failures = one.words.partition(": ")[2]
        return one.reason is Reason.FAILURES and any(
            about == one.about and failures in words for about, words in held
        )

    return [one for one in notices if not is_echoed(one)]


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _name(notice: Notice) -> str:
    return plain_line(notice.about, LONGEST_NAME)


def _document(name: UUID, told: str, text: str, notices: Sequence[Notice], at: datetime) -> str:
    """`text` is what chat programs show; the rest is for programs."""
    document = {
        "id": str(name),
        "at": at.isoformat(),
        "subject": told,
        "text": text,
        "notices": [
            {
                "reason": notice.reason,
                "audience": notice.audience,
                "about": _name(notice),
                "words": plain_line(notice.words, LONGEST_WORDS),
                "at": notice.at.isoformat(),
            }
            for notice in notices
        ],
    }
    return json.dumps(document)
