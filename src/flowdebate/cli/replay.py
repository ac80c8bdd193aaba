"""A run as far as it came, from what is kept of it: nobody is asked, and nothing of it changes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from flowdebate.cli.hold import document_of_run
from flowdebate.cli.kept_plan import plan_of
from flowdebate.cli.policies import with_models

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.cli.document import Document
    from flowdebate.models.base import ModelRequest
    from flowdebate.store.base import StepRow, StoredRun

__all__ = ("replayed",)


def replayed(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    """What would be saved of `run` if it were interrupted where it was left."""
    return asyncio.run(_replayed(run, steps))


async def _replayed(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    from flowdebate.runs.durable.resume import load_run
    from flowdebate.runs.execute import start_block
    from flowdebate.store.memory import MemoryStore

    silent = _Silent()
    plan = with_models(plan_of(run, {}, to_ask=False), lambda _: silent)
    pattern = plan.pattern()
    store = MemoryStore()
    await store.add(run, steps)
    again, value = await load_run(
        store,
        run.header.run_id,
        block=pattern.name,
        outline=pattern.outline(),
        session=None,
        model=plan.models,
        limits=None,
        on_uncertain="retry",
        allow_changes=True,
        retry_dead_letter=True,
    )
    handle = start_block(pattern, value, again)
    silent.stop = handle.cancel
    output: Any = None
    with suppress(asyncio.CancelledError):
        output = (await handle).output
    return document_of_run(plan, again, handle, None, output).model_copy(update={"seconds": None})


class _Silent:
    """A model that ends the run which asks it."""

    name = "nobody"
    tells_attempts = True

    def __init__(self) -> None:
        self.stop: Callable[[], object] = bool

    async def request(self, _: ModelRequest, /) -> NoReturn:
        self.stop()
        await asyncio.Event().wait()
        raise AssertionError
