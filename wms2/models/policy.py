"""What failures mean: the rules of the POST script, as a request may bring them and as a round's policy holds them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from wms2.models.base import Count, Flag, Model, PositiveCount, PositiveNumber
from wms2.patterns import SiteName

VERSION = 2
MOST_ATTEMPTS = 20
MOST_STEPS = 2000
"""How many ways a pattern may have to fit at one place of a message. Messages are long, and some are made to hurt."""


class Category(StrEnum):
    """What kind of failure it was."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    DATA = "data"
    INFRASTRUCTURE = "infrastructure"
    MEMORY = "resource:memory"
    TIME = "resource:time"
    DISK = "resource:disk"
    UNCLASSIFIED = "unclassified"


class OnUnclassified(StrEnum):
    """What follows a failure that no rule knows."""

    RETRY = "retry"
    WAIT = "wait"


def _in_order(codes: tuple[int, int]) -> tuple[int, int]:
    if codes[0] > codes[1]:
        raise ValueError("expected the first code not to be above the last")
    return codes


def _quick(pattern: str) -> str:
    """A pattern that takes a bounded time for any message."""
    try:
        parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    if _ways(parsed) > MOST_STEPS:
        raise ValueError(
            "expected a pattern that takes little time for any message: write .{0,100} instead of .*, "
            "and no repetition inside a repetition"
        )
    return pattern


def _ways(parsed: Iterable[tuple[Any, Any]]) -> int:
    """In how many ways a pattern can fit at one place, at most; more than allowed means too many."""
    ways = 1
    for operation, argument in parsed:
        ways = min(ways * _ways_of(str(operation), argument), MOST_STEPS + 1)
    return ways


def _ways_of(operation: str, argument: Any) -> int:
    match operation:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, repeated = argument
            each = _ways(repeated)
            return MOST_STEPS + 1 if each > 1 and most > 1 else max(int(most) - int(least), 0) + each
        case "BRANCH":
            return sum(_ways(branch) for branch in argument[1])
        case "SUBPATTERN":
            return _ways(argument[-1])
        case "ATOMIC_GROUP":
            return _ways(argument)
        case "ASSERT" | "ASSERT_NOT":
            return _ways(argument[1])
        case "GROUPREF" | "GROUPREF_EXISTS":
            return MOST_STEPS + 1
    return 1


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
ExitCode = Annotated[int, Field(strict=True, ge=-(10**6), le=10**6)]
ExitCodes = tuple[ExitCode, ...]
CodeRange = Annotated[tuple[ExitCode, ExitCode], AfterValidator(_in_order)]
LowByte = Annotated[int, Field(strict=True, ge=1, le=255)]
Pattern = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(_quick)]
Attempts = Annotated[int, Field(strict=True, ge=1, le=MOST_ATTEMPTS)]
Role = Literal["landing", "proc", "merge"]


class FailureRule(Model):
    """When it fits, and what then follows. The most specific rule holds, wherever it stands."""

    name: Name = Field(description="a name of its own; that of a default rule replaces it")
    category: Category = Field(description="the kind of failure")
    exit_codes: ExitCodes = Field((), max_length=1000, description="it fits these exit codes")
    ranges: tuple[CodeRange, ...] = Field((), max_length=100, description="and those in these ranges")
    low_bytes: tuple[LowByte, ...] = Field((), description="and these where only eight bits are known")
    message: Pattern | None = Field(None, description="a regular expression that the message must hold")
    sites: tuple[SiteName, ...] = Field((), description="only at these sites")
    nodes: tuple[Role, ...] = Field((), description="only of these nodes: landing, proc or merge")
    retry: Flag | None = Field(
        None, description="whether another attempt may help, if not as the category says"
    )
    attempts: Attempts | None = Field(None, description="so many attempts may fail by this rule")
    cool_off_sec: Count | None = Field(None, description="the wait before the first retry in seconds")
    abort: Flag = Field(False, description="whether the error concerns all nodes: stop the whole DAG")
    passive: Flag = Field(False, description="only noted in the record, not applied")


class PolicyRule(FailureRule):
    """A rule of a policy, with what only the defaults need."""

    reason: str = ""
    of_request: Flag = False
    attempts_at_site: PositiveCount | None = None
    elect_again: Flag | None = None
    uses_attempt: Flag | None = None
    raise_memory: Flag | None = None
    cool_off: Flag | None = None
    begin_again: Flag = False
    by_hand: Flag = False
    data_after_sites: PositiveCount | None = None


