"""A node's own HTCondor event log: how each attempt went, by its cluster id."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEADER = re.compile(r"(\d{3}) \((\d+)\.\d+\.\d+\) (\S+ \S+) ?(.*)")
_RETURNED = re.compile(r"Normal termination \(return value (-?\d+)\)")
_SIGNALLED = re.compile(r"Abnormal termination \(signal (\d+)\)")
_ATTRIBUTE = re.compile(r"([A-Za-z_]\w*) = (.*)")

_TERMINATED, _ABORTED, _HELD, _AD_INFORMATION = 5, 9, 12, 28


def read_attempt(path: str, cluster: int) -> dict[str, Any]:
    """What the log says of one attempt; keys that it says nothing of are missing.

    exit_code, exit_signal, removal_reason, hold_reason, and under "ad" the job's attributes at its end.
    """
    attempt: dict[str, Any] = {"ad": {}}
    for event, lines in _events(path, cluster):
        reader = _READERS.get(event)
        if reader:
            reader(attempt, lines)
    return attempt


def _events(path: str, cluster: int) -> list[tuple[int, list[str]]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    found = []
    for block in text.split("\n...\n"):
        lines = block.strip("\n").split("\n")
        header = _HEADER.match(lines[0])
        if header and int(header.group(2)) == cluster:
            found.append((int(header.group(1)), lines))
    return found


def _terminated(attempt: dict[str, Any], lines: list[str]) -> None:
    body = "\n".join(lines)
    returned, signalled = _RETURNED.search(body), _SIGNALLED.search(body)
    if returned:
        attempt["exit_code"] = int(returned.group(1))
    elif signalled:
        attempt["exit_signal"] = int(signalled.group(1))


def _aborted(attempt: dict[str, Any], lines: list[str]) -> None:
    attempt["removal_reason"] = _reason(lines)


def _held(attempt: dict[str, Any], lines: list[str]) -> None:
    attempt["hold_reason"] = _reason(lines)


def _reason(lines: list[str]) -> str:
    return lines[1].strip() if len(lines) > 1 else ""


def _ad_information(attempt: dict[str, Any], lines: list[str]) -> None:
    ad = attempt["ad"]
    for line in lines[1:]:
        match = _ATTRIBUTE.match(line)
        if match:
            ad[match.group(1)] = _value(match.group(2))


def _value(text: str) -> Any:
    if text.startswith('"'):
        return text[1:-1]
    try:
        return float(text) if "." in text or "E" in text else int(text)
    except ValueError:
        return {"true": True, "false": False}.get(text, text)


_READERS = {
    _TERMINATED: _terminated,
    _ABORTED: _aborted,
    _HELD: _held,
    _AD_INFORMATION: _ad_information,
}
