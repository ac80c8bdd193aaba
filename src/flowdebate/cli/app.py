"""The commands of `flowdebate`, grouped as its help shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.batch.command import BATCH_EXIT_CODES, batch
from flowdebate.cli.command import EXIT_CODES, show_saved
from flowdebate.cli.evaluation.audit import AUDIT_EXIT_CODES, audit
from flowdebate.cli.evaluation.evaluate import EVALUATE_EXIT_CODES, evaluate
from flowdebate.cli.evaluation.recount import RECOUNT_EXIT_CODES, recount
from flowdebate.cli.patterns import add_pattern_commands
from flowdebate.cli.resume import answer, resume
from flowdebate.cli.runs import delete, export, import_, runs, show
from flowdebate.service.options import Option

__all__ = ("app", "build_app")

_PATTERNS, _RUNS, _EVALUATION = "Patterns", "Runs", "Evaluation"


def build_app() -> typer.Typer:
    """The command, with one subcommand for each registered pattern."""
    app = typer.Typer(
        cls=opt.Commands,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help starts fast, and reads no markup in what the user typed
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(flowdebate)
    add_pattern_commands(app, panel=_PATTERNS)
    app.command(cls=opt.Command, epilog=BATCH_EXIT_CODES, rich_help_panel=_PATTERNS)(batch)
    for continued in (resume, answer):
        app.command(cls=opt.Command, epilog=EXIT_CODES, rich_help_panel=_RUNS)(continued)
    for about in (runs, show, delete, export):
        app.command(cls=opt.Command, rich_help_panel=_RUNS)(about)
    app.command("import", cls=opt.Command, rich_help_panel=_RUNS)(import_)
    app.command(cls=opt.Command, rich_help_panel=_RUNS)(render)
    app.command(cls=opt.Command, epilog=EVALUATE_EXIT_CODES, rich_help_panel=_EVALUATION)(evaluate)
    app.command(cls=opt.Command, epilog=RECOUNT_EXIT_CODES, rich_help_panel=_EVALUATION)(recount)
    app.command(cls=opt.Command, epilog=AUDIT_EXIT_CODES, rich_help_panel=_EVALUATION)(audit)
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
    """Hold debates between language models.

    Start with: flowdebate debate "Should private cars be banned from city centres?"
    """


@opt.command()
def render(
    file: Annotated[str, Option(help='A document of --json, or a bare raw output; "-" is stdin.')],
    *,
    markdown: opt.Markdown = None,
) -> None:
    """Show a saved JSON document as its command showed it. No model is called."""
    show_saved(file, markdown=markdown)


app = build_app()
