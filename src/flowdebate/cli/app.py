"""The commands of `flowdebate`, grouped as its help shows them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.ballots import audit, leaderboard
from flowdebate.cli.batch import batch
from flowdebate.cli.demo import demo
from flowdebate.cli.evaluate import evaluate
from flowdebate.cli.help import Command, Commands
from flowdebate.cli.models import models
from flowdebate.cli.patterns import add_pattern_commands
from flowdebate.cli.serving import mcp, queue, serve
from flowdebate.cli.stored.resume import answer, fork, resume
from flowdebate.cli.stored.runs import archive, delete, export, import_, report, runs, share, show, verify
from flowdebate.cli.stored.watch import watch
from flowdebate.cli.study import compare, study
from flowdebate.cli.terminal.process import check_target, log_to, open_page, report_problems, write_report
from flowdebate.errors import BadFile
from flowdebate.ui.options import Option

_NARROWEST = 20
"""Columns of a page: with fewer, an indented word does not fit."""
_WIDEST = 100
"""Columns beyond which help is hard to read."""


def build_app() -> typer.Typer:
    """The command, with one subcommand for each registered pattern."""
    app = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # rich's tracebacks can show local variables, such as keys
        rich_markup_mode=None,  # plain help starts fast, and reads no markup in what the user typed
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
    )
    app.callback()(flowdebate)
    add_pattern_commands(app, panel="Patterns")
    for panel, commands in _COMMANDS.items():
        for name, command in commands.items():
            app.command(name, cls=Command, rich_help_panel=panel)(command)
    return app


def _version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
        from flowdebate import __version__

        typer.echo(f"flowdebate {__version__}")
        raise typer.Exit


def flowdebate(
    ctx: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Write no colours, as with NO_COLOR=1.")] = False,
    width: Annotated[
        int | None,
        typer.Option(min=_NARROWEST, metavar="N", help="Columns of pages, as with COLUMNS=N."),
    ] = None,
    log_json: Annotated[
        str | None,
        typer.Option(
            "--log-json", metavar="FILE", help='Append the log as lines of JSON, without content; "-" is stderr.'
        ),
    ] = None,
) -> None:
    """Hold debates between language models.

    Start with: flowdebate debate "Should private cars be banned from city centres?"
    """
    asked = {"NO_COLOR": "1" if no_color else None, "COLUMNS": None if width is None else str(width)}
    before = {name: os.environ.get(name) for name, value in asked.items() if value is not None}
    os.environ.update({name: value for name, value in asked.items() if value is not None})  # where pages look

    def restore() -> None:  # the process may go on: tests call the command in theirs
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    ctx.call_on_close(restore)
    if log_json is not None:
        with report_problems():
            ctx.call_on_close(log_to(log_json))


@opt.command()
def render(
    file: Annotated[str, Option(help='A document of --json, or a bare raw output; "-" is stdin.')],
    *,
    markdown: opt.Markdown = None,
) -> None:
    """Show a saved JSON document as its command showed it. No model is called."""
    from flowdebate.cli.terminal.page import render as render_page
    from flowdebate.ui.document import read_document

    document = read_document(file)
    check_target(markdown)
    try:
        render_page(document, open_page(document.speakers))
        write_report(document, markdown)
    except RecursionError:  # a file can be nested deeper than what prints it
        raise BadFile(file, "is nested too deeply") from None


_COMMANDS = {
    "Runs": {
        "resume": resume, "answer": answer, "fork": fork, "watch": watch, "runs": runs, "show": show,
        "report": report, "verify": verify, "delete": delete, "export": export, "import": import_, "render": render,
        "archive": archive, "share": share,
    },
    "Batch and evaluation": {
        "batch": batch, "compare": compare, "evaluate": evaluate, "study": study, "audit": audit,
        "leaderboard": leaderboard,
    },
    "Servers": {"serve": serve, "mcp": mcp, "queue": queue},
    "Setup": {"models": models, "demo": demo},
}  # fmt: skip
"""Commands that know no pattern, by the panel of the help that lists them."""

app: typer.Typer = build_app()
