"""One execution of a node: what its log and its reports say of it."""

from __future__ import annotations

import os

from post_script.files import clean, cleaned, read_json
from post_script.joblog import read_attempt, wall_seconds
from post_script.names import (
    MANIFEST,
    MERGE_INPUT,
    PILEUP,
    REMOVED,
    is_site_name,
    is_stop,
    job_report_path,
    report_path,
    role_of,
)
from post_script.outputs import MERGED, UNMERGED, own_files, possible_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from post_script.job_report import JobReport

REPORT_MISSING = 99303
ENDED_EARLY = 50669
"""What a report says as long as its job has not written the last one."""
OUTCOME_UNKNOWN = 99501
MUST_NOT_RUN_AGAIN = (OUTCOME_UNKNOWN, 99502)
"""A step that is not repeatable has begun. This matters more than how the job ended."""
INPUT_CODES = (8016, 8020, 8021, 8022, 8027, 8028, 8034)
"""An input file could not be opened, read or made sense of."""
BY_SIGNAL = 128
LONGEST_MESSAGE, LONGEST_NAME = 4000, 1000

_SITE_ATTRIBUTES = (
    "MachineAttrGLIDEIN_CMSSite0",
    "JOB_GLIDEIN_CMSSite",
    "MATCH_EXP_JOB_GLIDEIN_CMSSite",
    "MATCH_GLIDEIN_CMSSite",
    "GLIDEIN_CMSSite",
    "JOB_CMSSite",
)


