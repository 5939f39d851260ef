"""The command line as a tree of nouns and verbs."""

from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from wms2.cli.deferred import Deferred
from wms2.cli.main import app


def parse(words: Sequence[str]) -> None:
    """Verbs, options and arguments as the command line understands them; nothing is run. Raises what is wrong."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while isinstance(command := _real(command), TyperGroup):
        command = command.commands[rest.pop(0)]
    command.make_context("wms2", rest)


def every_deferred(group: TyperGroup | None = None) -> Iterator[tuple[Deferred, Any]]:
    """What the lists show, each with the noun or verb that it stands for."""
    for command in (group or typer.main.get_group(app)).commands.values():
        if isinstance(command, Deferred):
            real = command.real()
            yield command, real
            if isinstance(real, TyperGroup):
                yield from every_deferred(real)


def every_verb(*path: str) -> Iterator[tuple[str, str]]:
    """Such as `request watch`, each with its whole help."""
    command: Any = typer.main.get_group(app)
    for word in path:
        command = _real(command.commands[word])
    if isinstance(command, TyperGroup):
        for name in command.commands:
            yield from every_verb(*path, name)
    else:
        yield " ".join(path), command.help


def _real(command: Any) -> Any:
    return command.real() if isinstance(command, Deferred) else command
