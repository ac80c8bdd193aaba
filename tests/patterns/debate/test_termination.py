"""Every debate ends, whatever the debaters, moderators, judges, synthesizers, predicates and models do."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

from hypothesis import given

from flowdebate import FlowDebateWarning
from flowdebate.chassis.state import RoundsEnded, RoundStarted, TurnStarted
from flowdebate.errors import FlowDebateError
from flowdebate.runs.events import RunFinished
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.strategies import debates
from tests.patterns.debates import events

if TYPE_CHECKING:
    from flowdebate.runs.result import RunHandle, RunView
    from flowdebate.testing.cases import DebateCase

TURNS_EACH = 4
"""Maximum number of turns per debater and round that the moderators in these debates assign."""
TOOL_ROUNDS = 9
"""Maximum number of requests made by a block whose model keeps calling tools."""


async def _run_to_end(case: DebateCase) -> RunHandle[object]:
    """Run the debate to completion, allowing errors from the library and from the case's own functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        handle = case.debate().start(case.question, model=case.model(), seed=case.seed)
        try:
            await handle
        except (FlowDebateError, Sabotage):
            assert handle.status == "failed"
        else:
            assert handle.status in {"complete", "degraded", "no_verdict"}
    return handle


def _run(case: DebateCase) -> RunHandle[object]:
    return asyncio.run(_run_to_end(case))


def _check_transcript(case: DebateCase, run: RunView) -> None:
    entries = run.transcript.entries
    stance_of = {debater.name: debater.stance for debater in case.roster}
    rounds = [entry.round for entry in entries]
    assert rounds == sorted(rounds)
    assert set(rounds) <= set(range(1, case.max_rounds + 1))
    assert all(stance_of[entry.agent_name] == entry.stance for entry in entries)
    assert all(isinstance(entry.text, str) and "\0" not in entry.text for entry in entries)


def _check_trail(case: DebateCase, run: RunView) -> None:
    completed = [
        (task.metadata["round"], task.assignee, task.metadata["stance"], task.output)
        for task in run.tasks.list(status="completed")
    ]
    assert completed == [(e.round, e.agent_name, e.stance, e.text) for e in run.transcript.entries]
    assert run.tasks.count() == len(events(run, TurnStarted))
    unfinished = [task.status for task in run.tasks.list() if task.status != "completed"]
    skipped = 0 if run.raw is None else sum(loss.instead == "skipped" for loss in run.raw.losses)
    assert set(unfinished) <= {"errored"}
    orders = [case.options.get("turn_order"), *(phase.turn_order for phase in case.options.get("phases", ()))]
    at_once = len(case.roster) if "simultaneous" in orders else 1
    assert skipped <= len(unfinished) <= skipped + at_once * (run.status == "failed")


def _max_calls(case: DebateCase) -> int:
    """Return the maximum number of calls by the moderator, the debaters, the judge and the synthesizer.

    In a cross-examination, each debater takes two turns per round.
    """
    moderated = case.options.get("moderator") is not None
    turns = (TURNS_EACH + 1) * len(case.roster) if moderated else len(case.roster)
    turns_per_speaker = max((phase.turns for phase in case.options.get("phases", ())), default=1)
    return case.max_rounds * (turns * turns_per_speaker + moderated) + 2


@given(debates())
def test_valid_debates_end_within_max_rounds(case: DebateCase) -> None:
    run = _run(case)
    stances = {entry.stance for entry in run.transcript.entries}
    assert run.status == ("complete" if stances == set(case.stances) else "degraded" if stances else "no_verdict")
    assert 1 <= len(events(run, RoundStarted)) <= case.max_rounds
    assert run.usage.calls <= _max_calls(case)
    _check_transcript(case, run)
    _check_trail(case, run)
    raw = run.raw
    (stop,) = events(run, RoundsEnded)
    assert raw is not None
    assert (raw.rounds, raw.stop_reason) == (stop.rounds, stop.reason) == (len(events(run, RoundStarted)), stop.reason)
    assert raw is not None
    assert raw.transcript == run.transcript.entries
    assert raw is not None
    assert raw.question == case.question
    assert raw is not None
    assert (raw.verdict is None) == (not stances)
    assert raw is not None
    assert raw.verdict is None or raw.verdict.winner in {None, *case.stances}
    moderated = case.options.get("moderator") is not None
    assert raw is not None
    assert [choice.round for choice in raw.moderator_decisions] == (list(range(1, raw.rounds + 1)) if moderated else [])
    if stop.reason == "max_rounds":
        assert raw is not None
        assert raw.rounds == case.max_rounds
    else:
        assert raw is not None
        assert raw.rounds < case.max_rounds


@given(debates(hostile=True))
def test_hostile_debates_end_or_raise_an_error(case: DebateCase) -> None:
    run = _run(case)
    assert run.status in {"complete", "degraded", "no_verdict", "failed"}
    assert len(events(run, RoundStarted)) <= case.max_rounds
    assert run.usage.calls <= TOOL_ROUNDS * _max_calls(case)
    assert isinstance(run.events[-1], RunFinished)
    _check_transcript(case, run)
    _check_trail(case, run)
    if run.raw is not None:
        assert run.raw.transcript == run.transcript.entries
        assert run.raw.verdict is not None or run.raw.status == run.status in {"failed", "no_verdict"}


@given(debates())
def test_seed_determines_the_debate(case: DebateCase) -> None:
    assert case.run_sync().raw == case.run_sync().raw
