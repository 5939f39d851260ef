"""DAGs on the real pool."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.conftest import BREAKABLE, VANISHING
from tests.factories import reprocessing
from tests.integration.rounds import Gate, Round, small_simulation, unique
from tests.patience import PATIENCE_SEC
from wms2.activities.held import HeldDagmans
from wms2.config import Settings
from wms2.core.rounds import TAIL_RAISE
from wms2.dagman.outputs import produced_units
from wms2.dagman.rescue import newest_rescue
from wms2.db.dags import dags_of_round
from wms2.db.ledger import balance
from wms2.db.session import transaction
from wms2.local import payload, process
from wms2.local.demo import merged_paths
from wms2.local.sites import storage_folder
from wms2.local.stack import Stack
from wms2.models.dag import DagStatus
from wms2.models.ledger import Balance
from wms2.models.messages import Alert
from wms2.models.plan import InputFile, PilotPlan
from wms2.models.progress import DagOutcome, RoundProgress

pytestmark = pytest.mark.pool


async def test_a_round_completes_and_the_merged_files_hold_exactly_the_planned_events(
    stack: Settings,
) -> None:
    round_ = Round(stack, small_simulation(stack, "completes"))
    progress = await round_.run()
    assert progress.outcome is DagOutcome.COMPLETED
    assert (progress.units_done, progress.events_done, progress.nodes_done) == (3, 120, 15)
    round_.assert_every_event_once()
    with transaction(round_.by_hand.engine) as session:
        ledger = balance(session, round_.request.request_name)
    assert (ledger.events_planned, ledger.events_produced, ledger.events_abandoned) == (120, 120, 0)


async def test_unmerged_files_are_gone_when_a_work_unit_is_done(stack: Settings) -> None:
    round_ = Round(stack, small_simulation(stack, "cleans", total_events=40))
    dag = await round_.start()
    await round_.finish(dag)
    prefix = round_.request.digest8
    left = [path for path in (stack.home / "storage").rglob(f"{prefix}_*") if "unmerged" in path.parts]
    assert left == []
    for unit in round_.planned.work_units:
        assert json.loads((round_.folder / unit.name / "removals.json").read_text())["files"] == []


async def test_every_event_of_the_input_is_in_the_output_once(stack: Settings) -> None:
    locations = ("T1_US_FNAL", "T2_DE_DESY")
    entries = payload.make_inputs(
        stack.home / "storage", 5, 30, locations=locations, base=f"/store/data/Test/{unique('input')}"
    )
    request = reprocessing(
        request_name=unique("reads"), memory_mb=500, size_per_event_kb=1.0, merge_target_bytes=70_000
    )
    round_ = Round(stack, request, inputs=tuple(InputFile(**entry) for entry in entries))
    progress = await round_.run()
    assert progress.outcome is DagOutcome.COMPLETED
    assert round_.events() == dict.fromkeys(range(1, 151), 1)
    assert {round_.site_of(unit.name) for unit in round_.planned.work_units} <= set(locations)


async def test_exactly_the_chosen_lumi_sections_are_read(stack: Settings) -> None:
    """Three files of four lumi sections of ten events each; a job reads three, so jobs share files."""
    entries = payload.make_inputs(
        stack.home / "storage", 3, 40, locations=["T2_DE_DESY"], lumis_per_file=4,
        base=f"/store/data/Test/{unique('lumis')}",
    )  # fmt: skip
    request = reprocessing(
        request_name=unique("lumis"), memory_mb=500, splitting_algo="LumiBased",
        splitting_params={"lumis_per_job": 3}, lumi_mask={"1": [[2, 5], [9, 9]]},
    )  # fmt: skip
    round_ = Round(stack, request, inputs=tuple(InputFile(**entry) for entry in entries))
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert round_.events() == dict.fromkeys([*range(11, 51), *range(81, 91)], 1)


async def test_a_node_that_fails_once_is_retried_and_the_round_completes(stack: Settings) -> None:
    step = {"faults": [{"node": "proc_000001", "exit_code": 8028, "times": 1}]}
    round_ = Round(stack, small_simulation(stack, "failsonce", step=step, total_events=40))
    progress = await round_.run()
    assert progress.outcome is DagOutcome.COMPLETED
    assert len(round_.attempts("proc_000001")) == 2
    assert len(round_.attempts("proc_000000")) == 1
    first = round_.attempts("proc_000001")[0]
    post = json.loads((round_.folder / f"mg_000000/proc_000001.{first}.post.json").read_text())
    assert post["job"]["exit_code"] == 8028
    assert not post["final"]
    round_.assert_every_event_once()


async def test_a_work_unit_whose_site_breaks_elects_another(stack: Settings) -> None:
    gate = Gate(stack)
    step = {"faults": gate.before(at_site=BREAKABLE)}
    request = small_simulation(stack, "breaks", total_events=40, step=step)
    round_ = Round(stack, request, sites=(BREAKABLE, "T2_CH_CERN"))
    storage = storage_folder(stack.home, BREAKABLE)
    storage.rename(storage.with_name("set_aside"))
    storage.touch()
    try:
        round_.allow(BREAKABLE)
        dag = await round_.start()
        await round_.until(dag, lambda _: round_.has_begun("proc_000000", "proc_000001"))
        assert round_.site_of("mg_000000") == BREAKABLE
        round_.allow(BREAKABLE, "T2_CH_CERN")
        gate.open()
        progress = await round_.finish(dag)
    finally:
        storage.unlink()
        storage.with_name("set_aside").rename(storage)
    assert progress.outcome is DagOutcome.COMPLETED
    assert round_.site_of("mg_000000") == "T2_CH_CERN"
    assert (round_.folder / "mg_000000/election_0").is_dir()
    round_.assert_every_event_once()


async def test_a_work_unit_at_a_site_that_vanishes_elects_another(stack: Settings) -> None:
    step = {"faults": Gate(stack).before(at_site=VANISHING)}
    request = small_simulation(stack, "vanishes", total_events=40, step=step)
    round_ = Round(stack, request, sites=(VANISHING, "T2_US_Purdue"), limits={"idle_sec": 3600})
    pool = Stack(stack.home).pool()
    round_.allow(VANISHING)
    dag = await round_.start()

    def is_given_up(_: RoundProgress) -> bool:
        round_.age_jobs_that_wait_for(VANISHING)
        return (round_.folder / "mg_000000/election_0").is_dir()

    try:
        await round_.until(dag, lambda _: round_.has_begun("proc_000000", "proc_000001"))
        assert round_.site_of("mg_000000") == VANISHING
        pool.vanish_site(VANISHING)
        round_.allow(VANISHING, "T2_US_Purdue")
        await round_.until(dag, is_given_up)
        progress = await round_.finish(dag)
    finally:
        pool.return_site(VANISHING)
    assert progress.outcome is DagOutcome.COMPLETED
    assert round_.site_of("mg_000000") == "T2_US_Purdue"
    verdict = json.loads((round_.folder / "mg_000000/election_0/verdict.json").read_text())
    assert verdict["nodes"][0]["reason"] == f"WMS2 idle at {VANISHING}"
    round_.assert_every_event_once()


async def test_an_error_that_concerns_all_nodes_aborts_the_whole_dag(stack: Settings) -> None:
    gates = {f"proc_{number:06d}": Gate(stack) for number in (0, 2, 4)}
    faults = [{**fault, "exit_code": 7002} for node, gate in gates.items() for fault in gate.before(node)]
    request = small_simulation(stack, "aborts", step={"faults": faults})
    round_ = Round(stack, request, limits={"concurrent_work_units": 2})

    def begun() -> list[str]:
        return [node for node in gates if round_.has_begun(node)]

    dag = await round_.start()
    await round_.until(dag, lambda _: len(begun()) == 2)
    failing, running = begun()
    gates[failing].open()
    progress = await round_.finish(dag)
    assert progress.outcome is DagOutcome.ABORTED
    assert begun() == [failing, running]
    failures = await round_.activities.explain_dag(dag)
    codes = {node.node: node.exit_code for failure in failures for node in failure.nodes}
    assert codes == {failing: 7002}


async def test_a_permanent_failure_ends_its_work_unit_only_and_a_rescue_runs_only_that(
    stack: Settings,
) -> None:
    step = {"faults": [{"node": "proc_000002", "exit_code": 8501, "times": 1}]}
    round_ = Round(stack, small_simulation(stack, "rescued", step=step))
    dag = await round_.start()
    progress = await round_.finish(dag)
    assert progress.outcome is DagOutcome.PARTIAL
    assert (progress.units_done, progress.units_failed) == (2, 1)
    for rescue in round_.folder.glob("workflow.dag.rescue*"):
        # The worst case: DAGMan left no rescue file. Finished units must not run again all the same.
        rescue.unlink()
    before = {unit: round_.attempts(f"proc_{unit * 2:06d}") for unit in (0, 2)}
    rescued = await round_.start()
    assert rescued.order.attempt == 2
    progress = await round_.finish(rescued)
    assert progress.outcome is DagOutcome.COMPLETED
    assert {unit: round_.attempts(f"proc_{unit * 2:06d}") for unit in (0, 2)} == before
    round_.assert_every_event_once()


async def test_stop_and_resume_lose_and_repeat_nothing(stack: Settings) -> None:
    gate = Gate(stack)
    step = {"faults": gate.before("proc_000002", "proc_000003")}
    round_ = Round(stack, small_simulation(stack, "resumes", step=step, total_events=80))
    dag = await round_.start()
    await round_.until(
        dag, lambda progress: progress.units_done == 1 and round_.has_begun("proc_000002", "proc_000003")
    )
    seen = await round_.activities.stop_dag(dag, "the test says so")
    assert seen is not None
    assert seen.progress.outcome is DagOutcome.STOPPED
    assert newest_rescue(round_.folder / "workflow.dag")
    (output,) = round_.folder.glob("mg_*/merge_output.json")
    before = output.read_bytes()
    gate.open()
    resumed = await round_.start()
    assert resumed.cluster != dag.cluster
    progress = await round_.finish(resumed)
    assert progress.outcome is DagOutcome.COMPLETED
    assert output.read_bytes() == before
    assert all((unit / "removals.json").exists() for unit in round_.folder.glob("mg_*"))
    round_.assert_every_event_once()


async def test_a_dag_whose_folder_was_lost_can_still_be_stopped(stack: Settings) -> None:
    step = {"faults": Gate(stack).before("proc_000000")}
    round_ = Round(stack, small_simulation(stack, "folderless", step=step, total_events=20))
    dag = await round_.start()
    await round_.until(dag, lambda _: round_.has_begun("proc_000000"))
    round_.folder.rename(round_.folder.with_name("gone"))
    assert await round_.activities.stop_dag(dag, "the test says so") is None
    assert await round_.condor.dagmans(dag.cluster, dag.order.dag_id) == []
    (recorded,) = await round_.activities.record(dags_of_round, round_.request.request_name, 0)
    assert recorded.status is DagStatus.REMOVED


async def test_killing_dagman_outer_and_inner_runs_no_node_twice(stack: Settings) -> None:
    gate = Gate(stack)
    nodes = [f"proc_{number:06d}" for number in range(4)]
    step = {"faults": gate.before(*nodes)}
    round_ = Round(stack, small_simulation(stack, "killed", step=step, total_events=80))
    dag = await round_.start()
    await round_.until(dag, lambda _: round_.has_begun(*nodes))
    pids = _dagman_pids(round_.folder)
    assert len(pids) >= 3
    process.signal_all(pids, signal.SIGKILL)
    gate.open()
    progress = await round_.finish(dag)
    assert progress.outcome is DagOutcome.COMPLETED
    assert [len(round_.attempts(node)) for node in nodes] == [1] * 4
    round_.assert_every_event_once()


async def test_a_round_that_is_done_is_not_run_again(stack: Settings) -> None:
    round_ = Round(stack, small_simulation(stack, "done", total_events=40))
    dag = await round_.start()
    await round_.finish(dag)
    files = {path: path.stat().st_mtime_ns for path in merged_paths(stack.home, round_.folder)}
    again = await round_.start()
    assert (again.cluster, again.found) == (dag.cluster, True)
    assert (await round_.activities.observe_dag(again)).progress.outcome is DagOutcome.COMPLETED
    assert {path: path.stat().st_mtime_ns for path in merged_paths(stack.home, round_.folder)} == files


async def test_crediting_again_and_again_changes_nothing(stack: Settings) -> None:
    round_ = Round(stack, small_simulation(stack, "credits", total_events=40))
    dag = await round_.start()
    await round_.finish(dag)

    def ledger() -> Balance:
        with transaction(round_.by_hand.engine) as session:
            return balance(session, round_.request.request_name)

    before = ledger()
    looks = await asyncio.gather(*(round_.activities.observe_dag(dag) for _ in range(5)))
    assert all(look.conflicts == () for look in looks)
    assert ledger() == before


def _dagman_pids(folder: Path) -> list[int]:
    """The DAGMan processes that work in a round's folders."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
            place = (entry / "cwd").resolve()
        except OSError:
            continue
        if Path(command.split(b"\0")[0].decode()).name == "condor_dagman" and (
            place == folder or folder in place.parents
        ):
            pids.append(int(entry.name))
    return pids