class Attempt:
    """The facts of an attempt, each from the source that knows it best."""

    def __init__(self, node: str, returned: int, cluster: int) -> None:
        self.node = node
        self.returned = returned
        self.cluster = cluster
        self.log = read_attempt(f"{node}.log", cluster)
        self.report = _own_report(node, cluster)
        self.job_report: JobReport | None = None
        self.removal_reason: str = clean(self.log.get("removal_reason"), LONGEST_MESSAGE)
        self.hold_reason: str = clean(self.log.get("hold_reason"), LONGEST_MESSAGE)
        self.site = self._site()
        self.exit_code = self._exit_code()
        self.lone = self.node != "landing" and 0 < self.exit_code < 256 and self.exit_code == self.returned
        """Whether the exit code is no more than the eight bits of a process, whoever told them."""
        if self.exit_code != 0 and self.job_report is None:
            # Of a success the wrapper's own report says all; of a failure cmsRun may know more.
            self.job_report = self._read_job_report()

    @property
    def stopped(self) -> bool:
        """Somebody stopped the DAG: no failure of the node."""
        unknown = self.exit_code == OUTCOME_UNKNOWN
        return self.returned == REMOVED and not unknown and is_stop(self.removal_reason)

    @property
    def exit_signal(self) -> int | None:
        """The signal that ended the process; DAGMan gives it as a negative number."""
        if -100 < self.returned < 0:
            return -self.returned
        signal = self.log.get("exit_signal")
        return signal if isinstance(signal, int) else None

    @property
    def message(self) -> str:
        """What the payload said was wrong, in the words of whoever knows best."""
        if self.report is None and self.exit_code == OUTCOME_UNKNOWN:
            return "the job left no word, and has a step that must not run twice"
        said = clean((self.report or {}).get("exit_message"), LONGEST_MESSAGE)
        if self.job_report and self.job_report.message and not (said and self._report_is_right()):
            said = clean(self.job_report.message, LONGEST_MESSAGE)
        return said

    def _site(self) -> str:
        ad = self.log["ad"]
        for name in [ad.get(attribute) for attribute in _SITE_ATTRIBUTES] + [(self.report or {}).get("site")]:
            if is_site_name(name):
                return str(name)
        return ""

    def _exit_code(self) -> int:
        """The long code of a report that agrees with how the process ended; else the process is right."""
        if self.report is None and self._may_have_run_once():
            return OUTCOME_UNKNOWN
        if self.node == "landing" or self.returned <= -1000:
            return self.returned
        signal = self.exit_signal
        if self.report is None and self.returned == 0:
            return REPORT_MISSING
        reported = (self.report or {}).get("exit_code")
        if self._report_is_right() or reported in MUST_NOT_RUN_AGAIN:
            return int(reported or 0)
        if signal is not None:
            return BY_SIGNAL + signal
        if self.returned == 0:
            # A wrapper that reports a failure and exits with 0 has failed; one that reports nothing as well.
            return reported if type(reported) is int and reported else REPORT_MISSING
        return self._code_of_job_report() or self.returned

    def _may_have_run_once(self) -> bool:
        """Whether the job began, left no word, and has a step that must not run twice."""
        if not self.log.get("executed") or self.node in ("landing", "cleanup"):
            return False
        payload = (read_json(MANIFEST) or {}).get("payload")
        payload = payload if isinstance(payload, dict) else {}
        steps = [payload.get("merge")] if self.node == "merge" else payload.get("steps")
        return any(isinstance(step, dict) and step.get("repeatable") is False for step in steps or ())

    def _report_is_right(self) -> bool:
        """Whether the report's code is the one that the process returned, or could not return."""
        reported = (self.report or {}).get("exit_code")
        if type(reported) is not int:
            return False
        if self.exit_signal is not None:
            return reported not in (0, ENDED_EARLY)
        if reported == 0 or self.returned == 0:
            return reported == self.returned
        return (reported % 256 or 1) == self.returned % 256

    def _code_of_job_report(self) -> int | None:
        """What cmsRun reported, if its low byte is what the process returned."""
        self.job_report = self._read_job_report()
        code = self.job_report.exit_code
        return code if code and code % 256 == self.returned % 256 else None

    def _read_job_report(self) -> JobReport:
        from post_script.job_report import JobReport

        return JobReport(job_report_path(self.node, self.cluster), self.returned)

    def job(self) -> dict[str, Any]:
        """The `job` block of post.json."""
        ad, log, report = self.log["ad"], self.log, self.report or {}
        return {
            "exit_code": self.exit_code,
            "exit_signal": self.exit_signal,
            "hold_reason": self.hold_reason or None,
            "removal_reason": self.removal_reason or None,
            "wall_time_sec": self._wall_sec(),
            "cpu_time_sec": _first_number(
                report.get("cpu_sec"),
                log.get("cpu_sec") or None,
                ad.get("RemoteUserCpu"),
                self._metric("TotalJobCPU"),
            ),
            "memory_mb": _first_number(
                report.get("peak_rss_mb"),
                ad.get("MemoryUsage"),
                log.get("memory_mb"),
                self._metric("PeakValueRss"),
            ),
            "site": self.site or None,
            "schedd": clean(log.get("schedd"), LONGEST_NAME) or None,
        }

    def _wall_sec(self) -> int | float | None:
        """By the job's own clock, else HTCondor's, which is often not set yet when a job ends, else by the log."""
        clock = self.log["ad"].get("RemoteWallClockTime") or None
        measured = _first_number((self.report or {}).get("wall_sec"), clock)
        return wall_seconds(self.log) if measured is None else measured

    def _metric(self, name: str) -> float | None:
        return self.job_report.metric(name) if self.job_report else None

    def produced(self) -> dict[str, Any]:
        """What a good attempt leaves for the merge. The report itself may be gone by then; this record is not."""
        report = self.report or {}
        pilot = report.get("pilot")
        return {
            **{key: self._entries(key) for key in ("outputs", "steps", "inputs")},
            "pilot": cleaned(pilot, LONGEST_NAME) if isinstance(pilot, dict) else None,
            "site": report.get("site"),
        }

    def left(self) -> list[dict[str, str]]:
        """What may be on the storage of the site where it ran: of an attempt that left no word nobody else can say."""
        if self.report is not None or not self.log.get("executed") or not self.site:
            return []
        if role_of(self.node) not in ("proc", "merge"):
            return []
        known = read_json(MANIFEST) or {}, read_json(MERGE_INPUT) or {}
        reason = "it may be of an attempt that left no report"
        return [
            {"lfn": lfn, "site": self.site, "reason": reason}
            for lfn in possible_files(*known, self.node, self.cluster)
        ]

    def payload(self) -> dict[str, Any]:
        """The `cmssw` block of post.json: what the payload itself said."""
        steps = self._entries("steps")
        outputs = self._entries("outputs")
        inputs = [clean(file.get("lfn"), LONGEST_NAME) for file in self._entries("inputs")]
        if not inputs and self.job_report:
            inputs = [clean(lfn, LONGEST_NAME) for lfn in self.job_report.input_files()]
        code = (self.report or {}).get("exit_code")
        return {
            "exit_code": code if type(code) is int else self.job_report and self.job_report.exit_code,
            "steps": {clean(step.get("name"), LONGEST_NAME): _step(step) for step in steps},
            "error_message": self.message,
            "input_files": inputs,
            "output_files": [clean(file.get("lfn"), LONGEST_NAME) for file in outputs],
            "performance": {
                "peak_rss_mb": _first_number(
                    (self.report or {}).get("peak_rss_mb"), self._metric("PeakValueRss")
                ),
                "avg_event_time_sec": _first_number(self._metric("AvgEventTime"), _event_sec(steps)),
                "events_read": _sum(steps[:1], "events_read") or self._events_read(),
                "events_written": _sum(outputs, "events"),
            },
        }

    def _events_read(self) -> int:
        """The wrapper counts the events of a step that succeeded; how far a failed one came, cmsRun says."""
        return self.job_report.events_read() if self.job_report else 0

    def bad_input_files(self) -> list[str]:
        """Those that the wrapper names; where it left no word, those that cmsRun's own report speaks of."""
        named = [] if self.node == "merge" else self.names("bad_input_files")
        if named or self._report_is_right() or self.exit_code not in INPUT_CODES or not self.job_report:
            return named
        bad = self.job_report.bad_files(_planned_files(self.node), with_pileup=os.path.exists(PILEUP))
        return [clean(lfn, LONGEST_NAME) for lfn in bad]

    def names(self, key: str) -> list[str]:
        """A list of names in the report; empty when it is none."""
        names = (self.report or {}).get(key)
        return (
            [clean(name, LONGEST_NAME) for name in names if isinstance(name, str)]
            if isinstance(names, list)
            else []
        )

    def _entries(self, key: str) -> list[dict[str, Any]]:
        entries = (self.report or {}).get(key)
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    def unusable_output(self) -> str | None:
        """Why a report that says success cannot be merged from; None when it can."""
        report = self.report or {}
        outputs = report.get("outputs")
        if not isinstance(outputs, list) or not is_site_name(report.get("site")):
            return "the report of a success names no outputs or no site"
        if not outputs:
            return None
        own = own_files(outputs, read_json(MANIFEST) or {}, MERGED if self.node == "merge" else UNMERGED)
        if len(own) < len(outputs) or not all(_is_whole(output) for output in own):
            return "the report of a success names an output that is none"
        return None


