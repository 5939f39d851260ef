"""`wms2 request ...`: its verbs, and in which module each of them is."""

from __future__ import annotations

import typer

from wms2.cli.deferred import Verb, listing

app = typer.Typer(
    no_args_is_help=True,
    cls=listing(
        Verb("validate", "request_plan", "Check a request file and name every mistake in it."),
        Verb("plan", "request_plan", "Plan the first round of a request into a folder, without any server."),
        Verb("submit", "requests", "Submit a request. It is recorded first, and then lives on its own."),
        Verb("list", "requests", "List requests, highest priority first, then oldest."),
        Verb(
            "show",
            "requests",
            "Show one request: its status and how it came there, its rounds, DAGs and outputs.",
        ),
        Verb(
            "import",
            "request_import",
            "Take on a request of ReqMgr2. A chain of tasks becomes several requests, each starts when its input "
            "is there.",
        ),
        Verb(
            "imports",
            "request_import",
            "List the requests of ReqMgr2 that were looked at, the newest first: what they became, or why they "
            "could not.",
        ),
        Verb(
            "watch",
            "request_watch",
            "Follow a request until it ends: rounds, work units, events and jobs, and what it waits for.",
        ),
        Verb(
            "release",
            "request_release",
            "Let a request go on that is held, or that was submitted with --hold.",
        ),
        Verb(
            "drop",
            "request_release",
            "Do without a part of what was asked for. The request stays held; released, it completes without "
            "that part.",
        ),
        Verb(
            "stop",
            "request_actions",
            "Stop a request's DAG cleanly; it queues again and goes on where it was.",
        ),
        Verb("hold", "request_actions", "Stop a request and keep it held until somebody releases it."),
        Verb(
            "priority",
            "request_actions",
            "Give a request another priority: in the queue, for the jobs that are there, and for all that follow.",
        ),
        Verb(
            "restart",
            "request_actions",
            "Give a request up and begin anew with the next version of it. What it made stays at least until that "
            "is complete.",
        ),
        Verb("fail", "request_actions", "Give up a request that is held. This is final."),
        Verb("abort", "request_actions", "Cancel a request: its jobs are removed. This is final."),
        Verb(
            "size",
            "request_size",
            "Decide what jobs need, from the next round on, over the pilot and all measurements.",
        ),
        Verb(
            "errors",
            "request_errors",
            "Show what failed in a request: by cause, site, exit code and node, the bad input files, and ends of "
            "logs.",
        ),
        Verb(
            "pending",
            "request_pending",
            "List failures that no rule knows, with the ends of their logs, for a person to judge.",
        ),
        Verb(
            "judge",
            "request_pending",
            "Say what failures are that no rule knows. The verdict is a rule of the request, for all its rounds.",
        ),
        Verb(
            "why",
            "request_why",
            "Tell everything that happened to a request and everything that was decided, with the rule and its "
            "inputs.",
        ),
    ),
)
