"""The nodes of a round, as the status files of its groups and the POST scripts' records tell of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wms2.dagman.dag_files import GROUP_DAG
from wms2.dagman.round_folder import RoundFile
from wms2.dagman.status import read_status
from wms2.models.base import Model

_ATTEMPT = re.compile(r"(?P<node>\w+)\.(?P<cluster>\d+)\.post\.json")


class NodeRow(Model):
    """A node of a work unit: where it stands, and how its newest attempt went."""

    unit: str
    node: str
    status: str
    attempts: int
    site: str | None = None
    exit_code: int | None = None
    category: str | None = None
    cluster: int | None = None


def read_nodes(folder: Path, planned: RoundFile) -> Iterator[NodeRow]:
    """Every node of every unit that has begun; a unit without a status file has not."""
    for unit in planned.work_units:
        status = read_status(folder / unit.name / f"{GROUP_DAG}.status")
        for name, state in (status.nodes if status else {}).items():
            clusters = attempt_clusters(folder / unit.name, name)
            post = _post(folder / unit.name / f"{name}.post.json")
            yield NodeRow(
                unit=unit.name,
                node=name,
                status=state.status.name,
                attempts=len(clusters),
                site=post.get("job", {}).get("site"),
                exit_code=post.get("job", {}).get("exit_code"),
                category=post.get("classification", {}).get("category"),
                cluster=post.get("cluster"),
            )


def attempt_clusters(folder: Path, node: str) -> list[int]:
    """The cluster ids of a node's finished attempts, oldest first."""
    matches = (_ATTEMPT.fullmatch(path.name) for path in folder.glob(f"{node}.*.post.json"))
    return sorted(int(match["cluster"]) for match in matches if match and match["node"] == node)


def _post(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
