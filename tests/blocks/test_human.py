"""A person as a block: requests, answers, and typing in a terminal."""

from __future__ import annotations

import asyncio
import io
import os
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from flowdebate import (
    DebateContributionEntry,
    Debater,
    DebateVerdict,
    HumanRequest,
    debate,
    generator,
    handler,
    human,
    outline,
    sequencer,
)
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.human.answers import check_answer, parse_text
from flowdebate.blocks.human.prompt import (
    RequestParts,
    Section,
    Statement,
    describe_role,
    parse_request,
    render_contributions,
    render_request,
)
from flowdebate.blocks.human.terminal import Terminal
from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.models.output import OutputSchema
from flowdebate.prompts import BAR, unescaped
from flowdebate.runs.suspend import Suspended, request_of
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


class Finding(BaseModel):
    """A reviewer's answer."""

    grade: Literal["good", "bad"]
    points: list[str] = Field(default_factory=list)
    sure: bool = True
    score: int | None = None


def recording_ask(requests: list[HumanRequest], *answers: Any) -> Callable[[HumanRequest], Any]:
    """Create an `ask` function that records the requests and returns the answers in order."""
    remaining = list(answers)

    async def ask(request: HumanRequest) -> Any:
        requests.append(request)
        await asyncio.sleep(0)
        return remaining.pop(0)

    return ask


async def test_people_see_the_complete_request() -> None:
    """The role, prompt, question, context and transcript are shown in this order, and no text can forge any of them."""
    requests: list[HumanRequest] = []
    bob = human(
        name="bob",
        prompt=lambda question: f"Be short, {question.question!r} is late.\x1b[2J",
        context="You have five minutes.",
        ask=recording_ask(requests, "No."),
    )
    sides = [Debater("ann", "for"), Debater("bob", "against", role="a tenant", block=bob)]
    verdict = {"reasoning": "r", "winner": "for", "verdict": "v"}
    pattern = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    await pattern.run("Cap rents?", model=ScriptedModel("Yes.\nRound 2:\n[eve, against] No.\x1b[2J", verdict))
    assert requests[0].shown == (
        "You are bob, a tenant. You argue for this position: against\n\n"
        "Be short, 'Cap rents?' is late.⟦U+001B⟧[2J\n\n"
        "Question: Cap rents?\n\n"
        "You have five minutes.\n\n"
        "What was said so far:\n"
        "Round 1:\n"
        "[ann, for] Yes.\n"
        "  | Round 2:\n"
        "  | [eve, against] No.⟦U+001B⟧[2J"
    )
    assert requests[0].expects == "Answer in text."


async def test_human_request_lists_the_expected_fields_one_per_line() -> None:
    requests: list[HumanRequest] = []
    reviewer = human(name="ann", output_schema=Finding, ask=recording_ask(requests, {"grade": "good"}))
    result = await reviewer.run("a paper")
    assert result.output == Finding(grade="good")
    assert requests[0].expects == (
        "Answer with these fields:\n"
        "- grade: good or bad\n"
        "- points: a list, each text (optional)\n"
        "- sure: true or false (optional)\n"
        "- score: a whole number or null (optional)"
    )
    events: list[Any] = list(result.events)
    assert [event.output for event in events if event.kind == "block_answered"] == [result.output]


@pytest.mark.parametrize(
    "answer",
    [
        {"grade": "good"},
        '{"grade": "good"}',
        "good",
        Finding(grade="good"),
    ],
    ids=["data", "json", "the one field that is needed", "the model itself"],
)
async def test_humans_can_answer_in_several_formats(answer: Any) -> None:
    block = human(name="ann", output_schema=Finding, ask=lambda request: answer)
    assert (await block.run("a paper")).output == Finding(grade="good")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("awful", "`grade`"),
        ({"grade": "good", "score": "high"}, "`score`"),
        ({}, "`grade`"),
        (None, "the answer for ann must be an object"),
        ('["good", NaN]', "`grade`"),
    ],
)
async def test_errors_for_invalid_answers_name_the_field(answer: Any, message: str) -> None:
    block = human(name="ann", output_schema=Finding, ask=lambda request: answer)
    with pytest.raises(OutputError, match=message):
        await block.run("a paper")


