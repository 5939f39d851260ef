"""manifest.json, merge_input.json and pileup.json.gz, checked.

They come from the submit host, yet nothing in them is trusted: every name that becomes a path, a file name or an
argument matches a strict pattern first. Any mistake is a Failure that no retry can mend.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Pattern

from sandbox.failure import BAD_MANIFEST, NO_MANIFEST, Failure

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
LFN = re.compile(r"/store(?:/[A-Za-z0-9_+=][A-Za-z0-9_.+=-]*)+")
DATASET = re.compile(r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,149}/[A-Za-z0-9][A-Za-z0-9_.-]{0,199}/[A-Z0-9-]{1,50}")
FILE_PREFIX = re.compile(r"[0-9a-f]{8}")
ADLER32 = re.compile(r"[0-9a-f]{8}")
SITE = re.compile(r"T[0-3]_[A-Z]{2}_[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*")
LFN_LENGTH = 500
PILEUP = "pileup.json.gz"
VERSION = 1
DEFAULT_STALL_SEC = 1800
DEFAULT_REPETITIONS = 1

Record = Dict[str, Any]


@dataclass(frozen=True)
class InputFile:
    """A file to read; positions are inclusive and count from 1, None means to that end of the file."""

    lfn: str
    events: int
    first_event: int | None
    last_event: int | None


@dataclass(frozen=True)
class Node:
    """What one node processes: an event range when it has no files, else its files."""

    name: str
    files: tuple[InputFile, ...]
    lumis: dict[str, list[list[int]]] | None
    run: int
    first_event: int
    last_event: int
    first_lumi: int
    events_per_lumi: int


@dataclass(frozen=True)
class Step:
    name: str
    type: str
    parameters: Record
    input_step: str | None
    input_module: str | None
    stall_sec: int
    silent_sec: int | None
    repetitions: int
    repeatable: bool
    cores: int | None
    streams: int


@dataclass(frozen=True)
class Output:
    module: str
    dataset: str
    step: str
    unmerged_base: str
    merged_base: str
    file_prefix: str


@dataclass(frozen=True)
class PilotPlan:
    first_events: int
    time_budget_sec: float
    tolerance: float


@dataclass(frozen=True)
class Manifest:
    name: str
    cores: int
    seed_offset: int
    steps: tuple[Step, ...]
    merge: Step
    outputs: tuple[Output, ...]
    merge_target_bytes: int
    merge_copy_fraction: float
    pilot: PilotPlan | None
    nodes: Record
    secondary_input_dataset: str | None

    def threads(self, step: Step) -> int:
        """Those that the step asks for itself, within the cores of the job."""
        return min(step.cores or self.cores, self.cores)

    def node(self, name: str) -> Node:
        """The plan of one node."""
        if name not in self.nodes:
            raise _bad(f"manifest.json has no node {name}")
        return _node(name, _record(self.nodes, name, "nodes"))


@dataclass(frozen=True)
class MergeFile:
    """An unmerged file as the accepted report of its node described it."""

    node: str
    module: str
    dataset: str
    lfn: str
    size_bytes: int
    events: int
    adler32: str
    lumis: tuple[Record, ...]
    parents: tuple[str, ...]


@dataclass(frozen=True)
class MergeInput:
    files: tuple[MergeFile, ...]
    leftovers: tuple[str, ...]


@dataclass(frozen=True)
class PileUpList:
    """A dataset that steps mix into their events: the sites that have all of it, and its files."""

    sites: tuple[str, ...]
    events: int
    files: tuple[str, ...]


def load_manifest(folder: Path) -> Manifest:
    """manifest.json of the job's folder."""
    return _manifest(_load(folder / "manifest.json"))


def load_merge_input(folder: Path) -> MergeInput:
    """merge_input.json of the job's folder."""
    record = _load(folder / "merge_input.json")
    return MergeInput(
        files=tuple(_merge_file(item, f"files[{i}]") for i, item in enumerate(_records(record, "files", ""))),
        leftovers=tuple(_lfns(record, "leftovers", "")),
    )


def load_pileup(folder: Path) -> dict[str, PileUpList]:
    """pileup.json.gz of the job's folder, by dataset; none when there is no such file."""
    path = folder / PILEUP
    items = _records(_load(path), "datasets", "") if path.exists() else []
    return {str(item.get("dataset")): _pileup(item, f"datasets[{i}]") for i, item in enumerate(items)}


