"""Somebody who sends what is due and dies by SIGKILL at one step: `dying_sender DATABASE_URL SMTP_PORT STEP`."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from wms2.activities.notices import NoticeActivities
from wms2.adapters.mail import Mailer
from wms2.adapters.messenger import Messenger
from wms2.db import notices
from wms2.db.session import connect
from wms2.models.contacts import Contacts
from wms2.models.notice import DigestState

STEPS = (
    "before the claim is committed",
    "after the claim",
    "before the sending",
    "after the sending",
    "before the mark is committed",
    "after the mark",
)


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        die()

    return wrapped


def arrange(step: str) -> None:
    changes: dict[str, Callable[[], None]] = {
        "before the claim is committed": lambda: setattr(
            notices, "claim_digests", dying_after(notices.claim_digests)
        ),
        "after the claim": lambda: setattr(NoticeActivities, "send_digest", die),
        "before the sending": lambda: setattr(Mailer, "_send", die),
        "after the sending": lambda: setattr(Mailer, "_send", dying_after(Mailer._send)),
        "before the mark is committed": lambda: setattr(notices, "mark_sent", dying_after(notices.mark_sent)),
        "after the mark": lambda: None,
    }
    changes[step]()


def sender(database_url: str, port: int, most_tries: int = 3) -> NoticeActivities:
    mailer = Mailer("127.0.0.1", "wms2@example.org", "none", port)
    messenger = Messenger(Contacts(), mailer)
    return NoticeActivities(connect(database_url), messenger, most_tries, timedelta(minutes=10))


async def send_all(activities: NoticeActivities) -> list[DigestState]:
    """A run, as the workflow does it."""
    return [await activities.send_digest(digest) for digest in await activities.claim_digests()]


if __name__ == "__main__":
    url, port, step = sys.argv[1:]
    arrange(step)
    asyncio.run(send_all(sender(url, int(port))))
    die()
