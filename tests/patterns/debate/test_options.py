"""Options of `debate()` reach the default blocks, and only those; visibilities keep items back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    Capability,
    Debater,
    DebateVerdict,
    Session,
    Visibility,
    create_synthesizer,
    debate,
    generator,
    sequencer,
)
from flowdebate.patterns.events import TurnFinished
from flowdebate.runs.events import BlockAnswered, ModelCalled, TextDelta
from flowdebate.testing import FunctionModel, ModelRequest, ScriptedModel, ToolCall
from tests.patterns.debates import QUESTION, SIDES, VERDICT, by_role, decision, events, moderated, script, system_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.context import Context
    from flowdebate.testing import RecordedCall

ROLES = ["rent-debater-anna", "rent-debater-ben", "rent-judge", "rent-synthesizer"]


def _calls(**options: Any) -> Sequence[RecordedCall]:
    model = script("A", "B", after=("S",))
    debate(**{"name": "rent", "debaters": SIDES, "max_rounds": 1, **options}).run_sync(QUESTION, model=model)
    assert [call.block for call in model.calls] == ROLES
    return model.calls


def _own(value: object, ctx: Context) -> str:
    return "own"


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def test_instructions_are_added_to_every_default_blocks_system_message() -> None:
    """Text stands in the system message of debaters, judge and synthesizer."""
    assert all("Be polite." in system_of(call) for call in _calls(instructions="Be polite."))


def test_instructions_may_be_a_function_of_input_and_context() -> None:
    """It is called for each call, with the block's input and context."""

    def instruct(value: object, ctx: Context) -> str:
        return f"You are {ctx.block}."

    assert [f"You are {call.block}." in system_of(call) for call in _calls(instructions=instruct)] == [True] * 4


def test_instructions_may_be_async() -> None:
    """A coroutine function is awaited."""

    async def instruct(value: object) -> str:
        return "Be polite."

    assert all("Be polite." in system_of(call) for call in _calls(instructions=instruct))


def test_tools_are_offered_to_every_default_block() -> None:
    """Each default block's model may call them."""
    assert [list(call.tools) for call in _calls(tools=[search])] == [["search"]] * 4


def test_capabilities_bring_tools_instructions_and_context() -> None:
    """`uses` adds all three to every default block."""
    research = Capability(name="research", tools=[search], instructions="Look it up.", context=["Today is Monday."])
    for call in _calls(uses=[research]):
        assert list(call.tools) == ["search"]
        assert "Look it up." in system_of(call)
        assert call.messages[1] == {"role": "user", "content": "Today is Monday."}


def test_context_stands_before_the_prompt() -> None:
    """Messages, or a function that gives them, stand between the system message and the turn's."""
    given = [{"role": "user", "content": "Rents rose."}, "By 9 %."]
    for context in (given, lambda value, ctx: given):
        for call in _calls(context=context):
            assert [message["content"] for message in call.messages[1:3]] == ["Rents rose.", "By 9 %."]
            assert len(call.messages) == 4


def test_a_tool_that_a_debater_calls_is_answered_before_it_argues() -> None:
    """The function is called with the model's arguments, and its result goes back to the model."""
    model = ScriptedModel(ToolCall(id="1", name="search", arguments='{"query": "rents"}'), "A", "B", VERDICT)
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, tools=[search])
    output = rent.run_sync(QUESTION, model=model).output
    assert model.calls[1].messages[-1] == {"role": "tool", "tool_call_id": "1", "content": "found rents"}
    assert [entry.text for entry in output.transcript] == ["A", "B"]


@dataclass(frozen=True)
class Unreached:
    """Blocks of the application's own in a role."""

    id: str
    options: dict[str, Any]


OWN = [
    Unreached("debater", {"debaters": [Debater("anna", "for", block=generator(name="own", prompt="Mine.")), SIDES[1]]}),
    Unreached("judge", {"judge": generator(name="own", prompt="Mine.", output_schema=dict[str, str])}),
    Unreached("synthesizer", {"synthesizer": generator(name="own", prompt="Mine.")}),
    Unreached("moderator", {"moderator": generator(name="own", prompt="Mine.", output_schema=dict[str, Any])}),
]


