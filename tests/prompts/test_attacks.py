"""Attacks on every reader of a debate, as far as their effects can be tested without a model."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from flowdebate import (
    DebateContributionEntry,
    DebateModeratorDecision,
    Debater,
    DebateRawOutput,
    DebateVerdict,
    create_debate_transcript,
    create_moderator,
    debate,
    format_transcript_for_judge,
)
from flowdebate._text import clean_text
from flowdebate.chassis.own_words import LabelParser
from flowdebate.cli.terminal.page import Page, render
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.debater import DebaterIdentity, Guidance, render_debater_system, render_debater_turn
from flowdebate.patterns.debate.document import DebateDocument
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.patterns.debate.judging.jurors import render_judge_system, render_judge_turn
from flowdebate.patterns.debate.moderator import render_moderator_system, render_moderator_turn
from flowdebate.patterns.debate.synthesizer import render_synthesizer_system, render_synthesizer_turn
from flowdebate.patterns.debate.transcript import parse_entries, render_entries
from flowdebate.prompts import quoted, unescaped, unquoted, without_control_tokens
from flowdebate.testing import ATTACKS, Attack, FunctionModel
from flowdebate.ui.document import Side
from flowdebate.ui.markdown import report
from tests.prompts.nasty import anything, entry, headings, lines_of, tags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.models.base import Message
    from flowdebate.runs.result import RunResult
    from flowdebate.testing import ModelRequest

QUESTION = "Should rents be capped?"
STANCES = ("for", "against")
HARMLESS = "Rents are too high."
FOUND = {"reasoning": "Only one was answered.", "winner": "against", "verdict": "Rents stay free."}
KEYS = {"nextSpeakers": ["anna", "ben"], "newAngle": None}

arguments = [attack for attack in ATTACKS if attack.place == "argument"]
called = [attack for attack in ATTACKS if attack.place in ("name", "stance")]
each_argument = pytest.mark.parametrize("attack", arguments, ids=lambda attack: attack.id)
each_called = pytest.mark.parametrize("attack", called, ids=lambda attack: attack.id)

CONTROL_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|system|>",
    "<\uff5cUser\uff5c>",
    "<s>",
    "</s>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<tool_call>",
    "</think>",
    "[INST]",
    "[/INST]",
    "[gMASK]",
    "[sMASK]",
    "[|user|]",
    "[|endofturn|]",
    "[UNUSED_TOKEN_145]",
    "[PAD151645]",
    "[unused7]",
    "<seed:bos>",
    "<fim-prefix>",
    "]~b]",
    "]~!b[",
    "[e~[",
    "[SYSTEM_PROMPT]",
    "[TOOL_RESULTS]",
)
"""Message delimiters in the chat templates of several model families."""


def transcript_with(text: str) -> list[DebateContributionEntry]:
    """Return two rounds in which `text` comes after an argument, is a whole argument, and comes before one."""
    return [
        entry(1, "anna", "for", HARMLESS),
        entry(1, "ben", "against", f"Build more.{text}"),
        entry(2, "anna", "for", text),
        entry(2, "ben", "against", f"{text} Build more."),
    ]


def raw_with(text: str) -> DebateRawOutput:
    """Return the raw output of a debate with the transcript from `transcript_with`.

    The moderator's and the judge's texts are attacks as well.
    """
    return DebateRawOutput.model_construct(
        rounds=2,
        question=QUESTION,
        transcript=transcript_with(text),
        verdict=DebateVerdict.model_construct(verdict=text, winner="for", reasoning=text),
        moderator_decisions=[decision_with(text)],
        stop_reason="max_rounds",
        seed=0,
    )


def decision_with(text: str) -> DebateModeratorDecision:
    """Create a decision with `text` as its briefing and angle."""
    return DebateModeratorDecision.model_construct(
        round=1, next_speakers=["anna", "ben"], briefing=text, new_angle=text, done=False
    )


def debater_view(text: str) -> str:
    """Render a debater's prompt."""
    return render_debater_turn(
        DebaterIdentity(stance="for", positions=tuple(STANCES), max_rounds=2),
        entries=transcript_with(text),
        round=2,
        guidance=Guidance(briefing=text, new_angle=text),
    )


