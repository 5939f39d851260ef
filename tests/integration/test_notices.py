"""Notices in the real database: recorded with what happened, sent in digests, and by whom they were sent."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session
from temporalio.client import Client
from temporalio.worker import Worker
from typer.testing import CliRunner

from tests.factories import reprocessing, simulation
from tests.integration.dying_sender import STEPS, send_all, sender
from tests.integration.rounds import unique
from tests.integration.test_failure_records import dag_of, failed, failures, planned
from tests.mailbox import Hook, Mailbox, hook, mailbox
from tests.patience import PATIENCE_SEC
from wms2.activities.notices import NoticeActivities
from wms2.activities.records import RecordActivities
from wms2.adapters.mail import Mailer
from wms2.adapters.messenger import Messenger
from wms2.cli.main import app
from wms2.config import Settings
from wms2.core.bans import SiteTally
from wms2.db import bans, notices
from wms2.db.audit import audit_trail
from wms2.db.failures import record_failures
from wms2.db.ledger import record_plan
from wms2.db.requests import insert_request, record_status
from wms2.db.session import transaction
from wms2.db.versions import supersede
from wms2.models.audit import Action
from wms2.models.contacts import Contacts, Webhook
from wms2.models.messages import Alert, StatusRecord
from wms2.models.notice import DigestState, NoticeRecord, NoticeState, Notified, Reason
from wms2.models.request import RequestStatus
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import CHAINS, HOSTS, NOTIFICATION, RECONCILIATION, REQMGR2, SITES
from wms2.temporal.queues import WORKFLOWS
from wms2.worker import WORKFLOW_TYPES, defined_activities, workflow_runner
from wms2.workflows.notification import NotificationWorkflow

PURDUE = "T2_US_Purdue"
OPS, HER, SITE, CHAT = "operators@example.org", "alice@example.org", "admins@purdue.example", "chat"
CONTACTS = Contacts(operators=(OPS,), requestors={"tester": (HER,)}, sites={PURDUE: (SITE,)})
HELD, COMPLETED = RequestStatus.HELD, RequestStatus.COMPLETED


@pytest.fixture
def told(engine: Engine) -> Engine:
    """Connections through which the contacts are told; with a request."""
    with transaction(engine) as session:
        insert_request(session, simulation(request_name="demo"))
    return notices.telling(engine, CONTACTS)


@pytest.fixture
def session(told: Engine) -> Iterator[Session]:
    with transaction(told) as session:
        yield session


def enter(session: Session, status: RequestStatus, sequence: int, name: str = "demo") -> bool:
    return record_status(session, name, status, sequence, "wms2", f"reason {sequence}")


def heard(session: Session) -> set[tuple[str, str]]:
    """Who hears of what."""
    return {(notice.address, notice.reason) for notice in notices.list_notices(session)}


def listed(engine: Engine, *states: NoticeState) -> list[NoticeRecord]:
    with transaction(engine) as session:
        return notices.list_notices(session, states)


def by(action: str, number: int = 0, request: str | None = None) -> Action:
    return Action(action_id=f"{action}-{number}", actor="tester", action=action, request_name=request)


# What is recorded


def test_requestor_and_operators_hear_of_statuses_each_of_their_own(session: Session) -> None:
    for sequence, status in enumerate(RequestStatus, 1):
        enter(session, status, sequence)
    own = {"held", "failures", "completed", "failed", "aborted"}
    assert heard(session) == {(HER, reason) for reason in own} | {(OPS, "held")}


def test_a_status_that_is_no_news_is_not_told_again(session: Session) -> None:
    assert enter(session, HELD, 1)
    assert not enter(session, HELD, 1)
    assert len(notices.list_notices(session)) == 2


def test_a_status_that_is_not_recorded_is_not_told(told: Engine) -> None:
    with transaction(told) as session:
        enter(session, HELD, 1)
        assert notices.list_notices(session)
        session.rollback()
    assert listed(told) == []


def test_when_notifications_are_off_nothing_is_written_down(engine: Engine, told: Engine) -> None:
    with transaction(engine) as session:
        enter(session, HELD, 1)
        notices.queue_alert(session, Alert(request="demo", kind="lost_host", message="nobody follows"))
        bans.ban_by_hand(session, PURDUE, None, timedelta(days=1), by("ban"))
    assert listed(told) == []


def test_what_an_audience_does_not_want_to_hear_and_who_has_no_address_is_not_told(engine: Engine) -> None:
    silent = Contacts(operators=(OPS,), silent={"operators": ("held",)})
    with transaction(notices.telling(engine, silent)) as session:
        insert_request(session, simulation(request_name="demo"))
        enter(session, HELD, 1)
        enter(session, COMPLETED, 2)
    assert listed(engine) == []


def test_a_request_may_name_others_or_nobody(session: Session) -> None:
    insert_request(session, simulation(request_name="others", notify=["bob@example.org", OPS]))
    insert_request(session, simulation(request_name="nobody", notify="none"))
    for name in ("others", "nobody"):
        enter(session, COMPLETED, 1, name)
        enter(session, HELD, 2, name)
    found = {(one.about, one.address, one.reason, one.audience) for one in notices.list_notices(session)}
    assert found == {
        ("others", "bob@example.org", "completed", "requestor"),
        ("others", "bob@example.org", "held", "requestor"),
        ("others", OPS, "completed", "requestor"),
        # One address hears of one thing once, in the words for operators.
        ("others", OPS, "held", "operators"),
        ("nobody", OPS, "held", "operators"),
    }


def test_a_restart_tells_the_requestor_what_goes_on_instead(session: Session) -> None:
    enter(session, RequestStatus.ACTIVE, 1)
    clone = supersede(session, by("restart", request="demo"), 5)
    enter(session, RequestStatus.FAILED, 2)
    (notice,) = notices.list_notices(session)
    assert (notice.address, notice.reason) == (HER, "replaced")
    assert clone in notice.words


def test_operators_and_the_site_hear_of_bans_and_of_their_end(session: Session) -> None:
    for name in ("two", "three"):
        insert_request(session, simulation(request_name=name))
    for name in ("demo", "two", "three"):
        bans.ban_bad_site(session, name, SiteTally(PURDUE, 4, 3), f"{name}:0:1")
        bans.ban_bad_site(session, name, SiteTally(PURDUE, 4, 3), f"{name}:0:1")
    bans.promote_ban(session, PURDUE)
    session.execute(
        text("UPDATE site_bans SET expires_at = now() - interval '1 minute' WHERE workflow_id IS NULL")
    )
    bans.expire_bans(session)
    bans.lift_bans(session, PURDUE, None, by("unban"))
    told = [(one.address, one.reason) for one in reversed(notices.list_notices(session))]
    for address in (OPS, SITE):
        reasons = [reason for who, reason in told if who == address]
        assert reasons == ["ban"] * 3 + ["ban_for_all"] + ["ban_ended"] * 2
    assert len(told) == 12
    first = notices.list_notices(session)[-1]
    assert first.about == PURDUE
    assert "is banned for demo until" in first.words
    assert "3 of 4 attempts failed at T2_US_Purdue" in first.words


def test_a_ban_says_what_failed_at_the_site(session: Session) -> None:
    insert_request(session, reprocessing())
    record_plan(session, planned(0, [0], [1], [2]))
    dag_id = dag_of(session, 0)
    there = [failed(unit, site=PURDUE, message="cannot\nwrite") for unit in (0, 1)]
    record_failures(session, dag_id, failures(*there, failed(2, site="T2_DE_DESY", message="elsewhere")))
    bans.ban_bad_site(session, "reprocessing", SiteTally(PURDUE, 4, 3), dag_id)
    (words,) = {notice.words for notice in notices.list_notices(session)}
    assert words.endswith("3 of 4 attempts failed at T2_US_Purdue; 2 infrastructure (8021): cannot write")


def test_a_release_that_avoids_a_site_is_a_ban_too(session: Session) -> None:
    bans.ban_sites(session, "demo", ["T2_DE_DESY"], by("release", request="demo"))
    assert heard(session) == {(OPS, "ban")}


async def test_operators_hear_of_an_alert_once_a_day(told: Engine) -> None:
    alert = Alert(request="demo", kind="lost_host", message="no worker on host follows round 1")
    for _ in range(3):
        await RecordActivities(told).raise_alert(alert)
    (notice,) = listed(told)
    assert (notice.address, notice.reason, notice.words) == (OPS, Reason.LOST_HOST, alert.message)


async def test_an_alert_is_on_record_also_where_nobody_is_told(engine: Engine) -> None:
    alert = Alert(request="demo", kind="slow_dag", message="has been active\nfor long")
    for _ in range(3):
        await RecordActivities(engine).raise_alert(alert)
    with transaction(engine) as session:
        (entry,) = audit_trail(session, "demo")
    assert (entry.action.action, entry.action.detail) == ("alert", {"kind": "slow_dag"})
    assert (entry.action.actor, entry.action.reason) == ("wms2", "has been active for long")


def test_words_made_to_break_something_are_one_line_in_the_database(session: Session) -> None:
    record_status(session, "demo", HELD, 1, "wms2", "a\r\nBcc: x@y\x00\x1b[2J" + "x" * 10_000)
    for notice in notices.list_notices(session):
        assert notice.words.isprintable()
        assert len(notice.words) <= 500


def test_a_ban_by_hand_is_told_and_listed(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contacts = tmp_path / "contacts.yaml"
    contacts.write_text(f"operators: [{OPS}]")
    given = {"DATABASE_URL": database_url, "NOTIFY": "on", "CONTACTS": str(contacts), "HOME": str(tmp_path)}
    for name, value in given.items():
        monkeypatch.setenv(f"WMS2_{name}", value)
    for words in (["site", "ban", PURDUE, "--reason", "storage is down"], ["site", "unban", PURDUE]):
        assert CliRunner().invoke(app, words).exit_code == 0
    shown = json.loads(CliRunner().invoke(app, ["notice", "list", "--json"]).stdout)
    assert [(one["reason"], one["state"]) for one in shown] == [
        ("ban_ended", "waiting"),
        ("ban_for_all", "waiting"),
    ]
    assert "storage is down" in CliRunner().invoke(app, ["notice", "list", "--state", "waiting"]).stdout
    assert json.loads(CliRunner().invoke(app, ["notice", "list", "--json", "--state", "sent"]).stdout) == []


# Digests


def test_an_address_gets_one_digest_at_a_time_and_it_never_changes(told: Engine) -> None:
    with transaction(told) as session:
        enter(session, HELD, 1)
        first = notices.claim_digests(session)
        assert len(first) == 2
        before = [notices.open_digest(session, digest) for digest in first]
        enter(session, COMPLETED, 2)
    with transaction(told) as session:
        assert notices.claim_digests(session) == first
        assert [notices.open_digest(session, digest) for digest in first] == before
        for digest in first:
            notices.mark_sent(session, digest)
            assert notices.open_digest(session, digest) is None
    with transaction(told) as session:
        (second,) = notices.claim_digests(session)
        found = notices.open_digest(session, second)
        assert found is not None
        assert found.address == HER
        assert "reason 2" in found.body
        assert "reason 1" not in found.body


def test_of_many_who_claim_at_once_each_notice_is_in_one_digest(told: Engine) -> None:
    with transaction(told) as session:
        for sequence in range(1, 20):
            enter(session, HELD, sequence)

    def claim(_: int) -> list[Any]:
        with transaction(told) as session:
            return notices.claim_digests(session)

    with ThreadPoolExecutor(8) as people:
        claimed = {digest for digests in people.map(claim, range(8)) for digest in digests}
    assert listed(told, NoticeState.WAITING) == []
    assert {notice.digest_id for notice in listed(told)} == claimed
    assert len(claimed) == 2


async def test_a_mail_server_that_is_away_is_tried_again_later_and_given_up_in_the_end(
    told: Engine, database_url: str
) -> None:
    with transaction(told) as session:
        enter(session, COMPLETED, 1)
    async with mailbox() as box:
        box.answer = "451 come back later"
        activities = sender(database_url, box.port, most_tries=3)
        assert await send_all(activities) == [DigestState.SENDING]
        assert await send_all(activities) == [], "it rests"
        for _ in range(2):
            with transaction(told) as session:
                session.execute(text("UPDATE notice_digests SET due_at = now()"))
            last = await send_all(activities)
        assert last == [DigestState.GIVEN_UP]
        with transaction(told) as session:
            session.execute(text("UPDATE notice_digests SET due_at = now()"))
        assert await send_all(activities) == []
        (notice,) = listed(told, NoticeState.GIVEN_UP)
        assert (notice.tries, notice.next_try_at) == (3, None)
        assert "451 come back later" in notice.error
        box.answer = None
        with transaction(told) as session:
            enter(session, HELD, 2)
        assert await send_all(activities) == [DigestState.SENT] * 2, "what comes after is sent all the same"


async def test_one_digest_that_cannot_be_sent_keeps_no_other_from_being_sent(
    told: Engine, database_url: str
) -> None:
    with transaction(told) as session:
        enter(session, HELD, 1)
    async with mailbox() as box:
        box.refused = {HER}
        assert sorted(await send_all(sender(database_url, box.port))) == ["sending", "sent"]
        assert box.recipients == [OPS]


@pytest.mark.parametrize("step", STEPS)
async def test_a_sender_killed_at_any_step_loses_nothing_and_what_is_sent_twice_is_the_same(
    told: Engine, database_url: str, step: str
) -> None:
    with transaction(told) as session:
        enter(session, RequestStatus.ABORTED, 1)
    async with mailbox() as box:
        died = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.integration.dying_sender", database_url, str(box.port), step,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert await died.wait() == -signal.SIGKILL
        with transaction(told) as session:
            enter(session, COMPLETED, 2)
        after = [await send_all(sender(database_url, box.port)) for _ in range(2)]
    twice = step in ("after the sending", "before the mark is committed")
    together = step == "before the claim is committed"
    assert listed(told, NoticeState.WAITING, NoticeState.SENDING, NoticeState.GIVEN_UP) == []
    assert len(set(box.raw)) == len(set(box.ids)) == (1 if together else 2)
    assert len(box.mails) == (1 if together else 3 if twice else 2)
    assert "".join(box.texts).count("reason 2") == 1
    assert all(state is DigestState.SENT for run in after for state in run)
    if twice:
        assert box.raw[0] == box.raw[1]


# On Temporal


@pytest.fixture
def settings(stack: Settings) -> Settings:
    """A namespace of its own, with notifications on."""
    changes = {"temporal_namespace": unique("notified"), "notify": "on"}
    return stack.model_copy(update=changes)


async def scheduled(client: Client) -> set[str]:
    return {found.id async for found in await client.list_schedules()}


async def until(reached: Callable[[], Any], look_sec: float = 0.2) -> Any:
    async with asyncio.timeout(PATIENCE_SEC):
        while not (found := await reached()):
            await asyncio.sleep(look_sec)
        return found


async def test_the_off_switch_takes_the_schedule_away(settings: Settings) -> None:
    client = await connect(settings)
    await bootstrap(client, settings)
    others = {RECONCILIATION, CHAINS, REQMGR2, SITES, HOSTS}
    await until(lambda: _is(scheduled(client), {*others, NOTIFICATION}))
    off = settings.model_copy(update={"notify": "off"})
    for _ in range(2):
        await bootstrap(client, off)
        await until(lambda: _is(scheduled(client), others))


async def _is(found: Any, expected: Any) -> bool:
    return bool(await found == expected)


@pytest.fixture
async def client(settings: Settings) -> Client:
    """The schedule is there, and runs only when it is triggered."""
    client = await connect(settings)
    await bootstrap(client, settings)
    await client.get_schedule_handle(NOTIFICATION).pause()
    return client


async def test_a_request_that_is_held_and_completes_is_told_to_each_audience_by_mail_and_webhook(
    engine: Engine, client: Client
) -> None:
    """The worker's own activities and workflow, on the real servers."""
    with hook() as chat:
        async with mailbox() as box:
            webhooks = {CHAT: Webhook(url=chat.url, secret="hush")}
            contacts = CONTACTS.model_copy(update={"operators": (OPS, CHAT), "webhooks": webhooks})
            told = notices.telling(engine, contacts)
            messenger = Messenger(contacts, Mailer("127.0.0.1", "wms2@example.org", "none", box.port))
            await _live(
                client, RecordActivities(told), NoticeActivities(told, messenger, 3, timedelta(minutes=10))
            )
    _assert_told(box, chat)
    assert {notice.state for notice in listed(told)} == {NoticeState.SENT}


