"""A finished debate goes on: what was said is reused, and only what is new is paid for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowdebate import Debater, debate, handler
from flowdebate.errors import ConfigurationError
from flowdebate.runs.events import ModelCalled
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import events

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
        await refused(pattern, "`rounds` must be an int >= 1, got 0", rounds=0)
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
            with pytest.raises(ConfigurationError, match="left out of a new run"):
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
    assert len(counting.prompts) == 3 + 3
