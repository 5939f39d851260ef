"""What failed is recorded, decides rightly and can be looked at: on the real pool."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from tests.factories import reprocessing
from tests.integration.rounds import Gate, Round, small_simulation, unique
from wms2.activities.closing import ClosingActivities
from wms2.activities.dags import DagActivities
from wms2.cli.main import main
from wms2.config import Settings
from wms2.core.ledger import discrepancies
from wms2.dagman.progress import mark_removal
from wms2.db.crosscheck import cross_check
from wms2.db.dags import dags_of_round
from wms2.db.failures import left_out_files, request_errors
from wms2.db.ledger import input_files
from wms2.db.session import transaction
from wms2.local import payload
from wms2.models.dag import DagStatus
from wms2.models.failure import RequestErrors
from wms2.models.ledger import InputFileState
from wms2.models.messages import ClosedRound, DagObservation, FollowOrder, RoundOrder, SubmittedDag
from wms2.models.plan import InputFile
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool

Wms2 = Callable[..., str]


@pytest.fixture
def wms2(stack: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Wms2:
    """What the program prints."""
    monkeypatch.setenv("WMS2_HOME", str(stack.home))

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["wms2", *words])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        assert end.value.code in (0, None), shown.err
        return shown.out

    return run


async def follow(round_: Round, dag: SubmittedDag, **changes: Any) -> DagObservation:
    """As the worker does it, until the DAG has ended."""
    activities = DagActivities(round_.condor, round_.by_hand.engine, **changes)
    while True:
        seen = await ActivityEnvironment().run(
            activities.follow_dag, FollowOrder(dag=dag, units_told=len(round_.planned.work_units))
        )
        if seen.progress.outcome is not DagOutcome.RUNNING:
            return seen


async def close(round_: Round) -> ClosedRound:
    order = RoundOrder(
        request=round_.request.request_name, round=0, folder=round_.folder, reason="the test gives it up"
    )
    return await ClosingActivities(round_.by_hand.engine, 3600).close_round(order)


def recorded(round_: Round) -> RequestErrors:
    with transaction(round_.by_hand.engine) as session:
        return request_errors(session, round_.request.request_name)


async def test_failures_of_each_category_are_recorded_and_shown(stack: Settings, wms2: Wms2) -> None:
    hostile = "\x1b[2J[bold]a \u202emessage of $(reboot)"
    faults = [
        {"node": "proc_000000", "exit_code": 8501, "message": hostile},
        {"node": "proc_000002", "exit_code": 50664},
        {"node": "proc_000004", "exit_code": 8022},
    ]
    round_ = Round(stack, small_simulation(stack, "categories", step={"faults": faults}, total_events=160))
    name = round_.request.request_name
    dag = await round_.start()
    seen = await follow(round_, dag)
    assert seen.progress.outcome is DagOutcome.PARTIAL
    assert sorted(seen.causes.split(", ")) == [
        "1 data (8022)",
        "1 permanent (8501)",
        "1 resource:time (50664)",
    ]

    (failures,) = recorded(round_).dags
    assert [(node.work_unit, node.node, node.category, node.exit_code) for node in failures.nodes] == [
        (0, "proc_000000", "permanent", 8501),
        (1, "proc_000002", "resource:time", 50664),
        (2, "proc_000004", "data", 8022),
    ]
    assert all(node.site and node.message and node.log_tail for node in failures.nodes)
    # The folder may go: the record stays.
    round_.folder.rename(round_.folder.with_name("gone"))
    shown = wms2("request", "errors", name)
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    assert "[bold]a " in shown
    document = json.loads(wms2("request", "errors", name, "--json"))
    assert document["by_category"] == {"permanent": 1, "resource:time": 1, "data": 1}
    assert document["by_exit_code"] == {"8501": 1, "50664": 1, "8022": 1}
    assert json.loads(wms2("request", "errors", name, "--round", "7", "--json"))["dags"] == []
    story = json.loads(wms2("request", "why", name, "--json"))
    ended = next(event for event in story if "ended as partial" in event["what"])
    assert "1 permanent (8501)" in ended["why"]
    assert name in wms2("request", "why", name)


async def test_a_round_whose_first_nodes_all_fail_alike_is_aborted_and_can_be_rescued(
    stack: Settings, wms2: Wms2
) -> None:
    """Five nodes fail for good, the sixth never ends by itself: without a look across nodes the round never ends."""
    gate = Gate(stack)
    faults = [{"node": f"proc_{k:06d}", "exit_code": 8501, "times": 1} for k in range(5)]
    request = small_simulation(
        stack, "alike", step={"faults": [*faults, *gate.before("proc_000005")]}, merge_target_bytes=10**6
    )
    round_ = Round(stack, request)
    dag = await round_.start()
    seen = await follow(round_, dag)
    assert seen.progress.outcome is DagOutcome.ABORTED
    assert seen.causes == "the first 5 nodes all failed for good with exit code 8501; 1 permanent (8501)"
    with transaction(round_.by_hand.engine) as session:
        (first,) = dags_of_round(session, request.request_name, 0)
    assert first.status is DagStatus.FAILED
    assert (await round_.condor.dagmans(dag.cluster, dag.order.dag_id)) == []
    gate.open()
    # The records of the first run are still there, and say nothing against the rescue.
    again = await follow(round_, await round_.start())
    assert (again.progress.outcome, again.causes) == (DagOutcome.COMPLETED, "")
    round_.assert_every_event_once()
    assert "all failed for good" in wms2("request", "errors", request.request_name)


async def test_a_removal_that_was_decided_and_not_carried_out_is_carried_out_by_the_next_follower(
    stack: Settings,
) -> None:
    request = small_simulation(stack, "decided", step={"faults": Gate(stack).before()}, total_events=40)
    round_ = Round(stack, request)
    dag = await round_.start()
    mark_removal(round_.folder, dag.cluster, "all nodes fail alike")
    seen = await follow(round_, dag)
    assert (seen.progress.outcome, seen.causes) == (
        DagOutcome.ABORTED,
        "all nodes fail alike; 1 not finished",
    )


async def test_one_success_among_the_first_nodes_and_the_round_goes_on(stack: Settings) -> None:
    gate = Gate(stack)
    faults = [{**fault, "exit_code": 8501} for fault in gate.before("proc_000001", "proc_000002")]
    request = small_simulation(
        stack, "mixed", step={"faults": faults}, total_events=60, merge_target_bytes=10**6
    )
    round_ = Round(stack, request)
    dag = await round_.start()
    await round_.until(dag, lambda _: (round_.folder / "mg_000000/proc_000000.post.json").exists())
    gate.open()
    seen = await follow(round_, dag, same_failures=2)
    assert seen.progress.outcome is DagOutcome.PARTIAL


async def test_a_file_that_no_site_can_read_is_excluded_and_the_others_are_attempted_again(
    stack: Settings, wms2: Wms2
) -> None:
    locations = ("T1_US_FNAL", "T2_DE_DESY")
    entries = payload.make_inputs(
        stack.home / "storage", 4, 10, locations=locations, base=f"/store/data/Test/{unique('unread')}"
    )
    bad = entries[1]["lfn"]
    for site in locations:
        (stack.home / f"storage/{site}{bad}").unlink()
    request = reprocessing(
        request_name=unique("unread"), memory_mb=500, size_per_event_kb=1.0, merge_target_bytes=20_000,
        splitting_params={"files_per_job": 2},
    )  # fmt: skip
    round_ = Round(stack, request, inputs=tuple(InputFile(**entry) for entry in entries))
    seen = await follow(round_, await round_.start())
    assert (seen.progress.outcome, seen.progress.units_done) == (DagOutcome.PARTIAL, 1)
    assert {(file.lfn, file.site) for file in recorded(round_).files} == {(bad, site) for site in locations}

    for _ in range(2):
        closed = await close(round_)
        assert (closed.units_produced, closed.units_abandoned, closed.discrepancies) == (1, 1, ())
    with transaction(round_.by_hand.engine) as session:
        name = request.request_name
        states = {state: [file.lfn for file in input_files(session, name, state)] for state in InputFileState}
        (excluded,) = left_out_files(session, name)
        assert discrepancies(cross_check(session, name)) == ()
    lfns = [entry["lfn"] for entry in entries]
    assert states[InputFileState.EXCLUDED] == [bad]
    assert states[InputFileState.ATTEMPTED] == [lfns[0]]
    assert states[InputFileState.PROCESSED] == lfns[2:]
    assert excluded.reason.startswith("could not be read at T1_US_FNAL and T2_DE_DESY")
    assert excluded.reason in wms2("request", "errors", name)
    assert excluded.reason in wms2("request", "show", name)


async def test_a_file_with_fewer_events_than_the_catalogue_says_is_told_and_fails_nothing(
    stack: Settings, wms2: Wms2
) -> None:
    """By the whole file, by positions and by lumi sections; and never where lumi sections are chosen."""
    entries = payload.make_inputs(
        stack.home / "storage", 2, 40, locations=("T1_US_FNAL",), base=f"/store/data/Test/{unique('short')}",
        lumis_per_file=4,
    )  # fmt: skip
    lfn = entries[0]["lfn"]
    inputs = (InputFile(**{**entries[0], "events": 50}), InputFile(**entries[1]))
    splitting: list[dict[str, Any]] = [
        {"splitting_algo": "FileBased", "splitting_params": {"files_per_job": 2}},
        {"splitting_algo": "EventBased", "splitting_params": {"events_per_job": 30}},
        {"splitting_algo": "LumiBased", "splitting_params": {"lumis_per_job": 3}},
        {"splitting_algo": "LumiBased", "splitting_params": {}, "lumi_mask": {"1": [[2, 7]]}},
    ]
    requests = [
        reprocessing(request_name=unique("short"), memory_mb=500, time_per_event_sec=0.01, **fields)
        for fields in splitting
    ]
    rounds = [Round(stack, request, inputs=inputs) for request in requests]
    ended = await asyncio.gather(*(round_.run() for round_ in rounds))
    assert [progress.outcome for progress in ended] == [DagOutcome.COMPLETED] * 4
    for round_ in rounds:
        closed = await close(round_)
        assert (closed.units_abandoned, closed.discrepancies) == (0, ())
    *told, chosen = [recorded(round_).short for round_ in rounds]
    assert [(file.lfn, file.events, file.read_events) for files in told for file in files] == [
        (lfn, 50, 40)
    ] * 3
    assert chosen == ()
    shown = wms2("request", "errors", requests[0].request_name)
    assert "fewer events were read than the catalogue says" in shown
    assert lfn in shown
    assert "1 input files of round 0 gave 10 events fewer" in wms2("request", "why", requests[0].request_name)


async def test_a_stop_is_no_failure(stack: Settings) -> None:
    gate = Gate(stack)
    request = small_simulation(stack, "stopped", step={"faults": gate.before()}, total_events=40)
    round_ = Round(stack, request)
    dag = await round_.start()
    await round_.until(dag, lambda _: round_.has_begun("proc_000000"))
    seen = await round_.activities.stop_dag(dag, "a test")
    assert seen is not None
    assert (seen.progress.outcome, seen.causes) == (DagOutcome.STOPPED, "1 not finished")
    assert [dag.summary.nodes_failed for dag in recorded(round_).dags] == [0]
