"""The request that a restart makes."""

import pytest

from tests.factories import reprocessing, simulation
from wms2.core.versions import next_version
from wms2.errors import UserError


def test_the_next_version_is_the_same_request_with_datasets_of_its_own() -> None:
    old = simulation(priority=7)
    new = next_version(old)
    assert (new.request_name, new.processing_version, new.previous_version_request) == (
        "simulation_v2",
        2,
        "simulation",
    )
    assert new.output_datasets == ("/MinBias/Run2024A-Test-v2/GEN-SIM",)
    changed = {"request_name", "processing_version", "outputs", "previous_version_request"}
    assert new.model_dump(exclude=changed) == old.model_dump(exclude=changed)


def test_names_do_not_grow_with_every_version() -> None:
    third = next_version(next_version(reprocessing()))
    assert third.request_name == "reprocessing_v3"
    assert third.output_datasets == ("/MinBias/Run2024A-Test-v3/RECO",)


def test_a_name_that_only_looks_like_a_version_is_kept_whole() -> None:
    assert next_version(simulation(request_name="study_v1")).request_name == "study_v1_v2"


def test_versions_inside_a_name_stay_as_they_are() -> None:
    outputs = [{"module": "A", "tier": "RECO", "step": "GEN", "dataset": "/P-v3x/Run2024A-Proc_v3-v9/RECO"}]
    assert next_version(simulation(outputs=outputs)).output_datasets == ("/P-v3x/Run2024A-Proc_v3-v10/RECO",)


def test_a_name_that_would_be_too_long_is_one_sentence() -> None:
    with pytest.raises(UserError, match="would be too long"):
        next_version(simulation(request_name="a" * 200))
