"""Portions: what one run of the step chain processes, all of a node or a piece of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sandbox.manifest import InputFile, Node


@dataclass(frozen=True)
class Portion:
    """`events` is how many are expected; the event numbers count in simulation only, the files with input only."""

    events: int
    first_event: int = 0
    last_event: int = 0
    first_lumi: int = 0
    lumi_offset: int = 0  # events of the first lumi that lie before this portion
    files: tuple[InputFile, ...] = ()


def whole(node: Node) -> Portion:
    if node.files:
        return all_of(node.files)
    return events_of(node, node.first_event, node.last_event - node.first_event + 1)


def all_of(files: tuple[InputFile, ...]) -> Portion:
    return Portion(events=sum(_length(file) for file in files), files=files)


def events_of(node: Node, first_event: int, events: int) -> Portion:
    """Events of a simulation node, not beyond its end; lumis stay where the node's plan has them."""
    last_event = min(first_event + events - 1, node.last_event)
    before = first_event - node.first_event
    return Portion(
        events=last_event - first_event + 1,
        first_event=first_event,
        last_event=last_event,
        first_lumi=node.first_lumi + before // node.events_per_lumi,
        lumi_offset=before % node.events_per_lumi,
    )


def next_events(node: Node, first_event: int, wanted: int) -> Portion:
    """About `wanted` events such that the portion fills whole lumis or stays inside one.

    An event generator can begin in the middle of a lumi, but it cannot change lumi after fewer events than a lumi has.
    """
    size = node.events_per_lumi
    room = size - (first_event - node.first_event) % size
    if room < size:
        return events_of(node, first_event, min(wanted, room))
    return events_of(node, first_event, wanted if wanted < size else -(-wanted // size) * size)


def take_files(
    files: tuple[InputFile, ...], wanted: int, split: bool
) -> tuple[Portion, tuple[InputFile, ...]]:
    """About `wanted` events from the front of the files, and what is left of the files.

    A piece that reaches the planned end of a file keeps that end as planned: an open end stays open, so that a file
    with more events than were recorded is still read to its end.
    """
    taken: list[InputFile] = []
    events = 0
    for index, file in enumerate(files):
        length = _length(file)
        if split and events + length > wanted and wanted > events:
            cut = (file.first_event or 1) + wanted - events
            taken.append(replace(file, last_event=cut - 1))
            rest = (replace(file, first_event=cut), *files[index + 1 :])
            return Portion(events=wanted, files=tuple(taken)), rest
        if taken and events >= wanted:
            return Portion(events=events, files=tuple(taken)), files[index:]
        taken.append(file)
        events += length
    return Portion(events=events, files=tuple(taken)), ()


def _length(file: InputFile) -> int:
    last = file.events if file.last_event is None else file.last_event
    return max(0, last - (file.first_event or 1) + 1)
