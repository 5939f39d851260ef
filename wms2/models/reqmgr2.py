"""Requests as ReqMgr2 writes them, with its CamelCase names and its defaults, turned into WMS2's own fields.

A chain of steps becomes the steps of the payload; its first step says what is read or generated. What WMS2
does not act on (the request type, the PrepID, ...) goes along in `payload_config.reqmgr2`.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from wms2.models import reqmgr2_fields as names
from wms2.models.mistakes import MOST_MISTAKES, Mistake, RequestFileError, did_you_mean, found
from wms2.models.reqmgr2_steps import Step, given, outputs_of, payload_of, steps_of, whole
from wms2.models.request_draft import Draft
from wms2.models.request_outputs import complete_outputs

_KINDS = ("ReReco", "StepChain")
_NO_DATASET = "/UNKNOWN/UNKNOWN/UNKNOWN"


def draft_from_reqmgr2(document: Mapping[str, Any], source: str) -> Draft:
    """The draft of a request; a request type that cannot be run at all is refused at once."""
    kind, known = document.get("RequestType"), f"expected one of {', '.join(_KINDS)}"
    if kind == "TaskChain":
        raise RequestFileError([Mistake("RequestType", f"TaskChain is not supported yet, {known}")], source)
    if kind not in _KINDS:
        problem = f"missing, {known}" if kind is None else f"{known}, found {found(kind)}"
        raise RequestFileError([Mistake("RequestType", problem)], source)
    return _Import({name: value for name, value in given(document).items() if name[0] != "_"}).draft


class _Import:
    """One document on its way; each method looks after one part of the request."""

    def __init__(self, top: Mapping[str, Any]) -> None:
        self.draft = Draft({})
        self.top = top
        self.steps = steps_of(top, self.draft)
        # The document and its first step as one: what a name says, and where it stands.
        first = self.steps[0]
        self.values = {**names.DEFAULTS, **top, **first.values}
        in_step = names.FIRST_STEP | first.values.keys() if first.place else first.values.keys()
        self.place = {name: first.path(name) if name in in_step else name for name in names.KNOWN}

        self._refuse_unknown_names()
        self._refuse_unsupported_values()
        self._read_fields()
        self._read_splitting()
        self._read_merge_sizes()
        self._read_payload_and_outputs()

    def _wrong(self, field: str, problem: str) -> None:
        self.draft.mistakes.append(Mistake(field, problem))

    def _refuse_unknown_names(self) -> None:
        known = {"": names.KNOWN | {step.place for step in self.steps}}
        written = {"": self.top}
        for step in self.steps:
            if step.place:
                known[f"{step.place}."], written[f"{step.place}."] = names.KNOWN_IN_STEP, step.values
        unknown = ((at, name) for at, values in written.items() for name in values if name not in known[at])
        for at, name in islice(unknown, MOST_MISTAKES):
            self._wrong(f"{at}{name}", f"unknown field{did_you_mean(name, known[at])}")

    def _refuse_unsupported_values(self) -> None:
        for name, only in names.MUST_BE.items():
            if str(value := self.values.get(name, only)).lower() != str(only).lower():
                problem = f"expected {found(only)}, as nothing else is supported yet, found {found(value)}"
                self._wrong(self.place[name], problem)

    def _read_fields(self) -> None:
        if self.top["RequestType"] == "ReReco" and "InputDataset" not in self.values:
            self._wrong("InputDataset", "missing, expected the dataset to read")
            self.values["InputDataset"] = _NO_DATASET
        for name, field in names.FIELDS.items():
            if name in self.values or field not in self.draft.origins:
                self.draft.origins[field] = self.place[name]
            if name in self.values:
                self.draft.fields[field] = self._converted(name, field, self.values[name])

    def _converted(self, name: str, field: str, value: Any) -> Any:
        """ReqMgr2 is generous: lists and JSON as text, whole numbers with a point, a value per step."""
        if isinstance(value, dict) and field in names.LARGEST_OF_STEPS | names.ONE_OF_STEPS:
            step = _largest(value) if field in names.LARGEST_OF_STEPS else _last_kept(self.steps, value)
            self.draft.origins[field] = f"{self.place[name]}.{step}"
            return whole(value.get(step))
        if isinstance(value, str) and field in names.LISTS:
            return [part.strip() for part in value.split(",")]
        if field == "requires_gpu":
            return names.GPU_USE.get(str(value), value)
        if field in ("lumi_mask", "gpu_params"):
            return self._mapping(name, field, value)
        return whole(value) if field in names.WHOLE_NUMBERS else value

    def _mapping(self, name: str, field: str, value: Any) -> Any:
        try:
            value = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            return value
        if field == "lumi_mask" or not isinstance(value, dict):
            return value
        for theirs, ours in names.GPU.items():
            self.draft.origins[f"{field}.{ours}"] = f"{self.place[name]}.{theirs}"
        return {names.GPU.get(theirs, theirs): part for theirs, part in value.items()}

    def _read_splitting(self) -> None:
        without_input = "EventBased" if "InputDataset" not in self.values else "EventAwareLumiBased"
        algo = self.draft.fields.setdefault("splitting_algo", without_input)
        params: dict[str, Any] = {}
        for name, param in names.SPLITTING.get(str(algo), {}).items():
            self.draft.origins[f"splitting_params.{param}"] = self.place[name]
            if name in self.values:
                params[param] = whole(self.values[name])
            elif name in names.JOB_SIZES:
                params[param] = names.JOB_SIZES[name](self.values["TimePerEvent"])
        self.draft.fields["splitting_params"] = params

    def _read_merge_sizes(self) -> None:
        """A file that ReqMgr2 would not merge, being large enough, is one that WMS2 copies."""
        small, large = whole(self.values["MinMergeSize"]), self.draft.fields["merge_target_bytes"]
        self.draft.origins["merge_copy_fraction"] = "MinMergeSize"
        if not isinstance(small, int) or small < 1:
            self._wrong("MinMergeSize", f"expected a whole number above 0, found {found(small)}")
        elif isinstance(large, int) and large < small:
            self._wrong("MinMergeSize", f"expected at most MaxMergeSize ({large}), found {small}")
        elif isinstance(large, int):
            self.draft.fields["merge_copy_fraction"] = small / large

    def _read_payload_and_outputs(self) -> None:
        payload = payload_of(self.steps, self.top, self.draft)
        metadata = {name: self.top[name] for name in names.METADATA if name in self.top}
        self.draft.fields["payload_config"] = {**payload, "reqmgr2": metadata}
        self.draft.fields["outputs"] = outputs_of(self.steps, self.top.get("OutputDatasets"), self.draft)
        complete_outputs(self.draft, [])


def _largest(per_step: Mapping[str, Any]) -> str:
    """The step with the largest number; one that has no number at all comes first, to be complained about."""

    def rank(step: str) -> float:
        value = per_step[step]
        return (
            float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("inf")
        )

    return max(per_step, key=rank, default="")


def _last_kept(steps: Sequence[Step], per_step: Mapping[str, Any]) -> str:
    kept = [str(step.name) for step in steps if step.is_kept]
    return next((name for name in reversed(kept) if name in per_step), kept[-1] if kept else "")
