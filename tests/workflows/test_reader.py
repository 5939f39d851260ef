"""A request that waits for its input."""

from tests.workflows.life import Life
from wms2.models.messages import ReleaseAction
from wms2.models.request import RequestStatus
from wms2.workflows.reader import KEPT_BACK

RELEASE = ReleaseAction(actor="wms2", reason="its input is there", action_id="input-of-second-first")


async def test_a_request_that_waits_says_for_what_and_goes_on_when_it_is_there_once(life: Life) -> None:
    await life.begin(RequestStatus.NEW, waits_for="waits for /A/B/C of first")
    await life.until_told("waits for /A/B/C of first")
    await life.handle.signal("waits_for", "waits for /A/B/C of first, which is held")
    await life.until_told("which is held")
    for _ in range(2):
        await life.handle.signal("release", RELEASE)
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.statuses[:3] == ["new", "new", "submitted"]
    assert life.world.statuses.count("submitted") == 1


async def test_a_request_that_a_person_keeps_back_says_so_and_that_person_may_also_let_a_reader_go(
    life: Life,
) -> None:
    await life.begin(RequestStatus.NEW)
    await life.until_told(KEPT_BACK)
    await life.handle.signal("waits_for", "waits for /A/B/C of first")
    await life.until_told("waits for")
    await life.ask(ReleaseAction(actor="operator", reason="what is there will do", action_id="early"))
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_request_that_has_started_waits_for_nothing_more(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await life.handle.signal("waits_for", "waits for /A/B/C of first")
    await life.handle.signal("release", RELEASE)
    assert (await life.state()).waits_for == ""
    assert life.world.statuses == ["submitted", "queued"]
