"""Chains of tasks: a document of ReqMgr2 becomes requests that are linked by their datasets."""

from typing import Any

import pytest

from tests.unit.test_request_reqmgr2 import chain, rereco
from wms2.models.chain import LinkedRequest
from wms2.models.imports import document_digest, linked_requests
from wms2.models.mistakes import RequestFileError
from wms2.models.parameter_set import ParameterSet, cached_steps, pset_files, ship
from wms2.models.reqmgr2 import parts_from_reqmgr2

GEN_SIM, RECO = "/MinBias/RunGen-Test-v1/GEN-SIM", "/MinBias/RunReco-Test-v1/RECO"
AOD, MINI = "/MinBias/RunReco-Test-v1/AODSIM", "/MinBias/RunMini-Test-v1/MINIAODSIM"
TASKS: dict[str, dict[str, Any]] = {
    "Task1": {
        "TaskName": "Gen",
        "PrimaryDataset": "MinBias",
        "RequestNumEvents": 1000,
        "EventsPerJob": 100,
        "ConfigCacheID": "c1",
        "AcquisitionEra": "RunGen",
    },
    "Task2": {
        "TaskName": "Digi",
        "InputTask": "Gen",
        "InputFromOutputModule": "RAWSIMoutput",
        "KeepOutput": False,
        "ConfigCacheID": "c2",
        "AcquisitionEra": "RunReco",
        "SplittingAlgo": "FileBased",
        "FilesPerJob": 3,
        "Memory": 4000,
    },
    "Task3": {
        "TaskName": "Reco",
        "InputTask": "Digi",
        "InputFromOutputModule": "DIGIoutput",
        "ConfigCacheID": "c3",
        "AcquisitionEra": "RunReco",
        "Multicore": 4,
    },
    "Task4": {
        "TaskName": "Mini",
        "InputTask": "Reco",
        "InputFromOutputModule": "AODSIMoutput",
        "ConfigCacheID": "c1",
        "AcquisitionEra": "RunMini",
        "RequiresGPU": "forbidden",
    },
}
SETS = {name: ParameterSet(f"process = {name}".encode()) for name in ("c1", "c2", "c3")}


def tasks(changes: dict[str, dict[str, Any]] | None = None, **top: Any) -> dict[str, Any]:
    """Gen, then Digi and Reco in one job, then Mini, which reads one of the two datasets of Reco."""
    own = {name: {**task, **(changes or {}).get(name, {})} for name, task in TASKS.items()}
    fields = {
        "RequestName": "operator_tasks",
        "RequestType": "TaskChain",
        "StepChain": ...,
        "Step1": ...,
        "Step2": ...,
        "TaskChain": len(own),
        "ProcessingString": "Test",
        "OutputDatasets": [GEN_SIM, RECO, AOD, MINI],
        "BlockWhitelist": [],
        **own,
    }
    return chain(**(fields | top))


def imported(document: dict[str, Any], sets: dict[str, ParameterSet] = SETS) -> list[LinkedRequest]:
    parts = parts_from_reqmgr2(document, "the document")
    for part in parts:
        ship(part.draft, {name: sets.get(name) for _, name in cached_steps(part.draft)})
    return linked_requests(parts, "the document")


def mistakes(document: dict[str, Any], sets: dict[str, ParameterSet] = SETS) -> dict[str, str]:
    with pytest.raises(RequestFileError) as error:
        imported(document, sets)
    return {mistake.field: mistake.problem for mistake in error.value.mistakes}


def test_each_task_whose_output_is_kept_ends_a_request_and_the_next_one_reads_it() -> None:
    linked = imported(tasks())
    assert [(link.request.request_name, link.parent) for link in linked] == [
        ("operator_tasks_Task1", None),
        ("operator_tasks_Task2", "operator_tasks_Task1"),
        ("operator_tasks_Task4", "operator_tasks_Task2"),
    ]
    gen, reco, mini = (link.request for link in linked)
    assert (gen.total_events, gen.output_datasets) == (1000, (GEN_SIM,))
    assert (reco.input_dataset, reco.output_datasets) == (GEN_SIM, (RECO, AOD))
    assert (mini.input_dataset, mini.output_datasets) == (AOD, (MINI,))


