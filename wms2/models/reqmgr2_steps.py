"""The steps of a ReqMgr2 request: what they run, and which of their outputs are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wms2.models.mistakes import Mistake, found
from wms2.models.payload import MOST_STEPS
from wms2.models.reqmgr2_fields import STEP_LINKS, STEP_PARAMETERS
from wms2.models.request_draft import Draft

_ONE_STEP = "DataProcessing"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `place` is where its author wrote it, empty for a request that is itself the only step.

    A stand-in takes the place of one that is missing, so that the others can be judged.
    """

    place: str
    values: Mapping[str, Any]
    is_stand_in: bool = False

    @property
    def name(self) -> Any:
        return self.values.get("StepName") if self.place else _ONE_STEP

    def path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    @property
    def is_kept(self) -> bool:
        return str(self.values.get("KeepOutput", True)).lower() != "false"


def given(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Without what ReqMgr2 writes for values that nobody set."""
    return {name: value for name, value in mapping.items() if value is not None and value != ""}


def whole(value: Any) -> Any:
    """ReqMgr2 writes whole numbers with a point, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def steps_of(document: Mapping[str, Any], draft: Draft) -> list[Step]:
    """The steps, at least one; one that is missing or no mapping is a mistake and comes out empty."""
    if document["RequestType"] != "StepChain":
        return [Step("", document)]
    length = document.get("StepChain")
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MOST_STEPS:
        problem = f"expected how many steps there are, from 1 to {MOST_STEPS}, found {found(length)}"
        draft.mistakes.append(Mistake("StepChain", problem))
        length = max(1, sum(f"Step{number}" in document for number in range(1, MOST_STEPS + 1)))
    return [_step(f"Step{number}", document, draft) for number in range(1, length + 1)]


def _step(place: str, document: Mapping[str, Any], draft: Draft) -> Step:
    values = document.get(place)
    if not isinstance(values, dict):
        draft.mistakes.append(Mistake(place, f"expected a mapping, found {found(values)}"))
        return Step(place, {"StepName": place, "ConfigCacheID": place}, is_stand_in=True)
    return Step(place, given(values))


def payload_of(steps: Sequence[Step], top: Mapping[str, Any], draft: Draft) -> dict[str, Any]:
    """The payload: as the document itself gives it, or made of the steps."""
    own = top.get("PayloadConfig", {})
    if not isinstance(own, dict):
        draft.mistakes.append(Mistake("PayloadConfig", f"expected a mapping, found {found(own)}"))
        own = {}
    if "steps" in own:
        draft.origins["payload_config"] = "PayloadConfig"
        return own
    for k, step in enumerate(steps):
        at = f"payload_config.steps[{k}]"
        draft.origins |= {
            at: step.place or "RequestType",
            f"{at}.name": step.path("StepName"),
            f"{at}.parameters.pset": step.path("ConfigCacheID"),
        }
    _check_links(steps, draft)
    return {**own, "steps": [_payload_step(step, top) for step in steps]}


def _payload_step(step: Step, top: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {
        ours: step.values[theirs] for theirs, ours in STEP_PARAMETERS.items() if theirs in step.values
    }
    for theirs, ours in STEP_PARAMETERS.items():
        per_step = top.get(theirs)
        if isinstance(per_step, dict):
            parameters |= {ours: whole(per_step[step.name])} if step.name in per_step else {}
    arch = step.values.get("ScramArch")
    if arch:
        parameters["scram_arch"] = arch[0] if isinstance(arch, list) else arch
    links = {ours: step.values[theirs] for theirs, ours in STEP_LINKS.items() if theirs in step.values}
    name = {} if step.name is None else {"name": step.name}
    return {**name, "type": "cmsRun", **links, "parameters": parameters}


def _check_links(steps: Sequence[Step], draft: Draft) -> None:
    for k, step in enumerate(steps):
        earlier = [str(other.name) for other in steps[:k] if other.name]
        source = step.values.get("InputStep")
        if len(earlier) == k and k and source not in earlier and not step.is_stand_in:
            problem = f"expected the name of an earlier step ({', '.join(earlier)}), found {found(source)}"
            draft.mistakes.append(Mistake(step.path("InputStep"), problem))


def outputs_of(steps: Sequence[Step], names: Any, draft: Draft) -> list[dict[str, Any]]:
    """The listed datasets, each with its step: all are of the one step that keeps its output, or one of each.

    The document does not say which dataset comes from which step, so with several steps their order counts.
    """
    names = [names] if isinstance(names, str) else names
    kept = [step for step in steps if step.is_kept]
    if not kept:
        draft.mistakes.append(
            Mistake(steps[-1].path("KeepOutput"), "expected at least one step to keep its output")
        )
        kept = [steps[-1]]
    if not isinstance(names, list) or not names:
        problem = f"expected the names of the output datasets, found {found(names)}"
        draft.mistakes.append(Mistake("OutputDatasets", problem))
        return [{"dataset": "/UNKNOWN/UNKNOWN-UNKNOWN-v1/UNKNOWN", "step": kept[-1].name}]
    if len(kept) > 1 and len(kept) != len(names):
        problem = f"expected {len(kept)} names, one of each step that keeps its output, found {len(names)}"
        draft.mistakes.append(Mistake("OutputDatasets", problem))
    sources = kept * len(names) if len(kept) == 1 else [*kept, *kept[-1:] * len(names)]
    outputs = []
    for k, (name, step) in enumerate(zip(names, sources, strict=False)):
        draft.origins |= {
            f"outputs[{k}].{part}": f"OutputDatasets[{k}]" for part in ("dataset", "tier", "module")
        }
        draft.origins[f"outputs[{k}].step"] = step.path("StepName")
        outputs.append({"dataset": name, "step": step.name, **_module_of(step, steps, len(kept) > 1)})
    return outputs


def _module_of(step: Step, steps: Sequence[Step], one_dataset: bool) -> dict[str, Any]:
    """The name of the module that the next step reads from: the only place where the document names it."""
    readers = [other.values for other in steps if other.values.get("InputStep") == step.name]
    modules = [reader["InputFromOutputModule"] for reader in readers if "InputFromOutputModule" in reader]
    return {"module": modules[0]} if modules and one_dataset else {}
