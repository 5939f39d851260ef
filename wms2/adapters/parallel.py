"""Several calls of a service at once, but never all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

What = TypeVar("What")
Answer = TypeVar("Answer")


async def in_order(
    call: Callable[[What], Awaitable[Answer]], all_of_them: Iterable[What], at_once: int
) -> AsyncGenerator[tuple[What, Answer], None]:
    """Each of them with its answer, in order. The first error ends it, and no call goes on after the end."""
    under_way: deque[tuple[What, asyncio.Future[Answer]]] = deque()
    try:
        for what in all_of_them:
            under_way.append((what, asyncio.ensure_future(call(what))))
            if len(under_way) >= at_once:
                yield under_way[0][0], await under_way[0][1]
                under_way.popleft()
        while under_way:
            yield under_way[0][0], await under_way[0][1]
            under_way.popleft()
    finally:
        for _, future in under_way:
            future.cancel()
        await asyncio.gather(*(future for _, future in under_way), return_exceptions=True)
