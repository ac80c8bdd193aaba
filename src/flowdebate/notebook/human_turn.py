"""A person's turn in a notebook cell: the contributions so far, a form, and the outcome of submitting it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from flowdebate._text import error_text
from flowdebate._util.validation import check_library
from flowdebate.blocks.human.answers import open_requests, submit_answer
from flowdebate.errors import ConfigurationError, FlowDebateError, NotAwaited, OutputError
from flowdebate.runs.result import RunHandle, RunView
from flowdebate.runs.suspend import HumanRequest
from flowdebate.service.state import PendingInput
from flowdebate.store.base import Store
from flowdebate.store.open import StoreChoice, open_store
from flowdebate.ui.statuses import status_text
from flowdebate.web.forms import OpenRequest, answer_fields
from flowdebate.web.templates import asset, render, style_of

if TYPE_CHECKING:
    from anywidget import AnyWidget

_WHERE = "HumanTurn()"
_SECONDS = 1.0
"""Interval between polls of the store, in seconds."""
_NOT_YET = "It is not your turn yet. This cell updates when it is."
_STATIC = "A person's turn: run the notebook, and answer here."
_RESUME = "Resume the run to continue."
_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)


class HumanTurn:
    """A human's turn as a widget in a notebook cell. Requires `flowdebate[notebook]`.

    `HumanTurn(run)` is for a durable run, given as its handle, its result or, with `store`, its id. Once the run is
    suspended for a human, the cell shows the request and a form, and records the answer as `submit_answer` does; resume
    the run afterwards. The form marks any invalid fields in an answer, and a note appears if someone else has already
    answered. If several human blocks have open requests, `block` selects one. `HumanTurn()` is for `human(name=…,
    ask=turn.ask)`: the run waits for the widget, then continues.
    """

    def __init__(
        self, run: RunView | str | None = None, *, block: str | None = None, store: StoreChoice = None
    ) -> None:
        check_library(_WHERE, "anywidget", library="anywidget", extra="notebook")
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            hint = "Create it in a cell or in async code"
            raise ConfigurationError(_WHERE, "event loop", None, "must be running", hint=hint) from None
        self._block = block
        self._handle = run if isinstance(run, RunHandle) else None
        self._run_id = run.run_id if isinstance(run, RunView) else run
        self._store = _store_of(run, store)
        self._asked: HumanRequest | None = None
        """Request shown in the cell."""
        self._answered = ""
        """Note on the last request."""
        self._answer: asyncio.Future[Any] | None = None
        """Future for the answer that `ask` is awaiting."""
        self._sending: asyncio.Future[None] | None = None
        """Task that stores the answer, referenced here so it is not garbage-collected."""
        self._one_by_one = asyncio.Lock()
        self.widget: Any = _widget_class()(page=_page(note=_NOT_YET))
        """The widget itself, for combining it with other `ipywidgets`."""
        self.widget.on_msg(self._receive)
        self._watch = None if self._store is None else self._loop.create_task(self._poll())

    def _repr_mimebundle_(self, **options: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget for display in a notebook, or a message if widgets cannot be shown."""
        data, metadata = self.widget._repr_mimebundle_(**options)
        return {**data, "text/plain": repr(self), "text/html": f"<p>{escape(_STATIC)}</p>"}, metadata

    def __repr__(self) -> str:
        return "<HumanTurn>" if self._run_id is None else f"<HumanTurn of run {self._run_id}>"

    async def ask(self, request: HumanRequest) -> object:
        """Show `request` in the cell, and return the answer once it is valid.

        Pass this method as `ask`: `human(name=…, ask=turn.ask)`. If there are several requests, they are shown one at a
        time. Raises ConfigurationError if the turn belongs to a durable run.
        """
        if self._store is not None:
            hint = "Create it without a run: HumanTurn()"
            raise ConfigurationError(f"{_WHERE}.ask", "run", None, "cannot be set", hint=hint)
        async with self._one_by_one:
            self._loop = asyncio.get_running_loop()
            self._answer = self._loop.create_future()
            self._show(request)
            try:
                answer = await self._answer
            except asyncio.CancelledError:
                self._show_note("Your answer is no longer needed: the run has ended, or its time is up.")
                raise
            finally:
                self._answer = None
            self._show_note("Your answer is in the debate.")
            return answer

    def close(self) -> None:
        """Stop polling for requests, leaving the cell unchanged."""
        if self._watch is not None:
            self._watch.cancel()

    # Cell contents

    def _show(self, request: HumanRequest) -> None:
        self._asked, self._answered = request, ""
        self.widget.page = _page(request, token=f"flowdebate-{id(self)}")

    def _show_note(self, note: str, *, answered: bool = True) -> None:
        self._asked = None
        self._answered = note if answered else ""
        self.widget.page = _page(note=note)

    def _refuse(self, error: Exception) -> None:
        problems = error.problems if isinstance(error, OutputError) else ()
        errors = [{"field": field, "problem": problem} for field, problem in problems]
        self.widget.send({"kind": "refused", "message": error_text(error), "errors": errors})

    # Messages from the person

    def _receive(self, _: object, content: object, __: object) -> None:
        """Handle a message, which may arrive on any of the kernel's threads."""
        if isinstance(content, dict) and content.get("kind") == "answer":
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody is waiting for the answer
                self._loop.call_soon_threadsafe(self._take, content)

    def _take(self, content: dict[str, Any]) -> None:
        request = self._asked
        if request is None or content.get("place") != request.place:
            self._refuse(ValueError("this is no longer the current request"))
        elif self._store is not None:
            self._sending = asyncio.ensure_future(self._submit(request, content.get("answer")))
        elif self._answer is not None and not self._answer.done():
            try:
                request.check(content.get("answer"))
            except FlowDebateError as error:
                self._refuse(error)
            else:
                self._answer.set_result(content.get("answer"))

    async def _submit(self, request: HumanRequest, answer: object) -> None:
        assert self._run_id is not None  # noqa: S101 - there is a store
        try:
            await submit_answer(self._store, self._run_id, answer, place=request.place)
        except NotAwaited:
            self._show_note("This was already answered elsewhere; the first answer counts.")
        except FlowDebateError as error:
            self._refuse(error)
        else:
            self._show_note(f"Your answer is recorded. {_RESUME}")

    # Requests of a durable run

    async def _poll(self) -> None:
        is_open = True
        while is_open:
            try:
                is_open = await self._look()
            except FlowDebateError as error:
                self._show_note(error_text(error), answered=False)
            if self._handle is not None and not self._handle.done():
                await self._handle.wait()
            else:
                await asyncio.sleep(_SECONDS)

    async def _look(self) -> bool:
        """Show the run's current requests; return True if more requests may follow."""
        assert self._store is not None  # noqa: S101 - the caller has checked
        assert self._run_id is not None  # noqa: S101 - there is a store
        if self._handle is not None and not self._handle.done():
            return True
        status = (await self._store.run(self._run_id)).status
        requests = await open_requests(self._store, self._run_id) if status == "awaiting" else []
        own_requests = [request for request in requests if self._block in (None, request.block)]
        if self._asked is not None and self._asked.place in [request.place for request in own_requests]:
            return True
        if own_requests:
            self._show(own_requests[0])
        elif self._asked is not None:
            self._show_note(f"This was answered elsewhere. {_RESUME}")
        elif status not in ("queued", "running", "interrupted", "awaiting"):
            self._show_note(f"The run is over ({status_text(status)}). Thank you.")
            return False
        elif not self._answered:
            self._show_note(_NOT_YET, answered=False)
        return True


