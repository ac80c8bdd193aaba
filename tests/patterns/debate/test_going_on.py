"""Finished debates that are continued: earlier calls are reused, and only new ones cost anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowdebate import Debater, Persona, debate, handler, round_robin
from flowdebate.errors import ConfigurationError
from flowdebate.runs.durable.fork import Continuation
from flowdebate.runs.events import ModelCalled
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import events
from tests.server.stage import staged

SIDES = [Debater("pro", "Trams are better"), Debater("con", "Buses are better")]


class Counting:
    """A model that numbers its answers and records its prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.model = FunctionModel(self.answer)

    def answer(self, request: Any) -> Any:
        """Return an argument or a verdict."""
        self.prompts.append(str(request.messages))
        number = len(self.prompts)
        if request.output_schema is not None:
            return {"verdict": f"Verdict {number}.", "winner": None, "reasoning": "-"}
        return f"Argument {number}."


def count_new_calls(run: Any) -> int:
    """Count the calls that were not taken from the parent run."""
    return sum(event.origin == "asked" for event in events(run, ModelCalled))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"terminate_when": lambda ctx: True},
        {"turn_order": "shuffled"},
        {"phases": ["opening", {"name": "cross-examination", "asks": "pairs"}]},
        {"moderator": lambda _: {"next_speakers": ["pro", "con"], "done": True}},
    ],
)
def test_earlier_arguments_are_reused(options: dict[str, Any]) -> None:
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False, **options)

    async def continue_debate() -> tuple[Any, Any]:
        parent = await pattern.run("Trams or buses?", model=counting.model, store=store)
        return parent, await pattern.continue_run(parent.run_id, model=counting.model, store=store)

    parent, longer = asyncio.run(continue_debate())
    entries = list(parent.raw.transcript)
    assert list(longer.raw.transcript)[: len(entries)] == entries
    assert longer.raw.rounds == parent.raw.rounds + 1
    assert count_new_calls(longer) == 2 + 1
    assert longer.raw.verdict.verdict != parent.raw.verdict.verdict


def test_both_halves_of_a_mirrored_debate_are_continued() -> None:
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False, mirror=True, max_rounds=1)

    async def continue_debate() -> Any:
        parent = await pattern.run("Trams or buses?", model=counting.model, store=store)
        return await pattern.continue_run(parent.run_id, model=counting.model, store=store)

    longer = asyncio.run(continue_debate())
    assert (longer.raw.rounds, longer.raw.mirrored.rounds) == (2, 2)
    assert count_new_calls(longer) == 2 * (2 + 1)


def test_debaters_answer_a_question_from_a_reader() -> None:
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False, max_rounds=1)

    async def continue_debate() -> Any:
        first = await pattern.run("Trams or buses?", model=counting.model, store=store)
        second = await pattern.continue_run(first.run_id, ask="What does {it} cost?", model=counting.model, store=store)
        return await pattern.continue_run(second.run_id, rounds=2, ask="When?", model=counting.model, store=store)

    third = asyncio.run(continue_debate())
    questions = [(question.round, question.text) for question in third.raw.reader_questions]
    assert questions == [
        (2, "What does {it} cost?"),
        (3, "When?"),
    ]
    answering = [prompt for prompt in counting.prompts if "A reader of the debate asks: What does {it} cost?" in prompt]
    assert len(answering) == 2
    assert len([prompt for prompt in counting.prompts if "asks: When?" in prompt]) == 2
    assert third.raw.rounds == 4


def test_runs_that_cannot_continue_are_rejected() -> None:
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False)

    @handler(name="city")
    def other(_: object) -> str:
        return "no debate"

    async def refused(block: Any, message: str, **options: Any) -> None:
        with pytest.raises(ConfigurationError, match=message):
            await block.continue_run("parent", model=counting.model, store=store, **options)

    async def continue_debate() -> None:
        await pattern.run("Trams or buses?", model=counting.model, store=store, run_id="parent")
        await refused(pattern, "`rounds` must be between 1 and 1,000 \\(got 0\\)", rounds=0)
        await refused(pattern, "`ask` must be a question of at most 4,000 characters", ask=" ")
        await refused(other, "`pattern` must be a debate; other patterns cannot be continued")

    asyncio.run(continue_debate())
    assert len(counting.prompts) == 5


