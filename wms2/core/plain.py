"""Text from outside made fit for a database and a terminal: no control character survives, no length is unbounded."""

from __future__ import annotations

from typing import Any

UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
CUT = "\N{HORIZONTAL ELLIPSIS}"


def plain_line(text: object, longest: int = 500) -> str:
    """One line, at most so long; its beginning says what it is about. Nothing for what is no text."""
    if not isinstance(text, str):
        return ""
    # Cut first: the rest of an endless text is not worth a look.
    line = _printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else line[: longest - 1] + CUT


def plain_text(text: object, longest: int = 4000) -> str:
    """Lines, all together at most so long; of a log the end counts."""
    if not isinstance(text, str):
        return ""
    return whole_text(text if len(text) <= longest else CUT + text[1 - longest :])


def whole_text(text: str) -> str:
    """All lines at their full length: what is written for people, around words from outside."""
    return "\n".join(_printable(line.expandtabs()) for line in text.splitlines())


def storable(value: Any) -> Any:
    """JSON as a database takes it: PostgreSQL has no place for NUL in a text."""
    if isinstance(value, str):
        return value.replace("\0", UNPRINTABLE)
    if isinstance(value, dict):
        return {storable(name): storable(content) for name, content in value.items()}
    if isinstance(value, list):
        return [storable(content) for content in value]
    return value


def _printable(text: str) -> str:
    # str.isprintable refuses control and format characters, lone surrogates and NUL.
    return text if text.isprintable() else "".join(c if c.isprintable() else UNPRINTABLE for c in text)
