"""Bringing the inputs of requests near, and letting them go."""

from __future__ import annotations

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.adapters.rucio import Rucio
from wms2.db import inputs
from wms2.db.requests import request_record
from wms2.errors import Unavailable, UserError
from wms2.models.input_rule import FetchedInput, InputRule
from wms2.models.request import Request
from wms2.models.rule import Rule

COMMENT = "WMS2: input fetched for production"
"""Tells these rules from those that WMS2 has for its outputs: only these are let go."""


class InputActivities(DatabaseActivities):
    """Requests that want the same at the same place share a rule, because Rucio keeps one of a kind."""

    def __init__(self, engine: Engine, rucio: Rucio, stuck_hours: float) -> None:
        super().__init__(engine)
        self._rucio = rucio
        self._stuck_hours = stuck_hours

    @activity.defn
    async def fetch_input(self, request_name: str) -> FetchedInput:
        """Make the rules that a request wants for its input where they are missing, and see how far they are."""
        request = (await self.record(request_record, request_name)).request
        wanted = await self.record(inputs.want_inputs, request_name, _names(request), request.prefetch or "")
        for held in wanted:
            await self.record(inputs.record_look, held, await self._rule(held))
        progress = await self.record(inputs.input_progress, request_name)
        if progress is None:
            raise UserError(f"{request_name} asks for no input to be fetched")
        return FetchedInput(progress=progress, patience_hours=self._stuck_hours)

    @activity.defn
    async def release_input(self, request_name: str) -> int:
        """Let go of what a request holds; how many rules that were."""
        held = await self.record(inputs.held_inputs, request_name)
        for one in held:
            await self._release(one)
        return len(held)

    @activity.defn
    async def release_inputs(self) -> int:
        """Let go of what requests hold that have ended: Rucio may have been away at their end."""
        ended = await self.record(inputs.held_after_the_end)
        return sum([await self.release_input(name) for name in ended])

    async def _rule(self, held: InputRule) -> Rule:
        """The rule that holds it: the known one, another of WMS2's own for the same, or else a new one."""
        known = await self._rucio.rule(held.rule_id) if held.rule_id else None
        if known is not None and (known.expires_at is None or known.comment != COMMENT):
            return known
        others = [rule for rule in await self._rules_like(held) if rule.comment != COMMENT]
        if others:
            # Rucio would keep no second one beside it.
            return others[0]
        made = await self._rucio.rule(await self._make(held))
        if made is None:
            raise Unavailable(f"Rucio has just removed the rule for {held.name} at {held.rse_expression}")
        return made

    async def _release(self, held: InputRule) -> None:
        """The rule goes when nobody else wants it.

        Whoever begins to want it says so before asking Rucio. So it is enough to look again after the deletion: one who
        came in between has its rule brought back, one who comes later does that by itself.
        """
        if not await self.record(inputs.others_want, held):
            for rule in await self._rules_like(held):
                if rule.comment == COMMENT and rule.expires_at is None:
                    await self._rucio.delete_rule(rule.id)
        if await self.record(inputs.others_want, held):
            await self._make(held)
        await self.record(inputs.record_release, held)

    async def _make(self, held: InputRule) -> str:
        return await self._rucio.add_rule(
            held.name, held.rse_expression, comment=COMMENT, activity="Production Input"
        )

    async def _rules_like(self, held: InputRule) -> list[Rule]:
        """Rucio keeps one rule of an account for the same name, expression and number of copies."""
        alike = (self._rucio.account, held.rse_expression, 1)
        return [
            rule
            for rule in await self._rucio.rules_of(held.name)
            if (rule.account, rule.rse_expression, rule.copies) == alike
        ]


def _names(request: Request) -> tuple[str, ...]:
    return request.block_whitelist or ((request.input_dataset,) if request.input_dataset else ())
