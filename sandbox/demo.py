"""The step type `demo`: the payload for tests and demonstrations, which makes real ROOT files.

The pool offers it through WMS2_SOFTWARE_PYTHON, as CVMFS offers CMSSW.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping

from sandbox import task
from sandbox.failure import NO_SOFTWARE, Failure

OPENS_ADDRESSES = False
DEFAULT_MODULES = ("output",)  # of a step whose output is for the next step only
MODULE = "wms2.local.payload"


def command(folder: Path, verb: str, record: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:  # noqa: ARG001
    """`verb` is produce or merge. Isolated mode: nothing in the job's folder can stand for a module."""
    python = environment.get("WMS2_SOFTWARE_PYTHON", "")
    if not os.access(python, os.X_OK):
        raise Failure(
            NO_SOFTWARE, f"WMS2_SOFTWARE_PYTHON is {python!r}: this slot does not offer the demo payload"
        )
    return [python, "-I", "-m", MODULE, verb, "--job", task.NAME]


def setup_failure(folder: Path, status: int) -> tuple[int, str] | None:  # noqa: ARG001
    """There is no set-up of its own that could fail."""
    return None
