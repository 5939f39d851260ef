"""`wms2 request submit | list | show | watch | ...` and `wms2 worker run`: what people see, without any server."""

import io
import os
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from rich.console import Console
from temporalio import activity

from tests.factories import simulation
from wms2.cli.main import main
from wms2.cli.pace import Sample
from wms2.cli.request_actions import who_asks
from wms2.cli.request_watch import bars, frame, seconds_left, waits_for
from wms2.config import StackRecord
from wms2.models.ledger import Balance, WorkUnitStatus
from wms2.models.output import OutputStatus
from wms2.models.overview import OutputSummary, RequestOverview
from wms2.models.progress import DagOutcome, RoundProgress
from wms2.models.request import RequestRecord, RequestStatus
from wms2.models.workflow import Round, RoundKind, RoundStatus
from wms2.temporal.launch import first_state

EXAMPLE = Path(__file__).parents[2] / "examples/simulation.yaml"
START = datetime(2026, 1, 1, tzinfo=UTC)
NOWHERE = "127.0.0.1:1"


class Run:
    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, " ".join(stderr.split())


@pytest.fixture
def wms2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.setenv("WMS2_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str | Path) -> Run:
        monkeypatch.setattr(sys, "argv", ["wms2", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        return Run(int(ended.value.code or 0), output.out, output.err)

    return run


@pytest.mark.parametrize(
    "verb", ["submit", "list", "show", "watch", "release", "stop", "hold", "fail", "abort", "size"]
)
def test_every_verb_has_help_with_an_example(wms2: Any, verb: str) -> None:
    told = wms2("request", verb, "--help")
    assert told.code == 0
    assert f"wms2 request {verb}" in told.stdout.partition("Example")[2]


def test_only_what_is_a_signal_too_can_be_left_without_waiting(wms2: Any) -> None:
    for verb, offered in {"release": 1, "stop": 1, "fail": 1, "hold": 0, "abort": 0}.items():
        assert ("--no-wait" in wms2("request", verb, "--help").stdout) == bool(offered)


@pytest.mark.parametrize(
    "words",
    [
        ["request", "submit", EXAMPLE],
        ["request", "list"],
        ["request", "show", "some"],
        ["request", "watch", "some"],
        ["request", "stop", "some"],
        ["request", "abort", "some", "--yes"],
        ["worker", "run"],
    ],
)
def test_without_a_stack_people_are_told_to_start_one(wms2: Any, words: list[str]) -> None:
    told = wms2(*words)
    assert told.code == 2
    assert told.stdout == ""
    assert "wms2 up" in told.stderr


def test_a_server_that_does_not_answer_is_named_in_one_sentence(
    wms2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_DATABASE_URL", f"postgresql://nobody@{NOWHERE}/none")
    assert "the database does not answer" in wms2("request", "list").stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [("", "nobody answered. --yes does it"), ("n\n", "Nothing is done."), ("\n", "Nothing is done.")],
)  # fmt: skip
def test_what_cannot_be_taken_back_is_done_only_when_a_person_agrees(
    wms2: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    StackRecord().write(tmp_path / "empty")
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    told = wms2("down", "--purge")
    assert (told.code, told.stdout, said in told.stderr) == (1, "", True)
    assert (tmp_path / "empty" / "stack.json").exists()


def test_a_person_whose_user_has_no_name_can_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", MagicMock(side_effect=KeyError("no such user")))
    assert who_asks()["actor"] == f"user {os.getuid()}"


def test_what_a_log_holds_does_nothing_to_a_terminal(wms2: Any, tmp_path: Path) -> None:
    (tmp_path / "empty/logs").mkdir(parents=True)
    (tmp_path / "empty/logs/worker.log").write_text("a name \x1b]0;mine\x07 from outside\n")
    shown = wms2("logs", "worker")
    assert (shown.code, "from outside" in shown.stdout, "\x1b" in shown.stdout) == (0, True, False)


def test_a_wrong_file_is_refused_before_any_server_is_asked(wms2: Any, tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_text(EXAMPLE.read_text() + "colour: red\npriority: -1\n")
    told = wms2("request", "submit", tmp_path / "request.yaml")
    assert told.code == 2
    assert "colour" in told.stderr
    assert "priority" in told.stderr


def test_a_status_that_does_not_exist_is_refused(wms2: Any) -> None:
    told = wms2("request", "list", "--status", "asleep")
    assert told.code == 2
    assert "asleep" in told.stderr


def test_a_host_name_that_is_none_is_refused(wms2: Any) -> None:
    told = wms2("worker", "run", "--host", "no host")
    assert told.code == 2
    assert "--host" in told.stderr


@pytest.mark.parametrize("verb", ["abort", "fail"])
def test_what_is_final_is_asked_for_first(wms2: Any, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    monkeypatch.setattr("wms2.cli.request_actions.recorded_request", lambda *_: None)
    monkeypatch.setattr("wms2.cli.request_actions.deliver", lambda *_, **__: pytest.fail("it acted"))
    told = wms2("request", verb, "some")
    assert told.code == 1
    assert "final" in told.stderr


@pytest.mark.parametrize("verb", ["abort", "fail"])
def test_nobody_is_asked_about_a_request_that_cannot_be_found(wms2: Any, verb: str) -> None:
    told = wms2("request", verb, "some")
    assert told.code == 2
    assert "final" not in told.stderr


def test_a_request_begins_with_what_its_file_says() -> None:
    request = simulation(error_hold_threshold=0.5, error_max_rescue_attempts=7, priority=9)
    state = first_state(request, hold=False)
    assert (state.hold_threshold, state.max_rescues, state.priority) == (0.5, 7, 9)
    assert state.status is RequestStatus.SUBMITTED
    assert first_state(request, hold=True).status is RequestStatus.NEW


def test_only_methods_that_are_activities_are_registered() -> None:
    from wms2.worker import defined_activities

    class Some:
        @activity.defn
        async def wave(self) -> None: ...

        async def rest(self) -> None: ...

    assert [method.__name__ for method in defined_activities(Some())] == ["wave"]


def test_no_two_activities_of_a_queue_have_the_same_name() -> None:
    from wms2 import worker

    classes = (worker.RecordActivities, worker.AdmissionActivities, worker.OutputActivities)
    for served in (classes, (worker.PlanningActivities, worker.ClosingActivities, worker.DagActivities)):
        names = [method.__name__ for one in served for method in worker.defined_activities(one)]
        assert len(names) == len(set(names))
        assert names


def overview(
    status: RequestStatus, *, produced: int = 0, closed: bool = False, **changes: Any
) -> RequestOverview:
    request = simulation(total_events=1000)
    record = RequestRecord(
        id=uuid.UUID(int=1), request_no=1, request=request, priority=1, status=status, status_sequence=1,
        status_reason="because", status_transitions=(), superseded_by_request=None, created_at=START, updated_at=START,
    )  # fmt: skip
    round_ = Round(
        request_name=request.request_name, number=0, kind=RoundKind.PRODUCTION, snapshot_digest="0" * 64,
        status=RoundStatus.COMPLETED if closed else RoundStatus.ACTIVE, work_units=4, nodes=16, planned_events=1000,
        first_event=1, last_event=1000, submit_host=None, created_at=START, closed_at=START if closed else None,
    )  # fmt: skip
    output = OutputSummary(
        dataset="/a/b-c-v1/D", status=OutputStatus.PENDING, files=0, registered=0, events=0, size_bytes=0,
        announced_at=None,
    )  # fmt: skip
    ledger = Balance(
        events_planned=1000, events_processed=produced, events_produced=produced, events_abandoned=0, files={},
        units={WorkUnitStatus.PRODUCED: produced // 250, WorkUnitStatus.PLANNED: 4 - produced // 250},
    )  # fmt: skip
    fields: dict[str, Any] = {
        "record": record, "rounds": (round_,), "dags": (), "outputs": (output,), "ledger": ledger
    }  # fmt: skip
    return RequestOverview(**(fields | changes))


def text_of(*shown: Any) -> str:
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(frame(*shown))
    return console.export_text()


@pytest.mark.parametrize("status", [status for status in RequestStatus if not status.is_final])
def test_every_status_that_is_not_the_end_says_what_it_waits_for(status: RequestStatus) -> None:
    assert waits_for(overview(status)).startswith("waits ")


def test_who_watches_a_round_by_hand_is_not_sent_to_release_it() -> None:
    seen = overview(RequestStatus.NEW)
    by_hand = seen.model_copy(update={"record": seen.record.model_copy(update={"status_sequence": 0})})
    assert "release" in waits_for(seen)
    assert "is run by hand" in waits_for(by_hand)


def test_an_active_request_without_an_open_round_waits_for_its_outputs() -> None:
    assert "round 0" in waits_for(overview(RequestStatus.ACTIVE))
    assert "1 of 1 output datasets" in waits_for(overview(RequestStatus.ACTIVE, closed=True))


def test_the_end_is_estimated_from_the_pace_so_far() -> None:
    quarter, past = overview(RequestStatus.ACTIVE, produced=250), [Sample(START, 0)]
    assert seconds_left(quarter, START + timedelta(seconds=100), past) == pytest.approx(300)
    assert "may end in 5 min" in text_of(quarter, None, "", START + timedelta(seconds=100), past)


@pytest.mark.parametrize(
    ("status", "produced"), [("active", 0), ("active", 1000), ("held", 250), ("completed", 1000)]
)
def test_no_end_is_estimated_where_nobody_can_know(status: str, produced: int) -> None:
    later, shown = START + timedelta(seconds=100), overview(RequestStatus(status), produced=produced)
    assert seconds_left(shown, later, [Sample(START, 0)]) is None
    assert seconds_left(overview(RequestStatus.ACTIVE, produced=250), later, []) is None
    assert "unknown" in text_of(overview(RequestStatus.ACTIVE, produced=250), None, "", later)


def test_jobs_have_a_bar_while_a_round_is_open() -> None:
    progress = RoundProgress(
        outcome=DagOutcome.RUNNING, units_total=4, units_done=1, units_failed=0, units_running=3, nodes_total=16,
        nodes_done=5, nodes_failed=0, jobs_idle=2, jobs_running=3, jobs_held=0, events_total=1000, events_done=250,
    )  # fmt: skip
    active = overview(RequestStatus.ACTIVE, produced=250)
    assert [bar.name for bar in bars(active, None)] == ["rounds", "work units", "events"]
    (jobs,) = [bar for bar in bars(active, progress) if bar.name == "jobs"]
    assert (jobs.done, jobs.total, jobs.note) == (5, 16, "3 running, 2 idle, 0 held")
    assert "no worker answers" in text_of(active, None, "no worker answers", START)
