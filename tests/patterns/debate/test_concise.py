"""The concise profile: turns begin with their position, end with whole sentences, and do not copy other turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, DebaterOptions, ModeratorOptions, PromptOptions, debate
from flowdebate._text import CutOff, Trimmed
from flowdebate.chassis.sentences import first_sentences
from flowdebate.errors import ProviderFailed
from flowdebate.events import BlockAnswered, CallRetried
from flowdebate.measures.similarity import copied_run, copied_share, text_words
from flowdebate.models import ModelResponse
from flowdebate.patterns.debate.debater import CONCISE_DEBATER, DebaterTemplate
from flowdebate.patterns.debate.schemas import DebateContributionEntry
from flowdebate.patterns.debate.small_model import opening_words
from flowdebate.patterns.debate.transcript import labels_of
from flowdebate.store import MemoryStore
from flowdebate.testing import ScriptedModel

if TYPE_CHECKING:
    from flowdebate.runs.result import RunResult

pytestmark = pytest.mark.anyio

TRAMS = "Trams are better than buses"
BUSES = "Buses are better than trams"
SIDES = [Debater("ann", TRAMS), Debater("bea", BUSES)]
LONG = " ".join(f"word{number}" for number in range(20)) + "."


def verdict(_: object) -> dict[str, Any]:
    """Return the judge's verdict."""
    return {"winner": None, "verdict": "-", "reasoning": "-"}


async def run_concise_debate(
    model: ScriptedModel, *, question: str = "Should the line be a tram?", **options: Any
) -> RunResult[Any]:
    """Run a debate with the concise profile, without calling a judge."""
    prompts = PromptOptions(profile="concise")
    defaults: dict[str, Any] = {"debaters": SIDES, "max_rounds": 1, "prompts": prompts, **options}
    return await debate(name="d", judge=verdict, synthesizer=False, **defaults).run(question, model=model, seed=1)


async def test_speakers_begin_turns_with_their_own_position() -> None:
    """A model that supports prefixes continues the opening words.

    The opening phrases alternate, so that turns in the same round differ.
    """
    model = ScriptedModel(*[f"{number}." for number in ["one", "two", "three", "four", "five", "six"]])
    await run_concise_debate(model, max_rounds=3)
    begins = [call.begins for call in model.calls]
    assert all((TRAMS, BUSES)[turn % 2] in text for turn, text in enumerate(begins))
    assert begins[:2] == [f"{TRAMS}, because", f"I see it differently. {BUSES}, because"]
    assert len({text.replace(TRAMS, "-").replace(BUSES, "-") for text in begins}) >= 4
    assert [call.sentences for call in model.calls] == [3] * 6


async def test_prompts_within_a_debate_share_a_prefix() -> None:
    """The system message and the transcript come first, so that a server can reuse what it has already processed."""
    model = ScriptedModel("Quiet.", "Cheap.", "Clean.", "Quick.")
    await run_concise_debate(model, max_rounds=2)
    assert len({call.messages[0]["content"] for call in model.calls}) == 1
    assert f"- [A] {TRAMS}\n- [B] {BUSES}" in model.calls[0].messages[0]["content"]
    third, fourth = (call.messages[1]["content"] for call in model.calls[2:])
    transcript = "The debate so far:\nRound 1:\n[A] Quiet.\n[B] Cheap."
    assert third.startswith(transcript)
    assert fourth.startswith(f"{transcript}\nRound 2:\n[A] Clean.")
    assert f"You are side A. You argue for this position only: {TRAMS}" in third


async def test_custom_instructions_replace_the_opening_words() -> None:
    """The default opening words and sentence limit could conflict with custom instructions."""
    model = ScriptedModel("Quiet.", "Cheap.")
    await run_concise_debate(model, instructions="Answer in verse.")
    assert [(call.begins, call.sentences) for call in model.calls] == [("", None)] * 2


async def test_debates_without_sources_forbid_citations() -> None:
    """Small models invent studies, institutions and numbers if they have no sources to quote."""
    for sources, forbids in ((None, True), ({"report": "Trams are quiet."}, False)):
        model = ScriptedModel("Quiet.", "Cheap.")
        await run_concise_debate(model, sources=sources)
        assert (
            model.calls[0].messages[1]["content"].endswith("Do not mention studies, institutions or numbers.")
            is forbids
        )


async def test_full_prompts_set_neither_opening_words_nor_a_sentence_limit() -> None:
    model = ScriptedModel("Quiet.", "Cheap.")
    await run_concise_debate(model, prompts=PromptOptions(profile="full"))
    assert [(call.begins, call.sentences) for call in model.calls] == [("", None)] * 2


