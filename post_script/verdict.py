"""What follows from a failure: the policy's rule, then the request's own handlers."""

from __future__ import annotations

import time

from post_script.attempt import LONGEST_MESSAGE
from post_script.files import append_line, clean
from post_script.history import classification, earlier_attempts
from post_script.names import ABORT, GIVE_UP, MEMORY_INCLUDE, RETRY, SPARE_RETRIES, role_of
from post_script.policy import UNCLASSIFIED, Failure, classify, fitting_rules, load_policy, with_category

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from post_script.attempt import Attempt

_ACTIONS = {RETRY: "retry", GIVE_UP: "permanent_failure", ABORT: "abort"}
_OF_A_MESSAGE, _OF_THE_LOG = 900, 4000


def decide(attempt: Attempt, reason: str, post: dict[str, Any], retry: int, most_retries: int) -> Verdict:
    """Judge a failed attempt. What the judgement changes, such as the memory, is changed here."""
    policy = load_policy()
    verdict = Verdict(attempt, policy, reason, post, retry, most_retries)
    if verdict.answer == RETRY and verdict.rule.get("raise_memory"):
        post["raised_memory_mb"] = _raise_memory(attempt, policy)
    return verdict


class Verdict:
    """The answer to DAGMan, and all that the record says of why."""

    def __init__(
        self,
        attempt: Attempt,
        policy: dict[str, Any],
        reason: str,
        post: dict[str, Any],
        retry: int,
        most_retries: int,
    ) -> None:
        self.attempt = attempt
        self.policy = policy
        self.reason = reason
        self.script: dict[str, Any] | None = None
        self.handler: dict[str, Any] | None = None
        self._post = post
        self._role = role_of(attempt.node)
        self._last = retry >= min(most_retries, self._most_retries())
        self._all = earlier_attempts(attempt.node, attempt.cluster)
        self._of_run = [earlier for earlier in self._all if earlier.get("run", "") == post["run"]]
        self._bad_files = attempt.bad_input_files()
        self._failure = _seen_by_rules(attempt, reason, post["log_tail"])
        self.rule = self._rule()
        self.answer, self.outcome = self._answer()

    def _rule(self) -> dict[str, Any]:
        if self.attempt.stopped:
            return dict(
                with_category(self.policy, {"name": "stopped", "category": "stopped"}), confidence="high"
            )
        if self.attempt.exit_code == 0:
            unusable = {"name": "unusable-result", "category": "transient"}
            return dict(with_category(self.policy, unusable), confidence="high")
        rule = classify(self.policy, self._failure)
        sites = rule.get("data_after_sites")
        if sites and len(self._sites_of_the_same(rule)) >= sites:
            return dict(rule, **self.policy["categories"]["data"], category="data")
        return rule

    def _sites_of_the_same(self, rule: dict[str, Any]) -> set[str]:
        """Where this node failed by this rule, this time included; over the same files where files are named."""
        files = set(self._bad_files)
        found = {self.attempt.site} if self.attempt.site else set()
        for post in self._all:
            earlier, site = classification(post), (post.get("job") or {}).get("site")
            named = set(earlier.get("bad_input_files") or ())
            if earlier.get("rule") == rule["name"] and site and not (files and named and not files & named):
                found.add(site)
        return found

    def _answer(self) -> tuple[int, str]:
        rule = self.rule
        if rule.get("abort"):
            return ABORT, self._no_handler()
        if self.attempt.stopped:
            return RETRY, "retried"
        if rule.get("begin_again"):
            return (GIVE_UP, "attempts exhausted") if self._last else (RETRY, "retried")
        if not rule.get("by_hand"):
            self.handler = self._matching_handler()
        if self.handler:
            return self._handled(self.handler)
        if rule["category"] == UNCLASSIFIED and self.policy.get("on_unclassified") == "wait":
            return GIVE_UP, "pending"
        if not rule["retry"]:
            return GIVE_UP, self._no_handler()
        if self._last or self._used_up():
            return GIVE_UP, "attempts exhausted"
        return RETRY, "retried"

    def _no_handler(self) -> str:
        return "no matching rule" if self.policy.get("handlers") else "no handler"

    def _matching_handler(self) -> dict[str, Any] | None:
        return next(iter(fitting_rules(self.policy.get("handlers") or [], self._failure)), None)

    def _handled(self, handler: dict[str, Any]) -> tuple[int, str]:
        """The request's own word on whether to retry; its category still says how."""
        used = sum(classification(post).get("handler") == handler["name"] for post in self._of_run)
        if used >= handler["max_retries"] or self._last:
            return GIVE_UP, "attempts exhausted"
        if handler.get("recovery_script"):
            self.script = {
                "folder": self.policy.get("recovery_dir") or "",
                "name": handler["recovery_script"],
                "time_limit_sec": handler["time_limit_sec"],
                "environment": self._environment(),
            }
        return RETRY, "retried"

    def _used_up(self) -> bool:
        rule = self.rule
        if rule.get("attempts_at_site") and 1 + self._earlier_here() >= rule["attempts_at_site"]:
            # Retries inside a group stay at its site. What the site caused ends the group, so that it elects another.
            return True
        if rule.get("attempts"):
            by_rule = sum(classification(post).get("rule") == rule["name"] for post in self._of_run)
            return bool(1 + by_rule >= rule["attempts"])
        if not rule.get("uses_attempt", True):
            return False
        own = sum(classification(post).get("uses_attempt", True) for post in self._of_run)
        return bool(1 + own >= self._attempts())

    def _earlier_here(self) -> int:
        """Attempts of this node that failed in the same way at the site where the group is now."""
        here = self._post["elected_site"]
        return sum(
            post.get("elected_site") == here and classification(post).get("category") == self.rule["category"]
            for post in self._of_run
        )

    def _attempts(self) -> int:
        return int(self.policy["attempts"][self._role])

    def _most_retries(self) -> int:
        """What the node, and a rule or a handler beside it, may use up; failures that use up nothing end here too."""
        wanted = [rule.get("attempts") or 0 for rule in self.policy["rules"]]
        wanted += [handler["max_retries"] for handler in self.policy.get("handlers") or ()]
        return self._attempts() - 1 + max(wanted, default=0) + SPARE_RETRIES

    def _cool_off_sec(self) -> float:
        """How long to wait before the next attempt: twice as long after each one."""
        rule, policy = self.rule, self.policy
        if self.answer != RETRY or self._last:
            return 0
        base = rule.get("cool_off_sec", policy["cool_off_sec"] if rule.get("cool_off") else 0)
        return float(min(base * 2 ** min(len(self._of_run), 20), policy["longest_cool_off_sec"]))

    def _environment(self) -> dict[str, str]:
        attempt, policy = self.attempt, self.policy
        return {
            "WMS2_REQUEST": str(policy.get("request") or ""),
            "WMS2_NODE": attempt.node,
            "WMS2_ATTEMPT": str(len(self._of_run)),
            "WMS2_CLUSTER": str(attempt.cluster),
            "WMS2_EXIT_CODE": str(attempt.exit_code),
            "WMS2_SITE": attempt.site,
            "WMS2_CATEGORY": self.rule["category"],
            "WMS2_RULE": self.rule["name"],
            "WMS2_HANDLER": self.handler["name"] if self.handler else "",
            "WMS2_MESSAGE": clean(self.reason, LONGEST_MESSAGE),
        }

    def record(self) -> dict[str, Any]:
        """The fields of post.json that the judgement gives."""
        wait = self._cool_off_sec()
        final = self.answer != RETRY or bool(self.rule.get("begin_again"))
        cool_off = {"cool_off_sec": wait, "not_before": time.time() + wait} if wait else {}
        return {
            "attempt": len(self._of_run),
            "max_retries": self._attempts() - 1,
            "final": final,
            "answer": self.answer,
            "classification": self._classification(),
            **({"recovery": {"script": self.script["name"], "outcome": "started"}} if self.script else {}),
            **cool_off,
        }

    def _classification(self) -> dict[str, Any]:
        rule, attempt = self.rule, self.attempt
        return {
            "category": rule["category"],
            "rule": rule["name"],
            "confidence": rule["confidence"],
            "retryable": self.answer == RETRY,
            "action": _ACTIONS[self.answer],
            "outcome": self.outcome,
            "handler": self.handler["name"] if self.handler else None,
            "uses_attempt": bool(rule.get("uses_attempt", True)),
            "elect_again": self.answer == GIVE_UP
            and bool(rule.get("elect_again"))
            and attempt.node != "landing",
            "begin_again": bool(rule.get("begin_again")),
            "passive_rules": rule.get("passive") or [],
            "untried_rules": rule.get("untried") or [],
            "reason": clean(self.reason, LONGEST_MESSAGE),
            "bad_input_files": self._bad_files,
            "bad_pileup_files": attempt.names("bad_pileup_files"),
        }


