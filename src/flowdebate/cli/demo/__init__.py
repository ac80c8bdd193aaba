"""Recorded runs of the local model, for `flowdebate demo` and `flowdebate review --demo`."""

from __future__ import annotations

import asyncio
import secrets
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn
from urllib.parse import urlencode

import typer

from flowdebate._util.validation import check_library, check_number
from flowdebate.cli import options as opt
from flowdebate.cli.execute import Show, execute
from flowdebate.cli.terminal.process import print_message, report_problems
from flowdebate.ui.options import COMMAND, Option

if TYPE_CHECKING:
    from flowdebate.service.service import Service
    from flowdebate.ui.plan import Plan

_FOLDER = Path(__file__).parent
RECORDING = _FOLDER / "recording.jsonl"
REVIEW_RECORDING = _FOLDER / "review.jsonl"
REVIEW_TOLD = (
    'A recording: no model is asked. Qwen2.5-Coder-1.5B-Instruct (the model "local") played all three reviewers, with '
    "seed 1, in 341 seconds on two busy cores; nothing was edited. It is a very small model: expect more from larger "
    "ones."
)
TOLD = (
    'A recording: no model is asked. Qwen2.5-Coder-1.5B-Instruct (the model "local") spoke and judged, with seed 1, '
    "in 200 seconds on two cores that were busy with other work; nothing was edited, and only the waits are shorter."
)
_WORDS = 4.0
"""Reading speed, in words per second."""
_AT_ONCE = 1_000.0
"""Playback speed for non-interactive output, high enough that pauses go unnoticed."""


@opt.command()
def demo(
    *,
    speed: Annotated[
        float | None,
        Option(metavar="N", help="Speed, in multiples of reading speed. Default: 1; no delays in a pipe."),
    ] = None,
    page: Annotated[bool, Option(help="Play it in a browser.")] = False,
) -> None:
    """Play back a debate recorded with the local model; no model, key or network is needed."""
    check_number(COMMAND, {"--speed": speed}, above=0, maximum=1_000, optional=True)
    watched = page or sys.stdout.isatty()
    play(recorded_plan(speed or (1.0 if watched else _AT_ONCE)), TOLD, page=page)


def play_review(*, page: bool) -> NoReturn:
    """Play the recorded review in the terminal or in a browser."""
    from flowdebate.models.recording import ReplayModel
    from flowdebate.patterns import PATTERNS
    from flowdebate.ui.plan import make_plan

    model = ReplayModel(REVIEW_RECORDING)
    plan = make_plan(PATTERNS["review"], {}, file=str(_FOLDER / "review.toml"))
    play(replace(plan, models={"chat": model, "synthesize": model}), REVIEW_TOLD, page=page)


def play(plan: Plan, description: str, *, page: bool) -> NoReturn:
    """Print a plan's `description`, run the plan with recorded models, then exit."""
    with report_problems():
        if page:
            check_library("--page", "fastapi", library="FastAPI", extra="server")
            asyncio.run(_serve(plan, description))
            raise typer.Exit
        show = Show(as_json=False, quiet=False, head=[description])

        async def unstored(_: Service | None) -> None:
            """Do nothing, because the run is not stored and cannot be resumed."""

        code = asyncio.run(execute(plan, None, unstored, show, None))
    raise typer.Exit(code)


def recorded_plan(speed: float) -> Plan:
    """Return the plan for the recorded debate, with a model that replays the recording."""
    from flowdebate.models.recording import PlayedModel
    from flowdebate.patterns import PATTERNS
    from flowdebate.ui.plan import make_plan

    model = PlayedModel(RECORDING, words=_WORDS * speed)
    plan = make_plan(PATTERNS["debate"], {}, file=str(_FOLDER / "demo.toml"))
    return replace(plan, models={"chat": model, "synthesize": model})


async def _serve(plan: Plan, description: str) -> None:
    """Play the recording in a browser until interrupted, on a server that has no other runs."""
    from flowdebate.server import create_app
    from flowdebate.server.app import serve
    from flowdebate.service.service import Service
    from flowdebate.store import MemoryStore

    token = secrets.token_urlsafe(32)
    service = Service(store=MemoryStore())
    playing = await service.begin(plan)
    await service.write_note(playing.run_id, description)

    def started(base: str, _: object) -> None:
        url = f"{base.rstrip('/')}/runs/{playing.run_id}?{urlencode({'token': token})}"
        print_message(f"{description}\nPlaying at {url}")
        webbrowser.open(url)

    await serve(create_app(service, token=token, read_only=True), port=0, started=started)
