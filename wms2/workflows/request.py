"""The life of a request, told from its submission to its end.

Admit, pilot, plan, submit, follow, rescue or hold, next round, announce. Handlers only note what people ask; the
story acts on it at its next wait. Whatever goes wrong by itself ends in a retry, a rescue or HELD, never in FAILED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from wms2.core.decisions import Policy, RoundEnd, Verdict, decide
    from wms2.models.actions import Action
    from wms2.models.messages import (
        ClosedRound,
        DagObservation,
        DagOrder,
        FollowOrder,
        OperatorAction,
        OutputAnnounced,
        OutputOrder,
        PlannedRoundReport,
        PlanOrder,
        RoundOrder,
        Slot,
        SlotRequest,
        SubmittedDag,
    )
    from wms2.models.next_round import Need, NextRound
    from wms2.models.progress import DagOutcome, RoundProgress
    from wms2.models.request import RequestStatus
    from wms2.models.request_state import OpenRound, RequestState
    from wms2.temporal.ids import output_id
    from wms2.temporal.queues import WORKFLOWS, host_queue, watch_queue
    from wms2.temporal.retries import FOLLOW, HOST, RECORD
    from wms2.workflows.clerk import WMS2, Clerk
    from wms2.workflows.desk import Desk, Interrupted

ASK_AGAIN = timedelta(hours=12)
PATIENCE = timedelta(minutes=1)


class NeedsAPerson(Exception):
    """The story cannot go on by itself."""

    def __init__(self, reason: str, *, close_round: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.close_round = close_round


@workflow.defn
class RequestWorkflow(Clerk, Desk):
    @workflow.init
    def __init__(self, state: RequestState) -> None:
        self.state = state
        self.slot: Slot | None = None
        self.next: NextRound | None = None
        self.frozen: set[str] = set()

    @workflow.run
    async def run(self, _state: RequestState) -> RequestState:
        """The story, and a watch over it. Temporal's own cancel reaches neither: it is heard as a stop."""
        story, watch = asyncio.create_task(self.tell_the_story()), asyncio.create_task(self.keep_watch())
        try:
            await workflow.wait_condition(story.done)
        except asyncio.CancelledError:
            if workflow.cancellation_reason() is None:
                raise
            self.hear_a_cancel()
            await workflow.wait_condition(story.done)
        watch.cancel()
        return await story

    async def tell_the_story(self) -> RequestState:
        """Chapter by chapter. What interrupts one, a person or an error, is the next."""
        chapter: Callable[[], Awaitable[None]] = self.live
        while not self.state.status.is_final:
            try:
                await chapter()
                chapter = self.live
            except Interrupted as interruption:
                chapter = partial(self.obey, interruption.asked)
            except NeedsAPerson as need:
                chapter = partial(self.hold, need.reason, close_round=need.close_round)
            except FailureError as error:
                # Temporal would end the workflow over it. Even holding may fail, and is then tried again.
                await workflow.sleep(PATIENCE if self.state.status is RequestStatus.HELD else timedelta(0))
                chapter = partial(self.hold, _reason(error))
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.state

    # The story -------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """From wherever the state says it stands, to the end."""
        await self.wait_for_release()
        while await self.has_more_to_do():
            await self.get_a_slot()
            await self.plan_a_round()
            await self.run_the_round()
            await self.close_the_round()
            await self.begin_a_new_history()
        await self.announce_the_outputs()
        await self.enter(RequestStatus.COMPLETED, "all outputs are announced")

    async def wait_for_release(self) -> None:
        if self.state.status is RequestStatus.NEW:
            if self.state.status_since is None:
                await self.enter(RequestStatus.NEW, "kept back until it is released")
            asked = await self.next_word()
            if asked.action is not Action.RELEASE:
                raise Interrupted(asked)
            await self.enter(RequestStatus.SUBMITTED, _words(asked), asked.actor)
        elif self.state.status_since is None:
            await self.enter(RequestStatus.SUBMITTED)

    async def has_more_to_do(self) -> bool:
        if self.state.open_round:
            return True
        self.next = await self.call(
            "next_round", self.state.request_name, self.state.sizing, result=NextRound, preset=RECORD,
            summary="What does the ledger ask for next?",
        )  # fmt: skip
        if self.next.need is Need.PERSON:
            raise NeedsAPerson(self.next.reason)
        return self.next.need is not Need.NOTHING

    async def get_a_slot(self) -> None:
        """Wait until admission lends a slot, in the order of priority and age."""
        if self.state.slot_host:
            return
        if self.state.status is not RequestStatus.QUEUED:
            await self.enter(RequestStatus.QUEUED)
        while self.slot is None:
            self.state.slot_asked = True
            await self.call("ask_admission", self.slot_request(), preset=RECORD, summary="Ask for a slot")
            # Asked again from time to time, in case admission was restarted and lost the question.
            await self.wait(lambda: self.slot is not None, ASK_AGAIN, "until a slot is asked for again")
        self.state.slot_host = self.slot.host

    async def plan_a_round(self) -> None:
        if self.state.open_round or self.next is None:
            return
        host, pilot = self.state.slot_host or "", self.next.need is Need.PILOT
        if not pilot:
            await self.enter(RequestStatus.PLANNING, f"round {self.state.next_round}")
        order = PlanOrder(
            request=self.state.request_name,
            round=self.state.next_round,
            host=host,
            first_lumi=self.state.next_lumi,
            next=self.next,
            sizing=self.state.sizing,
        )
        planned = await self.call(
            "plan_round", order, result=PlannedRoundReport, queue=host_queue(host), preset=HOST,
            summary=f"Plan round {order.round} on {host}",
        )  # fmt: skip
        self.state.open_round = OpenRound(
            number=order.round, folder=planned.folder, host=host, pilot=pilot, units=planned.work_units
        )
        self.state.next_round += 1
        self.state.next_lumi = planned.next_lumi

    async def run_the_round(self) -> None:
        """Submit the DAG and follow it, again after each rescue, until all work units are produced."""
        while not self.round.produced:
            await self.submit()
            seen = await self.follow()
            decision = decide(self.round_end(seen.progress), self.policy())
            if decision.verdict is Verdict.COMPLETE:
                self.round.produced = True
                return
            reason = "; ".join([decision.reason, *seen.conflicts])
            await self.enter(RequestStatus.PARTIAL, reason)
            if decision.verdict is Verdict.HOLD:
                raise NeedsAPerson(reason, close_round=True)
            self.round.failure_rescues += 1

    async def submit(self) -> None:
        round_ = self.round
        if round_.dag is None:
            order = DagOrder(
                request=self.state.request_name,
                round=round_.number,
                attempt=round_.attempt + 1,
                folder=round_.folder,
            )
            # Never interrupted: a submission is either done or not, and asked for again until it is.
            round_.dag = await self.call(
                "submit_dag", order, result=SubmittedDag, queue=host_queue(round_.host), preset=HOST,
                summary=f"Submit round {round_.number}, attempt {order.attempt}",
            )  # fmt: skip
            round_.attempt = order.attempt
        running = RequestStatus.PILOT_RUNNING if round_.pilot else RequestStatus.ACTIVE
        if self.state.status is not running:
            await self.enter(running, f"round {round_.number}, {round_.units} work units")

    async def follow(self) -> DagObservation:
        """Until the DAG has ended; outputs are told as soon as work units are credited."""
        round_ = self.round
        while True:
            order = FollowOrder(dag=self.running_dag, units_told=round_.units_told)
            try:
                seen: DagObservation = await self.interruptible(
                    self.call("follow_dag", order, result=DagObservation, queue=watch_queue(round_.host),
                              preset=FOLLOW, summary=f"Follow round {round_.number}")
                )  # fmt: skip
            except ActivityError as error:
                if not _found_nobody(error):
                    raise
                await self.alert("lost_host", f"no worker on {round_.host} follows round {round_.number}")
                continue
            await self.take_note_of(seen)
            if seen.progress.outcome is not DagOutcome.RUNNING:
                round_.dag = None
                return seen
            await self.begin_a_new_history(only_when_suggested=True)

    async def take_note_of(self, seen: DagObservation) -> None:
        self.last_progress = seen.progress
        self.describe()
        if seen.progress.units_done > self.round.units_told:
            await self.tell_the_outputs("news")
            self.round.units_told = seen.progress.units_done

    async def close_the_round(self, reason: str = "") -> None:
        round_ = self.round
        order = RoundOrder(
            request=self.state.request_name,
            round=round_.number,
            folder=round_.folder,
            reason=reason,
            sizing=self.state.sizing,
        )
        closed = await self.call(
            "close_round", order, result=ClosedRound, queue=host_queue(round_.host), preset=HOST,
            summary=f"Close round {round_.number}",
        )  # fmt: skip
        self.state.sizing = closed.sizing or self.state.sizing
        self.state.open_round = None
        await self.give_back_the_slot()
        await self.tell_the_outputs("news")
        if closed.discrepancies:
            raise NeedsAPerson(f"the ledger does not add up: {'; '.join(closed.discrepancies)}")

    async def announce_the_outputs(self) -> None:
        """Without a slot: the output workflows finish, each in its own time."""
        await self.enter(RequestStatus.ACTIVE, "waiting for the outputs to be announced")
        while not self.all_are_announced():
            await self.tell_the_outputs("finish")
            # The last answer may have come while they were told.
            await self.wait(self.all_are_announced, ASK_AGAIN, "until the outputs are asked again")

    def all_are_announced(self) -> bool:
        return set(self.state.announced) >= set(self.state.datasets)

    # What people ask ------------------------------------------------------------------------------------

    async def obey(self, asked: OperatorAction) -> None:
        """Act on what was asked during a wait."""
        words = _words(asked)
        await self.stop_the_dag(words, asked.actor)
        if asked.action is Action.STOP:
            await self.enter(RequestStatus.RESUBMITTING, words, asked.actor)
            await self.give_back_the_slot()
        elif asked.action is Action.HOLD:
            await self.hold(words, actor=asked.actor)
        elif asked.action is Action.ABORT:
            await self.end(RequestStatus.ABORTED, words, asked.actor)

    async def hold(self, reason: str, *, close_round: bool = False, actor: str = WMS2) -> None:
        """Wait for a person, without a slot. Nothing that was produced is touched."""
        await self.give_back_the_slot()
        self.state.held_reason = reason
        self.state.release_closes_round = close_round
        await self.enter(RequestStatus.HELD, reason, actor)
        await self.resume()

    async def resume(self) -> None:
        """What to do with a held request, from the word of a person."""
        asked = await self.next_word()
        words = _words(asked)
        if asked.action is Action.RELEASE:
            if self.state.release_closes_round and self.state.open_round:
                await self.close_the_round(f"round given up, {self.state.held_reason}; {words}")
            self.state.held_reason = ""
            self.state.release_closes_round = False
            await self.enter(RequestStatus.QUEUED, words, asked.actor)
        elif asked.action is Action.FAIL:
            await self.end(RequestStatus.FAILED, words, asked.actor)
        elif asked.action is Action.ABORT:
            await self.end(RequestStatus.ABORTED, words, asked.actor)

    async def stop_the_dag(self, reason: str, actor: str) -> None:
        """A clean stop: the DAG writes its rescue file and leaves the queue. Never cancelled half-way."""
        round_ = self.state.open_round
        if round_ is None or round_.dag is None:
            return
        await self.enter(RequestStatus.STOPPING, reason, actor)
        seen = await self.call(
            "stop_dag", round_.dag, reason, result=DagObservation | None, queue=host_queue(round_.host), preset=HOST,
            summary=f"Stop round {round_.number}",
        )  # fmt: skip
        round_.dag = None
        if seen:
            await self.take_note_of(seen)

    async def end(self, status: RequestStatus, words: str, actor: str) -> None:
        """FAILED or ABORTED: nothing more is produced, and no call for the outputs is in flight any more."""
        # A DAG may still be running: one that could not be followed, or not be stopped.
        await self.stop_the_dag(words, actor)
        if self.state.open_round:
            await self.close_the_round(words)
        await self.give_back_the_slot()
        await self.freeze_the_outputs()
        await self.enter(status, words, actor)

    # Slots and outputs ----------------------------------------------------------------------------------

    def slot_request(self) -> SlotRequest:
        round_ = self.state.open_round
        return SlotRequest(
            request=self.state.request_name,
            round=round_.number if round_ else self.state.next_round,
            priority=self.state.priority,
            host=round_.host if round_ else None,
            said=self.state.sequence,
        )

    async def give_back_the_slot(self) -> None:
        if self.state.slot_asked:
            await self.call(
                "give_back_slot", self.slot_request(), preset=RECORD, summary="Give the slot back"
            )
        self.state.slot_asked = False
        self.state.slot_host = self.slot = None

    async def tell_the_outputs(self, word: str) -> None:
        """A word to each output workflow; one that is not there yet is started first."""
        for dataset in self.state.datasets:
            if dataset in self.state.announced:
                continue
            name = output_id(self.state.request_name, dataset)
            if dataset not in self.state.outputs_started:
                await self.start_output(dataset, name)
            await self.tell(name, word)

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
                OutputOrder(request=self.state.request_name, dataset=dataset),
                id=name,
                task_queue=WORKFLOWS,
                parent_close_policy=ParentClosePolicy.ABANDON,
                static_summary=f"{dataset} of {self.state.request_name}",
            )
        except WorkflowAlreadyStartedError:
            # A request that was revived at an earlier point of its history meets its outputs again.
            workflow.logger.info("%s lives already", name)
        self.state.outputs_started = (*self.state.outputs_started, dataset)

    async def freeze_the_outputs(self) -> None:
        """Those that live answer when they have no call in flight."""
        living = set()
        for dataset in sorted(set(self.state.outputs_started) - set(self.state.announced)):
            if await self.tell(output_id(self.state.request_name, dataset), "freeze"):
                living.add(dataset)
        await workflow.wait_condition(lambda: living <= self.frozen | set(self.state.announced))

    async def begin_a_new_history(self, *, only_when_suggested: bool = False) -> None:
        """Between rounds, and inside long ones when Temporal suggests it."""
        if only_when_suggested and not workflow.info().is_continue_as_new_suggested():
            return
        await workflow.wait_condition(workflow.all_handlers_finished)
        # A word that is not taken up yet would be lost; the next chance comes soon.
        if self.asked is None:
            workflow.continue_as_new(self.state)

    # The open round -------------------------------------------------------------------------------------

    @property
    def round(self) -> OpenRound:
        assert self.state.open_round is not None
        return self.state.open_round

    @property
    def running_dag(self) -> SubmittedDag:
        assert self.round.dag is not None
        return self.round.dag

    def round_end(self, progress: RoundProgress) -> RoundEnd:
        return RoundEnd(
            units=progress.units_total,
            units_failed=progress.units_total - progress.units_done,
            aborted=progress.outcome is DagOutcome.ABORTED,
            vanished=progress.outcome in (DagOutcome.VANISHED, DagOutcome.STOPPED),
            failure_rescues=self.round.failure_rescues,
            pilot=self.round.pilot,
        )

    def policy(self) -> Policy:
        return Policy(hold_threshold=self.state.hold_threshold, max_rescues=self.state.max_rescues)

    # News from other workflows, and questions ------------------------------------------------------------

    @workflow.signal
    def slot_granted(self, slot: Slot) -> None:
        if self.state.status is RequestStatus.QUEUED and slot.age == self.slot_request().age:
            self.slot = slot

    @workflow.signal
    def output_announced(self, announced: OutputAnnounced) -> None:
        if announced.dataset not in self.state.announced:
            self.state.announced = (*self.state.announced, announced.dataset)

    @workflow.signal
    def output_frozen(self, dataset: str) -> None:
        self.frozen.add(dataset)

    @workflow.query(name="state")
    def state_query(self) -> RequestState:
        return self.state

    @workflow.query
    def progress(self) -> RoundProgress | None:
        return self.last_progress


def _words(asked: OperatorAction) -> str:
    return f"{asked.action} by {asked.actor}" + (f": {asked.reason}" if asked.reason else "")


def _found_nobody(error: ActivityError) -> bool:
    """Whether no worker took the activity up within its time."""
    cause = error.cause
    return isinstance(cause, ActivityTimeout) and cause.type is TimeoutType.SCHEDULE_TO_START


def _reason(error: FailureError) -> str:
    """The sentence behind a failure: that of the error which an activity raised, not of what that one came from."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    raised = next((cause for cause in causes if isinstance(cause, ApplicationError)), None)
    what = error.activity_type if isinstance(error, ActivityError) else type(error).__name__
    return f"{what} failed: {raised.message if raised else causes[-1]}"