def test_a_task_whose_input_is_not_kept_runs_in_the_job_of_the_task_before() -> None:
    reco = imported(tasks())[1].request
    digi, second = reco.payload_config["steps"]  # type: ignore[misc]
    assert "input_step" not in digi, "it reads the dataset"
    assert (second["input_step"], second["input_module"]) == ("Digi", "DIGIoutput")  # type: ignore[index, call-overload]
    assert (reco.files_per_job, reco.memory_mb, reco.cores) == (3, 4000, 4)


def test_each_request_of_a_chain_has_the_names_and_the_splitting_of_its_own_tasks() -> None:
    gen, reco, mini = (link.request for link in imported(tasks()))
    assert [one.acquisition_era for one in (gen, reco, mini)] == ["RunGen", "RunReco", "RunMini"]
    assert [str(one.splitting_algo) for one in (gen, reco, mini)] == [
        "EventBased",
        "FileBased",
        "EventAwareLumiBased",
    ]


def test_tasks_in_one_job_add_up_their_seconds_and_the_sizes_of_what_is_kept() -> None:
    sizes = {"Task2": {"SizePerEvent": 2000, "TimePerEvent": 20}, "Task3": {"SizePerEvent": 300}}
    _, reco, mini = (link.request for link in imported(tasks(sizes, TimePerEvent=5, SizePerEvent=100)))
    assert (reco.time_per_event_sec, reco.size_per_event_kb) == (25, 300)
    assert (mini.time_per_event_sec, mini.size_per_event_kb) == (5, 100)


def test_what_a_chain_selects_of_its_input_holds_for_the_first_task_only() -> None:
    reads = {"InputDataset": "/MinBias/Run2024A-v1/RAW", "RequestNumEvents": None, "PrimaryDataset": None}
    block = "/MinBias/Run2024A-v1/RAW#1"
    first, second, _ = (
        link.request for link in imported(tasks({"Task1": reads}, BlockWhitelist=[block], RunWhitelist=[7]))
    )
    assert (first.block_whitelist, first.run_whitelist) == ((block,), (7,))
    assert (second.block_whitelist, second.run_whitelist) == ((), ())


def test_a_chain_of_one_task_and_all_other_kinds_stay_one_request_of_the_same_name() -> None:
    one = tasks(TaskChain=1, Task2=..., Task3=..., Task4=..., OutputDatasets=[GEN_SIM])
    for document in (one, chain(), rereco()):
        (link,) = imported(
            document, {name: ParameterSet(b"x") for name in ("c1", "0123", "4567", "0123456789abcdef")}
        )
        assert link.request.request_name == document["RequestName"]
        assert link.parent is None


def test_all_mistakes_of_all_tasks_are_told_at_once_at_their_names() -> None:
    wrong = {"Task1": {"RequestNumEvents": -1}, "Task3": {"Multicore": "many"}, "Task4": {"Nonsense": 1}}
    found = mistakes(tasks(wrong, Campaign="no blanks"), {"c1": SETS["c1"], "c3": SETS["c3"]})
    assert found.keys() == {
        "Campaign",
        "Task1.RequestNumEvents",
        "Task2.ConfigCacheID",
        "Task3.Multicore",
        "Task4.Nonsense",
    }
    assert found["Task2.ConfigCacheID"] == "the cache of configurations has no c2"


def test_a_task_that_reads_from_nowhere_or_from_an_unknown_module_is_a_mistake() -> None:
    assert "an earlier step (Gen" in mistakes(tasks({"Task2": {"InputTask": "Reko"}}))["Task2.InputTask"]
    found = mistakes(tasks({"Task4": {"InputFromOutputModule": "DQMoutput"}}))
    assert "AODSIMoutput" in found["Task4.InputFromOutputModule"]


