"""The configuration of the local pool and of its sites."""

import json
import re
from pathlib import Path

import pytest

from wms2.errors import UserError
from wms2.local.pool import Pool
from wms2.local.sites import SITES, storage_folder, write_sites


def settings_of(pool: Pool) -> dict[str, str]:
    lines = (line.partition(" =") for line in pool.configuration().splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, equals, value in lines if equals}


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool(tmp_path, Path("/opt/condor"), 23456)


def test_each_site_has_one_partitionable_slot_and_the_machine_promises_their_sum(pool: Pool) -> None:
    settings = settings_of(pool)

    assert [settings[f"SLOT{n}_GLIDEIN_CMSSite"] for n in (1, 2, 3, 4)] == [f'"{site}"' for site in SITES]
    assert all(settings[f"SLOT_TYPE_{n}_PARTITIONABLE"] == "True" for n in (1, 2, 3, 4))
    cores = [int(re.search(r"cpus=(\d+)", settings[f"SLOT_TYPE_{n}"])[1]) for n in (1, 2, 3, 4)]  # type: ignore[index]
    assert int(settings["NUM_CPUS"]) == sum(cores)


def test_the_list_of_sites_is_the_callers(tmp_path: Path) -> None:
    settings = settings_of(Pool(tmp_path, Path("/opt/condor"), 1, sites=("T2_XX_One",)))

    assert settings["SLOT1_GLIDEIN_CMSSite"] == '"T2_XX_One"'
    assert "SLOT2_GLIDEIN_CMSSite" not in settings


def test_the_pool_talks_on_loopback_and_only_to_its_owner(pool: Pool) -> None:
    settings = settings_of(pool)

    assert settings["NETWORK_INTERFACE"] == "127.0.0.1"
    assert settings["BIND_ALL_INTERFACES"] == "False"
    assert settings["COLLECTOR_HOST"] == "127.0.0.1:23456"
    permissions = {name: value for name, value in settings.items() if name.startswith("ALLOW_")}
    assert permissions
    assert all("*" not in value for value in permissions.values())


def test_everything_that_a_pool_writes_is_below_its_state_folder(pool: Pool) -> None:
    settings = settings_of(pool)

    for name in ("LOCAL_DIR", "LOG", "SPOOL", "EXECUTE", "LOCK", "RUN", "SEC_TOKEN_DIRECTORY"):
        assert settings[name].startswith(str(pool.home))


def test_jobs_are_told_where_the_site_configuration_and_the_software_are(pool: Pool) -> None:
    environment = settings_of(pool)["STARTER_JOB_ENVIRONMENT"]

    assert f"WMS2_SITECONFIG_ROOT='{pool.home}/siteconf'" in environment
    assert "WMS2_SOFTWARE_PYTHON=" in environment


def test_a_sites_storage_json_names_the_folder_of_that_site(tmp_path: Path) -> None:
    write_sites(tmp_path, SITES)

    (description,) = json.loads((tmp_path / "siteconf" / "T2_DE_DESY" / "storage.json").read_text())

    assert description == {
        "site": "T2_DE_DESY",
        "volume": "Local",
        "rse": "T2_DE_DESY",
        "type": "DISK",
        "protocols": [
            {"protocol": "file", "access": "site-rw", "prefix": str(storage_folder(tmp_path, "T2_DE_DESY"))}
        ],
    }
    assert storage_folder(tmp_path, "T2_DE_DESY").is_dir()


def test_writing_the_configuration_again_keeps_a_vanished_site_away(pool: Pool) -> None:
    pool.prepare()
    (pool.folder / "sites_off.config").write_text("WMS2_SITES_OFF = T2_DE_DESY,T2_CH_CERN\n")

    pool.prepare()

    assert pool.sites_off() == ["T2_DE_DESY", "T2_CH_CERN"]


def test_only_a_site_of_the_pool_can_vanish(pool: Pool) -> None:
    with pytest.raises(UserError, match="T2_XX_Nowhere is not a site of this pool"):
        pool.vanish_site("T2_XX_Nowhere")
