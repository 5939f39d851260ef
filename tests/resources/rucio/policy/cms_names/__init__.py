"""A policy package for Rucio: its generic policy with the names of CMS."""

from typing import Any

SUPPORTED_VERSION = [">=38"]


def get_algorithms() -> dict[str, Any]:
    return {}
