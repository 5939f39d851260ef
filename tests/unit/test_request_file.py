"""Request files with snake_case names: what is understood, and how mistakes are reported."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.errors import UserError
from wms2.models.mistakes import RequestFileError
from wms2.models.request import Completion, Request
from wms2.models.request_file import read_request, validate_request_file
from wms2.models.splitting import PARAMS, SplittingAlgo

DOCUMENT = Path(__file__).parents[2] / "docs" / "request-format.md"


def simulation(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "request_name": "demo_mc",
        "requestor": "operator",
        "campaign": "Demo",
        "acquisition_era": "Run2024A",
        "processing_string": "Demo",
        "primary_dataset": "MinBias",
        "total_events": 1000,
        "outputs": [{"tier": "GEN-SIM"}],
        "splitting_algo": "EventBased",
        "payload_config": {"steps": [{"name": "GEN", "type": "demo"}]},
    }
    return {name: value for name, value in (fields | changes).items() if value is not ...}


def reprocessing(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "primary_dataset": ...,
        "total_events": ...,
        "input_dataset": "/MinBias/Run2024A-v1/RAW",
        "outputs": [{"tier": "RECO"}],
        "splitting_algo": "FileBased",
    }
    return simulation(**(fields | changes))


def step_with(**parameters: Any) -> dict[str, Any]:
    release = {"pset": "a.py", "cmssw_version": "CMSSW_14_0_0", "scram_arch": "el9_amd64_gcc12"}
    step = {"name": "GEN", "type": "cmsRun", "parameters": {**release, **parameters}}
    return simulation(payload_config={"steps": [step]})


def parts(*steps: tuple[Any, Any]) -> dict[str, Any]:
    production = [{"fraction": fraction, "priority": priority} for fraction, priority in steps]
    return simulation(priority=100, production_steps=production)


def read(document: dict[str, Any]) -> Request:
    return read_request(json.dumps(document))


def mistakes(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(RequestFileError) as error:
        read(document)
    return {mistake.field: mistake.problem for mistake in error.value.mistakes}


# What is understood


def test_a_simulation_gets_the_defaults_of_the_specification() -> None:
    request = read(simulation())
    assert request.is_simulation
    assert (request.memory_mb, request.time_per_event_sec, request.size_per_event_kb) == (2048, 1.0, 1.5)
    assert (request.priority, request.urgent, request.cores) == (100_000, False, 1)
    assert (request.merged_lfn_base, request.unmerged_lfn_base) == ("/store/mc", "/store/unmerged")
    assert (request.merge_target_bytes, request.completion) == (4_000_000_000, Completion.PRODUCED)
    assert (request.error_hold_threshold, request.error_max_rescue_attempts) == (0.2, 3)
    assert (request.events_per_job, request.events_per_lumi) == (100_000, 100_000)


def test_a_reprocessing_merges_below_store_data() -> None:
    request = read(reprocessing())
    assert not request.is_simulation
    assert (request.merged_lfn_base, request.files_per_job) == ("/store/data", 5)


def test_the_name_of_an_output_dataset_follows_from_the_request() -> None:
    (output,) = read(simulation(processing_version=3)).outputs
    assert output.dataset == "/MinBias/Run2024A-Demo-v3/GEN-SIM"
    assert (output.module, output.step) == ("GENSIMoutput", "GEN")
    (output,) = read(reprocessing()).outputs
    assert output.dataset == "/MinBias/Run2024A-Demo-v1/RECO"


def test_listed_output_datasets_belong_to_the_outputs_of_their_tier() -> None:
    names = ["/Prim/Era-Proc_2-v7/AOD", "/Prim/Era-Proc_2-v7/RECO"]
    outputs = [{"tier": "RECO", "module": "RECOmodule"}, {"tier": "AOD"}]
    request = read(reprocessing(outputs=outputs, output_datasets=names))
    assert [(output.module, output.dataset) for output in request.outputs] == [
        ("RECOmodule", names[1]),
        ("AODoutput", names[0]),
    ]
    assert read(reprocessing(outputs=..., output_datasets=names)).output_datasets == tuple(names)


def test_output_datasets_without_an_output_and_outputs_without_a_dataset_are_mistakes() -> None:
    found = mistakes(reprocessing(outputs=[{"tier": "RECO"}], output_datasets=["/Prim/Era-Proc-v7/AOD"]))
    assert found.keys() == {"outputs[0].tier", "output_datasets[0]"}


def test_a_cmsrun_step_gets_the_release_of_the_request_unless_it_has_its_own() -> None:
    steps: list[dict[str, Any]] = [
        {"name": "A", "type": "cmsRun", "parameters": {"pset": "a.py", "cmssw_version": "CMSSW_14_1_0"}},
        {"name": "B", "type": "cmsRun", "parameters": {"pset": "b.py"}},
        {"name": "C", "type": "demo"},
    ]
    release = {"cmssw_version": "CMSSW_14_0_0", "scram_arch": "el9_amd64_gcc12", "global_tag": "140X_v3"}
    request = read(simulation(payload_config={"steps": steps}, **release))
    assert request.scram_arch == ("el9_amd64_gcc12",)
    assert request.payload_config["steps"] == [
        {**steps[0], "parameters": {**release, **steps[0]["parameters"]}},
        {**steps[1], "parameters": {**release, **steps[1]["parameters"]}},
        steps[2],
    ]


def test_the_payload_reaches_the_jobs_as_it_was_written() -> None:
    payload = {
        "steps": [
            {"name": "GEN", "type": "demo", "parameters": {"kb_per_event": 2.5, "deep": [{"x": None}]}}
        ],
        "merge": {"parameters": {"level": 3}},
        "anything": True,
    }
    assert read(simulation(payload_config=payload)).payload_config == payload


def test_a_request_written_as_json_is_read_back_the_same() -> None:
    request = read(simulation(job_attributes={"Colour": "blue", "Weight": 1.5, "Fast": True, "Size": 3}))
    assert read_request(request.model_dump_json()) == request
    values = list(request.job_attributes.values())
    assert [type(value) for value in values] == [str, float, bool, int]


def test_files_of_one_request_begin_with_the_same_eight_digits() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}", read(simulation()).digest8)
    assert read(simulation(total_events=5)).digest8 == read(simulation()).digest8
    assert read(simulation(request_name="another")).digest8 != read(simulation()).digest8


def test_parts_of_a_sample_go_first() -> None:
    steps = read(parts((0.1, 200), (0.5, 150))).production_steps
    assert [(step.fraction, step.priority) for step in steps] == [(0.1, 200), (0.5, 150)]


def test_pileup_is_what_the_steps_and_the_request_name() -> None:
    first, second, third = "/A/B-v1/PREMIX", "/C/D-v1/GEN-SIM", "/E/F-v1/RAW"
    steps = [
        {"name": "ONE", "type": "demo", "parameters": {"mc_pileup": [second, first]}},
        {"name": "TWO", "type": "demo", "parameters": {"data_pileup": third, "mc_pileup": first}},
    ]
    request = read(simulation(payload_config={"steps": steps}, secondary_input_dataset=third))
    assert request.pileup_datasets == (first, second, third)


def test_a_simulation_that_extends_another_begins_with_its_own_numbers() -> None:
    request = read(simulation(first_event=1001, first_lumi=11))
    assert (request.first_event, request.first_lumi) == (1001, 11)
    assert mistakes(simulation(first_event=2**63 - 500)).keys() == {"total_events"}
    assert mistakes(reprocessing(first_event=2, first_lumi=2)).keys() == {"first_event", "first_lumi"}


def test_an_empty_value_means_the_default() -> None:
    assert read(simulation(memory_mb=None, site_whitelist=None)) == read(simulation())


# How mistakes are reported


def test_a_request_file_with_ten_mistakes_reports_all_ten() -> None:
    found = mistakes(
        simulation(
            request_name="demo; rm -rf /",
            requestor=...,
            total_events=-5,
            splitting_params={"events_per_jobs": 10},
            site_whitelist=["T2_US_Purdue", "Purdue"],
            site_blacklist=["T2_US_Purdue"],
            priority="high",
            job_attributes={"Requirements": "true"},
            memry_mb=100,
            completion="later",
        )
    )
    assert found == {
        "request_name": "expected a name of 3 to 200 letters, digits, '_' or '-', beginning with a letter, "
        'found "demo; rm -rf /"',
        "requestor": "missing, expected the user name of who asks",
        "total_events": "expected a number of at least 1, found -5",
        "splitting_params.events_per_jobs": "unknown field, did you mean events_per_job?",
        "site_whitelist[1]": 'expected a CMS site name such as T2_US_Purdue, found "Purdue"',
        "site_blacklist[0]": 'expected none of the allowed sites, found "T2_US_Purdue"',
        "priority": 'expected a whole number, found "high"',
        "job_attributes.Requirements": "expected a name that neither HTCondor nor WMS2 uses itself, "
        'found "Requirements"',
        "memry_mb": "unknown field, did you mean memory_mb?",
        "completion": "expected 'produced' or 'offset', found \"later\"",
    }


def test_the_error_text_has_one_line_for_each_mistake() -> None:
    with pytest.raises(RequestFileError) as error:
        read_request(json.dumps(simulation(total_events=0, cores=0)), "demo.json")
    assert str(error.value).splitlines() == [
        "demo.json has 2 mistakes:",
        "  total_events: expected a number of at least 1, found 0",
        "  cores: expected a number of at least 1, found 0",
    ]
    with pytest.raises(RequestFileError) as error:
        read_request(json.dumps(simulation(cores=0)), "demo.json")
    assert str(error.value) == "demo.json has a mistake: cores: expected a number of at least 1, found 0"


ONE_MISTAKE: list[tuple[dict[str, Any], str, str]] = [
    (simulation(total_events=...), "total_events", "missing"),
    (simulation(total_events=2**63), "total_events", "at most"),
    (simulation(total_events=2**62, filter_efficiency=0.01), "total_events", "64 bits"),
    (simulation(total_events=2**32, splitting_params={"events_per_job": 1}), "total_events", "32 bits"),
    (
        simulation(total_events=1000, first_lumi=2**32 - 5, splitting_params={"events_per_job": 100}),
        "total_events",
        "32 bits",
    ),
    (simulation(total_events=1e6), "total_events", "whole number"),
    (simulation(total_events=True), "total_events", "whole number"),
    (simulation(primary_dataset=...), "primary_dataset", "missing"),
    (simulation(primary_dataset="a/b"), "primary_dataset", "primary dataset"),
    (simulation(splitting_algo="FileBased"), "splitting_algo", "no input dataset"),
    (simulation(splitting_algo="LumiBased"), "splitting_algo", "no input dataset"),
    (simulation(splitting_algo="ByMood"), "splitting_algo", "'FileBased', 'EventBased'"),
    (simulation(splitting_params={"events_per_job": 0}), "splitting_params.events_per_job", "at least 1"),
    (simulation(splitting_params={"files_per_job": 1}), "splitting_params.files_per_job", "unknown"),
    (simulation(splitting_params=[1]), "splitting_params", "a mapping"),
    (simulation(events_per_job=5), "events_per_job", "belongs into splitting_params"),
    (simulation(run_whitelist=[1]), "run_whitelist", "no input dataset"),
    (simulation(filter_efficiency=0), "filter_efficiency", "above 0"),
    (simulation(filter_efficiency=1.5), "filter_efficiency", "at most 1"),
    (simulation(acquisition_era="Run-2024"), "acquisition_era", "an era"),
    (simulation(processing_version=0), "processing_version", "at least 1"),
    (simulation(outputs=...), "outputs", "missing"),
    (simulation(outputs=[]), "outputs", "at least 1"),
    (simulation(outputs=["GEN"]), "outputs[0]", "a mapping"),
    (simulation(outputs=[{"tier": "GEN"}, {"tier": "GEN"}]), "outputs[1].dataset", "only once"),
    (simulation(outputs=[{"tier": "gen sim"}]), "outputs[0].tier", "data tier"),
    (simulation(outputs=[{"tier": "GEN", "step": "SIM"}]), "outputs[0].step", "one of GEN"),
    (simulation(outputs=[{"tier": "GEN", "module": "a b"}]), "outputs[0].module", "letters"),
    (simulation(outputs=[{"tier": "GEN", "dataset": "/A/B-C-v1/SIM"}]), "outputs[0].tier", "the tier of"),
    (simulation(outputs=..., output_datasets=["/A/B/GEN"]), "output_datasets[0]", "a dataset name"),
    (simulation(outputs=..., output_datasets=[7]), "output_datasets[0]", "a text"),
    (simulation(payload_config=...), "payload_config", "missing"),
    (simulation(payload_config={"steps": []}), "payload_config.steps", "at least 1"),
    (simulation(payload_config={"steps": [{"name": "GEN"}]}), "payload_config.steps[0].type", "missing"),
    (
        simulation(payload_config={"steps": [{"name": "GEN", "type": "demo"}] * 2}),
        "payload_config.steps[1].name",
        "only once",
    ),
    (
        simulation(payload_config={"steps": [{"name": "GEN", "type": "demo", "x": "y" * 2_000_000}]}),
        "payload_config",
        "at most 1000000 bytes",
    ),
    (
        simulation(
            payload_config={"steps": [{"name": "GEN", "type": "cmsRun", "parameters": {"pset": "a.py"}}]},
            cmssw_version="CMSSW_14_0_0",
        ),
        "scram_arch",
        "runs cmsRun",
    ),
    (
        simulation(
            payload_config={"steps": [{"name": "GEN", "type": "cmsRun"}]},
            cmssw_version="CMSSW_14_0_0",
            scram_arch="el9_amd64_gcc12",
        ),
        "payload_config.steps[0].parameters.pset",
        "missing",
    ),
    (step_with(mc_pileup="/A/B"), "payload_config.steps[0].parameters.mc_pileup", "a dataset name"),
    (step_with(data_pileup=["/A/B/C", 5]), "payload_config.steps[0].parameters.data_pileup", "a text"),
    (step_with(cores=0), "payload_config.steps[0].parameters.cores", "at least 1"),
    (step_with(memory_mb="2 GB"), "payload_config.steps[0].parameters.memory_mb", "a whole number"),
    (step_with(global_tag="a b"), "payload_config.steps[0].parameters.global_tag", "a conditions tag"),
    (simulation(cmssw_version="CMSSW_١٤_0_0"), "cmssw_version", "a release"),
    (simulation(scram_arch="x86"), "scram_arch", "an architecture"),
    (simulation(requires_gpu=True), "gpu_params", "missing"),
    (
        simulation(gpu_params={"gpu_memory_mb": 1, "cuda_runtime": "11"}),
        "gpu_params.cuda_capabilities",
        "missing",
    ),
    (simulation(site_whitelist=["T2_US_Purdue"] * 2), "site_whitelist[1]", "only once"),
    (simulation(site_whitelist="T2_US_Purdue"), "site_whitelist", "a list"),
    (simulation(unmerged_lfn_base="/store/mc/unmerged"), "unmerged_lfn_base", "apart"),
    (simulation(merged_lfn_base="/tmp"), "merged_lfn_base", "below /store"),
    (simulation(merged_lfn_base="/store/../etc"), "merged_lfn_base", "below /store"),
    (simulation(requestor_dn="nobody"), "requestor_dn", "certificate"),
    (simulation(previous_version_request="demo_mc"), "previous_version_request", "another request"),
    (simulation(error_hold_threshold=0), "error_hold_threshold", "above 0"),
    (simulation(priority=-1), "priority", "at least 0"),
    (parts((0.1, 200), (1.0, 150)), "production_steps[1].fraction", "below 1"),
    (parts((0.5, 200), (0.5, 150)), "production_steps[1].fraction", "more than the 0.5 before it, found 0.5"),
    (parts((0.1, 150), (0.5, 150)), "production_steps[1].priority", "less than the 150 before it, found 150"),
    (parts((0.1, 200), (0.5, 100)), "production_steps[1].priority", "the request's own priority (100)"),
    (parts((0, 200)), "production_steps[0].fraction", "above 0"),
    (parts((0.1, "high")), "production_steps[0].priority", "a whole number"),
    (
        simulation(production_steps=[{"fraction": 0.1}]),
        "production_steps[0].priority",
        "missing, expected its",
    ),
    (simulation(production_steps=[[0.1, 200_000]]), "production_steps[0]", "a mapping"),
    (simulation(production_steps={"fraction": 0.1}), "production_steps", "a list"),
    (simulation(group=5), "group", "a text"),
    (simulation(urgent=1), "urgent", "true or false"),
    (reprocessing(total_events=5), "total_events", "expected none"),
    (reprocessing(primary_dataset="MinBias"), "primary_dataset", "expected none"),
    (reprocessing(completion="offset"), "completion", "input dataset"),
    (reprocessing(input_dataset="MinBias"), "input_dataset", "/Primary/Processed/TIER"),
    (reprocessing(lumi_mask={"1": [[5, 2]]}), "lumi_mask.1[0]", "not to be above"),
    (reprocessing(lumi_mask={"one": []}), "lumi_mask.one", "a run number"),
    (reprocessing(run_whitelist=[1], run_blacklist=[1]), "run_blacklist[0]", "allowed runs"),
    (reprocessing(block_whitelist=["/A/B/C"]), "block_whitelist[0]", "a block name"),
    (
        reprocessing(
            input_dataset="/MinBias/Run2024A-Demo-v1/RECO", outputs=[{"tier": "RECO"}, {"tier": "AOD"}]
        ),
        "outputs[0].dataset",
        "than the input",
    ),
]


@pytest.mark.parametrize(("document", "field", "problem"), ONE_MISTAKE)
def test_one_mistake_is_reported_once_and_at_its_field(
    document: dict[str, Any], field: str, problem: str
) -> None:
    found = mistakes(document)
    assert list(found) == [field]
    assert problem in found[field]


def test_an_urgent_request_needs_all_three_estimates() -> None:
    found = mistakes(simulation(urgent=True, memory_mb=3000))
    assert found.keys() == {"time_per_event_sec", "size_per_event_kb"}
    read(simulation(urgent=True, memory_mb=3000, time_per_event_sec=1, size_per_event_kb=1))


@pytest.mark.parametrize(
    "name",
    ["Requirements", "requirements", "Cmd", "Owner", "WMS2_DagId", "wms2_x", "CMS_RequestName", "DESIRED_Sites",
     "RequestMemory", "PeriodicRemove", "DAGNodeName", "JobPrio", "x509userproxy", "true", "MY", "MaxWallTimeMins",
     "a b", "A;B", "1A", "A\n+Cmd", "$(x)"],
)  # fmt: skip
def test_attributes_that_are_not_the_requestors_are_refused(name: str) -> None:
    assert len(mistakes(simulation(job_attributes={name: 1}))) == 1


@pytest.mark.parametrize(
    "value",
    ['a"b', "a'b", "a\\b", "$(x)", "$$(x)", "a\nb", "a\tb", "é", "x" * 1001, None, [1], {"a": 1}, 2**63],
)
def test_values_that_could_leave_their_quotes_are_refused(value: Any) -> None:
    assert list(mistakes(simulation(job_attributes={"Colour": value}))) == ["job_attributes.Colour"]


def test_attributes_that_differ_in_case_only_are_the_same_to_htcondor() -> None:
    found = mistakes(simulation(job_attributes={"Colour": 1, "colour": 2}))
    assert found.keys() == {"job_attributes.Colour", "job_attributes.colour"}


HOSTILE = [
    "x; rm -rf /",
    "$(id)",
    "`id`",
    "a\nqueue 5",
    '"',
    "../../etc",
    "-x",
    "a b",
    "\x1b[2J",
    "",
    "x" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "field",
    ["request_name", "requestor", "campaign", "acquisition_era", "processing_string", "primary_dataset",
     "merged_lfn_base", "cmssw_version", "global_tag"],
)  # fmt: skip
def test_hostile_texts_are_refused_and_shown_harmlessly(field: str, text: str) -> None:
    with pytest.raises(RequestFileError) as error:
        read(simulation(**{field: text}))
    assert [mistake.field for mistake in error.value.mistakes] == [field]
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_hostile_name_of_a_field_is_shown_harmlessly() -> None:
    with pytest.raises(RequestFileError) as error:
        read(simulation() | {"evil\x1b[2J\nname": 1})
    assert str(error.value).isprintable()


@given(st.dictionaries(st.sampled_from(sorted(Request.model_fields)), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
), max_size=6))  # fmt: skip
def test_whatever_is_written_gives_a_request_or_mistakes_but_never_a_crash(changes: dict[str, Any]) -> None:
    try:
        request = read(simulation(**changes))
    except UserError:
        return
    assert read_request(request.model_dump_json()) == request


# Files


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(simulation()), encoding="utf-8-sig")
    assert validate_request_file(path).request_name == "demo_mc"


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"request_name: caf\xe9")
    (tmp_path / "large").write_bytes(b"#" * 10_000_001)
    for name, problem in (
        ("missing", "no such file"),
        ("", "is a directory"),
        ("latin", "not UTF-8"),
        ("large", "larger than 10 MB"),
    ):
        with pytest.raises(UserError, match=problem) as error:
            validate_request_file(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_mixture_of_both_kinds_of_names_is_one_sentence() -> None:
    with pytest.raises(RequestFileError, match="mixes ReqMgr2's names") as error:
        read(simulation(RequestName="x"))
    assert len(error.value.mistakes) == 1


# The documentation


def examples() -> list[str]:
    return re.findall(r"^```(?:yaml|json)\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", examples())
def test_every_example_of_the_documentation_is_a_request(example: str) -> None:
    assert read_request(example).outputs


def test_the_documentation_has_an_example_of_each_kind() -> None:
    read = [read_request(example) for example in examples()]
    assert {request.is_simulation for request in read} == {True, False}
    assert {"reqmgr2" in request.payload_config for request in read} == {True, False}
    assert len(read) >= 5


@pytest.mark.parametrize("name", Request.model_fields)
def test_the_documentation_names_every_field_with_its_default(name: str) -> None:
    rows = re.findall(rf"^\| `{name}` \| (.*?) \| .+ \|$", DOCUMENT.read_text(), re.MULTILINE)
    info = Request.model_fields[name]
    if info.is_required():
        assert rows == ["required"]
    elif info.default_factory is None and info.default is not None:
        default = list(info.default) if isinstance(info.default, tuple) else info.default
        assert rows == [f"`{default if isinstance(default, str) else json.dumps(default)}`"]
    else:
        assert len(rows) == 1


@pytest.mark.parametrize("algo", SplittingAlgo)
def test_the_documentation_names_every_parameter_of_every_algorithm(algo: SplittingAlgo) -> None:
    (row,) = re.findall(rf"^\| `{algo}` \| (.*) \|$", DOCUMENT.read_text(), re.MULTILINE)
    for name, info in PARAMS[algo].model_fields.items():
        assert f"`{name}`" in row or f"`{name}: {json.dumps(info.default)}`" in row
