"""The rules of a request that was submitted."""

from __future__ import annotations

from typing import Any

from wms2.cli.by_hand import connect_database
from wms2.config import load_settings
from wms2.dagman.policy_file import policy_of
from wms2.db.session import transaction
from wms2.db.verdicts import judged_request


def judged_policy(request: str) -> dict[str, Any]:
    """Its own rules, and the verdicts on it."""
    with transaction(connect_database(load_settings())) as session:
        return policy_of(judged_request(session, request))
