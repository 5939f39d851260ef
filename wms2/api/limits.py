"""How much a call may bring and how many there may be: nobody takes the service away from the others."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_REMEMBERED = 10_000
BODY_SEC = 30.0
"""How long a call may take to bring its body, all pieces of it together."""


class TooMany(Exception):
    """Too many calls of one identity, or from one address."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many calls; wait {retry_after} s")
        self.retry_after = retry_after


class Rate:
    """So many calls in a minute for each; a tenth of them at once is always let through."""

    def __init__(self, per_min: int) -> None:
        self._per_sec = per_min / 60
        self._burst = max(per_min / 10, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Count a call; TooMany says when the next one may come."""
        now = time.monotonic()
        left, at = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_sec)
        self._left[who] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)
        if left < 1:
            raise TooMany(math.ceil((1 - left) / self._per_sec))


class BodyLimit:
    """Refuses a body that is too long before it is in memory, and one that does not come."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        taken, is_whole, deadline = 0, False, asyncio.get_running_loop().time() + BODY_SEC

        async def limited() -> Message:
            nonlocal taken, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body did not come within {BODY_SEC:.0f} s") from None
            taken += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if taken > self._largest:
                raise HTTPException(413, f"a call may bring {self._largest} bytes at most; send less")
            return message

        await self._app(scope, limited, send)