def entry(name: str, text: str = "So.") -> DebateContributionEntry:
    """Create an argument."""
    return DebateContributionEntry(round=1, agent_name=name, stance=name, text=text)


@pytest.mark.parametrize(
    ("stance", "question", "begins"),
    [
        ("cap the rents!", "Should rents be capped?", "Cap the rents, because"),
        ("PostgreSQL", "Which database should we use?", "PostgreSQL, because"),
        ("iPhone", "What is better?", "iPhone, because"),
        ("Die Mieten deckeln", "Soll man Mieten deckeln?", "Die Mieten deckeln:"),
        ("家賃に上限を", "家賃に上限は必要か?", "家賃に上限を:"),
        ("two\n lines", "What is it?", "Two lines, because"),
        ("word " * 50, "What is it?", ""),
        ("?!", "What is it?", ""),
    ],
)
def test_positions_become_sentence_openings(stance: str, question: str, begins: str) -> None:
    """A position in another language becomes a separate sentence, and an essay-length position is left out."""
    assert opening_words(entries=[], agent_name="ann", stance=stance, question=question) == begins


def test_custom_opening_words_work_in_any_language() -> None:
    template = DebaterTemplate(begins="{position}, denn")
    arguments: Any = {"entries": [], "agent_name": "ann", "question": "Soll man?", "template": template}
    assert opening_words(stance="Mieten deckeln", **arguments) == "Mieten deckeln, denn"
    assert opening_words(stance="Mieten deckeln", **{**arguments, "entries": [entry("bea")]}) == ""


@given(st.lists(st.text(), max_size=60), st.text())
def test_labels_are_distinct(stances: list[str], other: str) -> None:
    labels = dict(labels_of([*stances, other]))
    assert len(set(labels.values())) == len(labels)
    assert not labels or labels.keys() == {*stances, other}
    assert not {label.casefold() for label in labels.values()} & {stance.strip().casefold() for stance in labels}


async def test_long_turns_are_shortened_to_whole_sentences() -> None:
    result = await run_concise_debate(ScriptedModel("One. Two e.g. this. Three! Four. Five.", "Cheap."))
    assert [turn.text for turn in result.raw.transcript] == ["One. Two e.g. this. Three!", "Cheap."]
    assert result.status == "complete"
    answers = [event for event in result.events if isinstance(event, BlockAnswered)]
    assert [(answer.trimmed, answer.truncated) for answer in answers] == [(len(" Four. Five."), False), (0, False)]
    assert ["trimmed" in answer.to_wire() for answer in answers] == [True, False]


async def test_truncated_turns_end_with_a_whole_sentence() -> None:
    """An unfinished sentence at the end of a turn is dropped.

    The turn counts as truncated only if no whole sentence is left after its opening words.
    """
    part = f"I see it differently. {BUSES}, because they"
    result = await run_concise_debate(
        ScriptedModel(
            ModelResponse(text="One. Two. And thr", finish="length"), ModelResponse(text=part, finish="length")
        )
    )
    assert [(turn.text, turn.flag) for turn in result.raw.transcript] == [
        ("One. Two.", None),
        ("I see it differently.", "cut_off"),
    ]
    assert result.status == "degraded"
    answers = [event for event in result.events if isinstance(event, BlockAnswered)]
    assert [(answer.trimmed, answer.truncated) for answer in answers] == [(8, False), (0, True)]


async def test_copied_turns_are_retried_without_the_opposing_text() -> None:
    model = ScriptedModel(LONG, f"But {LONG}", "Cheap.")
    result = await run_concise_debate(model)
    assert [turn.text for turn in result.raw.transcript] == [LONG, "Cheap."]
    first, second = model.calls[1:]
    assert "word7" in first.messages[1]["content"]
    assert "word7" not in second.messages[1]["content"]
    assert second.begins == f"I disagree. {BUSES}, because"
    assert result.usage.calls == 3
    retries = [event for event in result.events if isinstance(event, CallRetried)]
    assert [(event.block, event.error, event.message) for event in retries] == [
        ("d-debater-bea", "Copied", "it copies 20 words in a row from the transcript")
    ]


async def test_stored_runs_record_the_retry() -> None:
    store = MemoryStore()
    pattern = debate(
        name="d",
        debaters=SIDES,
        judge=verdict,
        synthesizer=False,
        max_rounds=2,
        prompts=PromptOptions(profile="concise"),
    )
    with pytest.raises(ProviderFailed):
        await pattern.run(
            "Trams?",
            model=ScriptedModel(LONG, f"But {LONG}", "Cheap.", ProviderFailed("down")),
            store=store,
            run_id="r",
        )
    later = ScriptedModel("Clean.", "Quick.")
    result = await pattern.resume("r", store=store, model=later)
    later.assert_complete()
    assert [turn.text for turn in result.raw.transcript] == [LONG, "Cheap.", "Clean.", "Quick."]
    assert result.usage.calls == 6


