"""`wms2 request pending | judge`: failures that no rule knows, and what a person says of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.policy import (
    Attempts,
    ExitCodes,
    Message,
    RuleCategory,
    RuleName,
    Sites,
    sound_rule,
)
from wms2.cli.request_actions import Reason, deliver, recorded_request, who_asks
from wms2.cli.screen import print_json, results, say
from wms2.config import load_settings
from wms2.core.failures import unjudged
from wms2.core.plain import plain_line, plain_text
from wms2.models.failure import FailedNode
from wms2.models.messages import JudgeAction

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

LINES = 20


@app.command()
def pending(name: Name, as_json: AsJson = False) -> None:
    """List failures that no rule knows, with the ends of their logs, for a person to judge.

    `wms2 request judge` turns the judgement into a rule of the request.

    Example: wms2 request pending demo_simulation
    """
    found = waited(open_door(load_settings()).errors(name))
    nodes = list(unjudged(found.dags))
    if as_json:
        print_json({"request_name": name, "pending": [node.model_dump(mode="json") for node in nodes]})
        return
    if not nodes:
        say(f"{name}: every failure is known to a rule.")
        return
    for code, alike in by_exit_code(nodes).items():
        _print(code, alike)
    say(f"\nJudge them with `wms2 request judge {name} --name RULE --category CATEGORY --exit-code CODE`.")


@app.command()
def judge(
    name: Name,
    rule: RuleName,
    category: RuleCategory,
    exit_code: ExitCodes = None,
    message: Message = None,
    site: Sites = None,
    attempts: Attempts = None,
    reason: Reason = "",
) -> None:
    """Say what failures are that no rule knows. The verdict is a rule of the request, for all its rounds.

    It holds for every attempt that ends from now on. Where the request is held over failures, they are judged again:
    when all that failed may be tried again, it goes on by itself.

    Examples: [bold]wms2 request judge NAME --name licence --category transient --exit-code 123[/]
    [bold]wms2 request judge NAME --name bad-card --category permanent --exit-code 123 --message "no such particle"[/]
    """
    settings, verdict = load_settings(), sound_rule(rule, category, exit_code, message, site, attempts)
    deliver(
        settings, recorded_request(settings, name), JudgeAction(rule=verdict, reason=reason, **who_asks())
    )


def by_exit_code(nodes: Iterable[FailedNode]) -> dict[str, list[FailedNode]]:
    """Those alike together: one rule may be enough for all of them."""
    found: dict[str, list[FailedNode]] = {}
    for node in nodes:
        found.setdefault("none" if node.exit_code is None else str(node.exit_code), []).append(node)
    return found


def _print(code: str, nodes: list[FailedNode]) -> None:
    sites = sorted({node.site or "-" for node in nodes})
    results.print(f"\n[bold]Exit code {code}[/]: {len(nodes)} nodes, at {escape(', '.join(sites))}")
    example = nodes[-1]
    results.print(f"For example {example.node}: {escape(plain_line(example.message, 500)) or 'no message'}")
    results.print("\n".join(plain_text(example.log_tail).splitlines()[-LINES:]), markup=False)
