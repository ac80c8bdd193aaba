"""A speaker's own words, without its label and without other speakers' turns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, Persona, council, debate, deliberation, handoff, round_robin
from flowdebate.chassis.own_words import LabelParser
from flowdebate.runs.events import BlockAnswered
from flowdebate.store import MemoryStore
from flowdebate.testing import ScriptedModel
from flowdebate.web.notebook import document_of_view

pytestmark = pytest.mark.anyio

ADA = LabelParser(name="Ada", stance="cap rents", other_stances={"Ben": "free rents"})
A = LabelParser(name="a", stance="for", other_stances={"b": "against"})

LABELED = {
    "bold name": (ADA, "**Ada:** Rents rise."),
    "bold name, colon outside": (ADA, "**Ada**: Rents rise."),
    "italic name": (ADA, "_Ada:_ Rents rise."),
    "name": (ADA, "Ada: Rents rise."),
    "name in small letters": (ADA, "ada: Rents rise."),
    "name and position": (ADA, "Ada [cap rents]: Rents rise."),
    "position": (ADA, "[cap rents] Rents rise."),
    "position and colon": (ADA, "[Cap Rents]: Rents rise."),
    "bold position": (ADA, "**[cap rents]** Rents rise."),
    "as the transcript shows both": (ADA, "[Ada, cap rents] Rents rise."),
    "debater for": (ADA, "Debater for [cap rents]: Rents rise."),
    "heading": (ADA, "## Ada:\n\nRents rise."),
    "twice": (ADA, "[cap rents] Ada: Rents rise."),
    "a letter for a name": (A, "**a:** Rents rise."),
    "a letter alone": (A, "a: Rents rise."),
}
CUT = {
    "tag": (ADA, "Rents rise.\n\n[free rents] No.\n\n[cap rents] Yes.", "Ben"),
    "tag on the next line": (ADA, "Rents rise.\n[free rents] No.", "Ben"),
    "bold tag": (ADA, "Rents rise.\n\n**[free rents]** No.", "Ben"),
    "name": (ADA, "Rents rise.\n\nBen: No, they fall.", "Ben"),
    "bold name": (ADA, "Rents rise.\n\n**Ben:** No, they fall.", "Ben"),
    "name behind a line of blanks": (ADA, "Rents rise.\n  \nBen: No, they fall.", "Ben"),
    "debater for": (ADA, "Rents rise.\nDebater for [free rents]: No.", "Ben"),
    "own label first": (ADA, "**Ada:** Rents rise.\n\n**Ben:** No.", "Ben"),
    "a letter for a name": (A, "Rents rise.\n\nb: No.", "b"),
}
PLAIN = {
    "prose with Against:": (A, "Rents rise.\nAgainst: this some say that prices fall, which they do not."),
    "numbered list": (A, "1. Rents rise.\n2. Homes are few.\n\n3. Wages stand still."),
    "lettered list": (A, "a) Rents rise.\n\nb) Homes are few."),
    "list with colons": (A, "a: Rents rise.\n\nb: Homes are few."),
    "quoted rebuttal": (ADA, "Rents rise.\n\n> [free rents] No, they fall.\n\nThat is wrong."),
    "quote in a line": (ADA, 'Rents rise. Ben said: "[free rents] is best", which is wrong.'),
    "the other's name without a blank line": (ADA, "Rents rise.\nBen: he has no figures."),
    "begins with the other": (ADA, "[free rents] has no figures.\n\n[free rents] is wrong."),
    "name of somebody else": (ADA, "Adam: he built homes."),
    "emphasis": (ADA, "**Ada** means noble, and so is this cause."),
    "nothing but a label": (ADA, "Ada:"),
    "code": (ADA, "As it was written:\n```\n[free rents] No.\n```\nRents rise."),
    "brackets": (ADA, "[1] says that rents rise."),
}


@pytest.mark.parametrize("kind", LABELED)
def test_speaker_labels_are_removed(kind: str) -> None:
    """The transcript adds a tag that names the speaker, so a label would be redundant."""
    words, text = LABELED[kind]
    assert words.separate(text) == ("Rents rise.", None)


@pytest.mark.parametrize("kind", CUT)
def test_turns_of_other_speakers_are_removed(kind: str) -> None:
    """Only the text before another speaker's turn is the speaker's own."""
    words, text, other = CUT[kind]
    assert words.separate(text) == ("Rents rise.", other)


@pytest.mark.parametrize("kind", PLAIN)
def test_other_texts_are_unchanged(kind: str) -> None:
    words, text = PLAIN[kind]
    assert words.separate(text) == (text, None)


@pytest.mark.parametrize("instructions", ["Begin each turn with `Ada:`.", "Start with your name and a colon."])
def test_requested_labels_are_unchanged(instructions: str) -> None:
    """Either the application's instructions or the speaker's own prompt may ask for a label."""
    assert ADA.separate("Ada: Rents rise.", instructions=instructions) == ("Ada: Rents rise.", None)
    parser = LabelParser(name="Ada", other_stances={}, system_prompt=instructions)
    assert parser.separate("Ada: Rents rise.") == ("Ada: Rents rise.", None)


PARTS = (
    *("Ada", "Ben", ":", "**", "_", "[", "]", "[cap rents]", "[free rents]", "Debater for ", "\n", "\n\n", " ", "## "),
    *("Rents rise.", "a) ", "b: ", "> ", "```\n", "Against: "),
)
TEXTS = st.lists(st.sampled_from(PARTS), max_size=10).map("".join)


@given(TEXTS)
def test_extracting_the_words_of_a_speaker_is_idempotent(text: str) -> None:
    first, _ = ADA.separate(text)
    assert text.rstrip().endswith(first.rstrip()) or first in text
    assert ADA.separate(first)[0] == first


@given(st.text(st.characters(exclude_characters="[:"), max_size=80))
def test_texts_without_labels_are_never_changed(text: str) -> None:
    """Text with neither brackets nor colons cannot contain a label."""
    assert ADA.separate(text) == (text, None)


@given(TEXTS, st.lists(st.integers(0, 200), max_size=8))
def test_streamed_answers_have_no_label(text: str, cuts: list[int]) -> None:
    """However the text is split into chunks, the stream must equal the transcript, except for other speakers' turns."""
    pieces: list[str] = []
    listen = ADA.listen(pieces.append)
    for begin, end in pairwise([0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]):
        listen(text[begin:end])
    listen.finish()
    complete = LabelParser(name="Ada", stance="cap rents", other_stances={}).separate(text)[0]
    assert "".join(pieces) == complete