async def test_paraphrases_are_retried() -> None:
    """A paraphrase copies no long run of words, but it shares many word pairs with the original."""
    original = (
        "Phones are addictive and cause stress. If a pupil checks a phone all day, the pupil may lose focus and sleep."
    )
    paraphrase = (
        "Phones are addictive and cause worry. If a pupil checks the phone all day, a pupil may lose focus and rest."
    )
    assert copied_run(paraphrase, original) <= 12
    result = await run_concise_debate(ScriptedModel(original, paraphrase, "Phones teach pupils to look things up."))
    assert result.raw.transcript[-1].text == "Phones teach pupils to look things up."
    events = [event for event in result.events if isinstance(event, CallRetried)]
    assert [event.message for event in events] == [
        f"it shares {copied_share(paraphrase, original):.0%} of its word pairs with an earlier turn"
    ]
    short = ScriptedModel("Trams are quiet.", "Trams are loud.")
    await run_concise_debate(short)
    assert len(short.calls) == 2


@pytest.mark.parametrize("further", [LONG, f"{LONG} {LONG}", f"I disagree. {BUSES}, because"])
async def test_retries_without_improvement_are_discarded(further: str) -> None:
    first = f"But {LONG}"
    result = await run_concise_debate(ScriptedModel(LONG, first, further))
    assert [turn.text for turn in result.raw.transcript] == [LONG, first]
    assert result.usage.calls == 3
    answers = [event for event in result.events if isinstance(event, BlockAnswered)]
    assert ["firstCounts" in answer.to_wire() for answer in answers] == [False, True]
    assert [answer.first_counts for answer in answers] == [False, True]


async def test_repeating_a_position_does_not_count_as_copying() -> None:
    position = " ".join(f"because{number}" for number in range(13))
    model = ScriptedModel(
        "Quiet.", f"{position.capitalize()}, because so.", "Clean.", f"Again. {LONG}", "Quiet.", LONG, "New."
    )
    sides = [SIDES[0], Debater("bea", position)]
    await run_concise_debate(model, debaters=sides, max_rounds=3)
    assert len(model.calls) == 7
    assert "word7" not in model.calls[6].messages[1]["content"]


@pytest.mark.parametrize(
    "options", [{"prompts": PromptOptions(profile="full")}, {"tools": [lambda: "fact"]}], ids=["full", "tools"]
)
async def test_larger_models_are_not_retried(options: dict[str, Any]) -> None:
    """Larger models may quote each other, and a second request would not include their tool results."""
    if "tools" in options:

        def look_up(topic: str) -> str:
            """Look it up."""
            return topic

        options = {"tools": [look_up]}
    model = ScriptedModel(LONG, LONG)
    await run_concise_debate(model, **options)
    assert len(model.calls) == 2


async def test_moderator_asks_one_question_and_all_sides_speak() -> None:
    """A small model cannot be relied on to choose the speakers or to decide when to stop."""
    model = ScriptedModel("What does it cost? And who pays?", "Quiet.", "Cheap.", "No question", "Clean.", "Quick.")
    result = await run_concise_debate(model, max_rounds=2, moderator=True)
    decisions = [
        (decision.next_speakers, decision.new_angle, decision.briefing, decision.done)
        for decision in result.raw.moderator_decisions
    ]
    assert decisions == [(["ann", "bea"], "What does it cost?", None, False), (["ann", "bea"], None, None, False)]
    assert [(model.calls[call].begins, model.calls[call].sentences) for call in (0, 3)] == [
        ("What would each choice mean for", 1),
        ("Who would be affected most", 1),
    ]
    assert model.calls[0].output_schema is None
    assert "The moderator asks all sides: What does it cost?" in model.calls[1].messages[1]["content"]
    assert len(result.raw.transcript) == 4


@pytest.mark.parametrize("option", ["instructions", "tools"])
async def test_moderators_with_instructions_or_tools_choose_speakers(option: str) -> None:
    """Custom instructions may ask the moderator to choose speakers, and it may need its tools to look up facts.

    In both cases, the moderator decides as it would with full prompts.
    """

    def look_up(topic: str) -> str:
        """Look it up."""
        return topic

    options = (
        ModeratorOptions(instructions="Let Bea begin.")
        if option == "instructions"
        else ModeratorOptions(tools=[look_up])
    )
    model = ScriptedModel({"next_speakers": ["bea", "ann"]}, "Cheap.", "Quiet.")
    result = await run_concise_debate(model, moderator=options)
    assert [turn.agent_name for turn in result.raw.transcript] == ["bea", "ann"]
    assert "You open each round with a decision" in model.calls[0].messages[0]["content"]


