"""The workflow that tells people, with hands that stand in."""

import uuid
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from temporalio import activity
from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from wms2.models.notice import DigestState, Notified
from wms2.temporal.retries import MESSAGE
from wms2.worker import workflow_runner
from wms2.workflows.notification import NotificationWorkflow

DIGESTS = [UUID(int=number) for number in range(3)]
SENT, SENDING, GIVEN_UP = DigestState.SENT, DigestState.SENDING, DigestState.GIVEN_UP


class Hands:
    """Sends to a server that answers as it is told; what is no state is raised."""

    def __init__(self, *answers: DigestState | Exception, claims: int = 0) -> None:
        self.answers = dict(zip(DIGESTS, answers, strict=False))
        self.failing_claims = claims
        self.tried: list[UUID] = []

    @activity.defn
    async def claim_digests(self) -> list[UUID]:
        if self.failing_claims:
            self.failing_claims -= 1
            raise OSError("the database is away")
        return list(self.answers)

    @activity.defn
    async def send_digest(self, digest: UUID) -> DigestState:
        self.tried.append(digest)
        answer = self.answers[digest]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def run(env: WorkflowEnvironment) -> Callable[[Hands], Any]:
    async def run(hands: Hands) -> tuple[Notified, WorkflowHistory]:
        queue = f"queue-{uuid.uuid4()}"
        async with Worker(
            env.client, task_queue=queue, workflows=[NotificationWorkflow], workflow_runner=workflow_runner(),
            activities=[hands.claim_digests, hands.send_digest],
        ):  # fmt: skip
            handle = await env.client.start_workflow(NotificationWorkflow.run, id=queue, task_queue=queue)
            return await handle.result(), await handle.fetch_history()

    return run


async def test_each_digest_is_sent_once_and_counted(run: Any) -> None:
    hands = Hands(SENT, GIVEN_UP, SENDING)
    told, _ = await run(hands)
    assert told == Notified(sent=1, failed=1, given_up=1)
    assert hands.tried == DIGESTS


async def test_with_nothing_to_tell_nothing_is_sent(run: Any) -> None:
    assert (await run(Hands()))[0] == Notified()


async def test_a_database_that_is_away_is_waited_for(run: Any) -> None:
    hands = Hands(SENT, claims=5)
    assert (await run(hands))[0] == Notified(sent=1)


async def test_a_digest_that_breaks_its_sender_keeps_no_other_from_being_sent(run: Any) -> None:
    hands = Hands(ApplicationError("broken"), SENT)
    assert (await run(hands))[0] == Notified(sent=1, failed=1)
    assert hands.tried == [DIGESTS[0]] * MESSAGE["retry_policy"].maximum_attempts + [DIGESTS[1]]


async def test_the_history_knows_digests_by_their_ids_alone(run: Any) -> None:
    _, history = await run(Hands(SENT))
    scheduled = [
        payload.data
        for event in history.events
        for payload in event.activity_task_scheduled_event_attributes.input.payloads
    ]
    assert scheduled == [f'"{DIGESTS[0]}"'.encode()]
