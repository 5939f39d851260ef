"""`dagman.config`: what each DAGMan of a round may have under way."""

from pathlib import Path

from tests.factories import snapshot
from wms2.dagman.throttle import DAGMAN_CONFIG, dagman_config, set_idle_jobs
from wms2.models.plan import Limits


def test_the_idle_jobs_of_a_slot_take_the_place_of_those_that_were_planned_and_of_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / DAGMAN_CONFIG
    path.write_text(dagman_config(snapshot(limits=Limits())))
    for idle_jobs in (33, 7, 7):
        set_idle_jobs(tmp_path, idle_jobs)
        assert path.read_text() == dagman_config(snapshot(limits=Limits(jobs_idle=idle_jobs)))
    assert list(tmp_path.iterdir()) == [path]
