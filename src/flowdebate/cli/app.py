"""The commands of `flowdebate`: thin, what they do stands beside them."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdebate.cli.command import ENDS, show_saved
from flowdebate.cli.evaluation.audit import ENDS_AUDIT, audit
from flowdebate.cli.evaluation.evaluate import ENDS_EVALUATE, evaluate
from flowdebate.cli.evaluation.recount import ENDS_RECOUNT, recount
from flowdebate.cli.options import Markdown  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.verbs.answer import answer
from flowdebate.cli.verbs.batch import ENDS_BATCH, batch
from flowdebate.cli.verbs.consensus import consensus
from flowdebate.cli.verbs.debate import run
from flowdebate.cli.verbs.deliberate import deliberate
from flowdebate.cli.verbs.exchange import export, import_
from flowdebate.cli.verbs.handoff import handoff
from flowdebate.cli.verbs.panel import panel
from flowdebate.cli.verbs.resume import resume
from flowdebate.cli.verbs.runs import delete, runs, show

__all__ = ("app",)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts fast, and reads no markup in what the user typed
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
        from flowdebate import __version__

        typer.echo(f"flowdebate {__version__}")
        raise typer.Exit


@app.callback()
def flowdebate(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Hold debates between language models."""


for verb in (run, deliberate, handoff, consensus, panel, resume, answer):
    app.command(epilog=ENDS)(verb)
app.command(epilog=ENDS_BATCH)(batch)
app.command(epilog=ENDS_EVALUATE)(evaluate)
app.command()(runs)
app.command()(show)
app.command()(delete)
app.command(epilog=ENDS_AUDIT)(audit)
app.command(epilog=ENDS_RECOUNT)(recount)
app.command()(export)
app.command("import")(import_)


@app.command()
def render(
    file: Annotated[str, typer.Argument(help='What --json printed, or a bare raw output; "-" is stdin.')],
    *,
    markdown: Markdown = None,
) -> None:
    """Show again what was saved."""
    show_saved(file, markdown=markdown)
