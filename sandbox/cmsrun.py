"""The step type `cmsRun`: a CMSSW release is set up and its configuration told what to process.

Three fixed files of this package go into the step's folder: cmsrun.sh sets up the release and becomes cmsRun,
process_pset.py or merge_pset.py turns job.json into a process. Values reach them as arguments or through job.json
only; no text is generated.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from pathlib import Path
from typing import Any, Mapping, Pattern

from sandbox import fjr
from sandbox.failure import (
    BAD_ENVIRONMENT,
    BAD_MANIFEST,
    NO_MANIFEST,
    NO_PROJECT,
    NO_RELEASE,
    NO_SOFTWARE,
    NO_SOFTWARE_SETUP,
    Failure,
)

OPENS_ADDRESSES = True
DEFAULT_MODULES: tuple[str, ...] = ()  # the configuration has its own
SOFTWARE = "/cvmfs/cms.cern.ch"
RELEASE = re.compile(r"CMSSW_\d+(?:_\d+){2}(?:_[A-Za-z0-9]+)*")
ARCHITECTURE = re.compile(r"(?:slc|el|cc|cs)\d+_[a-z0-9]+_gcc\d+")
GLOBAL_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
# A file whose text the manifest carries, or one on CVMFS.
PSET = re.compile(r"(?:/cvmfs(?:/[A-Za-z0-9_+=][A-Za-z0-9_.+=-]*)+|[A-Za-z0-9_][A-Za-z0-9_-]*)\.py")
READY = "environment.ready"
CONFIGURATIONS = {"produce": "process_pset.py", "merge": "merge_pset.py"}
_SETUP_CODES = {31: NO_SOFTWARE, 32: NO_SOFTWARE_SETUP, 34: NO_RELEASE}


def command(folder: Path, verb: str, record: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    parameters = record["parameters"]
    release = _parameter(parameters, "cmssw_version", RELEASE)
    architecture = _parameter(parameters, "scram_arch", ARCHITECTURE)
    if parameters.get("global_tag") is not None:
        _parameter(parameters, "global_tag", GLOBAL_TAG)
    if verb == "produce":
        _place_configuration(Path(record["job_folder"]), parameters)
    for name in ("cmsrun.sh", CONFIGURATIONS[verb]):
        (folder / name).write_bytes(pkgutil.get_data("sandbox", name) or b"")
    software = environment.get("VO_CMS_SW_DIR") or SOFTWARE
    return ["bash", "cmsrun.sh", software, architecture, release, READY, fjr.NAME, CONFIGURATIONS[verb]]


def setup_failure(folder: Path, status: int) -> tuple[int, str] | None:
    """The code of a set-up that did not get as far as cmsRun; its exit codes would else be taken for cmsRun's."""
    if status == 0 or (folder / READY).exists():
        return None
    return _SETUP_CODES.get(status, NO_PROJECT), "the CMSSW release could not be set up"


def _place_configuration(job_folder: Path, parameters: Mapping[str, Any]) -> None:
    """The file named by `pset`: on CVMFS, or brought along, as a file or as text in `configuration`."""
    pset = _parameter(parameters, "pset", PSET)
    text = parameters.get("configuration")
    if isinstance(text, str) and not pset.startswith("/"):
        (job_folder / pset).write_text(text, encoding="utf-8")
    if not (job_folder / pset).is_file():
        code = NO_SOFTWARE if pset.startswith("/") else NO_MANIFEST
        raise Failure(code, f"the configuration {pset} is not there")
    digest = parameters.get("pset_sha256")
    if digest is not None and hashlib.sha256((job_folder / pset).read_bytes()).hexdigest() != digest:
        raise Failure(BAD_ENVIRONMENT, f"the configuration {pset} did not arrive as it was sent")


def _parameter(parameters: Mapping[str, Any], name: str, pattern: Pattern[str]) -> str:
    value = parameters.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Failure(BAD_MANIFEST, f"step parameter {name}: {value!r} does not match {pattern.pattern}")
    return value
