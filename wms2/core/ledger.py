"""What a plan and an output mean for the ledger, and what must hold in it."""

from __future__ import annotations

from collections import Counter

from wms2.core.sizing import predicted
from wms2.models.ledger import CrossCheck, EventRange, PlannedFile, PlannedRound, PlannedUnit, ProducedUnit
from wms2.models.merge_output import MergeOutput, ProcessedNode
from wms2.models.plan import RoundPlan, WorkUnit
from wms2.models.workflow import RoundKind

PROBLEMS_KEPT = 20


def planned_round(plan: RoundPlan, digest: str, nodes: int, submit_host: str | None = None) -> PlannedRound:
    """The entries of a round, recorded before anything of it is submitted."""
    snapshot = plan.snapshot
    whole = {
        file.lfn: PlannedFile(lfn=file.lfn, events=file.events, size_bytes=file.size_bytes)
        for file in (*snapshot.inputs, *snapshot.attempted)
    }
    return PlannedRound(
        request_name=snapshot.request.request_name,
        number=snapshot.round,
        kind=RoundKind.PILOT if snapshot.pilot else RoundKind.PRODUCTION,
        snapshot_digest=digest,
        nodes=nodes,
        submit_host=submit_host,
        predicted=predicted(plan),
        problems=plan.problems[:PROBLEMS_KEPT],
        work_units=tuple(_planned_unit(unit, whole) for unit in plan.work_units),
    )


def _planned_unit(unit: WorkUnit, whole: dict[str, PlannedFile]) -> PlannedUnit:
    names = sorted({part.lfn for job in unit.jobs for part in job.files})
    ends = unit.event_range
    return PlannedUnit(
        number=unit.number,
        events=EventRange(first=ends[0], last=ends[1]) if ends else None,
        planned_events=unit.events,
        files=tuple(whole[name] for name in names),
    )


def produced_unit(output: MergeOutput) -> ProducedUnit:
    """What a work unit is credited with."""
    return ProducedUnit(
        number=output.work_unit,
        site=output.site,
        processed_events=sum(processed_events(node) for node in output.nodes.values()),
        produced_events=output.events_written,
        output_digest=output.digest(),
        files=output.files,
        files_read=_files_read(output),
    )


def _files_read(output: MergeOutput) -> dict[str, int]:
    """Jobs may share a file. Where one of them cannot tell, nobody knows how much of the files was read."""
    read: Counter[str] = Counter()
    for node in output.nodes.values():
        if node.files_read is None:
            return {}
        read.update(node.files_read)
    return dict(read)


def processed_events(node: ProcessedNode) -> int:
    """A pilot may stop before its last planned event; a file may hold other numbers than its catalogue says."""
    if node.pilot and node.first_event is not None and node.last_event is not None:
        return max(0, min(node.events, node.last_event - node.first_event + 1))
    return node.events if node.events_read is None else min(node.events, node.events_read)


def discrepancies(check: CrossCheck) -> tuple[str, ...]:
    """What does not add up, in words for the person who will look; nothing in an exact ledger."""
    agreements = [
        (check.events_in_units, check.events_in_rounds, "events planned in work units, {} in rounds"),
        (check.units, check.units_in_rounds, "work units recorded, {} in rounds"),
        (check.units_without_end, 0, "work units neither produced nor abandoned, {} expected"),
        (check.files_without_end, 0, "input files planned in no open work unit, {} expected"),
        (
            check.files_processed,
            check.files_of_produced_units,
            "input files processed, {} in produced work units",
        ),
        (
            check.events_dropped,
            check.events_dropped_by_hand,
            "events dropped, {} in the audit trail",
        ),
        (
            check.files_dropped,
            check.files_dropped_by_hand,
            "input files dropped, {} in the audit trail",
        ),
        (check.units_unlike_their_files, 0, "work units unlike their output files, {} expected"),
    ]
    if check.offset is not None:
        agreements.append((check.offset, check.events_in_units, "event numbers used up, {} planned"))
    return tuple(f"{one} {words.format(other)}" for one, other, words in agreements if one != other)