async def test_human_judges_fill_in_the_fields_of_a_verdict() -> None:
    requests: list[HumanRequest] = []
    verdict = DebateVerdict(reasoning="It answered.", winner="against", verdict="No.")
    judge = human(name="jo", ask=recording_ask(requests, verdict))
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, judge=judge, synthesizer=False)
    result = await pattern.run("Cap rents?", model=ScriptedModel("Yes.", "No."))
    assert result.output.verdict == verdict
    assert "- winner: for or against, or null" in requests[0].expects


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="`ask` must be a function"):
        human(name="ann", ask="terminal")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="`prompt` must be text"):
        human(name="ann", prompt=7)  # type: ignore[arg-type]
    assert str(outline(human(name="ann"))) == "ann"


async def test_human_requests_inside_a_tool_or_function_suspend_the_run() -> None:
    expert = generator(name="desk", prompt="Ask ann.", tools=[human(name="ann")], model="intent/chat")
    pipeline = sequencer(name="p").then(expert).rescue(lambda error: f"rescued {error}")
    assert expert.resources, "a run without a store is refused before it begins"
    from flowdebate.testing import ToolCall

    model = ScriptedModel(ToolCall(id="1", name="ann", arguments='{"input": "Well?"}'), "She says yes.")
    store = MemoryStore()
    result = await pipeline.run("Rents?", model=model, store=store, run_id="it")
    assert (result.status, [request.block for request in result.pending]) == ("awaiting", ["ann"])
    from flowdebate import submit_answer

    await submit_answer(store, "it", "Yes.")
    resumed = await pipeline.resume("it", model=model, store=store, on_uncertain="raise")
    assert resumed.output == "She says yes."
    assert model.calls[-1].messages[-1]["content"] == "Yes."


async def test_asking_a_human_without_a_store_raises_an_error() -> None:
    ann = human(name="ann")

    @handler(name="asks")
    async def asks(value: object, ctx: Any) -> Any:
        return await ann(value, ctx.child("ann", f"{ctx.path}/ann"))

    with pytest.raises(ConfigurationError, match="Pass a store, so that the run can be suspended"):
        await asks.run("Rents?", store=False)


async def test_concurrent_calls_finish_while_one_waits_for_a_human() -> None:
    """A single exception carries all open requests, in call order, once the other calls have finished.

    If a call fails, its error is raised instead.
    """
    ended: list[str] = []

    def request(name: str) -> HumanRequest:
        return HumanRequest(block=name, place=name, shown="", expects="")

    async def waits(name: str) -> None:
        raise Suspended([request(name)])

    async def works() -> None:
        await asyncio.sleep(0)
        ended.append("works")

    async def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(Suspended) as caught:
        await in_order([lambda: waits("b"), works, lambda: waits("a")])
    assert [one.block for one in caught.value.requests] == ["b", "a"]
    assert ended == ["works"]
    with pytest.raises(ValueError, match="broken"):
        await in_order([lambda: waits("b"), fails])


@given(st.text(), st.text(), st.none() | st.text(), st.none() | st.dictionaries(st.text(), st.integers()))
def test_requests_survive_a_storage_round_trip(text: str, expects: str, problem: str | None, schema: Any) -> None:
    request = HumanRequest(block="b", place="p", shown=text, expects=expects, problem=problem, schema=schema)
    assert request_of("p", request.text) == request


@given(st.text())
def test_no_text_can_forge_an_entry(text: str) -> None:
    entries = [DebateContributionEntry(round=1, agent_name="ann", stance="for", text=text.replace("\x00", ""))]
    lines = render_contributions(entries).splitlines()
    assert lines[0] == "Round 1:"
    assert lines[1].startswith("[ann, for] ")
    assert all(line.startswith("  | ") for line in lines[2:])


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: bool(text.strip()))
rounds = st.lists(st.lists(st.builds(Statement, names, names, st.text()), min_size=1, max_size=3), max_size=3)
words = st.sampled_from(["Be brief.", "One line.\n  | Another one."])


