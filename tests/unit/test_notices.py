"""Who is told of what, and how it reads; whatever words come in, a line stays a line and a header a header."""

import json
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import SMTP
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.adapters.mail import Mailer
from wms2.core import notices
from wms2.models.messages import Alert
from wms2.models.notice import Audience, DigestState, Notice, Notified, Reason
from wms2.models.request import RequestStatus

AT = datetime(2026, 11, 16, 14, 2, tzinfo=UTC)
OPERATORS, REQUESTOR, SITE = Audience.OPERATORS, Audience.REQUESTOR, Audience.SITE
MAIL, HOOK = "operators@example.org", "chat"
MAILER = Mailer("mail.example.org", "wms2@example.org")


def notice(reason: Reason = Reason.HELD, **changes: object) -> Notice:
    fields = {
        "key": f"key of {reason}",
        "audience": next(iter(notices.WHAT_TO_DO[reason])),
        "reason": reason,
        "about": "demo",
        "words": "is held: 1 of 3 work units failed",
        "at": AT,
    }
    return Notice.model_validate(fields | changes)


def test_each_reason_has_its_audiences() -> None:
    heard = {
        audience: {reason for reason, told in notices.WHAT_TO_DO.items() if audience in told}
        for audience in Audience
    }
    bans = {Reason.BAN, Reason.BAN_FOR_ALL, Reason.BAN_ENDED}
    alerts = {Reason.LONG_STATUS, Reason.LOST_HOST, Reason.LOST_WORKFLOW, Reason.ALERT}
    alerts |= {Reason.SILENT_SERVICE, Reason.CREDENTIAL}
    assert notices.WHAT_TO_DO.keys() == set(Reason)
    assert heard[OPERATORS] == {Reason.HELD} | alerts | bans
    assert heard[REQUESTOR] == set(Reason) - alerts - bans
    assert heard[SITE] == bans


TOLD = {
    RequestStatus.HELD: (Reason.HELD, "is held: because"),
    RequestStatus.PARTIAL: (Reason.FAILURES, "has failures: because"),
    RequestStatus.COMPLETED: (Reason.COMPLETED, "is completed: because"),
    RequestStatus.FAILED: (Reason.FAILED, "has failed: because"),
    RequestStatus.ABORTED: (Reason.ABORTED, "was aborted: because"),
}


@pytest.mark.parametrize("status", RequestStatus)
def test_of_a_status_that_needs_nobody_nothing_is_told(status: RequestStatus) -> None:
    told = notices.status_happening("demo", status, 7, "because", None)
    assert (told and (told.reason, told.words)) == TOLD.get(status)


def test_a_restart_names_the_request_that_goes_on() -> None:
    told = notices.status_happening("demo", RequestStatus.FAILED, 7, "restart by me", "demo_v2")
    assert told is not None
    assert (told.reason, told.words) == (Reason.REPLACED, "was replaced by demo_v2: restart by me")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("long_held", Reason.LONG_STATUS),
        ("lost_host", Reason.LOST_HOST),
        ("lost_workflow", Reason.LOST_WORKFLOW),
        ("stuck_workflow", Reason.LOST_WORKFLOW),
        ("rank", Reason.ALERT),
    ],
)
def test_the_same_alert_is_the_same_happening_for_a_day(kind: str, reason: Reason) -> None:
    alert = Alert(request="demo", kind=kind, message="something")
    first = notices.alert_happening(alert, "2026-11-16")
    other = alert.model_copy(update={"message": "something else"})
    assert first.reason is reason
    assert notices.alert_happening(alert, "2026-11-16") == first
    assert notices.alert_happening(alert, "2026-11-17").key != first.key
    assert notices.alert_happening(other, "2026-11-16").key != first.key


def test_a_digest_groups_by_name_and_says_what_to_do() -> None:
    digest = notices.digest_of(
        MAIL,
        [
            notice(),
            notice(Reason.BAN, about="T2_US_Purdue", words="is banned for demo"),
            notice(Reason.ALERT, words="its jobs keep their old priority."),
        ],
        AT,
    )
    assert digest.subject == "WMS2: demo (held), T2_US_Purdue (ban), demo (alert)"
    assert digest.body == (
        "demo\n"
        "- 2026-11-16 14:02 UTC: is held: 1 of 3 work units failed. `wms2 request errors demo` shows what failed. "
        "`wms2 request release demo` lets it go on.\n"
        "- 2026-11-16 14:02 UTC: its jobs keep their old priority. "
        "`wms2 request show demo` shows where it stands.\n"
        "\n"
        "T2_US_Purdue\n"
        "- 2026-11-16 14:02 UTC: is banned for demo. `wms2 site bans` shows all bans. "
        "`wms2 site unban T2_US_Purdue` lifts those of this site.\n"
        "\n"
        "-- \n"
        "You are one of the operators. The contacts file says who is, and what they do not want to hear of.\n"
    )


