"""What Ctrl-C does. While the command line starts or ends, nobody wants to know where it was."""

import os
import signal

INTERRUPTED = 130


def leaves_at_once() -> None:
    """From now on Ctrl-C ends the process, silently; where it was started with Ctrl-C ignored, that stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def is_raised() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again, and what was begun can be ended properly."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    # No exception: in the middle of an import Python may print it, with a stack trace, and go on.
    os._exit(INTERRUPTED)