VERDICT = {"reasoning": "-", "winner": None, "verdict": "-"}
SIDES = [Debater("Ada", "cap rents"), Debater("Ben", "free rents")]
PEOPLE = [Persona("Ada"), Persona("Ben")]
DIALOGUE = "**Ada:** Rents rise.\n\n**Ben:** No, they fall."
PATTERNS: dict[str, Any] = {
    "debate": lambda: debate(name="x", debaters=SIDES, max_rounds=1, judge=lambda _: VERDICT, synthesizer=False),
    "round_robin": lambda: round_robin(name="x", debaters=PEOPLE, max_rounds=1, synthesizer=False),
    "deliberation": lambda: deliberation(name="x", debaters=PEOPLE, max_rounds=1, moderator=lambda _: "Go on."),
    "council": lambda: council(name="x", members=PEOPLE, review="none", chair=lambda _: "Cap them."),
}


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_all_patterns_remove_turns_of_other_speakers(pattern: str) -> None:
    result = await PATTERNS[pattern]().run("Cap rents?", model=ScriptedModel(DIALOGUE, "Ben: They fall."))
    raw = result.raw
    assert [(entry.speaker, entry.text) for entry in raw.entries[:2]] == [("Ada", "Rents rise."), ("Ben", "They fall.")]
    (cut,) = raw.cut_answers
    assert (cut.name, cut.other, cut.answer) == ("Ada", "Ben", DIALOGUE)
    answered = [event.output for event in result.events if isinstance(event, BlockAnswered)]
    assert answered[:2] == ["Rents rise.", "They fall."]


async def test_removing_turns_of_another_speaker_does_not_count_as_truncation() -> None:
    """In this test, the model runs out of tokens, but only within another speaker's turn, which is removed."""
    from flowdebate.models import ModelResponse

    model = ScriptedModel(ModelResponse(text=f"{DIALOGUE} And", finish="length"), "They fall.")
    result = await PATTERNS["debate"]().run("Cap rents?", model=model)
    assert (result.status, result.output.transcript[0].text) == ("complete", "Rents rise.")


@pytest.mark.parametrize(
    ("transition", "answer"),
    [
        ("structured", {"response": DIALOGUE, "next_agent_name": "Ben"}),
        ("text", f"{DIALOGUE}\n\nTransition to Ben"),
    ],
)
async def test_handoffs_remove_turns_of_other_speakers(transition: Any, answer: Any) -> None:
    block = handoff(name="x", debaters=PEOPLE, max_turns=1, transition=transition)
    result = await block.run("Cap rents", model=ScriptedModel(answer))
    (entry,) = result.output.entries
    assert (entry.text, result.status) == ("Rents rise.", "complete")
    assert [(cut.name, cut.other, cut.answer) for cut in result.raw.cut_answers or ()] == [("Ada", "Ben", DIALOGUE)]


