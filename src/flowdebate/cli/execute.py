"""Execution of runs through the service: the page that displays a run, the exit code, and advice on the next step."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.cli.terminal.process import (
    ExitCode,
    Interrupts,
    exit_code_of,
    exit_code_of_signal,
    print_message,
    sentence_of,
    write_json,
    write_report,
)
from flowdebate.cli.terminal.screen import View
from flowdebate.cli.terminal.streams import WriteFailed
from flowdebate.errors import FlowDebateError, RunConflict, RunNotFound, StoreError

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from flowdebate.runs.result import RunHandle
    from flowdebate.service.channel import Update
    from flowdebate.service.runs import OpenStore
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunState
    from flowdebate.store.base import StoredRun
    from flowdebate.ui.document import Document
    from flowdebate.ui.plan import Plan


_STARTS_WITHIN = 2.0
"""Seconds allowed for an interrupted run to reach a point where it can be stopped and later resumed."""
POLL = 0.5
"""Seconds between checks on a run in another process; a turn takes several seconds, and each check is one
small query.
"""


@dataclass(frozen=True, kw_only=True)
class Show:
    """Display options for a run."""

    as_json: bool
    """True to write JSON to stdout; the page is then written to stderr if stderr is a terminal."""
    quiet: bool
    """True to show only the result."""
    head: Sequence[str]
    """Lines at the top of the page, shown above the run."""
    form: Callable[[Document], str] | None = None
    """Function that formats the document for stdout; the page then goes to stderr. Unless `quiet` is set, the lines in
    `head` are shown even if stderr is not a terminal.
    """

    def page(self, plan: Plan) -> View:
        on_stderr = self.as_json or self.form is not None
        stream = sys.stderr if on_stderr else sys.stdout
        if on_stderr and (self.quiet or not stream.isatty()):
            for line in filter(None, self.head if self.form is not None and not self.quiet else ()):
                print_message(line)  # anyone reading a log needs to know which data was sent to which provider
            return View()
        from flowdebate.cli.terminal.page import LivePage

        return LivePage(plan, stream, head=self.head, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class Followed:
    """Outcome of following a run until it ended or the display was closed."""

    view: View
    unwritten: WriteFailed | None
    """Error raised while writing the output, which ended the display early; None if there was none."""
    signal: signal.Signals | None
    """Signal that interrupted the run or, if the run belongs to another process, only closed the display."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A finished or suspended run."""

    document: Document
    error: str = ""
    """Message describing the failure."""
    code: int = 0
    """Exit code for the failure."""
    advice: str = ""
    """Advice on the next step, including the command to use."""


@asynccontextmanager
async def service_of(place: OpenStore) -> AsyncIterator[Service]:
    """Open a service for a store's runs; on exit, cancel any run still in progress."""
    from flowdebate.service.service import Service

    service = Service(store=place.store, poll=POLL)
    try:
        yield service
    finally:
        # Close without waiting: any run still in progress has been interrupted, and its answers are in its journal.
        await service.close(0)


async def begin_named(
    service: Service, run_id: str, begin: Callable[[], Awaitable[RunState]], plan: Plan, *, resume: bool
) -> RunState:
    """Start run `run_id`; if `resume` is set, resume an existing run as soon as no other process is executing it."""
    from flowdebate.store.base import COMPLETE
    from flowdebate.ui.options import misuse

    try:
        stored = None if resume else await service.store.run(run_id)
    except RunNotFound:
        stored = None
    if stored is not None:
        raise misuse("RUN", run_id, f"Run {run_id} already exists. To continue it, add --resume.")
    state, is_told = await begin(), False
    while state.status not in COMPLETE and service.handle(run_id) is None:
        try:
            return await service.resume(run_id, plan=plan)
        except RunConflict:
            if not is_told:
                print_message(f"Run {run_id} is being executed by another process; waiting for it …")
            is_told = True
            await asyncio.sleep(POLL)
            state = await service.wait(run_id)
    return state


