"""`wms2 request ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from wms2.cli import request_actions, request_watch, requests
from wms2.cli.screen import duration_text, print_json, print_table, say, size_text
from wms2.core.planning import allowed_sites, events_to_generate, plan_round
from wms2.core.sizing import sizing_of
from wms2.dagman.round_folder import write_round
from wms2.errors import UserError
from wms2.local.sites import SITES
from wms2.models.plan import InputFile, Limits, RoundPlan, Snapshot
from wms2.models.request import Request
from wms2.models.request_file import validate_request_file

app = typer.Typer(help="What was asked: check, plan, submit, watch and steer requests.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A request file, YAML or JSON.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def validate(file: File, as_json: AsJson = False) -> None:
    """Check a request file and name every mistake in it.

    Example: wms2 request validate examples/simulation.yaml
    """
    request = validate_request_file(file)
    if as_json:
        print_json(request.model_dump(mode="json"))
    else:
        say(f"{file}: request [bold]{request.request_name}[/] is valid.")


@app.command()
def plan(
    file: File,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the round; made new.")],
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE", help="JSON list of the input files.")
    ] = None,
    site: Annotated[
        list[str] | None, typer.Option("--site", help="A site that may run it; again for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan a round of a request into a folder, without any server.

    Each entry of --inputs is {lfn, size_bytes, events, locations, lumis: [[run, first, last]], block}.

    Example: wms2 request plan examples/simulation.yaml --out /tmp/round && wms2 dag run /tmp/round
    """
    request = validate_request_file(file)
    snapshot = _snapshot(request, inputs, site or list(SITES))
    planned = plan_round(snapshot)
    write_round(planned, out.absolute())
    for problem in planned.problems:
        say(f"[yellow]Note:[/] {problem}")
    summary = _summary(planned, out)
    if as_json:
        print_json(summary)
    else:
        print_table(
            ["", ""], [(name.replace("_", " "), _shown(name, value)) for name, value in summary.items()]
        )


requests.register(app)
request_watch.register(app)
request_actions.register(app)


def _snapshot(request: Request, inputs: Path | None, sites: list[str]) -> Snapshot:
    if request.is_simulation and inputs is not None:
        raise UserError(f"{request.request_name} is a simulation and reads no files; leave --inputs away")
    if not request.is_simulation and inputs is None:
        raise UserError(
            f"{request.request_name} reads {request.input_dataset}; list its files with --inputs FILE"
        )
    wanted = request.total_events or 0
    files = read_inputs(inputs) if inputs else ()
    try:
        return Snapshot(
            request=request,
            events=events_to_generate(wanted, request.filter_efficiency) if request.is_simulation else 0,
            inputs=files,
            sites=allowed_sites(request, sites),
            sizing=sizing_of(request, None),
            limits=Limits(log_scan_sec=1, status_sec=5),
        )
    except ValidationError as error:
        raise UserError(f"the round cannot be planned:\n{_listed(error)}") from error


def read_inputs(path: Path) -> tuple[InputFile, ...]:
    """The files of an --inputs list, every mistake at once."""
    try:
        return TypeAdapter(tuple[InputFile, ...]).validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UserError(f"{path} is not a list of input files:\n{_listed(error)}") from error


def _listed(error: ValidationError) -> str:
    """Every mistake on a line of its own, with its place."""
    mistakes = (
        (".".join(str(part) for part in mistake["loc"]), mistake["msg"].removeprefix("Value error, "))
        for mistake in error.errors(include_input=False)
    )
    return "\n".join(f"  {place}: {text}" if place else f"  {text}" for place, text in mistakes)


def _summary(planned: RoundPlan, out: Path) -> dict[str, object]:
    sizing = planned.snapshot.sizing
    largest = max(job.events for unit in planned.work_units for job in unit.jobs)
    files = {part.lfn for unit in planned.work_units for job in unit.jobs for part in job.files}
    return {
        "request": planned.snapshot.request.request_name,
        "round": planned.snapshot.round,
        "folder": str(out.absolute()),
        "digest": planned.snapshot.digest(),
        "work_units": len(planned.work_units),
        "jobs": planned.jobs,
        "input_files": len(files),
        "events": planned.events,
        "longest_job_sec": round(largest * sizing.time_per_event_sec / sizing.cores),
        "cpu_sec": round(planned.events * sizing.time_per_event_sec),
        "output_bytes": round(planned.events * sizing.size_per_event_kb * 1000),
        "sites": list(planned.snapshot.sites),
        "problems": list(planned.problems),
    }


def _shown(name: str, value: object) -> str:
    if name.endswith("_sec"):
        return duration_text(float(str(value)))
    if name.endswith("_bytes"):
        return size_text(float(str(value)))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
