"""What is much and alike, packed into a short text: names of requests shrink to a quarter."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any


def pack(content: Any) -> str:
    """For what JSON can say. Quickly rather than tightly: it is done in the middle of other work."""
    return base64.b64encode(zlib.compress(json.dumps(content).encode(), level=1)).decode()


def unpack(packed: str) -> Any:
    """A ValueError for what was not packed."""
    try:
        return json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not packed: {error}") from None
