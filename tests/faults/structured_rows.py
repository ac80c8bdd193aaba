"""Faults 52 to 67: structured answers from single calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.errors import ContentFiltered, Refused, RequestRejected, SchemaViolation
from tests.models.server import completion, tool_call

from .fault import VERDICT, Fault, Verdict
from .handlers import called, error_body, refuse_with, reply

if TYPE_CHECKING:
    from tests.models.server import Exchange, Handler

    from .fault import Played

__all__ = ("STRUCTURED",)

_TEMPLATE = "{{7*7}} {% for x in y %} {# #}"
_RIGHT = Verdict(reasoning="r", winner="for", score=7)
_TOOLS = {"structured": "tools"}


def _with(**changes: str) -> str:
    """Return the verdict's JSON, with the given values inserted verbatim."""
    parts = {"reasoning": '"r"', "winner": '"for"', "score": "7", **changes}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in parts.items()) + "}"


_OTHER = _with(winner='"against"')


def _said(text: str) -> Handler:
    return reply(completion(text))


def _bad(row: str, title: str, text: str, field: str = "") -> Fault:
    """Send an answer that violates the schema, then one that fits it."""
    return Fault(
        id=row,
        title=title,
        handlers=(_said(text), _said(VERDICT)),
        mode="structured",
        description="Retried at once with the answer and its problems; then a valid one",
        attempts=("SchemaViolation", None),
        facts={"data": _RIGHT},
        waits=(),
        check=lambda played: _asked_again(played, text, field),
    )


def _asked_again(played: Played, text: str, field: str) -> None:
    *_, answer, reason = played.server.bodies[1]["messages"]
    assert answer["role"] == "assistant"
    assert _text(answer) == text.replace("\x00", "")[:20_000]
    assert reason["role"] == "user"
    assert f"`{field}`" in _text(reason) or not field


