"""Task queues: one for workflows, two for outside services, and some per submit host: for its files, for plans that
services have a part in, for its followers."""

from __future__ import annotations

from wms2.patterns import HOST_NAME

WORKFLOWS = "wms2"
"""Workflows, and activities that need only our own servers: the database and Temporal."""
SERVICES = "wms2-services"
"""Activities that call Rucio, DBS, ReqMgr2 or CRIC. One that is silent keeps their slots, and no others."""
TRANSFERS = "wms2-transfers"
"""Looks at transfers, which take hours: however many there are, they keep no slot from what protects files."""


def host_queue(host: str) -> str:
    """Activities that need a submit host's files and schedd: planning, submission, removal."""
    return f"wms2-host-{_checked(host)}"


def planning_queue(host: str) -> str:
    """Planning from what DBS and Rucio say: while they are silent, all else that a submit host does goes on."""
    return f"wms2-plan-{_checked(host)}"


def watch_queue(host: str) -> str:
    """Followers of a submit host's DAGs: each holds a slot for hours, so they have a queue of their own."""
    return f"wms2-watch-{_checked(host)}"


def _checked(host: str) -> str:
    if not HOST_NAME.fullmatch(host):
        raise ValueError(f"{host!r} is no host name")
    return host
