"""What comes from outside is checked at the door: nothing hostile gets into a submit file, a DAG or a command line."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from temporalio.service import RPCError, RPCStatusCode
from typer.testing import CliRunner

from tests.factories import input_file, snapshot
from tests.unit.test_adapter_cric import NAMES, cric
from tests.unit.test_adapter_service import wire
from wms2 import patterns
from wms2.adapters.condor import _checked as checked_dag_id
from wms2.adapters.cric import Cric
from wms2.cli.main import app
from wms2.core.planning import plan_round
from wms2.dagman.dag_files import group_dag, group_settings, workflow_dag
from wms2.dagman.submit_files import round_include, submit_files
from wms2.dagman.throttle import dagman_config
from wms2.door.asking import NO_WORKER, refusal
from wms2.errors import Silent, UserError
from wms2.models.audit import Action as AuditedAction
from wms2.models.contacts import Contacts
from wms2.models.host import HostReport
from wms2.models.merge_output import MergeOutput
from wms2.models.messages import Alert, Changes, DagOrder, HostList, HostLostAction, Slot, SlotRequest
from wms2.models.nodes import NodesOrder
from wms2.models.policy import FailureRule
from wms2.models.request import Request
from wms2.models.request_file import read_request
from wms2.models.site import Site
from wms2.temporal.queues import host_queue, planning_queue, watch_queue

ROOT = Path(__file__).parents[2]
HOSTILE = [
    "x; touch hacked",
    "$(touch hacked)",
    "${HOME}hacked",
    "$$(hacked)",
    "$ENV(hacked)",
    "`touch hacked`",
    "hacked\nqueue 5",
    'hacked\r\n+Owner = "root"',
    '"hacked"',
    "'hacked' OR 1=1 --",
    "hacked\0",
    "../../hacked",
    "/store/../hacked",
    "-hacked",
    "hacked|hacked",
    "hacked hacked",
    "hacked\u202e",
    "/store/hаcked",
    "Т2_US_hacked",
    "／store／hacked",
    "hacked" * 20_000,
    "\ud800hacked",
]
"""Two of them look like plain letters and are not."""
NAMES_OF = [repr(text[:20]) for text in HOSTILE]
LOOKS = re.compile("h[aа]cked")
QUOTED = re.compile(r'^\+\w+ = "[^"\\$`\n]*"$', re.MULTILINE)
"""An attribute of a job whose value is a text that cannot leave its quotes."""
hostile_texts = pytest.mark.parametrize("hostile", HOSTILE, ids=NAMES_OF)


# Request files ------------------------------------------------------------------------------------------------


def documents() -> dict[str, dict[str, Any]]:
    found = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / "examples").glob("*.yaml")}
    found["stepchain.json"] = json.loads((ROOT / "examples/stepchain.json").read_text())
    found["simulation.yaml"] |= {
        "job_attributes": {"Colour": "blue"},
        "site_whitelist": ["T2_US_Purdue"],
        "site_blacklist": ["T2_DE_DESY"],
        "merged_lfn_base": "/store/mc",
        "global_tag": "140X_mcRun3_v3",
        "cmssw_version": "CMSSW_14_0_0",
        "scram_arch": "el9_amd64_gcc12",
        "failure_rules": [
            {"name": "licence", "category": "transient", "message": "none", "sites": ["T2_US_Purdue"]}
        ],
    }
    return {name: without_unknown(document) for name, document in found.items()}


def without_unknown(document: dict[str, Any]) -> dict[str, Any]:
    """As this version understands it: what was added above and does not exist is not tested."""
    if "RequestName" in document:
        return document
    return {name: value for name, value in document.items() if name in known_names()}


def known_names() -> set[str]:
    return {*Request.model_fields, "output_datasets", "failure_rules", "failure_handlers"}


def spoiled(part: Any, hostile: str) -> Iterator[Any]:
    """The same with one text replaced, or one name of a field, for each there is."""
    if isinstance(part, str):
        yield hostile
    elif isinstance(part, dict):
        for name, value in part.items():
            yield from ({**part, name: other} for other in spoiled(value, hostile))
            yield {hostile if other == name else other: part[other] for other in part}
    elif isinstance(part, list):
        for number, value in enumerate(part):
            yield from ([*part[:number], other, *part[number + 1 :]] for other in spoiled(value, hostile))
    else:
        yield hostile


def added(document: dict[str, Any], hostile: str) -> Iterator[dict[str, Any]]:
    """The same with a hostile text in a field that it did not have."""
    names = Request.model_fields.keys() - document.keys() if "RequestName" not in document else ()
    for name in sorted(names):
        for value in (hostile, [hostile], {hostile: hostile}, [{"name": hostile}]):
            yield {**document, name: value}


def texts_for_htcondor(request: Request) -> str:
    """All that HTCondor and DAGMan interpret of a round."""
    inputs = () if request.is_simulation else (input_file(1), input_file(2))
    plan = plan_round(snapshot(request, inputs=inputs))
    settings = group_settings(plan)
    return "\n".join(
        [
            *submit_files(plan).values(),
            workflow_dag(plan),
            *(group_dag(unit, settings) for unit in plan.work_units),
            dagman_config(plan.snapshot),
            round_include(plan.snapshot.sites, 1),
        ]
    )


@hostile_texts
@pytest.mark.parametrize("name", documents())
def test_a_hostile_text_in_a_request_is_refused_or_stays_out_of_what_htcondor_reads(
    name: str, hostile: str
) -> None:
    document = documents()[name]
    read_request(json.dumps(document))
    for spoilt in [*spoiled(document, hostile), *added(document, hostile)]:
        try:
            request = read_request(json.dumps(spoilt))
        except UserError:
            continue
        try:
            text = texts_for_htcondor(request)
        except (UserError, ValidationError, ValueError):
            continue
        assert not LOOKS.search(QUOTED.sub("", text)), spoilt


# Models that other programs' words become ---------------------------------------------------------------------

DOORS: dict[str, Callable[[str], object]] = {
    "a file of DBS": lambda text: replace(input_file(1), lfn=text),
    "a place of a file": lambda text: replace(input_file(1), locations=(text,)),
    "a block of a file": lambda text: replace(input_file(1), block=text),
    "a site of a round": lambda text: snapshot(sites=(text,)),
    "a site in the database": lambda text: Site(name=text, updated_at="2026-11-16T00:00:00Z"),  # type: ignore[arg-type]
    "the site of a merge": lambda text: TypeAdapter(
        MergeOutput.model_fields["site"].rebuild_annotation()
    ).validate_python(text),
    "a host that is ready": lambda text: HostReport(
        host=text, schedd_name="schedd", submit_root="/submit", dagmans=1, version="1"
    ),
    "the hosts of admission": lambda text: HostList(at=datetime.now(UTC), dagmans={text: 1}),
    "the host of a slot": lambda text: Slot(request="abc", round=0, host=text),
    "the host of a question for a slot": lambda text: SlotRequest(request="abc", round=0, priority=1, host=text),
    "a host that is lost": lambda text: HostLostAction(host=text, actor="a", action_id="b"),
    "the queue of a host": host_queue,
    "the queue of its planners": planning_queue,
    "the queue of its followers": watch_queue,
    "the host of a look at nodes": lambda text: NodesOrder(dag_id="a", host=text, folder=Path("/f")),
    "the DAG of a look at nodes": lambda text: NodesOrder(dag_id=text, host="a", folder=Path("/f")),
    "the request of a DAG": lambda text: DagOrder(request=text, round=0, attempt=1, folder=Path("/f")),
    "the tag of a DAG": checked_dag_id,
    "the request of an alert": lambda text: Alert(request=text, kind="k", message="m"),
    "an action": lambda text: AuditedAction(action_id="a", actor="b", action=text),
    "a file that is left out": lambda text: Changes(exclude_files=(text,)),
    "a site that is avoided": lambda text: Changes(avoid_sites=(text,)),
    "the name of a rule": lambda text: FailureRule(name=text, category="transient", exit_codes=(1,)),
    "the category of a rule": lambda text: FailureRule(name="r", category=text, exit_codes=(1,)),  # type: ignore[arg-type]
    "the site of a rule": lambda text: FailureRule(name="r", category="transient", sites=(text,)),
    "an operator": lambda text: Contacts.model_validate({"operators": [text]}),
}  # fmt: skip


@hostile_texts
@pytest.mark.parametrize("door", DOORS)
def test_a_hostile_text_is_refused_at_the_door(door: str, hostile: str) -> None:
    with pytest.raises((ValueError, ValidationError, UserError)):
        DOORS[door](hostile)


@hostile_texts
def test_no_pattern_admits_a_hostile_text(hostile: str) -> None:
    found = {
        name: value
        for name, value in vars(patterns).items()
        if name.isupper() and hasattr(value, "fullmatch")
    }
    # Rucio's own language has these signs, and a subject goes nowhere but into the database.
    free = {"RSE_EXPRESSION": {"hacked|hacked"}, "DISTINGUISHED_NAME": set[str]()}
    admitted = {name for name, pattern in found.items() if len(hostile) < 500 and pattern.fullmatch(hostile)}
    assert {name for name in admitted if hostile not in free.get(name, set())} == set()


@hostile_texts
async def test_sites_and_storage_of_cric_with_hostile_names_are_not_for_us(hostile: str) -> None:
    name = hostile[:1000].encode("utf-8", "replace").decode()
    with wire(cric([*NAMES, ["psn", "somewhere", name]])) as line:
        async with Cric(line.url) as adapter:
            sites = await adapter.sites()
    assert name not in {site.name for site in sites}
    assert sites


# The command line ---------------------------------------------------------------------------------------------


@hostile_texts
@pytest.mark.parametrize(
    "words",
    [
        ("request", "plan", str(ROOT / "examples/simulation.yaml"), "--out", "{out}", "--site", "{}"),
        ("site", "ban", "{}", "--reason", "because"),
        ("worker", "run", "--host", "{}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_hostile_word_on_the_command_line_is_refused_before_anything_is_done(
    words: tuple[str, ...], hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    given = [word.replace("{out}", str(tmp_path / "round")).replace("{}", hostile) for word in words]
    done = CliRunner().invoke(app, given)
    assert done.exit_code != 0
    assert isinstance(done.exception, (UserError, SystemExit, ValueError)), done.exception
    assert not (tmp_path / "round").exists()
    assert list(tmp_path.rglob("*hacked*")) == []


@pytest.mark.parametrize(
    "words",
    [
        ("notice", "list"),
        ("dag", "run", "/tmp"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_through_the_service_says_that_it_needs_the_servers_settings(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_HOME", str(tmp_path))
    monkeypatch.setenv("WMS2_API_URL", "http://127.0.0.1:9")
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UserError), done.exception
    assert "needs the servers' own settings: set WMS2_" in str(done.exception)


# The code itself ----------------------------------------------------------------------------------------------

SOURCES = [
    path for folder in ("wms2", "sandbox", "post_script") for path in sorted((ROOT / folder).rglob("*.py"))
]
FORBIDDEN = {
    "os.system", "os.popen", "os.execl", "os.execlp", "os.spawnl", "subprocess.getoutput",
    "subprocess.getstatusoutput", "asyncio.create_subprocess_shell", "eval", "exec", "compile", "__import__",
    "pickle.load", "pickle.loads", "marshal.loads", "shelve.open", "yaml.load", "yaml.unsafe_load",
}  # fmt: skip


def calls(path: Path) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def test_nothing_goes_through_a_shell_and_nothing_from_outside_is_run_as_code() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno} {ast.unparse(call.func)}"
        for path in SOURCES
        for call in calls(path)
        if ast.unparse(call.func) in FORBIDDEN or any(word.arg == "shell" for word in call.keywords)
    ]
    assert [line for line in found if "re.compile" not in line] == []


def test_sql_is_never_put_together_from_values() -> None:
    """Text that SQLAlchemy takes as it is stands in the code, whole; what varies is bound."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno} {ast.unparse(call)[:100]}"
        for path in SOURCES
        if "migrations" not in path.parts
        for call in calls(path)
        if ast.unparse(call.func)
        in ("text", "sa.text", "sqlalchemy.text", "session.execute", "connection.execute")
        and call.args
        and isinstance(call.args[0], (ast.JoinedStr, ast.BinOp))
    ]
    assert found == []


def test_a_question_that_temporal_does_not_pass_on_for_want_of_a_worker_is_no_refusal() -> None:
    said = "no poller seen for task queue recently, worker may be down"
    told = refusal(RPCError(said, RPCStatusCode.FAILED_PRECONDITION, b""), "a question about admission")
    assert (type(told), str(told)) == (Silent, NO_WORKER)
