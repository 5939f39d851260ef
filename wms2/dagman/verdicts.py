"""What the rules that people made of their verdicts say of failures that no rule knew when they happened."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from post_script.names import role_of
from post_script.policy import LONGEST_TEXT, Failure, fitting_rules, with_category
from wms2.dagman.policy_file import POLICY_FILE
from wms2.dagman.posts import read_object
from wms2.models.failure import FailedNode
from wms2.models.policy import Category, OnUnclassified, Policy


class Judge:
    """The policy of a round as it is now, which may be another one than when its nodes failed."""

    def __init__(self, folder: Path) -> None:
        self._policy = _sound_policy(folder / POLICY_FILE)
        self._rules = [
            rule
            for rule in self._policy.get("rules", ())
            if rule.get("of_request") and not rule.get("passive")
        ]

    def judged(self, node: FailedNode) -> tuple[FailedNode, bool]:
        """The node as it is judged now, and whether a verdict calls for another attempt of it."""
        if node.category != Category.UNCLASSIFIED:
            return node, False
        rule = self._rule(node)
        if rule is None:
            return node, False
        known = node.model_copy(update={"category": rule["category"], "rule": rule["name"]})
        return known, bool(with_category(self._policy, rule)["retry"]) and not rule.get("abort")

    def waits(self, nodes: Sequence[FailedNode]) -> bool:
        """Whether one of them is to be tried again only when a person has judged it."""
        patient = self._policy.get("on_unclassified") == OnUnclassified.WAIT
        return patient and any(node.category == Category.UNCLASSIFIED for node in nodes)

    def _rule(self, node: FailedNode) -> dict[str, Any] | None:
        text = f"{node.message}\n{node.log_tail}"[-LONGEST_TEXT:]
        # Of a failure that no rule knew, low confidence says that no more than eight bits of its code are known.
        lone = node.confidence == "low"
        failure = Failure(node.exit_code or 0, text, _SPOKEN_OF, node.site or "", lone, role_of(node.node))
        found = [_without_pattern(rule) for rule in self._rules if _speaks_of(rule, text)]
        return next(iter(fitting_rules(found, failure)), None)


_SPOKEN_OF = "spoken of"


def _sound_policy(path: Path) -> dict[str, Any]:
    """Empty for one that is gone, or that somebody broke: then no verdict is known."""
    policy = read_object(path) or {}
    try:
        Policy.model_validate_json(json.dumps(policy))
    except ValidationError:
        return {}
    return policy


def _speaks_of(rule: dict[str, Any], text: str) -> bool:
    return not rule.get("message") or re.search(rule["message"], text) is not None


def _without_pattern(rule: dict[str, Any]) -> dict[str, Any]:
    """The scripts' own search for patterns needs the main thread. A reason ranks as a pattern would have."""
    return {**rule, "message": "", "reason": _SPOKEN_OF} if rule.get("message") else rule
