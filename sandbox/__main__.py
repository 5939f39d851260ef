"""The wrapper around every job: `sandbox process|pilot|merge|cleanup NODE`.

Whatever happens, report.json and FrameworkJobReport.xml are left in the job's folder, and no process stays behind.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Callable, Mapping, NoReturn, Sequence

from sandbox import cleanup, fjr, job, merge, pilot, process, processing
from sandbox.failure import (
    BAD_ARGUMENTS,
    DONE_ALREADY,
    KILLED,
    OUTCOME_UNKNOWN,
    SCRATCH_FULL,
    TOO_LONG,
    UNKNOWN,
    Failure,
    exit_status,
)
from sandbox.job import Job
from sandbox.limits import Limits
from sandbox.manifest import WORD, load_manifest, load_merge_input
from sandbox.report import Report

MODES: dict[str, Callable[[Job], None]] = {
    "process": processing.run,
    "pilot": pilot.run,
    "merge": merge.run,
    "cleanup": cleanup.run,
}
PLACEHOLDERS = (KILLED, OUTCOME_UNKNOWN, DONE_ALREADY)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


CARRIED = "job.token"


def main() -> NoReturn:
    """Entry point of the archive."""
    if os.path.exists(CARRIED):
        # Where the programs of the experiment look for one.
        os.environ["BEARER_TOKEN_FILE"] = os.path.abspath(CARRIED)
    sys.exit(run(sys.argv[1:], Path.cwd(), os.environ))


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Run one job in `folder`; the exit status of its process."""
    mode, node = [*arguments, "", ""][:2]
    report = Report(mode=mode, node=node)
    _write(report, folder)
    for number in SIGNALS:
        signal.signal(number, _killed)
    started = time.monotonic()
    prepared: list[Job] = []
    try:
        _execute(arguments, folder, environment, report, prepared)
    except BaseException as error:  # a job without a report is the one failure nobody could explain
        _ignore_signals()
        process.end_all()
        report.fail(_as_failure(error))
        _write(report, folder)
        for item in prepared:
            item.stage_out.undo()
    _ignore_signals()
    if mode == "cleanup" and report.exit_code:
        _excuse(report, folder)
    report.wall_sec = round(time.monotonic() - started, 3)
    _write(report, folder)
    _say(report)
    return exit_status(report.exit_code)


def _execute(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    report: Report,
    prepared: list[Job],
) -> None:
    if len(arguments) != 2 or report.mode not in MODES or not WORD.fullmatch(report.node):
        raise Failure(BAD_ARGUMENTS, f"usage: sandbox {'|'.join(MODES)} NODE")
    report.site, report.cluster = job.site_and_cluster(environment)
    work = job.prepare(folder, environment, report, load_manifest(folder))
    prepared.append(work)
    _set_alarm(work.limits)
    MODES[report.mode](work)
    work.stage_out.keep()
    report.succeed()


def _killed(number: int, _frame: FrameType | None) -> NoReturn:
    _ignore_signals()
    raise Failure(KILLED, f"the job was ended by {signal.Signals(number).name}")


def _set_alarm(limits: Limits) -> None:
    """Inputs that do not come and outputs that do not go must not use up the time in which a report can be sent."""

    def out_of_time(_number: int, _frame: FrameType | None) -> NoReturn:
        _ignore_signals()
        told = f"wall time: the job may run for {limits.wall_sec:.0f} s before its report must be sent"
        raise Failure(TOO_LONG, f"{told}, and they are over")

    if limits.wall_sec is not None:
        signal.signal(signal.SIGALRM, out_of_time)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, limits.seconds_to_alarm()))


def _ignore_signals() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _as_failure(error: BaseException) -> Failure:
    if isinstance(error, Failure):
        return error
    traceback.print_exc()
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure(SCRATCH_FULL, f"the job's disk is full: {error}")
    return Failure(UNKNOWN, f"the wrapper itself failed: {type(error).__name__}: {error}")


def _excuse(report: Report, folder: Path) -> None:
    """A clean-up never fails; what it did not get to is left for later."""
    known = {item["lfn"] for item in report.left} | set(report.removed)
    try:
        merged = load_merge_input(folder)
    except Failure:
        names: list[str] = []
    else:
        names = [file.lfn for file in merged.files] + list(merged.leftovers)
    for lfn in names:
        if lfn not in known:
            report.leave(lfn, report.exit_message)
    report.succeed(report.exit_message)


def _write(report: Report, folder: Path) -> None:
    """Both files; a step's own job report stays if it tells the same as the wrapper's."""
    report.write(folder)
    path = folder / fjr.NAME
    told = fjr.read(path)
    if not told.complete or told.exit_code != report.exit_code or report.exit_code in PLACEHOLDERS:
        fjr.write(path, report.exit_code, report.exit_message)


def _say(report: Report) -> None:
    if report.exit_code:
        where = f" in step {report.failed_step}" if report.failed_step else ""
        print(f"failed with {report.exit_code}{where}: {report.exit_message}", file=sys.stderr)
        for line in report.log_tail:
            print(f"  | {line}", file=sys.stderr)
    else:
        print(f"done: {len(report.outputs)} outputs, {len(report.removed)} removed, {report.wall_sec:.1f} s")


if __name__ == "__main__":
    main()
