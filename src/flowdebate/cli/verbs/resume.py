"""`flowdebate resume`: carry on what was interrupted, and has cost something already."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import carry_on, problems_told
from flowdebate.cli.keys import COMMAND, choice
from flowdebate.errors import ConfigurationError

__all__ = ("resume",)

UNCERTAIN = choice("--uncertain", ("retry", "raise"))


def resume(  # noqa: PLR0913 - the options of the command
    *,
    run: opt.RunName = None,
    last: Annotated[
        bool, typer.Option("--last", help="The run that was begun last of those that did not come to their end.")
    ] = False,
    uncertain: Annotated[
        str,
        typer.Option(
            metavar="retry|raise",
            help="Whether a call that was under way when the run was left is made again, or is an error: "
            "it may have been paid.",
        ),
    ] = "retry",
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Also with another model, or another version of flowdebate.")
    ] = False,
    revive: Annotated[
        bool, typer.Option("--revive", help="Also where it has ended its process again and again.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Another model for what comes now; with --allow-changes.")
    ] = None,
    base_url: opt.BaseUrl = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Carry on a run that was interrupted, killed, ended by a limit, or has failed: nothing is asked for twice.

    It is shown from its beginning, and ends as the command that has begun it. What limits it is counted for all of it.
    """
    limits = {"max_calls": max_calls, "max_tokens": max_tokens, "max_seconds": max_seconds}
    with problems_told():
        _check(run, last=last, uncertain=uncertain, model=model, allow_changes=allow_changes)
    carry_on(
        run,
        limits,
        {
            "model": model,
            "base_url": base_url,
            "uncertain": uncertain,
            "allow_changes": allow_changes,
            "revive": revive,
            "store": store,
            "as_json": as_json,
            "markdown": markdown,
        },
    )


def _check(run: str | None, *, last: bool, uncertain: str, model: str | None, allow_changes: bool) -> None:
    if last == (run is not None):
        raise ConfigurationError(COMMAND, "RUN", run, "the id of a run, or its beginning; or else --last")
    if not UNCERTAIN.fits(uncertain):
        raise ConfigurationError(COMMAND, "--uncertain", uncertain, UNCERTAIN.allowed)
    if model is not None and not allow_changes:
        raise ConfigurationError(COMMAND, "--model", model, "left out, or given with --allow-changes")
