"""Undo: what was told of outputs is taken back, however long that takes."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError

with workflow.unsafe.imports_passed_through():
    from wms2.models.messages import Alert
    from wms2.models.undo import Undone, UndoOrder, UndoState
    from wms2.temporal.retries import OUTPUT, RECORD
    from wms2.workflows.output_dataset import BACK_OFF


@workflow.defn
class UndoWorkflow:
    """Tries until it is done, later and later. When nothing helps, people hear of it again and again."""

    def __init__(self) -> None:
        self._state = UndoState()

    @workflow.query
    def state(self) -> UndoState:
        return self._state

    @workflow.run
    async def run(self, order: UndoOrder) -> Undone:
        failures = 0
        while True:
            try:
                undone: Undone = await workflow.execute_activity(
                    "undo_outputs",
                    order,
                    result_type=Undone,
                    summary=f"take back the outputs of {order.request}",
                    **OUTPUT,
                )
                return undone
            except ActivityError as error:
                cause = error.cause
                problem = cause.message if isinstance(cause, FailureError) else str(error)
            failures += 1
            pause = BACK_OFF[min(failures, len(BACK_OFF)) - 1]
            again_at = workflow.now() + pause
            self._state = UndoState(failures=failures, problem=problem, again_at=again_at)
            workflow.set_current_details(f"**Problem**, tried {failures} times: {problem}")
            if failures >= len(BACK_OFF):
                await self._alert(order, problem)
            await workflow.sleep(pause)

    async def _alert(self, order: UndoOrder, problem: str) -> None:
        alert = Alert(
            request=order.request, kind="undo", message=f"its outputs are not taken back: {problem}"
        )
        await workflow.execute_activity("raise_alert", alert, summary=alert.message[:200], **RECORD)
