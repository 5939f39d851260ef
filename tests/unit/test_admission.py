"""Who gets a slot: the rules, without a server."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from temporalio.contrib.pydantic import pydantic_data_converter

from wms2.core import admission
from wms2.core.admission import AdmissionState
from wms2.models.messages import AdmissionOrder, HostList, Slot, SlotRequest

ROOMY = AdmissionState(hosts={"submit-a": 10_000})
NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def asked(request: str, round: int = 0, priority: int = 1, host: str | None = None) -> SlotRequest:
    return SlotRequest(request=request, round=round, priority=priority, host=host)


def after_asking(state: AdmissionState, *requests: SlotRequest) -> AdmissionState:
    for request in requests:
        state = admission.ask(state, request)
    return state


def with_hosts(state: AdmissionState, **dagmans: int) -> AdmissionState:
    return admission.know_hosts(state, HostList(at=NOW, dagmans=dagmans))


def ordered(action: str, number: int = 0, **fields: object) -> AdmissionOrder:
    order = {"action": action, "actor": "operator", "action_id": f"{action}-{number}", **fields}
    return AdmissionOrder.model_validate(order)


def holders(state: AdmissionState) -> list[str]:
    return list(state.leases)


requests = st.builds(
    asked,
    st.sampled_from([f"req_{number}" for number in range(8)]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([None, None, "submit-a", "submit-b", "never-seen"]),
)
hosts = st.sampled_from(["submit-a", "submit-b", "submit-c"])
steps: st.SearchStrategy[Callable[[AdmissionState], AdmissionState]] = st.one_of(
    requests.map(lambda request: lambda state: admission.ask(state, request)),
    requests.map(lambda request: lambda state: admission.give_back(state, request)),
    st.just(admission.lend),
    st.just(lambda state: admission.told(state, admission.untold(state))),
    requests.map(lambda request: lambda state: admission.forget(state, [request.request])),
)
capacities = st.dictionaries(hosts, st.integers(1, 60))
limits, budgets = st.integers(0, 5), st.integers(0, 150)


@given(st.lists(steps, max_size=40), limits, budgets, capacities)
def test_what_is_lent_never_exceeds_the_limit_nor_the_idle_budget_nor_what_a_host_can_carry(
    steps: list[Callable[[AdmissionState], AdmissionState]],
    limit: int,
    budget: int,
    capacities: dict[str, int],
) -> None:
    state = AdmissionState(limit=limit, idle_budget=budget, hosts=capacities)
    for step in steps:
        state = step(state)
        assert len(state.leases) <= limit
        assert state.idle_lent <= budget
        assert all(room >= 0 for room in admission.free_dagmans(state).values())
        assert {lease.slot.host for lease in state.leases.values()} <= capacities.keys()
        assert not state.leases.keys() & state.waiting.keys()


changes = st.tuples(st.integers(1, 6), st.integers(1, 200), st.booleans())


@given(st.lists(st.one_of(steps, changes), max_size=40))
def test_however_the_limits_change_nothing_is_lent_above_those_of_the_moment(
    steps: list[Callable[[AdmissionState], AdmissionState] | tuple[int, int, bool]],
) -> None:
    state = AdmissionState(limit=3, idle_budget=100, hosts={"submit-a": 33, "submit-b": 22})
    for step in steps:
        if isinstance(step, tuple):
            names = ("limit", "idle_budget", "draining")
            state = state.model_copy(update=dict(zip(names, step, strict=True)))
            continue
        before, state = state, step(state)
        if len(state.leases) > len(before.leases):
            assert not state.draining
            assert len(state.leases) <= state.limit
            assert state.idle_lent <= state.idle_budget


@given(st.lists(steps, max_size=40), limits, budgets, capacities)
def test_after_lending_nothing_more_is_due(
    steps: list[Callable[[AdmissionState], AdmissionState]],
    limit: int,
    budget: int,
    capacities: dict[str, int],
) -> None:
    state = AdmissionState(limit=limit, idle_budget=budget, hosts=capacities)
    for step in steps:
        state = step(state)
    assert admission.due(admission.lend(state)) == []


@given(st.lists(steps, max_size=40), st.integers(0, 3), capacities)
def test_whoever_is_passed_over_could_not_have_had_the_slot_of_one_behind(
    steps: list[Callable[[AdmissionState], AdmissionState]], limit: int, capacities: dict[str, int]
) -> None:
    state = AdmissionState(limit=limit, hosts=capacities)
    for step in steps:
        state = step(state)
    free, left = admission.free_dagmans(state), admission.open_slots(state)
    lent = {slot.request: slot.host for slot in admission.due(state)}
    for asked in admission.in_line(state):
        if left and asked.request in lent:
            free[lent[asked.request]] -= state.slot_cost
            left -= 1
        elif left:
            could = [asked.host] if asked.host else list(free)
            assert all(free.get(host, 0) < state.slot_cost for host in could)


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5))
def test_slots_are_lent_by_priority_and_then_by_age(priorities: list[int], limit: int) -> None:
    state = ROOMY.model_copy(update={"limit": limit})
    state = after_asking(state, *(asked(f"req_{age}", 0, one) for age, one in enumerate(priorities)))
    lent: list[str] = []
    while state.waiting:
        slots = admission.due(state)
        lent += [slot.request for slot in slots]
        state = admission.lend(state)
        state = admission.give_back(state, asked(holders(state)[0]))
    in_order = sorted(range(len(priorities)), key=lambda age: (-priorities[age], age))
    assert lent == [f"req_{age}" for age in in_order]


@given(st.lists(steps, max_size=30), requests)
def test_asking_or_giving_back_twice_is_the_same_as_once(
    steps: list[Callable[[AdmissionState], AdmissionState]], request: SlotRequest
) -> None:
    state = AdmissionState(limit=3, hosts={"submit-a": 22, "submit-b": 33})
    for step in steps:
        state = step(state)
    once = admission.ask(state, request)
    assert admission.ask(once, request) == once
    once = admission.give_back(state, request)
    assert admission.give_back(once, request) == once


def test_asking_again_changes_the_priority_and_keeps_the_turn() -> None:
    state = after_asking(ROOMY, asked("old"), asked("new"), asked("low", priority=0))
    state = after_asking(state, asked("old"), asked("low", priority=1))
    assert [one.request for one in admission.in_line(state)] == ["old", "new", "low"]
    state = after_asking(state, asked("low", priority=9))
    assert admission.in_line(state)[0].request == "low"


def test_a_newer_round_takes_over_the_place_and_frees_the_slot_of_the_older_one() -> None:
    state = after_asking(ROOMY, asked("one", 1), asked("two"), asked("one", 2))
    assert [(one.request, one.round) for one in admission.in_line(state)] == [("one", 2), ("two", 0)]
    state = admission.ask(admission.lend(state), asked("one", 3))
    assert holders(state) == ["two"]
    assert state.waiting["one"].asked.round == 3


def test_what_an_older_round_says_late_is_not_heard() -> None:
    waiting = after_asking(ROOMY, asked("one", 2))
    lent = admission.lend(waiting)
    for state in (waiting, lent):
        assert admission.ask(state, asked("one", 1)) == state
        assert admission.give_back(state, asked("one", 1)) == state


def test_a_slot_given_back_twice_does_not_cost_the_stopped_round_its_new_place() -> None:
    first, again = asked("one", 1), asked("one", 1).model_copy(update={"said": 3})
    given_back = asked("one", 1).model_copy(update={"said": 2})
    waiting = admission.ask(AdmissionState(), again)
    lent = admission.lend(with_hosts(waiting, here=100))
    assert holders(lent) == ["one"]
    for state in (waiting, lent):
        assert admission.give_back(state, given_back) == state
        assert admission.ask(state, first) == state


def test_a_request_that_missed_its_grant_is_told_of_the_same_slot_again() -> None:
    state = admission.lend(after_asking(ROOMY, asked("one")))
    slots = admission.untold(state)
    state = admission.told(state, slots)
    assert admission.untold(state) == []
    state = with_hosts(state, roomier=99_999)
    state = admission.lend(admission.ask(state, asked("one")))
    assert admission.untold(state) == slots


def test_a_slot_whose_request_cannot_be_told_is_free_unless_it_asked_again() -> None:
    state = admission.lend(after_asking(ROOMY, asked("one")))
    [slot] = admission.untold(state)
    state = admission.told(state, [slot])
    assert admission.unreachable(state, slot).leases == {}
    asked_again = admission.ask(state, asked("one"))
    assert admission.unreachable(asked_again, slot) == asked_again


def test_the_host_with_most_room_is_chosen_and_of_equals_the_first_by_name() -> None:
    state = AdmissionState(hosts={"submit-b": 33, "submit-a": 22, "submit-c": 22})
    state = after_asking(state, *(asked(f"req_{age}") for age in range(8)))
    chosen = [slot.host for slot in admission.due(state)]
    assert chosen == ["submit-b", "submit-a", "submit-b", "submit-c", "submit-a", "submit-b", "submit-c"]


def test_a_round_that_waits_for_its_own_full_host_blocks_nobody() -> None:
    state = AdmissionState(hosts={"full": 10, "free": 22})
    state = after_asking(state, asked("bound", 3, 9, "full"), asked("lost", 1, 8, "unknown"), asked("any"))
    assert admission.due(state) == [Slot(request="any", round=0, host="free", idle_jobs=100)]
    state = with_hosts(admission.lend(state), full=11, free=22)
    assert admission.due(state) == [Slot(request="bound", round=3, host="full", idle_jobs=100)]


def test_a_lowered_limit_throws_nobody_out_and_lends_nothing_more() -> None:
    state = admission.lend(after_asking(ROOMY, asked("one"), asked("two"), asked("three")))
    state = admission.ask(admission.change(state, ordered("set", limit=1)), asked("four"))
    assert len(state.leases) == 3
    assert admission.due(state) == []


def test_the_details_name_the_limit_the_hosts_and_who_is_next() -> None:
    state = after_asking(AdmissionState(limit=1), asked("one"), asked("two", priority=7))
    assert "No submit host can be used" in admission.as_markdown(state)
    state = admission.lend(with_hosts(state, here=40))
    text = admission.as_markdown(admission.change(state, ordered("drain")))
    assert "**1** of 1 slots lent, **1** requests wait; it drains" in text
    assert "1000 of 1000000 idle jobs shared out" in text
    assert "here: 29 of 40 DAGMans free" in text
    assert "Next in line: one (priority 1)" in text


def test_slots_are_lent_on_the_hosts_of_the_newest_list_and_on_no_others() -> None:
    state = admission.lend(after_asking(with_hosts(AdmissionState(), a=11, b=11), asked("one"), asked("two")))
    newer = admission.know_hosts(state, HostList(at=NOW + timedelta(minutes=1), dagmans={"a": 11, "c": 11}))
    assert newer.hosts == {"a": 11, "c": 11}
    assert holders(newer) == ["one", "two"], "what runs on b runs on"
    assert [slot.host for slot in admission.due(admission.ask(newer, asked("three")))] == ["c"]
    assert with_hosts(newer, b=99) == newer, "a list that comes late is not heard"


def test_nothing_is_lent_while_it_drains_and_all_that_was_due_after_it() -> None:
    state = admission.change(admission.lend(after_asking(ROOMY, asked("one"))), ordered("drain"))
    state = admission.ask(state, asked("two"))
    assert admission.due(state) == []
    assert holders(state) == ["one"]
    state = admission.change(state, ordered("resume"))
    assert [slot.request for slot in admission.due(state)] == ["two"]


def test_each_slot_has_an_equal_share_of_the_idle_jobs() -> None:
    state = AdmissionState(limit=3, idle_budget=100, hosts={"a": 1000})
    state = admission.lend(after_asking(state, *(asked(f"req_{age}") for age in range(4))))
    assert [lease.slot.idle_jobs for lease in state.leases.values()] == [3, 3, 3]
    assert state.idle_lent == 90


def test_after_a_raised_limit_slots_are_lent_with_smaller_shares_as_larger_ones_come_back() -> None:
    state = AdmissionState(limit=2, idle_budget=100, hosts={"a": 1000})
    state = admission.lend(after_asking(state, *(asked(f"req_{age}") for age in range(6))))
    state = admission.change(state, ordered("set", limit=4))
    assert admission.due(state) == [], "the two have all of the budget"
    state = admission.lend(admission.give_back(state, asked("req_0")))
    assert [lease.slot.idle_jobs for lease in state.leases.values()] == [5, 2, 2]


def test_the_share_of_a_slot_is_bounded_so_that_a_raised_limit_finds_room() -> None:
    state = admission.lend(after_asking(ROOMY, asked("one")))
    assert state.leases["one"].slot.idle_jobs == admission.MOST_IDLE_JOBS
    assert AdmissionState(limit=1000).idle_share == 100
    assert AdmissionState(limit=2000).idle_share == 50


def test_a_word_that_is_said_twice_has_one_effect() -> None:
    state = admission.change(ROOMY, ordered("set", limit=7, idle_budget=9000))
    assert (state.limit, state.idle_budget) == (7, 9000)
    later = admission.change(state, ordered("set", 1, limit=8))
    assert admission.change(later, ordered("set", limit=7, idle_budget=9000)) == later
    assert admission.mistakes(later, ordered("set", limit=7, idle_budget=9000)) == []


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (ordered("set"), "give a limit or an idle budget"),
        (ordered("drain", limit=3), "give a limit or an idle budget"),
        (ordered("resume"), "it does not drain"),
        (ordered("set", idle_budget=2999), "300 slots need an idle budget of 3000 jobs at least"),
        (ordered("set", limit=100_001), "100001 slots need an idle budget of 1000010 jobs at least"),
        (ordered("drain", action_id=""), "the record cannot hold it"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(order: AdmissionOrder, said: str) -> None:
    assert said in "; ".join(admission.mistakes(AdmissionState(), order))


def test_what_fits_is_not_refused() -> None:
    draining = admission.change(AdmissionState(), ordered("drain"))
    assert admission.mistakes(AdmissionState(), ordered("drain")) == []
    assert admission.mistakes(draining, ordered("resume")) == []
    assert admission.mistakes(draining, ordered("drain", 1)) == ["it drains already"]
    assert admission.mistakes(AdmissionState(), ordered("set", limit=1, idle_budget=10)) == []


def test_of_equal_priority_the_oldest_request_is_next_whenever_it_asked() -> None:
    def recorded(request: str, hour: int, priority: int = 1) -> SlotRequest:
        created_at = NOW + timedelta(hours=hour)
        return asked(request, priority=priority).model_copy(update={"created_at": created_at})

    state = after_asking(
        ROOMY,
        recorded("newest", 3),
        recorded("newer", 2),
        asked("untold"),
        recorded("urgent", 4, priority=2),
        # It ran a round meanwhile, and asks for the next one.
        recorded("oldest", 1),
    )
    line = [one.request for one in admission.in_line(state)]
    assert line == ["urgent", "untold", "oldest", "newer", "newest"]


def test_what_is_remembered_is_lent_to_nobody_else_and_a_request_that_has_spoken_since_knows_better() -> None:
    before = Slot(request="runs", round=2, host="a", idle_jobs=5)
    state = admission.remember(AdmissionState(limit=2, hosts={"a": 22}), [before])
    state = admission.lend(after_asking(state, asked("first"), asked("second")))
    assert (holders(state), list(state.waiting)) == (["runs", "first"], ["second"])
    assert admission.untold(state) == [Slot(request="first", round=0, host="a", idle_jobs=100)]
    assert admission.remember(state, [before]) == state, "it is remembered once"

    again = SlotRequest(request="runs", round=2, priority=1, said=7)
    waits = admission.ask(AdmissionState(), again)
    assert admission.remember(waits, [before]) == waits
    later = Slot(request="runs", round=3, host="a")
    assert holders(admission.remember(waits, [later])) == ["runs"]
    assert admission.give_back(state, again).leases.keys() == {"first"}


TEMPORAL_TAKES = 2_000_000
"""Bytes in a payload; with more the workflow never gets on."""


def crowd(number: int) -> AdmissionState:
    """So many requests in line, with names as long as those of CMS are."""
    chance = random.Random(number)
    names = [
        f"pdmvserv_task_SUS-RunIISummer20UL{chance.randrange(16, 19)}wmLHEGEN-{count:05}__v1_T_"
        f"{chance.randrange(200101, 261231)}_{chance.randrange(240000):06}_{chance.randrange(10000)}"
        for count in range(number)
    ]
    waiting = {
        name: admission.Waiter(
            asked=SlotRequest(
                request=name,
                round=chance.randrange(9),
                priority=chance.randrange(200_000),
                said=chance.randrange(40),
                created_at=NOW - timedelta(seconds=chance.randrange(10**7)),
            ),
            turn=turn,
        )
        for turn, name in enumerate(names)
    }
    return AdmissionState(hosts={"submit-a": 500}, waiting=waiting, next_turn=number)


def as_payload(state: AdmissionState) -> bytes:
    (payload,) = pydantic_data_converter.payload_converter.to_payloads([state])
    return payload.data


def from_payload(data: bytes) -> AdmissionState:
    return AdmissionState.model_validate_json(data)


def test_a_line_of_ten_thousand_travels_in_one_payload_and_forgets_nobody() -> None:
    state = admission.lend(crowd(10_000))
    payload = as_payload(state)
    assert len(payload) < TEMPORAL_TAKES / 2
    assert from_payload(payload) == state


@pytest.mark.parametrize("number", [0, admission.PACKED_FROM - 1, admission.PACKED_FROM])
def test_a_short_line_can_be_read_by_people_and_a_long_one_comes_back_the_same(number: int) -> None:
    state = crowd(number)
    written = json.loads(as_payload(state))["waiting"]
    assert isinstance(written, dict if number < admission.PACKED_FROM else str)
    assert from_payload(as_payload(state)) == state


def test_what_was_never_packed_is_refused() -> None:
    with pytest.raises(ValidationError):
        AdmissionState.model_validate({"waiting": "bm90IHBhY2tlZA=="})
