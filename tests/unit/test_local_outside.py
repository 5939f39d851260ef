"""What the doctor finds out of the services that the settings name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_in import services
from wms2.config import Settings
from wms2.errors import UserError
from wms2.local.outside import ASK, asked
from wms2.local.rucio import PASSWORD

WHERE = {"dbs": "dbs", "rucio": "rucio", "reqmgr2": "reqmgr2", "cric": "cric"}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        yield url


def configured(url: str, password: str = PASSWORD) -> Settings:
    named: dict[str, Any] = {f"{name}_url": f"{url}/{path}" for name, path in WHERE.items()}
    return Settings(**named, rucio_password=password)


def test_services_that_the_settings_name_are_asked(url: str) -> None:
    assert [asked(name, configured(url)) for name in ASK] == [
        f"answers at {url}/{WHERE[name]}" for name in ASK
    ]


def test_without_settings_there_is_nobody_to_ask() -> None:
    assert {asked(name, Settings()) for name in ASK} == {"the stand-in of the local stack"}


@pytest.mark.parametrize("name", ASK)
def test_a_service_that_is_not_there_is_told_with_its_setting(name: str) -> None:
    with pytest.raises(UserError, match=f"correct WMS2_{name.upper()}_URL"):
        asked(name, configured("http://127.0.0.1:9"))


def test_a_rucio_that_does_not_know_us_is_told_with_what_to_look_at(url: str) -> None:
    with pytest.raises(UserError, match="check WMS2_RUCIO_ACCOUNT, WMS2_RUCIO_USER and WMS2_RUCIO_PASSWORD"):
        asked("rucio", configured(url, "another-password"))
    with pytest.raises(UserError, match="No way to log in to Rucio"):
        asked("rucio", configured(url).model_copy(update={"rucio_password": None}))
