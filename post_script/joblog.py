"""A node's own HTCondor event log: how each attempt went, by its cluster id.

Pools write dates in several ways, with more or fewer lines for an event, or ads instead of text; all that is read.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SUBMITTED, _EXECUTING, _TERMINATED, _IMAGE_SIZE = "000", "001", "005", "006"
_EVICTED, _ABORTED, _HELD, _AD_INFORMATION = "004", "009", "012", "028"
_LONGEST = 8_000_000


def read_attempt(path: str, cluster: int) -> dict[str, Any]:
    """What the log says of one attempt; keys that it says nothing of are missing.

    executed, exit_code, exit_signal, removal_reason, hold_reason, schedd, memory_mb, cpu_sec, requested_memory_mb,
    requested_cpus, began and ended (the first lines of those events), and under "ad" the job's attributes at its end.
    """
    attempt: dict[str, Any] = {"ad": {}}
    text = _read(path)
    if text.lstrip()[:1] in ("{", "<"):
        _read_ads(attempt, text, cluster)
        return attempt
    for event, lines in _events(text, cluster):
        reader = _READERS.get(event)
        if reader:
            reader(attempt, lines)
    return attempt


def _read(path: str) -> str:
    """The end of a log, without the NULs that a crash of the host can leave in it."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST))
            data = file.read(_LONGEST)
    except OSError:
        return ""
    return data.decode("utf-8", "replace").replace("\0", "").replace("\r\n", "\n")


def _events(text: str, cluster: int) -> list[tuple[str, list[str]]]:
    """Events begin with `005 (123.000.000) date time text` and end with a line of three dots."""
    found = []
    for block in text.split("\n...\n"):
        lines = block.strip("\n").split("\n")
        event, _, rest = lines[0].strip().partition(" (")
        job = rest.partition(".")[0]
        if len(event) == 3 and job.isdigit() and int(job) == cluster:
            found.append((event, lines))
    return found


def _submitted(attempt: dict[str, Any], lines: list[str]) -> None:
    """From host: <127.0.0.1:9618?addrs=...&alias=schedd01.fnal.gov&...>"""
    address = lines[0].partition("<")[2].partition(">")[0]
    named = address.partition("alias=")[2].partition("&")[0]
    attempt["schedd"] = named or address.partition("?")[0]


def _terminated(attempt: dict[str, Any], lines: list[str]) -> None:
    attempt["ended"] = lines[0]
    for line in lines:
        if "Normal termination (return value " in line:
            attempt["exit_code"] = _integer(line.partition("return value ")[2].partition(")")[0])
        elif "Abnormal termination (signal " in line:
            attempt["exit_signal"] = _integer(line.partition("(signal ")[2].partition(")")[0])
        elif "Run Remote Usage" in line:
            attempt["cpu_sec"] = _usage(line)
        elif line.strip().startswith(("Memory (MB)", "Cpus ")):
            _resource(attempt, line)


def _resource(attempt: dict[str, Any], line: str) -> None:
    """Memory (MB)  :  3890  2000  2048: usage, request and allocated; what was not measured is left out."""
    name, _, figures = line.partition(":")
    words = figures.split()
    memory = name.strip() != "Cpus"
    if memory and len(words) == 3 and words[0].isdigit():
        attempt["memory_mb"] = int(words[0])
    if len(words) in (2, 3) and words[-2].isdigit():
        attempt["requested_memory_mb" if memory else "requested_cpus"] = int(words[-2])


def _usage(line: str) -> int | None:
    """Usr 0 01:02:03, Sys 0 00:00:04  -  Run Remote Usage: 3727"""
    words = line.replace(",", " ").split()
    total = 0
    for name in ("Usr", "Sys"):
        try:
            days, clock = words[words.index(name) + 1 : words.index(name) + 3]
            hours, minutes, seconds = clock.split(":")
            total += ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
        except ValueError:
            return None
    return total