def _load(path: Path) -> Record:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            record = json.loads(stream.read().decode("utf-8"))
    except FileNotFoundError:
        raise Failure(NO_MANIFEST, f"{path.name} is not in the job's folder") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _bad(f"{path.name} cannot be read: {error}") from None
    if not isinstance(record, dict):
        raise _bad(f"{path.name} is not a JSON object")
    if record.get("version") != VERSION:
        raise _bad(f"{path.name} is of version {record.get('version')!r}; this wrapper reads {VERSION}")
    return record


def _manifest(record: Record) -> Manifest:
    payload = _record(record, "payload", "")
    steps = tuple(_step(item, f"payload.steps[{i}]") for i, item in enumerate(_records(payload, "steps", "")))
    if not steps or len({step.name for step in steps}) != len(steps):
        raise _bad("payload.steps: expected at least one step, each with a name of its own")
    outputs = tuple(_output(item, f"outputs[{i}]") for i, item in enumerate(_records(record, "outputs", "")))
    for output in outputs:
        if output.step not in {step.name for step in steps}:
            raise _bad(
                f"outputs: {output.module} comes from the step {output.step}, which is not in the payload"
            )
    return Manifest(
        name=_text(record, "name", WORD, ""),
        cores=_integer(record, "cores", 1, "", default=1),
        seed_offset=_integer(record, "seed_offset", 0, "", default=0),
        steps=steps,
        merge=_merge_step(payload, steps[-1]),
        outputs=outputs,
        merge_target_bytes=_integer(record, "merge_target_bytes", 1, ""),
        merge_copy_fraction=_number(record, "merge_copy_fraction", ""),
        pilot=_pilot(record),
        nodes=_record(record, "nodes", ""),
        secondary_input_dataset=record.get("secondary_input_dataset"),
    )


def _merge_step(payload: Record, last: Step) -> Step:
    """The step that merges; what it does not say is as in the last step of the chain."""
    record = {"type": last.type, **(payload.get("merge") or {}), "name": "merge"}
    # One core, whatever the last step has: a merge job asks for no more.
    record["parameters"] = {**last.parameters, **record.get("parameters", {}), "cores": 1, "event_streams": 0}
    return _step(record, "payload.merge")


def _step(record: Record, where: str) -> Step:
    optional = {
        key: _text(record, key, WORD, where) for key in ("input_step", "input_module") if record.get(key)
    }
    parameters = _record(record, "parameters", where) if "parameters" in record else {}
    return Step(
        name=_text(record, "name", WORD, where),
        type=_text(record, "type", WORD, where),
        parameters=parameters,
        input_step=optional.get("input_step"),
        input_module=optional.get("input_module"),
        stall_sec=_integer(record, "stall_sec", 1, where, default=DEFAULT_STALL_SEC),
        silent_sec=_integer(record, "silent_sec", 1, where) if record.get("silent_sec") else None,
        repetitions=_integer(record, "repetitions", 0, where, default=DEFAULT_REPETITIONS),
        repeatable=_boolean(record, "repeatable", where, default=True),
        cores=_integer(parameters, "cores", 1, f"{where}.parameters") if parameters.get("cores") else None,
        streams=_integer(parameters, "event_streams", 0, f"{where}.parameters", default=0),
    )


def _output(record: Record, where: str) -> Output:
    return Output(
        module=_text(record, "module", WORD, where),
        dataset=_text(record, "dataset", DATASET, where),
        step=_text(record, "step", WORD, where),
        unmerged_base=_text(record, "unmerged_base", LFN, where),
        merged_base=_text(record, "merged_base", LFN, where),
        file_prefix=_text(record, "file_prefix", FILE_PREFIX, where),
    )


def _pilot(record: Record) -> PilotPlan | None:
    if record.get("pilot") is None:
        return None
    pilot = _record(record, "pilot", "")
    return PilotPlan(
        first_events=_integer(pilot, "first_events", 1, "pilot"),
        time_budget_sec=_number(pilot, "time_budget_sec", "pilot"),
        tolerance=_number(pilot, "tolerance", "pilot"),
    )


