"""Which files of a report belong to the work unit.

Reports come from outside, and what they name is merged or deleted: a file counts only where its dataset's folder is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNMERGED, MERGED = "unmerged_base", "merged_base"
LFN_LENGTH = 500
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


def _is_below(folder: str, lfn: Any) -> bool:
    if not isinstance(lfn, str) or len(lfn) > LFN_LENGTH or not lfn.startswith(f"{folder}/"):
        return False
    parts = lfn[len(folder) + 1 :].split("/")
    return all(part[:1] not in ("", ".", "-") and _OF_NAMES.issuperset(part) for part in parts)
