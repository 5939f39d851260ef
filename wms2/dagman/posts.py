"""Reading the POST scripts' records. Whatever is torn, missing or made to break something reads as nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wms2.core.plain import plain_line, plain_text
from wms2.models.base import Model
from wms2.patterns import LFN, LFN_LENGTH, SITE_LENGTH, SITE_NAME, WORD

LARGEST_RECORD = 8_000_000
"""Bytes. A record holds 200 lines of a log and a few names."""
LARGEST_CODE = 2**31 - 1
MOST_FILES = 1000
SUCCESS = "success"
STOPPED = "stopped"
"""The category of an attempt that somebody removed: no failure."""

NODE_NAME = re.compile(r"landing|merge|proc_\d+")
_NEWEST = re.compile(rf"(?P<node>{NODE_NAME.pattern})\.post\.json")
_ATTEMPT = re.compile(r"(?P<node>\w+)\.(?P<cluster>\d+)\.post\.json")


class PostRecord(Model):
    """What is known of an attempt; a field that makes no sense is left empty."""

    cluster: int | None = None
    final: bool = False
    succeeded: bool = False
    category: str = ""
    exit_code: int | None = None
    site: str | None = None
    rule: str = ""
    confidence: str = ""
    message: str = ""
    bad_input_files: tuple[str, ...] = ()
    log_tail: str = ""


def read_post(path: Path) -> PostRecord | None:
    """The record in a file, or None."""
    content = read_object(path)
    return None if content is None else _record(content)


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None when it is missing, torn, too large or no object."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(LARGEST_RECORD))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def part(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The object below a name, empty where there is none."""
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def site_name(value: object) -> str | None:
    sound = isinstance(value, str) and len(value) <= SITE_LENGTH and SITE_NAME.fullmatch(value)
    return str(value) if sound else None


def whole_number(value: object) -> int | None:
    # A bool is an int to Python, and no exit code.
    sound = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_CODE
    return value if sound and isinstance(value, int) else None


def word(value: object) -> str:
    """A category such as resource:memory; empty for anything that is none."""
    sound = isinstance(value, str) and len(value) <= 50 and WORD.fullmatch(value.replace(":", "_"))
    return str(value) if sound else ""


def attempt_clusters(folder: Path, node: str) -> list[int]:
    """The cluster ids of a node's finished attempts, oldest first."""
    return attempts_by_node(folder).get(node, [])


def attempts_by_node(folder: Path) -> dict[str, list[int]]:
    """The cluster ids of all finished attempts, by node, oldest first."""
    found: dict[str, list[int]] = {}
    for name in _names(folder):
        if match := _ATTEMPT.fullmatch(name):
            found.setdefault(match["node"], []).append(int(match["cluster"]))
    return {node: sorted(clusters) for node, clusters in found.items()}


def recorded_nodes(folder: Path) -> Iterator[str]:
    """Nodes with a newest record; the cleanup never fails a work unit, so it is not among them."""
    for name in sorted(_names(folder)):
        if match := _NEWEST.fullmatch(name):
            yield match["node"]


def newest_post(folder: Path, node: str) -> PostRecord | None:
    return read_post(folder / f"{node}.post.json")


def attempt_post(folder: Path, node: str, cluster: int) -> PostRecord | None:
    return read_post(folder / f"{node}.{cluster}.post.json")


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _record(content: dict[str, Any]) -> PostRecord:
    job, payload, verdict = (part(content, name) for name in ("job", "cmssw", "classification"))
    said = (
        verdict.get("reason"),
        payload.get("error_message"),
        job.get("removal_reason"),
        job.get("hold_reason"),
    )
    category = word(verdict.get("category"))
    return PostRecord(
        cluster=whole_number(content.get("cluster")),
        final=content.get("final") is True,
        succeeded=category == SUCCESS,
        category=category,
        exit_code=whole_number(job.get("exit_code")),
        site=site_name(job.get("site")),
        rule=plain_line(verdict.get("rule"), 200),
        confidence=plain_line(str(verdict.get("confidence") or ""), 20),
        message=next((line for line in map(plain_line, said) if line), "") + _caution(verdict),
        bad_input_files=_files(verdict.get("bad_input_files")),
        log_tail=plain_text(content.get("log_tail")),
    )  # fmt: skip


def _caution(verdict: dict[str, Any]) -> str:
    """What a person must know who takes the category for the last word."""
    untried = verdict.get("untried_rules")
    names = [plain_line(name, 50) for name in untried[:5]] if isinstance(untried, list) else []
    return f" (judged without the rules {', '.join(names)}: their patterns took too long)" if names else ""


def _files(value: object) -> tuple[str, ...]:
    names = value[:MOST_FILES] if isinstance(value, list) else []
    sound = (name for name in names if isinstance(name, str) and len(name) <= LFN_LENGTH)
    return tuple(sorted({name for name in sound if LFN.fullmatch(name)}))
