"""`flowdebate answer`: answer what a run asks a human, and resume it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.advice import short
from flowdebate.cli.command import problems_told, resume_run
from flowdebate.cli.streams import tell
from flowdebate.errors import ConfigurationError, NotAwaited
from flowdebate.service.options import COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.durable.suspend import HumanRequest
    from flowdebate.store.base import Store, StoredRun

__all__ = ("answer",)

_LONGEST = 4_000_000
"""Characters of an answer that is read from stdin: more than any answer may have."""


def answer(
    run: Annotated[str, typer.Argument(help=opt.RUN)],
    text: Annotated[
        str | None,
        typer.Argument(help="The answer. Default: typed in the terminal, or read from stdin.", show_default=False),
    ] = None,
    *,
    data: Annotated[
        str | None, typer.Option("--json", metavar="DATA", help="The answer as JSON, if it has fields.")
    ] = None,
    place: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Which request to answer, if the run waits for several.")
    ] = None,
    later: Annotated[bool, typer.Option("--later", help="Only record the answer; resume the run later.")] = False,
    store: opt.StoreName = None,
    markdown: opt.Markdown = None,
) -> None:
    """Show what a run asks a human, record the answer and resume the run. The first answer stands."""
    with problems_told():
        from flowdebate.service.store import opened
        from flowdebate.service.stored_runs import find_run

        if text is not None and data is not None:
            raise ConfigurationError(COMMAND, "--json", data, "left out where there is a TEXT")
        given = data if text is None else text
        with opened(store) as where:
            stored = asyncio.run(find_run(where.store, run))
            left = asyncio.run(_answered(where.store, stored, given, place))
            ready = _ready(stored, left, where.option, later=later)
    if ready:
        resume_run(stored.header.run_id, {}, store=store, as_json=False, markdown=markdown)


async def _answered(store: Store, stored: StoredRun, given: str | None, place: str | None) -> Sequence[HumanRequest]:
    """Record the answer, or all answers that are typed; what the run still waits for."""
    from flowdebate.blocks.human.answers import checked, open_requests, submit_answer
    from flowdebate.blocks.human.terminal import ask_in_terminal

    run_id = stored.header.run_id
    asked = [request for request in await open_requests(store, run_id) if place in (None, request.place)]
    if given is None and not sys.stdin.isatty():
        given = _read(asked, store, run_id)
    if given is not None or not asked:
        await submit_answer(store, run_id, given, place=place)
    else:
        for request in asked:
            typed = await ask_in_terminal(replace(request, check=partial(checked, request)))
            await submit_answer(store, run_id, typed, place=request.place)
    return await open_requests(store, run_id)


def _read(asked: Sequence[HumanRequest], store: Store, run_id: str) -> str:
    """What stdin says, to whom is shown what is asked."""
    if not asked:
        raise NotAwaited(store.name, run_id, "waits for no answer")
    for request in asked:
        tell(f"{request.place}\n{request.shown}\n\n[{request.block}] {request.expects}")
    return sys.stdin.read(_LONGEST).removesuffix("\n")


def _ready(stored: StoredRun, left: Sequence[HumanRequest], option: str, *, later: bool) -> bool:
    """Whether the run goes on now; where it does not, what is to be done is told."""
    run = short(stored.header.run_id)
    for request in left:
        tell(f"It still waits for {request.block}: flowdebate answer {run} --place '{request.place}'{option}")
    if left:
        return False
    if stored.header.plan is None:
        tell(f"To resume: await block.resume({stored.header.run_id!r}) in Python, where its block is built")
        return False
    if later:
        tell(f"To resume: flowdebate resume {run}{option}")
    return not later
