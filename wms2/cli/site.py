"""`wms2 site ...`: the sites, and which of them jobs are kept away from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, telling_door, waited
from wms2.cli.request_actions import Reason, who_asks
from wms2.cli.screen import print_json, print_table, say
from wms2.config import load_settings
from wms2.core.bans import BAN
from wms2.core.sites import status_now, why_closed
from wms2.errors import UserError
from wms2.models.audit import Action
from wms2.models.site import Site as KnownSite
from wms2.models.site import SiteStatus
from wms2.patterns import SITE_NAME

app = typer.Typer(no_args_is_help=True)

Site = Annotated[str, typer.Argument(metavar="SITE", help="The site's whole name, such as T2_US_Purdue.")]
OfRequest = Annotated[
    str | None, typer.Option("--request", metavar="NAME", help="For one request; else for all of them.")
]


Until = Annotated[
    datetime | None,
    typer.Option("--until", formats=["%Y-%m-%d", "%Y-%m-%d %H:%M"], help="When it is over, in UTC."),
]
Days = Annotated[
    float | None, typer.Option("--days", metavar="N", min=0.001, max=3650, help="How long it lasts.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command("list")
def list_(
    closed: Annotated[bool, typer.Option("--closed", help="Only those that take no new work.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the sites: what operators say of them, what CRIC says, and what they have.

    Examples: [bold]wms2 site list[/]
    [bold]wms2 site list --closed --json[/]
    """
    found, now = waited(open_door(load_settings()).list_sites()), datetime.now(UTC)
    answered = max((site.cric_seen_at for site in found if site.cric_seen_at), default=None)
    shown = [site for site in found if not closed or why_closed(site, now)]
    if as_json:
        print_json([_document(site, now) for site in shown])
        return
    print_table(
        ["SITE", "STATUS", "UNTIL", "CRIC", "CORES", "RUNNING", "STORAGE", "TAKES NO WORK BECAUSE"],
        [
            (
                site.name,
                status_now(site, now),
                _minute(site.drain_until) if status_now(site, now) is not SiteStatus.ENABLED else "",
                _cric_says(site),
                "-" if site.total_slots is None else site.total_slots,
                site.running_slots,
                site.storage_element or ", ".join(site.rses),
                escape(why_closed(site, now) or ""),
            )
            for site in shown
        ],
    )
    say(f"CRIC answered last at {_minute(answered)} UTC." if answered else "CRIC has not answered yet.")


@app.command()
def show(site: Site, as_json: AsJson = False) -> None:
    """Show all that is known of a site, and its bans.

    Example: [bold]wms2 site show T2_US_Purdue[/]
    """
    _check(site)
    door = open_door(load_settings())
    found = waited(door.find_site(site))
    if found is None:
        raise UserError(f"nothing is known of {site}; `wms2 site list` shows the sites that are")
    banned = [ban for ban in waited(door.list_bans()) if ban.site_name == site]
    now = datetime.now(UTC)
    if as_json:
        print_json({**_document(found, now), "bans": [ban.model_dump(mode="json") for ban in banned]})
        return
    by = f", by {found.status_by} at {_minute(found.status_at)}" if found.status_by else ""
    why = f": {found.status_reason}" if found.status_reason else ""
    rows = [
        ("site", found.name),
        ("takes work", f"no, {why_closed(found, now)}" if why_closed(found, now) else "yes"),
        ("status", f"{found.status}{by}{why}"),
        ("until", _minute(found.drain_until) or "-"),
        ("CRIC", f"{_cric_says(found)}, last listed {_minute(found.cric_seen_at) or 'never'}"),
        ("storage", ", ".join(found.rses) or "-"),
        ("outputs go to", found.storage_element or "-"),
        (
            "cores",
            f"{'-' if found.total_slots is None else found.total_slots}, {found.running_slots} run jobs",
        ),
        ("thresholds", ", ".join(f"{name} {count}" for name, count in found.thresholds.items()) or "-"),
        *(
            ("banned", f"for {ban.request_name or 'all'} until {_minute(ban.expires_at)}: {ban.reason}")
            for ban in banned
        ),
    ]
    print_table(["", ""], [(name, escape(value)) for name, value in rows])


@app.command()
def drain(site: Site, until: Until = None, days: Days = None, reason: Reason = "") -> None:
    """Send no new work to a site, from the next round and the next rescue on. What runs there ends in peace.

    Examples: [bold]wms2 site drain T2_US_Purdue --days 3 --reason "downtime"[/]
    [bold]wms2 site drain T2_US_Purdue --until "2027-01-31 18:00"[/]
    """
    _say(site, SiteStatus.DRAINING, "drain", _end(until, days), reason)


@app.command()
def maintenance(site: Site, until: Until = None, days: Days = None, reason: Reason = "") -> None:
    """The same as drain, for a site that is being worked on.

    Example: [bold]wms2 site maintenance T2_US_Purdue --days 1 --reason "new network"[/]
    """
    _say(site, SiteStatus.MAINTENANCE, "maintenance", _end(until, days), reason)


