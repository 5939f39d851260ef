"""README and docs/: what they show exists, and what needs no server works as it is written there."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.command_line import parse
from wms2.cli.main import app
from wms2.config import Settings
from wms2.dagman.round_folder import read_round

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in DOCUMENTS}

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?:\w+=\S+ )*wms2 (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TEST_NAME = re.compile(r"`(test_\w+)`")


def commands() -> list[Any]:
    """Every `wms2 ...` line of the console blocks, in the order of the documents."""
    return [
        pytest.param(shlex.split(line), id=f"{name}: {line}")
        for name, text in TEXTS.items()
        for block in BLOCK.findall(text)
        for line in COMMAND.findall(block)
    ]


def needs_no_server(words: list[str]) -> bool:
    return words[0] == "request" and words[1] in ("validate", "plan")


@pytest.mark.parametrize("words", commands())
def test_every_command_in_the_documents_exists_with_its_options(words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize("words", [case for case in commands() if needs_no_server(case.values[0])])
def test_commands_that_need_no_server_run_as_they_are_written(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    here = [re.sub("^/tmp/", f"{tmp_path}/", word) for word in words]
    done = CliRunner().invoke(app, here)
    assert (done.exit_code, done.exception) == (0, None)
    if "--out" in here:
        assert read_round(Path(here[here.index("--out") + 1])).work_units


@pytest.mark.parametrize("document", TEXTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    folder = (ROOT / document).parent
    assert [link for link in LINK.findall(TEXTS[document]) if not (folder / link).exists()] == []


@pytest.mark.parametrize("document", TEXTS)
def test_links_to_a_heading_find_it(document: str) -> None:
    folder = (ROOT / document).parent
    lost = [
        f"{target}#{anchor}"
        for target, anchor in ANCHOR.findall(TEXTS[document])
        if anchor not in anchors(folder / target if target else ROOT / document)
    ]
    assert lost == []


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of the headings."""
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_layout_names_every_module_that_a_newcomer_meets_first() -> None:
    text = TEXTS["docs/development.md"]
    top = {path for path in (ROOT / "wms2").iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert [path.name for path in sorted(top) if f"`wms2/{path.name}{'/' * path.is_dir()}`" not in text] == []
    _, _, table = text.partition("\n### Workflows\n")
    workflows = {path.stem for path in (ROOT / "wms2/workflows").glob("[a-z]*.py")}
    assert [name for name in sorted(workflows) if f"`{name}`" not in table.partition("\n## ")[0]] == []


def test_every_test_that_the_documents_name_exists() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = {name for text in TEXTS.values() for name in TEST_NAME.findall(text)}
    assert [name for name in sorted(named) if f"def {name}(" not in sources] == []


def test_every_setting_is_documented() -> None:
    listed = re.findall(r"^\| `(WMS2_\w+)` \|", TEXTS["docs/operations.md"], re.MULTILINE)
    assert sorted(listed) == sorted(f"WMS2_{name.upper()}" for name in Settings.model_fields)
