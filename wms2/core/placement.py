"""When the copy of a block at the site that made it is no longer the one that counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from wms2.models.rule import Rule

OK, STUCK, SUSPENDED = "OK", "STUCK", "SUSPENDED"
LASTS = timedelta(days=7)
"""A rule that ends sooner is no reason to let go of another copy."""


class Placement(StrEnum):
    PLACED = "placed"
    """Another rule holds every file."""
    STAYS = "stays"
    """The site that made it is one of its destinations, and it is at the others."""
    UNDER_WAY = "under_way"
    NOWHERE = "nowhere"
    """No other rule wants it."""


@dataclass(frozen=True, slots=True)
class BlockToPlace:
    """A closed block: how many files it has in Rucio, and which rules are WMS2's own."""

    files: int
    source_rule: str
    wanted_rules: frozenset[str] = frozenset()
    """Those that the request asked for: all of them must hold."""
    kept_for: timedelta | None = None
    """How long the request wants it to be kept; for good where it does not say."""
    locks: Mapping[str, int] = field(default_factory=dict)
    """For rules on its dataset: how many locks of the block's own files are OK."""


def placement(
    block: BlockToPlace, of_block: Sequence[Rule], of_dataset: Sequence[Rule], now: datetime
) -> Placement:
    """What the rules on a block, and on the dataset that it belongs to, say about it.

    A rule counts when it has a lock for every file: one that was made before the last file came says OK too early.
    How many locks a rule on the dataset has in all says nothing: they may be of other blocks, by whomever.
    """
    holds = {
        rule.id: _lasts(rule, block, now) and _holds(rule, rule.locks_ok, block)
        for rule in of_block
        if rule.id != block.source_rule
    }
    holds |= {
        rule.id: _lasts(rule, block, now) and _holds(rule, block.locks.get(rule.id, 0), block)
        for rule in of_dataset
    }
    if block.wanted_rules:
        elsewhere = block.wanted_rules - {block.source_rule}
        if not all(holds.get(rule, False) for rule in elsewhere):
            return Placement.UNDER_WAY
        return Placement.PLACED if elsewhere == block.wanted_rules else Placement.STAYS
    if any(holds.values()):
        return Placement.PLACED
    return Placement.UNDER_WAY if holds else Placement.NOWHERE


def is_well(rule: Rule) -> bool:
    """Whether all the locks that it has are OK; it may lack some."""
    return rule.state == OK and not (rule.locks_replicating or rule.locks_stuck)


def misses_a_rule(block: BlockToPlace, of_block: Sequence[Rule], now: datetime) -> bool:
    """Whether a rule that the request asked for is gone, or ends before it has done its duty."""
    there = {rule.id for rule in of_block if _lasts(rule, block, now)}
    return not block.wanted_rules - {block.source_rule} <= there


def is_let_go(block: BlockToPlace, of_block: Sequence[Rule], now: datetime) -> bool:
    """Whether the rule that holds it where it was made is gone, or about to go."""
    return not any(rule.id == block.source_rule and _lasts(rule, block, now) for rule in of_block)


def _lasts(rule: Rule, block: BlockToPlace, now: datetime) -> bool:
    """A rule for a destination lasts as long as the request said, which may be short."""
    least = LASTS
    if rule.id in block.wanted_rules and block.kept_for is not None:
        least = min(LASTS, block.kept_for / 2)
    return rule.expires_at is None or rule.expires_at - now >= least


def _holds(rule: Rule, locks_ok: int, block: BlockToPlace) -> bool:
    return is_well(rule) and locks_ok >= block.files * rule.copies


def trouble(rules: Sequence[Rule]) -> str:
    """What Rucio says of the first rule that does not get on; empty where all do.

    One that was stuck for weeks is suspended: Rucio itself does not try any more.
    """
    stuck = next((rule for rule in rules if rule.state in (STUCK, SUSPENDED)), None)
    if stuck is None:
        return ""
    why = stuck.error or "no reason given"
    state = stuck.state.lower()
    return f"the rule for {stuck.rse_expression} is {state} with {stuck.locks_stuck} files: {why}"
