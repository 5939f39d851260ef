"""Requests of ReqMgr2, from their documents to their ends, with real databases and a real Temporal and no pool."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from tests.api_kit import OPERATOR, Issuer, config_for, issuing, serving
from tests.integration.conftest import Through
from tests.integration.rounds import unique
from tests.patience import PATIENCE_SEC
from tests.stand_in import calls_seen, control, make_trouble, services
from tests.unit.test_reqmgr2_chain import AOD, GEN_SIM, tasks
from tests.unit.test_request_reqmgr2 import rereco
from wms2.activities.chains import ChainActivities
from wms2.activities.imports import ImportActivities
from wms2.activities.reconciliation import ReconciliationActivities
from wms2.activities.reports import ReportActivities
from wms2.activities.silences import SilenceActivities
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.config import Settings
from wms2.db.chains import chain_links, waiting_requests
from wms2.db.imports import find_import, list_imports, pset_contents
from wms2.db.notices import list_notices, telling
from wms2.db.requests import list_requests, record_status, request_record
from wms2.db.session import transaction
from wms2.db.versions import supersede
from wms2.errors import Unavailable, UserError
from wms2.models.audit import Action
from wms2.models.contacts import Contacts
from wms2.models.imports import Imported
from wms2.models.messages import InVain
from wms2.models.parameter_set import pset_files
from wms2.models.request import RequestRecord, RequestStatus
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id

HELD, COMPLETED, FAILED = RequestStatus.HELD, RequestStatus.COMPLETED, RequestStatus.FAILED
CONFIGS = ("c1", "c2", "c3", "0123456789abcdef")
FIRST, SECOND, THIRD = (f"operator_tasks_{task}" for task in ("Task1", "Task2", "Task4"))


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        for name in CONFIGS:
            put(url, f"couchdb/reqmgr_config_cache/{name}", json={"pset_tweak_details": {}})
            put(url, f"couchdb/reqmgr_config_cache/{name}/configFile", content=f"process = '{name}'")
        yield url


def put(url: str, path: str, **body: Any) -> None:
    httpx.put(f"{url}/{path}", trust_env=False, **body).raise_for_status()


def make(url: str, document: dict[str, Any], **changes: Any) -> str:
    """A request in ReqMgr2 that is assigned to WMS2."""
    fields = {**document, "RequestStatus": "assigned", "wms_backend": "wms2", **changes}
    made = httpx.post(f"{url}/reqmgr2/data/request", json=fields, trust_env=False)
    made.raise_for_status()
    return str(fields["RequestName"])


async def prepared(stack: Settings, namespace: str) -> Client:
    settings = stack.model_copy(update={"temporal_namespace": namespace})
    client = await connect(settings)
    await bootstrap(client, settings)
    return client


@pytest.fixture(scope="module")
def shared_namespace(stack: Settings) -> str:
    """For tests to which it does not matter whether a request of another one has the same name."""
    name = unique("imports")
    asyncio.run(prepared(stack, name))
    return name


class Hands:
    """The activities, and what they left in the database."""

    def __init__(self, engine: Engine, client: Client, url: str) -> None:
        self.engine, self.client, self.url = engine, client, url
        self.reqmgr2 = ReqMgr2(f"{url}/reqmgr2", config_url=f"{url}/couchdb/reqmgr_config_cache")
        self.told = telling(engine, Contacts(operators=("operators@example.org",)))
        self.imports = ImportActivities(self.told, client, self.reqmgr2, by_itself=True)
        self.reports = ReportActivities(self.told, self.reqmgr2)
        self.chains = ChainActivities(engine, client)

    async def look(self) -> Imported:
        return await ActivityEnvironment().run(self.imports.import_assigned)

    async def report(self) -> list[str]:
        found = await ActivityEnvironment().run(self.reports.report_statuses)
        return [*found.told, *found.problems]

    def request(self, name: str) -> RequestRecord:
        with transaction(self.engine) as session:
            return request_record(session, name)

    def names(self) -> list[str]:
        with transaction(self.engine) as session:
            return sorted(one.request_name for one in list_requests(session))

    def notices(self) -> list[str]:
        with transaction(self.engine) as session:
            return [notice.words for notice in list_notices(session)]

    def become(self, name: str, status: RequestStatus, reason: str = "") -> None:
        """As its workflow would record it."""
        with transaction(self.engine) as session:
            sequence = request_record(session, name).status_sequence + 1
            assert record_status(session, name, status, sequence, "wms2", reason)

    async def status_in_reqmgr2(self, name: str) -> str:
        document = await self.reqmgr2.request(name)
        assert document is not None
        return str(document["RequestStatus"])

    async def signals(self, name: str) -> list[str]:
        """What the workflow of a request was told."""
        events = self.client.get_workflow_handle(request_id(name)).fetch_history_events()
        told = [event.workflow_execution_signaled_event_attributes async for event in events]
        return [one.signal_name for one in told if one.signal_name]


@pytest.fixture
async def hands(engine: Engine, stack: Settings, shared_namespace: str, url: str) -> AsyncIterator[Hands]:
    client = await connect(stack.model_copy(update={"temporal_namespace": shared_namespace}))
    async with open_hands(engine, client, url) as hands:
        yield hands


@pytest.fixture
async def alone(engine: Engine, stack: Settings, url: str) -> AsyncIterator[Hands]:
    """In a namespace in which no other test's requests live."""
    async with open_hands(engine, await prepared(stack, unique("alone")), url) as hands:
        yield hands


