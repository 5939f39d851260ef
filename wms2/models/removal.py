"""Files that a round left on the storage of sites, as `sweep.json` and `left.json` list them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wms2.models.base import Model
from wms2.patterns import Lfn, SiteName


class LeftFile(Model):
    """A file that may still be on the storage of a site."""

    lfn: Lfn
    site: SiteName
    reason: str = ""
    """Why it was left."""


class FileList(Model):
    schedd: str
    """That of the round, whose jobs remove them."""
    version: Annotated[int, Field(ge=1, le=1)] = 1
    files: tuple[LeftFile, ...]
