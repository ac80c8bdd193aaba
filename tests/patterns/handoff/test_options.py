"""Options for `handoff()`, which affect only the default speakers, and custom blocks in any role."""

from __future__ import annotations

import enum
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Capability, FlowDebateWarning, Persona, Session, Visibility, generator
from flowdebate.errors import ConfigurationError, OutputError, RosterError
from flowdebate.patterns.handoff import HandoffDecision, HandoffMade, create_handoff_transcript, create_speaker
from flowdebate.patterns.handoff.schemas import HandoffAnswer
from flowdebate.runs.events import BlockAnswered, ModelCalled
from flowdebate.testing import ScriptedModel
from flowdebate.testing.cases import Unprintable
from tests.ids import case_id
from tests.patterns.debates import events, system_of

from .speakers import FORMS, NAMES, PROPOSITION, SPEAKERS, call, morals, over, script, turns

if TYPE_CHECKING:
    from flowdebate.patterns.handoff.schemas import TransitionForm
    from flowdebate.runs.context import Context


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


@pytest.mark.parametrize("form", FORMS)
def test_options_apply_to_the_default_speakers(form: TransitionForm) -> None:
    def instruct(_: object, ctx: Context) -> str:
        return f"You are {ctx.block}."

    research = Capability(name="research", tools=[search], instructions="Look it up.", context=["Today is Monday."])
    model = script(("Yes.", "Con"), ("No.", "Pro"), form=form)
    options: dict[str, Any] = {"instructions": instruct, "uses": [research], "context": ["It rains."]}
    morals(max_turns=2, transition=form, **options).run_sync(PROPOSITION, model=model)
    for recorded in model.calls:
        assert f"You are {recorded.block}." in system_of(recorded)
        assert "Look it up." in system_of(recorded)
        assert [message["content"] for message in recorded.messages[1:3]] == ["It rains.", "Today is Monday."]
        assert set(recorded.tools) == {"search", *(["handoff"] if form == "tool" else [])}


@pytest.mark.parametrize(
    ("visibility", "shown_count", "stored_count"),
    [({}, 3, 0), ({"client": False}, 0, 0), (Visibility(), 3, 2), ({"history": True, "client": False}, 0, 2)],
    ids=case_id,
)
def test_visibility_controls_displayed_and_stored_items(visibility: Any, shown_count: int, stored_count: int) -> None:
    model = ScriptedModel(over("Yes.", "Bob"), over("Yes, yes.", "Con"), over("No.", "Pro"))
    session = Session()
    result = morals(max_turns=2, debater_visibility=visibility).run_sync(PROPOSITION, model=model, session=session)
    assert len(events(result, BlockAnswered)) == shown_count
    assert [item["content"] for item in session.history] == ["Yes.", "No."][:stored_count]


def test_transcripts_are_shared_with_blocks_that_read_them() -> None:
    transcript = create_handoff_transcript()
    next_speakers: list[list[str | None]] = []

    def read(_: object, ctx: Context) -> str:
        next_speakers.append([entry.next_agent_name for entry in ctx.resources.transcript.state.entries])
        return "Read. Transition to Con"

    reader = generator(name="reader", resources={"transcript": transcript}, user="?")
    debaters = [Persona("Pro", block=read), Persona("Con", block=reader)]
    model = ScriptedModel("Well. Transition to Pro", "Well. Transition to Pro")
    morals(debaters=debaters, transcript=transcript, max_turns=4).run_sync(PROPOSITION, model=model)
    assert next_speakers == [[], ["Con", "Pro"]]


class Who(enum.Enum):
    """A name."""

    CON = "Con"


@dataclass
class Answer:
    """An answer type defined by the application."""

    text: str
    next_agent_name: Any


GOOD = [
    "Well.\nTransition to Con",
    {"response": "Well.", "next_agent_name": "Con"},
    {"text": "Well.", "nextAgentName": "con"},
    {"text": "Well. Transition to Con"},
    {"response": "Well.", "next_agent_name": Who.CON},
    Answer("Well.", "Con"),
    Answer("Well.", Who.CON),
    HandoffAnswer(response="Well.", next_agent_name="CON"),
    HandoffAnswer(response="Well.\nTransition to Con"),
    HandoffDecision(text="Well.", next_agent_name="Con", chosen_by="speaker"),
]


@pytest.mark.parametrize("value", GOOD, ids=case_id)
def test_custom_blocks_can_hand_over_using_text_or_fields(value: Any) -> None:
    inputs: list[Any] = []

    async def own(input: Any, ctx: Context) -> Any:  # noqa: A002 - what blocks call it
        inputs.append((input.proposition, ctx.sequencer.state.speaker, ctx.block))
        return value

    result = morals(debaters=[Persona("Pro", block=own), Persona("Con")], max_turns=1).run_sync(
        PROPOSITION, model=ScriptedModel()
    )
    assert turns(result.output) == [("Pro", "Well.", "Con", "speaker")]
    assert inputs == [(PROPOSITION, "Pro", "morals-debater-Pro")]


BAD = [
    ("Well.", "no next speaker"),
    ({"response": "Well.", "next_agent_name": "Pro"}, "'Pro' handed over to itself"),
    ({"response": "Well.", "next_agent_name": ["Con", "Neutral"]}, "is not a speaker"),
    ({"response": "Well.", "next_agent_name": None}, "no next speaker"),
    (Answer("Well.", 7), "'7' is not a speaker"),
    (Answer("Well.", Unprintable()), "is not a speaker"),
    ("Well.\nTransition to Bob", "'Bob' is not a speaker"),
]