@asynccontextmanager
async def open_hands(engine: Engine, client: Client, url: str) -> AsyncIterator[Hands]:
    hands = Hands(engine, client, url)
    async with hands.reqmgr2:
        yield hands


async def test_what_is_assigned_to_wms2_is_taken_on_once_and_nothing_else(alone: Hands) -> None:
    make(alone.url, tasks())
    make(alone.url, rereco())
    make(alone.url, rereco(RequestName="theirs"), wms_backend="wmcore")
    make(alone.url, rereco(RequestName="not_yet"), RequestStatus="assignment-approved")
    assert (await alone.look()).taken == ("operator_ReReco", "operator_tasks")
    assert (await alone.look()).taken == ()
    assert alone.names() == ["operator_ReReco", FIRST, SECOND, THIRD]
    for name in alone.names():
        await alone.client.get_workflow_handle(request_id(name)).describe()


async def test_a_request_that_is_staged_is_taken_on_too(hands: Hands) -> None:
    make(hands.url, rereco(), RequestStatus="staged")
    assert (await hands.look()).taken == ("operator_ReReco",)


async def test_nothing_is_taken_on_by_itself_unless_it_is_turned_on(hands: Hands) -> None:
    make(hands.url, rereco())
    off = ImportActivities(hands.engine, hands.client, hands.reqmgr2)
    assert await ActivityEnvironment().run(off.import_assigned) == Imported()
    assert calls_seen(hands.url, service="reqmgr2", method="GET") == []


async def test_the_requests_of_a_chain_are_linked_and_wait_with_the_reason(hands: Hands) -> None:
    make(hands.url, tasks())
    await hands.look()
    assert hands.request(FIRST).status is RequestStatus.SUBMITTED
    assert hands.request(SECOND).status is RequestStatus.NEW
    with transaction(hands.engine) as session:
        links = chain_links(session, SECOND)
        assert (links.reads_from, links.read_by) == (FIRST, (THIRD,))
        assert [(one.request, one.parent, one.dataset) for one in waiting_requests(session)] == [
            (SECOND, FIRST, GEN_SIM),
            (THIRD, SECOND, AOD),
        ]


async def test_a_request_of_a_chain_is_let_go_when_the_one_before_is_complete_and_not_earlier(
    alone: Hands,
) -> None:
    make(alone.url, tasks())
    await alone.look()
    assert (await alone.chains.advance_chains()).let_go == ()
    alone.become(FIRST, COMPLETED)
    assert (await alone.chains.advance_chains()).let_go == (SECOND,)
    assert "release" in await alone.signals(SECOND)
    assert "release" not in await alone.signals(THIRD)
    alone.become(SECOND, RequestStatus.SUBMITTED)
    assert (await alone.chains.advance_chains()).let_go == ()


