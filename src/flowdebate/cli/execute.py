"""Execution of a run through the service: its sides, its page to the end, its exit code, and what to do next."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import typer

from flowdebate.cli.terminal.process import (
    ExitCode,
    Interrupts,
    WriteFailed,
    check_target,
    exit_code_of,
    killed_by,
    sentence_of,
    tell,
    write_json,
    write_report,
    writing,
)
from flowdebate.errors import ConfigurationError, FlowDebateError, StoreError
from flowdebate.service.plans.options import COMMAND, misuse, parse_entry

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from flowdebate.blocks.human.human import Ask
    from flowdebate.patterns.roster import Debater
    from flowdebate.runs.result import RunHandle
    from flowdebate.service.channel import Update
    from flowdebate.service.documents.document import Document
    from flowdebate.service.plans.plan import Plan
    from flowdebate.service.runs import Place
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunState
    from flowdebate.store.base import StoredRun


class View(Protocol):
    """What shows a run."""

    async def follow(self, updates: AsyncIterator[Update]) -> None:
        """Show it to its end; WriteFailed where it cannot be shown."""

    def show_cursor(self) -> None:
        """Give the cursor back to the terminal; may be called from a signal handler."""

    def finish(self, document: Document, *, hint: str = "") -> None:
        """Show the result and the totals."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A run to be followed."""

    updates: AsyncGenerator[Update, None]
    handle: RunHandle[Any] | None = None
    """None for a run that is not executed here."""
    state: RunState | None = None
    """None for a run that is not stored."""


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A run as far as it was shown."""

    view: View | None
    unwritten: WriteFailed | None
    """Why it could not be shown any further."""
    signal: signal.Signals | None
    """What interrupted it; for a run that is not executed here, what ended the view."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that is over, or suspended."""

    document: Document
    error: str = ""
    """The message about its failure."""
    code: int = 0
    """The exit code of a failure."""
    advice: str = ""
    """What to do next, with the command."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """How a run is shown."""

    as_json: bool
    """As JSON on stdout, so that the page is on stderr, if that is a terminal."""
    quiet: bool
    """Only its end."""
    head: Sequence[str]
    """The first lines of the page."""

    def page(self, plan: Plan) -> View | None:
        """The page of a run; None if nobody looks."""
        stream = sys.stderr if self.as_json else sys.stdout
        if self.as_json and (self.quiet or not stream.isatty()):
            return None
        from flowdebate.cli.terminal.page import LivePage

        with writing():
            return LivePage(plan, stream, head=self.head, quiet=self.quiet)


def ask_here() -> Ask | None:
    """How a human is asked: in the terminal; None where there is none, and it answers later."""
    from flowdebate.blocks.human.terminal import ask_in_terminal

    if not sys.stdin.isatty():
        return None
    from flowdebate.cli.terminal.screen import AskOnScreen

    return AskOnScreen(ask_in_terminal)


def run_plan(
    plan: Plan, *, store: str | None, no_store: bool, as_json: bool, markdown: Path | None, quiet: bool, yes: bool
) -> int:
    """Run a plan; gives the exit code."""
    from flowdebate.service.plans.models import models_line, with_policies
    from flowdebate.service.runs import opened

    if no_store and store is not None:
        raise misuse("--store", store, "--store and --no-store exclude each other.")
    check_target(markdown)
    show = Show(as_json=as_json, quiet=quiet, head=[models_line(plan)])
    plan = with_policies(plan)
    with nullcontext() if no_store else opened(store) as place:
        if not plan.speakers:
            if place is not None and place.named:
                with _store_needed():  # fails before anything is paid for
                    asyncio.run(place.store.runs(limit=1))
            if show.head[0] and not quiet:
                tell(show.head[0])
                show = replace(show, head=())  # it is asked now
            plan = _propose_sides(plan, yes=yes)

        async def started(service: Service | None) -> Running:
            if place is not None and service is not None:
                try:
                    return stored_run(service, await service.begin(plan))
                except StoreError as error:
                    if place.named:
                        with _store_needed():
                            raise
                    # a data directory that cannot be written (a container, a full disk) must not forbid a debate
                    tell(f"Warning: the run is not stored: {error}")
            from flowdebate.service.channel import Channel

            handle = plan.pattern().start(
                plan.subject, model=plan.models, seed=plan.seed, limits=plan.limits, store=False
            )
            return Running(updates=Channel.of(handle).read(), handle=handle)

        return asyncio.run(execute(plan, place, started, show, markdown))


@contextmanager
def _store_needed() -> Iterator[None]:
    """Inside, an error of the store says how to go on without it."""
    try:
        yield
    except StoreError as error:
        raise StoreError(error.store, f"{error.problem}; --no-store does not store the run") from error


# Sides that the model proposes


def _propose_sides(plan: Plan, *, yes: bool) -> Plan:
    """`plan` with sides that its model proposes, after they were shown; ends in Abort if the user declines them.

    In a terminal the user is asked, unless `yes`, and may edit them.
    """
    from flowdebate.service.plans.plan import with_sides

    with_sides(plan, ())  # refuses invalid options before a model is called
    tell("The question does not say what the sides are; the model proposes some …")
    proposer = plan.info.load_page().create_proposer(plan.options.instructions)
    proposing = proposer.run(plan.subject, model=plan.models, seed=plan.seed, limits=plan.limits, store=False)
    found = asyncio.run(proposing)
    sides: Sequence[Debater] = found.output
    tokens = found.usage.total_tokens
    tell("Sides" if tokens is None else f"Sides ({tokens:,} tokens)")
    while True:
        for side in sides:
            tell(f"  {side.name} = {side.stance}")
        if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return with_sides(plan, sides)
        answer = typer.prompt("Debate these sides? [Y/n/edit]", default="y", show_default=False, err=True)
        match answer.strip().lower():
            case "y" | "yes":
                return with_sides(plan, sides)
            case "n" | "no":
                raise typer.Abort
            case "e" | "edit":
                sides = _type_sides(sides)
            case _:
                tell("Type y to debate them, n to stop, or edit to change them.")


def _type_sides(sides: Sequence[Debater]) -> Sequence[Debater]:
    """The sides that the user types; those that there are where they do not make a debate, with the reason."""
    from flowdebate.patterns.roster import Debater, check_roster

    tell("Type one side on each line, as NAME = POSITION; an empty line ends.")
    lines: list[str] = []
    while line := typer.prompt(">", default="", show_default=False, prompt_suffix=" ", err=True).strip():
        lines.append(line)
    try:
        entries = [parse_entry(line, "a side", key="stance", needed=True) for line in lines]
        return check_roster([Debater(entry["name"], entry["stance"]) for entry in entries], where=COMMAND)
    except ConfigurationError as error:
        tell(f"Not changed: {error}")
        return sides


# From the beginning to the end


@asynccontextmanager
async def service_of(place: Place) -> AsyncIterator[Service]:
    """A service of the runs in a store; what it still executes at the end is cancelled."""
    from flowdebate.service.service import Service

    service = Service(store=place.store, poll=POLL)
    try:
        yield service
    finally:
        await service.close(0)


POLL = 0.5
"""Seconds between two looks at a run of another process: a turn takes seconds, and a look is one small query."""


def stored_run(service: Service, state: RunState) -> Running:
    """A run that the service started, resumed or forked."""
    return Running(updates=service.follow(state.run_id), handle=service.handle(state.run_id), state=state)


async def execute(
    plan: Plan,
    place: Place | None,
    start: Callable[[Any], Awaitable[Running]],
    show: Show,
    markdown: Path | None,
) -> int:
    """Start a run and show it to its end, which an interrupt or a reader who leaves brings about; the exit code."""
    async with nullcontext() if place is None else service_of(place) as service:
        running = await start(service)
        seen = await follow_run(running, lambda: show.page(plan))
        stored_in = None if running.state is None else place
        if running.handle is not None:
            end = await _end_of_handle(plan, running.handle, stored_in)
        else:  # it was over already
            assert running.state is not None  # noqa: S101 - a run without a handle is stored
            assert place is not None  # noqa: S101 - in a place
            end = await end_of_stored(place, running.state.run_id)
    return finish(end, seen, place=stored_in, as_json=show.as_json, markdown=markdown)


async def follow_run(running: Running, view_of: Callable[[], View | None]) -> Followed:
    """Show a run to its end. An interrupt cancels it, if it is executed here; else it only ends the view."""
    loop, handle = asyncio.get_running_loop(), running.handle
    view: View | None = None
    unwritten: WriteFailed | None = None

    async def read() -> None:
        nonlocal view
        view = view_of()
        async with aclosing(running.updates) as updates:
            await (_drain(updates) if view is None else view.follow(updates))

    def stop() -> None:
        if view is not None:
            view.show_cursor()  # a second signal ends the process at once
        loop.call_soon_threadsafe((handle or reading).cancel)  # in a signal handler: the loop may be asleep

    reading = asyncio.ensure_future(read())
    with Interrupts(stop) as interrupts:
        try:
            await reading
        except WriteFailed as error:
            unwritten = error
            if handle is not None:
                handle.cancel()
        except asyncio.CancelledError:
            if interrupts.received is None:
                raise
        if handle is not None:
            await handle.wait()
    stopped = interrupts.received is not None and (handle is None or handle.status == "interrupted")
    return Followed(view=view, unwritten=unwritten, signal=interrupts.received if stopped else None)


async def _drain(updates: AsyncIterator[Update]) -> None:
    async for _ in updates:
        pass


async def _end_of_handle(plan: Plan, handle: RunHandle[Any], place: Place | None) -> Ended:
    """The end of a run that was executed here; `place` is where it is stored."""
    from flowdebate.runs.events import RunFinished
    from flowdebate.service.documents.document import Tokens
    from flowdebate.service.documents.page import document_of_plan
    from flowdebate.service.fork import Fork

    failure: FlowDebateError | None = None
    output: Any = None
    try:
        output = (await handle).output
    except FlowDebateError as error:
        failure = error
    except asyncio.CancelledError:
        if not handle.done():  # it is this command that is cancelled, not its run
            raise
    end = next((event for event in reversed(handle.events) if isinstance(event, RunFinished)), None)
    reached = end.error if end is not None and handle.status == "limit" else None
    fork: Fork | None = None
    with suppress(StoreError):  # the run is over and shown; what it has from its parent is an extra
        if place is not None and (stored := await place.store.run(handle.run_id)).header.parent is not None:
            fork = Fork.of(stored, await place.store.steps(handle.run_id))
    document = document_of_plan(
        plan,
        handle.raw,
        output,
        status="interrupted" if handle.status == "running" else handle.status,
        error=reached if failure is None else str(failure),
        usage=Tokens.of(handle.usage),
        cost=handle.cost,
        seconds=None if end is None else round(end.seconds, 3),
        seed=handle.seed,
        run_id=None if place is None else handle.run_id,
        fork=fork,
    )
    again = not isinstance(failure, StoreError) or type(failure) is StoreError  # others would end in the same way
    return Ended(
        document=document,
        error="" if failure is None else sentence_of(failure),
        code=0 if failure is None else exit_code_of(failure),
        advice=_advice(document.status, document.run_id, limit=handle.limit, place=place) if again else "",
    )


async def end_of_stored(place: Place, run_id: str) -> Ended:
    """The end of a stored run, as the store has it; BadFile if it has no document."""
    from flowdebate.service.runs import document_of_run

    stored = await place.store.run(run_id)
    document = await document_of_run(stored, await place.store.steps(run_id))
    failed = document.status == "failed"
    return Ended(
        document=document,
        error=document.error or "it failed" if failed else "",
        code=ExitCode.FAILED if failed else 0,
        advice=advice_on(stored, place),
    )


def finish(end: Ended, seen: Followed, *, place: Place | None, as_json: bool, markdown: Path | None) -> int:
    """Write what there is to write about a run that has ended; the exit code."""
    document, unwritten = end.document, seen.unwritten
    try:
        if unwritten is None:
            with writing():
                if seen.view is not None:
                    seen.view.finish(document, hint=_show_command(end, place))
                if as_json:
                    write_json(document.to_json())
    except WriteFailed as error:
        unwritten = error
    if end.error:
        tell(f"Error: {end.error}")
    if unwritten is None and end.advice:
        tell(end.advice)
    write_report(document, markdown)
    if unwritten is not None:
        raise unwritten
    if end.code:
        return end.code
    if seen.signal is not None:
        return killed_by(seen.signal)
    return 0 if document.has_result and document.status != "limit" else ExitCode.NO_RESULT


def _show_command(end: Ended, place: Place | None) -> str:
    """The command that shows a complete run again; "" where it is not stored, or to be resumed."""
    from flowdebate.service.runs import short_id

    run_id = end.document.run_id
    return "" if run_id is None or place is None or end.advice else f"flowdebate show {short_id(run_id)}{place.option}"


# Advice on stderr

_HIGHER_LIMIT = {"calls": " --max-calls N", "tokens": " --max-tokens N", "dead_letter": " --retry-dead-letter"}
"""Options that it takes to resume a run: limits of calls and tokens count from the run's beginning."""
_WHY = {
    "left_behind": "The process of the run is gone. ",
    "dead_letter": "The run was given up after repeated crashes. ",
}
"""What became of a run that did not come to an end of its own."""


def _advice(status: str, run_id: str | None, *, place: Place | None, limit: str | None = None) -> str:
    """How to resume a run; "" where there is nothing to resume."""
    from flowdebate.service.runs import short_id
    from flowdebate.service.statuses import RESUMABLE

    if run_id is None or place is None:
        return ""
    if status == "awaiting":
        return f"To resume: flowdebate answer {short_id(run_id)}{place.option}"
    if status not in (*RESUMABLE, "dead_letter"):
        return ""
    return f"To resume: flowdebate resume {short_id(run_id)}{_HIGHER_LIMIT.get(limit or '', '')}{place.option}"


def advice_on(run: StoredRun, place: Place) -> str:
    """How to resume a stored run, and what became of its process; "" where there is nothing to resume."""
    from flowdebate.service.plans.plan import pattern_of_run
    from flowdebate.service.runs import state_of

    state, run_id = state_of(run), run.header.run_id
    how = _advice(state, run_id, place=place, limit="dead_letter" if state == "dead_letter" else None)
    if how and state != "awaiting" and pattern_of_run(run) is None:
        how = f"To resume: await block.resume({run_id!r}) in Python, where its block is built"
    return f"{_WHY.get(state, '')}{how}"
