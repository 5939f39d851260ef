"""Submit hosts: workers announce them, the collector knows their schedds, operators have the last word."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from tests.factories import simulation
from tests.integration.test_database import planned
from tests.patience import PATIENCE_SEC
from wms2.activities import hosts as announcing
from wms2.activities.hosts import HostActivities, keep_announced
from wms2.adapters.condor import Condor
from wms2.config import Settings
from wms2.core.hosts import why_unused
from wms2.db import hosts, ledger
from wms2.db.audit import audit_trail
from wms2.db.notices import list_notices, telling
from wms2.db.requests import insert_request
from wms2.db.session import transaction
from wms2.models.audit import Action
from wms2.models.contacts import Contacts
from wms2.models.host import HostReport, HostSurvey
from wms2.temporal.client import connect
from wms2.temporal.ids import HOSTS

SILENCE = timedelta(minutes=15)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with transaction(telling(engine, Contacts(operators=("ops@example.org",)))) as session:
        yield session


def report(host: str, dagmans: int = 500) -> HostReport:
    return HostReport(
        host=host, schedd_name=f"schedd@{host}", submit_root="/submit", dagmans=dagmans, version="0.1.0"
    )


def by(action: str, number: int = 0) -> Action:
    return Action(action_id=f"{action}-{number}", actor="alice", action=action, reason="new disks")


def fall_silent(session: Session, *names: str, minutes: int = 20) -> None:
    session.execute(
        text("UPDATE submit_hosts SET last_seen_at = now() - make_interval(mins => :m) WHERE name = ANY(:n)"),
        {"m": minutes, "n": list(names)},
    )


def known(session: Session) -> list[str]:
    return [host.name for host in hosts.list_hosts(session)]


def used(session: Session) -> dict[str, int]:
    return hosts.host_list(session, SILENCE).dagmans


def test_the_hosts_a_and_b_against_the_collectors_a_and_c_are_exactly_a_and_c(session: Session) -> None:
    for name in ("a", "b", "c"):
        assert hosts.announce_host(session, report(name), SILENCE), "a new host is news"
    fall_silent(session, "b")
    found = hosts.survey_hosts(session, {"schedd@a", "schedd@c", "schedd@of-others"}, SILENCE)
    assert (found.ready, found.removed) == (("a", "c"), ("b",))
    assert known(session) == ["a", "c"]
    assert used(session) == {"a": 500, "c": 500}


def test_a_host_disabled_by_hand_stays_so_when_it_vanishes_and_returns(session: Session) -> None:
    hosts.announce_host(session, report("a"), SILENCE)
    hosts.set_disabled(session, "a", True, by("host_disable"))
    assert used(session) == {}
    fall_silent(session, "a")
    assert hosts.survey_hosts(session, set(), SILENCE).removed == ("a",)
    assert (known(session), hosts.list_vanished(session)) == ([], ["a"])
    hosts.announce_host(session, report("a"), SILENCE)
    assert hosts.survey_hosts(session, {"schedd@a"}, SILENCE).ready == ()
    (back,) = hosts.list_hosts(session)
    assert (back.disabled, back.said_by, back.said_because) == (True, "alice", "new disks")
    hosts.set_disabled(session, "a", False, by("host_enable"))
    assert used(session) == {"a": 500}
    assert [entry.action.action for entry in audit_trail(session)] == ["host_enable", "host_disable"]


def test_a_word_on_a_host_that_is_told_again_does_not_undo_the_next_one(session: Session) -> None:
    hosts.announce_host(session, report("a"), SILENCE)
    hosts.set_disabled(session, "a", True, by("host_disable"))
    hosts.set_disabled(session, "a", False, by("host_enable"))
    hosts.set_disabled(session, "a", True, by("host_disable"))
    assert used(session) == {"a": 500}


def test_a_host_with_an_open_round_stays_listed_until_that_is_closed(session: Session) -> None:
    insert_request(session, simulation(request_name="simulation"))
    ledger.record_plan(session, planned(0, (1, 100)).model_copy(update={"submit_host": "a"}))
    hosts.announce_host(session, report("a"), SILENCE)
    fall_silent(session, "a")
    assert hosts.survey_hosts(session, set(), SILENCE).removed == ()
    session.execute(text("UPDATE rounds SET status = 'closed'"))
    assert hosts.survey_hosts(session, set(), SILENCE).removed == ("a",)


def test_while_the_collector_does_not_answer_what_it_said_holds(session: Session) -> None:
    for name in ("a", "b"):
        hosts.announce_host(session, report(name), SILENCE)
    hosts.survey_hosts(session, {"schedd@a"}, SILENCE)
    assert hosts.survey_hosts(session, None, SILENCE).ready == ("a",)
    assert known(session) == ["a", "b"], "the worker of b is there"
    assert hosts.survey_hosts(session, {"schedd@a", "schedd@b"}, SILENCE).ready == ("a", "b")


def test_operators_are_told_once_of_each_silence_and_the_host_gets_no_slots(session: Session) -> None:
    hosts.announce_host(session, report("a"), SILENCE)
    schedds = {"schedd@a"}
    for silence in (1, 2):
        fall_silent(session, "a", minutes=20 + silence)
        assert used(session) == {}
        assert hosts.survey_hosts(session, schedds, SILENCE).silent == ("a",)
        assert hosts.survey_hosts(session, schedds, SILENCE).silent == ()
        assert len(list_notices(session)) == silence
        assert hosts.announce_host(session, report("a"), SILENCE), "that it is back is news"
        assert used(session) == {"a": 500}
    assert not hosts.announce_host(session, report("a"), SILENCE)
    assert hosts.announce_host(session, report("a", 44), SILENCE), "so is another capacity"
    notice = list_notices(session)[0]
    assert (notice.about, notice.reason) == ("a", "lost_host")
    assert "and gets no new work; 0 requests have a round open there" in notice.words


def test_operators_are_told_once_of_a_schedd_that_the_collector_does_not_know_for_long(
    session: Session,
) -> None:
    hosts.announce_host(session, report("a"), SILENCE)
    for absence in (1, 2):
        assert hosts.survey_hosts(session, set(), SILENCE).cut_off == (), "it may come back"
        session.execute(
            text("UPDATE submit_hosts SET schedd_gone_at = now() - make_interval(mins => :m)"),
            {"m": 20 + absence},
        )
        assert hosts.survey_hosts(session, set(), SILENCE).cut_off == ("a",)
        assert hosts.survey_hosts(session, set(), SILENCE).cut_off == (), "it is told already"
        assert len(list_notices(session)) == absence
        assert hosts.survey_hosts(session, {"schedd@a"}, SILENCE).ready == ("a",)
    notice = list_notices(session)[0]
    assert (notice.about, notice.reason) == ("a", "lost_host")
    assert {entry.action.detail["host"] for entry in audit_trail(session)} == {"a"}


def test_a_host_that_was_given_up_is_used_again_when_its_worker_is_heard_of(session: Session) -> None:
    hosts.announce_host(session, report("a"), SILENCE)
    session.execute(text("UPDATE submit_hosts SET last_seen_at = now() - interval '1 minute'"))
    hosts.give_up_host(session, "a", by("host_lost"))
    assert used(session) == {}
    (lost,) = hosts.list_hosts(session)
    now = hosts.host_list(session, SILENCE).at
    assert "given up at" in str(why_unused(lost, now, SILENCE))
    session.execute(text("UPDATE host_words SET lost_at = lost_at - interval '30 seconds'"))
    assert hosts.announce_host(session, report("a"), SILENCE)
    assert used(session) == {"a": 500}


def test_a_host_that_was_left_is_used_again_when_it_is_announced(session: Session) -> None:
    for name in ("a", "b"):
        hosts.announce_host(session, report(name), SILENCE)
    hosts.leave_host(session, "a")
    assert used(session) == {"b": 500}
    assert hosts.announce_host(session, report("a"), SILENCE), "it is news"
    assert used(session) == {"a": 500, "b": 500}


@contextmanager
def worker(host: str, **settings: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker that serves the namespace under this name."""
    started = subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), "worker", "run", "--host", host],
        env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SEC
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


