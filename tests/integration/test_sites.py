"""Sites as CRIC has them and as operators want them, in the real database."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session
from temporalio.worker import Worker

from tests.integration.rounds import unique
from tests.integration.test_planner import OTHER, SITE, Plans
from tests.patience import PATIENCE_SEC
from tests.stand_in import control, make_trouble, services
from wms2.activities.bans import BanActivities
from wms2.activities.sites import SiteActivities
from wms2.adapters.condor import Condor
from wms2.adapters.cric import Cric
from wms2.config import Settings
from wms2.dagman.include import allowed_sites
from wms2.dagman.round_folder import read_snapshot
from wms2.db import notices, sites
from wms2.db.audit import audit_trail
from wms2.db.session import transaction
from wms2.errors import Unavailable, UserError
from wms2.local.inputs import make_dataset
from wms2.models.audit import Action
from wms2.models.contacts import Contacts
from wms2.models.messages import DagOrder, SubmittedDag
from wms2.models.site import Cores, CricSite, Site, SiteStatus, SyncedSites
from wms2.patterns import SITE_NAME
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import SITES
from wms2.temporal.queues import SERVICES, WORKFLOWS
from wms2.worker import WORKFLOW_TYPES, defined_activities, workflow_runner

PURDUE, DESY = "T2_US_Purdue", "T2_DE_DESY"
LISTED = [CricSite(PURDUE, (PURDUE,), "ACTIVE", 2, 50), CricSite(DESY, (DESY,), "ACTIVE", 2)]


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with transaction(engine) as session:
        yield session


def by(action: str, number: int = 0) -> Action:
    return Action(action_id=f"{action}-{number}", actor="alice", action=action, reason="downtime")


def known(session: Session, name: str) -> Site:
    found = sites.find_site(session, name)
    assert found is not None
    return found


def test_what_cric_lists_is_taken_over_and_the_pool_says_what_it_does_not(session: Session) -> None:
    cores = {PURDUE: Cores(8, 3), DESY: Cores(4, 1)}
    assert sites.take_sites(session, LISTED, cores) == SyncedSites(listed=2, new=(DESY, PURDUE))
    assert sites.take_sites(session, LISTED, {}) == SyncedSites(listed=2)
    found = {site.name: (site.total_slots, site.running_slots) for site in sites.list_sites(session)}
    assert found == {PURDUE: (50, 3), DESY: (4, 1)}
    assert known(session, DESY).rses == (DESY,)
    limited = CricSite(DESY, (DESY,), "ACTIVE", 2, thresholds={"pending": 20, "running": 100})
    sites.take_sites(session, [LISTED[0], limited], {})
    sites.take_sites(session, LISTED, {})
    assert known(session, DESY).thresholds == {"pending": 20, "running": 100}, "CRIC said nothing else since"
    assert sites.site_rse(session, DESY) == DESY


@pytest.mark.parametrize("status", [SiteStatus.DRAINING, SiteStatus.DISABLED, SiteStatus.MAINTENANCE])
def test_an_operators_word_survives_that_a_site_vanishes_from_cric_and_returns(
    session: Session, status: SiteStatus
) -> None:
    until = datetime.now(UTC) + timedelta(days=3)
    sites.take_sites(session, LISTED, {})
    said = sites.set_site_status(session, PURDUE, status, until, by("drain"))
    assert sites.take_sites(session, LISTED[1:], {}).gone == (PURDUE,)
    assert sites.take_sites(session, LISTED[1:], {}).gone == (), "it is told once"
    gone = known(session, PURDUE)
    assert gone.cric_gone_at
    assert sites.take_sites(session, LISTED, {}).back == (PURDUE,)
    back = known(session, PURDUE)
    for site in (said, gone, back):
        assert (site.status, site.drain_until, site.status_by, site.status_reason) == (
            status, until, "alice", "downtime",
        )  # fmt: skip
    assert back.cric_gone_at is None
    assert sites.closed_sites(session).keys() == {PURDUE}
    assert [entry.action.actor for entry in audit_trail(session)] == ["alice"]


def test_a_site_that_vanishes_takes_no_work_until_it_is_back_and_then_does_by_itself(
    session: Session,
) -> None:
    sites.take_sites(session, LISTED, {})
    sites.take_sites(session, LISTED[1:], {})
    assert sites.closed_sites(session)[PURDUE].startswith("CRIC does not list it since ")
    sites.take_sites(session, LISTED, {})
    assert sites.closed_sites(session) == {}


def test_a_drain_whose_time_is_over_closes_nothing(session: Session) -> None:
    sites.set_site_status(session, PURDUE, SiteStatus.DRAINING, datetime.now(UTC), by("drain"))
    assert sites.closed_sites(session) == {}


@pytest.mark.pool
async def test_rounds_and_rescues_stay_away_from_closed_sites_and_when_all_are_closed_a_person_is_told(
    stack: Settings, database_url: str
) -> None:
    plans = Plans(stack.model_copy(update={"database_url": database_url}), site_whitelist=[SITE, OTHER])
    name = plans.request.request_name
    await make_dataset(
        stack, plans.request.input_dataset or "", files=2, events_per_file=1, sites=[SITE, OTHER]
    )
    first = await plans.report([SITE, OTHER])
    with transaction(plans.engine) as session:
        sites.set_site_status(session, SITE, SiteStatus.DRAINING, None, by("drain"))
        sites.set_site_status(session, f"{OTHER}_2", SiteStatus.DISABLED, None, by("disable"))
    order = DagOrder(request=name, round=0, attempt=1, folder=first.folder)
    ended = SubmittedDag(order=order, cluster=1, intent_at=datetime.now(UTC), found=False)
    assert (await BanActivities(plans.engine).judge_sites(ended)).left == (OTHER,)
    assert allowed_sites(first.folder) == [OTHER]
    plans.close(first)
    second = await plans.report([SITE, OTHER])
    assert read_snapshot(second.folder).snapshot.sites == (OTHER,)
    plans.close(second)
    with transaction(plans.engine) as session:
        sites.set_site_status(session, OTHER, SiteStatus.MAINTENANCE, None, by("maintenance"))
    with pytest.raises(
        UserError, match=r"all of its 2 sites are banned or closed, T.*by alice: downtime; `wms2"
    ):
        await plans.plan([SITE, OTHER])
    plans.engine.dispose()


class Synced:
    """The stand-in CRIC, and the activity that asks it."""

    def __init__(self, url: str, engine: Engine, cric: Cric, condor: Condor) -> None:
        self.url, self.engine = url, engine
        self.activities = SiteActivities(engine, cric, condor)


@pytest.fixture
async def synced(stack: Settings, engine: Engine, tmp_path: Path) -> AsyncIterator[Synced]:
    with services(tmp_path) as url:
        async with Cric(f"{url}/cric") as cric:
            yield Synced(url, engine, cric, Condor(stack.condor_environment()))


@pytest.mark.pool
async def test_sites_come_and_go_with_cric_and_have_the_cores_of_the_pool(synced: Synced) -> None:
    first = await synced.activities.sync_sites()
    assert first.listed == len(first.new) == 4
    with transaction(synced.engine) as session:
        fnal = known(session, "T1_US_FNAL")
    assert (fnal.storage_element, fnal.cric_state) == ("T1_US_FNAL_Disk", "ACTIVE")
    assert fnal.total_slots
    control(synced.url, "PUT", f"cric/{PURDUE}", None)
    control(
        synced.url, "PUT", f"cric/{DESY}", {"state": "DISABLED", "slots": 77, "thresholds": {"pending": 9}}
    )
    assert (await synced.activities.sync_sites()).gone == (PURDUE,)
    with transaction(synced.engine) as session:
        assert sites.closed_sites(session).keys() == {PURDUE, DESY}
        assert known(session, DESY).total_slots == 77
        assert known(session, DESY).thresholds == {"pending": 9}


ADVERTISE = """
import sys
import classad2
import htcondor2
slots = [("slot_a", '"T2_US_Evil; queue 5"', "8"), ("slot_b", "1/0", "8"), ("slot_c", '"T2_US_Odd"', "undefined")]
if sys.argv[1] == "there":
    ads = [
        classad2.ClassAd(
            f'[MyType = "Machine"; Name = "{name}"; Machine = "{name}"; MyAddress = "<127.0.0.1:9>";'
            f' StartdIpAddr = "<127.0.0.1:9>"; State = "Owner"; GLIDEIN_CMSSite = {site}; Cpus = {cpus}]'
        )
        for name, site, cpus in slots
    ]
    htcondor2.Collector().advertise(ads, "UPDATE_STARTD_AD")