def test_front_ends_continue_a_debate_by_forking_it() -> None:
    counting = Counting()

    async def continue_debate() -> Any:
        async with Service(store="memory:", model=counting.model) as service:
            sides = [{"name": side.name, "stance": side.stance} for side in SIDES]
            options = {"debaters": sides, "synthesizer": False, "max_rounds": 1}
            with pytest.raises(ConfigurationError, match="cannot be set for a new run"):
                await service.begin("debate", "Trams or buses?", options={**options, "continuation": {"rounds": 1}})
            first = await service.begin("debate", "Trams or buses?", options=options)
            await service.wait(first.run_id)
            second = await service.fork(first.run_id, options={"continuation": {"ask": "What would it cost?"}})
            return await service.wait(second.run_id)

    details = asyncio.run(continue_debate())
    assert details.document.raw.rounds == 2
    assert details.document.max_rounds == 2
    assert [question.text for question in details.document.raw.reader_questions] == ["What would it cost?"]
    sections = [section for section in details.document.sections() if getattr(section, "label", "") == "A reader asks"]
    assert [section_.text for section_ in sections] == ["What would it cost?"]
    assert len(counting.prompts) == 4 + 4


def raw_of(details: Any) -> Any:
    """Return the raw output from a run document."""
    return details.document.raw


def test_forks_of_application_debates_can_be_read_and_resumed() -> None:
    """A debate built by an application is not described by a plan, so the fork itself records its additional rounds.

    Runs of other patterns cannot be given additional rounds.
    """
    counting = Counting()
    city = debate(name="city", debaters=SIDES, synthesizer=False, max_rounds=1)
    talk = round_robin(name="talk", debaters=[Persona("ann"), Persona("bob")], max_rounds=1)

    async def continue_debate() -> None:
        store = MemoryStore()
        async with Service({"city": city, "talk": talk}, store=store, model=counting.model) as service:
            first = await service.begin("city", "Trams or buses?")
            await service.wait(first.run_id)
            second = await service.fork(
                first.run_id, options={"continuation": {"rounds": 2, "ask": "When?"}}, fork_id="two"
            )
            details = await service.wait(second.run_id)
            assert [question.text for question in raw_of(details).reader_questions] == ["When?"]
            assert (raw_of(details).rounds, len(counting.prompts)) == (3, 3 + 4 + 1)
            forked = await service.wait((await service.fork("two", fork_id="again")).run_id)
            assert (raw_of(forked).rounds, len(counting.prompts)) == (3, 8)
            third = await service.wait((await service.fork("two", options={"continuation": {"ask": "Where?"}})).run_id)
            assert [(question.round, question.text) for question in raw_of(third).reader_questions] == [
                (2, "When?"),
                (4, "Where?"),
            ]
            lease = await store.take("again")
            await store.finish("again", "interrupted", lease.outcome)
            assert (await service.resume("again")).run_id == "again"
            resumed = await service.wait("again")
            assert (resumed.status, raw_of(resumed).rounds) == ("complete", 3)
            other = await service.begin("talk", "Trams or buses?")
            await service.wait(other.run_id)
            with pytest.raises(
                ConfigurationError, match="`continuation` cannot be set: only a debate outside the queue"
            ):
                await service.fork(other.run_id, options={"continuation": {"rounds": 1}})

    asyncio.run(continue_debate())


@pytest.mark.parametrize(
    ("more", "field", "problem"),
    [
        ({"rounds": 0}, "continuation.rounds", "must be between 1 and 1,000"),
        ({"rounds": True}, "continuation.rounds", "must be a whole number between 1 and 1,000"),
        ({"ask": "x" * 4_001}, "continuation.ask", "must be a question of at most 4,000 characters"),
        ({"ask": " "}, "continuation.ask", "must be a question of at most 4,000 characters"),
        ({"rounds": 1, "held": 9}, "continuation", 'a table with "rounds" (default: 1), "ask" or both'),
        ("one more", "continuation", "must be a table"),
    ],
)
def test_forks_over_http_continue_a_debate_or_report_the_error(more: Any, field: str, problem: str) -> None:
    counting = Counting()
    with staged(lambda: Service(store="memory:", model=counting.model)) as stage:
        run_id, call_count = stage.finished(), len(counting.prompts)
        refused = stage.post(f"/runs/{run_id}/fork", {"options": {"continuation": more}})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
        assert problem in refused.text.replace('\\"', '"')
        assert len(counting.prompts) == call_count
        forked = stage.post(f"/runs/{run_id}/fork", {"options": {"continuation": {"ask": "What would it cost?"}}})
        assert forked.status_code == 201, forked.text
        raw = stage.get(f"/runs/{forked.json()['runId']}?wait=30").json()["document"]["raw"]
    assert (raw["rounds"], len(counting.prompts)) == (2, call_count + 4)
    assert raw["readerQuestions"] == [{"round": 2, "text": "What would it cost?"}]


@pytest.mark.parametrize("rounds", [0, 10_001, "two", None])
def test_continuations_with_impossible_round_counts_are_rejected(rounds: Any) -> None:
    assert Continuation.of_plan(Continuation(held=2, rounds=1, asked=((3, "When?"),)).to_plan()) is not None
    with pytest.raises(ConfigurationError, match="continuation"):
        Continuation.of_plan({"held": rounds, "rounds": 1, "asked": []})
