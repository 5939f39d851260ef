"""What DAGMan calls: `post VERB ...`. An error in here is recorded and retried; it is never a success."""

from __future__ import annotations

import sys

from post_script.names import RETRY

ERRORS = "post_errors.log"


def main() -> int:
    try:
        verb, *words = sys.argv[1:]
        return _VERBS[verb](words)
    except Exception as error:
        return _tell(error)


def _tell(error: Exception) -> int:
    """The answer after an error. On the way out nothing may go wrong any more, a full disk included."""
    import traceback

    from post_script.files import append_line

    try:
        append_line(ERRORS, f"{' '.join(sys.argv[1:])}\n{traceback.format_exc()}")
        if sys.argv[1:2] == ["node"]:
            return _record_error(sys.argv[2:], f"{type(error).__name__}: {error}")
    except Exception:
        traceback.print_exc()
    return RETRY


def _node(words: list[str]) -> int:
    from post_script import node

    name, returned, job_id, retry, most, *run = words
    return node.finish_attempt(name, int(returned), _cluster(job_id), int(retry), int(most), "".join(run[:1]))


def _record_error(words: list[str], error: str) -> int:
    from post_script import node

    name, returned, job_id, retry, most, *run = words
    cluster = _cluster(job_id)
    return node.record_error(name, int(returned), cluster, int(retry), int(most), "".join(run[:1]), error)


def _cluster(job_id: str) -> int:
    """The cluster of "12.0"; 0 for a job that was never submitted."""
    cluster = job_id.partition(".")[0]
    return int(cluster) if cluster.isdigit() else 0


def _judge(words: list[str]) -> int:
    from post_script import group

    return group.judge(words[0], int(words[1]))


def _prepare(words: list[str]) -> int:
    from post_script import group

    return group.prepare(words[0])


def _collect(_words: list[str]) -> int:
    from post_script import merge

    return merge.collect()


_VERBS = {
    "node": _node,
    "judge": _judge,
    "prepare": _prepare,
    "collect": _collect,
}

if __name__ == "__main__":
    sys.exit(main())
