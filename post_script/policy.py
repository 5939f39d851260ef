"""What a failure means: the rule table of the round, `policy.json`, is data.

Which rule holds never depends on the order of the table: the most specific one does, see `Rank`.
"""

from __future__ import annotations

from post_script.files import read_json
from post_script.names import POLICY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple

    Rank = Tuple[int, int, bool, bool, bool, bool, bool, str]
    """How the exit code fits, a narrow range before a wide one, then whether the rule asks for a reason, a message, a
    site, a kind of node, and whether the request brought it. The name decides the rest, so that something does."""

VERSION = 2
EXACT, RANGE, LOW_BYTE, ANY = 3, 2, 1, 0
LONGEST_TEXT = 8000
MATCH_SEC = 2.0
"""How much CPU time all patterns of a table may take together, whatever was written into one of them."""
UNCLASSIFIED = "unclassified"


class Failure:
    """What rules look at."""

    def __init__(
        self,
        code: int,
        message: str = "",
        reason: str = "",
        site: str = "",
        lone: bool = False,
        role: str = "proc",
    ) -> None:
        self.code = code
        self.message = message
        self.reason = reason
        self.site = site
        self.lone = lone
        """Whether the code is no more than the low byte of what might be a longer one."""
        self.role = role
        self.untried: list[str] = []
        """The rules whose patterns nobody looked for, because the time for all of them was over."""


def load_policy(path: str = POLICY) -> dict[str, Any]:
    """The round's policy. A round without one is broken: the caller's error handler answers."""
    policy = read_json(path)
    if policy is None or policy.get("version") != VERSION:
        raise ValueError(f"{path} is missing, unreadable or of another version than {VERSION}")
    return policy


def fitting_rules(rules: list[dict[str, Any]], failure: Failure) -> list[dict[str, Any]]:
    """All rules that fit, the one that holds first."""
    ranked: list[tuple[Rank, dict[str, Any]]] = []
    patterns: list[tuple[Rank, dict[str, Any]]] = []
    for rule in rules:
        rank = _rank(rule, failure)
        if rank is None:
            continue
        (patterns if rule.get("message") else ranked).append((rank, rule))
    if patterns:
        spoken_of, failure.untried = _spoken_of(patterns, failure.message)
        ranked += [(rank, rule) for rank, rule in patterns if rule["name"] in spoken_of]
    return [rule for _, rule in sorted(ranked, key=_by_rank, reverse=True)]


def _by_rank(ranked: tuple[Rank, dict[str, Any]]) -> Rank:
    return ranked[0]


def _rank(rule: dict[str, Any], failure: Failure) -> Rank | None:
    """How specific a rule is for a failure; None when it does not fit. Its message is looked at later."""
    fit = _code_fit(rule, failure)
    reason, sites, nodes = rule.get("reason", ""), rule.get("sites"), rule.get("nodes")
    if fit is None or not failure.reason.startswith(reason) or (sites and failure.site not in sites):
        return None
    if nodes and failure.role not in nodes:
        return None
    asked = bool(reason), bool(rule.get("message")), bool(sites), bool(nodes)
    kind, width = fit
    return (kind, -width, *asked, bool(rule.get("of_request")), rule["name"])


def _code_fit(rule: dict[str, Any], failure: Failure) -> tuple[int, int] | None:
    code = failure.code
    codes, ranges, low_bytes = rule.get("exit_codes"), rule.get("ranges"), rule.get("low_bytes")
    if codes and code in codes:
        return EXACT, 1
    widths = [last - first for first, last in ranges or () if first <= code <= last]
    if widths:
        return RANGE, min(widths)
    if failure.lone and low_bytes and code in low_bytes:
        return LOW_BYTE, 1
    return None if codes or ranges or low_bytes else (ANY, 0)


def _spoken_of(patterns: list[tuple[Rank, dict[str, Any]]], message: str) -> tuple[set[str], list[str]]:
    """The names of the rules whose pattern is found in the message, and of those that were not tried to their end.

    `wms2 policy check` refuses patterns that could take long; the time limit is for those that nobody checked.
    """
    import re
    import signal

    def give_up(_signal: int, _frame: object) -> None:
        raise TimeoutError

    found: set[str] = set()
    left = [rule for _, rule in sorted(patterns, key=_by_rank, reverse=True)]
    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_SEC)
    try:
        while left:
            if _is_found(re, left[0]["message"], message[:LONGEST_TEXT]):
                found.add(left[0]["name"])
            left.pop(0)
    except TimeoutError:
        # What was not looked at in time does not fit: the failure is judged as if these rules were not there.
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return found, [rule["name"] for rule in left]


def _is_found(re: Any, pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False


def classify(policy: dict[str, Any], failure: Failure) -> dict[str, Any]:
    """The rule that holds, with all that its category says; a failure that no rule knows is unclassified.

    "passive" has the names of the rules that would have held, were they in force, "untried" those of rules whose
    patterns took too long; "confidence" is low for eight bits that could be the end of several codes, and where a rule
    was not tried.
    """
    passive = []
    held: dict[str, Any] = {"name": UNCLASSIFIED, "category": UNCLASSIFIED}
    for rule in fitting_rules(policy["rules"], failure):
        if not rule.get("passive"):
            held = rule
            break
        passive.append(rule["name"])
    fit = _code_fit(held, failure) or (ANY, 0)
    unsure = failure.lone and (fit[0] <= LOW_BYTE or failure.code in policy["ambiguous"])
    confidence = "low" if unsure or failure.untried else "high"
    return dict(with_category(policy, held), passive=passive, untried=failure.untried, confidence=confidence)


def with_category(policy: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    """A rule with what its category says. One that counts its own attempts does so wherever they were."""
    merged = dict(policy["categories"][rule["category"]])
    if rule.get("attempts"):
        merged.pop("attempts_at_site", None)
    merged.update((field, value) for field, value in rule.items() if value is not None)
    return merged
