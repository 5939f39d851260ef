"""Event logs that are written as ads, in XML (`log_xml` of a job) or JSON (EVENT_LOG_FORMAT_OPTIONS of a pool)."""

from __future__ import annotations

from post_script.files import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


def event_ads(text: str) -> Iterator[dict[str, Any]]:
    """The ads of a log, one for each event; an ad inside another is part of it, what is torn is left out."""
    return _of_json(text) if text.lstrip().startswith("{") else _of_xml(text)


def _of_json(text: str) -> Iterator[dict[str, Any]]:
    for block in text.split("\n}"):
        try:
            ad = parse_json(block.strip(" \t\r\n.") + "\n}")
        except ValueError:
            continue
        if isinstance(ad, dict):
            for inner in [value for value in ad.values() if isinstance(value, dict)]:
                ad.update(inner)
            yield ad


def _of_xml(text: str) -> Iterator[dict[str, Any]]:
    """<c><a n="Cluster"><i>5</i></a><a n="TerminatedNormally"><b v="t"/></a></c>"""
    flat = text.replace('"><c>', '"><u/></a>').replace("</c></a>", "")
    for block in flat.split("<c>")[1:]:
        content, ended, _ = block.partition("</c>")
        if ended:
            pairs = [part.partition('">') for part in content.split('<a n="')[1:]]
            yield {name: _value(value.partition("</a>")[0]) for name, _, value in pairs}


def _value(text: str) -> Any:
    kind, _, rest = text.strip()[1:].partition(">")
    content = rest.rpartition("</")[0]
    if kind.startswith("b"):
        return '"t' in kind or content.startswith("t")
    for entity, letter in _ENTITIES:
        content = content.replace(entity, letter)
    if kind == "s":
        return content
    try:
        return int(content) if kind == "i" else float(content)
    except ValueError:
        return None