def moderator_view(text: str) -> str:
    """Render a moderator's prompt."""
    return render_moderator_turn(entries=transcript_with(text), decisions=[decision_with(text)], round=3, max_rounds=3)


def judge_view(text: str) -> str:
    """Render a judge's prompt."""
    transcript = format_transcript_for_judge(transcript_with(text), shuffle=False)
    return render_judge_turn(question=QUESTION, transcript=transcript)


def synthesizer_view(text: str) -> str:
    """Render a synthesizer's prompt."""
    return render_synthesizer_turn(raw_with(text))


VIEWS = {"debater": debater_view, "moderator": moderator_view, "judge": judge_view, "synthesizer": synthesizer_view}
each_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())


# The corpus


def test_attacks_have_text_and_a_unique_name() -> None:
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS) >= 40
    assert len({attack.written() for attack in ATTACKS}) == len(ATTACKS)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", attack.id) for attack in ATTACKS)


@given(st.sampled_from(ATTACKS), st.text(anything), st.text(anything), st.text(anything))
def test_values_filled_into_an_attack_are_not_parsed_again(
    attack: Attack, own_stance: str, other: str, question: str
) -> None:
    parts = re.split("«(own|other|question)»", attack.template)
    values = {"own": own_stance, "other": other, "question": question}
    expected = "".join(values[part] if index % 2 else part for index, part in enumerate(parts))
    assert attack.written(own=own_stance, other=other, question=question) == expected


# The views


@each_argument
@pytest.mark.parametrize("names", [True, False])
def test_attacked_transcripts_can_be_parsed(attack: Attack, names: bool) -> None:  # noqa: FBT001
    transcript = transcript_with(attack.written())
    visible = [one if names else entry(one.round, "", one.stance, one.text) for one in transcript]
    assert parse_entries(render_entries(transcript, names=names), names=names) == visible


@each_argument
@each_view
def test_views_have_no_forged_line(attack: Attack, view: Callable[[str], str]) -> None:
    """The prompt must contain four tags, two headings, and as many other lines as it does without an attack."""
    rendered, harmless = view(attack.written()), view(HARMLESS)
    assert tags(rendered) == 4
    assert headings(rendered) == 2
    assert len(lines_of(rendered)) == len(lines_of(harmless))


@each_argument
@each_view
def test_views_contain_no_control_tokens(attack: Attack, view: Callable[[str], str]) -> None:
    """Servers interpret control tokens anywhere, so a token in an argument could end the user's message."""
    rendered = view(attack.written())
    assert not any(token in rendered for token in CONTROL_TOKENS)


@each_argument
@each_view
def test_views_can_be_sent(attack: Attack, view: Callable[[str], str]) -> None:
    rendered = view(attack.written())
    assert json.loads(json.dumps(rendered, ensure_ascii=False).encode()) == rendered


@given(st.lists(st.sampled_from(CONTROL_TOKENS) | st.text(anything, max_size=4)).map("".join))
def test_quoted_text_has_no_control_tokens_and_can_be_parsed(text: str) -> None:
    rendered = quoted(text)
    assert not any(token in rendered for token in CONTROL_TOKENS)
    assert unquoted(rendered) == text


@given(st.lists(st.sampled_from(CONTROL_TOKENS) | st.text(anything, max_size=4)).map("".join))
def test_messages_for_the_local_model_have_no_control_tokens(text: str) -> None:
    cleaned = without_control_tokens(text)
    assert not any(token in cleaned for token in CONTROL_TOKENS)
    assert unescaped(cleaned) == unescaped(text)


@pytest.mark.parametrize("text", ["[YES] We should.", "a <-> b", "[1] [2, 3] [x]", "if a < b and b > c", "[TODO]"])
def test_ordinary_punctuation_is_unchanged_for_the_local_model(text: str) -> None:
    assert without_control_tokens(text) == text


