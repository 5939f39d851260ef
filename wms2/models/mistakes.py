"""What is wrong with a document: every mistake at once, each with its field."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from wms2.errors import UserError

LONGEST_FOUND = 80
MOST_MISTAKES = 1000

# From the location of a field to the names and descriptions of all fields that may stand there.
FieldsBeside = Callable[[Sequence[str | int]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Mistake:
    """`field` is the path to it as its author wrote it, `problem` what was expected and what was found."""

    field: str
    problem: str

    def __str__(self) -> str:
        field = self.field if self.field.isprintable() else ascii(self.field)
        return f"{field}: {self.problem}" if field else self.problem


class RequestFileError(UserError):
    """A request file that cannot be used, with all of its mistakes."""

    def __init__(self, mistakes: Sequence[Mistake], source: str = "the request") -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        super().__init__(self._text())

    def _text(self) -> str:
        if len(self.mistakes) == 1:
            return f"{self.source} has a mistake: {self.mistakes[0]}"
        lines = "".join(f"\n  {mistake}" for mistake in self.mistakes)
        return f"{self.source} has {len(self.mistakes)} mistakes:{lines}"


def found(value: object) -> str:
    """A value as its author would write it, cut short, with nothing in it that a terminal would act on."""
    text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST_FOUND else text[: LONGEST_FOUND - 3] + "..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(
        name.lower(), by_lower := {word.lower(): word for word in known}, n=1, cutoff=0.7
    )
    return f", did you mean {by_lower[close[0]]}?" if close else ""


def field_path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        if part == "[key]":
            continue
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def validation_error(title: str, mistakes: Iterable[Mistake]) -> ValidationError:
    """For validators of models: one pydantic error that holds several mistakes."""
    return ValidationError.from_exception_data(
        title,
        [
            InitErrorDetails(
                type=PydanticCustomError("contradiction", "{problem}", {"problem": mistake.problem}),
                loc=(mistake.field,),
                input=None,
            )
            for mistake in mistakes
        ],
    )


def _nobody_knows(_: Sequence[str | int]) -> Mapping[str, str]:
    return {}


def mistakes_of(error: ValidationError, fields_beside: FieldsBeside = _nobody_knows) -> list[Mistake]:
    """A model's complaints in plain words."""
    all_details = error.errors(include_url=False)[:MOST_MISTAKES]
    return [
        Mistake(field_path(details["loc"]), _problem(details, fields_beside))
        for details in all_details
        if not _follows_from_another(details, all_details)
    ]


def listed(error: ValidationError) -> str:
    """Each mistake on a line of its own."""
    return "\n".join(f"  {mistake}" for mistake in mistakes_of(error))


def _follows_from_another(details: ErrorDetails, all_details: Sequence[ErrorDetails]) -> bool:
    """A default that needs a field which is itself wrong; a list called too short for its wrong entries."""
    if details["type"] == "too_short":
        place = details["loc"]
        return any(other["loc"][: len(place)] == place for other in all_details if other is not details)
    return details["type"] == "default_factory_not_called"


_EXPECTED: Mapping[str, str] = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "int_type": "a whole number",
    "less_than_equal": "a number of at most {le}",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "model_type": "a mapping",
    "string_pattern_mismatch": "a text like {pattern}",
    "string_type": "a text",
    "too_long": "at most {max_length} entries, not {actual_length}",
    "too_short": "at least {min_length} entries, not {actual_length}",
    "tuple_type": "a list",
}


def _problem(details: ErrorDetails, fields_beside: FieldsBeside) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "contradiction":
        return str(context["problem"])
    if kind == "json_invalid":
        return f"not valid JSON: {context['error']}"
    if kind in ("missing", "extra_forbidden"):
        name, known = str(details["loc"][-1]), fields_beside(details["loc"])
        if kind == "extra_forbidden":
            return f"unknown field{did_you_mean(name, known)}"
        return f"missing, expected {known.get(name, 'a value')}"
    if kind in ("too_long", "too_short"):
        return f"expected {_EXPECTED[kind].format(**context)}"
    return f"{_expected(kind, context, details['msg'])}, found {found(details['input'])}"


def _expected(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind == "value_error":
        return str(context["error"])
    if kind in _EXPECTED:
        return "expected " + _EXPECTED[kind].format(**_readable(context))
    return message.lower()


def _readable(context: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in context.items()
    }
