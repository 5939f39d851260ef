"""deploy/: what it names exists, what it starts comes up, and nothing in it listens further or holds a secret."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml

from tests.command_line import parse
from wms2.api.config import read_config
from wms2.api.serve import server
from wms2.config import Settings, load_settings
from wms2.metrics.catalogue import ADMISSION, DATABASE, WORKER
from wms2.worker import build_hands

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus/wms2.rules.yml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((DEPLOY / "grafana/wms2.json").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((DEPLOY / "temporal-compose.yml").read_text(encoding="utf-8"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
METRIC = re.compile(r"\b((?:wms2|temporal)_[a-z0-9_]+)\b")
OF_THE_API = {"wms2_api_request_seconds": ("method", "route", "status")}
OF_THE_SDK = {
    "temporal_activity_execution_failed",
    "temporal_activity_schedule_to_start_latency",
    "temporal_long_request_failure",
    "temporal_worker_task_slots_available",
    "temporal_workflow_task_execution_failed",
}
"""Those that a real worker was seen to serve: tests/workflows/test_worker_metrics.py."""


def base(name: str) -> str:
    """Of a histogram, too."""
    return name.removesuffix("_bucket").removesuffix("_count")


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[Any]:
    rules = [pytest.param(rule["expr"], id=rule["alert"]) for rule in ALERTS]
    shown = [
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in panels()
        for target in panel["targets"]
    ]
    return rules + shown


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_that_rules_and_dashboard_name_exists(expression: str) -> None:
    known = {*DATABASE, *ADMISSION, *WORKER, *OF_THE_API, *OF_THE_SDK}
    named = {base(name) for name in METRIC.findall(expression)}
    assert named <= known
    assert named or "up{" in expression


@pytest.mark.parametrize("expression", expressions())
def test_every_label_that_they_choose_by_exists(expression: str) -> None:
    labels_of = {name: meaning.labels for name, meaning in {**DATABASE, **ADMISSION, **WORKER}.items()}
    labels_of |= OF_THE_API
    for name, chosen in re.findall(r"(wms2_\w+)\{([^}]*)\}", expression):
        labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen)
        assert set(labels) <= set(labels_of[base(name)])


def test_a_dashboard_has_panels_that_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_every_alert_says_what_it_is_and_where_its_runbook_is(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["summary"]
    document, _, section = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE)
    assert section == rule["alert"].lower()
    assert rule["alert"] in headings


def test_a_queue_that_a_drain_stops_alarms_nobody() -> None:
    (rule,) = (rule for rule in ALERTS if rule["alert"] == "WMS2QueueDoesNotMove")
    assert rule["expr"].endswith(" unless wms2_admission_draining == 1")


def test_every_runbook_belongs_to_an_alert() -> None:
    text = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"^#+ (WMS2\w+)$", text, re.MULTILINE) == [rule["alert"] for rule in ALERTS]


def test_every_metric_is_documented_with_its_labels() -> None:
    text = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(wms2_\w+)` \|([^|]*)\|", text, re.MULTILINE))
    for name, meaning in {**DATABASE, **ADMISSION, **WORKER}.items():
        assert re.findall(r"`(\w+)`", listed[name]) == list(meaning.labels)


KIND = re.compile(r"""(?:\bsound\(|\.alert\(|\bStep\(|kind=)\s*f?"([a-z0-9_]+(?:\{[\w.]+\})?)\"""")


def test_every_kind_of_alert_that_the_code_raises_has_its_line_in_the_documents() -> None:
    places = [ROOT / "wms2" / part for part in ("workflows", "activities", "db", "core")]
    sources = "\n".join(
        path.read_text(encoding="utf-8") for place in places for path in sorted(place.rglob("*.py"))
    )
    raised = {re.sub(r"\{.*\}", "STATUS", kind) for kind in KIND.findall(sources)}
    assert {"long_STATUS", "lost_host", "lost_workflow", "undo", "credential", "reqmgr2"} <= raised
    for document in ("docs/monitoring.md", "docs/operations.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        firsts = re.findall(r"^\| (`[a-zA-Z0-9_]+`(?:, `[a-zA-Z0-9_]+`)*) \|", text, re.MULTILINE)
        told = {kind for first in firsts for kind in re.findall(r"\w+", first)}
        # One lists the statuses, the other says it of all of them.
        assert raised - told <= {"long_STATUS"}, document


# The compose file


def test_nothing_is_published_beyond_this_machine() -> None:
    for service in COMPOSE["services"].values():
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_every_image_has_its_version() -> None:
    for service in COMPOSE["services"].values():
        assert re.fullmatch(r"[a-z0-9/-]+:\d+\.\d+(\.\d+)?", service["image"])
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    bases = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile, re.MULTILINE)
    stages = {stage for _, stage in bases}
    assert all(base in stages or re.search(r":\d+\.\d+\.\d+", base) for base, _ in bases)
    targets = [service["build"]["target"] for service in COMPOSE["services"].values() if "build" in service]
    assert set(targets) == stages


def test_no_password_is_written_down_and_a_missing_one_is_asked_for() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|PWD|DATABASE_URL", name):
                assert re.search(r"\$\{\w+:\?", value)
    for line in (DEPLOY / "example.env").read_text(encoding="utf-8").splitlines():
        assert not re.match(r"\w*PASSWORD=.", line)


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    text = (DEPLOY / "temporal-compose.yml").read_text(encoding="utf-8")
    example = (DEPLOY / "example.env").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+)", text)) == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def test_who_is_waited_for_is_there_and_one_that_ends_is_waited_for_to_end() -> None:
    services = COMPOSE["services"]
    one_shots = {name for name, service in services.items() if service.get("restart") == "on-failure:5"}
    assert one_shots == {"temporal-schema", "temporal-namespace", "wms2-database"}
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            ends = how["condition"] == "service_completed_successfully"
            assert ends == (name in one_shots)
            assert ends or "healthcheck" in services[name]


def test_every_file_that_is_mounted_is_there() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            # Whoever deploys it writes the configuration of the REST service.
            if source.startswith("./") and source != "./wms2":
                assert (DEPLOY / source).exists()


def test_every_setting_that_is_deployed_exists() -> None:
    known = {f"WMS2_{name.upper()}" for name in Settings.model_fields} | {"WMS2_HOST"}
    beside = {"WMS2_DB_PASSWORD"}
    files = [DEPLOY / "temporal-compose.yml", DEPLOY / "Dockerfile", *(DEPLOY / "systemd").iterdir()]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert set(re.findall(r"\bWMS2_[A-Z_]+\b", text)) <= known | beside


# What comes up


def given(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def of_the_service(name: str) -> dict[str, str]:
    """What a container finds in its environment: the image's own, and that of the compose file with its example."""
    image = re.findall(r"\b(WMS2_\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    chosen = given((DEPLOY / "example.env").read_text(encoding="utf-8"))

    def filled(found: re.Match[str]) -> str:
        name, default = found.groups()
        return chosen[name] or default or "secret"

    pattern = r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}"
    own = COMPOSE["services"][name]["environment"]
    return dict(image) | {key: re.sub(pattern, filled, value) for key, value in own.items()}


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a process that has exactly this environment."""

    def settings(environment: dict[str, str]) -> Settings:
        for name in list(os.environ):
            if name.startswith("WMS2_"):
                monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return load_settings()

    return settings


async def test_the_rest_service_of_the_compose_file_comes_up_with_the_example_and_answers_its_proxy(
    tmp_path: Path, settings_of: Any
) -> None:
    folder = tmp_path / "wms2"
    folder.mkdir()
    (folder / "api.yaml").write_bytes((DEPLOY / "example.api.yaml").read_bytes())
    (folder / "proxy.secret").write_text("0123456789abcdef0123456789abcdef")
    config = read_config(folder / "api.yaml")
    settings = settings_of(of_the_service("wms2-api"))
    assert (settings.needed("temporal_address"), settings.has_reqmgr2) == ("temporal:7233", True)
    assert settings.needed("database_url") == "postgresql+psycopg://wms2:secret@postgresql:5432/wms2"
    running = server(settings, config)
    [published] = COMPOSE["services"]["wms2-api"]["ports"]
    assert running.config.port == int(published.rpartition(":")[2])
    assert not ip_address(running.config.host).is_loopback, "nobody outside the container would reach it"

    [network] = COMPOSE["networks"]["default"]["ipam"]["config"]
    caller = {
        "X-Proxy-Secret": "0123456789abcdef0123456789abcdef",
        "X-SSL-Client-Verify": "SUCCESS",
        "X-SSL-Client-S-DN": "/DC=ch/DC=cern/OU=Users/CN=operator/CN=An Operator",
    }
    assert await answer(running, network["gateway"], {}) == 401
    assert await answer(running, network["gateway"], caller) == 404, "known, and let in to where nothing is"
    assert await answer(running, "172.28.46.9", caller) == 401, (
        "somebody else in the network knows the secret"
    )


async def answer(running: uvicorn.Server, peer: str, headers: dict[str, str]) -> int:
    """What a caller from there is told."""
    application: Any = running.config.app
    transport = httpx.ASGITransport(application, client=(peer, 1))
    async with (
        application.router.lifespan_context(application),
        httpx.AsyncClient(transport=transport, base_url="http://wms2") as client,
    ):
        return (await client.get("/api/v1/nowhere", headers=headers)).status_code


@pytest.mark.parametrize("name", ["wms2-api", "wms2-worker"])
@pytest.mark.parametrize("status", [200, 503, None])
def test_a_container_is_healthy_when_what_runs_in_it_answers(name: str, status: int | None) -> None:
    service = COMPOSE["services"][name]
    kind, _, *words = service["healthcheck"]["test"]
    *script, port, path = words
    assert kind == "CMD"
    assert f"127.0.0.1:{port}:{port}" in service["ports"]
    assert path in ("/api/v1/health", "/metrics")

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response((status or 500) if self.path == path else 404)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if status is None:
            server.shutdown()
            server.server_close()
        asked = [sys.executable, *script, str(server.server_port), path]
        done = subprocess.run(asked, env={"http_proxy": "http://127.0.0.1:9"}, check=False, timeout=30)
        server.shutdown()
    assert (done.returncode == 0) == (status == 200)


def test_no_container_is_a_submit_host_as_dagman_runs_its_scripts_there() -> None:
    commands = [service.get("command", ()) for service in COMPOSE["services"].values()]
    workers = [command for command in commands if "worker" in command]
    assert workers
    assert all("--central" in command for command in workers)


def test_what_the_compose_file_is_started_with_is_written_in_its_head() -> None:
    head = (DEPLOY / "temporal-compose.yml").read_text(encoding="utf-8").partition("name:")[0]
    text = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
    for word in (
        "deploy/example.env deploy/.env",
        "deploy/example.api.yaml deploy/wms2/api.yaml",
        "proxy.secret",
    ):
        assert word in head
        assert word in text


async def test_a_worker_has_all_that_it_needs_in_the_settings_of_its_unit(settings_of: Any) -> None:
    settings = settings_of(given((DEPLOY / "systemd/wms2.env").read_text(encoding="utf-8")))
    hands = build_hands(settings, client=None, messenger=None)  # type: ignore[arg-type]
    assert hands.host
    assert hands.refresh is not None


def test_the_worker_of_the_compose_file_comes_up_with_the_settings_of_submit_hosts(settings_of: Any) -> None:
    service = COMPOSE["services"]["wms2-worker"]
    assert service["env_file"] == ["wms2/wms2.env"]
    of_hosts = given((DEPLOY / "systemd/wms2.env").read_text(encoding="utf-8"))
    settings = settings_of(of_hosts | of_the_service("wms2-worker"))
    assert settings.needed("temporal_address") == "temporal:7233"
    assert settings.needed("database_url") == "postgresql+psycopg://wms2:secret@postgresql:5432/wms2"
    assert settings.dbs_url == of_hosts["WMS2_DBS_URL"]
    assert f"{settings.submit_root}/".startswith(service["volumes"][1].rpartition(":")[2])
    assert build_hands(settings, client=None, messenger=None).services  # type: ignore[arg-type]
    [published] = service["ports"]
    assert published.rpartition(":")[2] == service["command"][-1]


# Commands


def commands() -> list[Any]:
    of_units = [
        pytest.param(shlex.split(line)[1:], id=path.name)
        for path in UNITS
        for line in re.findall(r"^ExecStart=(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    of_services = [
        pytest.param(service["command"], id=name)
        for name, service in COMPOSE["services"].items()
        if name.startswith("wms2-")
    ]
    return of_units + of_services


@pytest.mark.parametrize("words", commands())
def test_every_command_that_is_deployed_exists_with_its_options(words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: str(path.name))
def test_a_unit_comes_back_by_itself_and_may_do_little(path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(path)
    service = unit["Service"]
    assert service["Restart"] == "always"
    assert int(service["WatchdogSec"]) >= 60
    assert service["NotifyAccess"] == "main"
    assert service["User"] == "wms2"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["EnvironmentFile"] == "/etc/wms2/wms2.env"
    assert "PASSWORD" not in path.read_text(encoding="utf-8")
