"""The commands of `flowdebate`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdebate.cli.command import EXIT_CODES, show_saved
from flowdebate.cli.commands.batch import BATCH_EXIT_CODES, batch
from flowdebate.cli.commands.patterns import add_pattern_commands
from flowdebate.cli.commands.resume import answer, resume
from flowdebate.cli.commands.runs import delete, export, import_, runs, show
from flowdebate.cli.evaluation.audit import AUDIT_EXIT_CODES, audit
from flowdebate.cli.evaluation.evaluate import EVALUATE_EXIT_CODES, evaluate
from flowdebate.cli.evaluation.recount import RECOUNT_EXIT_CODES, recount
from flowdebate.cli.options import Markdown  # noqa: TC001 - typer reads the annotations

__all__ = ("app", "build_app")


def build_app() -> typer.Typer:
    """The command, with one verb for each pattern that is registered."""
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help starts fast, and reads no markup in what the user typed
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(flowdebate)
    add_pattern_commands(app)
    for verb in (resume, answer):
        app.command(epilog=EXIT_CODES)(verb)
    app.command(epilog=BATCH_EXIT_CODES)(batch)
    app.command(epilog=EVALUATE_EXIT_CODES)(evaluate)
    for about in (runs, show, delete, export, render):
        app.command()(about)
    app.command(epilog=AUDIT_EXIT_CODES)(audit)
    app.command(epilog=RECOUNT_EXIT_CODES)(recount)
    app.command("import")(import_)
    return app


def _version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
        from flowdebate import __version__

        typer.echo(f"flowdebate {__version__}")
        raise typer.Exit


def flowdebate(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hold debates between language models."""


def render(
    file: Annotated[str, typer.Argument(help='A document of --json, or a bare raw output; "-" is stdin.')],
    *,
    markdown: Markdown = None,
) -> None:
    """Show a saved run again."""
    show_saved(file, markdown=markdown)


app = build_app()
