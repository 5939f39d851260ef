"""What people see: words and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wms2.core.plain import whole_text

messages = Console(stderr=True, highlight=False, soft_wrap=True)
# A pipe has no width: whoever reads it wants whole lines.
results = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 250)


def say(text: str) -> None:
    """Words from outside may be in it, also such as a terminal would act on."""
    messages.print(whole_text(text))


def ask_first(question: str, yes: bool) -> None:
    """Go on only if a person agrees or has said so before. Where nobody answers, as in a pipe, that is a no."""
    if yes:
        return
    messages.print(escape(f"{whole_text(question)} [y/N] "), end="")
    answer = sys.stdin.readline() if sys.stdin else ""
    if answer.strip().lower() in ("y", "yes"):
        return
    say(
        "Nothing is done."
        if answer
        else "\nNothing is done: nobody answered. --yes does it without a question."
    )
    raise typer.Exit(1)


def print_line(text: str) -> None:
    """A line of the result, as safe as what is said."""
    results.print(whole_text(text))


def print_json(value: Any) -> None:
    """One JSON document on stdout, nothing else."""
    print(json.dumps(value, indent=2, default=str))  # noqa: T201


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(whole_text(str(cell)) for cell in row))
    results.print(table)


def size_text(size: float) -> str:
    """12.3 MB"""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def duration_text(seconds: float) -> str:
    """2 d 3 h, 4 h 5 min, 6 min, 7 s"""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
