"""Which sites take new work: the operators' word and CRIC's."""

from datetime import UTC, datetime, timedelta

import pytest

from wms2.core.sites import output_storage, status_now, why_closed
from wms2.models.site import Site, SiteStatus

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def site(status: SiteStatus = SiteStatus.ENABLED, **fields: object) -> Site:
    return Site.model_validate({"name": "T2_US_Purdue", "status": status, "updated_at": NOW, **fields})


@pytest.mark.parametrize("status", [SiteStatus.DRAINING, SiteStatus.DISABLED, SiteStatus.MAINTENANCE])
def test_a_site_that_an_operator_closed_takes_no_work_whatever_cric_says(status: SiteStatus) -> None:
    assert "by alice: downtime" in str(
        why_closed(site(status, cric_state="ACTIVE", status_by="alice", status_reason="downtime"), NOW)
    )


def test_a_site_is_open_again_when_the_time_of_its_drain_is_over() -> None:
    drained = site(SiteStatus.DRAINING, drain_until=NOW)
    assert why_closed(drained, NOW - timedelta(minutes=1)) == (
        "drained by an operator until 2027-01-31 12:00 UTC"
    )
    assert status_now(drained, NOW) is SiteStatus.ENABLED
    assert why_closed(drained, NOW) is None


def test_a_site_that_cric_never_listed_is_open_and_one_that_it_lists_no_more_is_not() -> None:
    assert why_closed(site(), NOW) is None
    assert why_closed(site(cric_state="ACTIVE"), NOW) is None
    assert why_closed(site(cric_state="ACTIVE", cric_gone_at=NOW), NOW) == (
        "CRIC does not list it since 2027-01-31 12:00 UTC"
    )
    assert why_closed(site(cric_state="INACTIVE"), NOW) == "CRIC says that it is INACTIVE"


@pytest.mark.parametrize(
    ("rses", "storage"),
    [
        (("T1_US_FNAL_Disk", "T1_US_FNAL_Tape"), "T1_US_FNAL_Disk"),
        (("T1_US_FNAL", "T1_US_FNAL_Test"), "T1_US_FNAL"),
        (("T2_DE_DESY",), "T2_DE_DESY"),
        (("T2_DE_DESY", "T2_CH_CERN"), None),
        (("T1_US_FNAL_Tape",), None),
        ((), None),
    ],
)
def test_outputs_go_to_the_sites_own_disk_or_to_the_only_one(
    rses: tuple[str, ...], storage: str | None
) -> None:
    assert output_storage("T1_US_FNAL", rses) == storage
