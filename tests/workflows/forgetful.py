"""Admission where there is no database: nothing is remembered of it, and nothing is kept for it."""

from collections.abc import Callable
from typing import Any

from temporalio.client import Client

from wms2.activities.admission import AdmissionActivities
from wms2.core.admission import AdmissionState
from wms2.db.admission import remembered_admission


async def nothing_remembered() -> AdmissionState:
    return AdmissionState()


class ForgetfulAdmission(AdmissionActivities):
    def __init__(self, client: Client) -> None:
        self._client = client

    async def record(self, function: Callable[..., Any], *_args: Any, **_kwargs: Any) -> Any:
        return AdmissionState() if function is remembered_admission else None
