"""What bad sites mean for a request."""

from tests.workflows.life import Life
from wms2.models.actions import Action
from wms2.models.progress import DagOutcome
from wms2.models.request import RequestStatus

BAN = "3 of 4 attempts failed at T2_US_Purdue"


async def test_a_ban_is_told_and_the_rescue_goes_on_elsewhere(life: Life) -> None:
    life.world.ends = [DagOutcome.COMPLETED, DagOutcome.PARTIAL]
    life.world.bans = (BAN,)
    await life.begin()
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "1:1", "1:2"]
    assert any(BAN in line for line in state.logbook)


async def test_a_round_without_any_site_left_is_held_and_goes_on_when_a_ban_is_lifted(life: Life) -> None:
    life.world.ends = [DagOutcome.COMPLETED, DagOutcome.PARTIAL]
    life.world.sites_left = ()
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert "no site is left" in (await life.state()).held_reason
    life.world.sites_left = ("T2_CH_CERN",)
    await life.say(Action.RELEASE)
    await life.end()
    assert life.world.attempts == ["0:1", "1:1", "1:2"]
