"""The earlier attempts of a node, from their records. DAGMan's own count does not survive a rescue."""

from __future__ import annotations

import os

from post_script.files import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def earlier_attempts(node: str, cluster: int, run: str | None = None) -> list[dict[str, Any]]:
    """Their records, of one run of the group or of all."""
    found = []
    for name in os.listdir("."):
        parts = name.split(".")
        if len(parts) == 4 and parts[0] == node and parts[1].isdigit() and parts[2:] == ["post", "json"]:
            if int(parts[1]) in (cluster, 0):
                continue
            post = read_json(name)
            if post is not None and run in (None, post.get("run", "")):
                found.append(post)
    return found


def classification(post: dict[str, Any]) -> dict[str, Any]:
    found = post.get("classification")
    return found if isinstance(found, dict) else {}