async def test_who_waits_is_told_when_the_one_before_is_held_and_keeps_waiting_when_it_fails(
    alone: Hands,
) -> None:
    make(alone.url, tasks())
    await alone.look()
    alone.become(SECOND, RequestStatus.NEW, f"waits for {GEN_SIM} of {FIRST}")
    before = await alone.signals(SECOND)
    await alone.chains.advance_chains()
    assert await alone.signals(SECOND) == before, "it knows already"
    for status in (HELD, FAILED):
        alone.become(FIRST, status)
        assert (await alone.chains.advance_chains()).let_go == ()
    assert await alone.signals(SECOND) == [*before, "waits_for", "waits_for"]


async def test_a_restart_links_those_that_wait_to_the_next_version_and_leaves_those_that_began(
    alone: Hands,
) -> None:
    make(alone.url, tasks({"Task4": {"InputTask": "Gen"}}))
    await alone.look()
    alone.become(THIRD, RequestStatus.SUBMITTED)
    restart = Action(action_id="r1", actor="operator", action="restart", request_name=FIRST, reason="")
    for _ in range(2):
        with transaction(alone.engine) as session:
            clone = supersede(session, restart, 5)
    new = GEN_SIM.replace("-v1/", "-v2/")
    assert alone.request(SECOND).request.input_dataset == new
    assert alone.request(THIRD).request.input_dataset == GEN_SIM
    with transaction(alone.engine) as session:
        assert chain_links(session, SECOND).reads_from == clone
        assert chain_links(session, THIRD).reads_from == FIRST
    alone.become(clone, COMPLETED)
    assert (await alone.chains.advance_chains()).let_go == (SECOND,)


async def test_each_parameter_set_is_kept_once_by_its_digest_and_is_what_jobs_get(hands: Hands) -> None:
    make(hands.url, tasks())
    await hands.look()
    with transaction(hands.engine) as session:
        assert session.scalar(text("SELECT count(*) FROM parameter_sets")) == 3
        files = pset_files(hands.request(SECOND).request.payload_config)
        contents = pset_contents(session, files)
        assert [contents[file.name] for file in files] == [b"process = 'c2'", b"process = 'c3'"]
        session.execute(text("DELETE FROM parameter_sets"))
        with pytest.raises(UserError, match="not in the database"):
            pset_contents(session, files)


async def test_a_parameter_set_that_changes_in_the_cache_changes_nothing_that_was_taken_on(
    hands: Hands,
) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    before = hands.request(name).request
    put(hands.url, "couchdb/reqmgr_config_cache/0123456789abcdef/configFile", content="process = 'other'")
    document = await hands.reqmgr2.request(name)
    assert document is not None
    await hands.imports.take_on(document)
    assert hands.request(name).request == before
    with transaction(hands.engine) as session:
        (content,) = pset_contents(session, pset_files(before.payload_config)).values()
    assert content == b"process = '0123456789abcdef'"


