"""The payload for tests and the demo: real ROOT files whose every event carries its number.

It stands where cmsRun stands in production: it is told what to do by job.json, writes its outputs and a
FrameworkJobReport.xml into its folder, and exits with the low byte of its long exit code.

    python -m wms2.local.payload produce --job job.json
    python -m wms2.local.payload merge --job job.json
    python -m wms2.local.payload check FILE...
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import uproot

from wms2.local.events import FIXED_BYTES, PADDING, TREE, Numbers, branches, contents, hashed
from wms2.local.faults import Fault, FaultError, due_fault
from wms2.local.job_report import JobReport

CHUNK_EVENTS = 10_000
CHUNK_SIZE = "20 MB"
OPEN_ERROR, READ_ERROR, MISMATCH, BAD_PARAMETERS = 8020, 8021, 8023, 7002
FILTER_SALT = 77
PILEUP_FILES = 3
"""How many files a step mixes in of each kind of pile-up, where there are as many."""


class PayloadError(Exception):
    """Ends the payload with a long exit code, as cmsRun's exceptions do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Parameters:
    """What a step of the demo can be asked for."""

    kb_per_event: float | Mapping[str, float] = 1.0
    filter_efficiency: float = 1.0
    startup_sec: float = 0.0
    seconds_per_event: float = 0.0
    cpu_seconds_per_event: float = 0.0
    memory_mb: int = 0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "Parameters":
        """Keys for other kinds of step, and the faults, are not looked at."""
        return cls(**{name: parameters[name] for name in cls.__dataclass_fields__ if name in parameters})

    def padding(self, module: str) -> int:
        """Bytes per event on top of the fixed branches."""
        size = self.kb_per_event
        kilobytes = float(size.get(module, 1.0) if isinstance(size, Mapping) else size)
        return max(0, round(kilobytes * 1000) - FIXED_BYTES)


def produce(job: Mapping[str, Any], folder: Path, report: JobReport) -> Fault | None:
    """Make the events of a range, or pass on those of the input files, into every output module.

    The fault that struck it, for what comes of it after the report.
    """
    parameters = Parameters.of(job["parameters"])
    fault = due_fault(job)
    if fault:
        fault.act()
    memory = np.ones(parameters.memory_mb * 1_000_000, np.uint8)
    time.sleep(parameters.startup_sec)
    outputs = [] if fault and fault.no_output else job["outputs"]
    _mix(job, report)
    source = _read(job, report) if job["input_files"] else _simulate(job["simulation"])
    with _Writers(folder, outputs, parameters, report) as writers:
        for numbers in source:
            _work(parameters, len(numbers))
            writers.add(_filtered(numbers, parameters.filter_efficiency))
    del memory
    return fault


def merge(job: Mapping[str, Any], folder: Path, report: JobReport) -> Fault | None:
    """All events of the input files into one, in their order, a bounded piece at a time."""
    fault = due_fault(job)
    if fault:
        fault.act()
    to_lose = 1 if fault and fault.lose_event else 0
    output = job["outputs"][0]
    written = report.add_output(output["module"], output["file"])
    with uproot.recreate(folder / output["file"], compression=None) as root_file:
        merged = root_file.mktree(TREE, _branches_of(job["input_files"][0]))
        for input_file in job["input_files"]:
            read = report.add_input(input_file["lfn"], input_file["pfn"])
            for chunk in _chunks(input_file):
                numbers = _numbers(chunk)
                read.count(numbers)
                kept = {name: values[to_lose:] for name, values in chunk.items()}
                to_lose = 0
                _extend(merged, kept)
                written.count(_numbers(kept))
    return fault


