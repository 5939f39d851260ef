"""The demo: a request whose events can be counted one by one, and the counting."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from wms2.core.planning import allowed_sites, plan_round
from wms2.core.sizing import sizing_of
from wms2.dagman.nodes import read_nodes
from wms2.dagman.outputs import produced_units
from wms2.dagman.round_folder import RoundFile, read_round
from wms2.local import payload
from wms2.local.sites import SITES, storage_folder
from wms2.models.base import Model
from wms2.models.plan import Limits, RoundPlan, Snapshot
from wms2.models.request import Request
from wms2.models.request_file import read_request

EVENTS = 1000

_REQUEST = """
request_name: {name}
requestor: demo
campaign: Demo
primary_dataset: MinBias
acquisition_era: Run2024A
processing_string: Demo
total_events: {events}
outputs:
  - {{module: RAWSIMoutput, tier: GEN-SIM, step: GEN}}
splitting_algo: EventBased
splitting_params: {{events_per_job: 100, events_per_lumi: 50}}
time_per_event_sec: 0.001
size_per_event_kb: 1.0
memory_mb: 1000
merge_target_bytes: 400000
payload_config:
  steps:
    - name: GEN
      type: demo
      parameters:
        kb_per_event: 1.0
        fault_dir: {fault_dir}
        faults: [{{node: proc_000003, exit_code: 8028, times: 1}}]
"""


class EventCount(Model):
    """The merged files, read event by event and held against what was planned."""

    planned: int
    found: int
    missing: int
    twice: int
    unexpected: int
    wrong_values: int
    files: int
    size_bytes: int

    @property
    def exact(self) -> bool:
        return self.found == self.planned and not (
            self.missing or self.twice or self.unexpected or self.wrong_values
        )


def demo_request(fault_dir: Path) -> Request:
    """A simulation in which one job fails once, under a name that was not used before."""
    name = f"demo_{datetime.now(UTC):%Y%m%d_%H%M%S}"
    return read_request(_REQUEST.format(name=name, events=EVENTS, fault_dir=fault_dir), "the demo's request")


def demo_plan(request: Request) -> RoundPlan:
    return plan_round(
        Snapshot(
            request=request,
            events=request.total_events or 0,
            sites=allowed_sites(request, list(SITES)),
            sizing=sizing_of(request, None),
            limits=Limits(log_scan_sec=1, status_sec=1),
        )
    )


def merged_paths(home: Path, folder: Path) -> list[Path]:
    """Where the merged files of a round lie: outputs stay at the site that made them."""
    return [
        Path(f"{storage_folder(home, output.site)}{file.lfn}")
        for _, output in produced_units(folder, read_round(folder))
        for file in output.files
    ]


def count_events(home: Path, folder: Path) -> EventCount:
    """Open every merged file of a simulated round and look for each planned event number."""
    paths = merged_paths(home, folder)
    content = payload.check(paths)
    found = Counter(content.numbers.tolist())
    planned = _planned_numbers(read_round(folder))
    return EventCount(
        planned=len(planned),
        found=content.events,
        missing=len(planned - found.keys()),
        twice=sum(1 for times in found.values() if times > 1),
        unexpected=len(found.keys() - planned),
        wrong_values=content.wrong_values,
        files=len(paths),
        size_bytes=sum(path.stat().st_size for path in paths),
    )


def _planned_numbers(planned: RoundFile) -> set[int]:
    return {
        number
        for unit in planned.work_units
        if unit.first_event is not None and unit.last_event is not None
        for number in range(unit.first_event, unit.last_event + 1)
    }


def sites_and_retries(folder: Path) -> tuple[list[str], int]:
    """Where the nodes of a round ran, and how many attempts were repeated."""
    rows = list(read_nodes(folder, read_round(folder)))
    return sorted({row.site for row in rows if row.site}), sum(max(0, row.attempts - 1) for row in rows)
