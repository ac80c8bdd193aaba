"""Removal of thinking and template tokens from complete and streamed answers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowdebate.errors import LostToThinking
from flowdebate.models import ModelRequest, ModelResponse, Usage, call
from flowdebate.models.base import TextWithdrawn
from flowdebate.models.output import OutputSchema
from flowdebate.models.thinking import AnswerStream, separate_thinking
from flowdebate.testing import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio

FINAL = "<|start|>assistant<|channel|>final<|message|>"
LOOKING_UP = "<|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>"
THOUGHTS = {
    "closed block": ("<think>They will say {x}.</think>\nTrams are quiet.", "Trams are quiet."),
    "block on lines of its own": ("<think>\nCost?\n\nNo: noise.\n</think>\n\nTrams are quiet.", "Trams are quiet."),
    "another name": ("<thinking>Cost or noise?</thinking>\n\nTrams are quiet.", "Trams are quiet."),
    "capital letters": ("<Think>Cost or noise?</Think> Trams are quiet.", "Trams are quiet."),
    "empty block": ("<think>\n\n</think>\n\nTrams are quiet.", "Trams are quiet."),
    "white space first": ("\n\n<think>Cost?</think>Trams are quiet.", "Trams are quiet."),
    "two blocks first": ("<think>Cost?</think>\n<think>Noise.</think>\nTrams are quiet.", "Trams are quiet."),
    "a block between lines": (
        "Trams are quiet.\n<think>What else?</think>\nBuses stink.",
        "Trams are quiet.\nBuses stink.",
    ),
    "blocks inside of lines": (
        "<think>Cost?</think>Trams are quiet. <think>And?</think> Buses stink.",
        "Trams are quiet. Buses stink.",
    ),
    "a block at the end": ("Trams are quiet.\n\n<think>Did I say enough?</think>", "Trams are quiet."),
    "a block that is never closed": ("Trams are quiet.\n<think>\nWhat el", "Trams are quiet."),
    "a thought about the tag": ("<think>I must close <think> before I speak.</think>\nTrams.", "Trams."),
    "code in a thought": ("<think>```\nx = 1\n```</think>\nTrams are quiet.", "Trams are quiet."),
    "lone closing tag": ("They will say cost.\n</think>\n\nTrams are quiet.", "Trams are quiet."),
    "lone closing tag of another name": ("Cost?\n  </thinking>  \nTrams are quiet.", "Trams are quiet."),
    "lone closing tag, Windows": ("Cost?\r\n</think>\r\nTrams are quiet.", "Trams are quiet."),
    "closing tag first": ("</think>\n\nTrams are quiet.", "Trams are quiet."),
    "two closing tags": ("<think>It ends at </think> I think.\n</think>\nTrams are quiet.", "Trams are quiet."),
    "Harmony": (
        f"<|channel|>analysis<|message|>Cost?<|end|>{FINAL}Trams are quiet.<|return|>",
        "Trams are quiet.",
    ),
    "Harmony from the start": (
        f"<|start|>assistant<|channel|>analysis<|message|>Cost?<|end|>{LOOKING_UP}{FINAL}Trams are quiet.",
        "Trams are quiet.",
    ),
    "Harmony without messages": ("<|channel|>analysis Cost? <|channel|>final Trams are quiet.", "Trams are quiet."),
    "Harmony with JSON": (
        f'<|channel|>analysis<|message|>Who?<|end|>{FINAL.replace("<|m", " <|constrain|>json<|m")}{{"a": 1}}',
        '{"a": 1}',
    ),
    "Harmony without its first tag": (
        f"Cost, I guess.<|end|>{FINAL}Trams are quiet.",
        "Trams are quiet.",
    ),
    "a thought and a token": ("<think>Cost?</think>\nTrams are quiet.\n<|im_end|>\n", "Trams are quiet."),
}
TOKENS = {
    "<|im_end|>": "Trams are quiet.<|im_end|>",
    "</s>": "Trams are quiet.</s>",
    "</s> behind HTML": "<s>Buses</s> Trams are quiet.</s>",
    "<|eot_id|>": "Trams are quiet.\n<|eot_id|>\n",
    "<end_of_turn>": "Trams are quiet. <end_of_turn>",
    "several": "Trams are quiet.<|im_end|>\n<|im_end|><|endoftext|>",
    "capital letters": "Trams are quiet.<|END_OF_TURN_TOKEN|>",
    "DeepSeek": "Trams are quiet.<｜end▁of▁sentence｜>",  # noqa: RUF001 - its own
}
PLAIN = {
    "mentioned": "Such models write <think> before they answer.",
    "mentioned with its end": "Between <think> and </think> stands what nobody should read.",
    "mentioned at the start": "<think> and </think> are tags of a template.",
    "in code": "`<think>` opens a thought.\n`</think>` closes it.",
    "in a code block": "It looks like this:\n```\n<think>\nHm.\n</think>\n```\nThat is all.",
    "closing tag inside of a line": "They end with </think> as a rule.",
    "a pair inside of a line": "Write <think>…</think> in front.",
    "a line that begins with it": "They write\n<think> first, and then they speak.",
    "HTML": "<b>Trams</b> are <s>loud</s> quiet, and cost <s>more</s>",
    "comparison": "a < b, and b <c> d",
    "code": "List<String> names = new ArrayList<>();",
    "token inside": "The token <|im_end|> ends a message.",
    "Harmony mentioned": "The tag <|channel|> names a channel, such as final.",
    "white space": "  Trams are quiet.\n\n",
}
ANSWERS = {**{name: text for name, (text, _) in THOUGHTS.items()}, **TOKENS, **PLAIN}


@pytest.mark.parametrize("kind", THOUGHTS)
def test_thinking_is_removed(kind: str) -> None:
    text, answer = THOUGHTS[kind]
    separated = separate_thinking(text)
    assert (separated.text, separated.thought > 0) == (answer, True)


@pytest.mark.parametrize("kind", TOKENS)
def test_template_tokens_at_the_end_are_removed(kind: str) -> None:
    separated = separate_thinking(TOKENS[kind])
    assert separated.text.endswith("Trams are quiet.")
    assert (separated.tokens, separated.thought) == (True, 0)


@pytest.mark.parametrize("kind", PLAIN)
def test_text_that_mentions_tags_is_unchanged(kind: str) -> None:
    """An answer may mention thinking tags without containing any thinking."""
    assert separate_thinking(PLAIN[kind]).text == PLAIN[kind]


@pytest.mark.parametrize(
    "text",
    ["<think>Hm.</think>", "<think>Hm, ", "Hm.\n</think>\n", "<|channel|>analysis<|message|>Hm.<|end|>", "<think>"],
)
async def test_an_answer_with_only_thinking_counts_as_lost_to_thinking(text: str) -> None:
    """The call is retried, with a higher token limit if one was set."""
    with pytest.raises(LostToThinking):
        await call.ask(ScriptedModel(text), ModelRequest(messages=[], block="b"))


# Properties

PARTS = (
    *("<think>", "</think>", "<thinking>", "</thinking>", "<think", "think>", "<", ">", "`", "```", "```\n", "\n", " "),
    *("<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|start|>assistant", "<|im_end|>", "</s>", "<s>"),
    *("Trams", ".", " and ", "x", "\r\n", FINAL),
)
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)


def stream_to_listener(pieces: list[str]) -> tuple[str, int]:
    """Return the text that a listener ends up with, and the number of withdrawals."""
    texts: list[str] = []
    withdrawn = 0

    def tell(event: object) -> None:
        nonlocal withdrawn
        assert isinstance(event, TextWithdrawn)
        withdrawn += 1
        texts.clear()

    request = ModelRequest(messages=[], block="b")
    request.attempts.belong_to(meter=None, notify=tell, seed=0)
    stream = AnswerStream(texts.append, request.attempts, block="b")
    for piece in pieces:
        stream(piece)
    stream.finish()
    return "".join(texts), withdrawn


def split_at(text: str, cuts: list[int]) -> list[str]:
    """Split `text` at the given cuts."""
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[begin:end] for begin, end in pairwise(places)]


@given(TEXTS)
@settings(max_examples=500)
@example("```\n<think>a</think>```\n<think>b</think>")
def test_cleaning_is_idempotent(text: str) -> None:
    """After thinking has been removed, a second cleaning must not find anything else to remove."""
    once = separate_thinking(text).text
    assert separate_thinking(once).text == once


@given(TEXTS, st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=500)
@example("x\n</think>\nTrams", [1, 2, 3])
@example(THOUGHTS["Harmony"][0], [3, 30, 60])
def test_any_chunking_of_a_stream_gives_the_same_text(text: str, cuts: list[int]) -> None:
    """Only whitespace at the end may differ, since it is streamed before the end is known."""
    texts, _ = stream_to_listener(split_at(text, cuts))
    assert texts.rstrip() == separate_thinking(text).text.rstrip()


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_kind_of_answer_can_be_streamed_character_by_character(kind: str) -> None:
    """Servers may send one token at a time.

    Text has to be withdrawn only if a closing tag has no opening tag, because nothing announces the thinking.
    """
    separated = separate_thinking(ANSWERS[kind])
    texts, withdrawn = stream_to_listener(list(ANSWERS[kind]))
    assert texts.rstrip() == separated.text.rstrip()
    assert withdrawn == 0 or separated.unannounced


@given(st.text(st.characters(exclude_characters="<"), max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_text_without_tags_is_unchanged(text: str, cuts: list[int]) -> None:
    assert separate_thinking(text).text == text
    assert stream_to_listener(split_at(text, cuts)) == (text, 0)


def test_words_are_passed_on_as_they_arrive() -> None:
    """Text without tags is delayed by one word at most."""
    texts: list[str] = []
    stream = AnswerStream(texts.append, ModelRequest(messages=[], block="b").attempts, block="b")
    for piece in ("Trams", " are", " <", " 80", " dB"):
        stream(piece)
    assert texts == ["Trams", " are", " ", "< 80", " dB"]


# At the call boundary


async def test_thinking_counts_as_reasoning_unless_the_provider_reports_it() -> None:
    """The server may report only the answer's total number of tokens.

    The total is then divided between the thinking and the rest in proportion to their lengths.
    """
    text = "<think>" + "word " * 100 + "</think>" + "Trams " * 20
    reply = ModelResponse(text=text, usage=Usage(calls=1, prompt_tokens=5, completion_tokens=130))
    request = ModelRequest(messages=[], block="b")
    response = await call.ask(ScriptedModel(reply), request)
    assert response.usage.reasoning_tokens is not None
    assert 90 <= response.usage.reasoning_tokens <= 110
    assert request.attempts.made[-1].usage == response.usage
    assert response.flags == ("thought_aloud",)


async def test_the_provider_reasoning_count_takes_precedence() -> None:
    usage = Usage(calls=1, prompt_tokens=5, completion_tokens=130, reasoning_tokens=7)
    reply = ModelResponse(text="<think>Hm.</think>Trams.", usage=usage)
    response = await call.ask(ScriptedModel(reply), ModelRequest(messages=[], block="b"))
    assert response.usage == usage


async def test_json_after_thinking_is_read() -> None:
    """Braces in the thinking must not be mistaken for the start of the JSON."""
    schema = OutputSchema.of({"type": "object", "properties": {"winner": {"type": "string"}}})
    model = ScriptedModel('<think>{"winner": "bus"}? No.</think>\n{"winner": "tram"}')
    response = await call.ask(model, ModelRequest(messages=[], block="b", output=schema))
    assert response.data == {"winner": "tram"}


async def test_unannounced_thinking_is_buffered_from_the_second_call() -> None:
    """In the first call, thinking is streamed as if it were the answer and has to be withdrawn.

    In later calls, it is never shown.
    """
    events: list[object] = []
    texts: list[str] = []

    def answer(request: ModelRequest) -> ModelResponse:
        text = "They will say cost.\n</think>\n\nTrams are quiet."
        for piece in text.splitlines(keepends=True):
            if request.on_text is not None:
                request.on_text(piece)
        return ModelResponse(text=text)

    model = FunctionModel(answer, name="muser")
    for _ in range(2):
        request = ModelRequest(messages=[], block="b", on_text=texts.append)
        request.attempts.belong_to(meter=None, notify=events.append, seed=0)
        response = await call.ask(model, request)
        assert response.text == "Trams are quiet."
    assert events == [TextWithdrawn(block="b")]
    assert texts == ["They will say cost.\n", "Trams are quiet.", "Trams are quiet."]


async def test_a_known_thinking_model_is_buffered_until_it_answers() -> None:
    """At first, the model is recognized by its name, so its answer is buffered.

    Since that answer contains no thinking, the next one is streamed as usual.
    """
    texts: list[str] = []

    def answer(request: ModelRequest) -> ModelResponse:
        text = ["Trams ", "are ", "quiet."]
        for piece in text:
            if request.on_text is not None:
                request.on_text(piece)
        return ModelResponse(text="".join(text))

    model = FunctionModel(answer, name="ollama/deepseek-r1:7b")
    await call.ask(model, ModelRequest(messages=[], block="b", on_text=texts.append))
    assert texts == ["Trams are quiet."]
    await call.ask(model, ModelRequest(messages=[], block="b", on_text=texts.append))
    assert texts[1:] == ["Trams ", "are ", "quiet."]
