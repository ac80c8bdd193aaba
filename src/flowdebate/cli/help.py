"""Plain-text help with commands and options in panels."""

from __future__ import annotations

from typing import Any, TypeAlias

from typer.core import TyperCommand, TyperGroup

__all__ = ("Command", "Commands")

_Click: TypeAlias = Any
"""Class of click, which typer has as a dependency or as a copy of its own, depending on its version."""
_WHOLE = 200
"""Characters of a first sentence that the list of commands shows."""


class Commands(TyperGroup):
    """Group of commands, each listed in its panel with the first sentence of its help."""

    def resolve_command(self, ctx: _Click, args: list[str]) -> tuple[str | None, _Click | None, list[str]]:
        if args and " " in args[0].strip():
            ctx.fail(f'No such command {args[0]!r}. To debate a question: flowdebate debate "…"')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: _Click, formatter: _Click) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None:
                panel = getattr(command, "rich_help_panel", None)
                panels.setdefault(_title(panel, "Commands"), []).append((name, command.get_short_help_str(_WHOLE)))
        _write(panels, formatter)


class Command(TyperCommand):
    """Command whose options are listed in panels."""

    def format_options(self, ctx: _Click, formatter: _Click) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None)
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(_title(panel, default), []).append(record)
        _write(panels, formatter)


def _title(panel: object, default: str) -> str:
    """The panel's title; typer has a placeholder in place of None."""
    return panel if isinstance(panel, str) else default


def _write(panels: dict[str, list[tuple[str, str]]], formatter: _Click) -> None:
    for panel, rows in panels.items():
        with formatter.section(panel):
            formatter.write_dl(rows)