@pytest.mark.parametrize("case", OWN, ids=lambda case: case.id)
def test_options_do_not_reach_blocks_of_ones_own(case: Unreached) -> None:
    """An override's prompt, tools and messages are its own, whatever the debate is given."""
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        if request.block == "own":
            seen.append(request)
            return {"judge": VERDICT, "moderator": decision("anna", done=True)}.get(case.id, "own")
        return VERDICT if request.block == "rent-judge" else "said"

    rent = debate(
        **{"name": "rent", "debaters": SIDES, "max_rounds": 1, **case.options},
        instructions="Be polite.",
        tools=[search],
        context=["Today is Monday."],
    )
    rent.run_sync(QUESTION, model=FunctionModel(answer))
    (request,) = seen
    assert request.messages[0] == {"role": "system", "content": "Mine."}
    assert len(request.messages) == 2
    assert request.tools == ()


def test_a_moderator_has_its_own_options() -> None:
    """`create_moderator(instructions=…)` reaches the moderator, and the debate's instructions do not."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    debate(
        name="rent", debaters=SIDES, synthesizer=False, instructions="Be polite.", **moderated(instructions="Be fair.")
    ).run_sync(QUESTION, model=model)
    first, second, _, third = (system_of(call) for call in model.calls)
    assert "Be fair." in first
    assert "Be polite." not in first
    assert "Be polite." in second
    assert "Be polite." in third


def _named(name: str) -> FunctionModel:
    inner = by_role()
    return FunctionModel(inner._function, name=name)


def test_the_debates_model_is_asked_by_every_block_that_names_none() -> None:
    """By those that the application made as well: none falls through to the environment's model."""
    decide = by_role(decide=lambda _: decision("anna", "ben", done=True))
    rent = debate(
        name="rent",
        debaters=[Debater("anna", "for", block=_own_debater()), SIDES[1]],
        max_rounds=1,
        judge=_own_judge(),
        synthesizer=create_synthesizer(name="rent"),
        model={"chat": _named("debates"), "synthesize": FunctionModel(decide._function, name="thinks")},
        **moderated(),
    )
    result = rent.run_sync(QUESTION)
    assert [event.model for event in events(result, ModelCalled)] == [
        "thinks",
        "debates",
        "debates",
        "thinks",
        "thinks",
    ]


def _own_debater() -> Any:
    """A debater inside a sequencer of the application's own."""
    return sequencer(name="anna").then(generator(name="anna-speaks", prompt="You are Anna."))


def _own_judge() -> Any:
    """A generator of the application's own that judges."""
    return generator(name="own-judge", model="intent/synthesize", output_schema=DebateVerdict)


def test_the_runs_model_replaces_all_others() -> None:
    """A debater's own, the judge's and the debate's: what a test hands in is asked alone."""
    sides = [Debater("anna", "for", model=_named("annas")), SIDES[1]]
    rent = debate(name="rent", debaters=sides, max_rounds=1, judge=_own_judge(), model=_named("debates"))
    result = rent.run_sync(QUESTION, model=_named("runs"))
    assert {event.model for event in events(result, ModelCalled)} == {"runs"}


def test_what_the_runs_intents_mean_comes_before_the_debates_model() -> None:
    """And behind a debater's own; an intent that the run leaves out is the debate's."""
    sides = [Debater("anna", "for", model=_named("annas")), SIDES[1]]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, model=_named("debates"))
    result = rent.run_sync(QUESTION, model={"chat": _named("runs")})
    assert [event.model for event in events(result, ModelCalled)] == ["annas", "runs", "debates"]


def test_a_debate_inside_a_debate_has_the_nearest_model() -> None:
    """The inner one's own, or that of the one around it."""
    inner = debate(name="inner", debaters=SIDES, max_rounds=1, synthesizer=False, model={"chat": _named("inner")})
    argue = sequencer(name="argue").map(lambda _: QUESTION).then(inner).map(lambda raw: raw.verdict.verdict)
    outer = debate(
        name="outer",
        debaters=[Debater("anna", "for", block=argue), SIDES[1]],
        max_rounds=1,
        synthesizer=False,
        model=_named("outer"),
    )
    result = outer.run_sync(QUESTION)
    assert [event.model for event in events(result, ModelCalled)] == ["inner", "inner", "outer", "outer", "outer"]


