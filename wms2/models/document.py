"""From the text of a file to plain data: JSON, or YAML without its surprises."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent

from wms2.errors import UserError

MOST_BYTES = 10_000_000
DEEPEST_NESTING = 50

LONGEST_NUMBER = 100

# The one without any tags; written in C where the platform has it.
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_WORDS: Mapping[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def read_text(path: Path) -> str:
    """The text of a file, or one sentence that says why there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MOST_BYTES:
        raise UserError(
            f"{path} is larger than {MOST_BYTES // 1_000_000} MB; it cannot be what is expected here"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def parse_document(text: str, source: str = "the file") -> dict[str, Any]:
    """The mapping that a JSON or YAML text holds. A text that begins with `{` is JSON."""
    try:
        document = _from_json(text, source) if text.lstrip().startswith("{") else _from_yaml(text, source)
        _refuse_unusable(document, source, DEEPEST_NESTING)
    except RecursionError:
        raise UserError(_too_deep(source)) from None
    if not isinstance(document, dict):
        kind = "is empty" if document is None else "is no mapping"
        raise UserError(f"{source} {kind}; expected lines such as 'request_name: my_request'")
    return document


def _too_deep(source: str) -> str:
    return f"{source} is nested too deeply; at most {DEEPEST_NESTING} levels are read"


def _refuse_unusable(value: Any, source: str, levels: int) -> None:
    """What neither the database nor a job could take: texts that are no UTF-8, endless nesting."""
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= char <= "\udfff" for char in value)):
        raise UserError(f"{source} holds a text with a character that is none: {ascii(value)[:80]}")
    if isinstance(value, dict | list):
        if levels == 0:
            raise UserError(_too_deep(source))
        for child in (*value, *value.values()) if isinstance(value, dict) else value:
            _refuse_unusable(child, source, levels - 1)


def _from_json(text: str, source: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for name, value in pairs:
            if name in mapping:
                raise UserError(f"{source} has the key {name!r} twice in one mapping; keep one of them")
            mapping[name] = value
        return mapping

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise UserError(f"{source} holds {number[:40]}, which is too large or no number at all")
        return value

    try:
        return json.loads(text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{source} is not valid JSON at {where}: {error.msg.lower()}") from None
    except ValueError:
        raise UserError(f"{source} holds a number with too many digits") from None


def _from_yaml(text: str, source: str) -> Any:
    try:
        _refuse_bombs(text, source)
        return _plain(yaml.compose(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise UserError(f"{source} is not valid YAML{_place_and_problem(error, text)}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{source} is not valid YAML: {' '.join(str(error).split())}") from None


def _place_and_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    if mark and "cannot start any token" in (error.problem or "") and _has_a_tab(text, mark.line):
        return f"{where}: the line begins with a tab, expected blanks"
    begun = f" ({error.context} from line {context.line + 1})" if error.context and context else ""
    return f"{where}: {error.problem or error.context}{begun}"


def _has_a_tab(text: str, number: int) -> bool:
    """Whether that line is indented with one, which YAML does not allow and nobody sees."""
    (line,) = text.split("\n")[number : number + 1] or [""]
    return "\t" in line[: len(line) - len(line.lstrip())]


def _refuse_bombs(text: str, source: str) -> None:
    """A small file must not become a large document, nor anything but plain data."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if getattr(event, "anchor", None) is not None:
            raise UserError(f"{source} uses an anchor or alias at {_line(event)}; write the value out")
        if getattr(event, "tag", None) is not None:
            raise UserError(f"{source} uses a tag at {_line(event)}; write a plain value")
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
        if depth > DEEPEST_NESTING:
            raise UserError(_too_deep(source))


def _line(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark else "some line"


def _plain(node: yaml.Node | None) -> Any:
    """JSON's types only: unlike in YAML 1.1, `no`, `12:30`, `012` and dates are texts, and a key comes once."""
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child) for child in node.value]
    return None if node is None else _scalar(node)


def _mapping(node: yaml.MappingNode) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="expected a simple name as key", problem_mark=key.start_mark)
        if key.value in result:
            raise yaml.MarkedYAMLError(
                problem=f"the key {key.value!r} comes twice", problem_mark=key.start_mark
            )
        result[key.value] = _plain(value)
    return result


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    if getattr(node, "style", None):
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) <= LONGEST_NUMBER and _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if len(text) <= LONGEST_NUMBER and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text