@pytest.mark.parametrize("words", ["Begin each answer with your name.", "Write **Ada:** in front of it."])
async def test_labels_requested_by_a_handoff_are_unchanged(words: str) -> None:
    answer = {"response": DIALOGUE, "next_agent_name": "Ben"}
    speakers = [Persona("Ada", system_prompt=words), Persona("Ben")]
    cases: list[tuple[list[Persona], dict[str, Any]]] = [(speakers, {}), (PEOPLE, {"instructions": words})]
    for people, options in cases:
        block = handoff(name="x", debaters=people, max_turns=1, **options)
        result = await block.run("Cap rents", model=ScriptedModel(answer))
        assert result.output.entries[0].text == "**Ada:** Rents rise."


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("<think>They will say {cost}.</think>\nHomes are few.", "Homes are few."),
        ("They will say cost.\n</think>\n\nHomes are few.", "Homes are few."),
        ("<|channel|>analysis<|message|>Cost?<|end|><|start|>assistant<|channel|>final<|message|>a: No.", "No."),
        ("Homes are few.<|im_end|>", "Homes are few."),
        ("<think>Who am I?</think>\n\n**a:** Homes are few.</s>", "Homes are few."),
        ("[for] Homes are few.", "Homes are few."),
        ("Homes are few.\n\n[against] There are many.\n\n[for] No.<|eot_id|>", "Homes are few."),
        ("Homes are few.\nAgainst: this some say much.", "Homes are few.\nAgainst: this some say much."),
        ("Some models write <think> first.", "Some models write <think> first."),
    ],
)
async def test_transcript_contains_only_words_of_the_speaker(written: str, expected: str) -> None:
    """Neither the opponent nor the judge may read text that the model wrote on behalf of somebody else."""
    sides = [Debater("a", "for"), Debater("b", "against")]
    pattern = debate(name="x", debaters=sides, max_rounds=1, synthesizer=False)
    model = ScriptedModel(written, "No.", VERDICT)
    result = await pattern.run("Build?", model=model)
    assert result.output.transcript[0].text == expected
    prompts = "\n".join(str(message["content"]) for call in model.calls[1:] for message in call.messages)
    unsaid = ("They will say", "Cost?", "Who am I?", "There are many", "im_end", "eot_id", "</s>", "**a:**")
    assert not [words for words in unsaid if words in prompts]


REPEATED = "It was counted: commuting costs an hour a day."


SAID = [f"{REPEATED}\n", REPEATED.upper(), REPEATED, "Yes."]
HANDED = [f"{text}\n\nTransition to {name}" for text, name in zip(SAID, ("Ben", "Ada", "Ben", "Ada"), strict=True)]


@pytest.mark.parametrize(
    ("pattern", "replies"),
    [
        (debate(name="x", debaters=SIDES, max_rounds=2, judge=lambda _: VERDICT, synthesizer=False), SAID),
        (round_robin(name="x", debaters=PEOPLE, max_rounds=2, synthesizer=False), SAID),
        (handoff(name="x", debaters=PEOPLE, max_turns=4, transition="text"), HANDED),
    ],
    ids=["debate", "round_robin", "handoff"],
)
async def test_repeated_texts_cause_a_remark(pattern: Any, replies: list[str]) -> None:
    """Some models repeat themselves.

    The repetition is pointed out in the result, in the stored run and in the document's notes.
    """
    store = MemoryStore()
    result = await pattern.run("Office?", model=ScriptedModel(*replies), store=store, run_id="r")
    remark = f"The same words appear in 3 contributions, by Ada, Ben: {REPEATED}"
    assert result.remarks == (remark,)
    outcome: Any = (await store.run("r")).outcome
    assert [*outcome["remarks"]] == [remark]
    assert remark in document_of_view(result).notes


async def test_short_or_different_texts_are_not_repetitions() -> None:
    """Two texts that merely begin alike do not count as a repetition."""
    block = debate(name="x", debaters=SIDES, max_rounds=2, judge=lambda _: VERDICT, synthesizer=False)
    replies = ["I agree.", "I agree.", f"{REPEATED} Twice.", REPEATED]
    assert (await block.run("Office?", model=ScriptedModel(*replies))).remarks == ()
