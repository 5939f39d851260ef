"""Request files: written by people in snake_case, or exported by ReqMgr2 in CamelCase; YAML or JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wms2.models.document import parse_document, read_text
from wms2.models.mistakes import Mistake, RequestFileError
from wms2.models.reqmgr2 import draft_from_reqmgr2
from wms2.models.request import Request
from wms2.models.request_draft import Draft
from wms2.models.request_outputs import complete_outputs
from wms2.models.splitting import PARAMS

_SHOWN_NAMES = 3
_SPLITTING_NAMES = {name for params in PARAMS.values() for name in params.model_fields}
_INHERITED = ("cmssw_version", "global_tag")


def validate_request_file(path: Path) -> Request:
    """The request that a file holds, or a RequestFileError with all of its mistakes."""
    return read_request(read_text(path), str(path))


def read_request(text: str, source: str = "the request") -> Request:
    """The request that a text holds, or a RequestFileError with all of its mistakes."""
    draft = _draft(parse_document(text, source), source)
    _hand_down_release(draft.fields)
    return draft.request(source)


def _draft(document: dict[str, Any], source: str) -> Draft:
    camel = [name for name in document if name[:1].isupper()]
    snake = [name for name in document if name in Request.model_fields]
    if camel and snake:
        raise RequestFileError([_mixture(camel, snake)], source)
    return draft_from_reqmgr2(document, source) if camel else _draft_from_native(document)


def _mixture(camel: list[str], snake: list[str]) -> Mistake:
    shown = [", ".join(names[:_SHOWN_NAMES]) for names in (camel, snake)]
    return Mistake(
        "", f"it mixes ReqMgr2's names ({shown[0]}) with WMS2's own ({shown[1]}), expected one kind only"
    )


def _draft_from_native(document: Mapping[str, Any]) -> Draft:
    """An empty value means the same as leaving the field out."""
    draft = Draft({name: value for name, value in document.items() if value is not None})
    if isinstance(arch := draft.fields.get("scram_arch"), str):
        draft.fields["scram_arch"] = [arch]
        draft.origins["scram_arch[0]"] = "scram_arch"
    for name in _SPLITTING_NAMES & draft.fields.keys():
        del draft.fields[name]
        draft.mistakes.append(Mistake(name, "unknown field here, it belongs into splitting_params"))
    names = draft.fields.pop("output_datasets", [])
    complete_outputs(draft, names if isinstance(names, list) else [names])
    return draft


def _hand_down_release(fields: dict[str, Any]) -> None:
    """A cmsRun step that names no release, architecture or conditions gets the request's."""
    payload = fields.get("payload_config")
    if not isinstance(payload, dict) or not isinstance(payload.get("steps"), list):
        return
    inherited = {name: fields[name] for name in _INHERITED if name in fields}
    if isinstance(archs := fields.get("scram_arch"), list) and archs:
        inherited["scram_arch"] = archs[0]
    fields["payload_config"] = {**payload, "steps": [_with(inherited, step) for step in payload["steps"]]}


def _with(inherited: Mapping[str, Any], step: Any) -> Any:
    if not isinstance(step, dict) or step.get("type") != "cmsRun":
        return step
    parameters = step.get("parameters", {})
    return {**step, "parameters": {**inherited, **parameters}} if isinstance(parameters, dict) else step
