"""The pilot: measuring while producing."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from post_script.outputs import possible_files
from sandbox import cost, portion
from sandbox.manifest import InputFile, Node
from tests.unit.sandbox_kit import PREFIX, Record, Site, event_range, manifest, of_files, output, step
from wms2.local.payload import check, make_inputs


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def pilot_plan(**changes: Any) -> Record:
    return {"first_events": 20, "time_budget_sec": 60, "tolerance": 0.3, **changes}


def run(site: Site, plan: Record) -> Record:
    job = site.run("pilot", "proc_000001", site.job_folder(manifest=plan))
    assert job.status == 0, job.stderr
    return job.report


def test_a_pilot_doubles_until_its_measurements_agree_and_abandons_the_rest(site: Site) -> None:
    slow = step(kb_per_event=1.0, seconds_per_event=0.01)
    nodes = {"proc_000001": event_range(1001, 9000, per_lumi=20)}
    plan = manifest(steps=[slow], nodes=nodes, pilot=pilot_plan(tolerance=1e6))
    report = run(site, plan)
    pilot = report["pilot"]
    sizes = [iteration["events"] for iteration in pilot["iterations"]]
    assert sizes == [20, 40]
    assert pilot["converged"]
    assert (pilot["first_event"], pilot["last_event"]) == (1001, 1000 + sum(sizes))
    # How well the fit measures is tested on numbers; a busy machine's seconds would only be noise here.
    assert pilot["time_per_event"] > 0
    assert pilot["startup_sec"] >= 0
    found = check([site.path(entry["lfn"]) for entry in report["outputs"]])
    assert list(found.numbers) == list(range(1001, 1001 + sum(sizes)))
    names = [f"{PREFIX}_proc_000001_1234_RAWSIMoutput_{n + 1}.root" for n in range(len(sizes))]
    assert [Path(entry["lfn"]).name for entry in report["outputs"]] == names
    assert {entry["lfn"] for entry in report["outputs"]} < set(possible_files(plan, {}, "proc_000001", 1234))
    [per_step] = pilot["per_step"]
    assert (per_step["step"], per_step["time_per_event"]) == ("GEN", pilot["time_per_event"])
    assert (per_step["events"], per_step["threads"]) == (sum(sizes), 1)
    assert per_step["memory_mb"] == report["peak_rss_mb"]
    written = sum(entry["size_bytes"] for entry in report["outputs"])
    assert per_step["output_bytes"] == sum(i["output_bytes"] for i in pilot["iterations"]) == written
    assert [(s["name"], s["events_written"]) for s in report["steps"]] == [("GEN", sum(sizes))]


def test_a_pilot_stops_before_its_time_budget_is_exceeded(site: Site) -> None:
    slow = step(kb_per_event=0.1, seconds_per_event=0.05)
    nodes = {"proc_000001": event_range(1, 100_000, per_lumi=10)}
    plan = manifest(steps=[slow], nodes=nodes, pilot=pilot_plan(tolerance=1e-9, time_budget_sec=4))
    pilot = run(site, plan)["pilot"]
    assert (pilot["converged"], pilot["stopped"]) == (False, "time budget")
    assert pilot["last_event"] < 100


def test_a_pilot_that_runs_out_of_events_has_produced_all_of_them(site: Site) -> None:
    nodes = {"proc_000001": event_range(1, 90, per_lumi=20)}
    report = run(site, manifest(nodes=nodes, pilot=pilot_plan(tolerance=1e-9)))
    assert report["pilot"]["stopped"] == "all planned events processed"
    found = check([site.path(entry["lfn"]) for entry in report["outputs"]])
    assert list(found.numbers) == list(range(1, 91))


def test_a_pilot_with_input_processes_every_planned_file_to_its_end(site: Site) -> None:
    """Also beyond the number of events that was recorded for a file, and after it has stopped measuring."""
    files = make_inputs(site.storage.parent, 3, 60, locations=[site.name])
    planned = [{**file, "events": 50} for file in files]
    plan = manifest(nodes={"proc_000001": of_files(planned)}, pilot=pilot_plan(tolerance=1e6))
    report = run(site, plan)
    assert report["pilot"]["converged"]
    assert [i["measured"] for i in report["pilot"]["iterations"]] == [True, True, False]
    found = check([site.path(entry["lfn"]) for entry in report["outputs"]])
    assert list(found.numbers) == list(range(1, 181))
    assert [entry["events_read"] for entry in report["inputs"]] == [60, 60, 60]


def test_a_pilot_with_a_lumi_mask_takes_whole_files(site: Site) -> None:
    files = make_inputs(site.storage.parent, 3, 40, locations=[site.name], lumis_per_file=4)
    mask = {"1": [[1, 2], [5, 6], [9, 10]]}
    report = run(
        site, manifest(nodes={"proc_000001": of_files(files, mask)}, pilot=pilot_plan(tolerance=1e-9))
    )
    assert [i["events"] for i in report["pilot"]["iterations"]] == [20, 20, 20]
    found = check([site.path(entry["lfn"]) for entry in report["outputs"]])
    assert list(found.numbers) == [*range(1, 21), *range(41, 61), *range(81, 101)]


def test_a_pilot_that_fails_late_leaves_nothing_on_the_storage(site: Site) -> None:
    """The first iteration is staged out already when the second one finds a folder in its way."""
    blocked = f"{output()['unmerged_base']}/{PREFIX}_proc_000001_1234_RAWSIMoutput_2.root"
    site.path(blocked).mkdir(parents=True)
    plan = manifest(nodes={"proc_000001": event_range(1, 90)}, pilot=pilot_plan(tolerance=1e-9))
    job = site.run("pilot", "proc_000001", site.job_folder(manifest=plan))
    assert (job.report["exit_code"], job.report["outputs"], site.files()) == (60307, [], [])
    assert job.report["steps"][0]["events_written"] > 20
    assert [item["lfn"] for item in job.report["left"]] == [blocked]


def test_a_manifest_without_a_pilot_is_no_pilots(site: Site) -> None:
    job = site.run("pilot", "proc_000001", site.job_folder(manifest=manifest()))
    assert job.report["exit_code"] == 7002


COSTS = st.floats(0.001, 1000)


@given(
    startup=st.floats(0, 3600),
    per_event=COSTS,
    sizes=st.lists(st.integers(1, 10**6), min_size=2, unique=True),
)
def test_a_fit_separates_start_up_from_events(startup: float, per_event: float, sizes: list[int]) -> None:
    measurements = [(events, startup + per_event * events) for events in sizes]
    fitted = cost.fit(measurements)
    largest = max(sizes)
    if per_event * largest >= 0.11 * (startup + per_event * largest):
        assert fitted.of(largest) == pytest.approx(startup + per_event * largest, rel=1e-3)
        assert fitted.sec_per_event == pytest.approx(per_event, rel=1e-2)


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0.001, 10**6)), min_size=1))
def test_no_measurement_makes_events_free_or_start_up_negative(measurements: list[tuple[int, float]]) -> None:
    fitted = cost.fit(measurements)
    assert fitted.sec_per_event > 0
    assert fitted.startup_sec >= 0


def test_start_up_alone_is_not_taken_for_free_events() -> None:
    measurements = [(10, 0.6), (20, 0.61), (40, 0.6001)]
    assert cost.fit(measurements) == cost.Cost(0.0, 0.6001 / 40)
    assert not cost.converged(measurements, 0.1)


@given(
    first=st.integers(1, 10**12),
    events=st.integers(1, 3000),
    per_lumi=st.integers(1, 500),
    wanted=st.integers(1, 300),
)
def test_portions_of_a_range_cover_it_once_and_never_change_lumi_early(
    first: int, events: int, per_lumi: int, wanted: int
) -> None:
    node = Node("n", (), None, 1, first, first + events - 1, 1, per_lumi)
    covered: list[int] = []
    while len(covered) < events:
        part = portion.next_events(node, first + len(covered), wanted)
        wanted *= 2
        covered += range(part.first_event, part.last_event + 1)
        assert part.lumi_offset == 0 or part.lumi_offset + part.events <= per_lumi
        assert part.first_lumi == 1 + (part.first_event - first) // per_lumi
    assert covered == list(range(first, first + events))


@given(
    lengths=st.lists(st.integers(0, 200), min_size=1, max_size=8),
    wanted=st.integers(1, 100),
    split=st.booleans(),
)
def test_portions_of_files_cover_them_once(lengths: list[int], wanted: int, split: bool) -> None:
    files = tuple(InputFile(f"/store/{n}", length, None, None) for n, length in enumerate(lengths))
    left, taken = files, []
    while left:
        part, left = portion.take_files(left, wanted, split)
        wanted *= 2
        taken += part.files
        assert all(file.first_event is None for file in part.files[1:])
        assert all(file.last_event is None for file in part.files[:-1])
    covered = [
        (file.lfn, n)
        for file in taken
        for n in range(file.first_event or 1, (file.last_event or file.events) + 1)
    ]
    assert covered == [(file.lfn, n) for file in files for n in range(1, file.events + 1)]
    assert [file.lfn for file in taken if file.last_event is None] == [file.lfn for file in files]
