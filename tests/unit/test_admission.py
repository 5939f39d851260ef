"""Who gets a slot: the rules, without a server."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from wms2.core import admission
from wms2.core.admission import AdmissionState
from wms2.models.messages import HostReport, Slot, SlotRequest

ROOMY = AdmissionState(hosts={"submit-a": 10_000})


def asked(request: str, round: int = 0, priority: int = 1, host: str | None = None) -> SlotRequest:
    return SlotRequest(request=request, round=round, priority=priority, host=host)


def after_asking(state: AdmissionState, *requests: SlotRequest) -> AdmissionState:
    for request in requests:
        state = admission.ask(state, request)
    return state


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


@given(st.lists(steps, max_size=40), st.integers(0, 5), capacities)
def test_what_is_lent_never_exceeds_the_limit_nor_what_a_host_can_carry(
    steps: list[Callable[[AdmissionState], AdmissionState]], limit: int, capacities: dict[str, int]
) -> None:
    state = AdmissionState(limit=limit, hosts=capacities)
    for step in steps:
        state = step(state)
        assert len(state.leases) <= limit
        assert all(room >= 0 for room in admission.free_dagmans(state).values())
        assert {lease.slot.host for lease in state.leases.values()} <= capacities.keys()
        assert not state.leases.keys() & state.waiting.keys()


@given(st.lists(steps, max_size=40), st.integers(0, 5), capacities)
def test_after_lending_nothing_more_is_due(
    steps: list[Callable[[AdmissionState], AdmissionState]], limit: int, capacities: dict[str, int]
) -> None:
    state = AdmissionState(limit=limit, hosts=capacities)
    for step in steps:
        state = step(state)
    assert admission.due(admission.lend(state)) == []


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5))
def test_slots_are_lent_by_priority_and_then_by_age(priorities: list[int], limit: int) -> None:
    state = admission.set_limit(ROOMY, limit)
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
    lent = admission.lend(admission.host_ready(waiting, HostReport(host="here", dagmans=100)))
    assert holders(lent) == ["one"]
    for state in (waiting, lent):
        assert admission.give_back(state, given_back) == state
        assert admission.ask(state, first) == state


def test_a_request_that_missed_its_grant_is_told_of_the_same_slot_again() -> None:
    state = admission.lend(after_asking(ROOMY, asked("one")))
    slots = admission.untold(state)
    state = admission.told(state, slots)
    assert admission.untold(state) == []
    state = admission.host_ready(state, HostReport(host="roomier", dagmans=99_999))
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
    assert admission.due(state) == [Slot(request="any", round=0, host="free")]
    state = admission.host_ready(admission.lend(state), HostReport(host="full", dagmans=11))
    assert admission.due(state) == [Slot(request="bound", round=3, host="full")]


def test_a_lowered_limit_throws_nobody_out_and_lends_nothing_more() -> None:
    state = admission.lend(after_asking(ROOMY, asked("one"), asked("two"), asked("three")))
    state = admission.ask(admission.set_limit(state, 1), asked("four"))
    assert len(state.leases) == 3
    assert admission.due(state) == []
    assert admission.set_limit(state, -5).limit == 0


def test_the_details_name_the_limit_the_hosts_and_who_is_next() -> None:
    state = after_asking(AdmissionState(limit=1), asked("one"), asked("two", priority=7))
    assert "No submit host has reported" in admission.as_markdown(state)
    state = admission.lend(admission.host_ready(state, HostReport(host="submit-a", dagmans=40)))
    text = admission.as_markdown(state)
    assert "**1** of 1 slots lent, **1** requests wait" in text
    assert "submit-a: 29 of 40 DAGMans free" in text
    assert "Next in line: one (priority 1)" in text
