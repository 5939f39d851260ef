"""What the settings say about the time that statuses may take."""

from __future__ import annotations

from temporalio import activity

from wms2.models.messages import TimeLimits


class TimeLimitActivities:
    def __init__(self, limits: TimeLimits) -> None:
        self._limits = limits

    @activity.defn
    async def time_limits(self) -> TimeLimits:
        """Asked for by each history of a request: a new setting holds from its next one on."""
        return self._limits
