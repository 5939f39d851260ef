"""How long and how often activities are tried: the presets, all in one place."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from temporalio.common import RetryPolicy

from wms2.temporal.queues import SERVICES, TRANSFERS, host_queue

FINAL = [
    "UserError",
    "Missing",
    "Contradiction",
    "RecordConflict",
    "ValidationError",
    "Refused",
    "AlreadyThere",
    "NotFound",
    "Unauthorised",
    "BrokenRequest",
]
"""Errors that trying again does not mend."""


class Preset(TypedDict, total=False):
    task_queue: str
    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta
    schedule_to_start_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy


NOTICED = timedelta(seconds=15)
"""How soon a worker that died is noticed; workers heartbeat for what does not do so itself."""

AGAIN = timedelta(seconds=15)
"""The longest pause between two tries of what needs only our own servers: they are used soon after they are back."""

RECORD = Preset(
    start_to_close_timeout=timedelta(seconds=60),
    heartbeat_timeout=NOTICED,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        maximum_interval=AGAIN,
        non_retryable_error_types=FINAL,
    ),
)
"""Database writes: tried until they succeed, because a request waits for nothing else."""

HOST = Preset(
    start_to_close_timeout=timedelta(minutes=15),
    schedule_to_close_timeout=timedelta(hours=1),
    heartbeat_timeout=NOTICED,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=2),
        maximum_interval=AGAIN,
        non_retryable_error_types=FINAL,
    ),
)
"""Work on a submit host: given up after an hour, and then the request is held with the reason."""


def on_the_host(limit: timedelta) -> Preset:
    """Work on a submit host that is given up after another time."""
    preset = HOST.copy()
    preset["schedule_to_close_timeout"] = limit
    return preset


LOOK = Preset(
    start_to_close_timeout=timedelta(minutes=2),
    schedule_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=NOTICED,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=2),
        maximum_interval=timedelta(minutes=1),
        non_retryable_error_types=FINAL,
    ),
)
"""A look at a submit host: one without an answer after ten minutes says that nobody is there."""


def glance_at(host: str) -> Preset:
    """A look at files of a submit host while a person waits: who is told that nobody answers asks again."""
    return Preset(
        task_queue=host_queue(host),
        schedule_to_start_timeout=timedelta(seconds=10),
        schedule_to_close_timeout=timedelta(seconds=13),
        start_to_close_timeout=timedelta(seconds=13),
        retry_policy=RetryPolicy(maximum_attempts=1),
    )


SERVICE = Preset(
    task_queue=SERVICES,
    start_to_close_timeout=timedelta(hours=6),
    heartbeat_timeout=NOTICED,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        maximum_interval=timedelta(minutes=5),
        maximum_attempts=20,
        non_retryable_error_types=FINAL,
    ),
)
"""Calls of outside services: tried for about an hour. Attempts are counted, not time: many calls may take long."""

OUTPUT = Preset(
    task_queue=SERVICES,
    start_to_close_timeout=timedelta(hours=6),
    heartbeat_timeout=NOTICED,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_attempts=5, non_retryable_error_types=FINAL
    ),
)
"""Steps of outputs: tried for some seconds. Their workflow waits in between, longer and longer."""

TRANSFER: Preset = {**OUTPUT, "task_queue": TRANSFERS}
"""Looks at where outputs are, a few at once."""

TIDYING: Preset = {**OUTPUT, "schedule_to_close_timeout": timedelta(minutes=10)}
"""What a later run does as well: a service that is silent does not keep a run of the schedule from its end."""

MESSAGE = Preset(
    start_to_close_timeout=timedelta(minutes=3),
    heartbeat_timeout=NOTICED,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        maximum_interval=timedelta(minutes=1),
        maximum_attempts=5,
        non_retryable_error_types=FINAL,
    ),
)
"""A message to people: a server that does not take it is no failure here, it is tried again by the next run."""

FOLLOW = Preset(
    schedule_to_start_timeout=timedelta(hours=1),
    start_to_close_timeout=timedelta(hours=12),
    heartbeat_timeout=timedelta(seconds=30),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=2),
        maximum_interval=AGAIN,
        non_retryable_error_types=FINAL,
    ),
)
"""A follower: it lives for hours, heartbeats with each look, which a busy schedd makes slow, and starts again from
nothing.

One that no worker takes up within an hour says that its submit host is lost."""
