"""Bans of sites in the real database, and what a judged DAG leaves for its rescue."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from tests.factories import simulation
from tests.integration.rounds import Round, small_simulation
from wms2.activities.bans import BanActivities
from wms2.config import Settings
from wms2.core.bans import SiteTally
from wms2.dagman.include import allowed_sites
from wms2.db import bans
from wms2.db.audit import audit_trail
from wms2.db.requests import insert_request
from wms2.db.session import transaction
from wms2.errors import UserError
from wms2.models.audit import Action
from wms2.models.messages import DagOrder, SubmittedDag

pytestmark = pytest.mark.pool

PURDUE, DESY = "T2_US_Purdue", "T2_DE_DESY"
BAD = SiteTally(PURDUE, attempts=4, failures=3)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    """With three requests."""
    with transaction(engine) as session:
        for name in ("one", "two", "three"):
            insert_request(session, simulation(request_name=name))
        yield session


def by(action: str, number: int = 0) -> Action:
    return Action(action_id=f"{action}-{number}", actor="tester", action=action, detail={"site": PURDUE})


def test_a_bad_site_is_banned_for_the_request_once_and_for_seven_days(session: Session) -> None:
    assert bans.ban_bad_site(session, "one", BAD, "one:0:1")
    assert not bans.ban_bad_site(session, "one", BAD, "one:0:1")
    assert bans.banned_sites(session, "one").keys() == {PURDUE}
    assert bans.banned_sites(session, "two") == {}
    (ban,) = bans.list_bans(session)
    assert ban.expires_at - ban.created_at == timedelta(days=7)
    assert (ban.request_name, ban.failure_data["failures"]) == ("one", 3)


def test_a_site_that_three_requests_avoid_is_banned_for_all(session: Session) -> None:
    for name in ("one", "two"):
        bans.ban_bad_site(session, name, BAD, f"{name}:0:1")
        assert not bans.promote_ban(session, PURDUE)
    bans.ban_bad_site(session, "three", BAD, "three:0:1")
    assert bans.promote_ban(session, PURDUE)
    assert not bans.promote_ban(session, PURDUE), "once is enough"
    insert_request(session, simulation(request_name="four"))
    assert bans.banned_sites(session, "four").keys() == {PURDUE}


def test_a_ban_ends_by_itself_and_leaves_a_word(session: Session) -> None:
    bans.ban_by_hand(session, PURDUE, "one", timedelta(days=1), by("ban"))
    assert bans.expire_bans(session) == []
    session.execute(text("UPDATE site_bans SET expires_at = now() - interval '1 minute'"))
    assert bans.banned_sites(session, "one") == {}
    assert [ban.site_name for ban in bans.expire_bans(session)] == [PURDUE]
    assert bans.expire_bans(session) == []
    assert [entry.action.action for entry in audit_trail(session, "one")] == ["unban"]
    assert bans.list_bans(session) == []
    assert len(bans.list_bans(session, ended=True)) == 1


def test_a_person_bans_and_lifts_for_one_request_or_for_all(session: Session) -> None:
    bans.ban_by_hand(session, PURDUE, None, timedelta(days=1), by("ban"))
    bans.ban_by_hand(session, PURDUE, "one", timedelta(days=1), by("ban", 1))
    assert bans.banned_sites(session, "two").keys() == {PURDUE}
    assert bans.lift_bans(session, PURDUE, "one", by("unban")) == 1
    assert bans.banned_sites(session, "one").keys() == {PURDUE}, "it is still banned for all"
    assert bans.lift_bans(session, PURDUE, None, by("unban", 1)) == 1
    with pytest.raises(UserError, match="is not banned"):
        bans.lift_bans(session, PURDUE, None, by("unban", 2))
    with pytest.raises(UserError, match="no request nobody"):
        bans.ban_by_hand(session, PURDUE, "nobody", timedelta(days=1), by("ban", 2))


def test_bans_that_are_lifted_twice_by_one_action_are_lifted_once(engine: Engine) -> None:
    def do(work: Callable[[Session], int | None]) -> int | None:
        with transaction(engine) as session:
            return work(session)

    for number in (10, 11):
        do(lambda s, n=number: bans.ban_by_hand(s, PURDUE, None, timedelta(days=1), by("ban", n)))
    assert do(lambda s: bans.lift_bans(s, PURDUE, None, by("unban", 10))) == 2
    do(lambda s: bans.ban_by_hand(s, PURDUE, None, timedelta(days=1), by("ban", 12)))
    assert do(lambda s: bans.lift_bans(s, PURDUE, None, by("unban", 10))) == 2
    assert do(lambda s: len(bans.list_bans(s))) == 1, "the new ban stays"


async def test_a_rescue_is_kept_away_from_the_sites_that_failed(stack: Settings) -> None:
    """Records as POST leaves them: three of three attempts failed at one site, by its fault."""
    round_ = Round(stack, small_simulation(stack, "judged", total_events=20))
    await round_.start()
    name = round_.request.request_name
    dag = SubmittedDag(
        order=DagOrder(request=name, round=0, attempt=1, folder=round_.folder),
        cluster=1, intent_at="2026-01-01T00:00:00Z", found=False,
    )  # fmt: skip
    unit = round_.folder / round_.planned.work_units[0].name
    before = allowed_sites(round_.folder)
    for cluster in (1001, 1002, 1003):
        post = {"cluster": cluster, "job": {"site": DESY}, "classification": {"category": "infrastructure"}}
        (unit / f"proc_000009.{cluster}.post.json").write_text(json.dumps(post))
    activities = BanActivities(round_.by_hand.engine)
    judged = await activities.judge_sites(dag)
    assert judged.banned == (f"3 of 3 attempts failed at {DESY}",)
    assert set(judged.left) == set(before) - {DESY} == set(allowed_sites(round_.folder))
    assert (await activities.judge_sites(dag)).left == judged.left
