"""`wms2 request validate` and `plan`: what people see, without any server."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command

from tests.unit.test_reqmgr2_chain import tasks
from wms2.cli.deferred import Deferred
from wms2.cli.main import app, main

EXAMPLE = Path(__file__).parents[2] / "examples/simulation.yaml"


class Run:
    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, stderr


@pytest.fixture
def wms2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str | Path) -> Run:
        monkeypatch.setattr(sys, "argv", ["wms2", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return Run(int(ended.value.code or 0), output.out, output.err)

    return run


def reprocessing(tmp_path: Path, inputs: Any) -> tuple[Path, Path]:
    text = EXAMPLE.read_text().replace("primary_dataset: MinBias", "input_dataset: /MinBias/Run2024A-v1/RAW")
    text = text.replace("total_events: 2000\n", "").replace("EventBased", "FileBased")
    text = text.replace("{events_per_job: 100, events_per_lumi: 50}", "{files_per_job: 2}")
    text = text.replace("GEN-SIM", "RECO")
    request, listed = tmp_path / "request.yaml", tmp_path / "inputs.json"
    request.write_text(text)
    listed.write_text(inputs if isinstance(inputs, str) else json.dumps(inputs))
    return request, listed


def entry(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "lfn": f"/store/data/Run2024A/MinBias/RAW/v1/{number}.root",
        "size_bytes": 1000,
        "events": 10,
        "locations": ["T1_US_FNAL"],
        "lumis": [{"run": 1, "lumi": 1, "events": 10}],
    } | changes


def helps(command: Any) -> Iterator[str]:
    """All that --help tells of a command, its options and the commands below it, as it is written."""
    command = command.real() if isinstance(command, Deferred) else command
    yield from filter(None, [command.help, *(getattr(one, "help", None) for one in command.params)])
    for below in getattr(command, "commands", {}).values():
        yield from helps(below)


def test_every_help_shows_all_that_is_written_in_it() -> None:
    for text in helps(get_command(app)):
        written = text.replace("[bold]", "").replace("[/]", "").replace("\\[", "[")
        assert Text.from_markup(text).plain == written


def test_a_name_in_a_request_cannot_take_over_the_terminal_of_who_validates_it(
    wms2: Any, tmp_path: Path
) -> None:
    document, title = tasks(), "\x1b]0;owned\x07\x1b[31m"
    document["Task1"]["TaskName"] = f"{title}GEN"
    path = tmp_path / "request.json"
    path.write_text(json.dumps(document))
    told = wms2("request", "validate", path)
    assert told.code == 2
    assert "owned" in told.stderr
    assert told.stderr.replace("\n", "").isprintable()


def test_a_valid_file_is_told_so_on_stderr_and_json_goes_to_stdout(wms2: Any) -> None:
    assert wms2("request", "validate", EXAMPLE).stdout == ""
    told = wms2("request", "validate", EXAMPLE, "--json")
    assert told.code == 0
    assert json.loads(told.stdout)["request_name"] == "demo_simulation"


def test_a_file_with_ten_mistakes_names_all_ten_with_their_fields(wms2: Any, tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    mistakes = {
        "request_name": ("demo_simulation", "no good name"),
        "total_events": ("total_events: 2000", "total_events: -5"),
        "memory_mb": ("1000\n", "plenty\n"),
        "acquisition_era": ("Run2024A", "Run 2024"),
        "processing_version": ("processing_version: 1", "processing_version: 0"),
        "outputs.0.tier": ("tier: GEN-SIM", "tier: gen sim"),
        "splitting_params.events_per_job": ("events_per_job: 100", "events_per_job: 0"),
        "size_per_event_kb": ("size_per_event_kb: 1.0", "size_per_event_kb: -1"),
        "payload_config.steps.0.type": ("type: demo", "type: shell"),
        "campain": ("campaign: Demo2024", "campain: Demo2024"),
    }
    for old, new in mistakes.values():
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    told = wms2("request", "validate", path)
    assert told.code == 2
    assert told.stdout == ""
    for field in mistakes:
        assert field.replace(".0", "[0]") in told.stderr or field in told.stderr
    assert "Traceback" not in told.stderr


def test_a_plan_says_how_much_there_is_to_do(wms2: Any, tmp_path: Path) -> None:
    told = wms2("request", "plan", EXAMPLE, "--out", tmp_path / "round", "--json")
    summary = json.loads(told.stdout)
    assert (summary["jobs"], summary["events"], summary["work_units"]) == (20, 2000, 4)
    assert summary["output_bytes"] == 2_000_000
    assert (tmp_path / "round/workflow.dag").exists()
    again = json.loads(wms2("request", "plan", EXAMPLE, "--out", tmp_path / "round", "--json").stdout)
    assert again == summary


def test_a_plan_of_input_files_keeps_to_their_sites(wms2: Any, tmp_path: Path) -> None:
    request, inputs = reprocessing(tmp_path, [entry(k) for k in range(5)])
    told = wms2("request", "plan", request, "--inputs", inputs, "--out", tmp_path / "round", "--json")
    summary = json.loads(told.stdout)
    assert (summary["jobs"], summary["input_files"], summary["events"]) == (3, 5, 50)
    manifest = json.loads((tmp_path / "round/mg_000000/manifest.json").read_text())
    assert manifest["sites"] == ["T1_US_FNAL"]


def test_every_mistake_of_an_inputs_file_is_named_at_once(wms2: Any, tmp_path: Path) -> None:
    bad = [
        entry(1, lfn="/store/../etc/passwd"),
        entry(2, locations=["T2_US_Purdue; rm"]),
        entry(3, events=-1),
        entry(4, lumis=[{"run": 0, "lumi": 1, "events": 1}]),
        entry(5, colour="red"),
    ]
    request, inputs = reprocessing(tmp_path, bad)
    told = wms2("request", "plan", request, "--inputs", inputs, "--out", tmp_path / "round")
    assert told.code == 2
    for place in ("[0].lfn", "[1].locations[0]", "[2].events", "[3].lumis[0].run", "[4].colour"):
        assert place in told.stderr
    assert not (tmp_path / "round").exists()


def test_a_file_listed_twice_is_named(wms2: Any, tmp_path: Path) -> None:
    request, inputs = reprocessing(tmp_path, [entry(1), entry(1)])
    told = wms2("request", "plan", request, "--inputs", inputs, "--out", tmp_path / "round")
    assert told.code == 2
    assert "v1/1.root" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"lfn": 1}', "[[[["])
def test_an_inputs_file_that_is_no_list_of_files_is_one_sentence(
    wms2: Any, tmp_path: Path, text: str
) -> None:
    request, inputs = reprocessing(tmp_path, text)
    told = wms2("request", "plan", request, "--inputs", inputs, "--out", tmp_path / "round")
    assert told.code == 2
    assert "inputs.json" in told.stderr
    assert "Traceback" not in told.stderr


def test_inputs_for_a_simulation_and_none_for_a_reprocessing_are_refused(wms2: Any, tmp_path: Path) -> None:
    request, inputs = reprocessing(tmp_path, [])
    assert (
        "leave --inputs away"
        in wms2("request", "plan", EXAMPLE, "--inputs", inputs, "--out", tmp_path / "r").stderr
    )
    assert "with --inputs FILE" in wms2("request", "plan", request, "--out", tmp_path / "r").stderr


def test_a_hostile_site_on_the_command_line_is_refused(wms2: Any, tmp_path: Path) -> None:
    told = wms2("request", "plan", EXAMPLE, "--out", tmp_path / "r", "--site", 'T2_US_X"\nqueue 9')
    assert told.code == 2
    assert "Traceback" not in told.stderr


def test_pileup_is_planned_without_a_server_and_noted(wms2: Any, tmp_path: Path) -> None:
    request = tmp_path / "request.yaml"
    request.write_text(EXAMPLE.read_text() + "secondary_input_dataset: /Neutrino/Era-premix-v1/PREMIX\n")
    told = wms2("request", "plan", request, "--out", tmp_path / "round")
    assert told.code == 0
    assert "Note: where the pile-up /Neutrino/Era-premix-v1/PREMIX is" in " ".join(told.stderr.split())
    assert not (tmp_path / "round/pileup.json.gz").exists()


def chain_file(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(tasks(**changes)))
    return path


def test_all_requests_of_a_chain_of_tasks_are_checked(wms2: Any, tmp_path: Path) -> None:
    path = chain_file(tmp_path)
    told = wms2("request", "validate", path)
    assert (told.code, told.stderr.count("is valid")) == (0, 3)
    assert "becomes 3 requests that begin with Task1, Task2, Task4" in told.stderr.replace("\n", " ")
    listed = json.loads(wms2("request", "validate", path, "--json").stdout)
    assert [(one["request"]["request_name"], one["parent"]) for one in listed] == [
        ("operator_tasks_Task1", None),
        ("operator_tasks_Task2", "operator_tasks_Task1"),
        ("operator_tasks_Task4", "operator_tasks_Task2"),
    ]


def test_mistakes_of_later_tasks_are_told_as_well(wms2: Any, tmp_path: Path) -> None:
    path = chain_file(tmp_path, changes={"Task1": {"RequestNumEvents": -1}, "Task4": {"Memory": "plenty"}})
    told = wms2("request", "validate", path)
    assert told.code == 2
    assert "Task1.RequestNumEvents" in told.stderr
    assert "Task4.Memory" in told.stderr


def test_any_request_of_a_chain_of_tasks_can_be_planned(wms2: Any, tmp_path: Path) -> None:
    path, inputs = chain_file(tmp_path), tmp_path / "inputs.json"
    inputs.write_text(json.dumps([entry(k) for k in range(6)]))
    first = json.loads(wms2("request", "plan", path, "--json").stdout)
    assert (first["request"], first["jobs"]) == ("operator_tasks_Task1", 10)
    second = json.loads(wms2("request", "plan", path, "--task", "Task2", "--inputs", inputs, "--json").stdout)
    assert (second["request"], second["jobs"]) == ("operator_tasks_Task2", 2)
    assert "Task1, Task2, Task4" in wms2("request", "plan", path, "--task", "Task3").stderr.replace("\n", " ")
    assert "it is one request" in wms2("request", "plan", EXAMPLE, "--task", "Task3").stderr.replace(
        "\n", " "
    )


def test_the_requests_of_a_template_share_a_name_and_read_from_each_other(wms2: Any, tmp_path: Path) -> None:
    path = chain_file(tmp_path, RequestName=..., RequestTransition=..., OutputDatasets=...)
    listed = json.loads(wms2("request", "validate", path, "--json").stdout)
    names = [one["request"]["request_name"] for one in listed]
    assert {name.rsplit("_", 1)[0] for name in names} == {names[0].removesuffix("_Task1")}
    assert listed[1]["request"]["input_dataset"] == listed[0]["request"]["outputs"][0]["dataset"]


def test_a_chain_of_tasks_is_not_submitted_as_a_file(wms2: Any, tmp_path: Path) -> None:
    told = wms2("request", "submit", chain_file(tmp_path))
    assert told.code == 2
    assert "wms2 request import NAME" in told.stderr.replace("\n", " ")


def test_a_plan_without_a_folder_is_shown_and_nothing_is_written(
    wms2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = wms2("request", "plan", EXAMPLE, "--json")
    assert (told.code, json.loads(told.stdout)["jobs"]) == (0, 20)
    assert "nothing was written" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_in_one_sentence(wms2: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    told = wms2("request", "plan", EXAMPLE, "--out", tmp_path / "file" / "round")
    assert told.code == 2
    assert "file" in told.stderr
    assert "see that it is there" in told.stderr.replace("\n", " ")


def test_what_holds_no_round_is_never_taken_for_the_folder_of_one(wms2: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path):
        told = wms2("request", "plan", EXAMPLE, "--out", place)
        assert told.code == 2
        assert "choose a folder that is not there yet" in told.stderr.replace("\n", " ")
    assert (tmp_path / "file").read_text() == "mine"
