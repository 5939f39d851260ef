"""A request on its way from a file to the model: fields, where they came from, and what is wrong with them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from wms2.models.mistakes import MOST_MISTAKES, Mistake, RequestFileError, mistakes_of
from wms2.models.payload import PayloadConfig, PayloadMerge, PayloadStep
from wms2.models.policy import FailureHandler, FailureRule, HandlerRule
from wms2.models.request import GpuParams, Output, ProductionStep, Request
from wms2.models.request_rules import contradictions
from wms2.models.splitting import PARAMS

LONGEST_ORIGIN = 200
"""Origins are known for fields of the models, whose paths are shorter; an author may write any name."""


@dataclass(slots=True)
class Draft:
    """`origins` maps the path of a field to the path its author knows; paths below it follow."""

    fields: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def request(self, source: str) -> Request:
        """The request, or all that is wrong with it in one RequestFileError."""
        mistakes = list(self.mistakes)
        try:
            request = Request.model_validate(self.fields)
        except ValidationError as error:
            mistakes += self._in_the_authors_words(self._mistakes(error))
        if mistakes:
            raise RequestFileError(each_field_once(mistakes)[:MOST_MISTAKES], source)
        return request

    def _mistakes(self, error: ValidationError) -> list[Mistake]:
        mistakes = mistakes_of(error, self._fields_beside)
        found = error.errors(include_url=False, include_context=False, include_input=False)
        if all(details["type"] == "contradiction" for details in found):
            return mistakes
        # The model looks for contradictions only once each field is sound; a person wants to hear all at once.
        wrong = [details["loc"] for details in found]
        return mistakes + contradictions(_sound(self.fields, wrong), self.fields.keys())

    def _fields_beside(self, location: Sequence[str | int]) -> Mapping[str, str]:
        model = self._model_at(tuple(part for part in location[:-1] if isinstance(part, str)))
        return {name: info.description or "" for name, info in model.model_fields.items()}

    def _model_at(self, place: tuple[str, ...]) -> type[BaseModel]:
        if place == ("splitting_params",):
            return PARAMS[self.fields["splitting_algo"]]
        return _MODELS.get(place, Request)

    def _in_the_authors_words(self, mistakes: Sequence[Mistake]) -> list[Mistake]:
        return [Mistake(self.as_written(mistake.field), mistake.problem) for mistake in mistakes]

    def as_written(self, path: str) -> str:
        """The path of a field as its author knows it."""
        for end in range(min(len(path), LONGEST_ORIGIN), 0, -1):
            at_boundary = end == len(path) or path[end] in ".["
            if at_boundary and (origin := self.origins.get(path[:end])) is not None:
                return origin + path[end:]
        return path


_MODELS: Mapping[tuple[str, ...], type[BaseModel]] = {
    ("outputs",): Output,
    ("gpu_params",): GpuParams,
    ("production_steps",): ProductionStep,
    ("failure_rules",): FailureRule,
    ("failure_handlers",): FailureHandler,
    ("failure_handlers", "rules"): HandlerRule,
    ("payload_config",): PayloadConfig,
    ("payload_config", "steps"): PayloadStep,
    ("payload_config", "merge"): PayloadMerge,
}


# In a list of plain entries the sound ones can be judged although others are wrong.
_PLAIN_LISTS = frozenset(
    f"{kind}_{colour}list" for kind in ("site", "run", "block") for colour in ("white", "black")
)


def _sound(fields: Mapping[str, Any], wrong: Sequence[tuple[str | int, ...]]) -> dict[str, Any]:
    """The fields that are right by themselves, with the defaults of those left out."""
    sound: dict[str, Any] = {
        name: info.default
        for name, info in Request.model_fields.items()
        if not info.is_required() and info.default_factory is None
    }
    sound.update(fields)
    entries = defaultdict[str, set[int]](set)
    for name, *rest in wrong:
        if name in _PLAIN_LISTS and rest and isinstance(rest[0], int):
            entries[str(name)].add(rest[0])
        else:
            sound.pop(str(name), None)
    for name, places in entries.items():
        # Takes the place of a wrong entry, so that the others keep their numbers, and equals nothing.
        sound[name] = [object() if k in places else entry for k, entry in enumerate(sound[name])]
    return sound


def each_field_once(mistakes: Sequence[Mistake]) -> list[Mistake]:
    """Several fields may come from one that the author wrote; the first complaint about it is enough."""
    first: dict[str, Mistake] = {}
    for mistake in mistakes:
        first.setdefault(mistake.field, mistake)
    return list(first.values())
