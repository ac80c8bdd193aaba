"""Command options, each declared once for both typer and shell completion, with a type that validates it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import Field

from flowdebate._util.option_types import Count, Text, check_option, number
from flowdebate.cli.terminal.process import report_problems, report_warnings
from flowdebate.errors import ConfigurationError
from flowdebate.ui.options import COMMAND, FilePath, Option, PlanOptions, misuse, option_of
from flowdebate.ui.statuses import State

File: TypeAlias = Annotated[
    FilePath | None,
    Option(metavar="FILE", help="Plan file with these options, as TOML or JSON; options given here take precedence."),
]
StoreName: TypeAlias = Annotated[
    str | None,
    Option(
        panel="Storage",
        metavar="WHERE",
        help="Store for runs: a file, or postgresql://… Default: FLOWDEBATE_STORE, else one in your data directory.",
    ),
]
NoStore: TypeAlias = Annotated[bool, Option(panel="Storage", help="Do not store the run.")]
RunId: TypeAlias = Annotated[
    Text | None, Option(panel="Storage", metavar="ID", help="ID of the run. Default: a random one.")
]
Resume: TypeAlias = Annotated[
    bool,
    Option(
        panel="Storage",
        help="If there is a run with this id, continue it, or wait for the process that is executing it.",
    ),
]
FORM = Option(
    panel="Output", flag="--format", help="Print only the result, in a format for other tools; json is JSON Lines."
)
MEASURED = {
    "demo": Option(panel="Output", help="Show a recorded review by the local model; no model or key is needed."),
    "page": Option(panel="Output", help="With --demo: show it in a browser."),
    "benchmark": Option(
        panel="Output",
        help="Review changes with planted faults, and count how many are found. The argument is then a file of "
        "changes. Default: evidence/review_faults.jsonl. To continue, repeat the command.",
    ),
}
"""Options for patterns with a recorded run and a benchmark."""
PULL_REQUEST = {
    "pr": (
        Count,
        Option(
            help="Review the GitHub pull request with this number in GITHUB_REPOSITORY, using GITHUB_TOKEN.",
            panel="Sides",
            metavar="N",
        ),
        None,
    ),
    "since": (
        Text,
        Option(
            help="Review only what is new in a pull request since this commit. Default: since the last run "
            "with --post.",
            panel="Sides",
            metavar="COMMIT",
        ),
        None,
    ),
    "post": (
        bool,
        Option(
            help="Post the review on the pull request: one comment with notes on lines, updated by later runs.",
            panel="Output",
        ),
        False,
    ),
}
"""Options for pull request reviews."""
RUN = "ID of a run, or at least its first 4 characters."
RunName: TypeAlias = Annotated[str | None, Option(metavar="RUN", help=RUN)]
RunNames: TypeAlias = Annotated[list[str] | None, Option(metavar="RUN", help=RUN)]
TrustPlan: TypeAlias = Annotated[
    bool, Option(help="Trust the addresses and paths in the plan of an imported run without asking.")
]
Json: TypeAlias = Annotated[
    bool, Option(panel="Output", flag="--json", help="Print one JSON document on stdout, and nothing else.")
]
Markdown: TypeAlias = Annotated[
    Path | None, Option(panel="Output", metavar="FILE", help="Also write a report as Markdown.")
]
Quiet: TypeAlias = Annotated[bool, Option(panel="Output", flag="--quiet -q", help="Show only the result.")]
Yes: TypeAlias = Annotated[
    bool, Option(panel="Sides", flag="--yes -y", help="Debate proposed sides without asking first.")
]
Models: TypeAlias = Annotated[
    list[Text] | None,
    Option(
        panel="Model",
        flag="--model",
        metavar="[NAME=]SPEC",
        help="Another model for the run; repeat with NAME= or ROLE= for one speaker or role, such as judge.",
    ),
]
Status: TypeAlias = Annotated[
    State | None,
    Option(
        panel="Selection",
        metavar="STATUS",
        help="Only runs that are queued, running, left_behind, complete, degraded, no_verdict, interrupted, "
        "failed, awaiting, rejected, dead_letter, or ended by a limit (limit).",
    ),
]
Pattern: TypeAlias = Annotated[
    Text | None, Option(panel="Selection", metavar="NAME", help="Only runs of this pattern: debate, consensus, …")
]
Search: TypeAlias = Annotated[
    Text | None,
    Option(
        panel="Selection",
        metavar="TEXT",
        help="Only runs with this text in their question. One or two characters are searched for in the newest "
        "10,000 runs only.",
    ),
]

Days: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False), number(minimum=0)]
Labels: TypeAlias = Annotated[
    list[Text] | None,
    Option(flag="--label", panel="Selection", metavar="NAME=VALUE", help="Only runs with this label; repeat for each."),
]

OwnLabels: TypeAlias = Annotated[
    list[Text] | None,
    Option(flag="--label", panel="Storage", metavar="NAME=VALUE", help="A label to find the run by; repeat for each."),
]


def read_labels(labels: Sequence[str] | None) -> dict[str, str]:
    """Parse labels into a dictionary; raise ConfigurationError for an invalid label."""
    for label in labels or ():
        check(label.partition("=")[0] and "=" in label, "--label", "must be NAME=VALUE, such as owner=ann", label)
    return dict(label.split("=", 1) for label in labels or ())


# For commands with many questions

Concurrency: TypeAlias = Annotated[Count, Option(metavar="N", help="Maximum number of runs at once.")]
BatchName: TypeAlias = Annotated[
    Text | None,
    Option(
        panel="Storage",
        flag="--batch-id",
        metavar="NAME",
        help="Name of the batch in the store. Default: derived from its questions and options.",
    ),
]
FirstOnly: TypeAlias = Annotated[Count | None, Option(metavar="N", help="Only the first N questions.")]
TotalCalls: TypeAlias = Annotated[
    Count | None, Option(panel="Limits", metavar="N", help="Start no more questions after this many requests.")
]
TotalTokens: TypeAlias = Annotated[
    Count | None, Option(panel="Limits", metavar="N", help="Start no more questions after this many tokens.")
]


def check(fits: object, option: str, problem: str, got: object = None) -> None:
    """Raise a ConfigurationError about `option` unless `fits` is true."""
    if not fits:
        raise ConfigurationError(COMMAND, option, got, problem)


def check_named(option: str, name: str | None, *, resume: bool) -> None:
    """Raise ConfigurationError if the run ID is invalid, or if --resume is used without a run ID."""
    check_option(Text, option, name, location=COMMAND)
    if resume and name is None:
        raise misuse("--resume", resume, f"--resume requires {option} ID, to say which run to continue.")


# Commands


def command(*shared: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Build a command from a function whose parameters are `Annotated[kind, Option(...)]`.

    Positional parameters become arguments. `shared` lists the options common to all patterns, passed to the function as
    parameters of the same name or as `**given`. Values are validated against their types before the function is called.
    Library errors and warnings become messages on stderr.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        kinds: dict[str, tuple[Any, str]] = {}
        parameters = []
        for name, parameter_ in signature(function).parameters.items():
            if name not in shared and parameter_.kind is not Parameter.VAR_KEYWORD:
                option = next(item for item in hints[name].__metadata__ if isinstance(item, Option))
                argument = parameter_.kind is Parameter.POSITIONAL_OR_KEYWORD
                kinds[name] = hints[name], _metavar_of(name, option) if argument else _flags_of(name, option)[0]
                parameters.append(parameter(name, hints[name], option, parameter_.default, argument=argument))
        for name in shared:
            kind, option = PlanOptions.model_fields[name].annotation, option_of(PlanOptions, name)
            if not option.repeated:  # repeated options are checked after parsing
                kinds[name] = kind, _flags_of(name, option)[0]
            parameters.append(parameter(name, kind, option))

        @wraps(function)
        def checked(**values: object) -> None:
            with report_problems(), report_warnings():
                for name, (kind, place) in kinds.items():
                    check_option(kind, place, values[name], location=COMMAND)
                function(**values)

        return with_parameters(checked, parameters)

    return decorate


def parameter(name: str, kind: object, option: Option, default: object = None, *, argument: bool = False) -> Parameter:
    """Return the typer parameter for an option of type `kind`; a bool without a default also gets a `--no-…` flag."""
    plain, values = _kind_of(kind)
    if option.repeated:
        plain = list
    elif option.read is not None and plain is not list:
        plain = str
    settings: dict[str, Any] = {
        "autocompletion": _completer_of(_metavar_of(name, option) if argument else option.metavar, values),
        "metavar": option.metavar or "|".join(values) or ("N" if plain is int else None),
        "help": option.help,
    }
    if argument:
        declared = typer.Argument(**{**settings, "metavar": _metavar_of(name, option)}, show_default=False)
    else:
        flags = _flags_of(name, option)
        if plain is bool and default is None:  # None means "not passed", so a plan file can set it; False means "no"
            flags = [f"{flags[0]}/--no-{flags[0].removeprefix('--')}"]
        settings |= {"rich_help_panel": option.panel, "show_default": default is not None}
        declared = typer.Option(*flags, **settings)
    shown_type: type = list[str] if plain is list else plain
    value_type = shown_type | None if default is None else shown_type
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value_type, declared])


def with_parameters(function: Callable[..., None], parameters: Iterable[Parameter]) -> Callable[..., None]:
    """Return `function` with a signature that typer can read."""
    # typer reads names and defaults from the signature, and types from the annotations
    signature_read = Signature(list(parameters))
    function.__signature__ = signature_read  # type: ignore[attr-defined]  # what inspect looks at
    function.__annotations__ = {name: declared.annotation for name, declared in signature_read.parameters.items()}
    return function


def _metavar_of(name: str, option: Option) -> str:
    return option.metavar or name.upper()


def _flags_of(name: str, option: Option) -> list[str]:
    return (option.flag or f"--{name.replace('_', '-')}").split()


def _kind_of(annotation: object) -> tuple[type, tuple[str, ...]]:
    """Return the command-line type of a field, and the values it allows."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kind_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return _kind_of(next(part for part in get_args(annotation) if part is not NoneType))
    if origin is Literal:
        return str, get_args(annotation)
    if origin is list:
        return list, ()
    return next((kind for kind in (bool, int, float, Path) if annotation is kind), str), ()


