"""What admission knows, asked of its workflow."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from wms2.core.admission import AdmissionState
from wms2.temporal.ids import ADMISSION


async def admission_state(client: Client, patience: timedelta) -> AdmissionState | None:
    """None where it does not run: one that was terminated would still answer, with what it knew in the end."""
    try:
        state: AdmissionState = await client.get_workflow_handle(ADMISSION).query(
            "state",
            result_type=AdmissionState,
            reject_condition=QueryRejectCondition.NOT_OPEN,
            rpc_timeout=patience,
        )
    except WorkflowQueryRejectedError:
        return None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return state
