"""`flowdebate resume`: continue a run from its journal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import problems_told, resume_run
from flowdebate.errors import ConfigurationError
from flowdebate.service.options import COMMAND, Count, Seconds, check_option

__all__ = ("resume",)


def resume(  # noqa: PLR0913 - the options of the command
    *,
    run: opt.RunName = None,
    last: Annotated[bool, typer.Option("--last", help="The newest run that did not come to its end.")] = False,
    on_uncertain: Annotated[
        str,
        typer.Option(
            metavar="retry|raise",
            help="What to do about a call that was in flight when the run ended: it may have been paid for.",
        ),
    ] = "retry",
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Resume with another model, or another version of flowdebate.")
    ] = False,
    retry_dead_letter: Annotated[
        bool, typer.Option("--retry-dead-letter", help="Resume a run that was given up after repeated crashes.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Another model for the rest; needs --allow-changes.")
    ] = None,
    base_url: opt.BaseUrl = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Resume a run that was interrupted, killed, ended by a limit or failed: no recorded call is paid for twice.

    It is shown from its beginning, and ends like the command that began it. Limits count for the whole run.
    """
    given: dict[str, Any] = {"max_calls": max_calls, "max_tokens": max_tokens, "max_seconds": max_seconds}
    with problems_told():
        if last == (run is not None):
            raise ConfigurationError(COMMAND, "RUN", run, "the id of a run, or its beginning; or else --last")
        check_option(Literal["retry", "raise"], "--on-uncertain", on_uncertain)
        check_option(Count, "--max-calls", max_calls)
        check_option(Count, "--max-tokens", max_tokens)
        check_option(Seconds, "--max-seconds", max_seconds)
        if model is not None and not allow_changes:
            raise ConfigurationError(COMMAND, "--model", model, "left out, or given with --allow-changes")
    resume_run(
        run,
        {**given, "model": model, "base_url": base_url},
        store=store,
        on_uncertain=on_uncertain,
        allow_changes=allow_changes,
        retry_dead_letter=retry_dead_letter,
        as_json=as_json,
        markdown=markdown,
    )
