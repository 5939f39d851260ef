"""From text to plain data."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.errors import UserError
from wms2.models.document import parse_document
from wms2.models.request_draft import Draft


def test_yaml_and_json_hold_the_same_data() -> None:
    expected = {
        "name": "x",
        "numbers": [1, 2.5, -3],
        "on": True,
        "off": False,
        "none": None,
        "deep": {"1": []},
    }
    written = "name: x\nnumbers: [1, 2.5, -3]\non: true\noff: False\nnone: ~\ndeep:\n  1: []\n"
    assert parse_document(written) == parse_document(json.dumps(expected)) == expected


@pytest.mark.parametrize(
    ("written", "value"),
    [("no", "no"), ("12:30", "12:30"), ("2024-01-01", "2024-01-01"), ("012", "012"), ("0x1F", "0x1F"),
     ("1_000_000", 1_000_000), ("1e6", 1e6), ("'5'", "5"), ("", None), ("null", None), (".nan", ".nan"),
     ("+7", 7), ("1.", 1.0), ("9" * 200, "9" * 200)],
)  # fmt: skip
def test_yaml_has_no_surprises(written: str, value: Any) -> None:
    found = parse_document(f"key: {written}")["key"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("# only a comment", "is empty"),
        ("- a\n- b", "is no mapping"),
        ("just words", "is no mapping"),
        ("a: 1\nb: [1, 2\nc: 3", "while parsing a flow sequence from line 2"),
        ("a: 1\n\tb: 2", "line 2, column 1: found a tab"),
        ("a:\n\tb: 2", "line 2, column 1: the line begins with a tab, expected blanks"),
        ("a: 1\na: 2", "line 2, column 1: the key 'a' comes twice"),
        ("a:\n  b: 1\n  b: 2", "line 3, column 3: the key 'b' comes twice"),
        ("? [a]\n: 1", "simple name as key"),
        ("a: &x 1\nb: *x", "anchor or alias at line 1"),
        ("a: !!python/name:os.system x", "tag at line 1"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: \x07", "not valid YAML"),
        ('{"a": 1,}', "not valid JSON at line 1, column"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"a": NaN}', "no number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too many digits"),
        ('{"a": "\\ud800"}', "a character that is none"),
        ('{"a": ["\\u0000"]}', "a character that is none"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested too deeply"),
    ],
)
def test_a_text_that_is_no_document_is_one_sentence_that_says_where(text: str, problem: str) -> None:
    with pytest.raises(UserError) as error:
        parse_document(text, "demo.yaml")
    assert problem in str(error.value)
    assert str(error.value).startswith("demo.yaml ")
    assert "\n" not in str(error.value)


def test_a_small_file_never_becomes_a_large_document() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + k)}: &{chr(98 + k)} [*{chr(97 + k)}, *{chr(97 + k)}]\n" for k in range(24)
    )
    started = time.process_time()
    with pytest.raises(UserError, match="anchor or alias"):
        parse_document(bomb)
    assert time.process_time() - started < 5


@given(st.text())
def test_any_text_gives_a_mapping_or_one_sentence(text: str) -> None:
    try:
        outcome: Any = parse_document(text)
    except UserError as error:
        outcome = str(error)
    assert isinstance(outcome, dict) or "\n" not in outcome


def test_a_name_of_any_length_is_told_as_its_author_wrote_it() -> None:
    rest = ".b" * 500_000
    assert Draft({}, {"a": "A"}).as_written("a" + rest) == "A" + rest
