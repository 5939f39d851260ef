"""PRE and POST of a work unit's node in the outer DAG."""

from __future__ import annotations

import os
import re

from post_script import election, merge
from post_script.files import append_line, read_json, write_json
from post_script.names import (
    ABORT,
    DONE,
    GIVE_UP,
    LOST,
    MANIFEST,
    MEMORY_INCLUDE,
    REMOVALS,
    RETRY,
    ROUND_INCLUDE,
    SKIP,
    VERDICT,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_LAST_ELECTION = re.compile(
    r"group\.dag\.rescue\d+|(?:landing|merge|cleanup|proc_\d+)\.post\.json|merge_input\.json|verdict\.json|lost\.json"
)


def prepare(name: str) -> int:
    """PRE: make the folder ready, and let the group elect a site where it has none or its site was bad.

    A unit that is produced does not run again, whether or not DAGMan remembers it.
    """
    manifest = read_json(MANIFEST)
    if manifest is None or manifest["name"] != name:
        return _refuse(f"{MANIFEST} is missing or not that of {name}")
    if merge.is_produced(manifest):
        return _finish_produced()
    if not os.path.exists(MEMORY_INCLUDE):
        append_line(MEMORY_INCLUDE, "# node_memory = MB, the last line of a node holds")
    verdict = read_json(VERDICT) or {}
    bad = _bad_sites(verdict)
    if election.elected_site() and not bad and not verdict.get("begin_anew"):
        return DONE
    # Also when nothing was elected yet: which sites are allowed may have changed since the last try.
    landing = election.open_election(manifest["sites"], bad)
    _set_aside()
    if not landing:
        return _refuse(f"no site left: none of {', '.join(manifest['sites'])} is allowed")
    return DONE


def _finish_produced() -> int:
    """Let DAGMan run the cleanup where its rescue file says that nothing else is left; else it is over."""
    if "DONE merge" in _newest_rescue():
        return DONE
    if not os.path.exists(REMOVALS):
        merge.record_removals(None)
    return SKIP


def _newest_rescue() -> list[str]:
    """The lines of the rescue file that DAGMan would read."""
    names = [name for name in os.listdir(".") if re.fullmatch(r"group\.dag\.rescue\d+", name)]
    if not names:
        return []
    with open(max(names), encoding="utf-8") as file:
        return file.read().splitlines()


def _bad_sites(verdict: dict[str, Any]) -> list[str]:
    """Sites that the last run blamed, and the elected one when the round no longer allows it."""
    bad: list[str] = list(verdict.get("bad_sites", []))
    elected = election.elected_site()
    allowed = election.site_list(election.read_include(ROUND_INCLUDE).get("allowed_sites", ""))
    if elected and elected not in allowed and elected not in bad:
        bad.append(elected)
    return bad


def _set_aside() -> None:
    """A rescue file keeps `DONE landing` and with it the old site, so it moves away with all of that election."""
    past = [name for name in os.listdir(".") if name.startswith("election_")]
    folder = f"election_{len(past)}"
    names = [name for name in sorted(os.listdir(".")) if _OF_LAST_ELECTION.fullmatch(name)]
    if names:
        os.makedirs(folder, exist_ok=True)
    for name in names:
        try:
            os.rename(name, os.path.join(folder, name))
        except FileNotFoundError:
            # DAGMan can run this script twice, when it restarts; the other one was first.
            continue


def _refuse(reason: str) -> int:
    write_json(VERDICT, {"verdict": "give up", "reason": reason, "bad_sites": []})
    return GIVE_UP


def judge(name: str, returned: int) -> int:
    """POST: the group's verdict. Produced is what has a valid `merge_output.json`, whatever came after it."""
    manifest = read_json(MANIFEST)
    if manifest is not None and merge.is_produced(manifest):
        return _record(name, returned, DONE, "produced", [])
    lost = read_json(LOST)
    if lost is not None:
        reason = f"begin anew: the record of {', '.join(lost['nodes'])} is gone"
        return _record(name, returned, RETRY, reason, [], begin_anew=True)
    failures = _final_failures()
    verdicts = [failure["classification"] for failure in failures]
    if any(verdict["action"] == "abort" for verdict in verdicts):
        return _record(name, returned, ABORT, "abort the whole DAG", failures)
    if not failures:
        return _record(name, returned, RETRY, "no node explains the failure", failures)
    if all(verdict["elect_again"] or verdict["begin_again"] for verdict in verdicts):
        return _record(name, returned, RETRY, "try again, at another site where the site was bad", failures)
    return _record(name, returned, GIVE_UP, "give up", failures)


def _final_failures() -> list[dict[str, Any]]:
    posts = []
    for entry in sorted(os.listdir(".")):
        if re.fullmatch(r"(?:landing|merge|proc_\d+)\.post\.json", entry):
            post = read_json(entry)
            if post and post["final"] and post["answer"] != DONE:
                posts.append(post)
    return posts


def _record(
    name: str,
    returned: int,
    answer: int,
    verdict: str,
    failures: list[dict[str, Any]],
    begin_anew: bool = False,
) -> int:
    blamed = [failure for failure in failures if failure["classification"].get("elect_again")]
    elected = election.elected_site()
    write_json(
        VERDICT,
        {
            "name": name,
            "returned": returned,
            "answer": answer,
            "verdict": verdict,
            "begin_anew": begin_anew,
            "bad_sites": [elected] if blamed and elected else [],
            "nodes": [
                {
                    "node": failure["node_name"],
                    "exit_code": failure["job"]["exit_code"],
                    "site": failure["job"]["site"],
                    "category": failure["classification"]["category"],
                    "reason": failure["classification"]["reason"],
                }
                for failure in failures
            ],
        },
    )
    return answer
