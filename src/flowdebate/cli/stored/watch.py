"""`flowdebate runs watch`: follow a run in another process, or show a finished one."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.execute import POLL, Followed, end_of_stored, finish, follow_run, resume_advice, service_of
from flowdebate.cli.terminal.process import (
    ExitCode,
    check_target,
    exit_code_of_signal,
    print_message,
    write_json,
    write_report,
)
from flowdebate.cli.terminal.screen import View
from flowdebate.errors import ConfigurationError
from flowdebate.ui.options import Option

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.service.channel import Update
    from flowdebate.service.runs import OpenStore
    from flowdebate.store.base import StoredRun
    from flowdebate.ui.plan import Plan


@opt.command()
def watch(
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run.")] = False,
    store: opt.StoreName = None,
    as_json: Annotated[
        bool, Option(panel="Output", flag="--json", help="Print each event as one line of JSON on stdout.")
    ] = False,
    markdown: opt.Markdown = None,
    quiet: opt.Quiet = False,
) -> None:
    """Watch a run in another process, or a finished one. Ctrl-C stops watching, but the run continues.

    Watching shows the same page as the command that started the run, except that contributions appear only once they
    are complete.
    """
    from flowdebate.service.runs import chosen_run, opened

    check_target(markdown)
    with opened(store) as place:
        stored = asyncio.run(chosen_run(place.store, run, last=last, verb="runs watch"))
        code = _watch(stored, place, as_json=as_json, quiet=quiet, markdown=markdown)
    raise typer.Exit(code)


def _watch(stored: StoredRun, place: OpenStore, *, as_json: bool, quiet: bool, markdown: Path | None) -> int:
    """Show a run's progress until it ends or an interrupt is received; return the exit code."""
    from flowdebate.cli.stored.run_view import document_of
    from flowdebate.service.runs import short_id

    run_id = stored.header.run_id
    plan, problem = _plan_of(stored)
    if plan is None:
        print_message(f"{problem}; watch shows its steps and its status")
    view = _Lines() if as_json else _Steps(stored, quiet=quiet) if plan is None else _page(stored, plan, quiet)

    async def follow() -> Followed:
        async with service_of(place) as service:
            updates = _follow_steps(place, run_id) if plan is None else service.follow(run_id)
            return await follow_run(updates, None, lambda: view)

    seen = asyncio.run(follow())
    if seen.signal is not None:
        print_message(f"The run continues. To watch it again: flowdebate runs watch {short_id(run_id)}{place.option}")
        return exit_code_of_signal(seen.signal)
    if plan is not None:
        end = asyncio.run(end_of_stored(place, run_id))
        return finish(end, seen, place=place, markdown=markdown)
    if seen.unwritten is not None:
        raise seen.unwritten
    stored = asyncio.run(place.store.run(run_id))
    if isinstance(view, (_Lines, _Steps)):
        view.end(stored)
    if advice := resume_advice(stored, place):
        print_message(advice)
    if markdown is not None:
        write_report(document_of(stored, asyncio.run(place.store.steps(run_id))), markdown)
    if stored.status == "failed":
        return ExitCode.FAILED
    return 0 if stored.status in ("complete", "degraded") else ExitCode.NO_RESULT


def _plan_of(stored: StoredRun) -> tuple[Plan | None, str]:
    """Return a stored run's plan, or None and the reason why the plan is missing."""
    from flowdebate.ui.plan import pattern_of_run, plan_of

    if pattern_of_run(stored) is None:
        return None, f"Run {stored.header.run_id} was started by a program, and this command does not know its patterns"
    try:
        return plan_of(stored, {}, to_ask=False), ""
    except ConfigurationError as error:
        return None, str(error).removesuffix(".")


def _page(stored: StoredRun, plan: Plan, quiet: bool) -> View:  # noqa: FBT001 - of this module
    """Return the page that the run's own command would show, with the run and its status on the first line."""
    from flowdebate.cli.terminal.page import LivePage
    from flowdebate.service.runs import ago, short_id, state_of, to_datetime
    from flowdebate.ui.models import models_line
    from flowdebate.ui.statuses import status_text

    environment, created = stored.header.model, stored.header.created_at
    when = ago(time.time() - created) or f"{to_datetime(created):%Y-%m-%d}"
    state = f"Run {short_id(stored.header.run_id)}: {status_text(state_of(stored))}, started {when}"
    models = models_line(plan, environment=environment if isinstance(environment, str) else None)
    return LivePage(plan, sys.stdout, head=[state, models], quiet=quiet)


class _Lines(View):
    """Writer that outputs events or steps as JSON Lines."""

    async def follow(self, updates: AsyncIterator[Update]) -> None:
        """Write the events or steps until the run ends; raise WriteFailed if writing fails."""
        from flowdebate.cli.stored.run_view import step_data
        from flowdebate.events import wire_of
        from flowdebate.store.base import StepRow

        async for update in updates:
            if isinstance(update.event, StepRow):
                self.write({"kind": "step", "step": step_data(update.event)})
            elif update.event is not None:
                self.write(wire_of(update.event))
            elif update.kind == "reset":
                self.write({"kind": "reset"})

    def write(self, data: object) -> None:
        from flowdebate.ui.text import escape_json

        write_json(escape_json(json.dumps(data, ensure_ascii=False)))  # one line; `as_json` would indent it

    def end(self, stored: StoredRun) -> None:
        """Write the run's status after the last event or step."""
        from flowdebate.service.runs import state_of

        self.write({"kind": "status", "status": state_of(stored), "error": (stored.outcome or {}).get("error")})


# Runs without a plan


async def _follow_steps(place: OpenStore, run_id: str) -> AsyncGenerator[Update, None]:
    """Yield the finished steps of a run as updates, until the run ends or is suspended."""
    from flowdebate.service.channel import Update
    from flowdebate.service.runs import state_of

    shown_steps: set[str] = set()
    while True:
        stored = await place.store.run(run_id)
        for step in await place.store.steps(run_id):
            if step.body is not None and step.key not in shown_steps:
                shown_steps.add(step.key)
                yield Update("event", step)
        if state_of(stored) not in ("queued", "running"):
            return
        await asyncio.sleep(POLL)


class _Steps(View):
    """View of a run's steps, formatted as in `flowdebate show`."""

    def __init__(self, stored: StoredRun, *, quiet: bool) -> None:
        from flowdebate.cli.stored.run_view import show_head
        from flowdebate.cli.terminal.page import Page

        self._page = Page(sys.stdout, ())
        self._quiet = quiet
        if not quiet:
            show_head(stored, self._page)

    async def follow(self, updates: AsyncIterator[Update]) -> None:
        """Show the steps until the run ends; raise WriteFailed if they cannot be written."""
        from flowdebate.cli.stored.run_view import show_step

        async for update in updates:
            if not self._quiet:
                show_step(update.event, self._page)

    def end(self, stored: StoredRun) -> None:
        """Show the outcome of the run."""
        from flowdebate.cli.stored.run_view import show_outcome

        show_outcome(stored, self._page)
