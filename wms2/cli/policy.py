"""`wms2 policy ...`: what failures mean. Only the rules of a request that was submitted are asked of the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.markup import escape

from post_script.names import REMOVED, is_stop
from post_script.policy import LONGEST_TEXT, Failure, classify, fitting_rules, with_category
from wms2.cli.screen import print_json, print_table, say
from wms2.dagman.policy_file import checked_policy, default_policy, policy_of, with_rules, write_policy
from wms2.errors import UserError
from wms2.models.document import parse_document, read_text
from wms2.models.mistakes import listed
from wms2.models.policy import Category, FailureRule, Role
from wms2.models.request_file import validate_request_file
from wms2.patterns import REQUEST_NAME

app = typer.Typer(no_args_is_help=True)

_NODES: dict[Role, str] = {"landing": "landing", "proc": "processing", "merge": "merge"}

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
OfRequest = Annotated[
    str | None,
    typer.Option(
        "--request",
        metavar="FILE|NAME",
        help="A request file whose own rules count as well; or a request's name, then with the verdicts on it.",
    ),
]
RuleName = Annotated[
    str, typer.Option("--name", help="A name for the rule; a rule of that name is replaced.")
]
RuleCategory = Annotated[Category, typer.Option("--category", help="What kind of failure it is.")]
ExitCodes = Annotated[
    list[int] | None, typer.Option("--exit-code", metavar="CODE", help="It fits this code; again for more.")
]
Message = Annotated[str | None, typer.Option("--message", metavar="PATTERN", help="And this message.")]
Sites = Annotated[list[str] | None, typer.Option("--site", help="And this site; again for more.")]
Attempts = Annotated[int | None, typer.Option("--attempts", help="So many attempts may fail so.")]


@app.command()
def show(request: OfRequest = None, as_json: AsJson = False) -> None:
    """Show the rules by which failures are judged.

    Example: wms2 policy show
    """
    policy = _policy(request)
    if as_json:
        print_json(policy)
        return
    columns = ["rule", "category", "exit codes", "message", "more"]
    print_table(columns, [_row(rule) for rule in policy["rules"]])


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy.json, or a request file.")],
    as_json: AsJson = False,
) -> None:
    """Check a policy, or the rules of a request, and name what is wrong.

    Two rules that fit the same failure, and of which none is more specific, are a mistake.

    Example: wms2 policy check policy.json
    """
    document = parse_document(read_text(file), str(file))
    policy = document if "rules" in document else policy_of(validate_request_file(file, unnamed_outputs=True))
    checked = checked_policy(file, policy)
    if as_json:
        print_json({"file": str(file), "rules": len(checked.rules), "handlers": len(checked.handlers)})
    else:
        say(
            f"{escape(str(file))}: {len(checked.rules)} rules and {len(checked.handlers)} handlers are sound."
        )


@app.command()
def add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy.json of a round.")],
    name: RuleName,
    category: RuleCategory,
    exit_code: ExitCodes = None,
    message: Message = None,
    site: Sites = None,
    attempts: Attempts = None,
    as_json: AsJson = False,
) -> None:
    """Add a rule to the policy of a round that is run by hand: it holds for every attempt that ends from now on.

    Nodes that were given up before are judged by it when the round is rescued. `wms2 request judge` gives a request
    that was submitted a rule for all its rounds.

    Example: wms2 policy add policy.json --name licence --category transient --exit-code 123
    """
    rule = sound_rule(name, category, exit_code, message, site, attempts)
    policy = parse_document(read_text(file), str(file))
    checked_policy(file, policy)
    added = with_rules(policy, [rule])
    checked_policy(file, added)
    write_policy(file, added)
    if as_json:
        print_json(added["rules"][-1])
    else:
        say(f"{escape(str(file))}: the rule [bold]{escape(name)}[/] holds from now on.")


@app.command(context_settings={"ignore_unknown_options": True})
def explain(
    code: Annotated[
        int, typer.Argument(metavar="CODE", help="An exit code, such as 8021; below 256 a low byte.")
    ],
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="What the job said.")] = "",
    site: Annotated[str, typer.Option("--site", metavar="SITE", help="Where it ran.")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why HTCondor removed it.")] = "",
    node: Annotated[Role, typer.Option("--node", help="What kind of node it was.")] = "proc",
    request: OfRequest = None,
    as_json: AsJson = False,
) -> None:
    """Say which rule holds for a failure, what follows, and which other rules fitted and lost.

    Example: wms2 policy explain 8001 --message "unable to load /cvmfs/a.so: file too short"
    """
    policy = _policy(request)
    text = f"{message}\n{reason}"[:LONGEST_TEXT]
    failure = Failure(code, text, reason, site, lone=0 < code < 256, role=node)
    held = _held_rule(policy, failure)
    lost = [rule["name"] for rule in fitting_rules(policy["rules"], failure) if rule["name"] != held["name"]]
    handler = next(iter(fitting_rules(policy["handlers"], failure)), None)
    explained = {
        "code": code,
        "rule": held["name"],
        "category": held["category"],
        "confidence": held["confidence"],
        "retried": _is_retried(policy, held, handler),
        "what_happens": _sentences(policy, held, handler, node),
        "handler": handler["name"] if handler else None,
        "lost": [name for name in lost if name not in held["passive"]],
        "passive": held["passive"],
    }
    if as_json:
        print_json(explained)
    else:
        print_table(
            ["", ""], [(name.replace("_", " "), escape(_shown(value))) for name, value in explained.items()]
        )


def sound_rule(
    name: str,
    category: Category,
    exit_codes: list[int] | None,
    message: str | None,
    sites: list[str] | None,
    attempts: int | None,
) -> FailureRule:
    """The rule, or a UserError that names all that is wrong with it."""
    given = {
        "name": name,
        "category": category,
        "exit_codes": exit_codes or [],
        "sites": sites or [],
        "message": message,
        "attempts": attempts,
    }
    try:
        return FailureRule.model_validate_json(json.dumps(given))
    except ValidationError as error:
        raise UserError(f"the rule is not sound:\n{listed(error)}") from None


def _held_rule(policy: dict[str, Any], failure: Failure) -> dict[str, Any]:
    if failure.code == REMOVED and is_stop(failure.reason):
        stopped = with_category(policy, {"name": "stopped", "category": "stopped"})
        return {**stopped, "confidence": "high", "passive": []}
    return classify(policy, failure)


def _policy(request: str | None) -> dict[str, Any]:
    if request is None:
        return default_policy()
    if Path(request).exists() or not REQUEST_NAME.fullmatch(request):
        return policy_of(validate_request_file(Path(request), unnamed_outputs=True))
    # The database, and all that comes with it, only where it is asked.
    from wms2.cli.judged import judged_policy

    return judged_policy(request)


def _row(rule: dict[str, Any]) -> tuple[str, ...]:
    codes = [
        *map(str, rule.get("exit_codes", ())),
        *(f"{first}-{last}" for first, last in rule.get("ranges", ())),
    ]
    codes += [f"({byte})" for byte in rule.get("low_bytes", ())]
    known = {"name", "category", "exit_codes", "ranges", "low_bytes", "message"}
    more = [f"{name}={json.dumps(value)}" for name, value in rule.items() if name not in known]
    cells = (
        rule["name"],
        rule["category"],
        ", ".join(codes) or "any",
        rule.get("message", ""),
        ", ".join(more),
    )
    return tuple(map(escape, cells))


def _is_retried(policy: dict[str, Any], rule: dict[str, Any], handler: dict[str, Any] | None) -> bool:
    if rule.get("abort"):
        return False
    if handler and not rule.get("by_hand"):
        return bool(handler["max_retries"])
    if rule["category"] == "unclassified" and policy["on_unclassified"] == "wait":
        return False
    return bool(rule["retry"])


def _sentences(
    policy: dict[str, Any], rule: dict[str, Any], handler: dict[str, Any] | None, node: Role
) -> str:
    if rule.get("abort"):
        return "the whole DAG is stopped"
    if handler and not rule.get("by_hand"):
        script = handler.get("recovery_script")
        return f"retried up to {handler['max_retries']} times" + (f", after {script}" if script else "")
    if not _is_retried(policy, rule, None):
        waits = rule["category"] == "unclassified"
        return "given up, and waits for a verdict" if waits else "given up at once"
    if rule["category"] == "stopped":
        return "retried: somebody stopped the job, no site is blamed and no attempt is used up"
    return "; ".join(["retried", *_conditions(policy, rule, node)])


def _conditions(policy: dict[str, Any], rule: dict[str, Any], node: Role) -> Iterator[str]:
    """How often, when and how it is retried."""
    if most := rule.get("attempts_at_site"):
        yield f"attempts at a site: {most}, then the work unit elects another one"
    elif most := rule.get("attempts"):
        yield f"attempts by this rule: {most}"
    else:
        yield f"attempts of a {_NODES[node]} node in all: {policy['attempts'][node]}"
    if rule.get("raise_memory"):
        yield "with more memory"
    if base := rule.get("cool_off_sec", policy["cool_off_sec"] if rule.get("cool_off") else 0):
        yield f"after {base} s, twice as long each time"
    if not rule.get("uses_attempt", True):
        yield "without using up an attempt of the node"
    if sites := rule.get("data_after_sites"):
        yield f"a bad file once it was seen at {sites} sites"


def _shown(value: object) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
