"""The `wms2` command as a process."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SEC

SCRIPT = """
import atexit, sys
from wms2.cli import program
atexit.register(print, "Python tidied up")
sys.argv = ["wms2", *sys.argv[1:]]
program()
"""


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["request", "no-such-verb"], 2), (["request", "validate", "/nowhere"], 2)]
)  # fmt: skip
def test_it_ends_with_its_code_and_leaves_no_tidying_up_to_python(words: list[str], code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SEC,
    )
    assert done.returncode == code
    assert done.stdout + done.stderr
    assert "tidied up" not in done.stdout