def _seen_by_rules(attempt: Attempt, reason: str, log_tail: str) -> Failure:
    said = (attempt.message, attempt.removal_reason, attempt.hold_reason, reason)
    texts = [text[:_OF_A_MESSAGE] for text in said] + [log_tail[-_OF_THE_LOG:]]
    message = "\n".join(dict.fromkeys(text for text in texts if text))
    role = role_of(attempt.node)
    return Failure(attempt.exit_code, message, attempt.removal_reason, attempt.site, attempt.lone, role)


def _raise_memory(attempt: Attempt, policy: dict[str, Any]) -> int | None:
    """More for the next attempt, as much as a job of so many cores may have, and never less than it had.

    None where nobody knows what it had: then it stays so.
    """
    ad, log = attempt.log["ad"], attempt.log
    had = _whole(ad.get("RequestMemory"), log.get("requested_memory_mb")) or _asked_for(attempt.node)
    if had is None:
        return None
    cores = _whole(ad.get("RequestCpus"), log.get("requested_cpus")) or _usual(attempt.node, "cpus") or 1
    cap = policy.get("memory_cap_mb") or policy["memory_cap_mb_per_core"] * cores
    raised: int = max(had, min(int(had * policy["memory_factor"]), cap))
    append_line(MEMORY_INCLUDE, f"{attempt.node}_memory = {raised}")
    return raised


def _whole(*candidates: Any) -> int | None:
    """The first whole number: a pool may give an expression, or nothing."""
    return next((number for number in candidates if type(number) is int and number > 0), None)


def _asked_for(node: str) -> int | None:
    """The memory that the node's job asks for: its last line in memory.inc, else what all of its kind have."""
    raised = _last_value(MEMORY_INCLUDE, f"{node}_memory")
    return int(raised) if raised.isdigit() else _usual(node, "memory")


def _usual(node: str, resource: str) -> int | None:
    """What the submit file asks for: request_cpus = 8, request_memory = $($(node)_memory:2048)."""
    digits = _last_value(f"../{role_of(node)}.sub", f"request_{resource}").rpartition(":")[2].rstrip(")")
    return int(digits) if digits.isdigit() else None


def _last_value(path: str, name: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.partition("=") for line in file]
    except OSError:
        return ""
    return next((value.strip() for key, _, value in reversed(lines) if key.strip() == name), "")
