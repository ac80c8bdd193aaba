"""The commands of `flowdebate`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdebate.cli.command import ENDS, show_saved
from flowdebate.cli.evaluation.audit import ENDS_AUDIT, audit
from flowdebate.cli.evaluation.evaluate import ENDS_EVALUATE, evaluate
from flowdebate.cli.evaluation.recount import ENDS_RECOUNT, recount
from flowdebate.cli.options import Markdown  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.pattern_commands import add_pattern_commands
from flowdebate.cli.verbs.answer import answer
from flowdebate.cli.verbs.batch import ENDS_BATCH, batch
from flowdebate.cli.verbs.exchange import export, import_
from flowdebate.cli.verbs.resume import resume
from flowdebate.cli.verbs.runs import delete, runs, show

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
        app.command(epilog=ENDS)(verb)
    app.command(epilog=ENDS_BATCH)(batch)
    app.command(epilog=ENDS_EVALUATE)(evaluate)
    for about in (runs, show, delete, export, render):
        app.command()(about)
    app.command(epilog=ENDS_AUDIT)(audit)
    app.command(epilog=ENDS_RECOUNT)(recount)
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
