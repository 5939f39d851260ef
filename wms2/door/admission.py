"""Admission as people see it: who waits, who has a slot, and how many there are."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wms2.core.admission import AdmissionState
from wms2.door.asking import refusal, update_workflow
from wms2.errors import Contradiction, Silent
from wms2.models.messages import AdmissionOrder
from wms2.temporal import admission
from wms2.temporal.ids import ADMISSION

ANSWER_TIMEOUT = timedelta(seconds=5)


NOT_YET = "admission does not run; a worker starts it within five minutes: `wms2 worker run`"


async def admission_state(client: Client) -> AdmissionState | None:
    """What admission knows now; None where it does not run."""
    try:
        return await admission.admission_state(client, ANSWER_TIMEOUT)
    except RPCError as error:
        if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
            raise Silent(
                "no worker answers for admission; is one running? start it with `wms2 worker run`"
            ) from None
        raise refusal(error, "a question about admission") from error


async def change_admission(client: Client, order: AdmissionOrder) -> AdmissionState:
    """What admission knows once it has done what a person asks; it records who did."""
    try:
        return await update_workflow(client, ADMISSION, "admission", "change", order, AdmissionState)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise Contradiction(NOT_YET) from None
        raise refusal(error, "a change of admission") from error
