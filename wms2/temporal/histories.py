"""Histories of workflows: those that are open, those that are closed, and files of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from google.protobuf.json_format import ParseError
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecution, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from wms2.core.plain import plain_line
from wms2.errors import UserError

LASTING = ("RequestWorkflow", "OutputDatasetWorkflow", "UndoWorkflow", "AdmissionWorkflow")
"""The types whose histories tell something; the others run by schedule, every few minutes."""
OPEN = "ExecutionStatus = 'Running'"


class Exported(BaseModel):
    """What an export came to."""

    written: int = 0
    already_there: int = 0
    gone: int = 0
    """Temporal kept them no longer when they were asked for."""


async def open_histories(client: Client) -> AsyncIterator[WorkflowHistory]:
    """Of all workflows that have not ended, as far as they have come; one that waits to begin has none."""
    async for found in client.list_workflows(OPEN):
        history = await _history(client, found)
        if history and _has_begun(history):
            yield history


async def export_closed(
    client: Client, folder: Path, since: datetime | None, *, scheduled: bool
) -> AsyncIterator[Exported]:
    """Write the history of each run that ended since then, and tell after each how far it is.

    What is in the folder already stays as it is: an export that was cut off goes on, one that is done does nothing.
    """
    done = Exported()
    async for found in client.list_workflows(_closed(since, scheduled=scheduled)):
        path = folder / history_file(found)
        if path.exists():
            done.already_there += 1
        elif history := await _history(client, found):
            _write(path, history)
            done.written += 1
        else:
            done.gone += 1
        yield done


def history_file(found: WorkflowExecution) -> Path:
    """By the day on which it ended; names of workflows may hold what names of files may not."""
    ended = found.close_time or found.start_time
    return Path(f"{ended.astimezone(UTC):%Y-%m-%d}") / f"{quote(found.id, safe='')}.{found.run_id}.json"


async def history_files(paths: Iterable[Path]) -> AsyncIterator[WorkflowHistory]:
    """What these files hold; of a folder, all that is below it."""
    for path in paths:
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        for file in files:
            yield _read(file)


def _closed(since: datetime | None, *, scheduled: bool) -> str:
    parts = ["ExecutionStatus != 'Running'"]
    if since is not None:
        parts.append(f"CloseTime >= '{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}'")
    if not scheduled:
        parts.append("WorkflowType IN ({})".format(", ".join(f"'{name}'" for name in LASTING)))
    return " AND ".join(parts)


async def _history(client: Client, found: WorkflowExecution) -> WorkflowHistory | None:
    """None when Temporal has forgotten it since it was listed."""
    try:
        return await client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


def _read(path: Path) -> WorkflowHistory:
    try:
        history = WorkflowHistory.from_json(str(path), path.read_text(encoding="utf-8"))
        _check_whole(history)
        return history
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ParseError) as error:
        raise UserError(f"{path} holds no history of a workflow: {plain_line(str(error))}") from None


def _check_whole(history: WorkflowHistory) -> None:
    """From its start on, without a gap. The SDK gives no answer at all to anything else, and would be waited for."""
    events = history.events
    if not events or not events[0].workflow_execution_started_event_attributes.workflow_type.name:
        raise ValueError("it does not begin with the start of a workflow")
    if [event.event_id for event in events] != list(range(1, len(events) + 1)):
        raise ValueError("its events are not all there, or in another order")
    if not _has_begun(history):
        raise ValueError("nothing was done yet")


def _has_begun(history: WorkflowHistory) -> bool:
    return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED for event in history.events)


def _write(path: Path, history: WorkflowHistory) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(history.to_json() + "\n", encoding="utf-8")
    new.replace(path)
