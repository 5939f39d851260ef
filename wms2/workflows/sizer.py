"""Takes an operator's word on what jobs need. It is in force from the next round that is planned."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from wms2.core.lifecycle import objection
    from wms2.core.sizing import size_mistakes
    from wms2.models.messages import SizeAction
    from wms2.models.sizing import SizingOverride
    from wms2.workflows.clerk import Clerk
    from wms2.workflows.desk import Desk


class Sizer(Clerk, Desk):
    """Unlike other words of people this one interrupts nothing, so it is acted on at once."""

    @workflow.update
    async def size(self, asked: SizeAction) -> str:
        if self.remember(asked.action_id):
            self.state.override = asked.applied_to(self.state.override)
            self.note_down(f"size by {asked.actor}: {_words(asked)}")
            # With all that is in force, so that the newest one tells how a request is sized by hand.
            await self.audit(asked, self.state.override.given)
        return f"the next round of {self.state.request_name} is planned {_basis(self.state.override)}"

    @size.validator
    def check_size(self, asked: SizeAction) -> None:
        """Refuse what does not fit, every mistake in a sentence of its own, before anything is recorded."""
        if asked.action_id in self.state.handled_actions:
            return
        mistakes = [objection(asked.action, self.state.status), *size_mistakes(asked)]
        if found := [mistake for mistake in mistakes if mistake]:
            raise ApplicationError("; ".join(found), type="NotNow", non_retryable=True)
        # What the record could not hold is refused here too.
        asked.audited(self.state.request_name)


def _words(asked: SizeAction) -> str:
    what = "cleared" if asked.clear else _listed(asked.change)
    return what + (f", {asked.reason}" if asked.reason else "")


def _basis(override: SizingOverride) -> str:
    return f"with {_listed(override)}" if override.given else "from what was asked for and measured"


def _listed(override: SizingOverride) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in override.given.items())