async def test_debater_length_limits_the_turn() -> None:
    """A length in words is converted to a number of sentences, whereas a length in paragraphs sets no limit."""
    sides = [
        Debater("ann", TRAMS, options=DebaterOptions(length=20)),
        Debater("bea", BUSES, options=DebaterOptions(length="long")),
    ]
    model = ScriptedModel("One. Two.", "One. Two. Three. Four. Five.")
    result = await run_concise_debate(model, debaters=sides)
    assert [call.sentences for call in model.calls] == [1, None]
    assert [turn.text for turn in result.raw.transcript] == ["One.", "One. Two. Three. Four. Five."]


TEXTS = st.text(st.sampled_from("ab .!?…。！」\"')\n1e"), max_size=60) | st.text(max_size=60)


@given(TEXTS, st.integers(1, 4), TEXTS, st.booleans())
def test_truncated_texts_are_prefixes(text: str, limit: int, begins: str, unfinished: bool) -> None:  # noqa: FBT001
    """In any language, a truncated text is a prefix of the original, and truncating it again changes nothing."""
    cut = first_sentences(text, limit, begins=begins, unfinished=unfinished)
    assert text.startswith(cut)
    assert not isinstance(cut, CutOff) or unfinished
    if not isinstance(cut, CutOff):
        assert first_sentences(cut, limit, begins=begins) == cut
    if isinstance(cut, Trimmed):
        assert len(cut) < len(text.rstrip()) or unfinished
    assert text.strip() == "" or cut.strip() != ""


@given(
    st.lists(st.sampled_from(["One.", "Two!", "e.g. so?", "とても静か。", "He said “no.”"]), min_size=1, max_size=6),
    st.integers(1, 6),
)
def test_truncated_texts_have_the_allowed_number_of_sentences(sentences: list[str], limit: int) -> None:
    """A period after an abbreviation does not end a sentence, and a closing quotation mark belongs to its sentence."""
    assert first_sentences(" ".join(sentences), limit) == " ".join(sentences[:limit])


WORDS = st.lists(st.sampled_from(["a", "b", "c", "é", "3.5"]), max_size=12)


@given(WORDS, WORDS)
def test_copied_run_is_the_longest_common_run_of_words(words: list[str], source: list[str]) -> None:
    runs = {tuple(source[i:j]) for i in range(len(source)) for j in range(i, len(source) + 1)}
    longest = max(
        (j - i for i in range(len(words)) for j in range(i, len(words) + 1) if tuple(words[i:j]) in runs), default=0
    )
    assert copied_run(", ".join(words), " ".join(source).upper()) == longest
    assert copied_run(" ".join(source), " ".join(words)) == longest


@pytest.mark.parametrize(
    ("word", "times"),
    [
        ("a ", 100_000),
        pytest.param("家", 200_000, marks=pytest.mark.slow),
        pytest.param("a" * 200_000, 1, marks=pytest.mark.slow),
    ],
)
def test_huge_texts_are_compared_in_nearly_linear_time(word: str, times: int) -> None:
    words = text_words(word * times)
    assert copied_run(word * times, f"{word * times}!") == len(words)
    assert copied_run(word * times, f"{word * (times // 2)} b {word * (times // 2)}") in {times // 2, times // 2 - 1}


@given(WORDS, WORDS)
def test_copied_share_counts_distinct_pairs(words: list[str], source: list[str]) -> None:
    """The share must equal the one found by a naive comparison. It is 0 if the text has no word pairs."""
    pairs = {f"{words[i]} {words[i + 1]}" for i in range(len(words) - 1)}
    shared = [pair for pair in pairs if f" {pair} " in f" {' '.join(source)} "]
    assert copied_share(", ".join(words), " ".join(source).upper()) == (len(shared) / len(pairs) if pairs else 0.0)
    assert copied_share(" ".join(words), " ".join(words)) == float(len(words) > 1)


@pytest.mark.slow
def test_answers_of_maximum_length_are_compared_in_full() -> None:
    """Each text is compared with itself. Two of them repeat one or two words, and the third repeats none."""
    for text in ("a " * 100_000, "a b b a " * 25_000, " ".join(map(str, range(30_000)))):
        assert copied_run(f"x {text}", f"{text} y") == len(text.split())
        assert copied_share(text, text) == 1.0


@given(st.text(), st.text(), st.text())
def test_fully_quoted_texts_are_fully_copied(text: str, before: str, after: str) -> None:
    if any(char.isalnum() for char in text):
        assert copied_run(text, f"{before} “{text}” {after}") >= len(text_words(text)) or not text.isascii()
    assert copied_run(text, "") == 0
    assert CONCISE_DEBATER.labeled
