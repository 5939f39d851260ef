"""Running the steps of a chain, one after another, each in a folder of its own."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Sequence

from sandbox import cmsrun, demo, fjr, process, products, task
from sandbox.failure import (
    BAD_MANIFEST,
    BAD_STEP_REPORT,
    INPUT_CODES,
    INPUT_NOT_READ,
    NO_SOFTWARE,
    OUTPUT_MISSING,
    PASSING_CODES,
    Failure,
)
from sandbox.job import Job
from sandbox.manifest import Node, Step
from sandbox.once import Once
from sandbox.pileup import PileUp
from sandbox.portion import Portion
from sandbox.process import Outcome, Watched
from sandbox.products import Product
from sandbox.report import StepMetrics
from sandbox.task import StepInput

# Each offers OPENS_ADDRESSES, DEFAULT_MODULES, command() and setup_failure().
STEP_TYPES: dict[str, ModuleType] = {"demo": demo, "cmsRun": cmsrun}
LOG = "step.log"
LOG_TAIL_LINES = 40
LOG_TAIL_BYTES = 8000


@dataclass(frozen=True)
class StepResult:
    """`inputs` is what it was told to read, as job.json says it."""

    metrics: StepMetrics
    report: fjr.StepReport
    products: dict[str, Product]
    inputs: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True)
class ChainResult:
    """`steps` by name, in their order."""

    steps: dict[str, StepResult]

    @property
    def first(self) -> StepResult:
        return next(iter(self.steps.values()))

    def product(self, step: str, module: str) -> Product:
        """An output that the job must have."""
        product = self.steps[step].products.get(module)
        if product is None:
            raise Failure(OUTPUT_MISSING, f"step {step} left no output of its module {module}", step=step)
        return product


def run_chain(job: Job, node: Node, portion: Portion, folder: Path) -> ChainResult:
    """All steps over one portion; the first that fails for good ends the job."""
    results: dict[str, StepResult] = {}
    for number, step in enumerate(job.manifest.steps, start=1):
        link = _Link(job, node, portion, number, folder / f"step_{number}_{step.name}")
        results[step.name] = link.run(results)
    return ChainResult(results)


@dataclass(frozen=True)
class _Link:
    """A step of the chain. One that fails for a passing reason runs again, from what the steps before it left."""

    job: Job
    node: Node
    portion: Portion
    number: int
    folder: Path

    @property
    def step(self) -> Step:
        return self.job.manifest.steps[self.number - 1]

    def run(self, results: dict[str, StepResult]) -> StepResult:
        for repetition in range(self.step.repetitions):
            started = time.monotonic()
            try:
                return self._run_once(results, repetition)
            except Failure as failure:
                took_sec, left_sec = time.monotonic() - started, self.job.limits.seconds_left()
                if not may_run_again(self.step.repeatable, failure.code, took_sec, left_sec):
                    raise
                print(f"step {self.step.name} runs again after {failure.code}: {failure.message}", flush=True)
                shutil.rmtree(self.folder)
        return self._run_once(results, self.step.repetitions)

    def _run_once(self, results: dict[str, StepResult], repetition: int) -> StepResult:
        job, step = self.job, self.step
        self.folder.mkdir(parents=True)
        opens_addresses = step_type(step).OPENS_ADDRESSES
        if self.number == 1:
            inputs = task.site_inputs(job, self.portion, self.folder / "inputs", opens_addresses)
        else:
            inputs = [_chained_input(job.manifest.steps[self.number - 2], step, results)]
        record = task.describe(job, self.node, self.portion, step, inputs, _modules(job, step))
        mixed = PileUp(job, step, opens_addresses)
        return run_step(job, step, self.folder, "produce", {**record, "repetition": repetition}, mixed)


def may_run_again(repeatable: bool, code: int, took_sec: float, left_sec: float) -> bool:
    """Another run needs as long again; one that would break the job's limit is left to another attempt."""
    return repeatable and code in PASSING_CODES and took_sec < left_sec


