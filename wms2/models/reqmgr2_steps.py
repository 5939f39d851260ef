"""The steps of a ReqMgr2 request: what holds for each of them, and what it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wms2.models.mistakes import Mistake, found
from wms2.models.payload import MOST_STEPS
from wms2.models.reqmgr2_fields import (
    CONVERSIONS,
    FIRST_FIELDS,
    KINDS,
    PER_STEP,
    SPLITTING,
    STEP_PARAMETERS,
)
from wms2.models.reqmgr2_values import flag, given, listed, whole
from wms2.models.request_draft import Draft

_ONE_STEP = "DataProcessing"
_OF_THE_STEP = frozenset({*FIRST_FIELDS} | {name for names in SPLITTING.values() for name in names})
_NEVER_INHERITED = frozenset({"ConfigCacheID"})
_PILEUP = ("MCPileup", "DataPileup")


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `place` is where its author wrote it, empty for a request that is itself the only step.

    A stand-in takes the place of one that is missing, so that the others can be judged.
    """

    place: str
    own: Mapping[str, Any]
    top: Mapping[str, Any]
    is_stand_in: bool = False

    @property
    def kind(self) -> str:
        """What ReqMgr2 calls it: Step or Task."""
        return KINDS.get(self.top["RequestType"], "")

    @property
    def name(self) -> Any:
        return self.own.get(f"{self.kind}Name") if self.place else _ONE_STEP

    @property
    def is_kept(self) -> bool:
        return flag(self.own.get("KeepOutput", True)) is not False

    def keeps(self, module: Any) -> bool:
        transient = listed(self.own.get("TransientOutputModules"))
        return self.is_kept and not (isinstance(transient, list) and module in transient)

    @property
    def source(self) -> Any:
        """The name of the step that it reads from."""
        return self.own.get(f"Input{self.kind}")

    def value(self, name: str) -> Any:
        """What holds for this step: its part of a mapping by step, its own value, or the whole request's."""
        value, _ = self._found(name)
        return CONVERSIONS[name](value) if name in CONVERSIONS else value

    def path(self, name: str) -> str:
        """Where that value stands, or would have to."""
        return self._found(name)[1]

    def here(self, name: str) -> str:
        """Where a value of its own stands."""
        return f"{self.place}.{name}" if self.place else name

    def _found(self, name: str) -> tuple[Any, str]:
        everywhere = self.top.get(name)
        own = self.here(name)
        if self.place and name in PER_STEP and isinstance(everywhere, dict):
            if isinstance(self.name, str) and self.name in everywhere:
                return everywhere[self.name], f"{name}.{self.name}"
            return self.own.get(name), own if name in self.own else f"{name}.{self.name}"
        if name in self.own or name in _NEVER_INHERITED or (everywhere is None and name in _OF_THE_STEP):
            return self.own.get(name), own
        return everywhere, name


def steps_of(document: Mapping[str, Any], draft: Draft) -> list[Step]:
    """The steps, at least one; one that is missing or no mapping is a mistake and comes out empty."""
    chain = document["RequestType"]
    if chain not in KINDS:
        return [Step("", document, document)]
    length = whole(document.get(chain))
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MOST_STEPS:
        problem = f"expected how many steps there are, from 1 to {MOST_STEPS}, found {found(length)}"
        draft.mistakes.append(Mistake(chain, problem))
        length = max(1, sum(f"{KINDS[chain]}{number}" in document for number in range(1, MOST_STEPS + 1)))
    return [_step(f"{KINDS[chain]}{number}", document, draft) for number in range(1, length + 1)]


def _step(place: str, document: Mapping[str, Any], draft: Draft) -> Step:
    values = document.get(place)
    if not isinstance(values, dict):
        draft.mistakes.append(Mistake(place, f"expected a mapping, found {found(values)}"))
        stand_in = {f"{place.rstrip('0123456789')}Name": place, "ConfigCacheID": place}
        return Step(place, stand_in, document, is_stand_in=True)
    return Step(place, given(values), document)


def task_groups(steps: Sequence[Step]) -> list[list[Step]]:
    """The requests of a chain of tasks. A task whose input is kept can run by itself; another one runs in the same
    job as the task that it reads from, because nobody else ever sees that input."""
    groups: list[list[Step]] = []
    for step in steps:
        group = next((group for group in groups for other in group if other.name == step.source), None)
        source = next((other for other in steps if other.name == step.source), None)
        if group is None or source is None or source.keeps(step.own.get("InputFromOutputModule")):
            groups.append([step])
        else:
            group.append(step)
    return groups


def last_kept(steps: Sequence[Step]) -> Step:
    return next((step for step in reversed(steps) if step.is_kept), steps[-1])


def payload_of(steps: Sequence[Step], draft: Draft) -> dict[str, Any]:
    """The payload: as the document itself gives it, or made of the steps."""
    own, written = steps[0].value("PayloadConfig"), steps[0].path("PayloadConfig")
    if own is not None and not isinstance(own, dict):
        draft.mistakes.append(Mistake(written, f"expected a mapping, found {found(own)}"))
        own = None
    own = own or {}
    if "steps" in own:
        draft.origins["payload_config"] = written
        return own
    for k, step in enumerate(steps):
        at = f"payload_config.steps[{k}]"
        draft.origins |= {
            at: step.place or "RequestType",
            f"{at}.name": step.here(f"{step.kind}Name"),
            f"{at}.parameters.pset": step.path("ConfigCacheID"),
            f"{at}.parameters.scram_arch": step.path("ScramArch"),
            **{f"{at}.parameters.{ours}": step.path(theirs) for theirs, ours in STEP_PARAMETERS.items()},
        }
    check_links(steps, draft)
    return {**own, "steps": [_payload_step(step) for step in steps]}


def _payload_step(step: Step) -> dict[str, Any]:
    parameters = {
        ours: value
        for theirs, ours in STEP_PARAMETERS.items()
        if (value := step.value(theirs)) is not None and _says_something(theirs, value, step)
    }
    if archs := step.value("ScramArch"):
        # Of several ReqMgr2 takes the last by name, which is the newest compiler.
        parameters["scram_arch"] = max(archs, key=str) if isinstance(archs, list) else archs
    links = {"input_step": step.source, "input_module": step.own.get("InputFromOutputModule")}
    return {
        **({} if step.name is None else {"name": step.name}),
        "type": "cmsRun",
        **given(links),
        "parameters": parameters,
    }


def _says_something(name: str, value: Any, step: Step) -> bool:
    """No event streams means as many as cores; how pile-up is chosen matters where there is some."""
    if name == "EventStreams":
        return bool(value != 0)
    if name == "DeterministicPileup":
        return value is not False and any(step.value(pileup) for pileup in _PILEUP)
    return True


def check_links(steps: Sequence[Step], draft: Draft) -> None:
    """Each step but the first reads from one before it."""
    for k, step in enumerate(steps):
        earlier = [str(other.name) for other in steps[:k] if other.name]
        if len(earlier) == k and k and step.source not in earlier and not step.is_stand_in:
            expected = f"expected the name of an earlier step ({', '.join(earlier)})"
            draft.mistakes.append(
                Mistake(f"{step.place}.Input{step.kind}", f"{expected}, found {found(step.source)}")
            )
