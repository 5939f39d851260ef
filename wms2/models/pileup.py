"""Pile-up: the secondary datasets that steps mix into their events."""

from collections.abc import Iterator, Mapping
from typing import Any

PARAMETERS = ("mc_pileup", "data_pileup")


def pileup_of(payload: Mapping[str, Any]) -> Iterator[tuple[int, str, Any]]:
    """Each pile-up dataset that a step names, with the number of the step and the parameter."""
    for k, step in enumerate(payload["steps"]):
        parameters = step.get("parameters")
        for name in PARAMETERS if isinstance(parameters, Mapping) else ():
            value = parameters.get(name)
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    yield k, name, one
