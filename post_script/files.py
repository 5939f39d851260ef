"""Reading what may be torn, missing or hostile, writing what must be whole.

JSON goes through CPython's own scanner and encoder: the `json` package imports regular expressions, which costs more
than all the rest of a POST script.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_NUMBER = 20


class _Reading:
    """What the scanner asks for. Numbers that are none, or too long for one, become None."""

    strict = False
    object_hook = None
    object_pairs_hook = None

    @staticmethod
    def parse_int(digits: str) -> int | None:
        return int(digits) if len(digits) <= _LONGEST_NUMBER else None

    @staticmethod
    def parse_float(digits: str) -> float | None:
        number = float(digits)
        return number if abs(number) < 1e300 else None

    @staticmethod
    def parse_constant(_name: str) -> None:
        return None


# The scanner is written for an object of the json package, and asks it for no more than this.
_READING: Any = _Reading


def parse_json(text: str) -> Any:
    """The value of a JSON text; ValueError when it is none."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text, strict=False)
    text = text.strip(" \t\r\n")
    try:
        value, end = make_scanner(_READING)(text, 0)
    except (StopIteration, RecursionError):
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file; None when it is missing, torn, or no object."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            content = parse_json(file.read())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def json_text(content: dict[str, Any]) -> str:
    """An object with a line for each of its keys."""
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return json.dumps(content, sort_keys=True) + "\n"
    encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ": ", ", ", True, False, False)
    lines = [
        f" {encode_basestring_ascii(key)}: {''.join(encode(content[key], 0))}" for key in sorted(content)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _refuse(value: Any) -> None:
    raise TypeError(f"{value!r} has no place in JSON")


def write_json(path: str, content: dict[str, Any]) -> None:
    write_text(path, json_text(content))


def write_text(path: str, text: str) -> None:
    """Write by rename: a reader sees the old file or the new one, whole, also after a crash of the host."""
    partial = f"{path}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def publish(path: str, name: str) -> None:
    """Let `name` be the same file as `path`, whatever it was before."""
    partial = f"{name}.{os.getpid()}.partial"
    try:
        os.link(path, partial)
    except OSError:
        # A file system without links.
        with open(path, encoding="utf-8") as file:
            write_text(name, file.read())
        return
    os.replace(partial, name)
    if os.path.exists(partial):
        # Renaming one link of a file over another does nothing.
        os.unlink(partial)


def append_line(path: str, line: str) -> None:
    """One O_APPEND write: lines of scripts that run side by side do not mix."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (line + "\n").encode("utf-8", "replace"))
    finally:
        os.close(handle)


def tail(path: str, lines: int, longest: int = 65536) -> str:
    """The end of a text file, or "" when there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - longest))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def cleaned(value: Any, longest: int) -> Any:
    """The same with each text in it clean."""
    if isinstance(value, dict):
        return {clean(name, longest): cleaned(content, longest) for name, content in value.items()}
    if isinstance(value, list):
        return [cleaned(content, longest) for content in value]
    return clean(value, longest) if isinstance(value, str) else value


def clean(text: Any, longest: int) -> str:
    """A text from outside, so that every reader of a record can take it: no NULs, no broken characters, not endless."""
    if not isinstance(text, str):
        return ""
    return text[:longest].encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
