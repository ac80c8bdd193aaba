"""`flowdebate resume` and `flowdebate answer`: continue a run from its journal, or with a human's answer."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from flowdebate.cli import options as opt
from flowdebate.cli.execute import resume_run
from flowdebate.cli.terminal.process import tell
from flowdebate.errors import NotAwaited
from flowdebate.service.plans.options import Option, misuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.durable.suspend import HumanRequest
    from flowdebate.store.base import Store, StoredRun


@opt.command("base_url", "replay", "max_calls", "max_tokens", "max_seconds", "price")
def resume(  # noqa: PLR0913 - the options of the command
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run that did not come to its end.")] = False,
    on_uncertain: Annotated[
        Literal["retry", "raise"],
        Option(help="What to do about a call that was in flight when the run ended: it may have been paid for."),
    ] = "retry",
    allow_changes: Annotated[bool, Option(help="Resume with another model, or another version of flowdebate.")] = False,
    retry_dead_letter: Annotated[bool, Option(help="Resume a run that was given up after repeated crashes.")] = False,
    model: Annotated[
        str | None, Option(metavar="SPEC", help="Another model for the rest; needs --allow-changes.")
    ] = None,
    trust_plan: opt.TrustPlan = False,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
    quiet: opt.Quiet = False,
    **given: object,
) -> None:
    """Resume a run that was interrupted, crashed, failed or reached a limit.

    No recorded call is paid for twice. The run is shown from its beginning, and its limits count for the whole run.
    """
    if last == (run is not None):
        which = (
            "Name one run, or give --last, not both." if last else "Say which run: flowdebate resume RUN, or --last."
        )
        raise misuse("RUN", run, f"{which} flowdebate runs lists the stored runs.")
    if model is not None and not allow_changes:
        raise misuse("--model", model, "Another --model changes the run: add --allow-changes.")
    resume_run(
        run,
        {**given, "model": model},
        store=store,
        on_uncertain=on_uncertain,
        allow_changes=allow_changes,
        retry_dead_letter=retry_dead_letter,
        trust_plan=trust_plan,
        as_json=as_json,
        markdown=markdown,
        quiet=quiet,
    )


# answer


_LONGEST = 4_000_000
"""Characters read from stdin: more than the limit of any answer."""


@opt.command()
def answer(
    run: Annotated[str, Option(help=opt.RUN)],
    text: Annotated[str | None, Option(help="The answer. Default: typed in the terminal, or read from stdin.")] = None,
    *,
    data: Annotated[
        str | None, Option(flag="--json", metavar="DATA", help="The answer as JSON, if it has fields.")
    ] = None,
    place: Annotated[
        str | None, Option(metavar="PLACE", help="Which request to answer, if the run waits for several.")
    ] = None,
    later: Annotated[bool, Option(help="Only record the answer; resume the run later.")] = False,
    trust_plan: opt.TrustPlan = False,
    store: opt.StoreName = None,
    markdown: opt.Markdown = None,
) -> None:
    """Answer what a run asks a human, and resume it. Only the first answer to a request counts."""
    from flowdebate.service.runs import find_run, opened

    if text is not None and data is not None:
        raise misuse("--json", data, "Give the answer as TEXT or as --json DATA, not both.")
    given = data if text is None else text
    with opened(store) as where:
        stored = asyncio.run(find_run(where.store, run))
        left = asyncio.run(_answered(where.store, stored, given, place))
        ready = _ready(stored, left, where.option, later=later)
    if ready:
        resume_run(stored.header.run_id, {}, store=store, trust_plan=trust_plan, as_json=False, markdown=markdown)


async def _answered(store: Store, stored: StoredRun, given: str | None, place: str | None) -> Sequence[HumanRequest]:
    """Record the given answer, or ask for all; returns the requests that are still open."""
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
    """Show the open requests and read the answer from stdin."""
    if not asked:
        raise NotAwaited(store.name, run_id, "waits for no answer")
    for request in asked:
        tell(f"{request.place}\n{request.shown}\n\n[{request.block}] {request.expects}")
    return sys.stdin.read(_LONGEST).removesuffix("\n")


def _ready(stored: StoredRun, left: Sequence[HumanRequest], option: str, *, later: bool) -> bool:
    """Whether to resume the run now; if not, say what to do."""
    from flowdebate.service.runs import short_id

    run = short_id(stored.header.run_id)
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
