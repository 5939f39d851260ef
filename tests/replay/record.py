"""Record the histories that are replayed: each story of a request, anew, on a stack of its own.

`python -m tests.replay.record` takes a few minutes. The stack lives in a neutral folder and its submit host has a
neutral name, so that nothing in the histories tells where they were recorded.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory

from tests.e2e.stand import Stand, runs, stand_in
from tests.e2e.stories import STORIES
from wms2.temporal.client import connect
from wms2.temporal.ids import ADMISSION, CHAINS, HOSTS, NOTIFICATION, RECONCILIATION, REQMGR2, SITES, undo_id

HISTORIES = Path(__file__).with_name("histories")
PLACE = Path("/tmp/wms2")
SERVICE = "service"
"""What belongs to no request."""
STORIES_AT_ONCE = 5
LEFT_OUT = {"identity", "taskId", "requestId", "stackTrace", "workerVersion", "retryPolicy", "userMetadata"}
"""Process ids, names of machines, and what makes a history long: no replay looks at it."""


def record() -> None:
    """Live all stories side by side, and write down what Temporal remembers of them."""
    home, folder = PLACE / "home", PLACE / "stand"
    folder.mkdir(parents=True)
    with stand_in(home, folder) as stand:
        notify(stand)
        stand.start_worker()
        with ThreadPoolExecutor(STORIES_AT_ONCE) as people:
            for told in [people.submit(story, stand, kind) for kind, story in STORIES.items()]:
                told.result()
        for word in ("drain", "resume"):
            stand.wms2("admission", word)
        stand.wms2("dag", "nodes", "simulation:0:1")
        for path in HISTORIES.glob("*.json"):
            path.unlink()
        for kind in STORIES:
            for histories in asyncio.run(of_request(stand, kind)):
                write(kind, histories)
        for histories in asyncio.run(services(stand)):
            write(SERVICE, histories)


def notify(stand: Stand) -> None:
    """Operators are told, at an address where nobody listens."""
    contacts = stand.folder / "contacts.yaml"
    contacts.write_text("operators: [nobody]\nwebhooks: {nobody: {url: 'http://127.0.0.1:1'}}\n")
    stand.environment |= {
        "WMS2_NOTIFY": "on", "WMS2_CONTACTS": str(contacts), "WMS2_NOTIFY_EVERY_MIN": "1440"
    }  # fmt: skip


async def of_request(stand: Stand, name: str) -> list[list[WorkflowHistory]]:
    """The request's own, those of its outputs, and the one that took them back, if there was one."""
    client, undo = await connect(stand.settings), undo_id(name, None)
    undone = await runs(client, undo)
    if undone:
        await client.get_workflow_handle(undo).result()
        undone = await runs(client, undo)
    return [*(await stand.histories(name)).values(), undone]


async def services(stand: Stand) -> list[list[WorkflowHistory]]:
    """The workflows that serve all requests. What runs by schedule is not waited for: it is asked for."""
    client = await connect(stand.settings)
    scheduled = [
        await run_of(client, schedule, workflow)
        for schedule, workflow in (
            (RECONCILIATION, "ReconciliationWorkflow"),
            (NOTIFICATION, "NotificationWorkflow"),
            (CHAINS, "ChainWorkflow"),
            (REQMGR2, "ReqMgr2Workflow"),
            (SITES, "SitesWorkflow"),
            (HOSTS, "HostsWorkflow"),
        )
    ]
    return [await runs(client, ADMISSION), *scheduled, await completed(client, "InspectionWorkflow")]


async def run_of(client: Client, schedule: str, workflow: str) -> list[WorkflowHistory]:
    await client.get_schedule_handle(schedule).trigger()
    return await completed(client, workflow)


async def completed(client: Client, workflow: str) -> list[WorkflowHistory]:
    query = f"WorkflowType = '{workflow}' AND ExecutionStatus = 'Completed'"
    async with asyncio.timeout(60):
        while not (done := [found.id async for found in client.list_workflows(query)]):
            await asyncio.sleep(0.5)
    return await runs(client, done[0])


def write(kind: str, histories: list[WorkflowHistory]) -> None:
    """A file for each run: kind, type of workflow and number of the run."""
    HISTORIES.mkdir(exist_ok=True)
    for number, history in enumerate(histories, 1):
        events = [scrubbed(event) for event in json.loads(history.to_json())["events"]]
        workflow = workflow_type(events)
        path = HISTORIES / f"{kind}.{workflow}.{number}.json"
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
        path.write_text(f'{{"events":[\n{lines}\n]}}\n')


def workflow_type(events: list[dict[str, Any]]) -> str:
    return str(events[0]["workflowExecutionStartedEventAttributes"]["workflowType"]["name"])


def scrubbed(event: dict[str, Any]) -> dict[str, Any]:
    """What a replay needs of an event, and nothing that tells where it was recorded."""
    kept: dict[str, Any] = without(event, LEFT_OUT)
    # A queue of the worker's own, named by its process.
    kept.get("workflowTaskScheduledEventAttributes", {}).pop("taskQueue", None)
    return kept


def without(part: Any, names: set[str]) -> Any:
    if isinstance(part, dict):
        return {name: without(value, names) for name, value in part.items() if name not in names}
    return [without(value, names) for value in part] if isinstance(part, list) else part


def recorded() -> Iterator[Path]:
    """Those of today, and in folders those of earlier releases whose requests may still be alive."""
    yield from sorted(HISTORIES.rglob("*.json"))


if __name__ == "__main__":
    if PLACE.exists():
        sys.exit(f"{PLACE} is there already; remove it, or end who uses it.")
    try:
        record()
    finally:
        PLACE.rmdir()
    paths = list(HISTORIES.glob("*.json"))
    size = sum(path.stat().st_size for path in paths)
    sys.stdout.write(f"{len(paths)} histories, {size / 1000:.0f} kB, in {HISTORIES}\n")
