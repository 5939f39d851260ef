"""POST of a node: was the attempt good, and if not, what shall DAGMan do?"""

from __future__ import annotations

import time

from post_script.attempt import LONGEST_MESSAGE, Attempt
from post_script.files import clean, publish, read_json, tail, write_json
from post_script.names import (
    DONE,
    GIVE_UP,
    NOT_YET,
    POLICY,
    RETRY,
    SITE_INCLUDE,
    SPARE_RETRIES,
    attempt_path,
    newest_path,
    role_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG_LINES = 200
MOST_ERRORS = 3 + SPARE_RETRIES
"""After so many retries a node is given up over errors of the script itself: the policy may be what cannot be read."""


def finish_attempt(
    node: str, returned: int, cluster: int, retry: int, most_retries: int, run: str = ""
) -> int:
    """Answer DAGMan for one finished attempt, and record why in `post.json`.

    `run` is the DAGMan that runs the group: attempts are counted anew when another one does. Idempotent per node and
    cluster: DAGMan runs it again after its own recovery, or because it was told "not yet", and gets the same answer.
    """
    known = read_json(attempt_path(node, cluster)) if cluster > 0 else None
    if known is not None and isinstance(known.get("answer"), int):
        publish(attempt_path(node, cluster), newest_path(node))
        return _not_yet(known) or int(known["answer"])
    attempt = Attempt(node, returned, cluster)
    failure = _failure(attempt)
    post = _post(attempt, run)
    if node == "cleanup":
        from post_script import merge

        merge.record_removals(attempt.report)
        if failure and retry < most_retries:
            return _clean_again(post, failure)
        # What it could not remove is on a list; a finished group never fails over it.
        failure = None
    if failure is None:
        post.update(_SUCCESS, produced=attempt.produced(), **_standing(node, cluster, run, most_retries))
        _record(post)
        return DONE
    return _fail(attempt, post, failure, retry, most_retries)


_SUCCESS: dict[str, Any] = {
    "answer": DONE,
    "final": True,
    "classification": {
        "category": "success",
        "retryable": False,
        "action": "done",
        "outcome": "success",
        "bad_input_files": [],
    },
    "log_tail": "",
}


def _failure(attempt: Attempt) -> str | None:
    """What is wrong with the attempt, or None. A success has its effect here, before it is recorded."""
    if attempt.exit_code != 0:
        return attempt.removal_reason or attempt.message or "failed"
    if attempt.node == "landing":
        from post_script import election

        if attempt.site not in election.landing_sites():
            return f"the landing job shows no allowed site but {attempt.site or 'none'}"
        election.elect(attempt.site)
        return None
    unusable = attempt.unusable_output()
    if unusable or attempt.node != "merge":
        return unusable
    from post_script import merge

    return merge.record_output(attempt)


def _clean_again(post: dict[str, Any], failure: str) -> int:
    """A cleanup that was lost is tried once more, whatever became of it: nothing else removes what was merged."""
    classification = dict(_SUCCESS["classification"], category="transient", retryable=True, action="retry")
    classification.update(outcome="error", reason=failure)
    post.update(answer=RETRY, final=False, classification=classification, log_tail="")
    _record(post)
    return RETRY


def _fail(attempt: Attempt, post: dict[str, Any], failure: str, retry: int, most_retries: int) -> int:
    from post_script.verdict import decide

    post["log_tail"] = _log_tail(attempt)
    verdict = decide(attempt, failure, post, retry, most_retries)
    post.update(verdict.record())
    _record(post)
    if verdict.script:
        # The retry is on record by now: whatever becomes of the script, it is not run again for this attempt.
        from post_script.recovery import run_script

        post["recovery"] = run_script(verdict.script, post)
        _record(post)
    return _not_yet(post) or verdict.answer


def _not_yet(post: dict[str, Any]) -> int:
    """NOT_YET as long as the attempt cools off. A deadline too far away comes from a clock that was set back."""
    wait = post.get("not_before")
    if post["answer"] != RETRY or not isinstance(wait, (int, float)):
        return 0
    return NOT_YET if 0 < wait - time.time() <= post.get("cool_off_sec", 0) else 0


def _standing(node: str, cluster: int, run: str, most_retries: int) -> dict[str, int]:
    """Which attempt it is in this run of the group, and how many retries of its own the node has."""
    from post_script.history import earlier_attempts

    attempts = (read_json(POLICY) or {}).get("attempts") or {}
    own = attempts.get(role_of(node), most_retries + 1) - 1
    return {"attempt": len(earlier_attempts(node, cluster, run)), "max_retries": own}


def record_error(
    node: str, returned: int, cluster: int, retry: int, most_retries: int, run: str, error: str
) -> int:
    """The script itself failed: say so where people look, and let the node be tried again. The answer to DAGMan."""
    last = retry >= min(most_retries, MOST_ERRORS)
    classification = {
        "category": "transient",
        "retryable": not last,
        "action": "retry",
        "outcome": "error",
        "elect_again": False,
        "begin_again": False,
        "reason": f"the POST script failed: {error}",
        "bad_input_files": [],
        "bad_pileup_files": [],
    }
    post = {
        "node_name": node,
        "cluster": cluster,
        "run": run,
        "timestamp": _now(),
        **_standing(node, cluster, run, most_retries),
        "final": last,
        "answer": GIVE_UP if last else RETRY,
        "job": {"exit_code": returned, "site": None},
        "cmssw": {},
        "classification": classification,
        "produced": None,
        "log_tail": "",
    }
    # Under the newest name only: should DAGMan ask again for this attempt, it is judged anew.
    write_json(newest_path(node), post)
    return GIVE_UP if last else RETRY


def _record(post: dict[str, Any]) -> None:
    path = attempt_path(post["node_name"], post["cluster"])
    write_json(path, post)
    publish(path, newest_path(post["node_name"]))


def _post(attempt: Attempt, run: str) -> dict[str, Any]:
    """What is known of the attempt, before anybody judges it."""
    return {
        "node_name": attempt.node,
        "cluster": attempt.cluster,
        "run": run,
        "timestamp": _now(),
        "elected_site": _elected_site(),
        "job": attempt.job(),
        "cmssw": attempt.payload(),
        "produced": None,
        "left": attempt.left(),
    }


def _elected_site() -> str:
    try:
        with open(SITE_INCLUDE, encoding="utf-8") as file:
            lines = [line.partition("=") for line in file]
    except OSError:
        return ""
    return next((value.strip() for name, _, value in lines if name.strip() == "elected_site"), "")


def _log_tail(attempt: Attempt) -> str:
    """The end of the job's stderr; of the payload's own log where that is empty."""
    text = tail(f"{attempt.node}.{attempt.cluster}.err", LOG_LINES) or "\n".join(attempt.names("log_tail"))
    return clean(text[-16 * LONGEST_MESSAGE :], 16 * LONGEST_MESSAGE)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
