"""What a request file says about its outputs, completed: each gets its dataset name, tier, module and step.

A part that is wrong or missing is a mistake of its own field. Here a stand-in takes its place, so that it is
not reported a second time as a bad dataset name.
"""

import re
from collections.abc import Mapping
from typing import Any

from wms2.models.mistakes import Mistake, found
from wms2.models.request_draft import Draft
from wms2.patterns import ERA, PRIMARY_DATASET, PROCESSING_STRING, TIER, WORD


def complete_outputs(draft: Draft, names: list[Any], names_field: str = "output_datasets") -> None:
    """Fill in the draft's outputs; `names` is what its author listed as output datasets, if anything."""
    if names and "outputs" not in draft.fields:
        draft.fields["outputs"] = [{"dataset": name} for name in names]
        for k in range(len(names)):
            draft.origins |= {
                f"outputs[{k}].{part}": f"{names_field}[{k}]" for part in ("dataset", "tier", "module")
            }
    elif isinstance(outputs := draft.fields.get("outputs"), list):
        draft.fields["outputs"] = _named(outputs, names, draft)
    if isinstance(outputs := draft.fields.get("outputs"), list):
        draft.fields["outputs"] = [_completed(output, draft.fields) for output in outputs]


def _named(outputs: list[Any], names: list[Any], draft: Draft) -> list[Any]:
    """Outputs with their dataset's name: as given, or the listed one of their tier, or derived."""
    taken: set[Any] = set()
    result: list[Any] = []
    for k, output in enumerate(outputs):
        if isinstance(output, dict) and output.get("dataset") is None:
            output = {**output, "dataset": _name_for(k, output.get("tier"), names, draft)}
        if isinstance(output, dict):
            taken.add(str(output["dataset"]))
        result.append(output)
    for k, name in enumerate(names):
        if str(name) not in taken:
            draft.mistakes.append(
                Mistake(f"output_datasets[{k}]", f"no output has this tier, found {found(name)}")
            )
    return result


def _name_for(k: int, tier: Any, names: list[Any], draft: Draft) -> Any:
    fitting = [place for place, name in enumerate(names) if _tier_of(name) == tier]
    if len(fitting) == 1:
        draft.origins[f"outputs[{k}].dataset"] = f"output_datasets[{fitting[0]}]"
        return names[fitting[0]]
    if names:
        problem = f"expected the tier of one of the output datasets, found {found(tier)}"
        draft.mistakes.append(Mistake(f"outputs[{k}].tier", problem))
    return _derived_name(tier, draft.fields)


def _derived_name(tier: Any, fields: Mapping[str, Any]) -> str:
    read, version = fields.get("input_dataset"), fields.get("processing_version", 1)
    primary = read.split("/")[1] if isinstance(read, str) and "/" in read else fields.get("primary_dataset")
    era = _sound(fields.get("acquisition_era"), ERA)
    processing = _sound(fields.get("processing_string"), PROCESSING_STRING)
    number = version if isinstance(version, int) and 0 < version < 10**6 else 1
    return f"/{_sound(primary, PRIMARY_DATASET)}/{era}-{processing}-v{number}/{_sound(tier, TIER)}"


def _completed(output: Any, fields: Mapping[str, Any]) -> Any:
    if not isinstance(output, dict):
        return output
    given = {name: value for name, value in output.items() if value is not None}
    tier = given.get("tier") or _sound(_tier_of(given["dataset"]), TIER)
    module = f"{str(tier).replace('-', '')}output"
    return {"tier": tier, "module": _sound(module, WORD), "step": _last_step(fields), **given}


def _tier_of(name: Any) -> str | None:
    return name.rsplit("/", 1)[-1] if isinstance(name, str) else None


def _last_step(fields: Mapping[str, Any]) -> str:
    try:
        return _sound(fields["payload_config"]["steps"][-1]["name"], WORD)
    except (KeyError, IndexError, TypeError):
        return _sound(None, WORD)


def _sound(value: Any, pattern: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and pattern.fullmatch(value) else "UNKNOWN"
