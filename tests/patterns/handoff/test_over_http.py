"""Models that hand over badly, on a real HTTP server: each case has a known cost and loses no text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import pytest
from inline_snapshot import snapshot

from flowdebate import OpenAIModel
from flowdebate.errors import OutputError, RosterError, SchemaViolation
from flowdebate.patterns.handoff import HandoffMade
from flowdebate.patterns.handoff.schemas import OnInvalid, TransitionForm
from flowdebate.runs.events import TextDelta, ToolCalled
from tests.models.server import ChatServer, Exchange, chunk, completion, tool_call, usage_chunk
from tests.patterns.debates import events

from .speakers import FORMS, NAMES, PROPOSITION, morals, turns

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

SAID = "It depends."


def completion_with_calls(*arguments: str, content: str | None = None) -> dict[str, Any]:
    """Create a completion that calls `handoff` once per item in `arguments`."""
    tool_calls = [tool_call("handoff", text, f"call_{number}") for number, text in enumerate(arguments)]
    return completion(content, finish="tool_calls", tool_calls=tool_calls)


def encode_fields(response: object, name: object) -> str:
    """Encode the two fields as JSON."""
    return json.dumps({"response": response, "next_agent_name": name})


GOOD: dict[TransitionForm, dict[str, Any]] = {
    "text": completion("Second words.\nTransition to Neutral"),
    "tool": completion_with_calls(encode_fields("Second words.", "Neutral")),
    "structured": completion(encode_fields("Second words.", "Neutral")),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A reply by the first speaker, Pro, with an invalid handover."""

    id: str
    form: TransitionForm
    reply: dict[str, Any]
    problem: str
    """Beginning of the reported problem."""
    text: str = SAID
    """Text of the turn."""
    next_name: str | None = None
    """Next speaker accepted from the reply despite the problem; None if there is none."""


STRANGER = "'Bob' is not a speaker in this debate"
ITSELF = "'Pro' handed over to itself"
NOBODY = "no next speaker was named"
NEITHER = f"nothing was said, and {NOBODY}"
UNREAD = "the answer does not match its schema: "

CASES = [
    Case(id="no marker", form="text", reply=completion(SAID), problem=NOBODY),
    Case(id="itself", form="text", reply=completion(f"{SAID}\nTransition to PRO."), problem=ITSELF),
    Case(id="a stranger", form="text", reply=completion(f"{SAID}\n**Transition to Bob**"), problem=STRANGER),
    Case(
        id="a marker alone",
        form="text",
        reply=completion("Transition to Con"),
        problem="nothing was said",
        text="",
        next_name="Con",
    ),
    Case(id="cut off", form="text", reply=completion(f"{SAID} But no", finish="length"), problem=NOBODY),
    Case(id="no call", form="tool", reply=completion(SAID), problem=NOBODY),
    Case(id="itself", form="tool", reply=completion_with_calls(encode_fields(SAID, "pro")), problem=ITSELF),
    Case(id="a stranger", form="tool", reply=completion_with_calls(encode_fields(SAID, "Bob")), problem=STRANGER),
    Case(id="no name", form="tool", reply=completion_with_calls(json.dumps({"response": SAID})), problem=NOBODY),
    Case(
        id="a name of another type",
        form="tool",
        reply=completion_with_calls(encode_fields(SAID, 5)),
        problem="'5' is not a speaker",
    ),
    Case(
        id="nothing said",
        form="tool",
        reply=completion_with_calls(encode_fields(" ", "Con")),
        problem="nothing was said",
        text="",
        next_name="Con",
    ),
    Case(
        id="arguments cut off",
        form="tool",
        reply=completion_with_calls('{"next_agent_name": "Con", "response": "It depends. And wh'),
        problem=UNREAD,
    ),
    Case(
        id="broken behind the words",
        form="tool",
        reply=completion_with_calls(f'{{"response": "{SAID}", "next'),
        problem=UNREAD,
    ),
    Case(
        id="arguments that are no JSON",
        form="tool",
        reply=completion_with_calls("to Con, please"),
        problem=UNREAD,
        text="to Con, please",
    ),
    Case(
        id="arguments that break off within",
        form="tool",
        reply=completion_with_calls('{"response": "It "depends"."}'),
        problem=UNREAD,
        text="",
    ),
    Case(
        id="text that is other JSON",
        form="tool",
        reply=completion('{"response": 5}'),
        problem=NOBODY,
        text='{"response": 5}',
    ),
    Case(id="no arguments", form="tool", reply=completion_with_calls(""), problem=NEITHER, text=""),
    Case(id="arguments of another kind", form="tool", reply=completion_with_calls("[1]"), problem=UNREAD, text=""),
    Case(id="other fields", form="tool", reply=completion_with_calls('{"answer": "x"}'), problem=NEITHER, text=""),
    Case(id="itself", form="structured", reply=completion(encode_fields(SAID, "Pro")), problem=ITSELF),
    Case(id="a stranger", form="structured", reply=completion(encode_fields(SAID, "Bob")), problem=STRANGER),
    Case(id="no name", form="structured", reply=completion(json.dumps({"response": SAID})), problem=NOBODY),
    Case(id="null", form="structured", reply=completion(encode_fields(SAID, None)), problem=NOBODY),
    Case(
        id="nothing said",
        form="structured",
        reply=completion(encode_fields("", "Con")),
        problem="nothing was said",
        text="",
        next_name="Con",
    ),
    Case(id="other fields", form="structured", reply=completion('{"answer": "x"}'), problem=NEITHER, text=""),
    Case(id="prose", form="structured", reply=completion(SAID), problem=UNREAD),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case.form}: {case.id}")
