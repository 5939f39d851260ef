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
)
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from wms2.core.decisions import Decision, Policy, RoundEnd, Rule, Verdict, decide, decision_record
    from wms2.core.lifecycle import objection
    from wms2.models.actions import Action
    from wms2.models.messages import (
        ClosedRound,
        DagObservation,
        DagOrder,
        DropAction,
        FollowOrder,
        HostLostAction,
        JudgedSites,
        OperatorAction,
        PlannedRoundReport,
        PlanOrder,
        ReleaseAction,
        RestartAction,
        RoundOrder,
        Slot,
        SlotRequest,
        SubmittedDag,
    )
    from wms2.models.next_round import Need, NextRound
    from wms2.models.progress import DagOutcome, RoundProgress
    from wms2.models.request import RequestStatus
    from wms2.models.request_state import OpenRound, RequestState
    from wms2.temporal.queues import WORKFLOWS, host_queue, planning_queue, watch_queue
    from wms2.temporal.retries import FOLLOW, HOST, RECORD, on_the_host
    from wms2.workflows.clerk import WMS2
    from wms2.workflows.desk import Interrupted, NeedsAPerson
    from wms2.workflows.history import history_is_long
    from wms2.workflows.judge import Judge
    from wms2.workflows.prefetcher import LOOK_AGAIN, Prefetcher
    from wms2.workflows.ranker import Ranker
    from wms2.workflows.reader import Reader
    from wms2.workflows.remedies import Remedies
    from wms2.workflows.sizer import Sizer
    from wms2.workflows.watch import Watch

ASK_AGAIN = timedelta(hours=12)
PATIENCE = timedelta(minutes=1)