class HandlerRule(Model):
    """What a handler does about some exit codes."""

    exit_codes: ExitCodes = Field((), max_length=1000, description="the exit codes it is for")
    match_all_exit_codes: Flag = Field(False, description="for all that no other rule of a handler names")
    recovery_script: Name | None = Field(None, description="an installed script to run before the retry")
    max_retries: Annotated[int, Field(strict=True, ge=0, le=MOST_ATTEMPTS)] = Field(
        3, description="how often a node is tried again by this rule"
    )
    time_limit_sec: Annotated[int, Field(strict=True, ge=1, le=3600)] = Field(
        300, description="how long the script may take"
    )

    @model_validator(mode="after")
    def _for_some_or_for_all(self) -> Self:
        if bool(self.exit_codes) is self.match_all_exit_codes:
            raise ValueError("expected either exit codes or match_all_exit_codes")
        return self


class FailureHandler(Model):
    """Named rules on what to do about failures of some nodes."""

    name: Name = Field(description="a name of its own")
    nodes: tuple[Role, ...] = Field(("proc",), min_length=1, description="landing, proc or merge")
    rules: tuple[HandlerRule, ...] = Field(min_length=1, max_length=100, description="what to do when")


class PolicyHandler(HandlerRule):
    """A handler's rule as a policy holds it: by itself, under a name of its own."""

    name: str
    nodes: tuple[Role, ...]


class CategoryFields(Model):
    """What follows from a kind of failure."""

    retry: Flag
    cool_off: Flag = False
    raise_memory: Flag = False
    elect_again: Flag = False
    uses_attempt: Flag = True
    attempts_at_site: PositiveCount | None = None


class Policy(Model):
    """A whole `policy.json`."""

    version: Literal[2]
    request: str = ""
    attempts: dict[Literal["landing", "proc", "merge", "cleanup"], PositiveCount]
    cool_off_sec: Count
    longest_cool_off_sec: Count
    memory_factor: PositiveNumber
    memory_cap_mb_per_core: PositiveCount
    memory_cap_mb: PositiveCount | None = None
    on_unclassified: OnUnclassified = OnUnclassified.RETRY
    recovery_dir: str = ""
    ambiguous: tuple[LowByte, ...]
    categories: dict[Category | Literal["stopped"], CategoryFields]
    rules: tuple[PolicyRule, ...]
    handlers: tuple[PolicyHandler, ...] = ()

    @model_validator(mode="after")
    def _complete_and_certain(self) -> Self:
        missing = sorted({*map(str, Category), "stopped"} - {str(name) for name in self.categories})
        if missing:
            raise ValueError(f"categories: missing {', '.join(missing)}")
        rules = [rule.model_dump() for rule in self.rules]
        problems = [f"two rules are named {name}" for name in repeated(rule.name for rule in self.rules)]
        problems += [f"rules {one} and {other} fit the same failures" for one, other in ties(rules)]
        if problems:
            raise ValueError("; ".join(problems))
        return self


def repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]


def ties(rules: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Pairs of rules of which none is more specific, and which fit the same failure.

    Of two different patterns nobody knows whether a message holds both; then the names decide.
    """
    for one, other in combinations((rule for rule in rules if not rule.get("passive")), 2):
        alike = all(
            bool(one.get(key)) == bool(other.get(key))
            for key in ("reason", "message", "sites", "nodes", "of_request")
        )
        if alike and _codes_meet(one, other) and _conditions_meet(one, other):
            yield one["name"], other["name"]


def _codes_meet(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    exact, low = (set(one.get(key) or ()) & set(other.get(key) or ()) for key in ("exit_codes", "low_bytes"))
    ranges = any(
        last - first == end - begin and first <= end and begin <= last
        for first, last in one.get("ranges") or ()
        for begin, end in other.get("ranges") or ()
    )
    return bool(exact or low or ranges) or not any(
        rule.get(key) for rule in (one, other) for key in ("exit_codes", "ranges", "low_bytes")
    )


def _conditions_meet(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    reasons = (one.get("reason") or "", other.get("reason") or "")
    return (
        (reasons[0].startswith(reasons[1]) or reasons[1].startswith(reasons[0]))
        and one.get("message") == other.get("message")
        and all(not one.get(key) or bool(set(one[key]) & set(other[key])) for key in ("sites", "nodes"))
    )