async def test_a_document_that_cannot_be_taken_on_is_reported_once_and_tried_again_when_it_changes(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    name = make(hands.url, rereco(Memory="much", ConfigCacheID="gone"))
    make(hands.url, rereco(RequestName="fine"))
    found = await hands.look()
    assert (found.taken, found.refused) == (("fine",), (name,))
    assert caplog.text.count("ALERT [import] operator_ReReco") == 1
    (told,) = hands.notices()
    assert "Memory" in told
    with transaction(hands.engine) as session:
        record = find_import(session, name)
        assert record is not None
        assert not record.is_taken
        assert "the cache of configurations has no gone" in record.problem
    calls = len(calls_seen(hands.url, path=".*reqmgr_config_cache.*"))
    assert await hands.look() == Imported()
    assert len(calls_seen(hands.url, path=".*reqmgr_config_cache.*")) == calls, "it was not looked at again"
    put(hands.url, f"reqmgr2/data/request/{name}", json={"Memory": 2000, "ConfigCacheID": "c1"})
    assert (await hands.look()).taken == (name,)
    assert len(hands.notices()) == 1


async def test_a_name_that_wms2_knows_already_is_refused_and_the_request_there_left_alone(
    hands: Hands, engine: Engine
) -> None:
    make(hands.url, rereco())
    await hands.look()
    with transaction(engine) as session:
        session.execute(text("DELETE FROM imports"))
    assert (await hands.look()).refused == ("operator_ReReco",)
    with transaction(engine) as session:
        assert "exists already" in list_imports(session)[0].problem


async def test_a_server_that_is_away_for_one_document_keeps_no_other_from_being_taken_on(
    hands: Hands,
) -> None:
    make(hands.url, rereco())
    make(hands.url, rereco(RequestName="other", ConfigCacheID="c1"))
    make_trouble(hands.url, "status", path=".*0123456789abcdef.*", status=503, times=50, retry_after=0)
    with pytest.raises(Unavailable):
        await hands.look()
    assert hands.names() == ["other"]
    control(hands.url, "DELETE", "trouble")
    assert (await hands.look()).taken == ("operator_ReReco",)
    assert hands.notices() == []


async def test_two_who_import_the_same_document_at_the_same_moment_take_it_on_once(hands: Hands) -> None:
    name = make(hands.url, tasks())
    document = await hands.reqmgr2.request(name)
    assert document is not None
    taken = await asyncio.gather(*(hands.imports.take_on(document) for _ in range(4)))
    assert {one.requests for one in taken} == {(FIRST, SECOND, THIRD)}
    assert hands.names() == [FIRST, SECOND, THIRD]


async def test_an_import_that_is_cut_off_before_the_workflows_is_finished_by_the_next_or_by_the_schedule(
    alone: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make(alone.url, tasks())

    async def die(*_: Any) -> None:
        raise ConnectionError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(ImportActivities, "_start", die)
        with pytest.raises(ConnectionError):
            await alone.look()
    assert alone.names() == [FIRST, SECOND, THIRD]
    document = await alone.reqmgr2.request(name)
    assert document is not None
    await alone.imports.take_on(document)
    assert alone.names() == [FIRST, SECOND, THIRD]
    with transaction(alone.engine) as session:
        session.execute(text("UPDATE requests SET created_at = now() - interval '1 hour'"))
    again = await ReconciliationActivities(alone.engine, alone.client).reconcile_requests()
    assert (again.started, again.lost) == ((), ()), "all live"


# What ReqMgr2 is told


async def test_reqmgr2_follows_along_its_transitions_however_far_the_request_went_meanwhile(
    hands: Hands,
) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    assert await hands.report() == [f"{name} is acquired"]
    assert await hands.status_in_reqmgr2(name) == "acquired"
    assert await hands.report() == []
    hands.become(name, COMPLETED)
    assert await hands.report() == [f"{name} is completed"]
    document = await hands.reqmgr2.request(name)
    assert document is not None
    assert [change["Status"] for change in document["RequestTransition"]] == [
        "assigned", "staging", "staged", "acquired", "running-open", "running-closed", "completed",
    ]  # fmt: skip
    assert await hands.report() == []


async def test_a_chain_is_complete_in_reqmgr2_when_the_last_of_its_requests_is(hands: Hands) -> None:
    name = make(hands.url, tasks())
    await hands.look()
    for request, told in ((FIRST, "running-open"), (SECOND, "running-open"), (THIRD, "completed")):
        hands.become(request, COMPLETED)
        await hands.report()
        assert await hands.status_in_reqmgr2(name) == told


async def test_a_request_that_a_restart_replaced_counts_as_its_next_version(hands: Hands) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    restart = Action(action_id="r1", actor="operator", action="restart", request_name=name, reason="")
    with transaction(hands.engine) as session:
        clone = supersede(session, restart, 5)
    hands.become(name, FAILED)
    assert await hands.report() == [f"{name} is acquired"]
    hands.become(clone, COMPLETED)
    assert await hands.report() == [f"{name} is completed"]


@pytest.mark.parametrize(("status", "told"), [(FAILED, "failed"), (RequestStatus.ABORTED, "aborted")])
async def test_what_people_ended_is_ended_in_reqmgr2(hands: Hands, status: RequestStatus, told: str) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    await hands.report()
    hands.become(name, status)
    await hands.report()
    assert await hands.status_in_reqmgr2(name) == told


async def test_what_somebody_changed_in_reqmgr2_is_reported_once_and_left_so(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    put(hands.url, f"reqmgr2/data/request/{name}", json={"RequestStatus": "aborted"})
    (problem,) = await hands.report()
    assert "aborted in ReqMgr2" in problem
    assert await hands.report() == []
    assert len(hands.notices()) == 1
    assert "ALERT [reqmgr2]" in caplog.text
    assert await hands.status_in_reqmgr2(name) == "aborted"


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_an_end_that_reqmgr2_refuses_is_told_people_once_and_reqmgr2_until_it_takes_it(
    hands: Hands, method: str
) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    await hands.report()
    hands.become(name, COMPLETED)
    make_trouble(hands.url, "status", method=method, path=f".*data/request.*{name}.*", status=403, times=50)
    for _ in range(2):
        (problem,) = await hands.report()
        assert f"{name} is completed here and ReqMgr2 does not take that" in problem
    assert len(hands.notices()) == 1
    with transaction(hands.engine) as session:
        record = find_import(session, name)
        assert record is not None
        assert (record.reported, record.report_problem) == ("acquired", problem)
    control(hands.url, "DELETE", "trouble")
    assert await hands.report() == [f"{name} is completed"]
    assert await hands.status_in_reqmgr2(name) == "completed"
    assert await hands.report() == []


async def test_a_request_that_reqmgr2_does_not_show_keeps_no_other_from_being_told(hands: Hands) -> None:
    refused = make(hands.url, rereco())
    other = make(hands.url, rereco(RequestName="other"))
    await hands.look()
    make_trouble(hands.url, "status", method="GET", path=f".*{refused}.*", status=403, times=50)
    problem, told = sorted(await hands.report(), key=len, reverse=True)
    assert problem.startswith(f"{refused} is acquired here")
    assert told == f"{other} is acquired"


async def test_reqmgr2_is_known_to_have_what_it_has(hands: Hands) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    put(hands.url, f"reqmgr2/data/request/{name}", json={"RequestStatus": "aborted"})
    await hands.report()
    with transaction(hands.engine) as session:
        record = find_import(session, name)
    assert record is not None
    assert record.reported == "aborted"


async def test_a_reqmgr2_that_is_away_is_told_later_and_a_call_that_was_cut_off_is_made_again(
    hands: Hands,
) -> None:
    name = make(hands.url, rereco())
    await hands.look()
    make_trouble(hands.url, "cut_after", method="PUT", path=".*data/request.*", times=50, after=1)
    with pytest.raises(Unavailable):
        await hands.report()
    control(hands.url, "DELETE", "trouble")
    assert await hands.report() == [f"{name} is acquired"]
    assert await hands.status_in_reqmgr2(name) == "acquired"


# When it does not answer


@pytest.mark.parametrize("asked", ["import_assigned", "report_statuses"])
async def test_operators_are_told_of_a_reqmgr2_that_has_let_wms2_ask_in_vain_for_a_day(
    hands: Hands, asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    silences = SilenceActivities(hands.told)
    vain = InVain(service="ReqMgr2", asked=asked, problem="ReqMgr2 refused GET with 403")
    assert await silences.asked_in_vain(vain) == ""
    with transaction(hands.engine) as session:
        session.execute(text("UPDATE silences SET since = now() - interval '25 hours'"))
    for _ in range(2):
        assert "has not answered since" in await silences.asked_in_vain(vain)
    (words,) = hands.notices()
    assert "ReqMgr2 refused GET with 403" in words
    assert "ALERT [silent_service] ReqMgr2" in caplog.text
    await (hands.look() if asked == "import_assigned" else hands.report())
    assert await silences.asked_in_vain(vain) == "", "it has answered"


# By hand


def test_a_person_imports_a_chain_and_again_finds_the_same(
    wms2: Any, url: str, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setenv("WMS2_SERVICES_URL", url)
    name = make(url, tasks())
    tried = wms2("request", "import", name, "--dry-run")
    assert tried.code == 0, tried.stderr
    assert f"after {FIRST}" in tried.stdout
    with transaction(engine) as session:
        assert list_imports(session) == []
    linked = wms2("request", "import", name, "--dry-run", "--json").json()
    assert [link["parent"] for link in linked] == [None, FIRST, SECOND]
    for _ in range(2):
        assert wms2("request", "import", name, "--json").json()["requests"] == [FIRST, SECOND, THIRD]
    shown = wms2("request", "show", SECOND).stdout
    assert f"reads from  {FIRST}" in shown
    assert name in shown
    (listed,) = wms2("request", "imports", "--json").json()
    assert (listed["name"], listed["problem"]) == (name, "")
    assert "taken" in wms2("request", "imports").stdout
    put(url, f"reqmgr2/data/request/{name}", json={"Memory": 9000})
    assert "has changed since" in wms2("request", "import", name).stderr


def test_a_person_is_told_all_that_is_wrong_and_whose_a_request_is(
    wms2: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_SERVICES_URL", url)
    wrong = wms2("request", "import", make(url, rereco(Memory="much", Multicore="many")))
    assert wrong.code == 2
    assert "has 2 mistakes" in wrong.stderr
    assert "has no request named nobody" in wms2("request", "import", "nobody").stderr
    theirs = make(url, rereco(RequestName="theirs"), wms_backend="wmcore")
    assert "belongs to wmcore" in wms2("request", "import", theirs).stderr
    done = make(url, rereco(RequestName="done"), RequestStatus="announced")
    assert "done in ReqMgr2 is announced" in wms2("request", "import", done).stderr
    assert wms2("request", "imports", "--problems", "--json").json() == []


def test_a_program_imports_a_chain_through_the_rest_service(settings: Settings, url: str) -> None:
    name = make(url, tasks())
    with (
        issuing() as issuer,
        serving(settings.model_copy(update={"services_url": url}), config_for(issuer)) as address,
        httpx.Client(base_url=f"{address}/api/v1", timeout=PATIENCE_SEC, trust_env=False) as client,
    ):
        client.headers["Authorization"] = f"Bearer {issuer.token(OPERATOR)}"
        for _ in range(2):
            taken = client.post("/requests", json={"request_name": name, "source": "reqmgr2"})
            assert (taken.status_code, taken.json()["requests"]) == (201, [FIRST, SECOND, THIRD])
        assert (taken.json()["request_name"], taken.json()["status"]) == (FIRST, "submitted")
        (newest, _) = client.get("/audit", params={"request": FIRST}).json()
        assert (newest["action"]["action"], newest["action"]["actor"].split("@")[0]) == ("import", OPERATOR)
        other = make(url, rereco(RequestName="other"))
        key = {"Idempotency-Key": "mine"}
        for named, status in ((name, 201), (other, 409), (name, 201)):
            answer = client.post("/requests", json={"request_name": named}, headers=key)
            assert answer.status_code == status, answer.text
        assert [one["name"] for one in client.get("/imports").json()["imports"]] == [name]
        unknown = client.post("/requests", json={"request_name": "nobody", "source": "reqmgr2"})
        assert (unknown.status_code, "has no request named nobody" in unknown.json()["detail"]) == (404, True)
        wrong = make(url, rereco(RequestName="wrong", Memory="much", Multicore="many"))
        answer = client.post("/requests", json={"request_name": wrong})
        assert (answer.status_code, len(answer.json()["mistakes"])) == (422, 2)


def test_a_person_imports_a_chain_through_the_rest_service(
    wms2: Any, settings: Settings, url: str, issuer: Issuer, through: Through
) -> None:
    name = make(url, tasks())
    with serving(settings.model_copy(update={"services_url": url}), config_for(issuer)) as address:
        through(address, OPERATOR)
        tried = wms2("request", "import", name, "--dry-run", "--json").json()
        assert [link["parent"] for link in tried] == [None, FIRST, SECOND]
        assert f"after {FIRST}" in wms2("request", "import", name, "--dry-run").stdout
        assert wms2("request", "imports", "--json").json() == []
        for _ in range(2):
            assert wms2("request", "import", name, "--json").json()["requests"] == [FIRST, SECOND, THIRD]
        (listed,) = wms2("request", "imports", "--json").json()
        assert (listed["name"], listed["requests"], listed["problem"]) == (name, [FIRST, SECOND, THIRD], "")
        put(url, f"reqmgr2/data/request/{name}", json={"Memory": 9000})
        assert "has changed since" in wms2("request", "import", name).stderr
        for unknown in ("nobody", "no name"):
            for more in ((), ("--dry-run",)):
                told = wms2("request", "import", unknown, *more)
                assert (told.code, f"ReqMgr2 has no request named {unknown}" in told.stderr) == (2, True)
        wrong = make(url, rereco(RequestName="wrong", Memory="much", Multicore="many"))
        assert "has 2 mistakes" in wms2("request", "import", wrong).stderr
        assert "has 2 mistakes" in wms2("request", "import", wrong, "--dry-run").stderr
