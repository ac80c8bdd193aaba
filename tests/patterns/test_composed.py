"""Every pattern as a block: concurrent runs of a single object, runs in a session, and pipeline steps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Session, debate, sequencer
from flowdebate.testing import FunctionModel
from tests.cases import slow_but_first

from .debates import SIDES, by_role
from .every import PATTERNS
from .talks import Talkers, talk, words_in

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

QUESTIONS = [f"Should we build {number} trams?" for number in range(12)]


def slow_model(talkers: Talkers) -> FunctionModel:
    """Create a model that answers like `talkers`, but lets all other calls run before each answer."""

    async def reply(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        return talkers.reply(request)

    return FunctionModel(reply)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "in one session"])
@pytest.mark.parametrize("pattern", slow_but_first(PATTERNS))
async def test_concurrent_runs_of_a_pattern_are_independent(pattern: str, shared: bool) -> None:  # noqa: FBT001
    """Each result is the same as if its run had been the only one, although answers depend on the whole prompt."""
    pattern_ = talk(pattern)
    alone = [await pattern_.run(question, model=Talkers().model(), seed=1) for question in QUESTIONS]
    assert len({word for run in alone for word in words_in(run.raw)}) == sum(len(words_in(run.raw)) for run in alone)
    options: dict[str, Any] = {"session": Session()} if shared else {}
    model = slow_model(Talkers())
    results = await asyncio.gather(*(pattern_.run(question, model=model, seed=1, **options) for question in QUESTIONS))
    for question, one, result in zip(QUESTIONS, alone, results, strict=True):
        assert result.raw.subject == question
        assert words_in(result.raw) == words_in(one.raw)
        assert result.raw.entries == one.raw.entries
        assert result.tasks.count("completed") == one.tasks.count("completed") > 0
    assert len({result.run_id for result in results}) == len(QUESTIONS)


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_second_run_in_a_session_starts_fresh(pattern: str) -> None:
    """An earlier debate may have left a different kind of transcript in the session."""
    session, pattern_ = Session(), talk(pattern)
    first = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    await first.run("Cap rents?", model=by_role(), session=session)
    runs = [await pattern_.run(QUESTIONS[0], model=Talkers().model(), session=session, seed=1) for _ in range(2)]
    assert runs[0].raw.entries == runs[1].raw.entries
    assert runs[0].raw.entries


@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_for_each_runs_a_pattern_once_per_subject(pattern: str, limit: int | None) -> None:
    several = sequencer(name="all").map(list).for_each(talk(pattern), max_concurrency=limit)
    result = await several.run(QUESTIONS[:3], model=slow_model(Talkers()), seed=1)
    assert [output.subject for output in result.output] == QUESTIONS[:3]
    assert len(result.task_collections) == 3
    words = [words_in(output) for output in result.output]
    assert all(words)
    assert len(set().union(*words)) == sum(map(len, words))
    chain = sequencer(name="chain").map(str.upper).then(talk(pattern)).map(lambda output: output.subject)
    assert (await chain.run("why?", model=Talkers().model())).output == "WHY?"