else:
    ads = [
        classad2.ClassAd(f'[MyType = "Query"; TargetType = "Machine"; Requirements = Name == "{name}"]')
        for name, _, _ in slots
    ]
    htcondor2.Collector().advertise(ads, "INVALIDATE_STARTD_ADS")
"""


@pytest.fixture
def strange_slots(stack: Settings) -> Iterator[None]:
    """The collector believes what slots say of themselves."""
    for word in ("there", "gone"):
        command = [sys.executable, "-c", ADVERTISE, word]
        subprocess.run(command, env=stack.condor_environment(), check=True, timeout=PATIENCE_SEC)
        if word == "there":
            yield


@pytest.mark.pool
async def test_slots_of_a_site_that_is_none_keep_no_other_from_work(
    stack: Settings, strange_slots: None, caplog: pytest.LogCaptureFixture
) -> None:
    condor = Condor(stack.condor_environment())
    for _ in range(2):
        found = await condor.sites()
        assert {"T1_US_FNAL", "T2_CH_CERN", DESY, PURDUE} <= set(found)
        assert [site for site in found if not SITE_NAME.fullmatch(site) or site == "T2_US_Odd"] == []
    told = [record.getMessage() for record in caplog.records if "is no site" in record.getMessage()]
    assert len(told) == 2, "each strange name once"
    assert any("T2_US_Evil; queue 5" in line for line in told)


@pytest.mark.pool
async def test_while_cric_is_silent_what_it_said_holds_and_after_a_day_operators_are_told_once(
    synced: Synced,
) -> None:
    told = notices.telling(synced.engine, Contacts(operators=("ops@example.org",)))
    synced.activities._engine = told
    await synced.activities.sync_sites()
    make_trouble(synced.url, "status", service="cric", times=100)
    with pytest.raises(Unavailable):
        await synced.activities.sync_sites()
    assert await synced.activities.report_silence() == ""
    with transaction(told) as session:
        assert sites.closed_sites(session) == {}
        session.execute(text("UPDATE sites SET cric_seen_at = now() - interval '25 hours'"))
    for _ in range(2):
        assert "has not answered since" in await synced.activities.report_silence()
    with transaction(told) as session:
        (notice,) = notices.list_notices(session)
        assert sites.closed_sites(session) == {}
    assert (notice.about, notice.reason) == ("CRIC", "silent_service")


@pytest.mark.pool
async def test_a_new_installation_asks_cric_at_once(stack: Settings, synced: Synced) -> None:
    settings = stack.model_copy(update={"temporal_namespace": unique("sites")})
    client = await connect(settings)
    await bootstrap(client, settings)
    async with (
        Worker(client, task_queue=WORKFLOWS, workflows=WORKFLOW_TYPES, workflow_runner=workflow_runner()),
        Worker(client, task_queue=SERVICES, activities=defined_activities(synced.activities)),
    ):
        async with asyncio.timeout(PATIENCE_SEC):
            while not (actions := (await client.get_schedule_handle(SITES).describe()).info.recent_actions):
                await asyncio.sleep(0.1)
            run = client.get_workflow_handle(actions[0].action.workflow_id, result_type=SyncedSites)
            assert (await run.result()).listed == 4


def test_an_operator_drains_shows_and_enables_a_site(wms2: Any, engine: Engine) -> None:
    with transaction(engine) as session:
        sites.take_sites(session, LISTED, {})
    drained = wms2("site", "drain", PURDUE, "--days", "2", "--reason", "downtime")
    assert f"{PURDUE} is draining until " in drained.stderr
    (listed,) = wms2("site", "list", "--closed", "--json").json()
    assert (listed["name"], listed["status_now"], listed["status_reason"]) == (PURDUE, "draining", "downtime")
    shown = wms2("site", "show", PURDUE)
    assert "no, drained by " in shown.stdout
    assert wms2("site", "show", PURDUE, "--json").json()["bans"] == []
    assert "CRIC answered last at" in wms2("site", "list").stderr
    wms2("site", "maintenance", PURDUE, "--until", "2999-01-31")
    wms2("site", "disable", PURDUE)
    wms2("site", "enable", PURDUE, "--reason", "it is back")
    assert wms2("site", "list", "--closed", "--json").json() == []
    with transaction(engine) as session:
        trail = [entry.action for entry in reversed(audit_trail(session))]
    assert [action.action for action in trail] == ["drain", "maintenance", "disable", "enable"]
    assert trail[1].detail == {"site": PURDUE, "until": "2999-01-31T00:00:00+00:00"}
    assert json.dumps(trail[0].reason) == '"downtime"'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drain", "Purdue"], "'Purdue' is no name of a site"),
        (["drain", PURDUE, "--until", "2020-01-01"], "2020-01-01 00:00 UTC is over; give a time to come"),
        (["drain", PURDUE, "--until", "2999-01-01", "--days", "1"], "give --until or --days, not both"),
        (["show", "T2_XX_Nowhere"], "nothing is known of T2_XX_Nowhere"),
    ],
)
def test_a_mistake_about_a_site_is_told_in_a_sentence(wms2: Any, words: list[str], said: str) -> None:
    answer = wms2("site", *words)
    assert answer.code == 2
    assert said in answer.stderr
