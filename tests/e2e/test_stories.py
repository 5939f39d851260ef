"""Whole requests in which much fails, on the real engines, side by side: what WMS2 does by itself, what a person does.

Which jobs fail, how often and where is said in advance, so that each story has one course however fast it goes. In the
end every event number that it should have made is once in the merged files, and no other.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.documents import (
    EVENTS_PER_FILE,
    INPUT_FILES,
    PILOT_JOB,
    Document,
    Fault,
    input_file,
    pilot_only,
    reprocessing,
    simulation,
    waits,
)
from tests.e2e.stand import INPUT_SITES, Stand, own_stand
from tests.e2e.stories import PERMANENT
from tests.integration.rounds import has_begun
from wms2.core.decisions import DECIDED, Rule
from wms2.core.rounds import RESCUE_RAISE
from wms2.dagman.include import allowed_sites, round_priority
from wms2.dagman.posts import PostRecord, attempt_post, attempts_by_node
from wms2.dagman.removals import LEFT_FILE, read_list
from wms2.db.audit import audit_trail
from wms2.db.session import transaction
from wms2.models.dag import DagStatus
from wms2.models.ledger import InputFileState, WorkUnitStatus
from wms2.models.request import RequestStatus

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("stories")]

BAD_CONFIGURATION, NO_STAGE_OUT = 8501, 60311
"""Permanent; and the fault of a site, which a node tries twice before its work unit elects another one."""
EVENTS_OF_A_JOB = 20
BROKEN, SOUND, OTHER = "T1_US_FNAL", "T2_US_Purdue", "T2_CH_CERN"

Story = Callable[[Stand], None]
Tales = dict[str, Future[None]]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Callable[[Tales], None]:
    """A test that is told on one stack with the others, and at the same time: each of them mostly waits."""

    def test(tales: Tales) -> None:
        tales[tell.__name__].result()

    STORIES[tell.__name__] = tell
    test.__name__, test.__doc__ = tell.__name__, tell.__doc__
    return test


@pytest.fixture(scope="module")
def tales(request: pytest.FixtureRequest) -> Iterator[Tales]:
    """Those that were chosen."""
    chosen = {item.name for item in request.session.items}
    with own_stand(WMS2_MAX_VERSIONS="2") as stand, ThreadPoolExecutor(len(STORIES)) as people:
        stand.start_worker()
        yield {name: people.submit(tell, stand) for name, tell in STORIES.items() if name in chosen}
        # Who interrupts the tests need not wait for the end of each story.
        stand.patience_sec = 0


# What a story is made of ------------------------------------------------------------------------------------


def at_once(name: str, stand: Stand, units: int, *faults: Fault) -> Document:
    """A simulation without a pilot: its first round has so many work units, each of one job, 20 events of its own."""
    return simulation(name, stand.folder, *faults, events=units * EVENTS_OF_A_JOB) | {"urgent": True}


def in_pairs(name: str, stand: Stand, units: int, *faults: Fault) -> Document:
    """The same with two jobs of 10 events in each work unit."""
    shape = {"splitting_params": {"events_per_job": EVENTS_OF_A_JOB // 2}, "merge_target_bytes": 20_000}
    return at_once(name, stand, units, *faults) | shape


def job(number: int) -> str:
    return f"proc_{number:06d}"


def fails(number: int, code: int, **where: Any) -> Fault:
    return {"node": job(number), "exit_code": code, **where}


def numbers(*units: int) -> set[int]:
    """The event numbers of work units of 20 events, counted from 0."""
    return {unit * EVENTS_OF_A_JOB + event for unit in units for event in range(1, EVENTS_OF_A_JOB + 1)}


def folder(stand: Stand, name: str, round_: int = 0) -> Path:
    return stand.home / "submit" / name / f"round_{round_:02d}"


def held_reason(stand: Stand, name: str) -> str:
    """Wait until work units failed and it is held."""
    stand.until(name, "partial", "held")
    return stand.record(name).status_reason


def errors(stand: Stand, name: str) -> Any:
    return json.loads(stand.wms2("request", "errors", name, "--json"))


def decisions(stand: Stand, name: str) -> list[tuple[str, str, int]]:
    """How the end of each DAG was decided: round:attempt, the rule, and the rescues that had counted by then."""
    with transaction(stand.engine) as session:
        trail = [entry.action for entry in audit_trail(session, name)]
    told = [action.detail for action in reversed(trail) if action.action == DECIDED]
    return [(one["dag_id"].partition(":")[2], one["rule"], one["end"]["failure_rescues"]) for one in told]


def attempts(stand: Stand, name: str, dag: str) -> list[PostRecord]:
    """The attempts that ended in a DAG, given as round:attempt, and in those that came after it in its round."""
    (found,) = [one for one in stand.overview(name).dags if one.intent.dag_id == f"{name}:{dag}"]
    posts = [
        attempt_post(unit, node, cluster)
        for unit in Path(found.intent.submit_dir).glob("mg_*")
        for node, clusters in attempts_by_node(unit).items()
        for cluster in clusters
        if cluster > (found.dagman_cluster_id or 0)
    ]
    return [post for post in posts if post is not None]


def bans(stand: Stand, name: str) -> set[str]:
    """The sites that `wms2 site bans` shows for the request."""
    listed = json.loads(stand.wms2("site", "bans", "--json"))
    return {ban["site_name"] for ban in listed if ban["request_name"] == name}


# Failures of the work itself --------------------------------------------------------------------------------


@story
def test_a_round_of_which_15_percent_fails_is_rescued_by_itself_and_the_retried_goes_first(
    stand: Stand,
) -> None:
    units, failing, gate = 13, (3, 7), stand.gate("fifteen")
    once = [fails(number, PERMANENT, times=1) for number in failing]
    name = stand.submit(
        at_once("story_fifteen", stand, units, *once, *(waits(gate, job(number)) for number in failing))
    )
    stand.until(name, "active", "partial", "active")
    raised = stand.record(name).priority + RESCUE_RAISE
    stand.wait(lambda: round_priority(folder(stand, name)) == raised, lambda: stand.tale(name))
    stand.wait(
        lambda: stand.queued_priorities(name, "Processing") == [raised] * len(failing),
        lambda: stand.tale(name),
    )
    stand.open(gate)
    stand.until(name, "completed")

    stand.assert_exactly_once(name, "0:1", "0:2")
    assert set(stand.events(name)) == numbers(*range(units))
    first, rescue = stand.overview(name).dags
    assert (first.intent.parent_dag_id, rescue.intent.parent_dag_id) == (None, first.intent.dag_id)
    assert (first.status, rescue.status) == (DagStatus.PARTIAL, DagStatus.COMPLETED)
    assert decisions(stand, name) == [("0:1", Rule.BELOW_THE_THRESHOLD, 0), ("0:2", Rule.NONE_FAILED, 1)]
    assert "held" not in stand.statuses(name)


@story
def test_a_round_of_which_40_percent_fails_is_held_and_completes_after_a_release_with_changes(
    stand: Stand,
) -> None:
    """In the round that makes up for it one of two fails again, which only the new threshold lets pass."""
    name = stand.submit(
        at_once("story_forty", stand, 5, fails(1, PERMANENT, times=2), fails(3, BAD_CONFIGURATION, times=1))
    )
    reason = held_reason(stand, name)
    assert reason.startswith("2 of 5 work units failed, the limit is 20%: ")
    for code in (PERMANENT, BAD_CONFIGURATION):
        assert f"1 permanent ({code})" in reason
    shown = errors(stand, name)
    assert (shown["status"], shown["reason"]) == ("held", reason)
    assert shown["by_exit_code"] == {str(PERMANENT): 1, str(BAD_CONFIGURATION): 1}
    assert {node["work_unit"] for node in shown["dags"][0]["nodes"]} == {1, 3}
    assert f"wms2 request release {name}" in stand.wms2("request", "errors", name)

    stand.wms2("request", "size", name, "--events-per-job", str(EVENTS_OF_A_JOB))
    changes = ("--avoid-site", BROKEN, "--memory-mb", "600", "--threshold", "0.6", "--max-rescues", "1")
    stand.wms2("request", "release", name, *changes, "--reason", "a bad site, and too little memory")
    stand.until(name, "completed")

    stand.assert_exactly_once(name, "0:1", "1:1", "1:2")
    assert set(stand.events(name)) == numbers(0, 2, 4, 5, 6)
    assert BROKEN not in allowed_sites(folder(stand, name, 1))
    assert "request_memory = $($(node)_memory:600)" in (folder(stand, name, 1) / "proc.sub").read_text()
    assert stand.overview(name).ledger.units == {WorkUnitStatus.PRODUCED: 5, WorkUnitStatus.ABANDONED: 2}
    assert decisions(stand, name) == [
        ("0:1", Rule.AT_THE_THRESHOLD, 0),
        ("1:1", Rule.BELOW_THE_THRESHOLD, 0),
        ("1:2", Rule.NONE_FAILED, 1),
    ]


@story
def test_what_a_round_that_was_given_up_left_on_storage_is_removed_by_the_worker(stand: Stand) -> None:
    """The other job of the work unit that failed had staged out."""
    name = stand.submit(in_pairs("story_swept", stand, 2, fails(2, PERMANENT, times=1)))
    held_reason(stand, name)
    stand.wms2("request", "release", name, "--reason", "the cause is mended")
    stand.until(name, "completed")
    stand.assert_exactly_once(name, "0:1", "1:1")

    stand.wait((folder(stand, name) / LEFT_FILE).exists, lambda: stand.tale(name))
    assert read_list(folder(stand, name) / LEFT_FILE).files == ()
    mine = f"*{stand.record(name).request.digest8}_*"
    found = {path for path in (stand.home / "storage").rglob(mine) if path.is_file()}
    assert found == set(stand.merged_files(name))


@story
def test_a_pilot_that_fails_is_rescued_once_then_held_and_released(stand: Stand) -> None:
    lost: Fault = {"node": PILOT_JOB, "exit_code": PERMANENT, "times": 2}
    name = stand.submit(pilot_only("story_pilot", stand.folder, lost))
    assert held_reason(stand, name) == f"1 of 1 work units failed after 1 rescues: 1 permanent ({PERMANENT})"
    stand.wms2("request", "release", name, "--reason", "the cause is mended")
    stand.until(name, "completed")

    stand.assert_exactly_once(name, "0:1", "0:2", "1:1")
    assert set(stand.events(name)) == numbers(1), "the numbers that the pilot was to make are used up"
    assert decisions(stand, name) == [
        ("0:1", Rule.PILOT_RESCUE, 0),
        ("0:2", Rule.RESCUES_USED_UP, 1),
        ("1:1", Rule.NONE_FAILED, 0),
    ]


# Failures of sites and of files -----------------------------------------------------------------------------


@story
def test_a_site_that_fails_everything_is_banned_before_the_rescue_which_goes_elsewhere(stand: Stand) -> None:
    """Work units leave the broken site by themselves; the first one has no luck at the other one either, at first."""
    everything: Fault = {"at_site": BROKEN, "exit_code": NO_STAGE_OUT}
    unlucky = [fails(number, NO_STAGE_OUT, at_site=SOUND, times=2) for number in (0, 1)]
    document = in_pairs("story_broken", stand, 3, everything, *unlucky)
    name = stand.submit(document | {"site_whitelist": [BROKEN, SOUND], "error_hold_threshold": 0.5})
    stand.until(name, "completed")

    stand.assert_exactly_once(name, "0:1", "0:2")
    assert set(stand.events(name)) == numbers(0, 1, 2)
    assert bans(stand, name) == {BROKEN}
    assert f"attempts failed at {BROKEN}" in stand.wms2("request", "show", name)
    assert allowed_sites(folder(stand, name)) == [SOUND]
    assert {post.site for post in attempts(stand, name, "0:2")} == {SOUND}
    failed = [post for post in attempts(stand, name, "0:1") if post.category == "infrastructure"]
    assert {BROKEN, SOUND} == {post.site for post in failed}
    assert "held" not in stand.statuses(name)


@story
def test_a_request_of_which_every_site_is_banned_is_held_until_a_ban_is_lifted(stand: Stand) -> None:
    """Two of its three work units fail at its only site: in two elections, each of their jobs twice in each."""
    broken = [fails(number, NO_STAGE_OUT, times=4) for number in range(4)]
    document = in_pairs("story_nowhere", stand, 3, *broken)
    name = stand.submit(document | {"site_whitelist": [OTHER], "error_hold_threshold": 0.9})
    reason = held_reason(stand, name)
    assert reason.startswith("2 of 3 work units failed: 2 infrastructure at")
    assert f"attempts failed at {OTHER}" in reason
    assert reason.endswith("; no site is left, all of the round's are banned or closed")
    assert bans(stand, name) == {OTHER}
    stand.wms2("request", "release", name, "--reason", "nothing has changed")
    stand.until(name, "queued", "held")
    assert "no site is left for round 0" in stand.overview(name).record.status_reason

    stand.wms2("site", "unban", OTHER, "--request", name, "--reason", "its storage is back")
    stand.wms2("request", "release", name, "--reason", "its site is back")
    stand.until(name, "completed")
    stand.assert_exactly_once(name, "0:1", "0:2")
    assert set(stand.events(name)) == numbers(0, 1, 2)
    assert bans(stand, name) == set()


@story
def test_a_file_that_two_sites_cannot_read_is_left_out_and_the_others_are_processed(stand: Stand) -> None:
    bad = 7
    name = "story_file"
    lfn = input_file(name, bad)
    stand.submit(reprocessing(name, stand.folder) | {"urgent": True}, bad_files=[bad])
    reason = held_reason(stand, name)
    assert reason.startswith("1 of 3 work units failed, the limit is 20%: 1 data (80")
    shown = errors(stand, name)
    assert {(file["lfn"], file["site"]) for file in shown["files"]} == {(lfn, site) for site in INPUT_SITES}
    assert "bad input files are excluded" in shown["advice"]
    stand.wms2("request", "release", name, "--reason", "without the bad file")
    stand.until(name, "completed")

    stand.assert_exactly_once(name, "0:1", "1:1", bad_files=1)
    everything = set(range(1, INPUT_FILES * EVENTS_PER_FILE + 1))
    first = bad * EVENTS_PER_FILE + 1
    assert set(stand.events(name)) == everything - set(range(first, first + EVENTS_PER_FILE))
    (excluded,) = stand.overview(name).left_out
    assert (excluded.lfn, excluded.state) == (lfn, InputFileState.EXCLUDED)
    assert excluded.reason.startswith(f"could not be read at {' and '.join(sorted(INPUT_SITES))}")
    for words in (("request", "show", name), ("request", "errors", name)):
        seen = stand.wms2(*words)
        assert lfn in seen
        assert excluded.reason in seen


# People in the middle of it ---------------------------------------------------------------------------------


@story
def test_a_stop_in_a_round_with_failures_uses_no_attempt_and_counts_as_no_rescue(stand: Stand) -> None:
    """One work unit fails before the stop and again after it; one rescue is all that the request may have."""
    waiting, failing, gate = 0, 1, stand.gate("stop")
    document = at_once("story_stop", stand, 6, fails(failing, PERMANENT, times=2), waits(gate, job(waiting)))
    name = stand.submit(document | {"error_max_rescue_attempts": 1})
    round_ = folder(stand, name)
    verdict = round_ / f"mg_{failing:06d}" / "verdict.json"
    stand.wait(lambda: verdict.exists() and has_begun(round_, job(waiting)), lambda: stand.tale(name))
    stand.wms2("request", "stop", name, "--reason", "maintenance")
    stand.until(name, "stopping", "resubmitting", "queued", "active")
    stand.open(gate)
    stand.until(name, "completed")

    stand.assert_exactly_once(name, "0:1", "0:2", "0:3")
    assert set(stand.events(name)) == numbers(*range(6))
    assert [dag.status for dag in stand.overview(name).dags] == [
        DagStatus.STOPPED,
        DagStatus.PARTIAL,
        DagStatus.COMPLETED,
    ]
    assert decisions(stand, name) == [("0:2", Rule.BELOW_THE_THRESHOLD, 0), ("0:3", Rule.NONE_FAILED, 1)]
    assert "held" not in stand.statuses(name)
    last = json.loads((round_ / f"mg_{waiting:06d}" / f"{job(waiting)}.post.json").read_bytes())
    assert (last["attempt"], last["classification"]["category"]) == (0, "success")


@story
def test_a_restart_in_the_middle_of_a_round_makes_all_of_it_anew_and_nothing_twice(stand: Stand) -> None:
    """Two of three work units are produced by then. The next version waits where the old one did."""
    units, gate = 3, stand.gate("restart")
    name = stand.submit(at_once("story_restart", stand, units, waits(gate, job(2))))
    stand.wait(
        lambda: stand.overview(name).ledger.units.get(WorkUnitStatus.PRODUCED) == 2, lambda: stand.tale(name)
    )
    stand.wms2("request", "restart", name, "--reason", "wrong conditions", "--yes")
    stand.until(name, "stopping", "failed")
    clone = f"{name}_v2"
    stand.until(clone, "active")
    refusal = stand.refused("request", "restart", clone, "--yes")
    assert refusal == f"Error: {clone} is version 2 of at most 2; fail it, and submit a corrected request\n"
    stand.open(gate)
    stand.until(clone, "completed")

    stand.assert_exactly_once(clone, "0:1")
    assert set(stand.events(clone)) == numbers(*range(units))
    old, new = stand.overview(name), stand.overview(clone)
    assert (old.record.status, old.record.superseded_by_request) == (RequestStatus.FAILED, clone)
    assert (new.record.request.previous_version_request, new.record.request.processing_version) == (name, 2)
    assert stand.events(name) == Counter(numbers(0, 1))
    assert old.ledger.units == {WorkUnitStatus.PRODUCED: 2, WorkUnitStatus.ABANDONED: 1}
    stand.assert_ledger_is_exact(name)
    assert stand.dag_ids(name) == [f"{name}:0:1"]
    for seen, version in ((old, "v1"), (new, "v2")):
        assert [output.dataset.split("/")[2].rpartition("-")[2] for output in seen.outputs] == [version]
    assert not set(stand.merged_files(name)) & set(stand.merged_files(clone))
