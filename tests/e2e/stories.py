"""Lives that a request can have, each led to its end: a stand, the command line, and jobs that wait or fail."""

import asyncio
from collections.abc import Callable

from tests.e2e.documents import PILOT_JOB, SECOND_JOB, Fault, pilot_only, reprocessing, simulation, waits
from tests.e2e.stand import Stand
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id

PERMANENT = 8001
"""An exit code after which no retry is worth it: the work unit is given up."""


def completes(stand: Stand, name: str) -> None:
    """A simulation: a pilot and a round, in which a job fails and is tried again."""
    passing: Fault = {"node": SECOND_JOB, "exit_code": 8028, "times": 1}
    stand.submit(simulation(name, stand.folder, passing))
    stand.until(name, "completed")


def reprocesses(stand: Stand, name: str) -> None:
    stand.submit(reprocessing(name, stand.folder))
    stand.until(name, "completed")


def is_kept_back(stand: Stand, name: str) -> None:
    """And sized by an operator before it begins."""
    stand.submit(pilot_only(name, stand.folder), "--hold")
    stand.until(name, "new")
    stand.wms2("request", "size", name, "--memory-mb", "600", "--reason", "a small pool")
    stand.wms2("request", "release", name)
    stand.until(name, "completed")


def is_stopped(stand: Stand, name: str) -> None:
    gate = stand.gate(name)
    stand.submit(pilot_only(name, stand.folder, waits(gate, PILOT_JOB)))
    stand.until(name, "pilot_running")
    stand.wms2("request", "stop", name, "--reason", "maintenance")
    stand.until(name, "stopping", "resubmitting", "queued", "pilot_running")
    stand.open(gate)
    stand.until(name, "completed")


def is_cancelled_in_temporal(stand: Stand, name: str) -> None:
    async def cancel() -> None:
        client = await connect(stand.settings)
        await client.get_workflow_handle(request_id(name)).cancel()

    gate = stand.gate(name)
    stand.submit(pilot_only(name, stand.folder, waits(gate, PILOT_JOB)))
    stand.until(name, "pilot_running")
    asyncio.run(cancel())
    stand.until(name, "stopping", "resubmitting", "queued", "pilot_running")
    stand.open(gate)
    stand.until(name, "completed")


def is_held_and_released(stand: Stand, name: str) -> None:
    gate = stand.gate(name)
    stand.submit(pilot_only(name, stand.folder, waits(gate, PILOT_JOB)))
    stand.until(name, "pilot_running")
    stand.wms2("request", "hold", name, "--reason", "wrong conditions?")
    stand.until(name, "stopping", "held")
    stand.wms2("request", "release", name, "--reason", "the conditions are right")
    stand.until(name, "queued", "pilot_running")
    stand.open(gate)
    stand.until(name, "completed")


def is_aborted(stand: Stand, name: str) -> None:
    """In its second round: what was produced before is there, and its output is frozen."""
    stand.submit(simulation(name, stand.folder, waits(stand.gate(name), SECOND_JOB)))
    stand.until(name, "active")
    stand.wms2("request", "abort", name, "--reason", "asked for by mistake", "--yes")
    stand.until(name, "stopping", "aborted")


def fails(stand: Stand, name: str) -> None:
    """Its input is nowhere: held by the error, and given up by a person."""
    document = reprocessing(name, stand.folder) | {"input_dataset": "/MinBias/Run2024A-Nowhere-v1/RAW"}
    stand.submit(document)
    stand.until(name, "held")
    stand.wms2("request", "fail", name, "--reason", "the input was deleted", "--yes")
    stand.until(name, "failed")


def is_rescued(stand: Stand, name: str) -> None:
    lost: Fault = {"node": PILOT_JOB, "exit_code": PERMANENT, "times": 1}
    stand.submit(pilot_only(name, stand.folder, lost))
    stand.until(name, "completed")


def is_held_by_failures_and_released(stand: Stand, name: str) -> None:
    """Half of the round fails, and its release closes it: another round makes up for what was lost."""
    lost: Fault = {"node": SECOND_JOB, "exit_code": PERMANENT, "times": 1}
    stand.submit(simulation(name, stand.folder, lost, events=40) | {"urgent": True})
    stand.until(name, "partial", "held")
    stand.wms2("request", "release", name, "--reason", "try the rest again")
    stand.until(name, "completed")


def is_held_by_failures(stand: Stand, name: str) -> None:
    """One of its two work units fails: mg_000001."""
    lost: Fault = {"node": SECOND_JOB, "exit_code": PERMANENT, "times": 1}
    stand.submit(simulation(name, stand.folder, lost, events=40) | {"urgent": True})
    stand.until(name, "partial", "held")


def is_released_with_changes(stand: Stand, name: str) -> None:
    is_held_by_failures(stand, name)
    changes = ("--avoid-site", "T1_US_FNAL", "--memory-mb", "600", "--threshold", "0.9", "--max-rescues", "5")
    stand.wms2("request", "release", name, *changes, "--reason", "a bad site")
    stand.until(name, "completed")


def is_released_with_a_rescue(stand: Stand, name: str) -> None:
    is_held_by_failures(stand, name)
    stand.wms2("request", "release", name, "--rescue", "--memory-mb", "600", "--avoid-site", "T1_US_FNAL")
    stand.until(name, "completed")


def is_completed_without_a_part(stand: Stand, name: str) -> None:
    is_held_by_failures(stand, name)
    stand.wms2("request", "drop", name, "--units", "mg_000001", "--reason", "enough without it", "--yes")
    stand.wait(lambda: stand.overview(name).ledger.events_dropped > 0, lambda: stand.tale(name))
    stand.wms2("request", "release", name, "--reason", "finish the rest")
    stand.until(name, "completed")


def is_restarted(stand: Stand, name: str) -> None:
    """The old one ends with its DAG removed, the next version completes."""
    gate = stand.gate(name)
    stand.submit(pilot_only(name, stand.folder, waits(gate, PILOT_JOB)))
    stand.until(name, "pilot_running")
    stand.wms2("request", "restart", name, "--reason", "wrong conditions", "--yes")
    stand.until(name, "stopping", "failed")
    stand.open(gate)
    stand.until(f"{name}_v2", "completed")


def is_prioritised(stand: Stand, name: str) -> None:
    gate = stand.gate(name)
    stand.submit(pilot_only(name, stand.folder, waits(gate, PILOT_JOB)))
    stand.until(name, "pilot_running")
    stand.wms2("request", "priority", name, "7", "--reason", "not urgent")
    include = stand.home / "submit" / name / "round_00" / "round.inc"
    stand.wait(lambda: "round_priority = 7\n" in include.read_text(), lambda: stand.tale(name))
    stand.open(gate)
    stand.until(name, "completed")


STORIES: dict[str, Callable[[Stand, str], None]] = {
    "simulation": completes,
    "reprocessing": reprocesses,
    "kept_back": is_kept_back,
    "stopped": is_stopped,
    "cancelled": is_cancelled_in_temporal,
    "held": is_held_and_released,
    "aborted": is_aborted,
    "failed": fails,
    "rescued": is_rescued,
    "given_up": is_held_by_failures_and_released,
    "released_with_changes": is_released_with_changes,
    "released_with_a_rescue": is_released_with_a_rescue,
    "dropped": is_completed_without_a_part,
    "restarted": is_restarted,
    "prioritised": is_prioritised,
}
