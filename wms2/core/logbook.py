"""A request in words, for whoever opens its page in Temporal's Web UI."""

from __future__ import annotations

from datetime import datetime

from wms2.models.actions import Action
from wms2.models.progress import RoundProgress
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState

LINES = 12
"""How many of the latest changes are kept."""
LINE_LENGTH = 200

TO_DO = {
    RequestStatus.NEW: (Action.RELEASE, Action.ABORT),
    RequestStatus.HELD: (Action.RELEASE, Action.DROP, Action.RESTART, Action.FAIL, Action.ABORT),
}
"""Where a person has the next word, and what it can be."""


def entry(at: datetime, status: RequestStatus, reason: str) -> str:
    """One line of the logbook."""
    line = " ".join(f"{at:%Y-%m-%d %H:%M:%S} **{status}** {reason}".split())
    return line if len(line) <= LINE_LENGTH else line[: LINE_LENGTH - 1] + "…"


def details(state: RequestState, progress: RoundProgress | None) -> str:
    """Where the request stands, what it needs, and how it came there; in markdown."""
    latest = state.logbook[-1] if state.logbook else f"**{state.status}**"
    lines = [latest, "", state.summary, "", *(f"- {fact}" for fact in _facts(state, progress))]
    if words := TO_DO.get(state.status):
        lines += ["", f"It waits for a person: `wms2 request {'|'.join(words)} {state.request_name}`"]
    if state.failures and state.status is RequestStatus.HELD:
        lines += ["", f"What failed, and more of it with `wms2 request errors {state.request_name}`:", ""]
        lines += state.failures.splitlines()
    if earlier := state.logbook[:-1]:
        lines += ["", "Before that:", "", *(f"- {line}" for line in reversed(earlier))]
    return "\n".join(lines)


def _facts(state: RequestState, progress: RoundProgress | None) -> list[str]:
    facts = []
    if state.prefetch:
        facts.append(f"input: {state.input_progress or 'not looked at yet'}")
    if round_ := state.open_round:
        kind = "the pilot" if round_.pilot else f"round {round_.number}"
        facts.append(f"{kind} on {round_.host}: {round_.units} work units, attempt {max(round_.attempt, 1)}")
        if progress:
            facts.append(f"work units {progress.units_done} of {progress.units_total} done")
            facts.append(f"events {progress.events_done} of {progress.events_total}")
    if state.ranked_by_hand:
        facts.append(f"priority {state.priority}, set by a person")
    if state.superseded_by:
        facts.append(f"replaced by `{state.superseded_by}`")
    if state.outputs_started:
        facts.append(f"outputs announced: {len(state.announced)} of {len(state.datasets)}")
    return facts