async def test_a_database_that_can_only_be_read_for_a_while_ends_no_worker(
    engine: Engine, stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is that another server takes over from."""
    tried = 0

    class Alone(HostActivities):
        async def survey_hosts(self) -> HostSurvey:
            return HostSurvey()

    async def nothing_to_tidy() -> None: ...

    async def describe(host: str) -> HostReport:
        nonlocal tried
        tried += 1
        return report(host)

    monkeypatch.setattr(announcing, "ANNOUNCE_AGAIN_SEC", 0.1)
    only_read(engine, "on")
    alone = Alone(engine, await connect(stack), Condor(stack.condor_environment()), SILENCE)
    announced = asyncio.create_task(keep_announced(alone, nothing_to_tidy, describe, "a"))
    async with asyncio.timeout(PATIENCE_SEC):
        while tried < 3 and not announced.done():
            await asyncio.sleep(0.1)
        assert not announced.done()
        only_read(engine, "off")
        while not listed(engine):
            await asyncio.sleep(0.1)
    announced.cancel()
    assert listed(engine) == ["a"]


def only_read(engine: Engine, word: str) -> None:
    """From its next connection on."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET default_transaction_read_only = off"))
        connection.execute(
            text(f'ALTER DATABASE "{engine.url.database}" SET default_transaction_read_only = {word}')
        )
    engine.dispose()


def listed(engine: Engine) -> list[str]:
    with transaction(engine) as session:
        return known(session)


@pytest.mark.pool
async def test_the_collector_knows_the_schedd_of_this_host(stack: Settings) -> None:
    condor = Condor(stack.condor_environment())
    assert await condor.schedd_name() in await condor.schedds()


