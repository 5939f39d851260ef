"""Which sites are banned, and whom from."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.factories import simulation, snapshot
from wms2.config import Settings
from wms2.core.bans import BanPolicy, SiteTally, bad_sites, is_for_all, remaining
from wms2.core.planning import plan_round
from wms2.dagman.round_folder import write_round
from wms2.dagman.site_tally import tally_sites
from wms2.worker import ban_policy

PURDUE, LONGER = "T2_US_Purdue", "T2_US_Purdue_Hammer"


def test_a_site_is_bad_when_it_fails_more_than_half_of_at_least_three() -> None:
    table = {(2, 2): False, (3, 3): True, (6, 3): False, (5, 3): True, (100, 51): True, (100, 50): False}
    for (attempts, failures), bad in table.items():
        assert bool(bad_sites([SiteTally(PURDUE, attempts, failures)])) == bad, (attempts, failures)


def test_when_a_site_is_bad_is_configured() -> None:
    tally = SiteTally(PURDUE, 10, 2)
    strict = ban_policy(
        Settings(site_ban_failure_ratio=0.1, site_ban_min_failures=2, site_ban_promotion_threshold=1)
    )
    assert (bad_sites([tally]), bad_sites([tally], strict)) == ([], [tally])
    assert is_for_all(["a"], strict)
    assert ban_policy(Settings()) == BanPolicy()


@given(
    st.lists(st.sampled_from([PURDUE, LONGER, "T1_US_FNAL"]), unique=True),
    st.sets(st.sampled_from([PURDUE, LONGER])),
)
def test_names_are_compared_whole_and_the_others_stay_in_their_order(
    sites: list[str], banned: set[str]
) -> None:
    left = remaining(sites, banned)
    assert list(left) == [site for site in sites if site not in banned]


def test_three_requests_make_it_the_fault_of_the_site() -> None:
    assert not is_for_all(["a", "b", "b"])
    assert is_for_all(["a", "b", "c"])


def record(folder: Path, node: str, cluster: int, site: str, category: str, rule: str = "") -> None:
    verdict = {"category": category, "rule": rule}
    content = {"cluster": cluster, "job": {"site": site}, "classification": verdict}
    (folder / f"{node}.{cluster}.post.json").write_text(json.dumps(content))


def test_attempts_are_counted_at_the_site_where_they_ended_and_a_credential_is_no_sites_fault(
    tmp_path: Path,
) -> None:
    planned = write_round(plan_round(snapshot(simulation())), tmp_path / "round")
    unit = tmp_path / "round" / planned.work_units[0].name
    record(unit, "proc_000000", 5, PURDUE, "infrastructure")
    for cluster, category in enumerate(["infrastructure", "data", "success", "permanent", "stopped"], 11):
        record(unit, "proc_000001", cluster, PURDUE, category)
    record(unit, "proc_000001", 16, LONGER, "infrastructure", "credential")
    record(unit, "merge", 20, LONGER, "success")
    (unit / "proc_000002.21.post.json").write_text("torn")
    assert tally_sites(tmp_path / "round", planned, cluster=10) == [
        SiteTally(PURDUE, 4, 2), SiteTally(LONGER, 2, 0)
    ]  # fmt: skip
