"""Lifetime of a service: opening its socket, warming up, and recovering an earlier process's runs."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from flowdebate._text import error_text
from flowdebate.errors import ConfigurationError, FlowDebateError, StoreError, TooManyRuns
from flowdebate.models.openai.clients import keep_connections, warm_up
from flowdebate.runs.queue_state import priority_of
from flowdebate.service.runs import delete_old_runs, each_run

if TYPE_CHECKING:
    from flowdebate.service.active import ActiveRuns
    from flowdebate.service.recipes import Recipes
    from flowdebate.service.state import RunState
    from flowdebate.store.base import Store, StoredRun


def bind_socket(location: str, port: int, *, host: str = "127.0.0.1") -> socket.socket:
    """Open a socket for a server; port 0 selects a free port.

    Raises ConfigurationError, naming `location`, for an unusable address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        used = getattr(error, "errno", None) == errno.EADDRINUSE
        hint = f"Port {port} is in use" if used else f"Port {port} of {host} cannot be used: {error}"
        raise ConfigurationError(
            location, "port", port, f"must be a free port on {host}, or 0 for any free port", hint=hint
        ) from None
    # Connections inherit this option; without it, the body of a response would wait 40 ms for the client to acknowledge
    # the headers.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


@asynccontextmanager
async def keep_warm() -> AsyncIterator[None]:
    """Keep model connections open in this context, and import the modules for a first run in a separate thread."""
    async with keep_connections():
        importing = asyncio.get_running_loop().run_in_executor(None, import_ahead)
        try:
            yield
        finally:
            await importing


def import_ahead() -> None:
    """Import the modules for a debate and its first model call ahead of time, because importing takes half a second."""
    import flowdebate.models.wrapper
    import flowdebate.patterns.debate.factory  # noqa: F401

    warm_up()


_LOGGER = logging.getLogger("flowdebate")
_HOUR, _DAY = 3_600.0, 86_400.0


class Recovery:
    """Background task that resumes unfinished runs, as far as the limit on concurrent runs allows.

    Once the limit is reached, the task tries again when a run starts or ends, and at least every `poll` seconds.
    """

    def __init__(self, store: Store, recipes: Recipes, active: ActiveRuns, *, poll: float) -> None:
        self._store = store
        self._recipes = recipes
        self._active = active
        self._poll = poll
        self._task: asyncio.Task[None] | None = None

    def begin(self, resume: Callable[[str], Awaitable[RunState]], *, keep_days: float | None) -> None:
        """Resume unfinished runs.

        If `keep_days` is set, also delete runs that have not changed for that many days, immediately and then every
        hour.
        """
        self._task = self._active.in_background(self._resume_all(resume))
        if keep_days is not None:
            self._active.in_background(self._delete_old(keep_days * _DAY))

    def awaits(self, stored: StoredRun) -> bool:
        """Return whether the recovery is going to resume the given abandoned run."""
        return self._task is not None and not self._task.done() and self._concerns(stored)

    def _concerns(self, stored: StoredRun) -> bool:
        return not (stored.owned or stored.header.foreign) and self._recipes.is_to_recover(stored)

    async def _resume_all(self, resume: Callable[[str], Awaitable[RunState]]) -> None:
        for state in ("left_behind", "queued"):
            runs = [
                (priority_of(stored.header), stored.header.created_at, stored.header.run_id)
                async for stored in each_run(self._store, state=state, brief=True)
                if self._concerns(stored)
            ]
            for _, _, run_id in sorted(runs):  # lowest priority value first, then oldest first
                while not self._active.closing:
                    try:
                        await resume(run_id)
                    except TooManyRuns:  # the remaining runs wait until one of those in progress ends
                        await self._active.wait_for_change(self._poll)
                        continue
                    except FlowDebateError as error:
                        _LOGGER.warning("run %s was not resumed: %s", run_id, error_text(error))
                    break

    async def _delete_old(self, seconds: float) -> None:
        while True:
            with suppress(StoreError):  # if the store is down, try again in an hour
                number = await delete_old_runs(self._store, time.time() - seconds)
                _LOGGER.info("%s runs deleted that have not changed for %g days", number, seconds / _DAY)
            await asyncio.sleep(_HOUR)