@app.command()
def disable(site: Site, reason: Reason = "") -> None:
    """Send no new work to a site until somebody enables it, whatever CRIC says of it.

    Example: [bold]wms2 site disable T2_US_Purdue --reason "it is closing"[/]
    """
    _say(site, SiteStatus.DISABLED, "disable", None, reason)


@app.command()
def enable(site: Site, reason: Reason = "") -> None:
    """Let new work go to a site again. Bans stay: `wms2 site unban` lifts them.

    Example: [bold]wms2 site enable T2_US_Purdue --reason "it is back"[/]
    """
    _say(site, SiteStatus.ENABLED, "enable", None, reason)


@app.command()
def ban(
    site: Site,
    request: OfRequest = None,
    days: Annotated[
        float, typer.Option("--days", metavar="N", min=0.001, max=3650, help="How long.")
    ] = BAN.total_seconds() / 86400,
    reason: Reason = "",
) -> None:
    """Keep jobs away from a site, from the next round and the next rescue on. DAGs that run stay as they are.

    Examples: [bold]wms2 site ban T2_US_Purdue --reason "storage is down"[/]
    [bold]wms2 site ban T2_US_Purdue --request NAME --days 2[/]
    """
    deed = _deed("ban", site, request, reason)
    door = telling_door(load_settings())
    waited(door.ban_site(site, request, timedelta(days=days), deed))
    say(f"{site} is banned for {f'request {escape(request)}' if request else 'all'}, for {days:g} days.")
    _wonder(site, waited(door.find_site(site)))


@app.command()
def unban(site: Site, request: OfRequest = None, reason: Reason = "") -> None:
    """Lift the bans of a site: those of one request, or all of them.

    Example: [bold]wms2 site unban T2_US_Purdue --reason "storage is back"[/]
    """
    deed = _deed("unban", site, request, reason)
    lifted = waited(telling_door(load_settings()).unban_site(site, request, deed))
    say(f"{lifted} {'ban' if lifted == 1 else 'bans'} of {site} lifted.")


@app.command()
def bans(
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the bans in force, newest first.

    Example: [bold]wms2 site bans --all[/]
    """
    found = waited(open_door(load_settings()).list_bans(ended=everything))
    if as_json:
        print_json([ban.model_dump(mode="json") for ban in found])
        return
    rows = [
        (
            ban.site_name,
            ban.request_name or "all",
            f"{ban.created_at:%Y-%m-%d %H:%M}",
            f"{ban.expires_at:%Y-%m-%d %H:%M}",
            f"{ban.removed_at:%Y-%m-%d %H:%M} {ban.removed_by}" if ban.removed_at else "",
            escape(ban.reason),
        )
        for ban in found
    ]
    print_table(["SITE", "REQUEST", "SINCE", "UNTIL", "ENDED", "REASON"], rows)


def _deed(action: str, site: str, request: str | None, reason: str, **detail: str) -> Action:
    _check(site)
    told = {"site": site, **detail}
    return Action(action=action, request_name=request, reason=reason, detail=told, **who_asks())


def _check(site: str) -> None:
    if not SITE_NAME.fullmatch(site):
        raise UserError(f"{site!r} is no name of a site; expected one such as T2_US_Purdue")


def _say(site: str, status: SiteStatus, action: str, until: datetime | None, reason: str) -> None:
    deed = _deed(action, site, None, reason, **({"until": until.isoformat()} if until else {}))
    known = waited(telling_door(load_settings()).set_site_status(site, status, until, deed))
    say(f"{site} is {status}{f' until {_minute(until)} UTC' if until else ''}.")
    _wonder(site, known)
    listed = known.cric_seen_at is not None
    if listed and status is SiteStatus.ENABLED and (why := why_closed(known, datetime.now(UTC))):
        say(f"It takes no work all the same: {escape(why)}.")


def _wonder(site: str, known: KnownSite | None) -> None:
    """A site may be spoken of before CRIC lists it; a name with a slip in it looks the same."""
    if known is None or known.cric_seen_at is None:
        say(f"CRIC has never listed {site}: check its name if that surprises you.")


def _end(until: datetime | None, days: float | None) -> datetime | None:
    """When a person's word ends by itself; None when it holds until the next one."""
    if until is not None and days is not None:
        raise UserError("give --until or --days, not both")
    now = datetime.now(UTC)
    if days is not None:
        return now + timedelta(days=days)
    end = until.replace(tzinfo=UTC) if until else None
    if end is not None and end <= now:
        raise UserError(f"{_minute(end)} UTC is over; give a time to come")
    return end


def _document(site: KnownSite, now: datetime) -> dict[str, object]:
    return {
        **site.model_dump(mode="json"),
        "status_now": status_now(site, now),
        "closed_because": why_closed(site, now),
    }


def _cric_says(site: KnownSite) -> str:
    return "gone" if site.cric_gone_at else site.cric_state or "-"


def _minute(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}" if at else ""
