"""`flowdebate queue`: what waits for workers, which of them are alive, and all runs that match resumed or cancelled."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from flowdebate._util.importing import load_object
from flowdebate._util.text import counted
from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import open_page, write_json
from flowdebate.service.plans.options import COMMAND, Option, Text, misuse

if TYPE_CHECKING:
    from flowdebate.runs.queue_state import QueueState
    from flowdebate.service.state import Changed


@opt.command()
def queue(
    workers: Annotated[
        Text,
        Option(metavar="MODULE:OBJECT", help="The Workers of your application, or a function that makes them."),
    ],
    action: Annotated[
        Literal["show", "resume", "cancel"],
        Option(metavar="ACTION", help="show (the default), or resume or cancel all runs that match."),
    ] = "show",
    *,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    retry_dead_letter: Annotated[bool, Option(help="resume: also runs that were given up.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Show the queue of your workers, or resume or cancel its runs.

    With resume or cancel, 200 runs at a time: without --status those that stopped early, or those that go on.
    """
    filters = {"status": status, "pattern": pattern, "text": text}
    if action == "show" and (any(filters.values()) or retry_dead_letter):
        raise misuse("ACTION", action, "Filters say which runs to resume or cancel: name one of them as the ACTION.")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    from flowdebate.service.state import Changed
    from flowdebate.workers.deployment import Workers

    given = load_object(workers, Workers, where=COMMAND, field="MODULE:OBJECT")

    async def ask() -> QueueState | Changed:
        from flowdebate.service.service import Service

        try:
            if action == "show":
                return await given.overview()
            async with Service(workers=given) as service:
                if action == "cancel":
                    return await service.cancel_all(**filters)
                return await service.resume_all(**filters, retry_dead_letter=retry_dead_letter)
        finally:
            await given.close()

    found = asyncio.run(ask())
    if as_json:
        write_json(found.model_dump(mode="json", by_alias=True))
    elif isinstance(found, Changed):
        page = open_page()
        page.line(f"{counted(len(found.runs), 'run')} {'resumed' if action == 'resume' else 'cancelled'}.")
        for run_id, why in found.refused.items():
            page.labelled(run_id, why, "yellow")
        if found.more:
            page.line("Others match: the same command again goes on.")
    else:
        _show(found)


def _show(state: QueueState) -> None:
    page = open_page()
    oldest = "" if state.oldest is None else f", the oldest for {state.oldest:.0f} s"
    page.labelled("Queue", state.queue, "bold", indent="")
    page.line(f"{state.waiting} waiting{oldest}; {state.put_off} put off, {state.running} running")
    page.line(f"{state.rejected} rejected, {counted(state.dead_letters, 'dead letter')}")
    rows = [
        (each.version, str(each.waiting), str(each.put_off), str(each.running), str(each.workers))
        for each in state.versions
    ]
    page.columns(("VERSION", "WAITING", "PUT OFF", "RUNNING", "WORKERS"), rows)
    page.columns(
        ("WORKER", "VERSION", "RUNNING"),
        [(each.worker, each.version, str(each.running)) for each in state.workers],
    )
