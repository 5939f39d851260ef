"""From a plan by lumi sections to the events that its jobs read."""

import json
from pathlib import Path

from tests.factories import reprocessing, snapshot
from tests.unit.sandbox_kit import Site
from wms2.core.planning import plan_round
from wms2.dagman.round_folder import write_round
from wms2.local.payload import check, make_inputs
from wms2.models.plan import InputFile


def test_the_jobs_of_a_plan_read_each_event_of_the_chosen_lumis_once(tmp_path: Path) -> None:
    """Two halves of the dataset hold the same lumi sections 1 to 8, with other events."""
    site = Site(tmp_path)
    entries = [
        entry
        for half in (0, 1)
        for entry in make_inputs(
            site.storage.parent, 2, 20, locations=[site.name], lumis_per_file=4, first_event=half * 40 + 1,
            base=f"/store/data/Demo/Input/RAW/v1/{half:03d}",
        )
    ]  # fmt: skip
    request = reprocessing(
        splitting_algo="LumiBased", splitting_params={"lumis_per_job": 3}, lumi_mask={"1": [[1, 4], [6, 8]]}
    )
    plan = plan_round(
        snapshot(request, inputs=tuple(InputFile(**entry) for entry in entries), sites=(site.name,))
    )
    write_round(plan, tmp_path / "round")
    manifest = json.loads((tmp_path / "round/mg_000000/manifest.json").read_text())
    read: list[int] = []
    for cluster, node in enumerate(manifest["nodes"], 100):
        job = site.process(manifest, node, cluster=cluster)
        assert job.status == 0, job.stderr
        [output] = job.report["outputs"]
        assert {parent[-20:-16] for parent in output["parents"]} == {"/000", "/001"}
        read.extend(check([site.path(output["lfn"])]).numbers)
    in_lumi_5 = {*range(21, 26), *range(61, 66)}
    assert sorted(read) == [event for event in range(1, 81) if event not in in_lumi_5]
    assert plan.events == len(read)
