"""`wms2 notice ...`: what people are told, and whether they can be."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.markup import escape

from wms2.adapters.messenger import make_messenger
from wms2.cli.by_hand import connect_database
from wms2.cli.screen import print_json, print_table, say
from wms2.config import load_settings
from wms2.core.notices import trial_digest
from wms2.db.notices import list_notices
from wms2.db.session import transaction
from wms2.errors import UserError
from wms2.models.contacts import Contacts, is_mail
from wms2.models.notice import NoticeRecord, NoticeState
from wms2.patterns import MAIL_ADDRESS

OFF = "Notifications are off: nobody is told anything. WMS2_NOTIFY=on turns them on."

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    states: Annotated[
        list[NoticeState] | None,
        typer.Option("--state", help="Only those in this state; give it again for more."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List what people were told and will be told, newest first.

    [bold]waiting[/] goes into the next digest, [bold]sending[/] is being tried, [bold]sent[/] has arrived at the
    server, [bold]given_up[/] was tried too often in vain.

    Examples: [bold]wms2 notice list[/]   [bold]wms2 notice list --state given_up --state sending[/]
    """
    settings = load_settings()
    with transaction(connect_database(settings)) as session:
        found = list_notices(session, states or (), limit)
    if as_json:
        print_json([notice.model_dump(mode="json") for notice in found])
        return
    rows = [
        (
            f"{notice.at:%Y-%m-%d %H:%M}",
            notice.state,
            escape(notice.address),
            notice.reason,
            escape(notice.about),
            escape(notice.words),
            escape(_trouble(notice)),
        )
        for notice in found
    ]
    print_table(["AT", "STATE", "ADDRESS", "REASON", "ABOUT", "WHAT", "TROUBLE"], rows)
    if settings.notify == "off":
        say(OFF)


@app.command()
def test(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="A mail address, or a webhook's name in the contacts file."),
    ],
) -> None:
    """Send one test message now, also while notifications are off.

    Examples: [bold]wms2 notice test operators@example.org[/]   [bold]wms2 notice test chat[/]
    """
    messenger = make_messenger(load_settings())
    if is_mail(address) and not MAIL_ADDRESS.fullmatch(address):
        raise UserError(f"{address!r} is no mail address; expected one such as operators@example.org")
    asyncio.run(messenger.send(trial_digest(address, uuid4(), datetime.now(UTC))))
    say(f"{escape(address)}: the server took a test message.")


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A contacts file; else the one that is configured.")
    ] = None,
) -> None:
    """Check the contacts file and the settings of mail. All mistakes are told at once, and nothing is sent.

    Examples: [bold]wms2 notice check[/]   [bold]wms2 notice check contacts.yaml[/]
    """
    settings = load_settings()
    if file is not None:
        settings = settings.model_copy(update={"contacts": file})
    contacts = make_messenger(settings).contacts
    say(f"{escape(str(settings.contacts))} is valid: {_counted(contacts)}.")
    if settings.notify == "off":
        say(OFF)


def _trouble(notice: NoticeRecord) -> str:
    if not notice.error:
        return ""
    again = f", again at {notice.next_try_at:%Y-%m-%d %H:%M}" if notice.next_try_at else ""
    return f"{notice.error} ({notice.tries} {'try' if notice.tries == 1 else 'tries'}{again})"


def _counted(contacts: Contacts) -> str:
    numbers = Counter(
        operators=len(contacts.operators),
        requestors=len(contacts.requestors),
        sites=len(contacts.sites),
        webhooks=len(contacts.webhooks),
    )
    return ", ".join(f"{number} {name}" for name, number in numbers.items())