def run_step(
    job: Job, step: Step, folder: Path, verb: str, record: dict[str, Any], mixed: PileUp | None = None
) -> StepResult:
    """One program run to its end, judged, measured and entered in the job's report."""
    task.write(folder, {**record, "pileup": mixed.describe(record["seed"])} if mixed else record)
    outcome, report, code, message = _execute(job, step, folder, verb, record)
    if not code:
        code, message = _overlooked(step, folder, report, record)
    written = products.found(folder, report)
    metrics = _metrics(job, step, outcome, report, written, code)
    job.report.add_step(metrics)
    if mixed:
        job.report.add_pileup(mixed.read_in(report.pileup))
    print(
        f"step {step.name}: exit {code}, {outcome.wall_sec:.1f} s, {metrics.events_written} events",
        flush=True,
    )
    if code:
        bad_inputs, bad_pileup = blamed(code, message, report, record["input_files"], mixed)
        raise Failure(
            code,
            message,
            step=step.name,
            bad_input_files=bad_inputs,
            log_tail=log_tail(folder / LOG),
            bad_pileup_files=bad_pileup,
        )
    return StepResult(metrics, report, written, record["input_files"])


def _execute(
    job: Job, step: Step, folder: Path, verb: str, record: dict[str, Any]
) -> tuple[Outcome, fjr.StepReport, int, str]:
    """Run a step's program; how it ended, what it reported, and the long exit code and message of both."""
    kind = step_type(step)
    threads = str(job.manifest.threads(step))
    environment = {**job.environment, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    command = kind.command(folder, verb, record, environment)
    watched = Watched(job.folder, folder, job.limits, step.stall_sec, step.silent_sec)
    once = Once(job, step)
    once.begins()
    try:
        outcome = process.run(command, environment, folder / LOG, watched)
    except OSError as error:
        once.never_began()
        message = f"{command[0]} cannot be started: {error.strerror or error}"
        raise Failure(NO_SOFTWARE, message, step=step.name) from None
    report = fjr.read(folder / fjr.NAME)
    if report.complete:
        fjr.copy(folder / fjr.NAME, job.folder / fjr.NAME)
    not_begun = None if outcome.ended else kind.setup_failure(folder, outcome.short_code)
    if not_begun:
        once.never_began()
        return (outcome, report, *not_begun)
    code, message = judge(outcome, report)
    once.ended(outcome, report, code)
    return outcome, report, code, message


def _overlooked(step: Step, folder: Path, report: fjr.StepReport, record: dict[str, Any]) -> tuple[int, str]:
    """What a step that ended well has left out all the same: an input that it skipped, an output that is not there."""
    left_out = {name.replace("file:", "", 1) for name in report.skipped_files}
    inputs = [(item["lfn"], item["pfn"].replace("file:", "", 1)) for item in record["input_files"]]
    skipped = [lfn or pfn for lfn, pfn in inputs if {lfn, pfn} & left_out]
    skipped = skipped or _unread(report, record)
    if skipped:
        return INPUT_NOT_READ, f"step {step.name} ended well but skipped its input: {', '.join(skipped)}"
    wrong = products.fault(folder, report, [item["module"] for item in record["outputs"]])
    return (OUTPUT_MISSING, f"step {step.name}: {wrong}") if wrong else (0, "")


def _unread(report: fjr.StepReport, record: dict[str, Any]) -> list[str]:
    """Planned files that the report does not name, although they have events and all of them were to be read.

    With chosen lumi sections, or a range of positions, there may have been nothing to read in a file. And where the
    report names files that nobody planned, it has other names for them: then nobody is blamed.
    """
    planned = [item for item in record["input_files"] if item["lfn"]]
    partly = any(item["first_event"] or item["last_event"] for item in planned)
    # A merge is told no lumi sections at all: what it read is judged by what it wrote.
    if partly or record.get("lumis", ()) is not None:
        return []
    if not all(any(names(entry, item) for item in planned) for entry in report.inputs):
        return []
    unnamed = [item for item in planned if not any(names(entry, item) for entry in report.inputs)]
    return [item["lfn"] for item in unnamed if item["events"]]


def names(entry: fjr.InputEntry, item: dict[str, Any]) -> bool:
    """Whether an entry of a report is about an input of the step: by its logical name, or by what was opened."""
    opened, told = (pfn.replace("file:", "", 1) for pfn in (entry.pfn, item["pfn"]))
    return entry.lfn == item["lfn"] or opened.endswith(item["lfn"]) or opened == told


def step_type(step: Step) -> ModuleType:
    if step.type not in STEP_TYPES:
        raise Failure(
            BAD_MANIFEST, f"step {step.name} is of type {step.type}; known are {', '.join(STEP_TYPES)}"
        )
    return STEP_TYPES[step.type]


def judge(outcome: Outcome, report: fjr.StepReport) -> tuple[int, str]:
    """The long exit code of a step and what to say about it; (0, "") only if process and report agree on success.

    A process returns eight bits only, so the report's code is taken when its low byte fits. When the report claims
    success and the process failed, the process is believed.
    """
    if outcome.ended:
        return outcome.ended.code, outcome.ended.message
    if outcome.status < 0:
        return outcome.short_code, f"the step was ended by signal {-outcome.status}"
    if outcome.status == 0:
        if report.exit_code:
            return report.exit_code, report.message
        if not report.complete:
            return BAD_STEP_REPORT, f"the step ended well but left no readable {fjr.NAME}"
        return 0, ""
    code, message = report.error_for(outcome.status)
    if code and code % 256 == outcome.status:
        return code, message
    return outcome.status, report.message or f"the step ended with exit code {outcome.status}"


def log_tail(log: Path) -> list[str]:
    """The last lines that a step wrote."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
    except OSError:
        return []


def _chained_input(previous: Step, step: Step, results: dict[str, StepResult]) -> StepInput:
    """What an earlier step wrote; where nothing is named, the first output of the step before."""
    source = step.input_step or previous.name
    if source not in results:
        raise Failure(BAD_MANIFEST, f"step {step.name} reads from {source}, which does not come before it")
    products = results[source].products
    module = step.input_module or next(iter(products), "")
    if module not in products:
        raise Failure(OUTPUT_MISSING, f"step {source} left no output for step {step.name}", step=source)
    return StepInput(lfn="", pfn=str(products[module].path))


def _modules(job: Job, step: Step) -> list[str]:
    """The output modules that a step must fill: for datasets, and for the steps that read from it."""
    modules = [output.module for output in job.manifest.outputs if output.step == step.name]
    previous = None
    for later in job.manifest.steps:
        if later.input_module and (later.input_step or previous) == step.name:
            modules.append(later.input_module)
        previous = later.name
    return list(dict.fromkeys(modules)) or list(step_type(step).DEFAULT_MODULES)


def _metrics(
    job: Job, step: Step, outcome: Outcome, report: fjr.StepReport, written: dict[str, Product], code: int
) -> StepMetrics:
    """Of a run that failed its time and memory count, its events do not: another run has them again."""
    files = [] if code else list(written.values())
    return StepMetrics(
        name=step.name,
        type=step.type,
        exit_code=code,
        wall_sec=round(outcome.wall_sec, 3),
        cpu_sec=round(outcome.cpu_sec, 3),
        peak_rss_mb=outcome.peak_rss_mb,
        events_read=0 if code else sum(entry.events_read for entry in report.inputs),
        events_written=max((product.events for product in files), default=0),
        output_bytes=sum(product.path.stat().st_size for product in files),
        threads=job.manifest.threads(step),
    )


def blamed(
    code: int, message: str, report: fjr.StepReport, inputs: Sequence[dict[str, Any]], mixed: PileUp | None
) -> tuple[list[str], list[str]]:
    """Which input files and which pile-up the step could not use, by the first that names any: error, skip, fallback.

    Where none does, the only input file is it, unless there was pile-up as well.
    """
    if code not in INPUT_CODES:
        return [], []
    files = [item for item in inputs if item["lfn"]]
    for told in (message, "\n".join(report.skipped_files), "\n".join(report.unread_fallbacks)):
        named = [item["lfn"] for item in files if item["lfn"] in told or item["pfn"] in told]
        pileup = mixed.named_in(told) if mixed else []
        if named or pileup:
            return named, pileup
    return [item["lfn"] for item in files if len(files) == 1 and not mixed], []