def test_a_debater_may_have_a_model_of_its_own() -> None:
    """`Debater(model=…)` beats the debate's, for that debater alone."""
    sides = [Debater("anna", "for", model=_named("annas")), SIDES[1]]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, model=_named("debates"))
    result = rent.run_sync(QUESTION)
    assert [event.model for event in events(result, ModelCalled)] == ["annas", "debates", "debates"]


def test_intents_are_resolved_by_the_run() -> None:
    """Debaters ask "intent/chat", moderator, judge and synthesizer "intent/synthesize"."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, **moderated())
    decide = by_role(decide=lambda _: decision("anna", "ben", done=True))
    models = {"chat": _named("talker"), "synthesize": FunctionModel(decide._function, name="thinker")}
    result = rent.run_sync(QUESTION, model=models)
    assert [event.model for event in events(result, ModelCalled)] == [
        "thinker",
        "talker",
        "talker",
        "thinker",
        "thinker",
    ]


def _answered(**visibility: Any) -> tuple[list[str], list[str], Any]:
    session = Session()
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, **visibility)
    result = rent.run_sync(QUESTION, model=by_role(), session=session)
    shown = [event.block for event in events(result, BlockAnswered)]
    return shown, [message["name"] for message in session.history], result


def test_by_default_all_items_are_shown_and_those_of_debaters_are_not_kept() -> None:
    """The client sees every block's items; the session's history has judge and synthesizer only."""
    shown, kept, _ = _answered()
    assert shown == ROLES
    assert kept == ["rent-judge", "rent-synthesizer"]


@pytest.mark.parametrize("role", ["debater", "judge", "synthesizer"])
def test_a_hidden_blocks_items_are_in_no_event(role: str) -> None:
    """`{"client": False}` keeps a block's items from `result.events`; the audit is still there."""
    shown, _, result = _answered(**{f"{role}_visibility": {"client": False}})
    assert shown == [block for block in ROLES if role not in block]
    assert len(events(result, TurnFinished)) == 2
    assert len(events(result, ModelCalled)) == 4


@pytest.mark.parametrize(
    ("visibility", "kept"),
    [
        ({"debater_visibility": {"history": True}}, ROLES),
        ({"judge_visibility": {"history": False}}, ["rent-synthesizer"]),
        ({"synthesizer_visibility": Visibility(history=False)}, ["rent-judge"]),
    ],
    ids=["debaters kept", "judge not", "synthesizer not"],
)
def test_history_holds_what_visibility_says(visibility: dict[str, Any], kept: list[str]) -> None:
    """A `Visibility`, or a dict that leaves out what stays as it is."""
    shown, in_history, _ = _answered(**visibility)
    assert in_history == kept
    assert shown == ROLES


@pytest.mark.anyio
async def test_a_reader_of_the_handle_gets_no_hidden_items() -> None:
    """Iterating over a run yields text and answers of visible blocks, and none of hidden ones."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, debater_visibility={"client": False})
    handle = rent.start(QUESTION, model=by_role())
    read = [event async for event in handle]
    assert [event.block for event in read if isinstance(event, BlockAnswered)] == ["rent-judge", "rent-synthesizer"]
    assert {event.block for event in read if isinstance(event, TextDelta)} == {"rent-synthesizer"}
    assert (await handle).output == "The end."


@pytest.mark.anyio
async def test_a_reader_of_the_handle_gets_text_as_it_is_written() -> None:
    """Live readers get `TextDelta`s, which `result.events` does not keep."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    handle = rent.start(QUESTION, model=script("A1\nA2", "B"))
    pieces = [(event.block, event.text) async for event in handle if isinstance(event, TextDelta)]
    assert pieces == [("rent-debater-anna", "A1\n"), ("rent-debater-anna", "A2"), ("rent-debater-ben", "B")]
    assert events(await handle, TextDelta) == []


def test_default_blocks_are_called_after_pattern_and_role() -> None:
    """`{name}-debater-{debater}`, `{name}-moderator`, `{name}-judge`, `{name}-synthesizer`."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT, "S")
    debate(name="rent", debaters=SIDES, **moderated()).run_sync(QUESTION, model=model)
    assert [call.block for call in model.calls] == [
        "rent-moderator",
        "rent-debater-anna",
        "rent-debater-ben",
        "rent-judge",
        "rent-synthesizer",
    ]
