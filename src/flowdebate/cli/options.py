"""Options of commands: typed once, checked by their types, and listed in panels of a plain-text help."""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from flowdebate.cli.command import problems_reported
from flowdebate.cli.process import warnings_reported
from flowdebate.errors import ConfigurationError
from flowdebate.service.options import (
    COMMAND,
    Count,
    FilePath,
    Option,
    PatternOptions,
    State,
    Text,
    check_option,
    option_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = (
    "RUN",
    "BatchName",
    "Block",
    "Command",
    "Commands",
    "Concurrency",
    "File",
    "FirstOnly",
    "Json",
    "Markdown",
    "NoStore",
    "RunName",
    "RunNames",
    "Search",
    "Status",
    "StoreName",
    "TotalCalls",
    "TotalTokens",
    "TrustPlan",
    "check",
    "command",
    "parameter",
    "with_parameters",
)

_PANELS = {
    "Models": ("model", "judge_model", "base_url", "attempts", "fallback", "on_failure"),
    "Limits": ("max_calls", "max_tokens", "max_seconds", "max_total_calls", "max_total_tokens"),
    "Storage": ("record", "replay", "store", "no_store", "name"),
    "Output": ("as_json", "markdown"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
"""Panel of the help for each option that several commands have."""

File: TypeAlias = Annotated[
    FilePath | None,
    Option(metavar="FILE", help="Plan file with these options, as TOML or JSON; options given here win."),
]
StoreName: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="WHERE",
        help="Store of the runs: a file, or postgresql://… Default: FLOWDEBATE_STORE, else one in your data directory.",
    ),
]
NoStore: TypeAlias = Annotated[bool, Option(help="Do not store the run.")]
RUN = "Id of a run, or at least its first 4 characters."
RunName: TypeAlias = Annotated[str | None, Option(metavar="RUN", help=RUN)]
RunNames: TypeAlias = Annotated[list[str] | None, Option(metavar="RUN", help=RUN)]
TrustPlan: TypeAlias = Annotated[
    bool, Option(help="Use the addresses and paths that the plan of an imported run names, without being asked.")
]
Json: TypeAlias = Annotated[bool, Option(flag="--json", help="Print one JSON document on stdout, and nothing else.")]
Markdown: TypeAlias = Annotated[Path | None, Option(metavar="FILE", help="Also write a report as Markdown.")]
Status: TypeAlias = Annotated[
    State | None,
    Option(
        metavar="STATUS",
        help="Only runs that are queued, running, left_behind, complete, degraded, no_verdict, interrupted, "
        "failed, awaiting, dead_letter, or ended by a limit (limit).",
    ),
]
Block: TypeAlias = Annotated[Text | None, Option(metavar="NAME", help="Only runs of this block: debate, consensus, …")]
Search: TypeAlias = Annotated[Text | None, Option(metavar="TEXT", help="Only runs with this text in their question.")]

# Of commands that ask many questions

Concurrency: TypeAlias = Annotated[Count, Option(metavar="N", help="Maximum number of runs at once.")]
BatchName: TypeAlias = Annotated[
    Text | None,
    Option(
        flag="--batch",
        metavar="NAME",
        help="Name of the batch in the store. Default: made of its questions and options.",
    ),
]
FirstOnly: TypeAlias = Annotated[Count | None, Option(metavar="N", help="Only the first N questions.")]
TotalCalls: TypeAlias = Annotated[
    Count | None, Option(metavar="N", help="Start no further question after this many requests.")
]
TotalTokens: TypeAlias = Annotated[
    Count | None, Option(metavar="N", help="Start no further question after this many tokens.")
]


def check(fits: object, option: str, got: object, allowed: str) -> None:
    """ConfigurationError about `option` unless `fits`."""
    if not fits:
        raise ConfigurationError(COMMAND, option, got, allowed)


# Commands


def command(*shared: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function whose parameters are `Annotated[kind, Option(...)]`; positional ones are arguments.

    `shared` are options of all patterns, which the function takes as `**given`. Values are checked by their kinds
    before the function is called; errors and warnings of the library are messages on stderr.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        kinds: dict[str, tuple[Any, str]] = {}
        parameters = []
        for name, given in signature(function).parameters.items():
            if given.kind is not Parameter.VAR_KEYWORD:
                option = next(item for item in hints[name].__metadata__ if isinstance(item, Option))
                argument = given.kind is Parameter.POSITIONAL_OR_KEYWORD
                kinds[name] = hints[name], _metavar(name, option) if argument else _flags(name, option)[0]
                parameters.append(parameter(name, hints[name], option, given.default, argument=argument))
        for name in shared:
            kind, option = PatternOptions.model_fields[name].annotation, option_of(PatternOptions, name)
            kinds[name] = kind, _flags(name, option)[0]
            parameters.append(parameter(name, kind, option))

        @wraps(function)
        def checked(**given: Any) -> None:  # noqa: ANN401 - the options of the command
            with problems_reported(), warnings_reported():
                for name, (kind, place) in kinds.items():
                    check_option(kind, place, given[name])
                function(**given)

        return with_parameters(checked, parameters)

    return decorate


def parameter(name: str, kind: Any, option: Option, default: Any = None, *, argument: bool = False) -> Parameter:  # noqa: ANN401 - any annotation and value
    """The parameter that typer reads for an option of a kind; a bool without a default can also be switched off."""
    plain, values = _kind_of(kind)
    if option.read is not None and plain is not list:
        plain = str
    about: dict[str, Any] = {"metavar": option.metavar or "|".join(values) or None, "help": option.help}
    if argument:
        declared = typer.Argument(**{**about, "metavar": _metavar(name, option)}, show_default=False)
    else:
        flags = _flags(name, option)
        if plain is bool and default is None:
            flags = [f"{flags[0]}/--no-{flags[0].removeprefix('--')}"]
        about |= {"rich_help_panel": _PANEL_OF.get(name), "show_default": default is not None}
        declared = typer.Option(*flags, **about)
    shown: Any = list[str] if plain is list else plain
    given: Any = shown | None if default is None else shown
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[given, declared])


def with_parameters(function: Callable[..., None], parameters: Iterable[Parameter]) -> Callable[..., None]:
    """`function` with a signature for typer to read."""
    function.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined]  # what inspect looks at
    function.__annotations__ = {each.name: each.annotation for each in function.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return function


def _metavar(name: str, option: Option) -> str:
    return option.metavar or name.upper()


def _flags(name: str, option: Option) -> list[str]:
    return (option.flag or f"--{name.replace('_', '-')}").split()


def _kind_of(annotation: Any) -> tuple[type, tuple[str, ...]]:  # noqa: ANN401 - an annotation
    """What the command line takes for a field, and the words that it may be."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kind_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return _kind_of(next(part for part in get_args(annotation) if part is not NoneType))
    if origin is Literal:
        return str, get_args(annotation)
    if origin is list:
        return list, ()
    return (annotation if annotation in (bool, int, float, Path) else str), ()


# Help


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
        order = ["Arguments", "Options", *_PANELS]
        _write(dict(sorted(panels.items(), key=lambda item: order.index(item[0]))), formatter)


def _title(panel: object, default: str) -> str:
    """The panel's title; typer has a placeholder in place of None."""
    return panel if isinstance(panel, str) else default


def _write(panels: dict[str, list[tuple[str, str]]], formatter: _Click) -> None:
    for panel, rows in panels.items():
        with formatter.section(panel):
            formatter.write_dl(rows)