async def test_a_held_dagman_of_a_work_unit_is_released_and_rescued_by_a_stop(
    stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.adapters.condor.RELEASE_SEC", PATIENCE_SEC)
    gate = Gate(stack)
    step = {"faults": gate.before("proc_000000", "proc_000001")}
    round_ = Round(stack, small_simulation(stack, "held", step=step, total_events=40))
    dag = await round_.start()
    await round_.until(dag, lambda _: round_.has_begun("proc_000000", "proc_000001"))
    inner = [ad.cluster for ad in await round_.condor.dagmans(dag.cluster, dag.order.dag_id) if ad.node]
    await round_.condor._act("Hold", inner[0], "the test says so")
    alerts: list[str] = []

    async def report(alert: Alert) -> None:
        alerts.append(alert.kind)

    held = HeldDagmans(round_.condor, dag, report)
    await held.look()
    await held.look()
    assert alerts == ["held_dagman"], "what a person holds is left so, and reported once"
    await round_.activities.stop_dag(dag, "maintenance")
    assert newest_rescue(round_.folder / "mg_000000/group.dag")
    gate.open()
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    round_.assert_every_event_once()


async def test_the_pilot_measures_and_its_output_counts(stack: Settings) -> None:
    pilot = PilotPlan(first_events=10, time_budget_sec=600, tolerance=0.5)
    request = small_simulation(
        stack, "pilot", total_events=400, merge_target_bytes=10**6,
        splitting_params={"events_per_job": 400, "events_per_lumi": 10},
    )  # fmt: skip
    round_ = Round(stack, request, pilot=pilot)
    progress = await round_.run()
    assert progress.outcome is DagOutcome.COMPLETED
    ((_, output),) = produced_units(round_.folder, round_.planned)
    node = output.nodes["proc_000000"]
    assert node.pilot is not None
    assert node.last_event is not None
    assert sorted(round_.events()) == list(range(1, node.last_event + 1))
    assert set(round_.events().values()) == {1}
    with transaction(round_.by_hand.engine) as session:
        ledger = balance(session, request.request_name)
    assert ledger.events_produced == node.last_event
    assert ledger.events_abandoned == 400 - node.last_event


async def test_the_last_work_units_go_first_those_in_the_queue_and_those_to_come(stack: Settings) -> None:
    gate = Gate(stack)
    request = small_simulation(
        stack, "tail", total_events=40, priority=7, step={"faults": gate.before("proc_000000", "proc_000001")}
    )
    round_ = Round(stack, request, priority=7)
    dag = await round_.start()
    progress = await round_.until(dag, lambda _: round_.has_begun("proc_000000"))

    assert not await round_.activities.hurry(dag.order, progress), "the first of one is not the last of ten"
    last_of_ten = progress.model_copy(update={"units_total": 10, "units_done": 9})
    assert await round_.activities.hurry(dag.order, last_of_ten)
    assert await round_.activities.hurry(dag.order, last_of_ten), "again changes nothing"
    gate.open()
    assert (await round_.finish(dag)).outcome is DagOutcome.COMPLETED
    priorities = round_.priorities()
    assert priorities["landing"] == 7
    assert priorities["proc_000000"] == priorities["merge"] == priorities["cleanup"] == 7 + TAIL_RAISE