@pytest.mark.pool
def test_workers_announce_their_hosts_and_admission_lends_where_operators_let_it(
    wms2: Any, engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent_on = partial(lending_hosts, wms2)
    assert "admission does not run;" in wms2("admission", "show").stderr
    with ExitStack() as workers:
        workers.enter_context(worker("submit-1", WMS2_MAX_DAGMANS="33"))
        until(lambda: lent_on() == {"submit-1": 33})
        workers.enter_context(worker("submit-2", WMS2_MAX_DAGMANS="44"))
        until(lambda: lent_on() == {"submit-1": 33, "submit-2": 44})
        first, second = wms2("host", "list", "--json").json()
        assert first["schedd_name"] == second["schedd_name"]
        assert (first["name"], first["max_dagmans"], first["unused_because"]) == ("submit-1", 33, None)
        assert "submit-2" in wms2("host", "list").stdout

        assert "submit-1 is disabled" in wms2("host", "disable", "submit-1", "--reason", "disks").stderr
        until(lambda: lent_on() == {"submit-2": 44})
        assert wms2("host", "list", "--json").json()[0]["unused_because"].endswith(": disks")
        assert "is enabled" in wms2("host", "enable", "submit-1").stderr
        until(lambda: lent_on() == {"submit-1": 33, "submit-2": 44})
        assert "No worker has announced submit-9" in wms2("host", "enable", "submit-9").stderr
        assert wms2("host", "disable", "no host").code == 2

        told = wms2("admission", "set", "--limit", "2", "--idle-budget", "100", "--reason", "slow schedds")
        assert "0 of 2 slots are lent, 0 requests wait; 0 of 100 idle jobs are shared out." in told.stderr
        assert wms2("admission", "show", "--json").json()["idle_share"] == 5
        refused = wms2("admission", "set", "--idle-budget", "19")
        assert (refused.code, "need an idle budget of 20 jobs" in refused.stderr) == (2, True)
        assert wms2("admission", "set").code == 2
        assert "It drains" in wms2("admission", "drain").stderr
        assert "it drains already" in wms2("admission", "drain").stderr
        assert "submit-1" in wms2("admission", "show").stdout
        assert "It drains" not in wms2("admission", "resume").stderr
    with transaction(engine) as session:
        trail = [entry.action for entry in reversed(audit_trail(session))]
    assert [action.action for action in trail] == [
        "host_disable", "host_enable", "host_enable", "admission_set", "admission_drain", "admission_resume",
    ]  # fmt: skip
    assert (trail[0].detail, trail[0].reason) == ({"host": "submit-1"}, "disks")
    assert (trail[3].detail, trail[3].reason) == ({"limit": 2, "idle_budget": 100}, "slow schedds")
    monkeypatch.setattr("wms2.door.admission.ANSWER_TIMEOUT", timedelta(seconds=1))
    assert "no worker answers" in wms2("admission", "show").stderr


def lending_hosts(wms2: Any) -> dict[str, int]:
    """The hosts that admission lends slots on, and how many DAGMans each may run."""
    shown = wms2("admission", "show", "--json")
    listed = shown.json()["hosts"] if shown.code == 0 else []
    return {host["host"]: host["dagmans"] for host in listed}


@pytest.mark.pool
def test_a_worker_that_is_stopped_says_so_and_nothing_more_is_lent_on_its_host_until_it_is_back(
    wms2: Any,
) -> None:
    with worker("submit-1"), worker("submit-2") as stopped:
        until(lambda: set(lending_hosts(wms2)) == {"submit-1", "submit-2"})
        stopped.terminate()
        assert stopped.wait(PATIENCE_SEC) == 0
        until(lambda: set(lending_hosts(wms2)) == {"submit-1"})
        (_, left) = wms2("host", "list", "--json").json()
        assert left["unused_because"].startswith("its worker was stopped at")
        with worker("submit-2"):
            until(lambda: set(lending_hosts(wms2)) == {"submit-1", "submit-2"})


@pytest.mark.pool
def test_a_host_that_is_given_up_and_returns_is_announced_again_by_its_worker(
    wms2: Any, engine: Engine
) -> None:
    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = wms2("host", "list", "--json").json()
        return found

    with worker("submit-1"):
        until(lambda: [host["unused_because"] for host in listed()] == [None])
    lost = wms2("host", "lost", "submit-1", "--reason", "its disk is broken", "--yes")
    assert "submit-1 is given up; 0 requests are held" in lost.stderr
    assert listed()[0]["unused_because"].startswith("given up at")
    with worker("submit-1"):
        until(lambda: [host["unused_because"] for host in listed()] == [None])


@pytest.mark.pool
def test_by_schedule_a_host_that_nobody_knows_any_more_is_removed(
    wms2: Any, engine: Engine, settings: Settings
) -> None:
    def names() -> list[str]:
        return [host["name"] for host in wms2("host", "list", "--json").json()]

    async def trigger() -> None:
        await (await connect(settings)).get_schedule_handle(HOSTS).trigger()

    with worker("submit-1"):
        until(lambda: names() == ["submit-1"])
        with transaction(engine) as session:
            hosts.announce_host(session, report("a"), SILENCE)
            fall_silent(session, "a")
        assert names() == ["a", "submit-1"]
        asyncio.run(trigger())
        until(lambda: names() == ["submit-1"])
