"""What must fit together in a request, beyond each field by itself.

The rules look at plain JSON values, so that they can judge a request whose other fields are still wrong: a
rule applies as soon as the fields it looks at are sound. Rules name no other field, because the author may
know it under its CamelCase name.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pydantic import TypeAdapter, ValidationError

from wms2.models.base import LARGEST_EVENT, LARGEST_LUMI, Count, Flag, PositiveCount
from wms2.models.mistakes import Mistake, found, mistakes_of, validation_error
from wms2.models.pileup import pileup_of
from wms2.models.policy import ties
from wms2.models.splitting import EventBased, generated_lumis
from wms2.patterns import CmsswVersion, Dataset, GlobalTag, ScramArch

Found = Iterator[Mistake]

_LISTS = ("site", "run", "block")
_SELECTIONS = ("run_whitelist", "run_blacklist", "lumi_mask", "block_whitelist", "block_blacklist")
_STEP_PARAMETERS: Mapping[str, TypeAdapter[Any]] = {
    "cmssw_version": TypeAdapter(CmsswVersion),
    "scram_arch": TypeAdapter(ScramArch),
    "global_tag": TypeAdapter(GlobalTag),
    "memory_mb": TypeAdapter(PositiveCount),
    "cores": TypeAdapter(PositiveCount),
    "event_streams": TypeAdapter(Count),
    "deterministic_pileup": TypeAdapter(Flag),
}
_DATASET: TypeAdapter[str] = TypeAdapter(Dataset)
_ESTIMATES = ("time_per_event_sec", "size_per_event_kb", "memory_mb")


@dataclass(frozen=True, slots=True)
class _Rule:
    fields: tuple[str, ...]
    check: Callable[..., Found]


@dataclass(slots=True)
class _Rules:
    """Collects the rules in the order in which they are written."""

    all: list[_Rule] = field(default_factory=list)

    def over(self, *fields: str) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
        def remember(check: Callable[..., Found]) -> Callable[..., Found]:
            self.all.append(_Rule(fields, check))
            return check

        return remember


_rules = _Rules()


def contradictions(values: Mapping[str, Any], given: Set[str]) -> list[Mistake]:
    """The rules broken by `values`, which leaves out the fields that are wrong by themselves.

    `given` are the fields that the author wrote, as opposed to defaults.
    """
    applicable = (rule for rule in _rules.all if values.keys() >= set(rule.fields))
    broken = (rule.check(*(values[name] for name in rule.fields)) for rule in applicable)
    return [*chain.from_iterable(broken), *_missing_estimates(values, given)]


def refuse_contradictions(values: Mapping[str, Any], given: Set[str]) -> None:
    if mistakes := contradictions(values, given):
        raise validation_error("Request", mistakes)


def _missing_estimates(values: Mapping[str, Any], given: Set[str]) -> Found:
    if values.get("urgent") is True:
        for name in _ESTIMATES:
            if name not in given:
                yield Mistake(name, "missing, expected an estimate because an urgent request has no pilot")


@_rules.over("input_dataset", "total_events")
def _events_are_asked_for_or_read(input_dataset: str | None, total_events: int | None) -> Found:
    if input_dataset is None and total_events is None:
        yield Mistake("total_events", "missing, expected how many events, because there is no input dataset")
    if input_dataset is not None and total_events is not None:
        yield Mistake(
            "total_events", "expected none, because the input dataset says how many events there are"
        )


@_rules.over("input_dataset", "primary_dataset")
def _the_primary_dataset_has_one_source(input_dataset: str | None, primary_dataset: str | None) -> Found:
    if input_dataset is None and primary_dataset is None:
        yield Mistake("primary_dataset", "missing, expected a name, because there is no input dataset")
    if input_dataset is not None and primary_dataset is not None:
        yield Mistake("primary_dataset", "expected none, because the input dataset has its own")


@_rules.over("total_events", "filter_efficiency", "first_event")
def _event_numbers_fit_64_bits(total_events: int | None, filter_efficiency: float, first_event: int) -> Found:
    if total_events is not None and first_event - 1 + total_events / filter_efficiency > LARGEST_EVENT:
        yield Mistake(
            "total_events", f"expected event numbers of 64 bits even before the filter, found {total_events}"
        )


@_rules.over("total_events", "filter_efficiency", "first_lumi", "splitting_algo", "splitting_params")
def _lumi_numbers_fit_32_bits(
    total_events: int | None, filter_efficiency: float, first_lumi: int, algo: str, params: Mapping[str, Any]
) -> Found:
    if total_events is None or algo != "EventBased":
        return
    sizes = EventBased.model_validate(params)
    generated = math.ceil(min(total_events / filter_efficiency, LARGEST_EVENT))
    lumis = generated_lumis(generated, sizes.events_per_job, sizes.events_per_lumi)
    if first_lumi - 1 + lumis > LARGEST_LUMI:
        problem = f"expected lumi numbers of 32 bits, found {first_lumi - 1 + lumis} before the filter"
        yield Mistake("total_events", problem)


@_rules.over("input_dataset", "first_event", "first_lumi")
def _only_what_is_generated_is_numbered(
    input_dataset: str | None, first_event: int, first_lumi: int
) -> Found:
    for name, first in (("first_event", first_event), ("first_lumi", first_lumi)):
        if input_dataset is not None and first != 1:
            yield Mistake(name, "expected none, because the events of the input dataset have their numbers")


@_rules.over("input_dataset", "splitting_algo")
def _only_events_can_be_split_without_input(input_dataset: str | None, splitting_algo: str) -> Found:
    if input_dataset is None and splitting_algo != "EventBased":
        yield Mistake(
            "splitting_algo",
            f"expected EventBased, because there is no input dataset, found {found(splitting_algo)}",
        )


@_rules.over("input_dataset", *_SELECTIONS)
def _only_input_can_be_selected(input_dataset: str | None, *selections: Any) -> Found:
    if input_dataset is None:
        for name, selection in zip(_SELECTIONS, selections, strict=True):
            if selection:
                yield Mistake(name, "expected none, because there is no input dataset to select from")


@_rules.over("input_dataset", "prefetch")
def _only_input_can_be_fetched(input_dataset: str | None, prefetch: str | None) -> Found:
    if input_dataset is None and prefetch is not None:
        yield Mistake("prefetch", "expected none, because there is no input dataset to fetch")


@_rules.over("input_dataset", "completion")
def _only_a_simulation_can_complete_by_offset(input_dataset: str | None, completion: str) -> Found:
    if input_dataset is not None and completion == "offset":
        yield Mistake(
            "completion", 'expected "produced", because the request has an input dataset, found "offset"'
        )


@_rules.over("input_dataset", "outputs")
def _no_output_is_the_input(input_dataset: str | None, outputs: list[Mapping[str, Any]]) -> Found:
    for k, output in enumerate(outputs):
        if input_dataset is not None and output["dataset"] == input_dataset:
            yield Mistake(f"outputs[{k}].dataset", "expected another dataset than the input")


def _lists_agree(kind: str) -> None:
    white, black = f"{kind}_whitelist", f"{kind}_blacklist"

    @_rules.over(white)
    def _white_once(allowed: list[Any]) -> Found:
        yield from _repeated(white, allowed)

    @_rules.over(black)
    def _black_once(forbidden: list[Any]) -> Found:
        yield from _repeated(black, forbidden)

    @_rules.over(white, black)
    def _no_entry_in_both(allowed: list[Any], forbidden: list[Any]) -> Found:
        both = set(allowed) & set(forbidden)
        for k, entry in enumerate(forbidden):
            if entry in both:
                yield Mistake(f"{black}[{k}]", f"expected none of the allowed {kind}s, found {found(entry)}")


for _kind in _LISTS:
    _lists_agree(_kind)


@_rules.over("outputs")
def _outputs_differ(outputs: list[Mapping[str, Any]]) -> Found:
    repeated = list(_repeated("outputs", [output["dataset"] for output in outputs], ".dataset"))
    modules = [f"{output['step']}/{output['module']}" for output in outputs]
    yield from repeated or _repeated("outputs", modules, ".module")
    for k, output in enumerate(outputs):
        if not output["dataset"].endswith(f"/{output['tier']}"):
            yield Mistake(
                f"outputs[{k}].tier",
                f"expected the tier of {output['dataset']}, found {found(output['tier'])}",
            )


@_rules.over("payload_config")
def _steps_differ(payload_config: Mapping[str, Any]) -> Found:
    yield from _repeated("payload_config.steps", [step["name"] for step in payload_config["steps"]], ".name")


@_rules.over("payload_config", "outputs")
def _outputs_come_from_steps(payload_config: Mapping[str, Any], outputs: list[Mapping[str, Any]]) -> Found:
    steps = [step["name"] for step in payload_config["steps"]]
    for k, output in enumerate(outputs):
        if output["step"] not in steps:
            yield Mistake(
                f"outputs[{k}].step", f"expected one of {', '.join(steps)}, found {found(output['step'])}"
            )


@_rules.over("payload_config", "cmssw_version", "scram_arch")
def _cmsrun_has_a_release(payload_config: Mapping[str, Any], release: str | None, archs: list[str]) -> Found:
    parameters = [parameters for _, parameters in _cmsrun_steps(payload_config)]
    if release is None and any("cmssw_version" not in step for step in parameters):
        yield Mistake("cmssw_version", "missing, expected a release, because a step runs cmsRun")
    if not archs and any("scram_arch" not in step for step in parameters):
        yield Mistake("scram_arch", "missing, expected an architecture, because a step runs cmsRun")


@_rules.over("payload_config")
def _cmsrun_has_a_configuration(payload_config: Mapping[str, Any]) -> Found:
    for k, parameters in _cmsrun_steps(payload_config):
        if not parameters.keys() & {"pset", "config_cache_id"}:
            yield Mistake(
                f"payload_config.steps[{k}].parameters.pset", "missing, expected cmsRun's configuration"
            )


@_rules.over("payload_config")
def _parameters_of_cmsrun_are_sound(payload_config: Mapping[str, Any]) -> Found:
    """What reaches a release, a command line or an address; a step inherits the rest from the request."""
    for k, parameters in _cmsrun_steps(payload_config):
        for name, kind in _STEP_PARAMETERS.items():
            if name in parameters:
                yield from _unfit(f"payload_config.steps[{k}].parameters.{name}", kind, parameters[name])
    for k, name, dataset in pileup_of(payload_config):
        yield from _unfit(f"payload_config.steps[{k}].parameters.{name}", _DATASET, dataset)


def _unfit(field: str, kind: TypeAdapter[Any], value: Any) -> Found:
    try:
        kind.validate_python(value)
    except ValidationError as error:
        yield from (Mistake(field, mistake.problem) for mistake in mistakes_of(error, lambda _: {})[:1])


def _cmsrun_steps(payload_config: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for k, step in enumerate(payload_config["steps"]):
        parameters = step.get("parameters", {})
        if step["type"] == "cmsRun":
            yield k, parameters if isinstance(parameters, Mapping) else {}


@_rules.over("requires_gpu", "gpu_params")
def _gpus_are_described(requires_gpu: bool, gpu_params: Mapping[str, Any] | None) -> Found:
    if requires_gpu and gpu_params is None:
        yield Mistake("gpu_params", "missing, expected what the GPU must be able to do")


@_rules.over("job_attributes")
def _attributes_differ_by_more_than_case(job_attributes: Mapping[str, Any]) -> Found:
    names = Counter(name.lower() for name in job_attributes)
    for name in job_attributes:
        if names[name.lower()] > 1:
            yield Mistake(
                f"job_attributes.{name}", "expected names that differ by more than upper and lower case"
            )


@_rules.over("merged_lfn_base", "unmerged_lfn_base")
def _merged_files_have_their_own_folder(merged_lfn_base: str, unmerged_lfn_base: str) -> Found:
    merged, unmerged = f"{merged_lfn_base}/", f"{unmerged_lfn_base}/"
    if merged.startswith(unmerged) or unmerged.startswith(merged):
        yield Mistake(
            "unmerged_lfn_base",
            f"expected a folder apart from the merged files, found {found(unmerged_lfn_base)}",
        )


@_rules.over("production_steps")
def _production_steps_grow_and_matter_less(steps: list[Mapping[str, Any]]) -> Found:
    for k, step in enumerate(steps):
        at, earlier = f"production_steps[{k}]", steps[k - 1] if k else None
        if step["fraction"] >= 1:
            yield Mistake(f"{at}.fraction", f"expected a number below 1, found {found(step['fraction'])}")
        elif earlier and step["fraction"] <= earlier["fraction"]:
            problem = (
                f"expected more than the {earlier['fraction']} before it, found {found(step['fraction'])}"
            )
            yield Mistake(f"{at}.fraction", problem)
        if earlier and step["priority"] >= earlier["priority"]:
            problem = f"expected less than the {earlier['priority']} before it, found {step['priority']}"
            yield Mistake(f"{at}.priority", problem)


@_rules.over("production_steps", "priority")
def _production_steps_go_first(steps: list[Mapping[str, Any]], priority: int) -> Found:
    for k, step in enumerate(steps):
        if step["priority"] <= priority:
            problem = f"expected more than the request's own priority ({priority}), found {step['priority']}"
            yield Mistake(f"production_steps[{k}].priority", problem)


@_rules.over("failure_rules")
def _failure_rules_differ(rules: list[Mapping[str, Any]]) -> Found:
    yield from _repeated("failure_rules", [rule["name"] for rule in rules], ".name")
    for one, other in ties(rules):
        yield Mistake("failure_rules", f"expected one rule for each failure, {one} and {other} fit the same")


@_rules.over("failure_handlers")
def _failure_handlers_differ(handlers: list[Mapping[str, Any]]) -> Found:
    yield from _repeated("failure_handlers", [handler["name"] for handler in handlers], ".name")
    seen: set[tuple[str, int | None]] = set()
    for k, handler in enumerate(handlers):
        for number, rule in enumerate(handler["rules"]):
            codes = set(rule.get("exit_codes") or (None,))
            wanted = {(node, code) for node in handler.get("nodes", ("proc",)) for code in codes}
            if wanted & seen:
                problem = "expected one rule for each exit code, another one is for the same"
                yield Mistake(f"failure_handlers[{k}].rules[{number}]", problem)
            seen |= wanted


@_rules.over("notify")
def _everybody_is_told_once(addresses: list[str] | str | None) -> Found:
    yield from _repeated("notify", addresses if isinstance(addresses, list) else [])


@_rules.over("request_name", "previous_version_request")
def _a_request_replaces_another(request_name: str, previous_version_request: str | None) -> Found:
    if previous_version_request == request_name:
        yield Mistake("previous_version_request", "expected another request than this one")


def _repeated(name: str, entries: list[Any], suffix: str = "") -> Found:
    seen: set[Any] = set()
    for k, entry in enumerate(entries):
        if entry in seen:
            yield Mistake(f"{name}[{k}]{suffix}", f"expected each only once, found {found(entry)} again")
        seen.add(entry)
