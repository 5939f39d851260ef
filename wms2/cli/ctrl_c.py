"""What Ctrl-C does. While the command line starts or ends, nobody wants to know where it was."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

INTERRUPTED = 130


def leaves_at_once() -> None:
    """From now on Ctrl-C ends the process, silently; where it was started with Ctrl-C ignored, that stays so."""
    _replace(signal.default_int_handler, _leave)


def is_raised() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again, and what was begun can be ended properly."""
    _replace(_leave, signal.default_int_handler)


def _replace(old: signal._HANDLER, new: signal._HANDLER) -> None:
    # Only the main thread may say what a signal does, and only there it is handled.
    with suppress(ValueError):
        if signal.getsignal(signal.SIGINT) is old:
            signal.signal(signal.SIGINT, new)


def _leave(*_: object) -> None:
    # No exception: in the middle of an import Python may print it, with a stack trace, and go on.
    os._exit(INTERRUPTED)
