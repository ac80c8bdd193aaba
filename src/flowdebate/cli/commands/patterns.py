"""Commands of the patterns, made from the registry: their options are the fields of the patterns' option models."""

from __future__ import annotations

import sys
from inspect import Parameter, Signature
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.command import EXIT_CODES, hold_plan, problems_told
from flowdebate.cli.help import Command
from flowdebate.cli.streams import warnings_told
from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS
from flowdebate.service.options import COMMAND, Option, OutputOptions, PatternOptions, option_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.blocks.human.human import Ask
    from flowdebate.patterns import PatternInfo

__all__ = ("add_pattern_commands", "ask_here", "known_options", "parameters_of")

_HERE = {
    "file": (opt.File, None),
    "store": (opt.StoreName, None),
    "no_store": (opt.NoStore, False),
    "as_json": (opt.Json, False),
    "markdown": (opt.Markdown, None),
}
"""Options of this front end alone."""


def add_pattern_commands(app: typer.Typer, *, panel: str) -> None:
    """Add a command for each registered pattern, and `run` for plan files, under `panel` of the help."""
    for info in PATTERNS.values():
        app.command(info.verb, help=info.load_page().help, cls=Command, epilog=EXIT_CODES, rich_help_panel=panel)(
            _command(info)
        )
    app.command("run", help=_RUN_HELP, cls=Command, epilog=EXIT_CODES, rich_help_panel=panel)(_run_command())


_RUN_HELP = (
    "Run a pattern from a plan file. The file, TOML or JSON, has the options of the pattern's command and "
    "pattern = NAME."
)


def _command(info: PatternInfo) -> Callable[..., None]:
    """The function behind a pattern's command."""

    def hold(**given: Any) -> None:  # noqa: ANN401 - the options of the command
        here = {name: given.pop(name) for name in _HERE}
        _hold(info, given, **here)

    return _with_parameters(hold, {**parameters_of(info.load_page().options), **_HERE})


def _run_command() -> Callable[..., None]:
    """The function behind `run`, which takes the options that patterns share."""

    def run(**given: Any) -> None:  # noqa: ANN401 - the options of the command
        here = {name: given.pop(name) for name in _HERE if name != "file"}
        path = given.pop("plan")
        with problems_told():
            from flowdebate.service.plan import pattern_of_file

            if not Path(path).is_file():
                hint = 'To debate a question: flowdebate debate "…"'
                raise ConfigurationError(COMMAND, "PLAN", path, "the path of a plan file", hint=hint)
            info = pattern_of_file(path)
            given = known_options(info, given)
        _hold(info, given, file=path, **here)

    plan = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file.")]
    shared = parameters_of(PatternOptions)
    here = {name: value for name, value in _HERE.items() if name != "file"}
    return _with_parameters(run, {"plan": (plan, Parameter.empty), **shared, **here})


def _hold(info: PatternInfo, given: dict[str, Any], *, file: str | None, **here: Any) -> None:  # noqa: ANN401 - options
    with problems_told(), warnings_told():
        from flowdebate.service.plan import make_plan

        plan = make_plan(info, given, file=file, ask=ask_here())
        code = hold_plan(plan, **here)
    raise typer.Exit(code)


def ask_here() -> Ask | None:
    """How a human is asked: in the terminal; None where there is none, and it answers later."""
    from flowdebate.blocks.human.terminal import ask_in_terminal

    return ask_in_terminal if sys.stdin.isatty() else None


def known_options(info: PatternInfo, given: dict[str, Any]) -> dict[str, Any]:
    """What was given; ConfigurationError for an option that the pattern does not have."""
    options = info.load_page().options
    given = {key: value for key, value in given.items() if value is not None and value != []}
    if "rounds" in given:
        given[options.LENGTH] = given.pop("rounds")
    for key, value in given.items():
        if key not in options.keys().values():
            option = f"--{key.replace('_', '-')}"
            raise ConfigurationError(COMMAND, option, value, f"left out: {info.name} has no such option")
    return given


# Parameters of typer from fields of pydantic


def parameters_of(options: type[PatternOptions]) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each option: the pattern's own come first, those that all patterns have last."""
    shared = dict.fromkeys(OutputOptions.model_fields, 1) | dict.fromkeys(PatternOptions.model_fields, 2)
    names = sorted(options.keys().values(), key=lambda name: shared.get(name, 0))
    return dict(_parameters(options, names))


def _parameters(options: type[PatternOptions], names: list[str]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in names:
        option = option_of(options, name)
        if name == getattr(options, "SUBJECT", None):
            yield (
                name,
                (
                    Annotated[str | None, typer.Argument(metavar=name.upper(), help=option.help, show_default=False)],
                    None,
                ),
            )
        elif option.flag != "":
            yield name, (_annotation(options, name, option), None)


def _annotation(options: type[PatternOptions], name: str, option: Option) -> Any:  # noqa: ANN401 - an annotation
    flag = options.flag_of(name)
    kind, values = _kind_of(options.model_fields[name].annotation)
    if option.read is not None and kind is not list:
        kind = str
    metavar = option.metavar or ("|".join(values) if values else None)
    declared = f"{flag}/--no-{flag.removeprefix('--')}" if kind is bool else flag
    shown: Any = list[str] if kind is list else kind
    about: dict[str, Any] = {"metavar": metavar, "help": option.help, "rich_help_panel": opt.PANEL_OF.get(name)}
    return Annotated[shown | None, typer.Option(declared, **about, show_default=False)]


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
    return (annotation if annotation in (bool, int, float) else str), ()


def _with_parameters(function: Callable[..., None], parameters: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    """`function` with a signature for typer to read."""
    function.__signature__ = Signature(  # type: ignore[attr-defined]  # what inspect looks at
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in parameters.items()
        ]
    )
    function.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    return function