def _image_size(attempt: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        if "MemoryUsage of job" in line:
            used = _integer(line.split()[0])
            attempt["memory_mb"] = max(used or 0, attempt.get("memory_mb") or 0)


def _aborted(attempt: dict[str, Any], lines: list[str]) -> None:
    attempt["removal_reason"] = lines[1].strip() if len(lines) > 1 else ""
    attempt.setdefault("ended", lines[0])


def _held(attempt: dict[str, Any], lines: list[str]) -> None:
    """A reason can have several lines; the codes follow it."""
    reason = []
    for line in lines[1:]:
        if line.strip().startswith("Code "):
            break
        reason.append(line.strip())
    attempt["hold_reason"] = "\n".join(reason)
    attempt["ended"] = lines[0]


def _executing(attempt: dict[str, Any], lines: list[str]) -> None:
    """How it ended when it ran before, and was queued again, says nothing of how it ends now."""
    attempt["executed"] = True
    attempt["began"] = lines[0]
    for key in ("ended", "exit_code", "exit_signal"):
        attempt.pop(key, None)
    _attributes(attempt, lines)


def _attributes(attempt: dict[str, Any], lines: list[str]) -> None:
    ad = attempt["ad"]
    for line in lines[1:]:
        name, found, value = line.strip().partition(" = ")
        if found and name.isidentifier():
            ad[name] = _value(value)


def _value(text: str) -> Any:
    if text.startswith('"'):
        # A text that is torn is none: half a name can look like another one.
        return text[1:-1] if len(text) > 1 and text.endswith('"') else None
    for kind in (int, float) if text[:1].isdigit() or text[:1] == "-" else ():
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _read_ads(attempt: dict[str, Any], text: str, cluster: int) -> None:
    """Events as ads, told to the readers of lines as far as these know more than a name."""
    from post_script.event_ads import event_ads

    for ad in event_ads(text):
        number = ad.get("EventTypeNumber")
        if ad.get("Cluster") != cluster or type(number) is not int:
            continue
        event, first = f"{number:03d}", f"{number:03d} ({cluster}.000.000) {ad.get('EventTime')}"
        if event == _SUBMITTED:
            _submitted(attempt, [str(ad.get("SubmitHost"))])
        elif event == _EXECUTING:
            _executing(attempt, [first])
        elif event in (_TERMINATED, _EVICTED):
            attempt.update(ended=first, cpu_sec=_usage(str(ad.get("RunRemoteUsage"))))
        reason = {_ABORTED: ("removal_reason", "Reason"), _HELD: ("hold_reason", "HoldReason")}.get(event)
        if reason:
            attempt.update({reason[0]: str(ad.get(reason[1]) or ""), "ended": first})
        known = {"exit_code": "ReturnValue", "exit_signal": "TerminatedBySignal", "memory_mb": "MemoryUsage"}
        attempt.update((key, ad[name]) for key, name in known.items() if type(ad.get(name)) is int)
        attempt["ad"].update(ad)


def wall_seconds(attempt: dict[str, Any]) -> float | None:
    """From the last time that the job began to its end, by the dates of the log."""
    # Old logs leave out the year: it ended in this one.
    year = time.localtime().tm_year
    began, ended = _seconds(attempt.get("began"), year), _seconds(attempt.get("ended"), year)
    if began is not None and ended is not None and ended < began:
        began = _seconds(attempt.get("began"), year - 1)
    if began is None or ended is None or ended < began:
        return None
    return ended - began


def _seconds(line: Any, year: int) -> float | None:
    """The date in the first line of an event: `01/02 03:04:05`, or as ISO 8601 has it, with fractions or a zone."""
    words = str(line or "").partition(") ")[2].replace("T", " ", 1).split()
    if len(words) < 2:
        return None
    day_words = words[0].split("-") if "-" in words[0] else [str(year), *words[0].split("/")]
    clock = words[1].rstrip("Z").partition("+")[0].partition("-")[0].split(":")
    try:
        from datetime import date

        numbers = [int(word) for word in day_words]
        hours, minutes, seconds = int(clock[0]), int(clock[1]), float(clock[2])
        return date(*numbers).toordinal() * 86400 + hours * 3600 + minutes * 60 + seconds
    except (ValueError, IndexError, TypeError):
        return None


_READERS = {
    _SUBMITTED: _submitted,
    _EXECUTING: _executing,
    _EVICTED: _terminated,
    _TERMINATED: _terminated,
    _IMAGE_SIZE: _image_size,
    _ABORTED: _aborted,
    _HELD: _held,
    _AD_INFORMATION: _attributes,
}