def _is_whole(output: dict[str, Any]) -> bool:
    named = isinstance(output.get("dataset"), str) and is_site_name(output.get("site"))
    return named and type(output.get("events")) is int


def _own_report(node: str, cluster: int) -> dict[str, Any] | None:
    """The report of this very attempt: one that names another node or cluster is not believed."""
    report = read_json(report_path(node, cluster))
    if report is None or report.get("node") != node or report.get("cluster") != cluster:
        return None
    return report


def _planned_files(node: str) -> list[str]:
    plan = ((read_json(MANIFEST) or {}).get("nodes") or {}).get(node) or {}
    return [file["lfn"] for file in plan.get("files") or ()]


def _event_sec(steps: list[dict[str, Any]]) -> float | None:
    """Of the first step, by the wrapper's clock; for when nobody looked into cmsRun's own report."""
    step = steps[0] if steps else {}
    wall = _first_number(step.get("wall_sec"))
    counts = [step.get("events_read"), step.get("events_written")]
    events = max([count for count in counts if type(count) is int], default=0)
    return wall / events if wall is not None and events > 0 else None


def _step(step: dict[str, Any]) -> dict[str, Any]:
    code = step.get("exit_code")
    return {"status": int(code != 0), "exit_code": code if type(code) is int else None}


def _first_number(*candidates: Any) -> int | float | None:
    """Infinity and what is no number have no place in JSON."""
    numbers = (number for number in candidates if type(number) in (int, float))
    return next((number for number in numbers if abs(number) < 1e300), None)


def _sum(entries: list[dict[str, Any]], key: str) -> int:
    return sum(number for number in (entry.get(key) for entry in entries) if type(number) is int)