@each_called
def test_attacks_in_names_or_stances_cannot_leave_their_line(attack: Attack) -> None:
    text = attack.written()
    transcript = [entry(1, text, "for", HARMLESS), entry(1, "ben", text, HARMLESS), entry(2, text, text, HARMLESS)]
    for names in (True, False):
        rendered = render_entries(transcript, names=names)
        assert (tags(rendered), headings(rendered), len(lines_of(rendered))) == (3, 2, 5)
    assert parse_entries(render_entries(transcript, names=True), names=True) == transcript

    def systems(word: str) -> list[str]:
        return [
            render_debater_system(question=QUESTION, stances=[word, "against"], max_rounds=2),
            render_moderator_system(question=QUESTION, roster=[word, "ben"]),
            render_judge_system(stances=[word, "against"]),
            render_synthesizer_system(),
        ]

    for system, harmless in zip(systems(text), systems("for"), strict=True):
        assert len(system.splitlines()) == len(harmless.splitlines())
        assert not any(token in system for token in CONTROL_TOKENS)


# A whole debate


class Recording:
    """A model that records all messages; debaters and the moderator say `text`, and the judge answers `FOUND`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[tuple[str, list[Message], Mapping[str, Any] | None]] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        self.asked.append((request.block, list(request.messages), request.output_schema))
        if request.block.endswith("-judge"):
            return FOUND
        if request.block.endswith("-moderator"):
            return {**KEYS, "briefing": clean_text(self.text)[:4000], "done": False}
        return f"Mine is right.{self.text}"

    @property
    def systems(self) -> list[str]:
        """Return the messages with a role other than "user"."""
        return [m["content"] for _, messages, _ in self.asked for m in messages if m["role"] != "user"]

    @property
    def users(self) -> list[str]:
        """Return the messages with the role "user"."""
        return [m["content"] for _, messages, _ in self.asked for m in messages if m["role"] == "user"]


def run_debate(text: str, *, anna: str = "anna", stance: str = "for") -> tuple[Recording, RunResult[Any]]:
    """Run a moderated two-round debate in which every text is `text`."""
    recording = Recording(text)
    transcript = create_debate_transcript()
    pattern = debate(
        name="rent",
        debaters=[Debater(anna, stance), Debater("ben", "against")],
        transcript=transcript,
        moderator=create_moderator(name="rent", roster_names=[anna, "ben"], transcript=transcript, max_rounds=2)
        if anna == "anna"
        else None,
    )
    return recording, pattern.run_sync(QUESTION, model=recording.model, seed=3)


@each_argument
def test_arguments_never_reach_a_system_message(attack: Attack) -> None:
    """The message roles and system messages are the same as in a harmless debate, byte for byte."""
    attacked, _ = run_debate(attack.written())
    harmless, _ = run_debate(HARMLESS)
    assert attacked.systems == harmless.systems
    roles = [
        [[m["role"] for m in messages] for _, messages, _ in recording.asked] for recording in (attacked, harmless)
    ]
    assert roles[0] == roles[1]
    assert {role for messages_roles in roles[0] for role in messages_roles} == {"system", "user"}
    assert [schema for *_, schema in attacked.asked] == [schema for *_, schema in harmless.asked]


@each_argument
def test_only_the_judge_and_the_moderator_can_decide_a_debate(attack: Attack) -> None:
    _, result = run_debate(attack.written())
    raw = result.raw
    assert raw.verdict is not None
    assert raw.verdict.model_dump(exclude={"judging"}) == FOUND
    assert (raw.rounds, raw.stop_reason, result.status) == (2, "max_rounds", "complete")
    assert [one.done for one in raw.moderator_decisions] == [False, False]
    argument = clean_text(f"Mine is right.{attack.written()}")
    anna = LabelParser(name="anna", stance="for", other_stances={"ben": "against"})
    ben = LabelParser(name="ben", stance="against", other_stances={"anna": "for"})
    assert [(one.round, one.agent_name, one.stance, one.text) for one in raw.transcript] == [
        (number, words.name, words.stance, words.separate(argument)[0]) for number in (1, 2) for words in (anna, ben)
    ]


@each_argument
def test_messages_are_sent_as_rendered(attack: Attack) -> None:
    """Nothing between a view and the model may parse, fill in or change a message."""
    recording, result = run_debate(attack.written())
    raw = result.raw
    expected: list[tuple[str, str, str]] = []
    for number in (1, 2):
        before = raw.transcript[: 2 * number - 2]
        decisions = raw.moderator_decisions[: number - 1]
        system = render_moderator_system(
            question=QUESTION, roster=["anna", "ben"], stances={"anna": "for", "ben": "against"}
        )
        turn = render_moderator_turn(entries=before, decisions=decisions, round=number, max_rounds=2)
        expected.append(("rent-moderator", system, turn))
        for place, (name, stance) in enumerate((("anna", "for"), ("ben", "against"))):
            turn = render_debater_turn(
                DebaterIdentity(stance=stance, positions=tuple(STANCES), max_rounds=2),
                entries=raw.transcript[: 2 * number - 2 + place],
                round=number,
                guidance=Guidance(briefing=raw.moderator_decisions[number - 1].briefing),
            )
            system = render_debater_system(question=QUESTION, stances=STANCES, max_rounds=2)
            expected.append((f"rent-debater-{name}", system, turn))
    order = next(event.order for event in result.events if isinstance(event, JudgeViewMade))
    transcript = render_entries([raw.transcript[index] for index in order])
    judge = render_judge_turn(question=QUESTION, transcript=transcript)
    expected.append(("rent-judge", render_judge_system(stances=STANCES), judge))
    expected.append(("rent-synthesizer", render_synthesizer_system(), render_synthesizer_turn(raw)))
    assert [(block, *(m["content"] for m in messages)) for block, messages, _ in recording.asked] == expected


@each_called
def test_attacking_debaters_are_rejected_or_contained(attack: Attack) -> None:
    text = attack.written()
    options = {"anna": text} if attack.place == "name" else {"stance": text}
    try:
        attacked, result = run_debate(HARMLESS, **options)
    except ConfigurationError:
        return
    harmless, _ = run_debate(HARMLESS, **dict.fromkeys(options, "x"))
    counts = [[len(system.splitlines()) for system in recording.systems] for recording in (attacked, harmless)]
    assert counts[0] == counts[1]
    assert [tags(user) for user in attacked.users] == [tags(user) for user in harmless.users]
    assert result.raw.found.winner == "against"


# Displays of a debate

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OWN = {"heading_open", "paragraph_open", "blockquote_open", "bullet_list_open", "list_item_open", "inline"}
WORDS = {"text", "text_special", "softbreak", "strong_open"}


def document_of(attack: Attack) -> DebateDocument:
    """Return a real debate in which every text is an attack, as saved by `--json`."""
    text = attack.written()
    if attack.place == "argument":
        _, result = run_debate(text)
    else:
        _, result = run_debate(HARMLESS)
    cleaned = clean_text(text)
    side = Side(name=cleaned, stance=cleaned, role=cleaned)
    return DebateDocument(
        status="complete", debaters=[side], max_rounds=2, raw=result.raw, output=result.output, error=cleaned
    )


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_attacks_have_no_effect_on_a_terminal(attack: Attack) -> None:
    stream = io.StringIO()
    document = document_of(attack)
    render(document, Page(stream, document.speakers, environ={}))
    acting = {char for char in stream.getvalue() if category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert acting <= {"\n"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_attacks_are_not_markup_in_a_report(attack: Attack) -> None:
    document = document_of(attack)
    tokens = MARKDOWN.parse(report(document))
    everything = [inner for token in tokens for inner in (token, *(token.children or ()))]
    assert {token.type for token in everything if token.nesting >= 0} <= OWN | WORDS
    notes = 1 if document.raw.cut_answers else 0  # notes have a separate heading
    assert sum(token.type == "heading_open" for token in tokens) == 7 + notes


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_attacks_are_unchanged_by_saving(attack: Attack) -> None:
    document = document_of(attack)
    saved = document.to_json()
    assert DebateDocument.model_validate_json(saved) == document
    assert {char for char in saved if category(char) in {"Cc", "Cs", "Zl", "Zp"}} <= {"\n"}
    assert not any(category(char) == "Cf" and char not in "\u200c\u200d" for char in saved)
