"""Requests as ReqMgr2 writes them, with its CamelCase names and its defaults, turned into WMS2's own fields.

A chain of steps becomes the steps of the payload; its first step says what is read or generated. A chain of tasks
becomes several requests, each of which reads what another one makes. What WMS2 does not act on (the request type,
the PrepID, ...) goes along in `payload_config.reqmgr2`.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from wms2.models import reqmgr2_fields as names
from wms2.models.base import LARGEST_INTEGER
from wms2.models.mistakes import MOST_MISTAKES, Mistake, RequestFileError, did_you_mean, found
from wms2.models.reqmgr2_outputs import (
    Made,
    dataset_read,
    how_to_list,
    listed_outputs,
    outputs_of,
    place_outputs,
)
from wms2.models.reqmgr2_refusals import refuse_kind, refuse_tasks, unsupported
from wms2.models.reqmgr2_steps import Step, check_links, last_kept, payload_of, steps_of, task_groups
from wms2.models.reqmgr2_values import given
from wms2.models.request_draft import Draft
from wms2.models.request_outputs import complete_outputs

_NO_DATASET = "/UNKNOWN/UNKNOWN/UNKNOWN"
_LINKS = frozenset({"InputTask", "InputFromOutputModule"})
_HARVESTING = (
    "EnableHarvesting: the DQM files are made but not harvested; "
    "a DQMHarvest request of ReqMgr2 can harvest them"
)


# Of what the whole document says, these hold for the data that its first task reads.
_OF_THE_FIRST_TASK = names.FIRST_FIELDS.keys() - {"SplittingAlgo"}


@dataclass(frozen=True, slots=True)
class Part:
    """A request of a document, and the number of the part whose output it reads, if it does."""

    draft: Draft
    reads: int | None = None


def draft_from_reqmgr2(
    document: Mapping[str, Any], source: str, submitter: str | None = None, *, unnamed_outputs: bool = False
) -> Draft:
    """The draft of a request; one that asks for what cannot be done is refused at once, with nothing else.

    A document that was not yet in ReqMgr2 has no requestor, which is then who submits it, and no names of its
    outputs. With `unnamed_outputs` stand-ins take their place, and a note says so.
    """
    top, steps, draft = _opened(document, source)
    if refused := refuse_tasks(top, steps):
        raise RequestFileError([refused], source)
    _refuse_unsupported(top, [steps], source)
    made = outputs_of(steps, top, draft, stand_ins=unnamed_outputs)
    return _Import(top, steps, draft, made, submitter, unnamed_outputs).draft


def parts_from_reqmgr2(
    document: Mapping[str, Any], source: str, submitter: str | None = None, *, unnamed_outputs: bool = False
) -> list[Part]:
    """The drafts of all requests of a document; each comes after the one that it reads from.

    A document that was not yet in ReqMgr2 is understood as by `draft_from_reqmgr2`.
    """
    top, steps, draft = _opened(document, source)
    groups = task_groups(steps) if top["RequestType"] == "TaskChain" else [steps]
    _refuse_unsupported(top, groups, source)
    made = outputs_of(steps, top, draft, stand_ins=unnamed_outputs)
    parts = [Part(_Import(top, groups[0], draft, made, submitter, unnamed_outputs, steps).draft)]
    if len(groups) == 1:
        return parts
    check_links(steps, draft)
    later = {name: value for name, value in top.items() if name not in _OF_THE_FIRST_TASK}
    for group in groups[1:]:
        linked = _linked(group, later, dataset_read(group[0], made, draft))
        imported = _Import(later, linked, Draft({}), made, submitter, unnamed_outputs, steps).draft
        sources = [k for k, other in enumerate(groups) for step in other if step.name == group[0].source]
        parts.append(Part(imported, sources[0] if sources else None))
    name = parts[0].draft.fields["request_name"]
    for part, group in zip(parts, groups, strict=True):
        part.draft.fields["request_name"] = f"{name}_{group[0].place}"
    return parts


def _opened(document: Mapping[str, Any], source: str) -> tuple[dict[str, Any], list[Step], Draft]:
    if refused := refuse_kind(document):
        raise RequestFileError([refused], source)
    top = {name: value for name, value in given(document).items() if name[:1] != "_"}
    draft = Draft({})
    return top, steps_of(top, draft), draft


def _refuse_unsupported(top: Mapping[str, Any], groups: Sequence[Sequence[Step]], source: str) -> None:
    """A job runs the steps of one group, so each group is judged by itself."""
    refusals = dict.fromkeys(refusal for group in groups for refusal in unsupported(top, group))
    if refusals:
        raise RequestFileError([*refusals], source)


def _linked(group: Sequence[Step], top: Mapping[str, Any], dataset: Any) -> list[Step]:
    """The tasks of a request that reads what another request makes."""
    first = group[0]
    own = {name: value for name, value in first.own.items() if name not in _LINKS}
    return [
        replace(first, own={**own, "InputDataset": dataset}, top=top),
        *(replace(step, top=top) for step in group[1:]),
    ]


class _Import:
    """One document on its way; each method looks after one part of the request."""

    def __init__(
        self,
        top: Mapping[str, Any],
        steps: list[Step],
        draft: Draft,
        made: Sequence[Made],
        submitter: str | None = None,
        unnamed_outputs: bool = False,
        chain: Sequence[Step] = (),
    ) -> None:
        self.draft, self.top, self.steps, self.first = draft, top, steps, steps[0]
        self.chain = chain or steps
        self.notes: list[str] = []
        self._look_at_unknown_names()
        self._read_names(submitter)
        self._read_what_is_made()
        self._read_what_a_job_needs()
        self._read_gpus()
        self._read_splitting()
        self._read_merge_sizes()
        self._read_payload_and_outputs(made, unnamed_outputs)

    def _wrong(self, field: str, problem: str) -> None:
        self.draft.mistakes.append(Mistake(field, problem))

    def _set(self, field: str, path: str, value: Any) -> None:
        """A value that is missing leaves its path behind, for the complaint."""
        if value is not None:
            self.draft.fields[field] = value
        if value is not None or field not in self.draft.fields:
            self.draft.origins[field] = path

    def _top(self, name: str) -> Any:
        value = self.top.get(name, names.DEFAULTS.get(name))
        return names.CONVERSIONS[name](value) if name in names.CONVERSIONS else value

    def _look_at_unknown_names(self) -> None:
        """A slip of the pen is a mistake; a name that ReqMgr2 itself let pass is none, but is worth a note."""
        known = {"": names.KNOWN | {step.place for step in self.chain}}
        # What a chain says for all of its requests is looked at once.
        written = {"": self.top} if self.first.place == self.chain[0].place else {}
        for step in self.steps:
            if step.place:
                known[f"{step.place}."], written[f"{step.place}."] = names.KNOWN_IN_STEP, step.own
        unknown = ((at, name) for at, values in written.items() for name in values if name not in known[at])
        for at, name in islice(unknown, MOST_MISTAKES):
            if "RequestTransition" in self.top:
                self.notes.append(f"{found(at + name)[1:-1]}: not known here and left out")
            else:
                self._wrong(f"{at}{name}", f"unknown field{did_you_mean(name, known[at])}")

    def _read_names(self, submitter: str | None) -> None:
        for name, field in names.TOP_FIELDS.items():
            self._set(field, name, self._top(name))
        if submitter is not None:
            self.draft.fields.setdefault("requestor", submitter)
        if "request_name" not in self.draft.fields:
            self.draft.fields["request_name"] = self._own_name()
        for name, field in names.LAST_FIELDS.items():
            step = last_kept(self.steps)
            self._set(field, step.path(name), step.value(name))
        if "campaign" not in self.draft.fields:
            era = self._top("AcquisitionEra")
            self._set("campaign", "Campaign", era if isinstance(era, str) else self.first.value("Campaign"))

    def _own_name(self) -> str:
        """The same document always gets the same name, as ReqMgr2 makes them, but for the time of day."""
        digest = hashlib.sha256(json.dumps(self.top, sort_keys=True).encode()).hexdigest()[:8]
        parts = (
            self.draft.fields.get("requestor", "wms2"),
            self._top("RequestString") or self._top("PrepID"),
        )
        said = "_".join(str(part) for part in parts if part)
        return f"{re.sub('[^A-Za-z0-9_-]', '_', said).lstrip('0123456789_-')[:180] or 'request'}_{digest}"

    def _read_what_is_made(self) -> None:
        for name, field in names.FIRST_FIELDS.items():
            self._set(field, self.first.path(name), self.first.value(name))
        if self.top["RequestType"] == "ReReco" and "input_dataset" not in self.draft.fields:
            self._wrong("InputDataset", "missing, expected the dataset to read")
            self.draft.fields["input_dataset"] = _NO_DATASET
        if "input_dataset" in self.draft.fields:
            # ReqMgr2 lets the first step say both; the names of the outputs have the primary dataset already.
            for field in ("total_events", "primary_dataset", "first_event", "first_lumi"):
                self.draft.fields.pop(field, None)

    def _read_what_a_job_needs(self) -> None:
        for name, field in names.LARGEST_FIELDS.items():
            path, value = self._largest(name)
            self._set(field, path, names.DEFAULTS[name] if value is None else value)
        for name, field in names.RELEASE_FIELDS.items():
            step = next((step for step in self.steps if step.value(name) is not None), self.first)
            self._set(field, name if step.value(name) is None else step.path(name), step.value(name))
        for name, field in names.PER_EVENT_FIELDS.items():
            path, value = self._per_event(name)
            self._set(field, path, value)

    def _largest(self, name: str) -> tuple[str, Any]:
        """Over all steps; a StepChain's own memory is for all of them together."""
        found_in = [(step.path(name), step.value(name)) for step in self.steps]
        if (
            name == "Memory"
            and self.top["RequestType"] == "StepChain"
            and not isinstance(self.top.get(name), dict)
        ):
            found_in.append((name, self._top(name) if name in self.top else None))
        return max(found_in, key=lambda one: _rank(one[1]))

    def _per_event(self, name: str) -> tuple[str, Any]:
        """A StepChain says it for all steps together, or each step says its part.

        Only what is kept is output: a task whose output the next one reads in the same job adds time, but no size.
        """
        said = [step for step in self.steps if step.value(name) is not None]
        kept = [step for step in said if step.is_kept] if name == "SizePerEvent" else []
        parts = [(step.path(name), step.value(name)) for step in kept or said]
        if self.top["RequestType"] == "StepChain" and (
            name in self.top and not isinstance(self.top[name], dict)
        ):
            return name, self._top(name)
        if not parts:
            return name, names.DEFAULTS[name]
        wrong = [part for part in parts if not _is_number(part[1])]
        return wrong[0] if wrong else (parts[0][0], sum(value for _, value in parts))

    def _read_gpus(self) -> None:
        for step in self.steps:
            use = step.value("RequiresGPU")
            params, path = step.value("GPUParams"), step.path("GPUParams")
            required = False if use is None else names.GPU_USE.get(str(use), use)
            if required is not False and self.draft.fields.get("requires_gpu") is not True:
                self._set("requires_gpu", step.path("RequiresGPU"), required)
                self.draft.origins["gpu_params"] = path
            if required is True and isinstance(params, dict):
                self._set(
                    "gpu_params", path, {names.GPU.get(name, name): part for name, part in params.items()}
                )
                self.draft.origins |= {
                    f"gpu_params.{ours}": f"{path}.{name}" for name, ours in names.GPU.items()
                }
            elif required is True:
                self._set("gpu_params", path, params)

    def _read_splitting(self) -> None:
        # Without input ReqMgr2 splits by events, whatever the document says.
        algo = "EventAwareLumiBased" if "input_dataset" in self.draft.fields else "EventBased"
        if algo == "EventAwareLumiBased":
            algo = self.draft.fields.setdefault("splitting_algo", algo)
        self.draft.fields["splitting_algo"] = algo
        params: dict[str, Any] = {}
        for name, param in names.SPLITTING.get(str(algo), {}).items():
            self.draft.origins[f"splitting_params.{param}"] = self.first.path(name)
            if (value := self.first.value(name)) is not None:
                params[param] = value
            elif name in names.JOB_SIZES:
                params[param] = names.JOB_SIZES[name]
        if algo in ("EventBased", "EventAwareLumiBased"):
            params |= self._events_per_job(params.get("events_per_job"))
        self.draft.fields["splitting_params"] = params

    def _events_per_job(self, per_job: Any) -> dict[str, Any]:
        """As ReqMgr2 does it: eight hours, no more than are asked for, and whole lumi sections in a chain."""
        seconds = self.draft.fields["time_per_event_sec"]
        if per_job is None:
            per_job = max(1, int(names.JOB_LENGTH_SEC / seconds)) if _is_number(seconds) else 1
        per_lumi = self.first.value("EventsPerLumi")
        total, passing = self.draft.fields.get("total_events"), self.draft.fields.get("filter_efficiency", 1)
        if not _is_number(per_job) or not self.first.place:
            return {"events_per_job": per_job}
        if _is_number(total) and _is_number(passing) and passing <= 1:
            per_job = min(per_job, max(1, int(total / passing)))
        if not _is_number(per_lumi):
            return {"events_per_job": per_job}
        sections = max(1, round(per_job / per_lumi))
        simulated = (
            {} if "input_dataset" in self.draft.fields else {"events_per_lumi": min(per_lumi, per_job)}
        )
        return {"events_per_job": per_job if per_lumi > per_job else sections * per_lumi, **simulated}

    def _read_merge_sizes(self) -> None:
        """A file that ReqMgr2 would not merge, being large enough, is one that WMS2 copies."""
        small, large = self._top("MinMergeSize"), self.draft.fields["merge_target_bytes"]
        self.draft.origins["merge_copy_fraction"] = "MinMergeSize"
        if not isinstance(small, int) or small < 1:
            self._wrong("MinMergeSize", f"expected a whole number above 0, found {found(small)}")
        elif isinstance(large, int) and large < small:
            self._wrong("MinMergeSize", f"expected at most MaxMergeSize ({large}), found {small}")
        elif isinstance(large, int):
            self.draft.fields["merge_copy_fraction"] = small / large

    def _read_payload_and_outputs(self, made: Sequence[Made], unnamed_outputs: bool) -> None:
        if unnamed_outputs and not listed_outputs(self.top):
            self.notes.append(f"OutputDatasets: {how_to_list(self.steps)}; until then it cannot be submitted")
        if self._top("EnableHarvesting") is True:
            self.notes.append(_HARVESTING)
        payload = payload_of(self.steps, self.draft)
        metadata = {name: self.top[name] for name in names.METADATA if name in self.top}
        if self.notes:
            metadata["notes"] = self.notes
        self.draft.fields["payload_config"] = {**payload, "reqmgr2": metadata}
        places = {step.place for step in self.steps}
        place_outputs([one for one in made if one.step.place in places], self.draft)
        complete_outputs(self.draft, [])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LARGEST_INTEGER


def _rank(value: Any) -> float:
    """By size; what is no number at all comes first, to be complained about."""
    if value is None:
        return -math.inf
    return value if isinstance(value, int | float) and not isinstance(value, bool) else math.inf
