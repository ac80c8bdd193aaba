"""`flowdebate models check`: test a model with a few calls, and print a table of results and recommended settings."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flowdebate.cli.options import check
from flowdebate.cli.terminal.process import (
    ExitCode,
    Interrupts,
    check_target,
    exit_code_of_signal,
    open_page,
    print_message,
    write_json,
)
from flowdebate.errors import FlowDebateError
from flowdebate.ui.options import COMMAND, misuse

if TYPE_CHECKING:
    from signal import Signals

    from flowdebate.evaluation.model_check import ModelCheck
    from flowdebate.models.base import Model


def _default_model() -> str:
    """Return the name of the default model, or exit with a message if none is configured."""
    from flowdebate.models.resolve import environment_choice, no_model

    default = environment_choice()
    if default is None:
        print_message(f"Error: {no_model()}")
        raise typer.Exit(ExitCode.NO_RESULT)
    return default[0]


def check_models(
    specs: Sequence[str], *, base_url: str | None, quick: bool, record: Path | None, as_json: bool
) -> None:
    """Check each model in turn, or the default model if `specs` is empty, then exit with the command's exit code."""
    from flowdebate.models.resolve import resolve_model
    from flowdebate.ui.models import Models

    make = Models(base_url)
    if base_url is not None and not specs:
        raise misuse("SPEC", None, make.missing("SPEC", "--base-url"))
    check(record is None or not quick, "--record", "cannot be combined with --quick")
    specs = specs or [_default_model()]
    check(record is None or len(specs) == 1, "--record", "cannot be combined with several models")
    models = [resolve_model(make(spec, COMMAND, "SPEC")) for spec in dict.fromkeys(specs)]
    check_target(record)
    if quick:
        _check_quickly(models, as_json=as_json)
        return
    from flowdebate.evaluation.model_check import ModelCheck

    checks: list[ModelCheck] = []
    signal: Signals | None = None
    for model in models:
        if signal is None:
            checks.append(ModelCheck(model, None if record is None else str(record)))
            signal = asyncio.run(_run(checks[-1]))
            if not as_json:
                _show(checks[-1])
    if as_json:
        write_json({"checks": [report.as_dict() for report in checks]})
    if signal is not None:
        raise typer.Exit(exit_code_of_signal(signal))
    if any(row.group == "roles" and row.outcome == "fails" for report in checks for row in report.rows()) or any(
        report.status != "complete" for report in checks
    ):
        raise typer.Exit(ExitCode.FAILED)


async def _run(report: ModelCheck) -> Signals | None:
    """Run a check; return the signal that ended it early (SIGINT or SIGTERM), or None."""
    from flowdebate.evaluation.model_check import MAX_REQUESTS, USUAL_CALLS
    from flowdebate.models.openai.clients import keep_connections

    print_message(
        f"Checking {report.model.name}: about {USUAL_CALLS} short calls, at most {MAX_REQUESTS} requests. "
        "Ctrl-C shows what is known so far."
    )

    async def work() -> None:
        async with keep_connections():
            async for step in report.run():
                if sys.stderr.isatty():
                    print_message(f"  {step} …")

    task = asyncio.ensure_future(work())
    loop = asyncio.get_running_loop()
    with Interrupts(lambda: loop.call_soon_threadsafe(task.cancel)) as interrupts, suppress(asyncio.CancelledError):
        await task
    return interrupts.received


def _show(report: ModelCheck) -> None:
    page = open_page()
    data = report.as_dict()
    page.labeled("Model", report.model.name, "bold", indent="")
    tokens = "" if data["tokens"] is None else f", {data['tokens']:,} tokens"
    page.labeled("Asked", f"{data['calls']} calls, {data['requests']} requests{tokens}, {data['seconds']:.0f} s", "dim")
    if report.error is not None:
        page.labeled("Fails", report.error, "red")
    if report.status == "interrupted":
        page.labeled("Interrupted", "what follows is all that is known", "yellow")
    for group, rows in groupby(report.rows(), key=attrgetter("group")):
        page.line()
        page.columns((group.upper(), "", ""), [(row.name, row.outcome, row.detail) for row in rows])
    cut = [row for row in report.rows() if row.outcome == "fails"] if page.screen.is_terminal else []
    if cut:  # repeated below the table, because the table's last column is truncated to fit the terminal
        page.line()
    for row in cut:
        page.labeled(row.name, row.detail, "red", indent="")
    advice = report.advice()
    if advice or report.status == "complete":
        page.line()
        page.line("What to set", style="bold")
        for hint in advice or ("Nothing: the defaults work.",):
            page.line(hint, indent="  ")
    if report.record is not None:
        page.line()
        page.labeled("Record", f"{report.record}, without keys and addresses of hosts: attach it to a report", "dim")


def _check_quickly(models: Sequence[Model], *, as_json: bool) -> None:
    """Ask each model for a one-word answer."""
    answers = [asyncio.run(_ask_once(model)) for model in models]
    if as_json:
        write_json({"checks": answers})
    else:
        page = open_page()
        for answer in answers:
            if answer["error"] is None:
                tokens = "" if answer["tokens"] is None else f", {answer['tokens']:,} tokens"
                page.labeled("Answers", f"{answer['model']}, in {answer['seconds']:.1f} s{tokens}", "green", indent="")
            else:
                page.labeled("Fails", f"{answer['model']}: {answer['error']}", "red", indent="")
    if any(answer["error"] for answer in answers):
        raise typer.Exit(ExitCode.FAILED)


async def _ask_once(model: Model) -> dict[str, Any]:
    """Ask a model for a short answer; return the elapsed seconds and the token count, or the error."""
    from flowdebate.blocks.generator import generator
    from flowdebate.runs.limits import Limits

    # A single request without retries, because a retry would cost money and hide the first failure.
    asking = generator(name="check", prompt="Answer with one word.", user="Say: ready")
    begun = time.perf_counter()
    try:
        result = await asking.run("", model=model, limits=Limits(calls=1, seconds=120), store=False)
    except FlowDebateError as error:
        return {"model": model.name, "seconds": None, "tokens": None, "error": str(error)}
    seconds = round(time.perf_counter() - begun, 2)
    return {"model": model.name, "seconds": seconds, "tokens": result.usage.total_tokens, "error": None}
