"""`wms2 request size`: an operator's word on what the jobs of the rounds to come need."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.markup import escape
from temporalio.client import WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_actions import Name, Reason, recorded_request, send, who_asks
from wms2.cli.screen import print_table, say
from wms2.config import Settings, load_settings
from wms2.core.sizing import events_per_job, sizing_of
from wms2.door import asking
from wms2.errors import Silent
from wms2.models.actions import Action
from wms2.models.messages import SizeAction
from wms2.models.request import Request, RequestRecord
from wms2.models.request_state import RequestState
from wms2.models.sizing import KnownSizing, SizingOverride
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id

app = typer.Typer()

Memory = Annotated[int | None, typer.Option("--memory-mb", metavar="N", help="Memory of a job.")]
Cores = Annotated[int | None, typer.Option("--cores", metavar="N", help="Cores of a job.")]
Time = Annotated[
    float | None, typer.Option("--time-per-event", metavar="SEC", help="Wall seconds an event takes a job.")
]
Size = Annotated[
    float | None,
    typer.Option("--size-per-event", metavar="KB", help="Output of an event, all outputs together."),
]
Disk = Annotated[int | None, typer.Option("--disk-mb", metavar="N", help="Disk of a job.")]
Events = Annotated[int | None, typer.Option("--events-per-job", metavar="N", help="Events of a job.")]
Clear = Annotated[bool, typer.Option("--clear", help="Forget all that was decided before.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show what the next round would be planned with.")
]


@app.command()
def size(
    name: Name,
    memory_mb: Memory = None,
    cores: Cores = None,
    time_per_event: Time = None,
    size_per_event: Size = None,
    disk_mb: Disk = None,
    events_per_job: Events = None,
    clear: Clear = False,
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """Decide what jobs need, from the next round on, over the pilot and all measurements.

    Only what is given is decided, and it holds until it is cleared. The round that runs stays as it is.

    Examples: [bold]wms2 request size NAME --memory-mb 4000 --reason "killed at 2400"[/]
    [bold]wms2 request size NAME --cores 8 --dry-run[/]   [bold]wms2 request size NAME --clear[/]
    """
    change = SizingOverride(
        memory_mb=memory_mb,
        cores=cores,
        time_per_event_sec=time_per_event,
        size_per_event_kb=size_per_event,
        disk_mb=disk_mb,
        events_per_job=events_per_job,
    )
    order = SizeAction(change=change, clear=clear, reason=reason, **who_asks())
    settings = load_settings()
    record = recorded_request(settings, name)
    waited(open_door(settings).check(record, order))
    if dry_run:
        state = asyncio.run(_state(settings, record))
        after = KnownSizing(measured=state.sizing, override=order.applied_to(state.override))
        _print_difference(record.request, state.known_sizing, after)
    else:
        say(escape(asyncio.run(send(settings, record, order))))


async def _state(settings: Settings, record: RequestRecord) -> RequestState:
    """What the request's workflow knows now."""
    client = await connect(settings)
    handle = client.get_workflow_handle(request_id(record.request.request_name))
    try:
        state: RequestState = await handle.query(
            "state",
            result_type=RequestState,
            # Temporal answers questions about workflows that have ended, too.
            reject_condition=QueryRejectCondition.NOT_OPEN,
            rpc_timeout=asking.ANSWER_TIMEOUT,
        )
        return state
    except WorkflowQueryRejectedError:
        asking.explain_absence(record, Action.SIZE, client)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            asking.explain_absence(record, Action.SIZE, client)
        raise Silent(asking.NO_WORKER) from None


def _print_difference(request: Request, before: KnownSizing, after: KnownSizing) -> None:
    now, then = sizing_of(request, before), sizing_of(request, after)
    rows = [
        ("memory MB", now.memory_mb, then.memory_mb),
        ("cores", now.cores, then.cores),
        ("seconds per event", f"{now.time_per_event_sec:.4g}", f"{then.time_per_event_sec:.4g}"),
        ("output kB per event", f"{now.size_per_event_kb:.4g}", f"{then.size_per_event_kb:.4g}"),
        ("disk MB", now.disk_mb or "by the sizes", then.disk_mb or "by the sizes"),
        ("events per job", events_per_job(request, before), events_per_job(request, after)),
    ]
    print_table(["THE NEXT ROUND", "NOW", "THEN"], rows)
