"""What DAGMan calls: `post VERB ...`. An error in here is recorded and retried; it is never a success."""

from __future__ import annotations

import sys
import traceback

from post_script import group, merge, node
from post_script.files import append_line
from post_script.names import RETRY

ERRORS = "post_errors.log"


def main() -> int:
    verb, *words = sys.argv[1:]
    try:
        return _VERBS[verb](words)
    except Exception:
        append_line(ERRORS, f"{' '.join(sys.argv[1:])}\n{traceback.format_exc()}")
        return RETRY


def _node(words: list[str]) -> int:
    name, returned, job_id, retry, most = words
    return node.finish_attempt(name, int(returned), _cluster(job_id), int(retry), int(most))


def _cluster(job_id: str) -> int:
    """The cluster of "12.0"; 0 for a job that was never submitted."""
    cluster = job_id.partition(".")[0]
    return int(cluster) if cluster.isdigit() else 0


def _judge(words: list[str]) -> int:
    return group.judge(words[0], int(words[1]))


def _prepare(words: list[str]) -> int:
    return group.prepare(words[0])


def _collect(_words: list[str]) -> int:
    return merge.collect()


_VERBS = {
    "node": _node,
    "judge": _judge,
    "prepare": _prepare,
    "collect": _collect,
}

if __name__ == "__main__":
    sys.exit(main())
