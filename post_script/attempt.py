"""One execution of a node: what its log and its report say of it."""

from __future__ import annotations

from post_script.files import read_json
from post_script.joblog import read_attempt
from post_script.names import SITE_NAME, report_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPORT_MISSING = 99303
REMOVED = -1002


class Attempt:
    """The facts of an attempt, each from the source that knows it best."""

    def __init__(self, node: str, returned: int, cluster: int) -> None:
        self.node = node
        self.returned = returned
        self.cluster = cluster
        self.log = read_attempt(f"{node}.log", cluster)
        self.report = _own_report(node, cluster)
        self.removal_reason: str = self.log.get("removal_reason", "")
        self.site = self._site()
        self.exit_code = self._exit_code()

    @property
    def stopped(self) -> bool:
        """Removed, but not by a rule of ours: somebody stopped the DAG. No failure of the node."""
        return self.returned == REMOVED and not self.removal_reason.startswith("WMS2 ")

    def _site(self) -> str:
        ad = self.log["ad"]
        for name in (ad.get("MachineAttrGLIDEIN_CMSSite0"), (self.report or {}).get("site")):
            if isinstance(name, str) and SITE_NAME.fullmatch(name):
                return name
        return ""

    def _exit_code(self) -> int:
        """The long code of the report when it agrees with how the process ended; else the process is right."""
        reported = (self.report or {}).get("exit_code")
        if self.node == "landing" or self.returned < 0:
            return self.returned
        if not isinstance(reported, int):
            return self.returned or REPORT_MISSING
        if reported % 256 == self.returned % 256 and (reported == 0) == (self.returned == 0):
            return reported
        return self.returned or reported

    def job(self) -> dict[str, Any]:
        """The `job` block of post.json."""
        ad = self.log["ad"]
        report = self.report or {}
        return {
            "exit_code": self.exit_code,
            "exit_signal": self.log.get("exit_signal"),
            "hold_reason": self.log.get("hold_reason"),
            "removal_reason": self.removal_reason or None,
            "wall_time_sec": report.get("wall_sec", ad.get("RemoteWallClockTime")),
            "cpu_time_sec": report.get("cpu_sec", ad.get("RemoteUserCpu")),
            "memory_mb": report.get("peak_rss_mb", ad.get("MemoryUsage")),
            "site": self.site or None,
        }

    def produced(self) -> dict[str, Any]:
        """What a good attempt leaves for the merge. The report itself may be gone by then; this record is not."""
        report = self.report or {}
        return {key: report.get(key) for key in ("outputs", "steps", "inputs", "pilot", "site")}

    def payload(self) -> dict[str, Any]:
        """The `cmssw` block of post.json: what the payload itself said."""
        report = self.report or {}
        steps = {
            step["name"]: {"status": int(step["exit_code"] != 0), "exit_code": step["exit_code"]}
            for step in report.get("steps", [])
        }
        return {
            "exit_code": report.get("exit_code"),
            "steps": steps,
            "error_message": report.get("exit_message", ""),
            "input_files": [file["lfn"] for file in report.get("inputs", [])],
            "output_files": [file["lfn"] for file in report.get("outputs", [])],
            "performance": {
                "peak_rss_mb": report.get("peak_rss_mb"),
                "events_read": sum(step.get("events_read", 0) for step in report.get("steps", [])[:1]),
                "events_written": sum(file["events"] for file in report.get("outputs", [])),
            },
        }


def _own_report(node: str, cluster: int) -> dict[str, Any] | None:
    """The report of this very attempt: one that names another node or cluster is not believed."""
    report = read_json(report_path(node, cluster))
    if report is None or report.get("node") != node or report.get("cluster") != cluster:
        return None
    return report
