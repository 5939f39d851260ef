"""Parameter sets: the configurations of cmsRun that a request brings along, each known by the digest of its bytes.

The text is kept once, whoever uses it; a step names the file and its digest, and the sandbox checks both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wms2.models.base import Model
from wms2.models.mistakes import Mistake
from wms2.models.request_draft import Draft

_NAME_DIGITS = 16


class PsetFile(Model):
    """A file that goes with the jobs of a request."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """`tweak` is what the cache knows of it: its output modules, among other things."""

    content: bytes = field(repr=False)
    tweak: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def module_of(self, tier: Any, filter_name: str) -> str | None:
        """The one output module that writes this tier; of several, the one with that filter."""
        process = self.tweak.get("process")
        if not isinstance(process, dict):
            return None
        modules = process.get("outputModules_", [])
        written = {name: _dataset(process, name) for name in modules if isinstance(name, str)}
        fitting = [name for name, (its_tier, _) in written.items() if its_tier == tier]
        if len(fitting) > 1:
            fitting = [name for name in fitting if written[name][1] == filter_name]
        return fitting[0] if len(fitting) == 1 else None


def _dataset(process: Mapping[str, Any], module: str) -> tuple[str, str]:
    settings = process.get(module)
    dataset = settings.get("dataset") if isinstance(settings, dict) else None
    values = dataset if isinstance(dataset, dict) else {}
    return str(values.get("dataTier", "")), str(values.get("filterName", ""))


def pset_files(payload: Mapping[str, Any]) -> tuple[PsetFile, ...]:
    """The files that the steps of a payload were given, each once."""
    files = {}
    for step in payload["steps"]:
        parameters = step.get("parameters")
        if isinstance(parameters, dict) and "pset_sha256" in parameters:
            files[str(parameters["pset"])] = str(parameters["pset_sha256"])
    return tuple(PsetFile(name=name, digest=digest) for name, digest in files.items())


def cached_steps(draft: Draft) -> Iterator[tuple[int, str]]:
    """The steps whose configuration is in the cache, by number, each with its id there."""
    for k, step in enumerate(_steps(draft)):
        parameters = step.get("parameters") if isinstance(step, dict) else None
        if isinstance(parameters, dict) and "pset" not in parameters:
            name = parameters.get("config_cache_id")
            if isinstance(name, str) and step.get("type") == "cmsRun":
                yield k, name


def ship(draft: Draft, sets: Mapping[str, ParameterSet | None]) -> None:
    """Give each step its parameter set, and each output the module that writes it; one that is unknown is a mistake."""
    steps = list(_steps(draft))
    for k, name in cached_steps(draft):
        found = sets[name]
        if found is None:
            where = draft.as_written(f"payload_config.steps[{k}].parameters.pset")
            draft.mistakes.append(Mistake(where, f"the cache of configurations has no {name}"))
            continue
        shipped = {"pset": f"pset_{found.digest[:_NAME_DIGITS]}.py", "pset_sha256": found.digest}
        steps[k] = {**steps[k], "parameters": {**steps[k]["parameters"], **shipped}}
        _name_modules(draft, steps[k].get("name"), found)
    if steps:
        draft.fields["payload_config"] = {**draft.fields["payload_config"], "steps": steps}


def _steps(draft: Draft) -> list[Any]:
    payload = draft.fields.get("payload_config")
    steps = payload.get("steps") if isinstance(payload, dict) else None
    return steps if isinstance(steps, list) else []


def _name_modules(draft: Draft, step: Any, found: ParameterSet) -> None:
    """Documents seldom name the modules; the configuration does."""
    for output in draft.fields.get("outputs", []):
        if output.get("step") == step:
            written = found.module_of(output.get("tier"), _filter_of(str(output.get("dataset"))))
            output["module"] = written or output["module"]


def _filter_of(dataset: str) -> str:
    """What stands between era and processing."""
    processed = dataset.split("/")[2] if dataset.count("/") == 3 else ""
    return "-".join(processed.split("-")[1:-2])