@workflow.defn
class RequestWorkflow(Sizer, Ranker, Judge, Reader, Remedies, Prefetcher, Watch):
    @workflow.init
    def __init__(self, state: RequestState) -> None:
        self.state = state
        self.slot: Slot | None = None
        self.answer_lost = False
        """Whether somebody saw that the answer of admission, or the question, got lost."""
        self.next: NextRound | None = None
        self.frozen: set[str] = set()
        self.audit_in_order = asyncio.Lock()
        self.rules_in_order = asyncio.Lock()

    @workflow.run
    async def run(self, _state: RequestState) -> RequestState:
        """The story, and a watch over it. Temporal's own cancel reaches neither: it is heard as a stop."""
        story = asyncio.create_task(self.tell_the_story())
        tasks = (self.keep_watch(), self.keep_the_rank(), self.keep_the_rules())
        beside = [asyncio.create_task(task) for task in tasks]
        try:
            await workflow.wait_condition(story.done)
        except asyncio.CancelledError:
            if workflow.cancellation_reason() is None:
                raise
            self.hear_a_cancel()
            await workflow.wait_condition(story.done)
        for task in beside:
            task.cancel()
        return await story

    async def tell_the_story(self) -> RequestState:
        """Chapter by chapter. What interrupts one, a person, an error or the clock, is the next."""
        chapter: Callable[[], Awaitable[None]] = self.live
        while not self.state.status.is_final:
            try:
                await self.unless_overdue(chapter())
                chapter = self.live
            except Interrupted as interruption:
                chapter = partial(self.obey, interruption.asked)
            except NeedsAPerson as need:
                chapter = partial(self.hold, need.reason, close_round=need.close_round)
            except FailureError as error:
                # Temporal would end the workflow over it. Even holding may fail, and is then tried again.
                await workflow.sleep(PATIENCE if self.state.status is RequestStatus.HELD else timedelta(0))
                chapter = partial(self.hold, _reason(error))
        await self.let_the_input_go()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.state

    # The story -------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """From wherever the state says it stands, to the end."""
        await self.wait_for_release()
        await self.have_the_input()
        while await self.has_more_to_do():
            self.check_the_outputs()
            await self.get_a_slot()
            await self.plan_a_round()
            await self.run_the_round()
            await self.close_the_round()
            await self.begin_a_new_history()
        await self.announce_the_outputs()
        await self.supersede_the_earlier_outputs()
        await self.enter(RequestStatus.COMPLETED, "all outputs are announced")

    async def wait_for_release(self) -> None:
        if self.state.status is RequestStatus.NEW:
            await self.tell_what_it_waits_for()
            asked = await self.next_word()
            if not isinstance(asked, ReleaseAction):
                raise Interrupted(asked)
            await self.apply_the_changes(asked)
            await self.enter(RequestStatus.SUBMITTED, asked.words, asked.actor)
        elif self.state.status_since is None:
            await self.enter(RequestStatus.SUBMITTED)

    async def have_the_input(self) -> None:
        """Where the request wants it, before the first slot is asked for."""
        while not await self.input_is_there():
            if reason := self.input_trouble():
                raise NeedsAPerson(reason)
            await self.wait(lambda: False, LOOK_AGAIN, "until the input is looked at again")
            await self.begin_a_new_history(only_when_long=True)

    async def has_more_to_do(self) -> bool:
        if self.state.open_round:
            return True
        self.next = await self.call(
            "next_round", self.state.request_name, self.state.known_sizing, result=NextRound, preset=RECORD,
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
            self.state.slot_asked, self.answer_lost = True, False
            asked = self.slot_request()
            await self.call("ask_admission", asked, preset=RECORD, summary="Ask for a slot")
            # Asked again with a new priority, and from time to time: admission may have lost the question.
            await self.wait(
                lambda asked=asked: self.slot is not None or self.answer_lost or self.slot_request() != asked,  # type: ignore[misc]
                ASK_AGAIN,
                "until a slot is asked for again",
            )
            if self.slot is None:
                await self.begin_a_new_history(only_when_long=True)
        self.state.slot_host, self.state.slot_idle_jobs = self.slot.host, self.slot.idle_jobs

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
            next=self.next.model_copy(update={"priority": self.priority}),
            sizing=self.state.known_sizing,
            idle_jobs=self.state.slot_idle_jobs,
        )
        queue = planning_queue(host) if self.next.from_catalogues else host_queue(host)
        planned: PlannedRoundReport = await self.unless_host_is_lost(
            self.call("plan_round", order, result=PlannedRoundReport, queue=queue, preset=HOST,
                      summary=f"Plan round {order.round} on {host}")
        )  # fmt: skip
        self.state.open_round = OpenRound(
            number=order.round, folder=planned.folder, host=host, pilot=pilot, units=planned.work_units,
            priority=self.next.priority, rank=order.next.priority,
        )  # fmt: skip
        self.state.next_round += 1
        self.state.next_lumi = planned.next_lumi

    async def run_the_round(self) -> None:
        """Submit the DAG and follow it, again after each rescue, until all work units are produced."""
        while not self.round.produced:
            await self.submit()
            dag = self.running_dag
            # Those that were written when a look begins are known to it; others may be.
            known = self.round.verdicts_written
            seen = await self.follow()
            judged = await self.judge_the_sites(dag)
            decision, reason = await self.decide_on(dag, seen, judged.banned)
            if decision.verdict is Verdict.COMPLETE:
                return
            await self.enter(RequestStatus.PARTIAL, reason)
            if decision.verdict is Verdict.HOLD:
                self.round.failed_dag, self.round.verdicts_seen = dag, known
                raise NeedsAPerson(reason, close_round=True)
            if not judged.left:
                raise NeedsAPerson(f"{reason}; no site is left, all of the round's are banned or closed")
            self.count_the_rescue(decision)

    async def decide_on(
        self, dag: SubmittedDag, seen: DagObservation, remarks: tuple[str, ...] = ()
    ) -> tuple[Decision, str]:
        """What to do about a DAG that has ended, and why; the record tells from what it was decided."""
        end, policy = self.round_end(seen), self.policy()
        decision = decide(end, policy)
        record = decision_record(dag.order.dag_id, self.state.request_name, end, policy, decision)
        await self.call("record_action", record, preset=RECORD, summary=f"Decide: {decision.rule}")
        self.state.failures = seen.page
        if decision.verdict is Verdict.COMPLETE:
            self.round.produced = True
        return decision, "; ".join([decision.reason, *remarks, *seen.conflicts])

    def count_the_rescue(self, decision: Decision) -> None:
        self.round.failure_rescues += decision.uses_a_rescue
        if decision.rule is Rule.REMOVED:
            self.round.removals += 1
        else:
            self.round.retried = True

    async def judge_the_sites(self, dag: SubmittedDag) -> JudgedSites:
        """Those that failed most of what they ran are banned, and the rescue stays away from them."""
        judged: JudgedSites = await self.call(
            "judge_sites", dag, result=JudgedSites, queue=host_queue(self.round.host), preset=HOST,
            summary=f"Judge the sites of round {self.round.number}",
        )  # fmt: skip
        return judged

    async def submit(self) -> None:
        round_ = self.round
        if round_.dag is None:
            await self.write_the_rules()
            order = DagOrder(
                request=self.state.request_name,
                round=round_.number,
                attempt=round_.attempt + 1,
                folder=round_.folder,
                idle_jobs=self.state.slot_idle_jobs,
            )
            # Never interrupted: a submission is either done or not, and asked for again until it is.
            with self.to_its_end():
                round_.dag = await self.call(
                    "submit_dag", order, result=SubmittedDag, queue=host_queue(round_.host), preset=HOST,
                    summary=f"Submit round {round_.number}, attempt {order.attempt}",
                )  # fmt: skip
            round_.attempt, round_.failed_dag = order.attempt, None
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
            await self.begin_a_new_history(only_when_long=True)

    async def take_note_of(self, seen: DagObservation) -> None:
        self.last_progress = seen.progress
        self.describe()
        if seen.progress.units_done > self.round.units_told:
            await self.tell_the_outputs("news")
            self.round.units_told = seen.progress.units_done

    async def close_the_round(self, reason: str = "") -> None:
        """On its submit host; where that is lost, anywhere, from the ledger alone."""
        round_ = self.round
        order = RoundOrder(
            request=self.state.request_name,
            round=round_.number,
            folder=None if round_.host_lost else round_.folder,
            reason=reason,
            sizing=self.state.sizing,
        )
        closed = await self.call(
            "close_round", order, result=ClosedRound, preset=HOST, summary=f"Close round {round_.number}",
            queue=WORKFLOWS if round_.host_lost else host_queue(round_.host),
        )  # fmt: skip
        self.state.sizing = closed.sizing or self.state.sizing
        self.state.open_round = None
        await self.give_back_the_slot()
        await self.tell_the_outputs("news")
        if closed.discrepancies:
            raise NeedsAPerson(f"the ledger does not add up: {'; '.join(closed.discrepancies)}")

    async def announce_the_outputs(self) -> None:
        """Without a slot: the output workflows finish, each in its own time."""
        # A new history goes on with the wait: its time limit counts from the beginning.
        if self.state.outputs_awaited != self.state.sequence:
            await self.enter(RequestStatus.ACTIVE, "waiting for the outputs to be announced")
            self.state.outputs_awaited = self.state.sequence
        while not self.all_are_announced():
            await self.tell_the_outputs("finish")
            # The last answer may have come while they were told.
            await self.wait(self.outputs_have_news, ASK_AGAIN, "until the outputs are asked again")
            self.check_the_outputs()
            await self.begin_a_new_history(only_when_long=True)

    def outputs_have_news(self) -> bool:
        return self.all_are_announced() or bool(self.state.stuck_outputs)

    def check_the_outputs(self) -> None:
        """More is made only as long as what was made finds its way."""
        if reason := self.stuck_reason():
            raise NeedsAPerson(reason)

    # What people ask ------------------------------------------------------------------------------------

    async def obey(self, asked: OperatorAction) -> None:
        """Act on what was asked during a wait."""
        if isinstance(asked, HostLostAction):
            await self.give_the_host_up(asked)
            await self.hold(asked.words, close_round=self.state.open_round is not None, actor=asked.actor)
            return
        await self.stop_the_dag(asked.words, asked.actor)
        if asked.action is Action.STOP:
            await self.audit(asked)
            await self.enter(RequestStatus.RESUBMITTING, asked.words, asked.actor)
            await self.give_back_the_slot()
        elif asked.action is Action.HOLD:
            await self.audit(asked)
            await self.hold(asked.words, actor=asked.actor)
        else:
            await self.end(asked)

    async def hold(self, reason: str, *, close_round: bool = False, actor: str = WMS2) -> None:
        """Wait for a person, without a slot. Nothing that was produced is touched."""
        self.state.held_reason = reason
        self.state.release_closes_round |= close_round
        self.state.slot_host = self.slot = None
        await self.enter(RequestStatus.HELD, reason, actor)
        await self.give_back_the_slot()
        await self.resume()

    async def resume(self) -> None:
        """What to do with a held request, from the word of a person, or from what a verdict makes of its failures."""
        while True:
            await workflow.wait_condition(lambda: self.asked is not None or self.reviewed is not None)
            if self.asked is None:
                if await self.goes_on_after_a_verdict():
                    return
                continue
            asked = self.take_the_word()
            if objection(asked.action, self.state.status) is None and await self.does_more_than_stay(asked):
                return

    async def does_more_than_stay(self, asked: OperatorAction) -> bool:
        """Whether a held request is held no more after this word."""
        if isinstance(asked, DropAction):
            await self.drop(asked)
            return False
        if isinstance(asked, HostLostAction):
            await self.give_the_host_up(asked)
            await self.stay_held(f"{self.state.held_reason}; {asked.words}", asked.actor)
            return False
        try:
            await (self.let_go(asked) if isinstance(asked, ReleaseAction) else self.end(asked))
        except ActivityError as error:
            raise NeedsAPerson(_reason(error)) from error
        return True

    async def goes_on_after_a_verdict(self) -> bool:
        """Whether the failures, judged anew, let the same DAG go on: without a rescue being used up."""
        seen, self.reviewed = self.reviewed, None
        round_ = self.state.open_round
        if seen is None or round_ is None or round_.failed_dag is None:
            return False
        decision, reason = await self.decide_on(round_.failed_dag, seen)
        if decision.verdict is Verdict.HOLD:
            if reason != self.state.held_reason:
                await self.stay_held(reason)
            return False
        if decision.verdict is Verdict.RESCUE:
            self.count_the_rescue(decision)
        await self.leave_held(reason or "all work units are produced", WMS2)
        return True

    async def give_the_host_up(self, asked: HostLostAction) -> None:
        """Nothing more is asked of it. The DAG may still run there: what it does from now on counts for nothing.

        A plan that the host recorded and nobody heard of is withdrawn when the request goes on.
        """
        await self.audit(asked, {"host": asked.host})
        if round_ := self.state.open_round:
            round_.host_lost, round_.dag, round_.failed_dag = True, None, None
            self.state.release_closes_round = True

    async def stay_held(self, reason: str, actor: str = WMS2) -> None:
        self.state.held_reason = reason
        await self.enter(RequestStatus.HELD, reason, actor)

    async def leave_held(self, words: str, actor: str) -> None:
        self.state.held_reason = self.state.failures = ""
        self.state.release_closes_round = False
        await self.enter(RequestStatus.QUEUED, words, actor)

    async def let_go(self, asked: ReleaseAction) -> None:
        """Changes first. With a rescue the same DAG goes on; else a round that failed, or lost files, is closed."""
        round_ = self.state.open_round
        if round_ and asked.rescue:
            await self.prepare_a_rescue(round_, asked)
        elif round_ and (self.state.release_closes_round or asked.changes.exclude_files):
            await self.stop_the_dag(asked.words, asked.actor)
            await self.close_the_round(f"round given up, {self.state.held_reason}; {asked.words}")
        await self.apply_the_changes(asked)
        await self.try_the_outputs_again()
        await self.leave_held(asked.words, asked.actor)

    async def drop(self, asked: DropAction) -> None:
        """The line goes, the rest may finish. An open round is closed: what it planned could not be dropped."""
        try:
            if self.state.open_round:
                await self.stop_the_dag(asked.words, asked.actor)
                await self.close_the_round(f"round given up, {self.state.held_reason}; {asked.words}")
            await self.drop_from_the_ledger(asked)
        except ActivityError as error:
            # It stays held for what it was held for.
            self.note_down(f"{asked.words}: {_reason(error)}")
        if self.state.status is not RequestStatus.HELD:
            await self.enter(RequestStatus.HELD, self.state.held_reason)

    async def stop_the_dag(self, reason: str, actor: str) -> None:
        """A clean stop: the DAG writes its rescue file and leaves the queue. Never cancelled half-way."""
        round_ = self.state.open_round
        if round_ is None or round_.dag is None:
            return
        await self.enter(RequestStatus.STOPPING, reason, actor)
        try:
            seen = await self.remove_the_dag(round_.dag, reason)
        except ActivityError as error:
            await self.alert(
                "slow_stop", f"its DAG does not stop and is asked once more to: {_reason(error)}"
            )
            seen = await self.remove_the_dag(round_.dag, reason)
        round_.dag = None
        if seen:
            await self.take_note_of(seen)

    async def remove_the_dag(self, dag: SubmittedDag, reason: str) -> DagObservation | None:
        """What was left of it; an error when it is still there after all the time that stopping may take."""
        return await self.unless_host_is_lost(
            self.call("stop_dag", dag, reason, result=DagObservation | None, queue=host_queue(self.round.host),
                      preset=on_the_host(self.limit(RequestStatus.STOPPING)),
                      summary=f"Stop round {self.round.number}")
        )  # fmt: skip

    async def end(self, asked: OperatorAction) -> None:
        """Nothing more is produced, and no call for the outputs is in flight any more. Then a person's last word."""
        words = asked.words
        # A DAG may still be running: one that could not be followed, or not be stopped.
        await self.stop_the_dag(words, asked.actor)
        if self.state.open_round:
            await self.close_the_round(words)
        await self.give_back_the_slot()
        await self.freeze_the_outputs()
        if isinstance(asked, RestartAction):
            words += f"; {await self.replace(asked)} replaces it"
        else:
            await self.audit(asked)
        if asked.action is Action.FAIL:
            await self.take_the_outputs_back(asked)
        status = RequestStatus.ABORTED if asked.action is Action.ABORT else RequestStatus.FAILED
        await self.enter(status, words, asked.actor)

    # Slots ----------------------------------------------------------------------------------

    def slot_request(self) -> SlotRequest:
        round_ = self.state.open_round
        return SlotRequest(
            request=self.state.request_name,
            round=round_.number if round_ else self.state.next_round,
            priority=self.priority,
            host=round_.host if round_ else None,
            said=self.state.sequence,
        )

    async def give_back_the_slot(self) -> None:
        if self.state.slot_asked:
            await self.call(
                "give_back_slot", self.slot_request(), preset=RECORD, summary="Give the slot back"
            )
        self.state.slot_asked = False
        self.state.slot_host = self.state.slot_idle_jobs = self.slot = None

    async def begin_a_new_history(self, *, only_when_long: bool = False) -> None:
        """Between rounds, and in the middle of long waits."""
        if only_when_long and not history_is_long():
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

    def round_end(self, seen: DagObservation) -> RoundEnd:
        progress = seen.progress
        return RoundEnd(
            units=progress.units_total,
            units_failed=progress.units_total - progress.units_done,
            aborted=progress.outcome is DagOutcome.ABORTED,
            vanished=progress.outcome is DagOutcome.VANISHED,
            removed=progress.outcome is DagOutcome.STOPPED,
            removals=self.round.removals,
            units_waiting=seen.units_waiting,
            units_judged=seen.units_judged,
            failure_rescues=self.round.failure_rescues,
            pilot=self.round.pilot,
            causes=seen.causes,
        )

    def policy(self) -> Policy:
        return Policy(hold_threshold=self.state.hold_threshold, max_rescues=self.state.max_rescues)

    # News from other workflows, and questions ------------------------------------------------------------

    @workflow.signal
    def slot_granted(self, slot: Slot) -> None:
        if self.state.status is RequestStatus.QUEUED and slot.age == self.slot_request().age:
            self.slot = slot

    @workflow.signal
    def ask_again(self) -> None:
        self.answer_lost = True

    @workflow.query(name="state")
    def state_query(self) -> RequestState:
        return self.state

    @workflow.query
    def progress(self) -> RoundProgress | None:
        return self.last_progress


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