async def execute(
    plan: Plan,
    place: OpenStore | None,
    start: Callable[[Any], Awaitable[RunState | None]],
    show: Show,
    markdown: Path | None,
    post: Callable[[Document, str], bool] | None = None,
) -> int:
    """Start a run, show its progress until it ends, and return the exit code.

    An interrupt or a closed pipe ends the run early. `start` starts, resumes or forks one of the service's runs in
    `place`; if it returns None, the run is not stored. `post` sends the document and the error to another system, and
    returns False on failure.
    """
    loop, task, starting = asyncio.get_running_loop(), asyncio.current_task(), True

    def give_up() -> None:
        if starting and task is not None:
            task.cancel()

    def soon() -> None:
        """Cancel the run if it is still starting after a delay.

        The delay lets the run reach a point where it can keep its results.
        """
        loop.call_soon_threadsafe(loop.call_later, _STARTS_WITHIN, give_up)

    async with nullcontext() if place is None else service_of(place) as service:
        with Interrupts(soon) as interrupts:
            try:
                state = await start(service)
            except asyncio.CancelledError:
                if interrupts.received is None:
                    raise
                return exit_code_of_signal(interrupts.received)
            starting = False
            if service is not None and place is not None and state is not None:
                handle, updates = service.handle(state.run_id), service.follow(state.run_id)
            else:
                from flowdebate.service.channel import Channel

                # the run is not stored in `place`, so the user must not be advised to resume it from there
                place, block = None, plan.pattern()
                handle = block.start(plan.subject, model=plan.models, seed=plan.seed, limits=plan.limits, store=False)
                updates = Channel.of(handle).read()
            seen = await follow_run(updates, handle, lambda: show.page(plan), interrupts)
        if handle is not None:
            end = await _end_of_handle(plan, handle, place)
        else:  # the run had already ended, so only the store knows its outcome
            assert place is not None  # noqa: S101 - above
            assert state is not None  # noqa: S101 - above
            end = await end_of_stored(place, state.run_id)
    as_json = (lambda document: document.to_json()) if show.as_json else None
    return finish(end, seen, place=place, markdown=markdown, form=show.form or as_json, post=post)


async def follow_run(
    updates: AsyncGenerator[Update, None],
    handle: RunHandle[Any] | None,
    make_view: Callable[[], View],
    interrupts: Interrupts | None = None,
) -> Followed:
    """Show a run's progress until it ends.

    An interrupt cancels the run if this process is executing it; without a `handle`, the interrupt only closes the
    display. `interrupts` was set up when the run started, and may already have received a signal.
    """
    loop = asyncio.get_running_loop()
    view = View()
    unwritten: WriteFailed | None = None

    async def read() -> None:
        nonlocal view
        view = make_view()
        async with aclosing(updates):
            await view.follow(updates)

    def stop() -> None:
        view.show_cursor()  # restore the cursor now, because a second signal would end the process immediately
        # thread-safe, because the signal handler has to wake the sleeping event loop
        loop.call_soon_threadsafe((handle or reading).cancel)

    reading = asyncio.ensure_future(read())
    with Interrupts(stop) if interrupts is None else nullcontext(interrupts) as caught:
        caught.then(stop)
        try:
            await reading
        except WriteFailed as error:
            unwritten = error
            if handle is not None:
                handle.cancel()
        except asyncio.CancelledError:
            if caught.received is None:
                raise
        if handle is not None:
            await handle.wait()
    stopped = caught.received is not None and (handle is None or handle.status == "interrupted")
    return Followed(view=view, unwritten=unwritten, signal=caught.received if stopped else None)


async def _end_of_handle(plan: Plan, handle: RunHandle[Any], place: OpenStore | None) -> Ended:
    """Return the outcome of a run executed by this process; `place` is the run's store."""
    from flowdebate.runs.events import RunFinished
    from flowdebate.ui.document import Tokens, read_models, read_remarks
    from flowdebate.ui.page import document_of_plan
    from flowdebate.ui.steps import Fork

    failure: FlowDebateError | None = None
    output: object = None
    try:
        output = (await handle).output
    except FlowDebateError as error:
        failure = error
    except asyncio.CancelledError:
        if not handle.done():  # the command was cancelled, not the run
            raise
    end = next((event for event in reversed(handle.events) if isinstance(event, RunFinished)), None)
    reached = end.error if end is not None and handle.status == "limit" else None
    fork: Fork | None = None
    with suppress(StoreError):  # the run is finished and displayed, and the note about its parent is optional
        if place is not None and (stored := await place.store.run(handle.run_id)).header.parent is not None:
            fork = Fork.of(stored, await place.store.steps(handle.run_id))
    document = document_of_plan(
        plan,
        handle.raw,
        output,
        status="interrupted" if handle.status == "running" else handle.status,
        error=reached if failure is None else str(failure),
        models=read_models(handle.models),
        remarks=read_remarks(handle.remarks),
        usage=Tokens.of(handle.usage),
        cost=handle.cost,
        prices=handle.prices,
        seconds=None if end is None else round(end.seconds, 3),
        seed=handle.seed,
        run_id=None if place is None else handle.run_id,
        fork=fork,
    )
    # an instance of a StoreError subclass would be raised again when the run is resumed
    again = not isinstance(failure, StoreError) or type(failure) is StoreError
    return Ended(
        document=document,
        error="" if failure is None else sentence_of(failure),
        code=0 if failure is None else exit_code_of(failure),
        advice=_advice(_state_of(document), document.run_id, limit=handle.limit, place=place) if again else "",
    )


