"""Nouns and verbs whose modules are imported when they are called.

To import all that WMS2 speaks with takes longer than most verbs do. So the nouns, and the verbs of the noun that is
used most, are written down beside their modules: `wms2 --help`, completion in a shell and a mistyped verb import none.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from wms2.cli import ctrl_c


class Deferred(TyperCommand):
    """What a list shows of a noun or a verb. Called, it gives way to the real one."""

    def real(self) -> TyperCommand | TyperGroup:
        raise NotImplementedError

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        ctrl_c.leaves_at_once()
        try:
            return self.real().make_context(info_name, args, parent=parent, **extra)
        finally:
            ctrl_c.is_raised()


class Noun(Deferred):
    """`wms2 NOUN ...`: all verbs in the `app` of the module of that name."""

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help=help)

    def real(self) -> TyperGroup:
        group = _group(self.name)
        group.help = self.help
        return group


class Verb(Deferred):
    """One verb in the `app` of a module. `help` is the first paragraph of its docstring."""

    def __init__(self, name: str, module: str, help: str, panel: str | None = None) -> None:
        super().__init__(name, help=help, rich_help_panel=panel)
        self.module = module

    def real(self) -> TyperCommand | TyperGroup:
        verb = _group(self.module).commands[str(self.name)]
        assert isinstance(verb, TyperCommand)
        return verb


def _group(module: str | None) -> TyperGroup:
    return get_group(import_module(f"wms2.cli.{module}").app)


def listing(*listed: Deferred) -> type[TyperGroup]:
    """The class of a group that has these, in this order."""

    class Listing(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands.update({str(one.name): one for one in listed})

    return Listing
