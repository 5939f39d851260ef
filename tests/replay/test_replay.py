"""Requests that live through an upgrade: what Temporal recorded of them, the code of today would do again.

The histories were recorded on the real engines by `python -m tests.replay.record`.
"""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from tests.e2e.stories import STORIES
from tests.replay.record import HISTORIES, SERVICE, recorded, workflow_type
from wms2.worker import WORKFLOW_TYPES, make_replayer

PATHS = list(recorded())


async def replay(text: str) -> None:
    await make_replayer().replay_workflow(WorkflowHistory.from_json("replayed", text))


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(HISTORIES))) for path in PATHS])
async def test_what_was_recorded_is_done_again(path: Path) -> None:
    await replay(path.read_text())


async def test_a_history_that_the_code_would_not_have_made_is_noticed() -> None:
    path = next(path for path in PATHS if path.name.startswith("simulation.RequestWorkflow"))
    with pytest.raises(Exception, match="Nondeterminism"):
        await replay(path.read_text().replace('"name":"submit_dag"', '"name":"follow_dag"'))


def test_there_is_a_history_of_every_story_and_of_every_workflow() -> None:
    kinds = {path.name.partition(".")[0] for path in PATHS}
    assert kinds == {*STORIES, SERVICE}
    types = {workflow_type(json.loads(path.read_text())["events"]) for path in PATHS}
    assert types == {workflow.__name__ for workflow in WORKFLOW_TYPES}
