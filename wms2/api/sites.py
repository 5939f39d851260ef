"""Sites: what is known of them, and what operators say of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Self

from fastapi import APIRouter, Body, Query
from pydantic import AwareDatetime, Field, model_validator

from wms2.api.doorman import Operator, Requestor
from wms2.api.service import Inside, Service
from wms2.api.words import NO_REASON, Hand, MaybeWhy, OfRequest, OperatorHand, ReasonInQuery, SiteInPath, Why
from wms2.core.bans import BAN
from wms2.core.sites import status_now, why_closed
from wms2.db import bans, sites
from wms2.errors import Missing, UserError
from wms2.models.base import Count, Model
from wms2.models.site import Site, SiteBan, SiteStatus
from wms2.patterns import RequestName

router = APIRouter(tags=["Sites"])

LONGEST = timedelta(days=3650)
Days = Annotated[float, Field(ge=0.001, le=LONGEST.days, allow_inf_nan=False)]


class SiteSeen(Site):
    status_now: SiteStatus = Field(description="the operators' word, unless its time is over")
    closed_because: str | None = Field(description="why it takes no new work; null when it does")


class SiteDetails(SiteSeen):
    bans: list[SiteBan] = Field(description="those in force")


class ForATime(Why):
    """Until a moment, for some days, or until the next word."""

    until: AwareDatetime | None = Field(None, examples=["2027-01-31T18:00:00Z"])
    days: Days | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.until is not None and self.days is not None:
            raise ValueError("expected until or days, not both")
        return self

    def end(self, now: datetime) -> datetime | None:
        if self.days is not None:
            return now + timedelta(days=self.days)
        if self.until is not None and self.until <= now:
            raise UserError(f"{self.until:%Y-%m-%d %H:%M} is over; give a time to come")
        if self.until is not None and self.until - now > LONGEST:
            raise UserError(
                f"{self.until:%Y-%m-%d} is more than {LONGEST.days} days away; leave until out for good"
            )
        return self.until


UNTIL_THE_NEXT_WORD = ForATime()


class SitePatch(ForATime):
    status: SiteStatus


class Ban(Why):
    request: RequestName | None = Field(None, description="for one request; else for all of them")
    days: Days = BAN.total_seconds() / 86400


class Lifted(Model):
    site: str
    lifted: Count


@router.get("/sites", summary="List the sites: what operators say, what CRIC says, and what they have")
async def list_all(
    _: Requestor,
    inside: Inside,
    closed: Annotated[bool, Query(description="Only those that take no new work.")] = False,
) -> list[SiteSeen]:
    now = datetime.now(UTC)
    found = [_seen(site, now) for site in await inside.read(sites.list_sites)]
    return [site for site in found if site.closed_because or not closed]


@router.get("/sites/{site}", summary="All that is known of a site, and its bans")
async def show(site: SiteInPath, _: Operator, inside: Inside) -> SiteDetails:
    return await _details(inside, site)


@router.patch(
    "/sites/{site}", summary="Say of a site what it is: enabled, draining, in maintenance, disabled"
)
async def patch(site: SiteInPath, hand: OperatorHand, inside: Inside, word: SitePatch) -> SiteDetails:
    return await _say(inside, hand, site, word.status, word)


@router.post("/sites/{site}/drain", summary="Send no new work to a site; what runs there ends in peace")
async def drain(
    site: SiteInPath,
    hand: OperatorHand,
    inside: Inside,
    word: Annotated[ForATime, Body()] = UNTIL_THE_NEXT_WORD,
) -> SiteDetails:
    return await _say(inside, hand, site, SiteStatus.DRAINING, word)


@router.post("/sites/{site}/enable", summary="Let new work go to a site again; bans stay")
async def enable(
    site: SiteInPath, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON
) -> SiteDetails:
    return await _say(inside, hand, site, SiteStatus.ENABLED, ForATime(reason=why.reason))


@router.post(
    "/sites/{site}/ban", status_code=201, summary="Keep jobs of one request, or of all, away from a site"
)
async def ban(site: SiteInPath, hand: OperatorHand, inside: Inside, order: Ban) -> SiteDetails:
    """From the next round and the next rescue on; DAGs that run stay as they are."""
    by = hand.deed("ban", order.reason, order.request, site=site)
    await inside.read(bans.ban_by_hand, site, order.request, timedelta(days=order.days), by)
    return await _details(inside, site)


@router.delete("/sites/{site}/ban", summary="Lift the bans of a site: those of one request, or all of them")
async def unban(
    site: SiteInPath,
    hand: OperatorHand,
    inside: Inside,
    request: OfRequest = None,
    reason: ReasonInQuery = "",
) -> Lifted:
    by = hand.deed("unban", reason, request, site=site)
    return Lifted(site=site, lifted=await inside.read(bans.lift_bans, site, request, by))


@router.get("/bans", summary="List the bans, newest first")
async def list_bans(
    _: Operator,
    inside: Inside,
    ended: Annotated[bool, Query(description="Also those that have ended.")] = False,
) -> list[SiteBan]:
    return await inside.read(bans.list_bans, ended=ended)


async def _say(
    inside: Service,
    hand: Hand,
    site: str,
    status: SiteStatus,
    word: ForATime,
) -> SiteDetails:
    # What was said, not when that ends: said again, it is the same.
    said = word.model_dump(mode="json", include={"until", "days"}, exclude_none=True)
    by = hand.deed(_VERBS[status], word.reason, site=site, **said)
    await inside.read(sites.set_site_status, site, status, word.end(datetime.now(UTC)), by)
    return await _details(inside, site)


_VERBS = {
    SiteStatus.ENABLED: "enable",
    SiteStatus.DISABLED: "disable",
    SiteStatus.DRAINING: "drain",
    SiteStatus.MAINTENANCE: "maintenance",
}


async def _details(inside: Service, name: str) -> SiteDetails:
    found = await inside.read(sites.find_site, name)
    if found is None:
        raise Missing(f"nothing is known of {name}; /api/v1/sites lists the sites that are")
    now = datetime.now(UTC)
    banned = [one for one in await inside.read(bans.list_bans) if one.site_name == name]
    return SiteDetails(**dict(_seen(found, now)), bans=banned)


def _seen(site: Site, now: datetime) -> SiteSeen:
    return SiteSeen(**dict(site), status_now=status_now(site, now), closed_because=why_closed(site, now))