def test_the_same_notices_are_the_same_digest_and_others_are_another() -> None:
    told = [notice(), notice(Reason.COMPLETED)]
    assert notices.digest_of(MAIL, told, AT) == notices.digest_of(MAIL, told, AT)
    ids = {
        notices.digest_of(address, listed, AT).id for address in (MAIL, HOOK) for listed in (told, told[:1])
    }
    assert len(ids) == 4


def test_failures_that_held_their_request_are_told_once() -> None:
    why = "1 of 3 work units failed"
    failures = notice(Reason.FAILURES, words=f"has failures: {why}")
    held = notice(audience=REQUESTOR, words=f"is held: {why}; no site is left")
    assert notices.body([failures, held]).count(why) == 1
    assert notices.body([failures, held.model_copy(update={"about": "other"})]).count(why) == 2
    assert notices.body([failures]).count(why) == 1


def test_a_webhook_gets_a_document_with_a_text_for_chat_programs() -> None:
    told = [notice(words="is\nheld")]
    document = json.loads(notices.digest_of(HOOK, told, AT).body)
    assert UUID(document["id"]) == notices.digest_of(HOOK, told, AT).id
    assert document["text"] == notices.body(told)
    (one,) = document["notices"]
    assert one == {
        "reason": "held", "audience": "operators", "about": "demo", "words": "is held",
        "at": "2026-11-16T14:02:00+00:00",
    }  # fmt: skip


def test_a_long_list_is_told_by_its_first_names() -> None:
    many = [notice(about=f"request_{number}") for number in range(10)]
    assert notices.subject(many) == "WMS2: request_0 (held), request_1 (held), request_2 (held) and 7 more"
    assert len(notices.subject([notice(about="x" * 1000)])) == notices.LONGEST_SUBJECT


def test_a_digest_that_is_not_taken_rests_for_longer_each_time() -> None:
    pauses = [notices.pause_after(tries, timedelta(minutes=10)) for tries in (0, 1, 2, 3, 1000)]
    assert [pause / timedelta(minutes=1) for pause in pauses] == [10, 20, 40, 80, 360]


def test_what_a_run_came_to_is_counted() -> None:
    told = Notified()
    for state in (DigestState.SENT, DigestState.SENT, DigestState.SENDING, DigestState.GIVEN_UP):
        told = told.with_one(state)
    assert str(told) == "2 digests sent, 1 to be tried again, 1 given up"


ANYTHING = st.text(st.characters(codec=None), max_size=700) | st.sampled_from(
    [
        "a\r\nBcc: x@y",
        "00000\x1b\x1b\x1b\x1b\x08¡¡𑿀𞱱🇦\r\x08\r\x1b",
        "a =?utf-8?q?b?= c",
        "a\n.\nMAIL FROM:<x@y>",
        "\x1b[31mred\x00",
        "‮reversed",
        "{about}{0}",
        "\ud800",
        "a b",
    ]
)


@given(about=ANYTHING, words=ANYTHING, reason=st.sampled_from(Reason))
def test_whatever_the_words_are_headers_stay_as_they_are_and_a_line_stays_a_line(
    about: str, words: str, reason: Reason
) -> None:
    plain, odd = notice(reason, about="x", words="x"), notice(reason, about=about, words=words)
    usual, digest = notices.digest_of(MAIL, [plain], AT), notices.digest_of(MAIL, [odd], AT)
    assert len(digest.body.split("\n")) == len(digest.body.splitlines()) + 1 == len(usual.body.split("\n"))
    assert all(line.isprintable() for line in digest.body.split("\n"))
    assert len(digest.body) < 3000
    expected, sent = (message_from_bytes(bytes(MAILER.message(one)), policy=SMTP) for one in (usual, digest))
    assert sent.keys() == expected.keys()
    for header in ("From", "To", "Date", "Auto-Submitted", "Content-Type"):
        assert sent[header] == expected[header]
    assert sent["Subject"].split() == digest.subject.split()
    assert sent.get_content().splitlines() == digest.body.splitlines()
    assert json.loads(notices.digest_of(HOOK, [odd], AT).body)["text"] == digest.body
