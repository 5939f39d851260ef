"""Request files: written by people in snake_case, or exported by ReqMgr2 in CamelCase; YAML or JSON."""

import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wms2.models.document import parse_document, read_text
from wms2.models.mistakes import Mistake, RequestFileError
from wms2.models.reqmgr2 import draft_from_reqmgr2
from wms2.models.reqmgr2_envelope import unwrapped
from wms2.models.request import Request
from wms2.models.request_draft import Draft
from wms2.models.request_outputs import complete_outputs
from wms2.models.splitting import PARAMS

_SHOWN_NAMES = 3
_SPLITTING_NAMES = {name for params in PARAMS.values() for name in params.model_fields}
_INHERITED = ("cmssw_version", "global_tag")


def validate_request_file(path: Path, *, unnamed_outputs: bool = False) -> Request:
    """The request that a file holds, or a RequestFileError with all of its mistakes."""
    return read_request(read_text(path), str(path), unnamed_outputs=unnamed_outputs)


def read_request(
    text: str, source: str = "the request", *, unnamed_outputs: bool = False, asked_by: str | None = None
) -> Request:
    """The request that a text holds, or a RequestFileError with all of its mistakes.

    To look at a ReqMgr2 document that does not list its outputs yet, `unnamed_outputs` gives them stand-ins; such a
    request is not for submitting. `asked_by` is the requestor of one that names none.
    """
    document = read_document(text, source)
    if is_of_reqmgr2(document):
        draft = draft_from_reqmgr2(document, source, asked_by or submitter(), unnamed_outputs=unnamed_outputs)
    else:
        draft = _draft_from_native(document)
    hand_down_release(draft)
    return draft.request(source)


def read_document(text: str, source: str) -> dict[str, Any]:
    """What a text says, without what ReqMgr2 wraps around it; it is of ReqMgr2 or of WMS2, never a mixture."""
    document = unwrapped(parse_document(text, source), source)
    camel = [name for name in document if name[:1].isupper()]
    snake = [name for name in document if name in Request.model_fields]
    if camel and snake:
        raise RequestFileError([_mixture(camel, snake)], source)
    return document


def is_of_reqmgr2(document: Mapping[str, Any]) -> bool:
    return any(name[:1].isupper() for name in document)


def submitter() -> str | None:
    """Who runs this program, where the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


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


def hand_down_release(draft: Draft) -> None:
    """A cmsRun step that names no release, architecture or conditions gets the request's."""
    fields, payload = draft.fields, draft.fields.get("payload_config")
    if not isinstance(payload, dict) or not isinstance(payload.get("steps"), list):
        return
    inherited = {name: fields[name] for name in _INHERITED if name in fields}
    if isinstance(archs := fields.get("scram_arch"), list) and archs:
        inherited["scram_arch"] = archs[0]
    steps = list(payload["steps"])
    for k, step in enumerate(steps):
        parameters = (
            step.get("parameters", {}) if isinstance(step, dict) and step.get("type") == "cmsRun" else None
        )
        if isinstance(parameters, dict):
            steps[k] = {**step, "parameters": {**inherited, **parameters}}
            for name in inherited.keys() - parameters.keys():
                origin = "scram_arch[0]" if name == "scram_arch" else name
                draft.origins[f"payload_config.steps[{k}].parameters.{name}"] = draft.as_written(origin)
    fields["payload_config"] = {**payload, "steps": steps}