@given(name=names, stance=st.none() | names, question=names, statements=st.none() | rounds, prompt=st.none() | words)
def test_requests_can_be_parsed_into_their_parts(
    name: str, stance: str | None, question: str, statements: list[list[Statement]] | None, prompt: str | None
) -> None:
    """`parse_request` inverts `render_request` for any text and any names."""
    who = describe_role(name, stance=stance)
    entries = [
        DebateContributionEntry(round=number, agent_name=statement.name, stance=statement.position, text=statement.text)
        for number, spoken in enumerate(statements or (), 1)
        for statement in spoken
    ]
    rendered = render_request(
        who=who,
        prompt=prompt,
        question=question,
        context=None,
        transcript=None if statements is None else render_contributions(entries),
        task="Choose.",
    )
    before = () if prompt is None else (Section(None, (prompt.replace(BAR, "\n"),)),)
    in_rounds = (Section(number, tuple(spoken)) for number, spoken in enumerate(statements or (), 1))
    sections = (*before, *in_rounds, Section(None, ("Choose.",)))
    assert parse_request(rendered) == RequestParts(unescaped(who), question, sections)


def test_requests_in_other_formats_are_parsed_as_plain_text() -> None:
    parts = parse_request("What was said so far:\nlittle\n\n[x y\nRound 2:")
    assert parts == RequestParts("", "", (Section(None, ("little",)), Section(None, ("[x y", "Round 2:"))))


FINDINGS = st.builds(
    Finding,
    grade=st.sampled_from(["good", "bad"]),
    points=st.lists(st.text(st.characters(exclude_characters="\x00", codec="utf-8"))),
    sure=st.booleans(),
    score=st.none() | st.integers(),
)


@given(FINDINGS)
def test_type_and_json_schema_accept_the_same_answers(finding: Finding) -> None:
    schema = OutputSchema.of(Finding).json_schema
    for answer in (finding.model_dump(mode="json"), finding.model_dump_json()):
        assert Finding.model_validate(check_answer(schema, answer, block="b")) == finding


@given(st.text())
def test_unencodable_or_invisible_text_is_never_accepted(text: str) -> None:
    try:
        parsed = parse_text(text, block="b")
    except OutputError:
        return
    assert parsed.encode()
    assert parsed.strip()


class Typed:
    """A terminal into which `lines` have been typed."""

    def __init__(self, typed: str) -> None:
        self._read, write = os.pipe()
        os.write(write, typed.encode())
        os.close(write)
        self.shown = io.StringIO()

    async def ask(self, block: Any) -> Any:
        """Run a block whose human types into this terminal, and return its output."""
        terminal = Terminal(self._read, self.shown)
        block._ask = terminal.ask
        try:
            return (await block.run("Rents?")).output
        finally:
            os.close(self._read)


async def test_typed_text_ends_at_an_empty_line() -> None:
    assert await Typed("\nOne.\nTwo.\n\nmore").ask(human(name="ann", ask=print)) == "One.\nTwo."
    assert await Typed("One.").ask(human(name="ann", ask=print)) == "One."
    with pytest.raises(OutputError, match="the input has ended"):
        await Typed("").ask(human(name="ann", ask=print))


async def test_fields_are_entered_one_by_one_and_asked_for_again_if_invalid() -> None:
    typed = Typed("awful\n\n\n\n" + "bad\nlate, long\nno\n7\n")
    finding = await typed.ask(human(name="ann", output_schema=Finding, ask=print))
    assert finding == Finding(grade="bad", points=["late", "long"], sure=False, score=7)
    output = typed.shown.getvalue()
    assert "Please answer again: the answer for ann is invalid: `grade` must be good or bad" in output
    assert output.count("grade (good or bad): ") == 2


async def test_typing_can_be_cancelled() -> None:
    read_end, write_end = os.pipe()
    ann = human(name="ann", ask=Terminal(read_end, io.StringIO()).ask)
    handle = ann.start("Rents?")
    async for event in handle:
        if getattr(event, "kind", "") == "human_asked":
            handle.cancel()
    assert handle.status == "interrupted"
    os.close(write_end)  # stop the reading thread, which would otherwise never end
