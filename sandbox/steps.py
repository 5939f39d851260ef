"""Running the steps of a chain, one after another, each in a folder of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Sequence

from sandbox import cmsrun, demo, fjr, process, task
from sandbox.failure import (
    BAD_MANIFEST,
    BAD_STEP_REPORT,
    INPUT_CODES,
    NO_SOFTWARE,
    OUTPUT_MISSING,
    STALLED,
    Failure,
)
from sandbox.job import Job
from sandbox.manifest import Node, Step
from sandbox.portion import Portion
from sandbox.process import Outcome
from sandbox.report import StepMetrics
from sandbox.task import StepInput

# Each offers OPENS_ADDRESSES, DEFAULT_MODULES, command() and setup_failure().
STEP_TYPES: dict[str, ModuleType] = {"demo": demo, "cmsRun": cmsrun}
LOG = "step.log"
LOG_TAIL_LINES = 40
LOG_TAIL_BYTES = 8000


@dataclass(frozen=True)
class Product:
    """A file that a step wrote."""

    path: Path
    events: int
    lumis: tuple[fjr.Lumi, ...]


@dataclass(frozen=True)
class StepResult:
    metrics: StepMetrics
    report: fjr.StepReport
    products: dict[str, Product]


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
    """All steps over one portion; the first that fails ends the job."""
    results: dict[str, StepResult] = {}
    for number, step in enumerate(job.manifest.steps, start=1):
        step_folder = folder / f"step_{number}_{step.name}"
        step_folder.mkdir(parents=True)
        if number == 1:
            opens_addresses = step_type(step).OPENS_ADDRESSES
            inputs = task.site_inputs(job, portion, step_folder / "inputs", opens_addresses)
        else:
            inputs = [_chained_input(job.manifest.steps[number - 2], step, results)]
        record = task.describe(job, node, portion, step, inputs, _modules(job, step))
        results[step.name] = run_step(job, step, step_folder, "produce", record)
    return ChainResult(results)


def run_step(job: Job, step: Step, folder: Path, verb: str, record: dict[str, Any]) -> StepResult:
    """One program run to its end, judged, measured and entered in the job's report."""
    task.write(folder, record)
    kind = step_type(step)
    threads = str(job.manifest.cores)
    environment = {**job.environment, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    command = kind.command(folder, verb, record, environment)
    try:
        outcome = process.run(command, folder, environment, folder / LOG, step.stall_sec)
    except OSError as error:
        message = f"{command[0]} cannot be started: {error.strerror or error}"
        raise Failure(NO_SOFTWARE, message, step=step.name) from None
    report = fjr.read(folder / fjr.NAME)
    if report.complete:
        fjr.copy(folder / fjr.NAME, job.folder / fjr.NAME)
    code, message = kind.setup_failure(folder, outcome.short_code) or judge(outcome, report)
    products = _products(folder, report)
    metrics = _metrics(job, step, outcome, report, products, code)
    job.report.add_step(metrics)
    print(
        f"step {step.name}: exit {code}, {outcome.wall_sec:.1f} s, {metrics.events_written} events",
        flush=True,
    )
    if code:
        bad = _bad_inputs(code, report, record["input_files"])
        raise Failure(code, message, step=step.name, bad_input_files=bad, log_tail=log_tail(folder / LOG))
    return StepResult(metrics, report, products)


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
    if outcome.stalled:
        return STALLED, "the step neither used CPU nor wrote anything, and was ended"
    if outcome.status < 0:
        return outcome.short_code, f"the step was ended by signal {-outcome.status}"
    if outcome.status == 0:
        if report.exit_code:
            return report.exit_code, report.message
        if not report.complete:
            return BAD_STEP_REPORT, f"the step ended well but left no readable {fjr.NAME}"
        return 0, ""
    if report.exit_code and report.exit_code % 256 == outcome.status:
        return report.exit_code, report.message
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


def _products(folder: Path, report: fjr.StepReport) -> dict[str, Product]:
    """The files that the report names and that are really there, inside the step's own folder."""
    products: dict[str, Product] = {}
    for entry in report.outputs:
        path = (folder / entry.pfn.replace("file:", "", 1)).resolve()
        if path.is_file() and folder.resolve() in path.parents:
            products[entry.module] = Product(path, entry.events, entry.lumis)
    return products


def _metrics(
    job: Job, step: Step, outcome: Outcome, report: fjr.StepReport, products: dict[str, Product], code: int
) -> StepMetrics:
    return StepMetrics(
        name=step.name,
        type=step.type,
        exit_code=code,
        wall_sec=round(outcome.wall_sec, 3),
        cpu_sec=round(outcome.cpu_sec, 3),
        peak_rss_mb=outcome.peak_rss_mb,
        events_read=sum(entry.events_read for entry in report.inputs),
        events_written=max((product.events for product in products.values()), default=0),
        output_bytes=sum(product.path.stat().st_size for product in products.values()),
        threads=job.manifest.cores,
    )


def _bad_inputs(code: int, report: fjr.StepReport, inputs: Sequence[dict[str, Any]]) -> list[str]:
    """Which of the job's input files the step could not use."""
    if code not in INPUT_CODES:
        return []
    told = "\n".join((report.message, *report.doubtful_files))
    files = [item for item in inputs if item["lfn"]]
    named = [item["lfn"] for item in files if item["lfn"] in told or item["pfn"] in told]
    return named or [item["lfn"] for item in files if len(files) == 1]
