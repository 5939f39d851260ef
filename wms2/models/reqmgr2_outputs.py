"""The output datasets of a ReqMgr2 request: what they are called, and which step makes each of them.

Their names hold the tiers of the output modules, which stand in the configuration. ReqMgr2 reads it and lists the
datasets; WMS2 takes that list. Tiers alone will do: all else in a name follows from the request.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wms2.models.mistakes import Mistake, found
from wms2.models.reqmgr2_steps import Step, last_kept
from wms2.models.request_draft import Draft
from wms2.patterns import ERA, OUTPUT_DATASET, PRIMARY_DATASET, PROCESSING_STRING, TIER

_UNKNOWN_DATASET = "/UNKNOWN/UNKNOWN/UNKNOWN"


@dataclass(frozen=True, slots=True)
class Made:
    """A dataset of the document: the output it becomes, the step that makes it, and where its name stands."""

    output: dict[str, Any]
    step: Step
    origin: str

    @property
    def module(self) -> Any:
        """As `complete_outputs` would have it, where the document does not say."""
        tier = str(self.output["dataset"]).rsplit("/", 1)[-1]
        return self.output.get("module", f"{tier.replace('-', '')}output")


def outputs_of(steps: Sequence[Step], top: Mapping[str, Any], draft: Draft, *, stand_ins: bool) -> list[Made]:
    """The listed datasets, each with its step; where none is listed, stand-ins if they will do."""
    names = listed_outputs(top)
    kept = [step for step in steps if step.is_kept]
    if not kept:
        problem = "expected at least one step to keep its output"
        draft.mistakes.append(Mistake(steps[-1].here("KeepOutput"), problem))
        kept = [steps[-1]]
    if not names:
        if not stand_ins:
            draft.mistakes.append(Mistake("OutputDatasets", how_to_list(steps)))
        return _outputs([f"UNKNOWN-{step.place}".strip("-").upper() for step in kept], kept, steps)
    makers = _makers(names, kept)
    if makers is None:
        problem = (
            f"expected {len(kept)} names, one of each step that keeps its output, or a ChainParentageMap that "
            f"says which step makes which, found {len(names)}"
        )
        draft.mistakes.append(Mistake("OutputDatasets", problem))
        makers = [kept[-1]] * len(names)
    return _outputs(names, makers, steps)


def place_outputs(made: Sequence[Made], draft: Draft) -> None:
    """The outputs of one request, with the places in the document that complaints about them name."""
    draft.fields["outputs"] = [one.output for one in made]
    draft.origins["outputs"] = "OutputDatasets"
    for k, one in enumerate(made):
        draft.origins |= {f"outputs[{k}].{part}": one.origin for part in ("dataset", "tier", "module")}
        draft.origins[f"outputs[{k}].step"] = one.step.here(f"{one.step.kind}Name")


def dataset_read(step: Step, made: Sequence[Made], draft: Draft) -> Any:
    """The dataset that a task reads: what the module it names writes, in the task that it names."""
    offered = [one for one in made if one.step.name == step.source]
    module, told = step.own.get("InputFromOutputModule"), _parentage(step).get("ParentDset")
    fitting = [one for one in offered if one.output["dataset"] == told] or [
        one for one in offered if len(offered) == 1 or one.module == module
    ]
    if len(fitting) == 1:
        return fitting[0].output["dataset"]
    # Who makes which dataset, or which task is read, is then unknown: that was told, and all else follows from it.
    if {mistake.field for mistake in draft.mistakes} & {"OutputDatasets", step.here("InputTask")}:
        return _UNKNOWN_DATASET
    modules = ", ".join(f"{one.module} ({one.output['dataset']})" for one in offered) or "none is kept"
    problem = f"expected the module of one dataset of {step.source}: {modules}; found {found(module)}"
    draft.mistakes.append(Mistake(step.here("InputFromOutputModule"), problem))
    return _UNKNOWN_DATASET


def listed_outputs(top: Mapping[str, Any]) -> list[Any]:
    """ReqMgr2 once wrote lists of lists."""
    names = top.get("OutputDatasets")
    entries = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    return [name for entry in entries for name in (entry if isinstance(entry, list) else [entry])]


def how_to_list(steps: Sequence[Step]) -> str:
    """What to do where no output is listed."""
    name = derived_name(last_kept(steps), steps[0], "TIER")
    return (
        "missing, expected the list that ReqMgr2 writes: only the configuration knows the output modules, and it is "
        f"not read here; add the names ({name}) or only their tiers, such as [AOD, MINIAOD]"
    )


def _makers(names: Sequence[Any], kept: Sequence[Step]) -> list[Step] | None:
    """The step of each name: as the document says, or by what its name has of the step, or by their order."""
    by_map = {name: step for step in kept for name in _children(step)}
    if all(isinstance(name, str) and name in by_map for name in names):
        return [by_map[name] for name in names]
    if len(kept) == 1:
        return [*kept] * len(names)
    by_name = [[step for step in kept if _fits(name, step)] for name in names]
    if all(len(fitting) == 1 for fitting in by_name):
        return [fitting[0] for fitting in by_name]
    return [*kept] if len(kept) == len(names) else None


def _children(step: Step) -> list[str]:
    children = _parentage(step).get("ChildDsets")
    return [name for name in children if isinstance(name, str)] if isinstance(children, list) else []


def _parentage(step: Step) -> Mapping[str, Any]:
    """What the document says about the datasets around a step."""
    everything = step.top.get("ChainParentageMap")
    entry = everything.get(step.place) if isinstance(everything, dict) else None
    return entry if isinstance(entry, dict) else {}


def _fits(name: Any, step: Step) -> bool:
    """Between era and processing there may be the name of a filter."""
    if not isinstance(name, str) or not OUTPUT_DATASET.fullmatch(name):
        return False
    era, *_, processing, version = name.split("/")[2].split("-")
    wanted = (
        step.value("AcquisitionEra"),
        step.value("ProcessingString"),
        f"v{step.value('ProcessingVersion') or 1}",
    )
    return (era, processing, version) == wanted


def _outputs(names: Sequence[Any], makers: Sequence[Step], steps: Sequence[Step]) -> list[Made]:
    made = []
    datasets = Counter(step.place for step in makers)
    for k, (name, step) in enumerate(zip(names, makers, strict=True)):
        is_tier = isinstance(name, str) and TIER.fullmatch(name)
        dataset = derived_name(step, steps[0], name) if is_tier else name
        module = _module_of(step, steps, None if datasets[step.place] == 1 else dataset)
        output = {
            "dataset": dataset,
            "step": step.name,
            **({"module": module} if module else _filtered(dataset)),
        }
        made.append(Made(output, step, f"OutputDatasets[{k}]"))
    return made


def _module_of(step: Step, steps: Sequence[Step], dataset: Any) -> Any:
    """The name of the module that a later step reads from: the only place where the document names it.

    Where the step makes several datasets, this is the one that the reader has as its parent.
    """
    readers = [
        other.own
        for other in steps
        if other.source == step.name and (dataset is None or _parentage(other).get("ParentDset") == dataset)
    ]
    return next(
        (reader["InputFromOutputModule"] for reader in readers if "InputFromOutputModule" in reader), None
    )


def _filtered(dataset: Any) -> dict[str, str]:
    """A tier may come from several modules, each with a filter whose name is in the dataset's."""
    if not isinstance(dataset, str) or not OUTPUT_DATASET.fullmatch(dataset):
        return {}
    _, _, processed, tier = dataset.split("/")
    _, *filters, _, _ = processed.split("-")
    return {"module": f"{tier.replace('-', '')}{''.join(filters)}output"} if filters else {}


def derived_name(step: Step, first: Step, tier: str) -> str:
    """A wrong or missing part is a mistake of its own field; here a stand-in takes its place."""
    read, version = first.value("InputDataset"), step.value("ProcessingVersion")
    of_input = read.split("/")[1] if isinstance(read, str) and read.count("/") == 3 else None
    primary = _sound(first.value("PrimaryDataset") or of_input, PRIMARY_DATASET)
    era = _sound(step.value("AcquisitionEra"), ERA)
    processing = _sound(step.value("ProcessingString"), PROCESSING_STRING)
    number = version if isinstance(version, int) and 0 < version < 10**6 else 1
    return f"/{primary}/{era}-{processing}-v{number}/{tier}"


def _sound(value: Any, pattern: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and pattern.fullmatch(value) else "UNKNOWN"
