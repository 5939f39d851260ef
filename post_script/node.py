"""POST of a node: was the attempt good, and if not, what shall DAGMan do?"""

from __future__ import annotations

import os
import time

from post_script import election, merge
from post_script.attempt import Attempt
from post_script.files import append_line, read_json, tail, write_json
from post_script.names import (
    ABORT,
    DONE,
    GIVE_UP,
    MEMORY_INCLUDE,
    RETRY,
    attempt_path,
    newest_path,
)
from post_script.policy import classify, load_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG_LINES = 200
NOT_SUBMITTED = -1001


def finish_attempt(node: str, returned: int, cluster: int, retry: int, most_retries: int) -> int:
    """Answer DAGMan for one finished attempt, and record why in `post.json`.

    Idempotent per node and cluster: DAGMan runs it again after its own recovery and gets the same answer.
    """
    known = read_json(attempt_path(node, cluster))
    if known is not None and cluster > 0:
        write_json(newest_path(node), known)
        return int(known["answer"])
    attempt = Attempt(node, returned, cluster)
    failure = _failure(attempt)
    if node == "cleanup":
        # What it could not remove is on a list; a finished group never fails over it.
        merge.record_removals(attempt.report)
        failure = None
    classification, answer = _classification(attempt, failure)
    final = answer != RETRY or retry >= most_retries or returned == NOT_SUBMITTED
    post = _post(attempt, classification, answer, final, retry, most_retries)
    write_json(attempt_path(node, cluster), post)
    write_json(newest_path(node), post)
    return answer


def _failure(attempt: Attempt) -> str | None:
    """What is wrong with the attempt, or None. A success has its effect here, before it is recorded."""
    if attempt.exit_code != 0:
        return attempt.removal_reason or (attempt.report or {}).get("exit_message") or "failed"
    if attempt.node == "landing":
        if attempt.site not in election.landing_sites():
            return f"the landing job shows no allowed site but {attempt.site or 'none'}"
        election.elect(attempt.site)
    elif attempt.node == "merge":
        return merge.record_output(attempt)
    return None


def _classification(attempt: Attempt, failure: str | None) -> tuple[dict[str, Any], int]:
    if failure is None:
        return {"category": "success", "retryable": False, "action": "done"}, DONE
    policy = load_policy()
    if attempt.returned == NOT_SUBMITTED:
        # DAGMan does not try such a node again by itself; the group does.
        rule = dict(policy["categories"]["transient"], category="transient", begin_again=True)
        failure = "the job could not be submitted"
    elif attempt.stopped:
        rule = dict(policy["categories"]["stopped"], category="stopped")
    elif attempt.exit_code == 0:
        rule = dict(policy["categories"]["transient"], category="transient")
    else:
        rule = classify(policy, attempt.exit_code, attempt.removal_reason)
    answer = _answer(rule, attempt)
    if answer == RETRY and rule.get("raise_memory"):
        _raise_memory(attempt, policy)
    verdict = {
        "category": rule["category"],
        "retryable": answer == RETRY,
        "action": {RETRY: "retry", GIVE_UP: "permanent_failure", ABORT: "abort"}[answer],
        "elect_again": answer == GIVE_UP and bool(rule.get("elect_again")) and attempt.node != "landing",
        "begin_again": bool(rule.get("begin_again")),
        "reason": failure,
        "bad_input_files": []
        if attempt.node == "merge"
        else (attempt.report or {}).get("bad_input_files", []),
    }
    return verdict, answer


def _answer(rule: dict[str, Any], attempt: Attempt) -> int:
    if rule.get("abort"):
        return ABORT
    if not rule["retry"]:
        return GIVE_UP
    # Retries inside a group stay at its site. What the site caused ends the group, so that it elects another.
    most = rule.get("attempts_at_site")
    if most is not None and 1 + _earlier_failures_here(attempt, rule["category"]) >= most:
        return GIVE_UP
    return RETRY


def _earlier_failures_here(attempt: Attempt, category: str) -> int:
    """Attempts of this node that failed in the same way at the site where the group is now."""
    count = 0
    for name in os.listdir("."):
        if name.startswith(f"{attempt.node}.") and name.endswith(".post.json") and name.count(".") == 3:
            post = read_json(name) or {}
            here = post.get("elected_site") == election.elected_site()
            count += here and post.get("classification", {}).get("category") == category
    return count


def _raise_memory(attempt: Attempt, policy: dict[str, Any]) -> None:
    had = attempt.log["ad"].get("RequestMemory")
    if isinstance(had, int):
        raised = min(int(had * policy["memory_factor"]), policy["memory_cap_mb"])
        append_line(MEMORY_INCLUDE, f"{attempt.node}_memory = {max(had, raised)}")


def _post(
    attempt: Attempt, classification: dict[str, Any], answer: int, final: bool, retry: int, most_retries: int
) -> dict[str, Any]:
    failed = classification["category"] != "success"
    return {
        "node_name": attempt.node,
        "cluster": attempt.cluster,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "attempt": retry,
        "max_retries": most_retries,
        "final": final,
        "answer": answer,
        "elected_site": election.elected_site(),
        "job": attempt.job(),
        "cmssw": attempt.payload(),
        "classification": classification,
        "produced": None if failed else attempt.produced(),
        "log_tail": tail(f"{attempt.node}.{attempt.cluster}.err", LOG_LINES) if failed else "",
    }
