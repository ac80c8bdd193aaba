"""The `flowdebate` command line: top-level commands, and the groups `runs` and `eval`.

Each command is loaded on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Annotated, NamedTuple

import typer

from flowdebate.cli.help import Commands, Group, RunCommands, deferred
from flowdebate.patterns import PATTERNS, PatternInfo

_NARROWEST = 20
"""Minimum page width, in columns; on a narrower page, indented words would not fit on a line."""
_WIDEST = 100
"""Maximum width of help pages, in columns; wider pages are hard to read."""


class _Entry(NamedTuple):
    """A command, identified by its function's import path."""

    place: str
    line: str
    """Description shown in the list of commands."""
    hidden: bool = False


_RUNS = "flowdebate.cli.stored.runs"
_SHOW = _Entry(f"{_RUNS}:show", "Show a run: its labels, its note, its steps and its result.")
_EXPORT = _Entry(f"{_RUNS}:export", "Export runs to a file.")
_IMPORT = _Entry(f"{_RUNS}:import_", "Import runs from an exported file.")
_COMMANDS = {
    "compare": _Entry("flowdebate.cli.study:compare", "Compare texts that answer a question; judges read them blind."),
    "run": _Entry("flowdebate.cli.patterns:run_plan", "Run a pattern from a plan file."),
    "resume": _Entry(
        "flowdebate.cli.stored.resume:resume", "Resume a run that was interrupted, failed or reached a limit."
    ),
    "serve": _Entry("flowdebate.cli.serving:serve", "Start the web app and the HTTP API."),
    "mcp": _Entry("flowdebate.cli.serving:mcp", "Offer debates to an MCP host, such as an editor or a chat app."),
    "models": _Entry("flowdebate.cli.models:models", "Show which models would be used, and check what they can do."),
    "batch": _Entry("flowdebate.cli.batch:batch", "Run a pattern on each question in a file.", hidden=True),
    "demo": _Entry("flowdebate.cli.demo:demo", "Play a recorded debate, without a model or a key.", hidden=True),
    "show": _SHOW._replace(hidden=True),
    "export": _EXPORT._replace(hidden=True),
    "import": _IMPORT._replace(hidden=True),
}
"""Commands that are not tied to a pattern."""
_OF_RUNS = {
    "list": _Entry(f"{_RUNS}:runs", "List stored runs, newest first (the default)."),
    "show": _SHOW,
    "watch": _Entry("flowdebate.cli.stored.watch:watch", "Watch a run that another process is executing."),
    "answer": _Entry(
        "flowdebate.cli.stored.resume:answer", "Answer a question that a run asked a human, and resume it."
    ),
    "fork": _Entry(
        "flowdebate.cli.stored.resume:fork", "Run a stored run again with changes; you only pay for what differs."
    ),
    "report": _Entry(f"{_RUNS}:report", "Write the report of a run to a file."),
    "verify": _Entry(f"{_RUNS}:verify", "Check a report against the journal inside it."),
    "render": _Entry(f"{_RUNS}:render", "Show a saved JSON document again."),
    "share": _Entry(f"{_RUNS}:share", "Make a public, read-only link to a run, or revoke it."),
    "export": _EXPORT,
    "import": _IMPORT,
    "delete": _Entry(f"{_RUNS}:delete", "Delete runs."),
    "archive": _Entry(f"{_RUNS}:archive", "Show and correct the archive of consensus debates."),
    "queue": _Entry("flowdebate.cli.serving:queue", "Show the queue of your workers; submit, resume or cancel runs."),
}
_OF_EVAL = {
    "benefit": _Entry(
        "flowdebate.cli.benefit:benefit", "Measure whether debates help, on questions with known answers."
    ),
    "study": _Entry("flowdebate.cli.study:study", "Compare several debate designs with baselines."),
    "critic": _Entry("flowdebate.cli.critics:critic", "Check on labeled answers whether critiques help."),
    "audit": _Entry("flowdebate.cli.ballots:audit", "Audit judges for bias and consistency."),
    "leaderboard": _Entry("flowdebate.cli.ballots:leaderboard", "Rank models and judges by stored debates."),
}


def build_app() -> typer.Typer:
    """Build the command, with one subcommand per registered pattern."""
    app = _group(Commands)
    app.callback()(flowdebate)
    for info in PATTERNS.values():
        line = info.help.partition(". ")[0].removesuffix(".")
        app.command(info.verb, cls=deferred(info.verb, _of_pattern(info)), short_help=f"{line}.")(_unloaded)
    _add(app, _COMMANDS)
    for name, cls, entries, line in (
        ("eval", Group, _OF_EVAL, "Measure debates, audit judges and rank models."),
        ("runs", RunCommands, _OF_RUNS, "List, show, watch, fork, share, export or delete stored runs."),
    ):
        group = _group(cls)
        _add(group, entries)
        app.add_typer(group, name=name, help=_GROUP_HELP[name], short_help=line)
    return app


_GROUP_HELP = {
    "eval": "Measure whether debates help, audit judges, and rank models.",
    "runs": "List stored runs, newest first, or work with them.",
}


def _group(cls: type[Group]) -> typer.Typer:
    return typer.Typer(
        cls=cls,
        no_args_is_help=cls is not RunCommands,
        pretty_exceptions_enable=False,  # rich's tracebacks can show local variables, including API keys
        rich_markup_mode=None,  # plain help loads quickly and does not interpret markup in user input
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
    )


def _of_pattern(info: PatternInfo) -> Callable[[], Callable[..., object]]:
    def load() -> Callable[..., object]:
        from flowdebate.cli.patterns import pattern_command

        return pattern_command(info)

    return load


def _add(group: typer.Typer, entries: dict[str, _Entry]) -> None:
    for name, entry in entries.items():
        cls = deferred(name, partial(_load, entry.place))
        group.command(name, cls=cls, short_help=entry.line, hidden=entry.hidden)(_unloaded)


def _load(place: str) -> Callable[..., object]:
    function: Callable[..., object] = resolve_name(place)
    return function


def _unloaded() -> None:
    """Stand in for a command's function until the function is loaded."""


def _version(is_asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if is_asked:
        from flowdebate import __version__

        typer.echo(f"flowdebate {__version__}")
        raise typer.Exit


def flowdebate(
    ctx: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Do not use colors (the same as NO_COLOR=1).")] = False,
    width: Annotated[
        int | None,
        typer.Option(min=_NARROWEST, metavar="N", help="Width of pages in columns (the same as COLUMNS=N)."),
    ] = None,
    log_json: Annotated[
        str | None,
        typer.Option(
            "--log-json",
            metavar="FILE",
            help='Append the log to this file as lines of JSON, without content; "-" is stderr.',
        ),
    ] = None,
) -> None:
    """Hold debates between language models."""
    environment = {"NO_COLOR": "1" if no_color else None, "COLUMNS": None if width is None else str(width)}
    before = {name: os.environ.get(name) for name, value in environment.items() if value is not None}
    # typer and rich read these variables when they format pages
    os.environ.update({name: value for name, value in environment.items() if value is not None})

    def restore() -> None:  # restored because the process may continue, as it does in tests
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    ctx.call_on_close(restore)
    if log_json is not None:
        from flowdebate.cli.terminal.process import log_to, report_problems

        with report_problems():
            ctx.call_on_close(log_to(log_json))


app: typer.Typer = build_app()
