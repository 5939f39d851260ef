"""ReqMgr2 is generous: numbers, flags, lists and JSON as text, whole numbers with a point."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from wms2.models.document import LONGEST_NUMBER

_FLAGS = {"true": True, "false": False}


def given(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Without what ReqMgr2 writes for values that nobody set."""
    return {name: value for name, value in mapping.items() if value is not None and value != ""}


def number(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER:
        try:
            value = float(value) if math.isfinite(float(value)) else value
        except ValueError:
            return value
    return value


def whole(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER and value.strip().isdecimal():
        return int(value)
    value = number(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def flag(value: Any) -> Any:
    return _FLAGS.get(value.lower(), value) if isinstance(value, str) else value


def listed(value: Any) -> Any:
    """Each entry once: ReqMgr2 lets them come again."""
    if isinstance(value, str):
        parts = (part.strip(" '\"") for part in value.strip(" []").split(","))
        value = [part for part in parts if part]
    if not isinstance(value, list):
        return value
    return list({json.dumps(entry): entry for entry in value}.values())


def whole_numbers(value: Any) -> Any:
    entries = [value] if isinstance(value, int) and not isinstance(value, bool) else listed(value)
    return listed([whole(entry) for entry in entries]) if isinstance(entries, list) else entries


def mapping(value: Any) -> Any:
    """JSON as text is what it says, also if that is nothing; an empty list is an empty mapping."""
    if not isinstance(value, str):
        return {} if value == [] else value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


Conversion = Callable[[Any], Any]
