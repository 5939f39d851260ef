"""What a ReqMgr2 document may ask for and WMS2 does not do: refused in one sentence each, never overlooked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from wms2.models.mistakes import Mistake, found
from wms2.models.reqmgr2_fields import CONVERSIONS, GPU, MUST_BE, SPLITTING
from wms2.models.reqmgr2_steps import Step, task_groups

_SUPPORTED = "expected ReReco, StepChain or TaskChain"
_INSTEAD: Mapping[str, str] = {
    "MonteCarlo": "write it as a StepChain of one step",
    "MonteCarloFromGEN": "write it as a StepChain of one step with InputDataset",
    "LHEStepZero": "write it as a StepChain of one step",
    "ReDigi": "write its steps as a StepChain",
    "DQMHarvest": "leave harvesting to ReqMgr2",
    "Resubmission": "submit the original request, WMS2 recovers what failed by itself",
    "StoreResults": "leave it to ReqMgr2",
    **dict.fromkeys(("PromptReco", "Express", "Repack"), "leave it to the Tier-0"),
}
_SKIM = re.compile(r"Skim(?:Name[0-9]+|Input[0-9]+|[0-9]+ConfigCacheID)")
_INSTEAD_OF: Mapping[str, str] = {
    "RunNumber": "another run than 1 is not supported",
    "IncludeParents": "reading the parents of the input files is not supported",
    "LheInputFiles": "reading LHE files is not supported",
    "GlobalTagConnect": "other sources of conditions are not supported",
    "OverrideCatalog": "other catalogues of files are not supported",
    "JobExtraMatchRequirements": "requirements as expressions are not supported; use SiteWhitelist",
}


def refuse_kind(document: Mapping[str, Any]) -> Mistake | None:
    """A request type that is not ReqMgr2's, or cannot be run."""
    kind = document.get("RequestType")
    if kind in ("ReReco", "StepChain", "TaskChain"):
        return None
    if kind is None:
        return Mistake("RequestType", f"missing, {_SUPPORTED}")
    if isinstance(kind, str) and kind in _INSTEAD:
        return Mistake("RequestType", f"{kind} is not supported, {_SUPPORTED}; {_INSTEAD[kind]}")
    return Mistake("RequestType", f"{_SUPPORTED}, found {found(kind)}")


def unsupported(top: Mapping[str, Any], steps: Sequence[Step]) -> list[Mistake]:
    """Each once, at the first place that asks for it."""
    asked = (_skims(top), _values(top, steps), _later_inputs(steps))
    return [*chain.from_iterable(asked), *_splitting(steps), *_scenario(top), *_gpus(steps)]


def refuse_tasks(top: Mapping[str, Any], steps: Sequence[Step]) -> Mistake | None:
    """Several tasks are several requests, and a file is one."""
    if top["RequestType"] != "TaskChain" or len(groups := task_groups(steps)) == 1:
        return None
    parts = ", ".join("+".join(step.place for step in group) for group in groups)
    problem = f"a chain of {len(steps)} tasks is {len(groups)} requests ({parts}), a file is one"
    return Mistake(
        "TaskChain", f"{problem}; make it in ReqMgr2 and import it with `wms2 request import NAME`"
    )


def _skims(top: Mapping[str, Any]) -> Iterator[Mistake]:
    if names := sorted(name for name in top if _SKIM.fullmatch(name)):
        yield Mistake(
            names[0], "skims are not supported; submit them as requests that read the output of this one"
        )


def _values(top: Mapping[str, Any], steps: Sequence[Step]) -> Iterator[Mistake]:
    for name, allowed in MUST_BE.items():
        places = [("", top), *((f"{step.place}.", step.own) for step in steps if step.place)]
        for place, values in places:
            value = (
                CONVERSIONS[name](values[name])
                if name in values and name in CONVERSIONS
                else values.get(name)
            )
            if value is not None and not any(
                value is one or (value == one and type(value) is type(one)) for one in allowed
            ):
                yield Mistake(f"{place}{name}", f"{_INSTEAD_OF[name]}, found {found(value)}")
                break


def _later_inputs(steps: Sequence[Step]) -> Iterator[Mistake]:
    for step in steps[1:]:
        if "InputDataset" in step.own:
            yield Mistake(f"{step.place}.InputDataset", "expected none, only the first step reads a dataset")


def _splitting(steps: Sequence[Step]) -> Iterator[Mistake]:
    algo = steps[0].value("SplittingAlgo")
    if isinstance(algo, str) and algo not in SPLITTING:
        yield Mistake(
            steps[0].path("SplittingAlgo"), f"expected one of {', '.join(SPLITTING)}, found {found(algo)}"
        )


def _scenario(top: Mapping[str, Any]) -> Iterator[Mistake]:
    if top["RequestType"] == "ReReco" and "Scenario" in top and "ConfigCacheID" not in top:
        yield Mistake(
            "Scenario", "configurations made of a scenario are not supported; expected a ConfigCacheID"
        )


def _gpus(steps: Sequence[Step]) -> Iterator[Mistake]:
    """All steps run in one job, on one machine."""
    wanted = [(step, step.value("GPUParams")) for step in steps if step.value("RequiresGPU") == "required"]
    for step, params in wanted:
        if isinstance(params, dict) and (more := sorted(str(name) for name in params.keys() - GPU.keys())):
            known = ", ".join(GPU)
            yield Mistake(f"{step.path('GPUParams')}.{more[0]}", f"not supported, expected {known} only")
            return
        if params != wanted[0][1]:
            problem = f"expected the same as in {wanted[0][0].place}, because all steps run in one job"
            yield Mistake(step.path("GPUParams"), problem)
            return
