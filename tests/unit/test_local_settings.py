"""Settings: what is configured wins over what a stack wrote down."""

from pathlib import Path

import pytest

from wms2.config import StackRecord, load_settings
from wms2.errors import UserError

RECORD = StackRecord(
    database_url="postgresql+psycopg://wms2:secret@127.0.0.1:20001/wms2",
    temporal_address="127.0.0.1:20002",
    services_url="http://127.0.0.1:20003",
    condor_config=Path("/stack/condor_config"),
    condor_bin=Path("/stack/bin"),
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = (
        "HOME DATABASE_URL TEMPORAL_ADDRESS SERVICES_URL CONDOR CONDOR_CONFIG CONDOR_BIN SUBMIT_ROOT CACHE "
        "RUCIO_URL RUCIO_AUTH_URL RUCIO_ACCOUNT RUCIO_USER RUCIO_PASSWORD RUCIO_CERTIFICATE RUCIO_KEY"
    )
    for name in names.split():
        monkeypatch.delenv(f"WMS2_{name}", raising=False)


def test_a_stack_that_is_up_completes_the_settings(tmp_path: Path) -> None:
    RECORD.write(tmp_path)

    settings = load_settings(tmp_path)

    assert settings.needed("database_url") == RECORD.database_url
    assert settings.temporal_address == "127.0.0.1:20002"
    assert settings.submit_root == tmp_path / "submit"
    environment = settings.condor_environment()
    assert environment["CONDOR_CONFIG"] == "/stack/condor_config"
    assert environment["PATH"].startswith("/stack/bin:/stack/sbin:")


def test_what_is_configured_wins_over_what_the_stack_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RECORD.write(tmp_path)
    monkeypatch.setenv("WMS2_DATABASE_URL", "postgresql://me@db.example/wms2")
    monkeypatch.setenv("WMS2_CONDOR_CONFIG", "/etc/condor/condor_config")

    settings = load_settings(tmp_path)

    assert settings.database_url == "postgresql+psycopg://me@db.example/wms2"
    assert settings.condor_config == Path("/etc/condor/condor_config")
    assert settings.condor_bin is None
    assert settings.temporal_address == "127.0.0.1:20002"


def test_the_home_of_the_environment_is_used_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_HOME", str(tmp_path / "one"))

    assert load_settings().home == tmp_path / "one"
    assert load_settings(tmp_path / "two").home == tmp_path / "two"


def test_a_stack_has_one_name_whatever_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert load_settings(tmp_path / "link" / "x").home == tmp_path / "x"


def test_without_a_stack_each_missing_thing_says_what_to_do(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)

    with pytest.raises(UserError, match="No temporal address: run `wms2 up`, or set WMS2_TEMPORAL_ADDRESS"):
        settings.needed("temporal_address")
    with pytest.raises(UserError, match="No HTCondor pool: run `wms2 up`"):
        settings.condor_environment()


def test_a_wrong_setting_is_named_with_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_DATABASE_URL", "mysql://somewhere")

    with pytest.raises(UserError, match="WMS2_DATABASE_URL: expected postgresql://"):
        load_settings(tmp_path)


@pytest.mark.parametrize("value", ["48 hours", '{"queued": '])
def test_a_setting_that_should_be_json_and_is_not_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("WMS2_TIME_LIMITS_HOURS", value)
    with pytest.raises(UserError, match=r"WMS2_TIME_LIMITS_HOURS is no JSON\."):
        load_settings(tmp_path)


def test_the_record_is_for_its_owner_only_and_the_password_is_in_no_text(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    RECORD.write(tmp_path)

    assert (tmp_path / "stack.json").stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(RECORD)
    assert "secret" not in repr(load_settings(tmp_path))


def test_a_password_of_the_settings_is_in_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_RUCIO_PASSWORD", "xyzzy")

    settings = load_settings(tmp_path)

    assert settings.rucio_password == "xyzzy"
    assert "xyzzy" not in repr(settings)


def test_a_damaged_record_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")

    with pytest.raises(UserError, match=r"stack.json is damaged: remove it and run `wms2 up`"):
        load_settings(tmp_path)
