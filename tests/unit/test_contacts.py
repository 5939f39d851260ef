"""The contacts file: what is understood, and all of its mistakes at once."""

from pathlib import Path

import pytest

from wms2.models.contacts import Contacts, read_contacts
from wms2.models.mistakes import RequestFileError
from wms2.models.notice import Audience, Reason

GOOD = """
operators: [operators@example.org, chat]
requestors:
  alice: [alice@example.org]
sites:
  T2_US_Purdue: [admins@purdue.example]
webhooks:
  chat: {url: "https://chat.example/hooks/hidden", secret: hush}
silent:
  operators: [ban_ended]
"""


def read(tmp_path: Path, text: str) -> Contacts:
    path = tmp_path / "contacts.yaml"
    path.write_text(text)
    return read_contacts(path)


def mistakes(tmp_path: Path, text: str) -> dict[str, str]:
    with pytest.raises(RequestFileError) as error:
        read(tmp_path, text)
    return {mistake.field: mistake.problem for mistake in error.value.mistakes}


def test_a_file_says_who_is_told_and_what_an_audience_does_not_hear(tmp_path: Path) -> None:
    contacts = read(tmp_path, GOOD)
    assert contacts.operators == ("operators@example.org", "chat")
    assert contacts.requestors["alice"] == ("alice@example.org",)
    assert contacts.hears(Audience.OPERATORS, Reason.BAN)
    assert not contacts.hears(Audience.OPERATORS, Reason.BAN_ENDED)
    assert contacts.hears(Audience.SITE, Reason.BAN_ENDED)
    assert len(contacts.addresses) == 4


def test_one_address_has_one_mistake(tmp_path: Path) -> None:
    with pytest.raises(RequestFileError, match="has a mistake"):
        read(tmp_path, "operators: [not an address]")


def test_neither_the_url_of_a_webhook_nor_its_secret_is_shown(tmp_path: Path) -> None:
    shown = repr(read(tmp_path, GOOD))
    assert "hidden" not in shown
    assert "hush" not in shown


def test_all_mistakes_are_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        """
operators: [operators@example, "not an address", chta]
operator: [x@example.org]
requestors: {alice: alice@example.org}
sites: {Purdue: [a@b.org]}
webhooks:
  chat: {url: "ftp://example.org/token"}
  other: {urll: "https://x"}
silent: {operators: [held, everything], managers: [held]}
""",
    )
    assert found["operators[1]"].startswith("expected a mail address")
    assert "did you mean chat?" in found["operators[2]"]
    assert found["operator"] == "unknown field, did you mean operators?"
    assert found["requestors.alice"] == 'expected a list, found "alice@example.org"'
    assert "T2_US_Purdue" in found["sites.Purdue"]
    assert found["webhooks.chat.url"] == "expected an address that begins with https:// or http://"
    assert found["webhooks.other.urll"] == "unknown field, did you mean url?"
    assert "webhooks.other.url" in found
    assert "'held'" in found["silent.operators[1]"]
    assert "'operators'" in found["silent.managers"]


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "gopher://x", "https://", "//x", "http://a b", "http://a\\nb", "http://a:99999"],
)
def test_a_webhook_is_posted_to_over_http_only(tmp_path: Path, url: str) -> None:
    assert mistakes(tmp_path, f'webhooks: {{chat: {{url: "{url}"}}}}').keys() == {"webhooks.chat.url"}


@pytest.mark.parametrize(
    "address",
    ["a@b.org\\nBcc: x@y.org", "a@b.org>", "<a@b.org>", "a b@c.org", "a@b@c", "-a@b", "ä@b.org", "@"],
)
def test_an_address_is_one_address(tmp_path: Path, address: str) -> None:
    assert mistakes(tmp_path, f'operators: ["{address}"]').keys() == {"operators[0]"}