@dataclass(frozen=True)
class Check:
    """What a set of files holds. `numbers` are the event numbers, sorted, duplicates included."""

    files: int
    events: int
    distinct: int
    first: int | None
    last: int | None
    wrong_values: int
    lumis: int
    numbers: npt.NDArray[np.uint64] = field(repr=False)

    @property
    def duplicates(self) -> int:
        return self.events - self.distinct

    def summary(self) -> dict[str, int | None]:
        """The counts alone, for JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name != "numbers"},
            "duplicates": self.duplicates,
        }


def check(paths: Iterable[Path]) -> Check:
    """Read files event by event: which numbers are there, how often, and whether the values fit the numbers."""
    numbers: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
    lumis: set[tuple[int, int]] = set()
    wrong = files = 0
    for path in paths:
        files += 1
        for chunk in _chunks({"lfn": "", "pfn": str(path), "first_event": None, "last_event": None}):
            found = _numbers(chunk)
            wrong += _wrong_values(found, chunk)
            numbers.append(found.event.astype(np.uint64))
            lumis.update(found.per_lumi())
    every = np.sort(np.concatenate(numbers))
    return Check(
        files=files,
        events=len(every),
        distinct=len(np.unique(every)),
        first=int(every[0]) if len(every) else None,
        last=int(every[-1]) if len(every) else None,
        wrong_values=wrong,
        lumis=len(lumis),
        numbers=every,
    )


def make_inputs(
    folder: Path,
    n_files: int,
    events_per_file: int,
    *,
    locations: Sequence[str],
    lumis_per_file: int = 1,
    run: int = 1,
    first_event: int = 1,
    base: str = "/store/data/Demo/Input/RAW/v1/000",
    kb_per_event: float = 0.1,
) -> list[dict[str, Any]]:
    """Write input files below `folder`/SITE for each location; the entries of an `--inputs` file.

    Event numbers, and lumis, run on from file to file.
    """
    entries = []
    for index in range(n_files):
        lfn = f"{base}/input_{index:04d}.root"
        event = np.arange(events_per_file, dtype=np.uint64) + np.uint64(index * events_per_file + first_event)
        lumi = index * lumis_per_file + 1 + np.arange(events_per_file) * lumis_per_file // events_per_file
        numbers = Numbers(np.full(events_per_file, run, np.uint32), lumi.astype(np.uint32), event)
        paths = [Path(f"{folder / site}{lfn}") for site in locations]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_file(path, numbers, max(0, round(kb_per_event * 1000) - FIXED_BYTES))
        entries.append(
            {
                "lfn": lfn,
                "size_bytes": paths[0].stat().st_size,
                "events": events_per_file,
                "locations": list(locations),
                "lumis": [{"run": r, "lumi": n, "events": e} for (r, n), e in numbers.per_lumi().items()],
            }
        )
    return entries


class _Writers:
    """The output files of a step, filled side by side."""

    def __init__(
        self, folder: Path, outputs: Iterable[Mapping[str, str]], parameters: Parameters, report: JobReport
    ) -> None:
        self._open = []
        for output in outputs:
            padding = parameters.padding(output["module"])
            root_file = uproot.recreate(folder / output["file"], compression=None)
            tree = root_file.mktree(TREE, branches(padding))
            record = report.add_output(output["module"], output["file"])
            self._open.append((root_file, tree, padding, record))

    def __enter__(self) -> "_Writers":
        return self

    def __exit__(self, *_: object) -> None:
        for root_file, *_rest in self._open:
            root_file.close()

    def add(self, numbers: Numbers) -> None:
        for _, tree, padding, record in self._open:
            tree.extend(contents(numbers, padding))
            record.count(numbers)


def _simulate(plan: Mapping[str, int]) -> Iterator[Numbers]:
    first, last = plan["first_event"], plan["last_event"]
    for start in range(first, last + 1, CHUNK_EVENTS):
        event = np.arange(start, min(start + CHUNK_EVENTS, last + 1), dtype=np.uint64)
        position = (event - np.uint64(first)).astype(np.int64) + plan["lumi_offset"]
        lumi = plan["first_lumi"] + position // plan["events_per_lumi"]
        yield Numbers(np.full(len(event), plan["run"], np.uint32), lumi.astype(np.uint32), event)


def _mix(job: Mapping[str, Any], report: JobReport) -> None:
    """Read an event of a few pile-up files, beginning with one that follows from the job's seed."""
    for told in job.get("pileup", {}).values():
        files = told["files"]
        for k in range(min(PILEUP_FILES, len(files))):
            pfn = files[(job["seed"] + k) % len(files)]
            record = report.add_pileup(pfn)
            entry = {"lfn": "", "pfn": pfn, "first_event": None, "last_event": 1}
            for chunk in _chunks(entry, ["run", "lumi", "event"]):
                record.count(_numbers(chunk))


