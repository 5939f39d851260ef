"""A service that is silent is left alone for a while."""

from __future__ import annotations

import time


class Silence:
    """Notes when a service was heard, and when it let somebody wait in vain.

    Else everybody who wants something of it would wait as long as the first one did, and keep others from their turn.
    """

    def __init__(self, rest_sec: float) -> None:
        self._rest_sec = rest_sec
        self._heard_at = self._ends_at = 0.0

    def heard(self) -> None:
        self._heard_at = time.monotonic()

    def waited_in_vain(self, since: float) -> None:
        """One slow call is no silence: nobody must have been answered in that time."""
        if self._heard_at < since:
            self._ends_at = time.monotonic() + self._rest_sec

    def left_sec(self) -> float:
        """For how long it is still to be left alone."""
        return max(0.0, self._ends_at - time.monotonic())
