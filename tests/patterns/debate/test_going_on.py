"""A finished debate goes on: what was said is reused, and only what is new is paid for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowdebate import Debater, Persona, debate, handler, round_robin
from flowdebate.errors import ConfigurationError
from flowdebate.runs.durable.fork import GoesOn
from flowdebate.runs.events import ModelCalled
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import events
from tests.server.stage import staged

SIDES = [Debater("pro", "Trams are better"), Debater("con", "Buses are better")]


class Counting:
    """A model that numbers its answers, and keeps what it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.model = FunctionModel(self.answer)

    def answer(self, request: Any) -> Any:
        """An argument, or a verdict."""
        self.prompts.append(str(request.messages))
        number = len(self.prompts)
        if request.output_schema is not None:
            return {"verdict": f"Verdict {number}.", "winner": None, "reasoning": "-"}
        return f"Argument {number}."


def asked(run: Any) -> int:
    """Calls that were not taken from the parent."""
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
def test_what_was_said_is_reused(options: dict[str, Any]) -> None:
    """Whatever ended the debate; one more round and the verdict are asked for."""
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False, **options)

    async def go() -> tuple[Any, Any]:
        parent = await pattern.run("Trams or buses?", model=counting.model, store=store)
        return parent, await pattern.continue_run(parent.run_id, model=counting.model, store=store)

    parent, longer = asyncio.run(go())
    said = list(parent.raw.transcript)
    assert list(longer.raw.transcript)[: len(said)] == said
    assert longer.raw.rounds == parent.raw.rounds + 1
    assert asked(longer) == 2 + 1
    assert longer.raw.verdict.verdict != parent.raw.verdict.verdict


def test_the_mirror_goes_on_as_well() -> None:
    """Both debates have one more round, and both verdicts are found anew."""
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False, mirror=True, max_rounds=1)

    async def go() -> Any:
        parent = await pattern.run("Trams or buses?", model=counting.model, store=store)
        return await pattern.continue_run(parent.run_id, model=counting.model, store=store)

    longer = asyncio.run(go())
    assert (longer.raw.rounds, longer.raw.mirrored.rounds) == (2, 2)
    assert asked(longer) == 2 * (2 + 1)


def test_debaters_answer_the_question_of_a_reader() -> None:
    """In the round after it, and a debate may go on more than once."""
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False, max_rounds=1)

    async def go() -> Any:
        first = await pattern.run("Trams or buses?", model=counting.model, store=store)
        second = await pattern.continue_run(first.run_id, ask="What does {it} cost?", model=counting.model, store=store)
        return await pattern.continue_run(second.run_id, rounds=2, ask="When?", model=counting.model, store=store)

    third = asyncio.run(go())
    told = [(each.round, each.text) for each in third.raw.reader_questions]
    assert told == [
        (2, "What does {it} cost?"),
        (3, "When?"),
    ]
    answering = [prompt for prompt in counting.prompts if "A reader of the debate asks: What does {it} cost?" in prompt]
    assert len(answering) == 2
    assert len([prompt for prompt in counting.prompts if "asks: When?" in prompt]) == 2
    assert third.raw.rounds == 4


def test_a_run_that_cannot_go_on_is_refused() -> None:
    """With the field, before anything is paid for."""
    counting, store = Counting(), MemoryStore()
    pattern = debate(name="city", debaters=SIDES, synthesizer=False)

    @handler(name="city")
    def other(_: object) -> str:
        return "no debate"

    async def refused(block: Any, message: str, **options: Any) -> None:
        with pytest.raises(ConfigurationError, match=message):
            await block.continue_run("parent", model=counting.model, store=store, **options)

    async def go() -> None:
        await pattern.run("Trams or buses?", model=counting.model, store=store, run_id="parent")
        await refused(pattern, "`rounds` must be at least 1 \\(got 0\\)", rounds=0)
        await refused(pattern, "`ask` must be a question of at most 4,000 characters", ask=" ")
        await refused(other, "`pattern` must be a debate: no other pattern goes on")

    asyncio.run(go())
    assert len(counting.prompts) == 5


def test_front_ends_go_on_by_a_fork_with_an_option() -> None:
    """As over HTTP and MCP, and on the page; and the fork can be read and resumed by its plan."""
    counting = Counting()

    async def go() -> Any:
        async with Service(store="memory:", model=counting.model) as service:
            sides = [{"name": each.name, "stance": each.stance} for each in SIDES]
            options = {"debaters": sides, "synthesizer": False, "max_rounds": 1}
            with pytest.raises(ConfigurationError, match="cannot be part of a new run"):
                await service.begin("debate", "Trams or buses?", options={**options, "goes_on": {"rounds": 1}})
            first = await service.begin("debate", "Trams or buses?", options=options)
            await service.wait(first.run_id)
            second = await service.fork(first.run_id, options={"goes_on": {"ask": "What would it cost?"}})
            return await service.wait(second.run_id)

    details = asyncio.run(go())
    assert details.document.raw.rounds == 2
    assert details.document.max_rounds == 2
    assert [each.text for each in details.document.raw.reader_questions] == ["What would it cost?"]
    shown = [each for each in details.document.sections() if getattr(each, "label", "") == "A reader asks"]
    assert [each.text for each in shown] == ["What would it cost?"]
    assert len(counting.prompts) == 4 + 4