@pytest.mark.parametrize(("value", "problem"), BAD, ids=case_id)
@pytest.mark.parametrize("policy", ["retry", "random", "error"])
def test_custom_blocks_are_not_retried(policy: Any, value: Any, problem: str) -> None:
    called: list[int] = []

    def own(_: object) -> Any:
        called.append(1)
        return value

    debaters = [Persona("Pro", block=own), *SPEAKERS[1:]]
    pattern = morals(debaters=debaters, max_turns=1, on_invalid=policy)
    if policy == "error":
        with pytest.raises(RosterError, match="Con") as caught:
            pattern.run_sync(PROPOSITION, model=ScriptedModel())
        assert caught.value.run is not None
        assert [entry.text for entry in caught.value.run.raw.transcript] == ["Well."]
    else:
        result = pattern.run_sync(PROPOSITION, model=ScriptedModel())
        ((_, text, name, by),) = turns(result.output)
        assert (text, by) == ("Well.", "random")
        assert name in NAMES[1:]
        assert problem in str(events(result, HandoffMade)[0].problem)
    assert called == [1]


def test_other_values_become_text_with_one_warning() -> None:
    debaters = [Persona("Pro", block=lambda _: 42), Persona("Con", block=lambda _: "x")]
    with pytest.warns(FlowDebateWarning, match="'Pro' returned a int") as caught:
        result = morals(debaters=debaters, max_turns=3).run_sync(PROPOSITION)
    assert len(caught) == 1
    assert result.output.transcript[0].text == "42"
    with pytest.raises(OutputError):
        morals(debaters=[Persona("Pro", block=lambda _: Unprintable()), Persona("Con")]).run_sync(
            PROPOSITION, model=ScriptedModel()
        )


def test_separately_created_speakers_are_retried_like_default_ones() -> None:
    transcript = create_handoff_transcript()
    custom = create_speaker(
        name="mine",
        agent_name="Pro",
        speakers=dict.fromkeys(NAMES),
        transcript=transcript,
        transition="text",
        instructions="Be brief.",
    )
    model = ScriptedModel("Yes.", "Transition to Con", over("No.", "Pro"))
    pattern = morals(debaters=[Persona("Pro", block=custom), *SPEAKERS[1:]], transcript=transcript, max_turns=2)
    result = pattern.run_sync(PROPOSITION, model=model)
    assert turns(result.output)[0] == ("Pro", "Yes.", "Con", "retry")
    assert [recorded.block for recorded in model.calls] == ["mine-debater-Pro"] * 2 + ["morals-debater-Con"]
    assert "Be brief." in system_of(model.calls[1])


def test_speakers_work_outside_a_handoff() -> None:
    from flowdebate import sequencer

    transcript = create_handoff_transcript()
    block = create_speaker(
        name="m", agent_name="Pro", speakers={"Pro": None, "Con": None}, transcript=transcript, transition="tool"
    )
    alone = sequencer(name="alone").then(block)
    result = alone.run_sync("Why?", model=ScriptedModel(call({"response": "So.", "next_agent_name": "Con"})))
    assert result.output == HandoffDecision(text="So.", next_agent_name="Con", chosen_by="speaker", written_name="Con")


def test_custom_blocks_need_no_model() -> None:
    def say(name: str) -> Any:
        return lambda _: f"I hand over. Transition to {name}"

    debaters = [Persona("Pro", block=say("Con")), Persona("Con", block=say("Pro"))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = morals(debaters=debaters, max_turns=5).run_sync(PROPOSITION)
    assert events(result, ModelCalled) == []
    assert [entry.agent_name for entry in result.output.transcript] == ["Pro", "Con", "Pro", "Con", "Pro"]


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("a first that is nobody", {"first": "Bob"}, "first", "Pro, Con or Neutral"),
    ("a first in another case", {"first": "pro"}, "first", "Pro, Con"),
    ("a first of another type", {"first": 0}, "first", "Pro, Con"),
    ("a first that is a list", {"first": ["Pro"]}, "first", "Pro, Con"),
    ("a transition", {"transition": "json"}, "transition", "text, tool or structured"),
    ("no transition", {"transition": None}, "transition", "text, tool or structured"),
    ("on_invalid", {"on_invalid": "ignore"}, "on_invalid", "retry, random or error"),
]


@pytest.mark.parametrize(("options", "field", "allowed"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_invalid_handoffs_are_rejected(options: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        morals(**options)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.location, caught.value.field) == ("handoff 'morals'", field)
    assert allowed in str(caught.value)


def test_tools_cannot_be_named_handoff() -> None:
    """The name is reserved only if speakers hand over by calling a tool."""

    def handoff(x: str) -> str:
        """Do something else."""
        return x

    with pytest.raises(ConfigurationError, match="`tools` must have unique names"):
        morals(tools=[handoff], transition="tool")
    morals(tools=[handoff])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"speakers": {"Con": None, "Neutral": None}}, "speakers"),
        ({"speakers": {"Pro": None}}, "speakers"),
        ({"transition": "json"}, "transition"),
    ],
    ids=case_id,
)
def test_options_of_a_created_speaker_are_validated(options: dict[str, Any], field: str) -> None:
    options_: dict[str, Any] = {"name": "m", "agent_name": "Pro", "speakers": {"Pro": None, "Con": None}}
    with pytest.raises(ConfigurationError) as caught:
        create_speaker(**{**options_, "transcript": create_handoff_transcript(), **options})
    assert caught.value.field == field