# Shell completion

_MODELS = ("SPEC", "[NAME=]SPEC")
_NEWEST = 50
"""Number of recent runs offered as completions, kept small because the shell waits for the list."""


def _completer_of(metavar: str | None, values: Sequence[str]) -> Callable[..., object] | None:
    """Return the typer completer for an option with the given `metavar` or a fixed set of `values`."""

    # typer drops values that do not begin with the typed text
    def complete(ctx: typer.Context) -> list[tuple[str, str]]:
        offered: Iterable[tuple[str, str]] = ((value, "") for value in values)
        if metavar in _MODELS and not values:
            from flowdebate.models.providers import PROVIDERS

            # A provider ends with a slash, because the user types the model's name after it.
            names = ("local", "each") if metavar != "SPEC" else ("local",)
            offered = ((name, "") for name in (*names, *(f"{provider}/" for provider in PROVIDERS)))
        elif metavar == "PATTERN":
            from flowdebate.patterns import PATTERNS

            offered = ((name, info.help.partition(". ")[0]) for name, info in PATTERNS.items())
        elif metavar == "RUN":
            from flowdebate.errors import FlowDebateError
            from flowdebate.service.runs import list_runs, opened, short_id
            from flowdebate.ui.text import in_line

            # Errors are ignored because a message would appear in the middle of the command line.
            with suppress(FlowDebateError, OSError), opened(ctx.params.get("store")) as place:
                runs = asyncio.run(list_runs(place.store, limit=_NEWEST, brief=True))
                offered = [(short_id(run.header.run_id), in_line(run.header.question)) for run in runs]
        return list(offered)

    return complete if values or metavar in (*_MODELS, "PATTERN", "RUN") else None