async def end_of_stored(place: OpenStore, run_id: str) -> Ended:
    """Return the outcome of a stored run; raise BadFile if the run has no document."""
    from flowdebate.service.runs import document_of_run

    stored = await place.store.run(run_id)
    document = await document_of_run(stored, await place.store.steps(run_id))
    failed = document.status == "failed"
    return Ended(
        document=document,
        error=document.error or "it failed" if failed else "",
        code=ExitCode.FAILED if failed else 0,
        advice=resume_advice(stored, place) or _advice(_state_of(document), run_id, place=place),
    )


def _state_of(document: Document) -> str:
    """Return the status of a run; it is "no_verdict" if there is no output because a synthesizer or chair failed."""
    return "no_verdict" if any(loss.instead == "no_output" for loss in document.raw.losses) else document.status


def finish(  # noqa: C901 - one thing to write after the other
    end: Ended,
    seen: Followed,
    *,
    place: OpenStore | None,
    markdown: Path | None,
    form: Callable[[Document], str] | None = None,
    post: Callable[[Document, str], bool] | None = None,
) -> int:
    """Write the results of a finished run and return the exit code; `form` formats the document for stdout."""
    from flowdebate.service.runs import short_id

    document, unwritten, hint = end.document, seen.unwritten, ""
    if document.run_id is not None and place is not None and not end.advice:  # the run is stored, but cannot be resumed
        hint = f"flowdebate show {short_id(document.run_id)}{place.option}"
    try:
        if unwritten is None:
            seen.view.finish(document, hint=hint)
            if form is not None and (text := form(document)):
                write_json(text)
    except WriteFailed as error:
        unwritten = error
    if end.error:
        print_message(f"Error: {end.error}")
    if unwritten is None and end.advice:
        print_message(end.advice)
    write_report(document, markdown)
    is_posted = post is None or post(document, end.error)
    # raised last, so that the report, which goes to a separate file and has already been paid for, is still written
    if unwritten is not None:
        raise unwritten
    if end.code:
        return end.code
    if seen.signal is not None:
        return exit_code_of_signal(seen.signal)
    if not document.holds_gate:
        return ExitCode.GATE
    if not document.has_result or document.status == "limit":
        return ExitCode.NO_RESULT
    return 0 if is_posted else ExitCode.FAILED


# Advice on stderr

_HIGHER_LIMIT = {"calls": " --max-calls N", "tokens": " --max-tokens N", "dead_letter": " --retry-dead-letter"}
"""Command-line options for resuming a run that reached a limit; call and token limits include the calls made before the
run was resumed.
"""
_WHY = {
    "left_behind": "The run's process is gone. ",
    "rejected": "No worker can execute the run in its current state. ",
    "dead_letter": "The run was given up after repeated crashes. ",
}
"""Explanations of why a run did not end normally."""


def _advice(status: str, run_id: str | None, *, place: OpenStore | None, limit: str | None = None) -> str:
    """Explain how to resume a run; return "" if there is nothing to resume."""
    from flowdebate.service.runs import short_id
    from flowdebate.ui.statuses import RESUMABLE

    if run_id is None or place is None:
        return ""
    if status == "awaiting":
        return f"To resume: flowdebate runs answer {short_id(run_id)}{place.option}"
    if status not in (*RESUMABLE, "dead_letter"):
        return ""
    return f"To resume: flowdebate resume {short_id(run_id)}{_HIGHER_LIMIT.get(limit or '', '')}{place.option}"


def resume_advice(run: StoredRun, place: OpenStore) -> str:
    """Explain why a stored run stopped and how to resume it; return "" if there is nothing to resume."""
    from flowdebate.service.runs import state_of
    from flowdebate.ui.plan import pattern_of_run

    state, run_id = state_of(run), run.header.run_id
    how = _advice(state, run_id, place=place, limit="dead_letter" if state == "dead_letter" else None)
    if how and state != "awaiting" and pattern_of_run(run) is None:
        how = f"To resume: await block.resume({run_id!r}) in Python, where its block is built"
    return f"{_WHY.get(state, '')}{how}"