def _read(job: Mapping[str, Any], report: JobReport) -> Iterator[Numbers]:
    """Run, lumi and event numbers of what the job selects in its files."""
    for input_file in job["input_files"]:
        record = report.add_input(input_file["lfn"], input_file["pfn"])
        for chunk in _chunks(input_file, ["run", "lumi", "event"]):
            numbers = _numbers(chunk).chosen(job["lumis"])
            record.count(numbers)
            yield numbers


def _chunks(input_file: Mapping[str, Any], names: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The file's branches between its first and last position, as numpy arrays."""
    with _open(input_file) as tree:
        start = (input_file["first_event"] or 1) - 1
        stop = tree.num_entries if input_file["last_event"] is None else input_file["last_event"]
        try:
            yield from tree.iterate(
                names, library="np", step_size=CHUNK_SIZE, entry_start=start, entry_stop=stop
            )
        except Exception as error:
            raise PayloadError(READ_ERROR, f"cannot read {_name(input_file)}: {error!r}") from error


def _open(input_file: Mapping[str, Any]) -> Any:
    try:
        return uproot.open({input_file["pfn"]: TREE})
    except Exception as error:
        raise PayloadError(OPEN_ERROR, f"cannot open {_name(input_file)}: {error!r}") from error


def _name(input_file: Mapping[str, Any]) -> str:
    return str(input_file["lfn"] or input_file["pfn"])


def _branches_of(input_file: Mapping[str, Any]) -> dict[str, Any]:
    with _open(input_file) as tree:
        padding = tree[PADDING].interpretation.inner_shape[0] if PADDING in tree else 0
    return branches(padding)


def _numbers(chunk: Mapping[str, Any]) -> Numbers:
    return Numbers(chunk["run"], chunk["lumi"], chunk["event"])


def _extend(tree: Any, chunk: Mapping[str, Any]) -> None:
    try:
        tree.extend(chunk)
    except (ValueError, TypeError) as error:
        raise PayloadError(MISMATCH, f"the input files do not have the same branches: {error}") from None


def _write_file(path: Path, numbers: Numbers, padding: int) -> None:
    with uproot.recreate(path, compression=None) as root_file:
        root_file.mktree(TREE, branches(padding)).extend(contents(numbers, padding))


def _wrong_values(numbers: Numbers, chunk: Mapping[str, Any]) -> int:
    padding = chunk[PADDING].shape[1] if PADDING in chunk else 0
    wrong = np.zeros(len(numbers), np.bool_)
    for name, expected in contents(numbers, padding).items():
        differs = chunk[name] != expected
        wrong |= differs if differs.ndim == 1 else differs.any(axis=1)
    return int(wrong.sum())


def _filtered(numbers: Numbers, efficiency: float) -> Numbers:
    """Which events pass depends on nothing but their numbers."""
    if efficiency >= 1:
        return numbers
    return numbers.where(hashed(numbers.event.astype(np.uint64), FILTER_SALT) / 2.0**64 < efficiency)


def _work(parameters: Parameters, events: int) -> None:
    time.sleep(parameters.seconds_per_event * events)
    end = time.process_time() + parameters.cpu_seconds_per_event * events
    while time.process_time() < end:
        pass


def _run(verb: str, job_file: Path) -> int:
    """Do the work in the current folder; the long exit code."""
    folder, report = Path.cwd(), JobReport()
    try:
        job = json.loads(job_file.read_text(encoding="utf-8"))
        fault = {"produce": produce, "merge": merge}[verb](job, folder, report)
    except (PayloadError, FaultError) as error:
        report.write(folder, error.code, type(error).__name__, str(error))
        return error.code
    except (KeyError, TypeError, ValueError) as error:
        traceback.print_exc()
        report.write(folder, BAD_PARAMETERS, type(error).__name__, f"job.json cannot be followed: {error!r}")
        return BAD_PARAMETERS
    report.write(folder)
    if fault:
        fault.spoil([folder / record.pfn for record in report.outputs])
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wms2.local.payload", description="The payload of tests and demo.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("produce", "merge"):
        verbs.add_parser(verb).add_argument("--job", type=Path, required=True)
    verbs.add_parser("check").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.verb == "check":
        sys.stdout.write(json.dumps(check(options.files).summary()) + "\n")
        return 0
    code = _run(options.verb, options.job)
    return code % 256 or min(code, 1)


if __name__ == "__main__":
    sys.exit(main())
