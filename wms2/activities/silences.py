"""Telling people of services that do not answer."""

from __future__ import annotations

from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.db.silences import report_in_vain
from wms2.models.messages import InVain


class SilenceActivities(DatabaseActivities):
    @activity.defn
    async def asked_in_vain(self, vain: InVain) -> str:
        """Tell the operators of a service that has not answered for long; what was told."""
        told = await self.record(report_in_vain, vain)
        if told:
            sound("silent_service", vain.service, told)
        return told
