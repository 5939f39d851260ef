"""`wms2 request validate | plan`: request files, looked at without any server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.markup import escape

from wms2.cli.screen import duration_text, print_json, print_table, say, size_text
from wms2.core.planning import allowed_sites, events_to_generate, plan_round
from wms2.core.sizing import job_sec, sizing_of
from wms2.dagman.round_folder import write_round
from wms2.errors import UserError
from wms2.local.sites import SITES
from wms2.models.chain import LinkedRequest
from wms2.models.chain_file import read_linked_requests
from wms2.models.mistakes import listed
from wms2.models.plan import InputFile, Limits, RoundPlan, Snapshot
from wms2.models.request import Request

app = typer.Typer()

File = Annotated[Path, typer.Argument(metavar="FILE", help="A request file, YAML or JSON.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def validate(file: File, as_json: AsJson = False) -> None:
    """Check a request file and name every mistake in it.

    With --json the request is printed; of a chain of tasks, a list of its requests, each with the one it reads from.

    Example: wms2 request validate examples/simulation.yaml
    """
    linked = read_linked_requests(file)
    _tell(dict.fromkeys(note for link in linked for note in (*link.request.notes, *_several(linked))))
    if as_json and len(linked) == 1:
        print_json(linked[0].request.model_dump(mode="json"))
    elif as_json:
        print_json([link.model_dump(mode="json") for link in linked])
    else:
        for link in linked:
            reads = f" It reads what [bold]{link.parent}[/] makes." if link.parent else ""
            say(f"{escape(str(file))}: request [bold]{link.request.request_name}[/] is valid.{reads}")


@app.command()
def plan(
    file: File,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the round; made new. None: only look at it."),
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE", help="JSON list of the input files.")
    ] = None,
    site: Annotated[
        list[str] | None, typer.Option("--site", help="A site that may run it; again for more.")
    ] = None,
    nodes_per_round: Annotated[
        int, typer.Option("--nodes-per-round", metavar="N", min=1, help="How many nodes the round may have.")
    ] = Limits().nodes_per_round,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="TASK", help="Of a chain of tasks, the request that begins with this one."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan the first round of a request into a folder, without any server.

    Each entry of --inputs is {lfn, size_bytes, events, locations, lumis: [\\[run, first, last]], block}.
    A round takes as many work units as its limit of nodes allows; a higher one plans more of the request at once.
    A chain of tasks is several requests: the first one is planned, or the one that --task names, such as Task3.

    Example: wms2 request plan examples/simulation.yaml --out /tmp/round && wms2 dag run /tmp/round
    """
    linked = read_linked_requests(file)
    request = _of_the_task(linked, task)
    # Without a pool nobody knows which sites there are: those that the request names, then.
    snapshot = _snapshot(request, inputs, site or list(request.site_whitelist or SITES), nodes_per_round)
    planned = plan_round(snapshot)
    digest = write_round(planned, out.absolute()).digest if out else None
    summary = _summary(planned, digest, out)
    _tell([*request.notes, *_several(linked), *planned.problems, *_waiting(planned), *_unwritten(out)])
    if as_json:
        print_json(summary)
    else:
        print_table(
            ["", ""], [(name.replace("_", " "), _shown(name, value)) for name, value in summary.items()]
        )


def _of_the_task(linked: Sequence[LinkedRequest], task: str | None) -> Request:
    if task is None:
        return linked[0].request
    chosen = [link.request for link in linked if link.request.request_name.endswith(f"_{task}")]
    if len(linked) == 1 or not chosen:
        names = ", ".join(_task(link) for link in linked) if len(linked) > 1 else "none, it is one request"
        raise UserError(f"no request begins with the task {task}; those that --task can name are: {names}")
    return chosen[0]


def _task(link: LinkedRequest) -> str:
    return link.request.request_name.rsplit("_", 1)[-1]


def _several(linked: Sequence[LinkedRequest]) -> Iterator[str]:
    if len(linked) > 1:
        yield (
            f"a chain of tasks, it becomes {len(linked)} requests that begin with {', '.join(map(_task, linked))}; "
            "`wms2 request import NAME` takes them on from ReqMgr2"
        )


def _unwritten(out: Path | None) -> Iterator[str]:
    if out is None:
        yield "nothing was written; --out DIR writes the round"


def _tell(notes: Iterable[str]) -> None:
    for note in notes:
        say(f"[yellow]Note:[/] {escape(note)}")


def _snapshot(request: Request, inputs: Path | None, sites: list[str], nodes_per_round: int) -> Snapshot:
    if request.is_simulation and inputs is not None:
        raise UserError(f"{request.request_name} is a simulation and reads no files; leave --inputs away")
    if not request.is_simulation and inputs is None:
        raise UserError(
            f"{request.request_name} reads {request.input_dataset}; list its files with --inputs FILE, "
            "`wms2 request plan --help` says how"
        )
    wanted = request.total_events or 0
    files = read_inputs(inputs) if inputs else ()
    try:
        return Snapshot(
            request=request,
            events=events_to_generate(wanted, request.filter_efficiency) if request.is_simulation else 0,
            first_event=request.first_event,
            first_lumi=request.first_lumi,
            inputs=files,
            sites=allowed_sites(request, sites),
            priority=request.priority,
            sizing=sizing_of(request, None),
            limits=Limits(log_scan_sec=1, status_sec=5, cool_off_sec=0, nodes_per_round=nodes_per_round),
        )
    except ValidationError as error:
        raise UserError(f"the round cannot be planned:\n{listed(error)}") from error


def read_inputs(path: Path) -> tuple[InputFile, ...]:
    """The files of an --inputs list, every mistake at once."""
    try:
        return TypeAdapter(tuple[InputFile, ...]).validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UserError(f"{path} is not a list of input files:\n{listed(error)}") from error


def _summary(planned: RoundPlan, digest: str | None, out: Path | None) -> dict[str, object]:
    sizing = planned.snapshot.sizing
    largest = max(job.events for unit in planned.work_units for job in unit.jobs)
    files = {part.lfn for unit in planned.work_units for job in unit.jobs for part in job.files}
    return {
        "request": planned.snapshot.request.request_name,
        "round": planned.snapshot.round,
        "folder": str(out.absolute()) if out else None,
        "digest": digest,
        "work_units": len(planned.work_units),
        "jobs": planned.jobs,
        "input_files": len(files),
        "events": planned.events,
        "left_for_later_rounds": planned.left,
        "longest_job_sec": round(job_sec(sizing, largest)),
        "core_sec": round(planned.events * sizing.time_per_event_sec * sizing.cores),
        "output_bytes": round(planned.events * sizing.size_per_event_kb * 1000),
        "sites": list(planned.snapshot.sites),
        "problems": list(planned.problems),
    }


def _waiting(planned: RoundPlan) -> Iterator[str]:
    if planned.left:
        snapshot = planned.snapshot
        what = "events" if snapshot.request.is_simulation else "input files"
        yield (
            f"{planned.left} {what} wait for later rounds, because a round has at most "
            f"{snapshot.limits.nodes_per_round} nodes; --nodes-per-round plans more of them"
        )


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if name.endswith("_sec"):
        return duration_text(float(str(value)))
    if name.endswith("_bytes"):
        return size_text(float(str(value)))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
