"""`wms2 notice check` and `test`: what people see, without any server of the stack."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mailbox import Hook, hook
from wms2.cli.main import main

CONTACTS = """
operators: [chat]
webhooks: {chat: {url: "%s"}}
"""


@pytest.fixture
def wms2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["wms2", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), " ".join(capsys.readouterr().err.split())

    return run


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A webhook that the configured contacts file names."""
    with hook() as known:
        path = tmp_path / "contacts.yaml"
        path.write_text(CONTACTS % known.url)
        monkeypatch.setenv("WMS2_CONTACTS", str(path))
        yield known


def test_a_good_contacts_file_is_told_so_and_that_notifications_are_off(wms2: Any, chat: Hook) -> None:
    code, told = wms2("notice", "check")
    assert code == 0
    assert "is valid: 1 operators, 0 requestors, 0 sites, 1 webhooks." in told
    assert "Notifications are off" in told
    assert chat.bodies == []


def test_a_bad_contacts_file_is_refused_with_all_of_its_mistakes(wms2: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("operators: [nobody]\nsites: {x: [a@b.org]}\n")
    code, told = wms2("notice", "check", path)
    assert code == 2
    assert "has 2 mistakes" in told


def test_a_test_message_is_sent_at_once_also_while_notifications_are_off(wms2: Any, chat: Hook) -> None:
    assert wms2("notice", "test", "chat") == (0, "chat: the server took a test message.")
    assert chat.documents[0]["subject"] == "WMS2: a test"
    chat.code = 500
    assert wms2("notice", "test", "chat") == (2, "Error: webhook chat answered 500")


def test_a_test_to_an_address_that_is_none_is_refused(wms2: Any, chat: Hook) -> None:
    assert wms2("notice", "test", "a b@c")[0] == 2
    code, told = wms2("notice", "test", "operators@example.org")
    assert code == 2
    assert "WMS2_SMTP_HOST" in told
