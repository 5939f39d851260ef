"""A service that is silent, or wants to be left alone, is left alone for a while."""

from __future__ import annotations

import time


class Silence:
    """Notes when a service was heard, when it let somebody wait in vain, and when it asked for a rest.

    Else everybody who wants something of it would wait as long as the first one did, and keep others from their turn;
    or would be told as well that it has too much to do, and add to that.
    """

    def __init__(self, rest_sec: float) -> None:
        self._rest_sec = rest_sec
        self._heard_at = self._ends_at = 0.0
        self.reason = ""

    def heard(self) -> None:
        self._heard_at = time.monotonic()

    def waited_in_vain(self, since: float) -> None:
        """One slow call is no silence: nobody must have been answered in that time."""
        if self._heard_at < since:
            self._rest(self._rest_sec, "has just let others wait in vain")

    def was_asked_for(self, seconds: float) -> None:
        """The service said itself for how long."""
        self._rest(seconds, "has asked to be left alone")

    def left_sec(self) -> float:
        """For how long it is still to be left alone."""
        return max(0.0, self._ends_at - time.monotonic())

    def _rest(self, seconds: float, reason: str) -> None:
        ends_at = time.monotonic() + seconds
        if ends_at > self._ends_at:
            self._ends_at, self.reason = ends_at, reason