def _text(message: Any) -> Any:
    """Return the text of a message in the format of either API."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _called_badly(row: str, title: str, *handlers: Handler) -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(*handlers, called(tool_call("Verdict", VERDICT))),
        mode="structured",
        options=_TOOLS,
        description="Asked again at once; then the right one",
        attempts=("SchemaViolation", None),
        facts={"data": _RIGHT, "asked_as": "tools"},
        waits=(),
    )


def _in_text(row: str, title: str, text: str, mode: str, *repaired: str, data: Verdict | None = None) -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(_said(text),),
        mode="structured",
        options={"structured": mode},
        description=f"The answer; `repaired` says {', '.join(repaired)}" if repaired else "The answer",
        attempts=(None,),
        facts={"data": data or _RIGHT, "asked_as": mode, "repaired": repaired},
    )


def _two(mode: str, title: str, first: str) -> Fault:
    return Fault(
        id=f"57-two-{mode}",
        title=title,
        handlers=(_said(first), called(tool_call("Verdict", VERDICT)) if mode == "tools" else _said(VERDICT)),
        mode="structured",
        options={"structured": mode},
        description="Asked again at once: neither of them is chosen",
        attempts=("SchemaViolation", None),
        facts={"data": _RIGHT},
        waits=(),
    )


def _support_only(*ways: str) -> Handler:
    """Return a server that rejects all structured output modes except the given ones."""

    async def serve(exchange: Exchange) -> None:
        body = exchange.body
        form = body.get("response_format", {}).get("type")
        way = "tools" if "tools" in body else {"json_schema": "json_schema", "json_object": "json"}.get(form, "md_json")
        if way not in ways:
            parameter = "tool_choice" if way == "tools" else "response_format"
            await exchange.json(error_body(f"{parameter} is not supported by this model"), status=400)
        elif way == "tools":
            await exchange.json(completion(None, finish="tool_calls", tool_calls=[tool_call("Verdict", VERDICT)]))
        else:
            await exchange.json(completion(f"```json\n{VERDICT}\n```" if way == "md_json" else VERDICT))

    return serve


def _refused_ways(way: str, *refused: str) -> Fault:
    return Fault(
        id=f"58-{way}",
        title=f"A server that refuses `{'`, `'.join(refused)}`",
        handlers=(_support_only(way),),
        mode="structured",
        description=f'Asked in the next way, and so at once in later calls; `asked_as` is "{way}"',
        attempts=(*("RequestRejected",) * len(refused), None),
        facts={"data": _RIGHT, "asked_as": way},
        waits=(),
        check=lambda played: _ways(played, [*refused, way]),
    )


def _ways(played: Played, ways: list[str]) -> None:
    assert [attempt.asked_as for attempt in played.request.attempts.made] == ways


def _hides_text(played: Played) -> None:
    """Check that the model's text is in the error's `answer` but not in its message."""
    assert isinstance(played.error, SchemaViolation)
    assert "the secret of" not in str(played.error)
    assert played.error.answer is not None
    assert "the secret of" in played.error.answer
    lengths = [len(body["messages"]) for body in played.server.bodies]
    assert lengths == [1, 3, 5]


def _byte_for_byte(played: Played) -> None:
    assert all(_TEMPLATE in str(body["messages"]) for body in played.server.bodies)
    assert "49" not in str(played.server.bodies)


def _only_lookup(played: Played) -> None:
    assert played.response is not None
    assert [call.name for call in played.response.tool_calls] == ["lookup"]


STRUCTURED: tuple[Fault, ...] = (
    _bad("52", "A field is missing, then none is", '{"reasoning": "r", "score": 7}', "winner"),
    Fault(
        id="53",
        title="Never a valid answer",
        handlers=(_said('{"reasoning": "the secret of", "winner": "both", "score": 7}'),),
        mode="structured",
        description="`SchemaViolation` after all attempts, naming the field; the last request was for a tool call",
        attempts=("SchemaViolation",) * 3,
        error=SchemaViolation,
        says="`winner`",
        waits=(),
        check=_hides_text,
    ),
    _bad("54", "No JSON at all", "I think that the first side won."),
    _in_text(
        "54-control",
        "A raw line break in a string",
        _with(reasoning='"a\nb"'),
        "json_schema",
        "line break in a string",
        data=_RIGHT.model_copy(update={"reasoning": "a\nb"}),
    ),
    _bad("54-deep", "JSON 5,000 deep", '{"reasoning": ' + "[" * 5_000),
    _bad("54-half", "Half a JSON, though the model says that it is done", VERDICT[:-5]),
    _bad("54-inner", "An object that fits inside of one that is broken", '{"draft": ' + VERDICT + ", oh no"),
    _called_badly("54-arguments", "Half a JSON as arguments", called(tool_call("Verdict", VERDICT[:-5]))),
    _called_badly("55", "A call of a tool that was never offered", called(tool_call("admin", VERDICT))),
    Fault(
        id="55-schema",
        title="A call of a tool where a response format was asked for",
        handlers=(called(tool_call("Verdict", VERDICT)), _said(VERDICT)),
        mode="structured",
        description="Asked again at once; then the right one",
        attempts=("SchemaViolation", None),
        facts={"data": _RIGHT},
        waits=(),
    ),
    _called_badly(
        "56", "Two answers at once", called(tool_call("Verdict", VERDICT), tool_call("Verdict", VERDICT, "call_b"))
    ),
    Fault(
        id="56-premature",
        title="An answer beside the call of a tool that was offered",
        handlers=(called(tool_call("Verdict", VERDICT), tool_call("lookup", "{}", "call_b")),),
        mode="structured",
        options=_TOOLS,
        tools=True,
        description="The call; the answer is asked for once the tool has answered",
        attempts=(None,),
        facts={"data": None, "finish": "tool_calls"},
        check=_only_lookup,
    ),
    _in_text("57", "JSON as text, where a tool was to be called", VERDICT, "tools", "text for a tool call"),
    _in_text(
        "57-prose",
        "JSON in prose, where a tool was to be called",
        f"Sure: {VERDICT} Bye.",
        "tools",
        "text for a tool call",
        "text around the JSON",
    ),
    _in_text(
        "57-schema",
        "JSON in a code block, where a response format was asked for",
        f"```json\n{VERDICT}\n```",
        "json_schema",
        "code fence",
    ),
    _in_text(
        "57-json", "JSON in prose, where JSON was asked for", f"Sure: {VERDICT} Bye.", "json", "text around the JSON"
    ),
    _in_text("57-twice", "The same JSON object twice", f"{VERDICT}\n{VERDICT}", "json_schema", "repeated object"),
    _in_text("57-comma", "JSON with a trailing comma", f"{VERDICT[:-1]},}}", "json_schema", "trailing comma"),
    _in_text(
        "57-block",
        "JSON in a code block, as was asked for",
        f"Sure:\n```json\n{VERDICT}\n```\nBye {{all}}.",
        "md_json",
    ),
    _in_text("57-bare", "JSON without the code block that was asked for", VERDICT, "md_json"),
    _two(
        "tools",
        "Two JSON objects as text, where a tool was to be called",
        f"{VERDICT} or {_OTHER}",
    ),
    _two("json_schema", "Two JSON objects, where a response format was asked for", f"{VERDICT}\n{_OTHER}"),
    _two("json", "Two JSON objects, where JSON was asked for", f"{VERDICT}\n{_OTHER}"),
    _two("md_json", "Two code blocks", f"```json\n{VERDICT}\n```\nor\n```json\n{_OTHER}\n```"),
    _refused_ways("tools", "json_schema"),
    _refused_ways("json", "json_schema", "tools"),
    _refused_ways("md_json", "json_schema", "tools", "json"),
    Fault(
        id="58-none",
        title="A server that refuses every way",
        handlers=(_support_only(),),
        mode="structured",
        description="`RequestRejected` after one request for each way",
        attempts=("RequestRejected",) * 4,
        error=RequestRejected,
        waits=(),
    ),
    Fault(
        id="58-other",
        title="A server that refuses a structured request for another reason",
        handlers=(refuse_with(400, error_body("temperature must be between 0 and 2")),),
        mode="structured",
        description="The first `RequestRejected`, after one request for each way",
        attempts=("RequestRejected",) * 4,
        error=RequestRejected,
        says="temperature must be between 0 and 2",
        waits=(),
    ),
    _bad("59-nan", "A score that is `NaN`", _with(score="NaN")),
    _bad("59-infinity", "A score that is `-Infinity`", _with(score="-Infinity")),
    _bad("59-overflow", "A score of `1e999`", _with(score="1e999"), "score"),
    _bad("59-range", "A score out of its range", _with(score="101"), "score"),
    _bad("59-type", "A score that is text", _with(score='"seven"'), "score"),
    _in_text("60", "An unknown field", _with(admin="true"), "json_schema", "unknown key"),
    _bad("60-twice", "A field twice, with two values", VERDICT[:-1] + ', "winner": "against"}'),
    _bad("61-roster", "A winner who is not in the debate", _with(winner='"nobody"'), "winner"),
    _bad("61-not", "A winner with a word too many", _with(winner='"not for"'), "winner"),
    _in_text("61-case", "A winner in capitals", _with(winner='"FOR"'), "json_schema", "spelling of a choice"),
    _in_text(
        "61-width",
        "A winner with a character that has no width",
        _with(winner='"f\u200bor"'),
        "json_schema",
        "spelling of a choice",
    ),
    Fault(
        id="61-null",
        title="No winner, which is allowed",
        handlers=(_said(_with(winner="null")),),
        mode="structured",
        description="The answer",
        attempts=(None,),
        facts={"data": Verdict(reasoning="r", winner=None, score=7)},
    ),
    Fault(
        id="66-refused",
        title="The judge refuses",
        handlers=(reply(completion(None, refusal="I do not judge")),),
        mode="structured",
        description="`Refused` at once",
        attempts=("Refused",),
        error=Refused,
    ),
    Fault(
        id="66-filtered",
        title="A content filter stops the judge",
        handlers=(reply(completion(None, finish="content_filter")),),
        mode="structured",
        description="`ContentFiltered` at once",
        attempts=("ContentFiltered",),
        error=ContentFiltered,
    ),
    *(
        Fault(
            id=f"67-{mode}",
            title=f"`{{{{7*7}}}}` and `{{% for` in a prompt, asked as {mode}",
            handlers=(called(tool_call("Verdict", VERDICT)) if mode == "tools" else _said(VERDICT),),
            mode="structured",
            options={"structured": mode},
            messages=({"role": "user", "content": _TEMPLATE},),
            description="The prompt leaves byte for byte",
            attempts=(None,),
            facts={"data": _RIGHT},
            check=_byte_for_byte,
        )
        for mode in ("json_schema", "tools", "json", "md_json")
    ),
)
