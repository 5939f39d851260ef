"""Admission as people see it."""

from __future__ import annotations

from pydantic import Field

from wms2.models.base import Count, Model
from wms2.models.messages import Slot, SlotRequest


class HostRoom(Model):
    host: str
    dagmans: int = Field(description="how many DAGMan processes it may run")
    free: int = Field(description="below zero after it announced less than it was lent")


class AdmissionSeen(Model):
    """The limits, what each submit host carries, who has a slot, and who waits, in the order of their turn."""

    limit: Count
    idle_budget: Count = Field(description="how many idle jobs all slots share")
    idle_lent: Count = Field(description="how many of them the slots have that are lent")
    idle_share: Count = Field(description="how many jobs each DAGMan of the next slot may keep idle")
    draining: bool = Field(description="nothing more is lent until it is resumed")
    hosts: tuple[HostRoom, ...]
    slots: tuple[Slot, ...]
    waiting: tuple[SlotRequest, ...]