def case(request: pytest.FixtureRequest) -> Case:
    """Return the case with this name."""
    parameter: Case = request.param
    return parameter


def reply_handler(*replies: dict[str, Any]) -> Any:
    """Create a server handler that returns `replies` one after another."""
    remaining: Iterator[dict[str, Any]] = iter(replies)

    async def answer(exchange: Exchange) -> None:
        await exchange.json(next(remaining))

    return answer


async def run_handoff(*replies: dict[str, Any], **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Run a one-turn handoff on a server that returns `replies`; return its result and the request bodies."""
    async with ChatServer({"served": reply_handler(*replies)}) as server:
        model = OpenAIModel("served", base_url=server.base_url, api_key="sk-none", retry=None)
        pattern = morals(**{"max_turns": 1, **options})
        return await pattern.run(PROPOSITION, model=model, seed=options.get("seed", 4)), server.bodies


async def test_retried_speakers_keep_their_first_text(case: Case) -> None:
    result, bodies = await run_handoff(case.reply, GOOD[case.form], transition=case.form)
    assert turns(result.output) == [("Pro", case.text or "Second words.", "Neutral", "retry")]
    assert len(bodies) == 2
    (event,) = events(result, HandoffMade)
    assert event.problem is not None
    assert event.problem.startswith(case.problem)
    retry_prompt = bodies[1]["messages"][-1]["content"]
    assert event.problem in retry_prompt
    if case.text:
        assert f"\n[Pro] {case.text}\n" in retry_prompt
    cut_off = "cut off" in case.id and bool(case.text)
    assert result.status == ("degraded" if cut_off else "complete")


async def test_second_invalid_handover_leads_to_a_random_speaker(case: Case) -> None:
    result, bodies = await run_handoff(case.reply, case.reply, transition=case.form)
    ((_, text, name, by),) = turns(result.output)
    assert (text, by) == (case.text, "retry" if case.next_name else "random")
    assert name == case.next_name if case.next_name else name in {"Con", "Neutral"}
    assert len(bodies) == 2
    assert result.output.transcript[0].problem.startswith(case.problem)


async def test_next_speaker_can_be_drawn_without_a_retry(case: Case) -> None:
    """Drawing the next speaker at random saves a second call, and the same seed always draws the same speaker."""
    outcomes = []
    for _ in range(2):
        result, bodies = await run_handoff(case.reply, transition=case.form, on_invalid="random")
        assert len(bodies) == 1
        outcomes.append(turns(result.output))
    assert outcomes[0] == outcomes[1]
    ((_, text, name, _),) = outcomes[0]
    assert text == case.text
    assert name == case.next_name if case.next_name else name in {"Con", "Neutral"}


async def test_invalid_handovers_can_raise_an_error_that_keeps_the_text(case: Case) -> None:
    kind = OutputError if case.next_name else RosterError
    with pytest.raises(kind) as caught:
        await run_handoff(case.reply, transition=case.form, on_invalid="error")
    assert caught.value.block == "morals-debater-Pro"
    if isinstance(caught.value, RosterError):
        assert caught.value.available == ("Con", "Neutral")
        assert [field for field, _ in caught.value.problems] == ["next_agent_name"]
    raw = caught.value.run.raw
    assert turns(raw) == [("Pro", case.text, None, None)]
    assert raw.status == "failed"


async def test_only_the_last_marker_counts() -> None:
    result, bodies = await run_handoff(
        completion(f"{SAID}\nTransition to Con\nTransition to Neutral"), transition="text"
    )
    assert turns(result.output) == [("Pro", f"{SAID}\nTransition to Con", "Neutral", "speaker")]
    assert len(bodies) == 1


async def test_first_handoff_call_counts() -> None:
    """A reply with several handoff calls is still a single turn."""
    reply = completion_with_calls(encode_fields(SAID, "Con"), encode_fields("Or not.", "Neutral"))
    result, bodies = await run_handoff(reply, transition="tool")
    assert turns(result.output) == [("Pro", SAID, "Con", "speaker")]
    assert len(bodies) == 1


async def test_replies_with_two_objects_are_retried() -> None:
    """A reply with two objects is invalid, so both names are ignored and the text of the first object is kept."""
    reply = completion(encode_fields(SAID, "Con") + encode_fields("Or not.", "Con"))
    result, bodies = await run_handoff(reply, GOOD["structured"], transition="structured")
    assert turns(result.output) == [("Pro", SAID, "Neutral", "retry")]
    assert len(bodies) == 2


async def test_unreadable_answers_count_as_provider_failures() -> None:
    with pytest.raises(SchemaViolation):
        await run_handoff(completion('{"response": 3 4}'), transition="structured")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", get_args(OnInvalid))
async def test_valid_handovers_take_only_one_call(form: TransitionForm, policy: OnInvalid) -> None:
    result, (body,) = await run_handoff(GOOD[form], transition=form, on_invalid=policy)
    assert turns(result.output) == [("Pro", "Second words.", "Neutral", "speaker")]
    assert ("tools" in body, "response_format" in body) == (form == "tool", form == "structured")
    if form == "text":
        return
    schema = (
        body["tools"][0]["function"]["parameters"]
        if form == "tool"
        else body["response_format"]["json_schema"]["schema"]
    )
    assert list(schema["properties"]) == ["response", "next_agent_name"]
    assert schema["properties"]["next_agent_name"]["enum"] == ["Con", "Neutral"]
    assert schema["required"] == ["response", "next_agent_name"]


async def test_tool_definition_follows_the_provider_format() -> None:
    _, (body,) = await run_handoff(GOOD["tool"], transition="tool")
    assert body["tools"] == snapshot(
        [
            {
                "type": "function",
                "function": {
                    "name": "handoff",
                    "description": "Say something in the debate, and hand over to whoever speaks next.",
                    "parameters": {
                        "additionalProperties": False,
                        "properties": {
                            "response": {
                                "description": "What you say.",
                                "type": "string",
                            },
                            "next_agent_name": {
                                "description": "Who speaks next.",
                                "enum": ["Con", "Neutral"],
                                "type": "string",
                            },
                        },
                        "required": ["response", "next_agent_name"],
                        "type": "object",
                    },
                },
            }
        ]
    )


async def test_text_before_a_tool_call_replaces_a_missing_response() -> None:
    """Some models write their text first and only then call the tool."""
    reply = completion_with_calls(json.dumps({"next_agent_name": "Con"}), content=SAID)
    result, _ = await run_handoff(reply, transition="tool")
    assert turns(result.output) == [("Pro", SAID, "Con", "speaker")]


@pytest.mark.parametrize("form", ["tool", "structured"])
async def test_json_or_a_marker_in_text_counts_as_a_handover(form: TransitionForm) -> None:
    """A complete reply in plain text is not retried, even if a different form was requested."""
    call = json.dumps({"name": "handoff", "arguments": json.loads(encode_fields(SAID, "Con"))})
    written = [encode_fields(SAID, "Con"), *([call] if form == "tool" else [])]
    for text in (f"{SAID}\n\nTransition to Con", *(f"```json\n{json_}\n```\nI call it." for json_ in written)):
        result, bodies = await run_handoff(completion(text), transition=form)
        assert [(text_, name) for _, text_, name, _ in turns(result.output)] == [(SAID, "Con")]
        assert len(bodies) == 1


async def test_only_the_first_object_with_text_counts() -> None:
    """Braces in prose, unrelated objects and broken JSON are ignored."""
    first, second = encode_fields(SAID, "Con"), encode_fields("Or not.", "Neutral")
    for text in (f'{{so}} {{"a": 1}} {first} or {second}', f"<tools></tools>{first}{second}"):
        result, _ = await run_handoff(completion(text), transition="tool")
        assert turns(result.output) == [("Pro", SAID, "Con", "speaker")]
    broken = '{"response" ' * 5_000
    result, _ = await run_handoff(completion(f"{broken}{first}"), transition="tool", on_invalid="random")
    assert result.output.transcript[0].text == f"{broken}{first}"


async def test_other_tools_are_called_before_the_answer() -> None:
    """The model may call the application's tools before it calls `handoff`, which ends the turn."""
    topics: list[str] = []

    def look_up(topic: str) -> str:
        """Look up a topic."""
        topics.append(topic)
        return "7 of 10"

    look = tool_call("look_up", '{"topic": "trust"}', "call_x")
    combined = completion(
        None, finish="tool_calls", tool_calls=[look, tool_call("handoff", encode_fields("7 of 10.", "Con"))]
    )
    late = completion(None, finish="tool_calls", tool_calls=[tool_call("handoff", encode_fields("So.", "Pro")), look])
    first = completion(None, finish="tool_calls", tool_calls=[look])
    options = {"transition": "tool", "tools": [look_up], "max_turns": 2}
    result, bodies = await run_handoff(first, combined, late, **options)
    assert turns(result.output) == [("Pro", "7 of 10.", "Con", "speaker"), ("Con", "So.", "Pro", "speaker")]
    assert topics == ["trust", "trust"]
    assert [event.tool for event in events(result, ToolCalled)] == ["look_up", "look_up"]
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["look_up", "handoff"]
    assert [message["role"] for message in bodies[1]["messages"]] == ["system", "user", "assistant", "tool"]


async def test_model_retry_is_not_used_for_a_wrong_name() -> None:
    """A wrong name costs only one additional call, although the model is allowed three attempts."""
    async with ChatServer(
        {"served": reply_handler(completion(encode_fields(SAID, "Bob")), GOOD["structured"])}
    ) as server:
        model = OpenAIModel("served", base_url=server.base_url, api_key="sk-none")
        result = await morals(max_turns=1).run(PROPOSITION, model=model)
        assert server.posts == 2
    assert turns(result.output) == [("Pro", SAID, "Neutral", "retry")]


async def test_text_is_streamed() -> None:
    """The handoff marker appears in the stream but not in the recorded text."""

    async def streaming(exchange: Exchange) -> None:
        assert exchange.body["stream"]
        pieces = ["It ", "depends.", "\nTransition ", "to Con"]
        await exchange.events([*map(chunk, pieces), chunk(finish="stop"), usage_chunk()])

    async with ChatServer({"served": streaming}) as server:
        model = OpenAIModel("served", base_url=server.base_url, api_key="sk-none")
        handle = morals(max_turns=1, transition="text").start(PROPOSITION, model=model)
        handle_events = [event async for event in handle]
        result = await handle
    assert (
        "".join(event.text for event in handle_events if isinstance(event, TextDelta)) == f"{SAID}\nTransition to Con"
    )
    assert turns(result.output) == [("Pro", SAID, "Con", "speaker")]


async def test_roster_matches_the_names_in_the_cases() -> None:
    assert NAMES == ["Pro", "Con", "Neutral"]
