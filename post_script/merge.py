"""Around the merge: what it reads, what it made, and what is left to be removed."""

from __future__ import annotations

import json
import os
import re

from post_script.election import elected_site
from post_script.files import clean, read_json, write_json
from post_script.names import (
    DONE,
    LOST,
    MANIFEST,
    MERGE_INPUT,
    MERGE_OUTPUT,
    REMOVALS,
    RETRY,
    SKIP,
    is_site_name,
    newest_path,
)
from post_script.outputs import LFN_LENGTH, MERGED, UNMERGED, own_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from post_script.attempt import Attempt

_FILE_KEYS = ("dataset", "lfn", "size_bytes", "events", "adler32", "lumis", "parents")
_ATTEMPT_NAME = re.compile(r"(proc_\d+|merge)\.(\d+)\.(report|post)\.json")
_LONGEST_REASON, _LONGEST_NAME = 1000, 1000
_LARGEST_NUMBER = 2**63 - 1
LFN = re.compile(r"/store(?:/[A-Za-z0-9_+=][A-Za-z0-9_.+=-]*)+")


def collect() -> int:
    """PRE of the merge: list exactly the files of the accepted reports, never those of a folder.

    A unit that is produced is never merged again: its merged files may be registered by now.
    """
    manifest = read_json(MANIFEST)
    if manifest is None:
        return RETRY
    if is_produced(manifest):
        return SKIP
    posts = {node: read_json(newest_path(node)) or {} for node in manifest["nodes"]}
    accepted = {node: post for node, post in posts.items() if _is_accepted(post, manifest)}
    if len(accepted) < len(posts):
        # Their nodes are done for DAGMan, so nothing would ever make these records again: the group begins anew.
        write_json(LOST, {"nodes": sorted(set(posts) - set(accepted))})
        return RETRY
    files = [
        dict(output, node=node) for node, post in accepted.items() for output in post["produced"]["outputs"]
    ]
    leftovers, merged = _not_accepted(manifest, {node: post["cluster"] for node, post in accepted.items()})
    here = elected_site()
    write_json(
        MERGE_INPUT,
        {
            "version": 1,
            "files": files,
            "leftovers": [output["lfn"] for output in leftovers if output["site"] == here],
            "elsewhere": [output for output in leftovers if output["site"] != here] + merged,
        },
    )
    return DONE


