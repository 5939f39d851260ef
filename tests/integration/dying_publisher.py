"""Somebody who brings outputs to their readers, or takes them back, and dies by SIGKILL between two calls.

Run as `dying_publisher DATABASE_URL DBS_URL RUCIO_URL TALE EVERY` it does so for request after request: who tends the
first is killed at the first step of the tale, the next ones EVERY steps later each, a step being the moment after a
call of a service or a record. Somebody else comes after each of them. It ends with the first one whom nothing killed,
and prints the names of the requests.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from sqlalchemy import Engine
from temporalio.testing import ActivityEnvironment

from tests.integration.publishing import TAPE, Publisher, begin, made_request, produce
from tests.stand_in import control, rucio_at
from wms2.activities.database import DatabaseActivities
from wms2.activities.undo import UndoActivities
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.adapters.service import Service
from wms2.db.output_list import output_blocks
from wms2.db.session import connect, transaction
from wms2.models.messages import OutputOrder
from wms2.models.undo import UndoOrder

UNITS = 4


class World(NamedTuple):
    engine: Engine
    dbs_url: str
    rucio_url: str


class Hands:
    """What somebody does for an output dataset. Each can be done again."""

    def __init__(self, world: World, dbs: Dbs, rucio: Rucio, order: OutputOrder) -> None:
        self.engine = world.engine
        self.services_url = world.dbs_url.removesuffix("/dbs")
        self.dbs, self.rucio, self.order = dbs, rucio, order
        self.publisher = Publisher(self.engine, dbs, rucio)

    async def publish(self) -> None:
        """All files at once, and nobody wants them elsewhere."""
        produce(self.engine, self.order.request, *range(UNITS))
        await self.publisher.publish(self.order)

    async def place(self) -> None:
        """A file comes late to a block that has its rule. All are brought elsewhere and let go where they were made."""
        for units in ((0, 1), (2, 3)):
            produce(self.engine, self.order.request, *units)
            await self.publisher.protect(self.order)
        await self.publisher.register(self.order)
        control(self.services_url, "POST", "rucio/daemons")
        await self.publisher.place(self.order)
        self._end_transfers()
        await self.publisher.place(self.order)
        await self.publisher.announce(self.order)

    def _end_transfers(self) -> None:
        with transaction(self.engine) as session:
            blocks = output_blocks(session, self.order.request, self.order.dataset)
        for rule in (rule for block in blocks for rule in block.transfer_rule_ids):
            control(self.services_url, "POST", f"rucio/rules/{rule}/finish")

    async def undo(self) -> None:
        order = UndoOrder(request=self.order.request, actor="operator", reason="wrong", action_id="deed")
        activities = UndoActivities(self.engine, self.dbs, self.rucio)
        await ActivityEnvironment().run(activities.undo_outputs, order)


Deed = Callable[[Hands], Awaitable[None]]


class Tale(NamedTuple):
    """What is done before, what somebody is killed at, and what is done by the one who comes after."""

    before: Deed | None
    killed_at: Deed
    after: Deed
    destinations: tuple[str, ...] = ()


TALES = {
    "published": Tale(None, Hands.publish, Hands.publish),
    "placed": Tale(None, Hands.place, Hands.place, (TAPE,)),
    "given up": Tale(None, Hands.place, Hands.undo, (TAPE,)),
    "taken back": Tale(Hands.place, Hands.undo, Hands.undo, (TAPE,)),
}


def die_at(place: int) -> None:
    """After that many calls and records, and before the next."""
    moments = 0

    def moment() -> None:
        nonlocal moments
        moments += 1
        if moments == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            answer = await function(*args, **kwargs)
            moment()
            return answer

        return call

    Service.call = mortal(Service.call)  # type: ignore[method-assign]
    DatabaseActivities.record = mortal(DatabaseActivities.record)  # type: ignore[method-assign]


async def _do(world: World, order: OutputOrder, deed: Deed) -> None:
    async with Dbs(world.dbs_url) as dbs, rucio_at(world.rucio_url) as rucio:
        await deed(Hands(world, dbs, rucio, order))


def _ended(world: World, order: OutputOrder, deed: Deed, place: int | None = None) -> int:
    """How a process ended that did this, and was to die at that place."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # The connections are its parent's.
            world.engine.dispose(close=False)
            if place is not None:
                die_at(place)
            asyncio.run(_do(world, order, deed))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _begun(world: World, title: str, place: int) -> OutputOrder:
    request = made_request(f"{title.replace(' ', '_')}_{place}", destinations=TALES[title].destinations)
    return begin(world.engine, request, UNITS)


def _survived(world: World, tale: Tale, order: OutputOrder, place: int) -> bool:
    """Whether the one who was to be killed at that place never came there."""
    assert tale.before is None or _ended(world, order, tale.before) == 0
    ended = _ended(world, order, tale.killed_at, place)
    assert ended in (0, -signal.SIGKILL)
    assert _ended(world, order, tale.after) == 0
    return ended == 0


def main(world: World, title: str, every: int) -> None:
    tale, names, survived = TALES[title], list[str](), False
    first = _begun(world, title, 0)
    for deed in filter(None, tale[:3]):
        # Done here once, so that each child finds all statements compiled.
        asyncio.run(_do(world, first, deed))
    while not survived:
        order = _begun(world, title, 1 + every * len(names))
        survived = _survived(world, tale, order, 1 + every * len(names))
        names.append(order.request)
    print(json.dumps(names))  # noqa: T201


if __name__ == "__main__":
    main(World(connect(sys.argv[1]), *sys.argv[2:4]), sys.argv[4], int(sys.argv[5]))
