"""What a failure means: the rule table of the round, `policy.json`, is data."""

from __future__ import annotations

from post_script.files import read_json
from post_script.names import POLICY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load_policy(path: str = POLICY) -> dict[str, Any]:
    """The round's policy. A round without one is broken: the caller's error handler answers."""
    policy = read_json(path)
    if policy is None:
        raise ValueError(f"{path} is missing or unreadable")
    return policy


def classify(policy: dict[str, Any], exit_code: int, removal_reason: str) -> dict[str, Any]:
    """The first rule that fits, removals before codes; a failure that no rule knows is unclassified."""
    for rule in policy["removals"]:
        if removal_reason.startswith(rule["reason"]):
            return _with_category(policy, rule)
    for rule in policy["codes"]:
        if _fits(rule, exit_code):
            return _with_category(policy, rule)
    return _with_category(policy, {"category": "unclassified"})


def _fits(rule: dict[str, Any], exit_code: int) -> bool:
    return exit_code in rule.get("exit_codes", ()) or any(
        first <= exit_code <= last for first, last in rule.get("ranges", ())
    )


def _with_category(policy: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    category: str = rule["category"]
    merged = dict(policy["categories"][category])
    merged.update(rule)
    return merged
