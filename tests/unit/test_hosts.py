"""Which submit hosts are used: their workers' word, the collector's and the operators'."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.core.hosts import (
    is_cut_off,
    is_missed,
    is_silent,
    is_vanished,
    ready_hosts,
    why_unused,
    with_schedds,
)
from wms2.core.notices import cut_off_host_happening, silent_host_happening
from wms2.models.host import HostSurvey, SubmitHost

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
SILENCE = timedelta(minutes=15)
LATELY, LONG_AGO = NOW - timedelta(minutes=15), NOW - timedelta(minutes=16)


def host(name: str = "submit-a", **fields: object) -> SubmitHost:
    known = {
        "name": name, "schedd_name": f"schedd@{name}", "submit_root": "/submit", "max_dagmans": 500,
        "version": "0.1.0", "first_seen_at": LONG_AGO, "last_seen_at": LATELY,
    }  # fmt: skip
    return SubmitHost.model_validate({**known, **fields})


# announced lately | schedd known | disabled | given up, and when -> used, or why not
TABLE = [
    (True, True, False, None, None),
    (True, True, False, "before it was seen", None),
    (True, True, True, None, "disabled by alice: new disks"),
    (True, True, False, "since", "given up at 2027-01-31 12:00 UTC, and its worker has not been heard of since"),
    (False, True, False, None, "its worker is silent since 2027-01-31 11:44 UTC"),
    (True, False, False, None, "the collector does not know its schedd schedd@submit-a since 2027-01-31 12:00 UTC"),
    (False, False, False, None, "its worker is silent since 2027-01-31 11:44 UTC"),
    (False, False, True, None, "disabled by alice: new disks"),
    (True, True, True, "since", "disabled by alice: new disks"),
]  # fmt: skip


def test_a_host_whose_worker_said_that_it_stops_is_not_used() -> None:
    assert why_unused(host(left_at=NOW), NOW, SILENCE) == "its worker was stopped at 2027-01-31 12:00 UTC"


@pytest.mark.parametrize(("lately", "known", "disabled", "given_up", "why"), TABLE)
def test_a_host_is_used_when_worker_collector_and_operators_agree(
    lately: bool, known: bool, disabled: bool, given_up: str | None, why: str | None
) -> None:
    one = host(
        last_seen_at=LATELY if lately else LONG_AGO,
        schedd_gone_at=None if known else NOW,
        disabled=disabled,
        lost_at={None: None, "since": NOW, "before it was seen": LONG_AGO}[given_up],
        said_by="alice",
        said_because="new disks",
    )
    assert why_unused(one, NOW, SILENCE) == why
    assert ready_hosts([one], NOW, SILENCE) == ({} if why else {"submit-a": 500})


def test_a_host_and_b_against_a_and_c_gives_exactly_a_and_c() -> None:
    a, b, c = host("a"), host("b", last_seen_at=LONG_AGO), host("c", max_dagmans=33)
    listed = [with_schedds(one, {"schedd@a", "schedd@c", "schedd@of-others"}, NOW) for one in (a, b, c)]
    assert ready_hosts(listed, NOW, SILENCE) == {"a": 500, "c": 33}
    assert [one.name for one in listed if is_vanished(one, 0, NOW, SILENCE)] == ["b"]


def test_a_host_vanishes_only_when_neither_worker_nor_collector_nor_a_round_knows_it() -> None:
    silent, gone = host(last_seen_at=LONG_AGO), host(schedd_gone_at=NOW)
    both = host(last_seen_at=LONG_AGO, schedd_gone_at=NOW)
    assert [is_vanished(one, 0, NOW, SILENCE) for one in (host(), silent, gone, both)] == [
        False, False, False, True,
    ]  # fmt: skip
    assert not is_vanished(both, 1, NOW, SILENCE)


def test_since_when_a_schedd_is_gone_is_not_changed_by_looking_again_and_it_may_return() -> None:
    gone = with_schedds(host(), (), LONG_AGO)
    assert with_schedds(gone, (), NOW).schedd_gone_at == LONG_AGO
    assert with_schedds(gone, {"schedd@submit-a"}, NOW).schedd_gone_at is None


def test_operators_are_told_of_a_silent_host_once_and_not_of_one_that_they_gave_up() -> None:
    silent = host(last_seen_at=LONG_AGO)
    assert is_missed(silent, NOW, SILENCE)
    others = (
        host(),
        host(last_seen_at=LONG_AGO, silence_told_at=NOW),
        host(last_seen_at=LONG_AGO, disabled=True),
        host(last_seen_at=LONG_AGO, lost_at=LONG_AGO),
    )
    assert not any(is_missed(one, NOW, SILENCE) for one in others)
    told = silent_host_happening(silent, 3)
    assert told.words == (
        "is silent since 2027-01-31 11:44 UTC and gets no new work; 3 requests have a round open there"
    )
    assert told.key == silent_host_happening(silent, 4).key


def test_operators_are_told_of_a_schedd_that_left_the_pool_for_long_and_of_its_host_only_while_it_is_there() -> (
    None
):
    away = host(schedd_gone_at=LONG_AGO)
    assert is_cut_off(away, NOW, SILENCE)
    others = (
        host(),
        host(schedd_gone_at=LATELY),
        host(schedd_gone_at=LONG_AGO, last_seen_at=LONG_AGO),
        host(schedd_gone_at=LONG_AGO, disabled=True),
    )
    assert not any(is_cut_off(one, NOW, SILENCE) for one in others)
    assert "does not know since 2027-01-31 11:44 UTC" in cut_off_host_happening(away).words


def test_a_host_that_has_no_room_for_one_round_says_so() -> None:
    assert why_unused(host(max_dagmans=11), NOW, SILENCE) is None
    assert why_unused(host(max_dagmans=10), NOW, SILENCE) == (
        "it may run 10 DAGMans, and a round needs 11: raise WMS2_MAX_DAGMANS there"
    )


moments = st.none() | st.integers(-60, 0).map(lambda minutes: NOW + timedelta(minutes=minutes))
some_hosts = st.builds(
    lambda name, seen, gone, disabled, lost: host(
        name, last_seen_at=seen or NOW, schedd_gone_at=gone, disabled=disabled, lost_at=lost
    ),
    st.sampled_from(["a", "b", "c"]), moments, moments, st.booleans(), moments,
)  # fmt: skip


@given(some_hosts, st.sets(st.sampled_from(["schedd@a", "schedd@b"])))
def test_whatever_worker_and_collector_say_a_disabled_host_is_not_used_and_a_silent_one_neither(
    one: SubmitHost, schedds: set[str]
) -> None:
    seen = with_schedds(one, schedds, NOW)
    assert (seen.disabled, seen.lost_at) == (one.disabled, one.lost_at)
    used = why_unused(seen, NOW, SILENCE) is None
    assert not (used and (seen.disabled or is_silent(seen, NOW, SILENCE) or seen.schedd_name not in schedds))
    assert not (used and is_vanished(seen, 0, NOW, SILENCE))


def test_a_survey_says_in_a_line_what_it_found() -> None:
    assert str(HostSurvey()) == "ready: none"
    found = HostSurvey(ready=("a", "c"), silent=("b",), cut_off=("e",), removed=("d",))
    assert str(found) == "ready: a, c; silent: b; not in the pool: e; vanished: d"