def _is_accepted(post: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Whether a record is that of a success whose outputs are all the unit's own."""
    produced = post.get("produced")
    outputs = produced.get("outputs") if isinstance(produced, dict) else None
    return (
        post.get("answer") == DONE
        and isinstance(outputs, list)
        and len(own_files(outputs, manifest, UNMERGED)) == len(outputs)
    )


def _not_accepted(
    manifest: dict[str, Any], accepted: dict[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What attempts that were not accepted staged out, or could not take back: unmerged files, and merged ones.

    Of those that left no report, what there may be. No job removes merged files: that needs a look at the records.
    """
    found: dict[str, list[dict[str, Any]]] = {UNMERGED: [], MERGED: []}
    for name in sorted(os.listdir(".")):
        match = _ATTEMPT_NAME.fullmatch(name)
        if match and accepted.get(match.group(1)) != int(match.group(2)):
            base = MERGED if match.group(1) == "merge" else UNMERGED
            found[base] += _on_storage(read_json(name) or {}, manifest, base)
    return found[UNMERGED], found[MERGED]


def _on_storage(record: dict[str, Any], manifest: dict[str, Any], base: str) -> list[dict[str, Any]]:
    """The files that an attempt made and where they are, as far as what is written of it can be understood."""
    files = [file for key in ("outputs", "left") for file in own_files(record.get(key), manifest, base)]
    placed = [{"lfn": file["lfn"], "site": file.get("site") or record.get("site")} for file in files]
    return [file for file in placed if is_site_name(file["site"])]


def is_produced(manifest: dict[str, Any]) -> bool:
    """Whether the work unit has its output, whatever became of its DAG afterwards.

    A file that is there but cannot be read is an error, never a reason to make the output again.
    """
    try:
        with open(MERGE_OUTPUT, encoding="utf-8") as file:
            output = json.load(file)
    except FileNotFoundError:
        return False
    return all(output.get(key) == manifest[key] for key in ("version", "request", "round", "work_unit"))


def record_output(attempt: Attempt) -> str | None:
    """Write `merge_output.json`, by which the work unit counts as produced; or say why it cannot be."""
    manifest, merged, report = read_json(MANIFEST), read_json(MERGE_INPUT), attempt.report
    if manifest is None or merged is None or report is None:
        return "manifest, merge input or report is missing"
    posts = {node: read_json(newest_path(node)) for node in manifest["nodes"]}
    accepted = {node: post for node, post in posts.items() if post is not None}
    if len(accepted) < len(posts):
        return "the record of an accepted attempt is gone"
    problem = _malformed(report, manifest) or _disagreement(merged["files"], report)
    if problem:
        return problem
    write_json(MERGE_OUTPUT, _output(manifest, accepted, report))
    return None


def _malformed(report: dict[str, Any], manifest: dict[str, Any]) -> str | None:
    """A merged file lies where the manifest says and has its size, events, checksum, lumis and parents.

    Exactly what the reader of `merge_output.json` demands: what is written here must be credited there.
    """
    bases = {output["dataset"]: output["merged_base"] for output in manifest["outputs"]}
    if not is_site_name(report["site"]):
        return f"the merge reports {report['site']!r} as its site"
    for file in report["outputs"]:
        base = bases.get(file["dataset"])
        sound = (
            base is not None
            and re.fullmatch(re.escape(base) + r"/[A-Za-z0-9_][A-Za-z0-9_.-]*\.root", file["lfn"])
            and re.fullmatch(r"[0-9a-f]{8}", file["adler32"])
            and len(file["lfn"]) <= LFN_LENGTH
            and _is_count(file["size_bytes"], 1)
            and _is_count(file["events"])
            and all(isinstance(file[key], list) for key in ("lumis", "parents"))
            and all(_is_lumi(lumi) for lumi in file["lumis"])
            and all(len(lfn) <= LFN_LENGTH and LFN.fullmatch(lfn) for lfn in file["parents"])
        )
        if not sound:
            return f"the merge reports a file that is none: {str(file['lfn'])[:200]!r}"
    return None


def _is_lumi(lumi: dict[str, Any]) -> bool:
    return (
        all(_is_count(lumi[key], 1, 2**32 - 1) for key in ("run", "lumi"))
        and (lumi.get("events") is None or _is_count(lumi["events"]))
        and set(lumi) <= {"run", "lumi", "events"}
    )


def _is_count(value: Any, least: int = 0, most: int = _LARGEST_NUMBER) -> bool:
    return type(value) is int and least <= value <= most


def _disagreement(inputs: list[dict[str, Any]], report: dict[str, Any]) -> str | None:
    """Every accepted file merged, and as many events out as in, for each dataset."""
    merged = [lfn for output in report["outputs"] for lfn in output["merged_from"]]
    if sorted(merged) != sorted(file["lfn"] for file in inputs):
        return "the merge did not read exactly the accepted files"
    for dataset in sorted({file["dataset"] for file in inputs}):
        events_in = sum(file["events"] for file in inputs if file["dataset"] == dataset)
        events_out = sum(file["events"] for file in report["outputs"] if file["dataset"] == dataset)
        if events_in != events_out:
            return f"{dataset}: {events_in} events went into the merge and {events_out} came out"
    return None


def _output(
    manifest: dict[str, Any], accepted: dict[str, dict[str, Any]], report: dict[str, Any]
) -> dict[str, Any]:
    pilot = bool(manifest.get("pilot"))
    return {
        "version": 1,
        "request": manifest["request"],
        "round": manifest["round"],
        "work_unit": manifest["work_unit"],
        "site": report["site"],
        "cluster": report["cluster"],
        "files": [{key: file[key] for key in _FILE_KEYS} for file in report["outputs"]],
        "nodes": {
            node: _node_summary(manifest["nodes"][node], post, pilot) for node, post in accepted.items()
        },
        "metrics": _metrics([post["produced"] for post in accepted.values()]),
    }


def _node_summary(plan: dict[str, Any], post: dict[str, Any], pilot: bool) -> dict[str, Any]:
    """What a job says of itself counts as far as it can be true: only a pilot may end early, and within its range."""
    measured = (post["produced"]["pilot"] or {}) if pilot else {}
    read = _counts(post["produced"]["inputs"] or [], "events_read")
    last = measured.get("last_event")
    ended = plan["first_event"] is not None and _is_count(last, plan["first_event"], plan["last_event"])
    return {
        "cluster": post["cluster"],
        "events": plan["events"],
        "events_read": min(sum(read), _LARGEST_NUMBER) if plan["files"] else None,
        "first_event": plan["first_event"],
        "last_event": last if ended else plan["last_event"],
        "files": [file["lfn"] for file in plan["files"]],
        "files_read": _files_read(plan, post["produced"]) if plan["files"] else None,
        "pilot": measured or None,
    }


def _files_read(plan: dict[str, Any], produced: dict[str, Any]) -> dict[str, int] | None:
    """How many events were read of each planned file; None where the job does not tell of all that it read.

    So it is when its first step has other names for the files: what was read can be told for none of them.
    """
    named: dict[str, Any] = {
        str(entry.get("lfn")): entry.get("events_read") for entry in produced["inputs"] or []
    }
    read: dict[str, Any] = {file["lfn"]: named.get(file["lfn"]) for file in plan["files"]}
    if not all(_is_count(events) for events in read.values()):
        return None
    in_all = sum(_numbers((produced["steps"] or [])[:1], "events_read"))
    return read if sum(read.values()) == in_all else None


def _metrics(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """For each step: how many jobs, and least, mean and most of what was measured."""
    steps: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        for step in report["steps"] or []:
            steps.setdefault(clean(str(step.get("name")), _LONGEST_NAME), []).append(step)
    return {name: {"jobs": len(found), **_spread(found)} for name, found in steps.items()}


def _spread(steps: list[dict[str, Any]]) -> dict[str, Any]:
    spread = {}
    for key in ("wall_sec", "cpu_sec", "peak_rss_mb", "events_read", "events_written", "output_bytes"):
        values = _numbers(steps, key)
        spread[key] = {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}
    return spread


def _numbers(entries: list[dict[str, Any]], key: str) -> list[int | float]:
    """What no number is counts as 0: a measurement that a job got wrong is no reason to lose its output."""
    values = (entry.get(key) for entry in entries)
    return [value if isinstance(value, (int, float)) else 0 for value in values]


def _counts(entries: list[dict[str, Any]], key: str) -> list[int]:
    return [entry[key] for entry in entries if _is_count(entry.get(key))]


def record_removals(report: dict[str, Any] | None) -> None:
    """`removals.json`: what the cleanup left, here or at a site the group was at before."""
    merged = read_json(MERGE_INPUT) or {"files": [], "leftovers": [], "elsewhere": []}
    here = elected_site()
    if report is None:
        names = [file["lfn"] for file in merged["files"]] + merged["leftovers"]
        left = [{"lfn": lfn, "reason": "the cleanup did not report"} for lfn in names]
    else:
        left = own_files(report.get("left"), read_json(MANIFEST) or {}, UNMERGED)
    removals = [
        {"lfn": entry["lfn"], "site": here, "reason": clean(entry.get("reason"), _LONGEST_REASON)}
        for entry in left
    ]
    removals += [dict(entry, reason="of an attempt that was not accepted") for entry in merged["elsewhere"]]
    write_json(REMOVALS, {"version": 1, "files": removals})
