"""The door that leads straight to the servers: PostgreSQL and Temporal."""

from __future__ import annotations

from wms2.door.direct_resources import DirectResources
from wms2.door.direct_work import DirectWork


class DirectDoor(DirectWork, DirectResources):
    """Reads the database, and acts through workflows alone."""
