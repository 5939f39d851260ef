"""A request and its outputs: each has a workflow of its own, which is told what comes and says how it goes."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from wms2.models.messages import OperatorAction, OutputAnnounced, OutputOrder
    from wms2.models.output_steps import OutputStuck
    from wms2.models.undo import UndoOrder
    from wms2.temporal.ids import output_id, undo_id
    from wms2.temporal.queues import WORKFLOWS
    from wms2.temporal.retries import RECORD
    from wms2.workflows.clerk import Clerk


FREEZE_AGAIN = timedelta(minutes=10)


class Publisher(Clerk):
    frozen: set[str]

    @workflow.signal
    def output_announced(self, announced: OutputAnnounced) -> None:
        self.state.stuck_outputs.pop(announced.dataset, None)
        if announced.dataset not in self.state.announced:
            self.state.announced = (*self.state.announced, announced.dataset)

    @workflow.signal
    def output_frozen(self, dataset: str) -> None:
        self.frozen.add(dataset)

    @workflow.signal
    def output_stuck(self, stuck: OutputStuck) -> None:
        """It does not get on without a person. Jobs that run go on; the request is held when they have ended."""
        if self.state.stuck_outputs.get(stuck.dataset) != stuck.problem:
            self.state.stuck_outputs[stuck.dataset] = stuck.problem
            self.note_down(f"{stuck.dataset} does not get on: {stuck.problem}")

    @workflow.signal
    def output_recovered(self, dataset: str) -> None:
        """It gets on again by itself, and needs no person any more."""
        if self.state.stuck_outputs.pop(dataset, None) is not None:
            self.note_down(f"{dataset} gets on again")

    def all_are_announced(self) -> bool:
        return set(self.state.announced) >= set(self.state.datasets)

    def stuck_reason(self) -> str:
        """Why a person is needed for the outputs; empty when none is."""
        stuck = sorted(self.state.stuck_outputs.items())
        return "; ".join(f"{dataset} does not get on: {problem}" for dataset, problem in stuck)

    async def tell_the_outputs(self, word: str) -> None:
        """A word to each output workflow; one that is not there yet, or no longer, is started first."""
        for dataset in self.state.datasets:
            if dataset in self.state.announced:
                continue
            name = output_id(self.state.request_name, dataset)
            if dataset not in self.state.outputs_started:
                await self.start_output(dataset, name)
            if not await self.tell(name, word) and dataset not in self.state.announced:
                # It was ended from outside. What it knew is in the database: another one goes on from there.
                self.note_down(f"the workflow of {dataset} was gone, and is started again")
                await self.start_output(dataset, name)
                await self.tell(name, word)

    async def try_the_outputs_again(self) -> None:
        """Those that are stuck: a person has mended what was broken."""
        for dataset in sorted(self.state.stuck_outputs):
            await self.tell(output_id(self.state.request_name, dataset), "retry")
        self.state.stuck_outputs = {}

    async def tell(self, output: str, word: str) -> bool:
        """Whether it was there to be told. One that has just ended need not be: its last word is on its way here."""
        try:
            await workflow.get_external_workflow_handle(output).signal(word)
        except FailureError:
            workflow.logger.info("%s has ended and was not told %s", output, word)
            return False
        return True

    async def start_output(self, dataset: str, name: str) -> None:
        try:
            await workflow.start_child_workflow(
                "OutputDatasetWorkflow",
                OutputOrder(request=self.state.request_name, dataset=dataset, urgent=self.state.urgent),
                id=name,
                task_queue=WORKFLOWS,
                parent_close_policy=ParentClosePolicy.ABANDON,
                static_summary=f"{dataset} of {self.state.request_name}",
            )
        except WorkflowAlreadyStartedError:
            # A request that was revived at an earlier point of its history meets its outputs again.
            workflow.logger.info("%s lives already", name)
        # Whatever one that ended before has said.
        self.frozen.discard(dataset)
        if dataset not in self.state.outputs_started:
            self.state.outputs_started = (*self.state.outputs_started, dataset)

    async def freeze_the_outputs(self) -> None:
        """Those that live answer when they have no call in flight. One that ends without a word is not waited for."""
        while living := await self.told_to_freeze():
            try:
                await workflow.wait_condition(
                    lambda living=living: living <= self.frozen | set(self.state.announced),  # type: ignore[misc]
                    timeout=FREEZE_AGAIN,
                    timeout_summary="until the outputs are told again to freeze",
                )
            except TimeoutError:
                continue

    async def told_to_freeze(self) -> set[str]:
        """Those that have not answered, and were there to be told."""
        silent = set(self.state.outputs_started) - set(self.state.announced) - self.frozen
        name = self.state.request_name
        return {dataset for dataset in sorted(silent) if await self.tell(output_id(name, dataset), "freeze")}

    async def take_the_outputs_back(self, asked: OperatorAction) -> None:
        """What was registered is listed, and taken back by a workflow of its own: that may take days."""
        name = self.state.request_name
        await self.call(
            "write_invalidation", asked.audited(name), preset=RECORD, summary="List what was registered"
        )
        order = UndoOrder(request=name, actor=asked.actor, reason=asked.words, action_id=asked.action_id)
        try:
            await workflow.start_child_workflow(
                "UndoWorkflow",
                order,
                id=undo_id(name, None),
                task_queue=WORKFLOWS,
                parent_close_policy=ParentClosePolicy.ABANDON,
                static_summary=f"takes back the outputs of {name}",
            )
        except WorkflowAlreadyStartedError:
            workflow.logger.info("the outputs of %s are being taken back already", name)

    async def supersede_the_earlier_outputs(self) -> None:
        """This one is complete: what the version before it made is replaced."""
        if self.state.replaces:
            await self.call(
                "supersede_outputs", self.state.request_name, preset=RECORD,
                summary=f"The outputs of {self.state.replaces} are superseded",
            )  # fmt: skip