def raw_of(details: Any) -> Any:
    """The raw output in the document of a run."""
    return details.document.raw


def test_a_debate_of_the_application_goes_on_and_its_fork_is_read_forked_and_resumed_as_such() -> None:
    """It has no plan: its fork says itself by how many rounds it is longer. Another pattern has none to go on with."""
    counting = Counting()
    city = debate(name="city", debaters=SIDES, synthesizer=False, max_rounds=1)
    talk = round_robin(name="talk", debaters=[Persona("ann"), Persona("bob")], max_rounds=1)

    async def go() -> None:
        store = MemoryStore()
        async with Service({"city": city, "talk": talk}, store=store, model=counting.model) as service:
            first = await service.begin("city", "Trams or buses?")
            await service.wait(first.run_id)
            second = await service.fork(first.run_id, options={"goes_on": {"rounds": 2, "ask": "When?"}}, fork_id="two")
            details = await service.wait(second.run_id)
            assert [each.text for each in raw_of(details).reader_questions] == ["When?"]
            assert (raw_of(details).rounds, len(counting.prompts)) == (3, 3 + 4 + 1)
            again = await service.wait((await service.fork("two", fork_id="again")).run_id)
            assert (raw_of(again).rounds, len(counting.prompts)) == (3, 8)
            third = await service.wait((await service.fork("two", options={"goes_on": {"ask": "Where?"}})).run_id)
            assert [(each.round, each.text) for each in raw_of(third).reader_questions] == [
                (2, "When?"),
                (4, "Where?"),
            ]
            taken = await store.take("again")
            await store.finish("again", "interrupted", taken.outcome)
            assert (await service.resume("again")).run_id == "again"
            resumed = await service.wait("again")
            assert (resumed.status, raw_of(resumed).rounds) == ("complete", 3)
            other = await service.begin("talk", "Trams or buses?")
            await service.wait(other.run_id)
            with pytest.raises(ConfigurationError, match="`goes_on` cannot be set: only a debate goes on"):
                await service.fork(other.run_id, options={"goes_on": {"rounds": 1}})

    asyncio.run(go())


@pytest.mark.parametrize(
    ("more", "field", "problem"),
    [
        ({"rounds": 0}, "goes_on.rounds", "must be from 1 to 1,000"),
        ({"rounds": True}, "goes_on.rounds", "must be a whole number from 1 to 1,000"),
        ({"ask": "x" * 4_001}, "goes_on.ask", "must be a question of at most 4,000 characters"),
        ({"ask": " "}, "goes_on.ask", "must be a question of at most 4,000 characters"),
        ({"rounds": 1, "held": 9}, "goes_on", 'a table of "rounds" (default 1), "ask" or both'),
        ("one more", "goes_on", "must be a table"),
    ],
)
def test_over_http_a_fork_goes_on_and_what_is_wrong_is_named(more: Any, field: str, problem: str) -> None:
    """What was held is for the server to say, and nobody is asked before all is right."""
    counting = Counting()
    with staged(lambda: Service(store="memory:", model=counting.model)) as stage:
        run_id, asked = stage.finished(), len(counting.prompts)
        refused = stage.post(f"/runs/{run_id}/fork", {"options": {"goes_on": more}})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
        assert problem in refused.text.replace('\\"', '"')
        assert len(counting.prompts) == asked
        forked = stage.post(f"/runs/{run_id}/fork", {"options": {"goes_on": {"ask": "What would it cost?"}}})
        assert forked.status_code == 201, forked.text
        raw = stage.get(f"/runs/{forked.json()['runId']}?wait=30").json()["document"]["raw"]
    assert (raw["rounds"], len(counting.prompts)) == (2, asked + 4)
    assert raw["readerQuestions"] == [{"round": 2, "text": "What would it cost?"}]


@pytest.mark.parametrize("held", [0, 10_001, "two", None])
def test_an_import_cannot_say_that_more_was_held_than_a_debate_has(held: Any) -> None:
    """What a stored plan says of it is read strictly: anybody may have written it."""
    assert GoesOn.of_plan(GoesOn(held=2, rounds=1, asked=((3, "When?"),)).to_plan()) is not None
    with pytest.raises(ConfigurationError, match="goes_on"):
        GoesOn.of_plan({"held": held, "rounds": 1, "asked": []})
