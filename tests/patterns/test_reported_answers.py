"""Answers from public bug reports, sent over real HTTP in a debate with default options."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, Persona, council, debate, handoff
from flowdebate.errors import EmptyResponse
from flowdebate.models import OpenAIModel
from flowdebate.models.base import TextWithdrawn
from flowdebate.runs.events import ModelCalled
from tests.models.server import ChatServer, chunk, completion, usage_chunk

from .debates import events

if TYPE_CHECKING:
    from tests.models.server import Exchange

pytestmark = pytest.mark.anyio

ARGUMENT = "It was counted: commuting costs an hour a day."
HOME, OFFICE = "Working from home is better", "Working in an office is better"
SIDES = [Debater("Ada", HOME), Debater("Ben", OFFICE)]
VERDICT = {"reasoning": "The first point was never answered.", "winner": HOME, "verdict": "Home, for most people."}


def is_structured(body: dict[str, Any]) -> bool:
    """Return True if a request demands a structured answer, in any mode."""
    return "response_format" in body or bool(body.get("tool_choice")) or "JSON Schema" in json.dumps(body["messages"])


@dataclass
class Reported:
    """A server that gives the reported text or verdict, and valid answers otherwise."""

    text: str | None = None
    verdict: str | None = None
    always: bool = True
    """True if the reported text is used for every text answer rather than only the first one."""
    piece: int = 9
    """Length of each stream chunk, in characters."""
    counts: Counter[str] = field(default_factory=Counter)

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        kind = "structured" if is_structured(exchange.body) else "text"
        self.counts[kind] += 1
        if kind == "structured":
            first = self.counts[kind] == 1 and self.verdict is not None
            await exchange.json(completion(self.verdict if first else json.dumps(VERDICT)))
            return
        text = self.text if self.text and (self.always or self.counts[kind] == 1) else "Offices teach."
        if exchange.body.get("stream"):
            pieces = [text[at : at + self.piece] for at in range(0, len(text), self.piece)]
            await exchange.events([*map(chunk, pieces), chunk(finish="stop"), usage_chunk()])
        else:
            await exchange.json(completion(text))


async def run(reported: Reported, *, stream: bool = False, **options: Any) -> Any:
    """Run a debate with a model on the server."""
    async with ChatServer({}, otherwise=reported) as server:
        block = debate(name="work", debaters=SIDES, synthesizer=False, **{"max_rounds": 1, **options})
        handle = block.start("Where should people work?", model=OpenAIModel("m", base_url=server.base_url))
        if stream:
            async for _ in handle:
                pass
        result: Any = await handle
        result.bodies = server.bodies
        return result


THOUGHT = "The user wants X. I doubt it."
THINKING = {
    "a01 tags": f"<think>{THOUGHT}</think>\n\n{ARGUMENT}",
    "a02 no opening tag": f"{THOUGHT}\n</think>\n{ARGUMENT}",
    "a03 channels": (
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{ARGUMENT}"
    ),
    "a04 brackets": f"[THINK]{THOUGHT}[/THINK]{ARGUMENT}",
    "another name": f"<reasoning>{THOUGHT}</reasoning>\n{ARGUMENT}",
    "a prefix": f"<seed:think>{THOUGHT}</seed:think>{ARGUMENT}",
    "tokens": f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|>\n\n<|begin_of_solution|>{ARGUMENT}<|end_of_solution|>",
    "start and end": f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{ARGUMENT}<|END_RESPONSE|>",
    "bars": f"<|think|>{THOUGHT}<|/think|>{ARGUMENT}",
    "one tag closed by another": f"<think>{THOUGHT}</thinking>\n{ARGUMENT}",
    "a thought in a thought": f"<think>{THOUGHT}<think>No.</think>\n</think>\n{ARGUMENT}",
    "triangles": f"\u25c1think\u25b7{THOUGHT}\u25c1/think\u25b7{ARGUMENT}",
    "a scratchpad": f"<scratchpad>\n{THOUGHT}\n</scratchpad>\n\n{ARGUMENT}",
    "an answer in tags": f"<think>{THOUGHT}</think>\n<answer>{ARGUMENT}</answer>",
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", THINKING.values(), ids=THINKING)
async def test_thinking_is_not_part_of_the_answer(text: str, stream: bool) -> None:  # noqa: FBT001 - a case
    """Neither the transcript nor any later prompt contains the thinking."""
    result = await run(Reported(text), stream=stream)
    assert [entry.text for entry in result.output.transcript] == [ARGUMENT] * 2
    assert THOUGHT not in json.dumps([body["messages"] for body in result.bodies])
    assert result.output.verdict.winner == HOME
    assert len(result.bodies) == 3


async def test_streamed_thoughts_are_withdrawn() -> None:
    """In the report, a server left out the opening tag.

    A thought is therefore recognized only when it ends, after it has been streamed.
    """
    async with ChatServer({}, otherwise=Reported(THINKING["a02 no opening tag"])) as server:
        block = debate(name="work", debaters=SIDES, synthesizer=False, max_rounds=1)
        handle = block.start("Where?", model=OpenAIModel("m", base_url=server.base_url))
        handle_events = [event async for event in handle]
    assert any(isinstance(event, TextWithdrawn) for event in handle_events)


@pytest.mark.parametrize(
    "text",
    [
        "Models write <think> before they answer, which is no reason to trust them.",
        "Models write [THINK] and [/THINK] before they answer.",
        "In <reasoning> blocks, models argue; in <answer> blocks, they do not.",
        "Some servers leave <|begin_of_thought|> in their answers.",
    ],
)
async def test_texts_that_mention_a_thinking_tag_are_unchanged(text: str) -> None:
    """The reported debate was about models, and one of its arguments mentioned the tag."""
    for stream in (False, True):
        result = await run(Reported(text), stream=stream)
        assert [entry.text for entry in result.output.transcript] == [text] * 2


VERDICTS = {
    "a05 a draft in the thought": f'<think>Maybe {{"winner": "{OFFICE}"}}? No.</think>\n{json.dumps(VERDICT)}',
    "a31 a wrapper": json.dumps({"DebateVerdict": VERDICT}),
    "a32 a schema's frame": json.dumps({"type": "object", "properties": VERDICT}),
    "a draft in brackets": f'[THINK]Maybe {{"winner": "{OFFICE}"}}? No.[/THINK]{json.dumps(VERDICT)}',
    "values in a schema": json.dumps(
        {"type": "object", "properties": {key: {"type": "string", "value": value} for key, value in VERDICT.items()}}
    ),
    "a schema's frame with a title": json.dumps({"title": "Verdict", "type": "object", "properties": VERDICT}),
    "a wrapper in a list": json.dumps([{"verdict_response": VERDICT}]).replace("verdict_response", "response"),
    "an answer in tags": f"<answer>{json.dumps(VERDICT)}</answer>",
}


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
async def test_verdicts_are_parsed_on_the_first_attempt(verdict: str) -> None:
    """Text around the verdict is ignored, as is a draft inside a thought."""
    reported = Reported(verdict=verdict)
    result = await run(reported)
    assert result.output.verdict.winner == HOME
    assert reported.counts["structured"] == 1


async def test_answers_in_the_wrong_field_are_retried() -> None:
    """The error tells the model which field contains the text."""

    async def serve(exchange: Exchange) -> None:
        await exchange.json(completion(None, reasoning_content=ARGUMENT))

    async with ChatServer({}, otherwise=serve) as server:
        block = debate(name="work", debaters=SIDES, synthesizer=False, max_rounds=1)
        with pytest.raises(EmptyResponse, match="reasoning_content"):
            await block.run("Where?", model=OpenAIModel("m", base_url=server.base_url))
        assert server.posts == 2 * len(SIDES) or server.posts == 2


LABELS = {
    "a34 bold": f"**Ada:** {ARGUMENT}",
    "a35 a name": f"Ada: {ARGUMENT}",
    "a36 a stance": f"[{HOME}] {ARGUMENT}",
    "a heading": f"### Ada\n\n{ARGUMENT}",
    "bold on a line": f"**Ada**\n\n{ARGUMENT}",
    "both": f"**Ada [{HOME}]:** {ARGUMENT}",
}


@pytest.mark.parametrize("text", LABELS.values(), ids=LABELS)
async def test_labels_before_a_turn_are_removed(text: str) -> None:
    """In the transcript, a tag already names the speaker, so a label would be redundant."""
    result = await run(Reported(text, always=False))
    assert result.output.transcript[0].text == ARGUMENT


async def test_turns_of_other_speakers_are_removed_and_noted() -> None:
    """In the reported debate, a model wrote a concession on behalf of the other side."""
    result = await run(Reported(f"{ARGUMENT}\n\n[{OFFICE}]\nI concede everything.", always=False))
    assert result.output.transcript[0].text == ARGUMENT
    assert [(cut.name, cut.other) for cut in result.raw.cut_answers] == [("Ada", "Ben")]


@pytest.mark.parametrize(
    "name", ["qa\\_lead", "qa lead", "QA_Lead", "qa-lead", "`qa_lead`", "qaLead", "@qa_lead", "**qa_lead**"]
)
async def test_spelling_variants_of_names_are_recognized(name: str) -> None:
    """A name in a different spelling is accepted at once, so the model is not asked a second time."""
    prompts: list[str] = []

    async def serve(exchange: Exchange) -> None:
        prompts.append(json.dumps(exchange.body["messages"]))
        first = {"response": ARGUMENT, "next_agent_name": name}
        last = {"response": "Done.", "next_agent_name": None}
        await exchange.json(completion(json.dumps(first if len(prompts) == 1 else last)))

    async with ChatServer({}, otherwise=serve) as server:
        block = handoff(
            name="h", debaters=[Persona(speaker) for speaker in ("lead_dev", "qa_lead", "writer")], max_turns=2
        )
        result = await block.run("Ship it?", model=OpenAIModel("m", base_url=server.base_url))
    assert [entry.agent_name for entry in result.raw.transcript][:2] == ["lead_dev", "qa_lead"]


RANKINGS = {
    "a33 a list as text": lambda ranking: {"ranking": json.dumps(ranking)},
    "letters": lambda ranking: {"ranking": [entry["answer"] for entry in ranking]},
    "one text": lambda ranking: {"ranking": " > ".join(entry["answer"] for entry in ranking)},
}


def review_of(body: dict[str, Any], write: Any) -> Any:
    """Return a reviewer's or the chair's answer."""
    schema = json.dumps(body["response_format"])
    if '"Ranking"' not in schema:
        return {"answer": "Homes first."}
    return write([{"answer": letter, "reason": "r"} for letter in sorted(set(re.findall(r'"([A-D])"', schema)))])


@pytest.mark.parametrize("write", RANKINGS.values(), ids=RANKINGS)
async def test_rankings_are_parsed_on_the_first_attempt(write: Any) -> None:
    counts = Counter[str]()

    async def serve(exchange: Exchange) -> None:
        kind = "structured" if is_structured(exchange.body) else "text"
        counts[kind] += 1
        if kind == "text":
            await exchange.json(completion("Homes first."))
            return
        await exchange.json(completion(json.dumps(review_of(exchange.body, write))))

    async with ChatServer({}, otherwise=serve) as server:
        block = council(name="c", members=[Persona(name) for name in ("Ada", "Ben", "Cem")])
        result = await block.run("Where?", model=OpenAIModel("m", base_url=server.base_url))
    assert result.status == "complete"
    assert counts["structured"] == 4  # includes the chair's answer


async def test_one_missing_model_out_of_four_leaves_three_answers() -> None:
    """The missing model must not be called over and over."""

    async def serve(exchange: Exchange) -> None:
        if exchange.body["model"] == "gone":
            await exchange.json({"error": {"message": "No endpoints found for gone.", "code": 404}}, status=404)
        elif is_structured(exchange.body):
            await exchange.json(completion(json.dumps(review_of(exchange.body, lambda ranking: {"ranking": ranking}))))
        else:
            await exchange.json(completion(f"{exchange.body['model']} says: homes first."))

    async with ChatServer({}, otherwise=serve) as server:
        names = ("one", "two", "gone", "four")
        members = [Persona(name, model=OpenAIModel(name, base_url=server.base_url)) for name in names]
        result = await council(name="c", members=members).run(
            "Where?", model=OpenAIModel("one", base_url=server.base_url)
        )
        assert [body["model"] for body in server.bodies].count("gone") == 1
    assert "gone" in json.dumps(result.raw.model_dump(mode="json"))
    failed = [call for call in events(result, ModelCalled) if call.error]
    assert [call.model for call in failed] == ["gone"]
