"""Commands of the patterns, made from the registry: their options are the fields of the patterns' option models."""

from __future__ import annotations

from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.execute import ask_here, run_plan
from flowdebate.cli.help import Command
from flowdebate.cli.terminal.process import problems_reported, warnings_reported
from flowdebate.patterns import PATTERNS
from flowdebate.service.plans.options import Option, OutputOptions, PatternOptions, misuse, option_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.patterns import PatternInfo


_HERE = {
    "file": opt.File,
    "store": opt.StoreName,
    "no_store": opt.NoStore,
    "as_json": opt.Json,
    "markdown": opt.Markdown,
    "quiet": opt.Quiet,
    "yes": opt.Yes,
}
"""Options of this front end alone."""


def add_pattern_commands(app: typer.Typer, *, panel: str) -> None:
    """Add a command for each registered pattern, and `run` for plan files, under `panel` of the help."""
    for info in PATTERNS.values():
        app.command(info.verb, help=info.help, cls=_class_of(info), rich_help_panel=panel)(_nothing)
    app.command("run", help=_RUN_HELP, cls=Command, rich_help_panel=panel)(_run_command())


def _nothing() -> None:
    """Stand-in for the function of a command that is not loaded."""


_RUN_HELP = (
    "Run a pattern from a plan file. The file, TOML or JSON, has the options of the pattern's command and "
    "pattern = NAME."
)


def _class_of(info: PatternInfo) -> type[Command]:
    """The class of a pattern's command, which loads the pattern when it is run or its own help is shown."""

    class PatternCommand(Command):
        @cached_property
        def loaded(self) -> Any:  # noqa: ANN401 - a command of click
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            alone.command(info.verb)(_command(info))
            return typer.main.get_command(alone)

        @property
        def params(self) -> Any:  # noqa: ANN401 - of click
            return self.loaded.params

        @params.setter
        def params(self, _: object) -> None: ...  # those of `_nothing`

        def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - of click
            return self.loaded.invoke(ctx)

    return PatternCommand


def _command(info: PatternInfo) -> Callable[..., None]:
    """The function behind a pattern's command."""

    def run(**given: Any) -> None:  # noqa: ANN401 - the options of the command
        here = {name: given.pop(name, False) for name in _HERE}
        _run(info, given, **here)

    page = info.load_page()
    here = (each for each in _here() if each.name != "yes" or page.proposes)
    return opt.with_parameters(run, [*parameters_of(page.options), *here])


def _here() -> Iterator[Parameter]:
    for name, annotation in _HERE.items():
        kind, *_, option = get_args(annotation)
        yield opt.parameter(name, kind, option, False if kind is bool else None)


def _run_command() -> Callable[..., None]:
    """The function behind `run`, which takes the options that patterns share."""

    def run(**given: Any) -> None:  # noqa: ANN401 - the options of the command
        here = {name: given.pop(name) for name in _HERE if name != "file"}
        path = given.pop("plan")
        with problems_reported():
            from flowdebate.service.plans.plan import pattern_of_file

            if not Path(path).is_file():
                raise misuse(
                    "PLAN", path, f'There is no plan file {path!r}. To debate a question: flowdebate debate "…"'
                )
            info = pattern_of_file(path)
            given = known_options(info, given)
        _run(info, given, file=path, **here)

    plan = opt.parameter("plan", str, Option(help="The plan file."), Parameter.empty, argument=True)
    here = (each for each in _here() if each.name != "file")
    return opt.with_parameters(run, [plan, *parameters_of(PatternOptions), *here])


def _run(info: PatternInfo, given: dict[str, Any], *, file: str | None, **here: Any) -> None:  # noqa: ANN401 - options
    with problems_reported(), warnings_reported():
        from flowdebate.service.plans.plan import make_plan

        plan = make_plan(info, given, file=file, ask=ask_here())
        code = run_plan(plan, **here)
    raise typer.Exit(code)


def known_options(info: PatternInfo, given: dict[str, Any]) -> dict[str, Any]:
    """What was given; ConfigurationError for an option that the pattern does not have."""
    options = info.load_page().options
    given = {key: value for key, value in given.items() if value is not None and value != []}
    if "rounds" in given:
        given[options.LENGTH] = given.pop("rounds")
    for key, value in given.items():
        if key not in options.keys().values():
            option = f"--{key.replace('_', '-')}"
            raise misuse(option, value, f"{info.verb} has no option {option}.")
    return given


def parameters_of(options: type[PatternOptions]) -> Iterator[Parameter]:
    """The parameter of each option: the pattern's own come first, those that all patterns have last."""
    shared = dict.fromkeys(OutputOptions.model_fields, 1) | dict.fromkeys(PatternOptions.model_fields, 2)
    for name in sorted(options.keys().values(), key=lambda name: shared.get(name, 0)):
        option, kind = option_of(options, name), options.model_fields[name].annotation
        if name == options.SUBJECT or option.flag != "":
            yield opt.parameter(name, kind, option, argument=name == options.SUBJECT)
