"""Around a ReqMgr2 document: the answer of its REST interface, or a template with creation and assignment.

Templates hold placeholders (`Team-OVERRIDE-ME`) for what is filled in when they are used. A placeholder is no value.
"""

from collections.abc import Mapping, Set
from typing import Any

from wms2.models.mistakes import Mistake, RequestFileError
from wms2.models.reqmgr2_fields import PER_STEP

_PLACEHOLDER = "-override-me"
_TEMPLATE = {"createRequest", "assignRequest"}


def unwrapped(document: dict[str, Any], source: str) -> dict[str, Any]:
    """The document itself; anything that is not wrapped comes back as it is."""
    if isinstance(answer := document.get("result"), list) and len(document) == 1:
        if len(answer) != 1 or not isinstance(answer[0], dict):
            problem = f"expected the answer of ReqMgr2 about one request, found {len(answer)} of them"
            raise RequestFileError([Mistake("result", problem)], source)
        return unwrapped(answer[0], source)
    if _TEMPLATE & document.keys():
        return _used(document, source)
    inside = list(document.values())
    if not inside or not all(_is_request(value) for value in inside):
        return document
    if len(inside) > 1:
        problem = f"expected one request in a file, found {len(inside)} of them"
        raise RequestFileError([Mistake("", problem)], source)
    return unwrapped(inside[0], source)


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and ("RequestType" in value or bool(_TEMPLATE & value.keys()))


def _used(template: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What ReqMgr2 would have after creation and assignment: the later one wins."""
    if template.get("changeSplitting"):
        problem = "not supported; write the algorithm and its numbers into createRequest"
        raise RequestFileError([Mistake("changeSplitting", problem)], source)
    created, assigned = template.get("createRequest"), template.get("assignRequest") or {}
    if not created or not isinstance(created, dict) or not isinstance(assigned, dict):
        name = "assignRequest" if created and isinstance(created, dict) else "createRequest"
        raise RequestFileError([Mistake(name, "expected a mapping with the request's fields")], source)
    created, assigned = _without_placeholders(created), _without_placeholders(assigned)
    # An empty list of an assignment does not take back what the creation chose.
    assigned = {name: value for name, value in assigned.items() if value not in (None, "", [], {})}
    everywhere = {name for name in PER_STEP & assigned.keys() if not isinstance(assigned[name], dict)}
    return {
        **{name: _without(everywhere, value) for name, value in created.items()},
        **assigned,
    }


def _without(names: Set[str], value: Any) -> Any:
    """A step without what the assignment says for all steps."""
    return (
        {name: part for name, part in value.items() if name not in names}
        if isinstance(value, dict)
        else value
    )


def _without_placeholders(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_placeholders(part) for name, part in value.items() if not _is_placeholder(part)
        }
    if isinstance(value, list):
        return [_without_placeholders(part) for part in value if not _is_placeholder(part)]
    return value


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.lower().endswith(_PLACEHOLDER)