async def _live(client: Client, records: RecordActivities, hands: NoticeActivities) -> None:
    """Failures, held, told; completed, told."""

    async def enter(status: RequestStatus, sequence: int, reason: str) -> None:
        record = StatusRecord(request="demo", status=status, sequence=sequence, actor="wms2", reason=reason)
        await records.record_status(record)

    await records.record(insert_request, simulation(request_name="demo"))
    async with Worker(
        client, task_queue=WORKFLOWS, workflows=WORKFLOW_TYPES, workflow_runner=workflow_runner(),
        activities=defined_activities(hands),
    ):  # fmt: skip
        await enter(RequestStatus.PARTIAL, 1, "2 of 4 work units failed")
        await enter(HELD, 2, "2 of 4 work units failed")
        assert await _triggered(client) == Notified(sent=3)
        await enter(COMPLETED, 3, "all outputs are announced")
        assert await _run(client, "second") == Notified(sent=1)
        assert await _run(client, "third") == Notified()


async def _triggered(client: Client) -> Notified:
    """What a run of the schedule came to."""
    schedule = client.get_schedule_handle(NOTIFICATION)
    await schedule.trigger()

    async def started() -> Any:
        return (await schedule.describe()).info.recent_actions

    (run, *_) = await until(started)
    return await client.get_workflow_handle(run.action.workflow_id, result_type=Notified).result()


async def _run(client: Client, name: str) -> Notified:
    return await client.execute_workflow(NotificationWorkflow.run, id=name, task_queue=WORKFLOWS)


def _assert_told(box: Mailbox, chat: Hook) -> None:
    texts = {(str(mail["To"]), str(mail["Subject"])): mail.get_content() for mail in box.mails}
    assert texts.keys() == {
        (OPS, "WMS2: demo (held)"),
        (HER, "WMS2: demo (failures), demo (held)"),
        (HER, "WMS2: demo (completed)"),
    }
    assert "wms2 request release demo" in texts[OPS, "WMS2: demo (held)"]
    hers = texts[HER, "WMS2: demo (failures), demo (held)"]
    assert hers.count("2 of 4 work units failed") == 1
    assert "wms2 request errors demo" in hers
    (document,) = chat.documents
    assert [one["reason"] for one in document["notices"]] == ["held"]
