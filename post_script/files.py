"""Reading what may be torn or missing, writing what must be whole."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file; None when it is missing, torn, or no object."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: str, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def write_text(path: str, text: str) -> None:
    """Write by rename: a reader sees the old file or the new one, whole, also after a crash of the host."""
    partial = f"{path}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def append_line(path: str, line: str) -> None:
    """One O_APPEND write: lines of scripts that run side by side do not mix."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (line + "\n").encode())
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
