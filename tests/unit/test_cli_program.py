"""The `wms2` command as a process: how it starts and ends, and what it imports on the way."""

import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.command_line import every_deferred, every_verb, parse
from tests.patience import PATIENCE_SEC
from wms2.cli.main import app

ROOT = Path(__file__).parents[2]

# What is asked for in BEFORE is there before anything of WMS2 is imported.
SCRIPT = """
import os, signal, sys
{before}
from wms2.cli import program
sys.argv = ["wms2", *sys.argv[1:]]
program()
"""
TIDYING = 'import atexit; atexit.register(print, "Python tidied up")'
TELLS_MODULES = (
    "leave = os._exit; os._exit = lambda code: (print(*sys.modules, file=sys.stderr), leave(code))"
)
INTERRUPTED = """
sys.addaudithook(lambda event, given:
    os.kill(os.getpid(), signal.SIGINT) if (event, given[0]) == ({event!r}, {what!r}) else None)
"""

ENGINES = {
    "alembic", "awkward", "classad2", "fastapi", "htcondor2", "httpx", "jwt", "numpy", "prometheus_client",
    "psycopg", "pydantic_settings", "sqlalchemy", "temporalio", "uproot", "uvicorn",
}  # fmt: skip


def wms2(*words: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT.format(before=before), *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SEC,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["request", "no-such-verb"], 2), (["request", "validate", "/nowhere"], 2)]
)  # fmt: skip
def test_it_ends_with_its_code_and_leaves_no_tidying_up_to_python(words: list[str], code: int) -> None:
    done = wms2(*words, before=TIDYING)
    assert done.returncode == code
    assert done.stdout + done.stderr
    assert "tidied up" not in done.stdout


@pytest.mark.parametrize("words", [["policy", "show"], ["policy", "show", "--json"], ["--version"]])
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    command = shlex.join([sys.executable, "-c", SCRIPT.format(before=""), *words])
    done = subprocess.run(
        ["bash", "-c", f"{command} > /dev/full"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "Error: there is no room left; make room, then try again\n")


def test_it_tells_its_version() -> None:
    done = wms2("--version")
    assert (done.returncode, done.stdout) == (0, f"wms2 {version('wms2')}\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["reqest"],
        ["request", "--help"],
        ["request", "lst"],
        ["request", "validate", "examples/simulation.yaml"],
        ["request", "plan", "examples/simulation.yaml"],
        ["policy", "explain", "8021"],
        ["policy", "show", "--request", "examples/simulation.yaml"],
    ],
)
def test_what_speaks_with_nobody_imports_no_engine(words: list[str]) -> None:
    modules = {name.split(".")[0] for name in wms2(*words, before=TELLS_MODULES).stderr.split()}
    assert "typer" in modules
    assert modules & ENGINES == set()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("wms2 req", "request"), ("wms2 sta", "status"), ("wms2 request wa", "watch"), ("wms2 policy ex", "explain")],
)  # fmt: skip
def test_a_shell_completes_nouns_and_verbs_and_imports_no_engine_for_it(typed: str, expected: str) -> None:
    asked = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_WMS2_COMPLETE": "complete_bash",
    }
    done = wms2(before=TELLS_MODULES, **asked)
    assert done.stdout.split() == [expected]
    assert {name.split(".")[0] for name in done.stderr.split()} & ENGINES == set()


@pytest.mark.parametrize(("verb", "help_"), list(every_verb()))
def test_every_verb_has_examples_in_its_help_and_understands_them(verb: str, help_: str) -> None:
    examples = re.findall(r"(?<!/)wms2 [^[\n]+", help_.partition("\nExample")[2])
    assert any(f"{example} ".startswith(f"wms2 {verb} ") for example in examples)
    for example in examples:
        for line in re.split(" && | > [^ ]+$", example):
            if line:
                parse(shlex.split(line)[1:])


def test_what_a_list_says_of_a_noun_or_verb_is_how_its_own_help_begins() -> None:
    pairs = list(every_deferred())
    assert [shown.name for shown, real in pairs if shown.help != real.help.split("\n\n")[0]] == []
    assert {"up", "request", "watch"} <= {shown.name for shown, _ in pairs}


@pytest.mark.parametrize(
    ("event", "what"),
    [
        ("import", "typer"),
        ("import", "logging"),
        ("import", "rich.console"),
        ("import", "wms2.cli.deferred"),
        ("import", "pydantic"),
        ("import", "yaml"),
        ("open", "examples/simulation.yaml"),
    ],
)
def test_ctrl_c_while_it_starts_ends_it_without_a_stack_trace(event: str, what: str) -> None:
    # As at a desk: whoever starts the tests in the background lets them ignore it.
    heeded = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    before = heeded + INTERRUPTED.format(event=event, what=what)
    done = wms2("request", "validate", "examples/simulation.yaml", before=before)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_start_that_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)" + INTERRUPTED.format(event="import", what="yaml")
    assert wms2("request", "validate", "examples/simulation.yaml", before=ignored).returncode == 0


def test_a_verb_can_be_called_in_any_thread() -> None:
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(CliRunner().invoke, app, ["policy", "show"]).result()
    assert (done.exit_code, done.exception) == (0, None)
