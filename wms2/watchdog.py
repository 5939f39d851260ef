"""systemd's watchdog: a process whose event loop stands still is ended by systemd, and started anew."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

BEATS = 3
"""In the time after which systemd gives a process up."""


@asynccontextmanager
async def watched() -> AsyncIterator[None]:
    """While it is open, systemd is told that the loop turns; nobody is where no unit with WatchdogSec= asks for it."""
    interval = _interval()
    if interval is None:
        yield
        return
    # systemd ends it with SIGABRT: the log then shows what each thread was doing.
    faulthandler.enable()
    beating = asyncio.create_task(_beat(os.environ["NOTIFY_SOCKET"], interval))
    try:
        yield
    finally:
        beating.cancel()


def _interval() -> float | None:
    """How often systemd wants to hear from this very process; what it started itself is not asked."""
    limit, asked = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not limit.isdecimal() or asked != str(os.getpid()) or not os.environ.get("NOTIFY_SOCKET"):
        return None
    return int(limit) / 1_000_000 / BEATS


async def _beat(address: str, interval: float) -> None:
    # A name that begins with @ is in no folder.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.setblocking(False)
        while True:
            # One that cannot be told is not for this process to mend.
            with suppress(OSError):
                systemd.sendto(b"WATCHDOG=1", path)
            await asyncio.sleep(interval)
