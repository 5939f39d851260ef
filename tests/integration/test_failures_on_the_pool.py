"""Nodes that fail in every way, at chosen attempts, on the real pool: what POST made of each, and what came of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.factories import reprocessing
from tests.integration.rounds import Round, small_simulation, unique
from wms2.config import Settings
from wms2.core.ledger import discrepancies
from wms2.dagman.posts import attempt_clusters
from wms2.db.crosscheck import cross_check
from wms2.db.ledger import balance
from wms2.db.session import transaction
from wms2.local import payload
from wms2.models.plan import InputFile
from wms2.models.progress import DagOutcome, RoundProgress

pytestmark = pytest.mark.pool

EVENTS = 20
"""Of a job, and each work unit is one job."""
DONE, RETRY, GIVE_UP = 0, 1, 42
Verdict = tuple[str, str, str, int]
"""Category, rule, outcome and answer of an attempt."""
SUCCESS: Verdict = ("success", "", "success", DONE)

CASES: dict[str, tuple[dict[str, Any], list[Verdict]]] = {
    "nothing": ({}, [SUCCESS]),
    "transient": (
        {"exit_code": 60324, "times": 1},
        [("transient", "stage-out-other", "retried", RETRY), SUCCESS],
    ),
    "permanent": ({"exit_code": 8501}, [("permanent", "generator", "no handler", GIVE_UP)]),
    "data": ({"exit_code": 8022}, [("data", "input-corrupt", "no handler", GIVE_UP)]),
    "site": (
        {"exit_code": 60307, "times": 1},
        [("infrastructure", "stage-out", "retried", RETRY), SUCCESS],
    ),
    "site, again and again": (
        {"exit_code": 60307, "times": 2},
        [
            ("infrastructure", "stage-out", "retried", RETRY),
            ("infrastructure", "stage-out", "attempts exhausted", GIVE_UP),
            SUCCESS,
        ],
    ),
    "memory": (
        # More than its job asked for, and less than what makes HTCondor remove it: the watchdog ends it.
        {"eat_memory_mb": 1000, "times": 1},
        [("resource:memory", "memory", "retried", RETRY), SUCCESS],
    ),
    "time": ({"exit_code": 50664}, [("resource:time", "wall-clock", "no handler", GIVE_UP)]),
    "disk": ({"exit_code": 50662, "times": 1}, [("resource:disk", "disk", "retried", RETRY), SUCCESS]),
    "unclassified": (
        {"exit_code": 77, "times": 4},
        [("unclassified", "unclassified", "retried", RETRY)] * 3
        + [("unclassified", "unclassified", "attempts exhausted", GIVE_UP)],
    ),
    "looping": ({"hang": True, "times": 1}, [("transient", "killed", "retried", RETRY), SUCCESS]),
    "output missing": ({"no_output": True}, [("permanent", "output-missing", "no handler", GIVE_UP)]),
    "output cut": ({"spoil_output": "cut"}, [("permanent", "output-missing", "no handler", GIVE_UP)]),
    "crash": ({"signal": 11}, [("permanent", "crash", "no handler", GIVE_UP)]),
    "killed": (
        {"kill_wrapper": "first", "times": 1},
        [("unclassified", "unclassified", "retried", RETRY), SUCCESS],
    ),
}
NODES = {name: f"proc_{number:06d}" for number, name in enumerate(CASES)}


def records(round_: Round, node: str) -> list[dict[str, Any]]:
    """What POST recorded of each attempt of a node, in their order, wherever the group was at the time."""
    (folder,) = {path.parent for path in round_.folder.glob(f"mg_*/{node}.*")}
    clusters = attempt_clusters(folder, node)
    return [json.loads((folder / f"{node}.{cluster}.post.json").read_text()) for cluster in clusters]


def verdicts(round_: Round, node: str) -> list[Verdict]:
    return [
        (said["category"], said.get("rule", ""), said["outcome"], post["answer"])
        for post in records(round_, node)
        for said in [post["classification"]]
    ]


def events_of(*nodes: str) -> Counter[int]:
    numbers = [int(node.partition("_")[2]) for node in nodes]
    return Counter(
        event for number in numbers for event in range(number * EVENTS + 1, (number + 1) * EVENTS + 1)
    )


async def test_nodes_that_fail_in_every_category_are_judged_retried_and_counted_exactly(
    stack: Settings,
) -> None:
    faults = [{**fault, "node": NODES[name]} for name, (fault, _) in CASES.items() if fault]
    step = {
        "name": "GEN",
        "type": "demo",
        # Long enough that a healthy step on a busy machine is never taken for one that loops.
        "stall_sec": 20,
        "parameters": {
            "faults": faults,
            "fault_dir": str(stack.home / "faults" / unique("every")),
            "memory_mb": 50,
        },
    }
    request = small_simulation(
        stack, "every", total_events=EVENTS * len(CASES), merge_target_bytes=EVENTS * 1000,
        payload_config={"steps": [step]}, memory_mb=1000,
    )  # fmt: skip
    round_ = Round(stack, request)
    progress = await round_.run()

    seen = {name: verdicts(round_, node) for name, node in NODES.items()}
    assert seen == {name: wanted for name, (_, wanted) in CASES.items()}
    assert_what_followed(round_)
    done = [NODES[name] for name, (_, wanted) in CASES.items() if wanted[-1] == SUCCESS]
    assert_exact(round_, progress, done)


def assert_what_followed(round_: Round) -> None:
    """Beside the answer: memory raised, another site elected, no attempt used where the site was at fault."""
    memory = {path.parent.name: path.read_text() for path in round_.folder.glob("mg_*/memory.inc")}
    raised = {unit for unit, text in memory.items() if "_memory = 1500" in text}
    unit_of = {
        node: path.parent.name for node in NODES.values() for path in round_.folder.glob(f"mg_*/{node}.log")
    }
    assert raised == {unit_of[NODES["memory"]]}
    elected_again = {path.parent.name for path in round_.folder.glob("mg_*/election_0")}
    assert elected_again == {unit_of[NODES["site, again and again"]]}
    first, _, last = records(round_, NODES["site, again and again"])
    assert first["elected_site"] != last["elected_site"]
    assert not first["classification"]["uses_attempt"]
    assert [post["final"] for post in records(round_, NODES["unclassified"])] == [False, False, False, True]
    looped, _ = records(round_, NODES["looping"])
    assert (looped["job"]["exit_code"], looped["classification"]["reason"][:7]) == (50665, "looping")
    eaten, _ = records(round_, NODES["memory"])
    assert (eaten["job"]["exit_code"], eaten["job"]["removal_reason"]) == (50660, None)
    for node in NODES.values():
        for post in records(round_, node):
            assert post["job"]["site"]
            assert post["job"]["wall_time_sec"] is not None


def assert_exact(round_: Round, progress: RoundProgress, done: list[str]) -> None:
    """The ledger, and the merged files event by event."""
    assert progress.outcome is DagOutcome.PARTIAL
    assert (progress.units_done, progress.events_done) == (len(done), EVENTS * len(done))
    assert round_.events() == events_of(*done)
    with transaction(round_.by_hand.engine) as session:
        ledger = balance(session, round_.request.request_name)
        found = discrepancies(cross_check(session, round_.request.request_name))
    # The round is still open: the units that failed may be rescued.
    left = len(round_.planned.work_units) - len(done)
    assert found == (f"{left} work units neither produced nor abandoned, 0 expected",)
    assert (ledger.events_planned, ledger.events_produced, ledger.events_abandoned) == (
        round_.request.total_events, EVENTS * len(done), 0,
    )  # fmt: skip


async def test_a_step_that_must_not_run_twice_is_left_to_a_person_who_lets_it_run_again(
    stack: Settings,
) -> None:
    """Vanished in the middle, done and then failed, and failed by its own word: only the last is tried again."""
    faults = [
        {"node": "proc_000000", "kill_wrapper": "first", "times": 1},
        {"node": "proc_000001", "spoil_output": "lost", "times": 1},
        {"node": "proc_000002", "hang": True, "times": 1},
        {"node": "proc_000003", "exit_code": 60324, "times": 1},
    ]
    step = {
        "name": "GEN", "type": "demo", "stall_sec": 20, "repeatable": False,
        "parameters": {"faults": faults, "fault_dir": str(stack.home / "faults" / unique("once"))},
    }  # fmt: skip
    handlers = [{"name": "all", "rules": [{"match_all_exit_codes": True}]}]
    request = small_simulation(
        stack, "once", total_events=4 * EVENTS, merge_target_bytes=EVENTS * 1000,
        payload_config={"steps": [step]}, failure_handlers=handlers,
    )  # fmt: skip
    round_ = Round(stack, request)
    progress = await round_.run()

    for node, code in (("proc_000000", 99501), ("proc_000001", 99502), ("proc_000002", 99501)):
        (post,) = records(round_, node)
        assert (post["job"]["exit_code"], post["answer"], post["final"]) == (code, GIVE_UP, True)
        assert (post["classification"]["rule"], post["classification"]["handler"]) == ("not-repeatable", None)
    own = [(post["job"]["exit_code"], post["answer"]) for post in records(round_, "proc_000003")]
    assert own == [(60324, RETRY), (0, DONE)]
    assert_exact(round_, progress, ["proc_000003"])

    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert [len(records(round_, f"proc_{number:06d}")) for number in range(4)] == [2] * 4
    round_.assert_every_event_once()


async def test_messages_made_to_break_a_shell_arrive_as_they_are_and_do_nothing(stack: Settings) -> None:
    """Through job, report, FJR, log, POST, and the environment of a recovery script."""
    hacked = stack.home / unique("hacked")
    messages = [
        f"$(touch {hacked}) `touch {hacked}` ; touch {hacked} | touch {hacked} && touch {hacked}",
        f"'; touch {hacked}; echo '\" \"$(touch {hacked})\" \\",
        "a line\n...\n005 (1.000.000) 01/01 00:00:00 Job terminated.\n\t(1) Normal termination (return value 0)\n...",
        "%s %n %d %% {0} {node} $(node) $$(GLIDEIN_CMSSite) ${HOME} ~ * ? [a-z] !!",
        "]]></FrameworkError><FrameworkError ExitStatus=\"0\"/></FrameworkJobReport> <!-- & &amp; &x;",
        "Größe ☃ \u202eabc\x1b[2J\x07 end",
    ]  # fmt: skip
    scripts = stack.home / unique("scripts")
    scripts.mkdir()
    (scripts / "note").write_text('#!/bin/sh\nprintf "%s" "$WMS2_MESSAGE" > "$WMS2_NODE.said"\n')
    (scripts / "note").chmod(0o755)
    faults = [
        {"node": f"proc_{number:06d}", "exit_code": 60324, "times": 1, "message": message}
        for number, message in enumerate(messages)
    ]
    handlers = [{"name": "noted", "rules": [{"exit_codes": [60324], "recovery_script": "note"}]}]
    request = small_simulation(
        stack,
        "shell",
        step={"faults": faults},
        total_events=EVENTS * len(messages),
        failure_handlers=handlers,
    )
    round_ = Round(stack, request, limits={"recovery_dir": str(scripts)})
    assert (await round_.run()).outcome is DagOutcome.COMPLETED

    for number, message in enumerate(messages):
        first, last = records(round_, f"proc_{number:06d}")
        assert (first["job"]["exit_code"], last["answer"]) == (60324, DONE)
        said = first["cmssw"]["error_message"]
        # What XML or JSON cannot hold is replaced, one character by one.
        kept = [(a, b) for a, b in zip(said, message.strip(), strict=True) if a != b]
        assert all(replaced in "?\ufffd" for replaced, _ in kept), (said, message)
        assert (noted(round_, number), first["recovery"]["outcome"]) == (said, "succeeded")
    assert not hacked.exists()
    round_.assert_every_event_once()


def noted(round_: Round, number: int) -> str:
    (path,) = round_.folder.glob(f"mg_*/proc_{number:06d}.said")
    return path.read_text()


async def test_files_with_every_character_that_a_name_may_have_are_read_and_named_when_they_are_bad(
    stack: Settings,
) -> None:
    base = f"/store/data/+plus=is._a-b/{unique('odd')}/=_..-+x"
    entries = payload.make_inputs(stack.home / "storage", 3, EVENTS, locations=("T2_DE_DESY",), base=base)
    bad = entries[1]["lfn"]
    Path(stack.home, f"storage/T2_DE_DESY{bad}").write_bytes(b"no ROOT file")
    request = reprocessing(
        request_name=unique("odd"), memory_mb=500, size_per_event_kb=1.0, merge_target_bytes=EVENTS * 1000,
        splitting_params={"files_per_job": 1},
    )  # fmt: skip
    round_ = Round(stack, request, inputs=tuple(InputFile(**entry) for entry in entries))
    assert (await round_.run()).outcome is DagOutcome.PARTIAL
    failed = [
        node
        for node in ("proc_000000", "proc_000001", "proc_000002")
        if verdicts(round_, node)[-1] != SUCCESS
    ]
    (node,) = failed
    assert {file for post in records(round_, node) for file in post["classification"]["bad_input_files"]} == {
        bad
    }
    lfns = {entry["lfn"] for entry in entries} - {bad}
    read = [file for other in {"proc_000000", "proc_000001", "proc_000002"} - {node}
            for file in records(round_, other)[-1]["cmssw"]["input_files"]]  # fmt: skip
    assert sorted(read) == sorted(lfns)
    assert sum(round_.events().values()) == 2 * EVENTS