def test_what_only_follows_from_another_mistake_is_not_told() -> None:
    """Nobody knows which of two tasks of one era makes which dataset, so nobody knows what a task reads either."""
    listed = [GEN_SIM, RECO, AOD, MINI.replace("RunMini", "RunReco")]
    found = mistakes(tasks({"Task4": {"AcquisitionEra": "RunReco"}}, OutputDatasets=listed))
    assert list(found) == ["OutputDatasets"]
    assert "ChainParentageMap" in found["OutputDatasets"]
    assert list(mistakes(tasks({"Task4": {"InputTask": "Reko"}}))) == ["Task4.InputTask"]


def test_which_dataset_is_read_may_be_told_by_the_parentage() -> None:
    told = {"Task4": {"ParentDset": RECO, "ChildDsets": [MINI]}}
    document = tasks({"Task4": {"InputFromOutputModule": "Anything"}}, ChainParentageMap=told)
    assert imported(document)[2].request.input_dataset == RECO


def test_what_is_not_supported_in_any_task_is_refused_alone() -> None:
    found = mistakes(tasks({"Task4": {"SplittingAlgo": "Harvest"}, "Task1": {"RequestNumEvents": -1}}))
    assert found.keys() == {"Task4.SplittingAlgo"}


# Parameter sets


def test_each_step_gets_the_file_of_its_own_parameter_set_with_its_digest() -> None:
    requests = [link.request for link in imported(tasks())]
    files = [pset_files(request.payload_config) for request in requests]
    assert [[file.digest for file in found] for found in files] == [
        [SETS["c1"].digest],
        [SETS["c2"].digest, SETS["c3"].digest],
        [SETS["c1"].digest],
    ]
    assert files[0][0].name == f"pset_{SETS['c1'].digest[:16]}.py"


def test_the_parameter_set_says_which_module_writes_a_tier() -> None:
    modules = {
        "outputModules_": ["RAWSIMoutput", "LHEoutput"],
        "RAWSIMoutput": {"dataset": {"dataTier": "GEN-SIM", "filterName": ""}},
        "LHEoutput": {"dataset": {"dataTier": "LHE", "filterName": ""}},
    }
    document = tasks(TaskChain=1, Task2=..., Task3=..., Task4=..., OutputDatasets=[GEN_SIM])
    (link,) = imported(document, {"c1": ParameterSet(b"x", {"process": modules})})
    assert link.request.outputs[0].module == "RAWSIMoutput"


def test_of_two_modules_of_a_tier_the_filter_decides() -> None:
    modules = {
        "outputModules_": ["plain", "skimmed"],
        "plain": {"dataset": {"dataTier": "AOD", "filterName": ""}},
        "skimmed": {"dataset": {"dataTier": "AOD", "filterName": "ZMu"}},
    }
    names = ["/MinBias/Run2024A-ReReco-v1/AOD", "/MinBias/Run2024A-ZMu-ReReco-v1/AOD"]
    (link,) = imported(
        rereco(OutputDatasets=names), {"0123456789abcdef": ParameterSet(b"x", {"process": modules})}
    )
    assert [output.module for output in link.request.outputs] == ["plain", "skimmed"]


@pytest.mark.parametrize("tweak", [{}, {"process": []}, {"process": {"outputModules_": ["a"], "a": 1}}])
def test_a_parameter_set_that_says_nothing_of_its_modules_changes_none(tweak: dict[str, Any]) -> None:
    (link,) = imported(rereco(), {"0123456789abcdef": ParameterSet(b"x", tweak)})
    assert link.request.outputs[0].module == "AODoutput"


def test_a_document_is_the_same_whatever_status_it_has() -> None:
    document = tasks()
    moved = {**document, "RequestStatus": "acquired", "RequestTransition": [{"Status": "acquired"}]}
    assert document_digest(moved) == document_digest(document)
    assert document_digest({**document, "Memory": 1}) != document_digest(document)
