"""The door that leads through the REST service: for whoever may call it and cannot reach the servers."""

from __future__ import annotations

from wms2.door.rest_requests import RestRequests
from wms2.door.rest_resources import RestResources
from wms2.door.rest_work import RestWork


class RestDoor(RestRequests, RestWork, RestResources):
    """Who asks is whom the certificate or the token names, whatever an order says of its actor."""
