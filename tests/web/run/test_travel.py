"""A run at each of its steps, with all earlier contributions and no later ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from flowdebate.ui.steps import StepState
from flowdebate.web.run.sheet import Sheet, Turn
from flowdebate.web.run.travel import fork_line, moment_at
from tests.browser.answers import answer_request

if TYPE_CHECKING:
    from flowdebate.service.state import RunDetails
    from flowdebate.web.run.travel import Moment

QUESTION = "Should we ship?"


async def finish_run(pattern: str) -> tuple[RunDetails, Sheet]:
    """Finish a run, and return it with its sheet."""
    async with Service(store="memory:", model=FunctionModel(answer_request)) as service:
        await service.begin(pattern, QUESTION, run_id="run")
        details = await service.wait("run")
        assert details.document is not None
        steps = [StepState.of(step) for step in await service.store.steps("run")]
        events = await service.events("run")
        return details, Sheet.of(details.document, details=details, steps=steps, events=events)


@pytest.fixture(scope="module", params=PATTERNS)
def pattern_sheet(request: pytest.FixtureRequest) -> Sheet:
    """Return a sheet for each pattern."""
    return asyncio.run(finish_run(request.param))[1]


def turn_numbers(moment: Moment) -> list[int]:
    """Return the step numbers of the turns so far."""
    turns = [part for entry in moment.rounds for part in entry.parts if isinstance(part, Turn)]
    return [turn.call.number for turn in turns if turn.call is not None]


def test_transcript_at_a_step_contains_all_earlier_turns(pattern_sheet: Sheet) -> None:
    every = [turn for sheet_round in pattern_sheet.rounds for turn in sheet_round.parts if isinstance(turn, Turn)]
    spoken = sorted(turn.call.number for turn in every if turn.call is not None)
    assert spoken
    for number in range(1, len(pattern_sheet.trace.calls) + 1):
        moment = moment_at(pattern_sheet, number)
        assert moment is not None
        assert moment.call.number == number
        assert (moment.before, moment.after) == (number - 1, len(pattern_sheet.trace.calls) - number)
        assert sorted(turn_numbers(moment)) == [earlier for earlier in spoken if earlier < number]
        assert moment.turns == len(turn_numbers(moment))


def test_number_past_the_end_selects_the_last_step(pattern_sheet: Sheet) -> None:
    """The link may come from a longer fork, which has more steps."""
    assert moment_at(pattern_sheet, 10_000) == moment_at(pattern_sheet, len(pattern_sheet.trace.calls))


def test_fork_shows_its_changes() -> None:
    """The first changed step and its author are shown. Paths that the parent does not have are ignored."""
    run, sheet = asyncio.run(finish_run("debate"))
    steps = {call.place: call for call in sheet.trace.calls}
    first, second, *_, last = steps
    for at, edited, step, changed in (
        (None, (), None, "other options"),
        (last, (), len(steps), f"{steps[last].who} asked again"),
        (None, (second, first), 1, "pro, con changed"),
        (last, (second,), 2, f"con changed; {steps[last].who} asked again"),
        ("elsewhere", ("nowhere",), None, "other options"),
    ):
        line = fork_line(run, at=at, edited=edited, steps=steps, sheet=None)
        assert (line.step, line.changed) == (step, changed)