def _node(name: str, record: Record) -> Node:
    where = f"nodes.{name}"
    files = tuple(
        _input_file(item, f"{where}.files[{i}]") for i, item in enumerate(_records(record, "files", where))
    )
    lumis = _lumis(record.get("lumis"), where)
    if files:
        return Node(name, files, lumis, run=0, first_event=0, last_event=0, first_lumi=0, events_per_lumi=1)
    node = Node(
        name=name,
        files=(),
        lumis=None,
        run=_integer(record, "run", 1, where),
        first_event=_integer(record, "first_event", 1, where),
        last_event=_integer(record, "last_event", 1, where),
        first_lumi=_integer(record, "first_lumi", 1, where),
        events_per_lumi=_integer(record, "events_per_lumi", 1, where),
    )
    if node.last_event < node.first_event:
        raise _bad(f"{where}: its last event comes before its first")
    return node


def _input_file(record: Record, where: str) -> InputFile:
    def position(key: str) -> int | None:
        return None if record.get(key) is None else _integer(record, key, 1, where)

    return InputFile(
        lfn=_lfn(record.get("lfn"), where),
        events=_integer(record, "events", 0, where, default=0),
        first_event=position("first_event"),
        last_event=position("last_event"),
    )


def _merge_file(record: Any, where: str) -> MergeFile:
    return MergeFile(
        node=_text(record, "node", WORD, where),
        module=_text(record, "module", WORD, where),
        dataset=_text(record, "dataset", DATASET, where),
        lfn=_lfn(record.get("lfn"), where),
        size_bytes=_integer(record, "size_bytes", 0, where),
        events=_integer(record, "events", 0, where),
        adler32=_text(record, "adler32", ADLER32, where),
        lumis=tuple(_records(record, "lumis", where)),
        parents=tuple(_lfns(record, "parents", where)),
    )


def _pileup(record: Record, where: str) -> PileUpList:
    files = tuple(_lfns(record, "files", where))
    if not files:
        raise _bad(f"{where}: the pile-up {record.get('dataset')} has no files")
    return PileUpList(
        sites=tuple(map(str, record.get("sites") or ())),
        events=_integer(record, "events", 1, where),
        files=files,
    )


def _lumis(value: Any, where: str) -> dict[str, list[list[int]]] | None:
    if value is None:
        return None
    ranges = (
        value.values() if isinstance(value, dict) and all(str(run).isdigit() for run in value) else [None]
    )
    for pairs in ranges:
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise _bad(f"{where}.lumis: expected a run number for each list of [first, last] pairs")
    return dict(value)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and all(type(item) is int and item >= 0 for item in value)
    )


def _lfns(record: Record, key: str, where: str) -> list[str]:
    value = record.get(key, [])
    if not isinstance(value, list):
        raise _bad(f"{_path(where, key)}: expected a list of logical file names")
    return [_lfn(item, _path(where, key)) for item in value]


def _lfn(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > LFN_LENGTH or not LFN.fullmatch(value):
        raise _bad(f"{where}: {value!r} is not a logical file name below /store")
    return value


def _records(record: Record, key: str, where: str) -> list[Record]:
    value = record.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _bad(f"{_path(where, key)}: expected a list of objects")
    return value


def _record(record: Record, key: str, where: str) -> Record:
    value = record.get(key)
    if not isinstance(value, dict):
        raise _bad(f"{_path(where, key)}: expected an object")
    return value


def _text(record: Record, key: str, pattern: Pattern[str], where: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or len(value) > LFN_LENGTH or not pattern.fullmatch(value):
        raise _bad(f"{_path(where, key)}: {value!r} does not match {pattern.pattern}")
    return value


def _integer(record: Record, key: str, least: int, where: str, default: int | None = None) -> int:
    value = record.get(key, default)
    if type(value) is not int or value < least:
        raise _bad(f"{_path(where, key)}: {value!r} is not a whole number of at least {least}")
    return value


def _boolean(record: Record, key: str, where: str, default: bool) -> bool:
    value = record.get(key, default)
    if not isinstance(value, bool):
        raise _bad(f"{_path(where, key)}: {value!r} is neither true nor false")
    return value


def _number(record: Record, key: str, where: str) -> float:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _bad(f"{_path(where, key)}: {value!r} is not a number above 0")
    return float(value)


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _bad(message: str) -> Failure:
    return Failure(BAD_MANIFEST, message)
