"""Which files of a report belong to the work unit, and which there may be of a job that left none.

Reports come from outside, and what they name is merged or deleted: a file counts only where its dataset's folder is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNMERGED, MERGED = "unmerged_base", "merged_base"
LFN_LENGTH = 500
MOST_ITERATIONS = 40
"""Of a pilot: each has twice the events of the one before."""
_OF_NAMES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+=-")


def own_files(entries: Any, manifest: dict[str, Any], base: str) -> list[dict[str, Any]]:
    """The entries of a report whose file lies below that base of its dataset; all others are left out.

    What a job left on the storage has no dataset in its report: it may be of any.
    """
    outputs = manifest.get("outputs") or ()
    folders = {output["dataset"]: output[base] for output in outputs}
    found = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            dataset = entry.get("dataset")
            allowed = folders.values() if dataset is None else [folders.get(str(dataset))]
            if any(folder and _is_below(folder, entry.get("lfn")) for folder in allowed):
                found.append(entry)
    return found


def possible_files(manifest: dict[str, Any], merged: dict[str, Any], node: str, cluster: int) -> list[str]:
    """What a job that left no word may have put on the storage: names are made of what is known before it runs.

    More than there can be, rather than less: to remove what is not there does no harm.
    """
    outputs = manifest.get("outputs") or ()
    if node == "merge":
        return _possible_merged_files(manifest, merged, cluster)
    parts = [f"_{number}" for number in range(1, MOST_ITERATIONS + 1)] if manifest.get("pilot") else [""]
    return [
        f"{output[UNMERGED]}/{output['file_prefix']}_{node}_{cluster}_{output['module']}{part}.root"
        for output in outputs
        for part in parts
    ]


def _possible_merged_files(manifest: dict[str, Any], merged: dict[str, Any], cluster: int) -> list[str]:
    """They are numbered through all datasets, of which each has one at least, and at most one for each of its files."""
    found, least, most = [], 0, 0
    for output in manifest.get("outputs") or ():
        files = sum(file.get("dataset") == output["dataset"] for file in merged.get("files") or ())
        most += files
        start = f"{output[MERGED]}/{output['file_prefix']}_{manifest['name']}_{cluster}"
        found += [f"{start}_{number}.root" for number in range(least, most) if files]
        least += files > 0
    return found


def _is_below(folder: str, lfn: Any) -> bool:
    if not isinstance(lfn, str) or len(lfn) > LFN_LENGTH or not lfn.startswith(f"{folder}/"):
        return False
    parts = lfn[len(folder) + 1 :].split("/")
    return all(part[:1] not in ("", ".", "-") and _OF_NAMES.issuperset(part) for part in parts)
