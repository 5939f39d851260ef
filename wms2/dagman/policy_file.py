"""`policy.json` of a round: the default rules, and over them what the request and the host say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wms2.errors import UserError
from wms2.models.mistakes import listed
from wms2.models.plan import Limits, Snapshot
from wms2.models.policy import FailureHandler, FailureRule, HandlerRule, Policy
from wms2.models.request import Request

POLICY_FILE = "policy.json"


def default_policy() -> dict[str, Any]:
    """As it comes with WMS2."""
    policy: dict[str, Any] = json.loads(files("post_script").joinpath(POLICY_FILE).read_bytes())
    return policy


def policy_of(request: Request, limits: Limits | None = None) -> dict[str, Any]:
    """A rule of the request that has the name of a default one replaces it."""
    policy = with_rules(default_policy(), request.failure_rules)
    policy["request"] = request.request_name
    policy["handlers"] = [
        _handler(handler, rule) for handler in request.failure_handlers for rule in handler.rules
    ]
    policy["on_unclassified"] = request.on_unclassified.value
    if limits is not None:
        policy["cool_off_sec"], policy["recovery_dir"] = limits.cool_off_sec, limits.recovery_dir
    return policy


def with_rules(policy: dict[str, Any], rules: Iterable[FailureRule]) -> dict[str, Any]:
    """The same policy with rules of a request, in the place of those that have their names."""
    own = [
        {**rule.model_dump(mode="json", exclude_defaults=True, exclude_none=True), "of_request": True}
        for rule in rules
    ]
    replaced = {rule["name"] for rule in own}
    return {**policy, "rules": [rule for rule in policy["rules"] if rule["name"] not in replaced] + own}


def _handler(handler: FailureHandler, rule: HandlerRule) -> dict[str, Any]:
    codes = ",".join(map(str, sorted(rule.exit_codes))) or "all"
    return {
        **rule.model_dump(mode="json", exclude_none=True),
        "name": f"{handler.name}[{codes}]",
        "nodes": list(handler.nodes),
    }


def checked_policy(source: Path | str, policy: dict[str, Any]) -> Policy:
    """The policy, or a UserError that says what is wrong with it."""
    try:
        return Policy.model_validate_json(json.dumps(policy))
    except ValidationError as error:
        raise UserError(f"{source} is no sound policy:\n{listed(error)}") from None


def policy_text(snapshot: Snapshot) -> str:
    """What a round begins with."""
    return _text(policy_of(snapshot.request, snapshot.limits))


def add_rules(path: Path, rules: Iterable[FailureRule], attempts: int | None = None) -> None:
    """Add rules to the policy of a round; those of the same names are replaced, all others stay.

    `attempts` are those of each node that processes or merges.
    """
    policy = json.loads(path.read_bytes())
    added = with_rules(policy, rules)
    if attempts is not None:
        added["attempts"] = {**policy["attempts"], "proc": attempts, "merge": attempts}
    if added != policy:
        write_policy(path, added)


def write_policy(path: Path, policy: dict[str, Any]) -> None:
    """By rename: a script that runs meanwhile reads the old file or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(_text(policy), encoding="utf-8")
    partial.replace(path)


def _text(policy: dict[str, Any]) -> str:
    """With each rule on a line of its own, for people who look at it or change it while the round runs."""
    return (
        "{\n" + ",\n".join(f" {json.dumps(key)}: {_value(value)}" for key, value in policy.items()) + "\n}\n"
    )


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in value) + "\n ]"
    return json.dumps(value)