def _store_of(run: RunView | str | None, choice: StoreChoice) -> Store | None:
    """Return a durable run's store, or None if there is no run."""
    if run is None:
        if choice is not None:
            raise ConfigurationError(_WHERE, "store", None, "cannot be set without `run`")
        return None
    if isinstance(run, RunView):
        if run.store is None:
            hint = (
                "Pass a store to the run, or an `ask` function to the human: turn = HumanTurn(); human(…, ask=turn.ask)"
            )
            raise ConfigurationError(_WHERE, "run", run, "must be a run with a store", hint=hint)
        return run.store
    if not isinstance(run, str):
        raise ConfigurationError(_WHERE, "run", run, "must be a handle, a result or a run ID")
    store = open_store(choice, location=_WHERE)
    if store is None:
        raise ConfigurationError(_WHERE, "store", choice, "must be the run's store")
    return store


def _page(request: HumanRequest | None = None, *, note: str = "", token: str = "") -> str:
    """Build the widget's HTML, escaping untrusted text."""
    if request is None:
        return render("notebook/turn", pending=None, note=note)
    pending = PendingInput.of(request)
    question = OpenRequest.of(pending)
    return render(
        "notebook/turn", pending=pending, asked=question, form=answer_fields(pending.answer_schema), token=token
    )


@cache
def _widget_class() -> type[AnyWidget]:
    """Create the widget class on first use, because importing anywidget takes a second."""
    from anywidget import AnyWidget
    from traitlets import Unicode

    # A widget is a single module without a URL, so it cannot import other modules.
    script = "".join(_IMPORT.sub("", asset(name)) for name in ("element.js", "form.js", "notebook/turn.js"))
    style = style_of("notebook/style.css", "notebook/turn.css")
    contents = {"_esm": script, "_css": style, "page": Unicode().tag(sync=True)}
    return type("HumanTurnWidget", (AnyWidget,), {**contents, "__module__": __name__})
