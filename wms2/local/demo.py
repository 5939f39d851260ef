"""The demo's two requests, and the look into everything that they made."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from wms2.config import Settings
from wms2.dagman.nodes import read_nodes
from wms2.dagman.outputs import produced_units
from wms2.dagman.round_folder import read_round
from wms2.errors import UserError
from wms2.local import payload
from wms2.local.inputs import make_dataset
from wms2.local.sites import SITES, storage_folder
from wms2.local.tally import RequestReport, credited_numbers, tally
from wms2.models.overview import RequestOverview
from wms2.models.request import Request
from wms2.models.request_file import validate_request_file

INPUT_FILES_PER_SITE = 4
EVENTS_PER_INPUT_FILE = 50
INPUT_EVENTS = len(SITES) * INPUT_FILES_PER_SITE * EVENTS_PER_INPUT_FILE
CAMPAIGN = "Demo"
"""By which the demo's requests are known."""

_COMMON = """\
requestor: demo
campaign: {campaign}
acquisition_era: Run2024A
processing_string: Demo_{stamp}
time_per_event_sec: 0.02
size_per_event_kb: 1.0
memory_mb: 1000
"""
# The pilot makes tiny files, which cost 4 kB an event. After it a job has twice as many events, and two jobs make a
# work unit: six of them look for a site at once, which is why they do not all land at the same one.
_SIMULATION = """\
# Make 1200 events from nothing. One job fails once on purpose, in a way that blames its site.
request_name: demo_simulation_{stamp}
primary_dataset: MinBias
total_events: 1200
outputs:
  - {{module: RAWSIMoutput, tier: GEN-SIM, step: GEN}}
splitting_algo: EventBased
splitting_params: {{events_per_job: 50, events_per_lumi: 50}}
merge_target_bytes: 1000000
payload_config:
  steps:
    - name: GEN
      type: demo
      parameters:
        kb_per_event: 1.0
        fault_dir: {faults}
        faults: [{{node: proc_000003, exit_code: 8028, times: 1}}]
"""
_REPROCESSING = """\
# Read every file of a dataset where it lies, two files a job.
request_name: demo_reprocessing_{stamp}
input_dataset: /MinBias/Run2024A-Demo_{stamp}-v1/RAW
outputs:
  - {{module: RECOoutput, tier: RECO, step: RECO}}
splitting_algo: FileBased
splitting_params: {{files_per_job: 2}}
payload_config:
  steps:
    - {{name: RECO, type: demo, parameters: {{kb_per_event: 1.0}}}}
"""


def submit_root(settings: Settings) -> Path:
    return settings.submit_root or settings.home / "submit"


def write_requests(folder: Path, now: datetime) -> list[Path]:
    """Two request files with names that were not used before: a simulation, and a reprocessing."""
    stamp = f"{now:%Y%m%d_%H%M%S}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, text in {"simulation": _SIMULATION, "reprocessing": _REPROCESSING}.items():
        path = folder / f"demo_{kind}_{stamp}.yaml"
        faults = folder / f"demo_{kind}_{stamp}.faults"
        path.write_text(
            (text + _COMMON).format(stamp=stamp, faults=faults, campaign=CAMPAIGN), encoding="utf-8"
        )
        paths.append(path)
    return paths


async def read_requests(settings: Settings, now: datetime) -> list[Request]:
    """The two requests, read from their files, with the input of the second at all sites."""
    requests = [validate_request_file(path) for path in write_requests(submit_root(settings), now)]
    for request in requests:
        if request.input_dataset:
            await make_dataset(
                settings,
                request.input_dataset,
                files=INPUT_FILES_PER_SITE,
                events_per_file=EVENTS_PER_INPUT_FILE,
                sites=SITES,
            )
    return requests


def merged_paths(home: Path, folder: Path) -> list[Path]:
    """Where the merged files of a round lie: outputs stay at the site that made them."""
    return [
        Path(f"{storage_folder(home, output.site)}{file.lfn}")
        for _, output in produced_units(folder, read_round(folder))
        for file in output.files
    ]


def report_request(settings: Settings, overview: RequestOverview) -> RequestReport:
    """Open every merged file of a request and look for each event number that it should hold."""
    record = overview.record
    request = record.request
    folders = sorted((submit_root(settings) / request.request_name).glob("round_[0-9][0-9]"))
    outputs = [output for folder in folders for _, output in produced_units(folder, read_round(folder))]
    expected = credited_numbers(outputs) if request.is_simulation else range(1, INPUT_EVENTS + 1)
    paths = [path for folder in folders for path in merged_paths(settings.home, folder)]
    try:
        content = payload.check(paths)
    except payload.PayloadError as error:
        raise UserError(f"a merged file of {request.request_name} cannot be read: {error}") from error
    nodes = [node for folder in folders for node in read_nodes(folder, read_round(folder))]
    return RequestReport(
        name=request.request_name,
        status=record.status,
        reason=record.status_reason,
        requested=request.total_events or INPUT_EVENTS,
        produced=overview.ledger.events_produced,
        events=tally(expected, content.numbers.tolist()),
        wrong_values=content.wrong_values,
        files=len(paths),
        size_bytes=sum(path.stat().st_size for path in paths),
        sites=tuple(sorted({node.site for node in nodes if node.site})),
        repeated=sum(max(0, node.attempts - 1) for node in nodes),
        rounds=len(overview.rounds),
        seconds=(record.updated_at - record.created_at).total_seconds(),
    )
