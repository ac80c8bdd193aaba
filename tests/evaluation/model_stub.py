"""`Stub`: a faulty model server for tests of model checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flowdebate.models.output import inline_definitions
from tests.models.server import ChatServer, Exchange, chunk, completion, tool_call, usage_chunk
from tests.models.test_refusals import error, has_consecutive_roles, message_roles
from tests.vendors import build_instance

Body: TypeAlias = dict[str, Any]

REFUSALS: dict[str, Callable[[Body], bool]] = {
    "stream": lambda body: bool(body.get("stream")),
    "stream_options": lambda body: "stream_options" in body,
    "temperature": lambda body: "temperature" in body,
    "older limit": lambda body: "max_tokens" in body,
    "limit": lambda body: not {"max_tokens", "max_completion_tokens"}.isdisjoint(body),
    "system": lambda body: "system" in message_roles(body),
    "neighbours": has_consecutive_roles,
    "effort": lambda body: "reasoning_effort" in body,
    "tools": lambda body: "tools" in body,
    "logprobs": lambda body: "logprobs" in body,
    "schema": lambda body: "json_schema" in json.dumps(body.get("response_format")),
    "formats": lambda body: "response_format" in body,
}
"""Predicates that select the requests to reject, by feature."""


@dataclass
class Stub:
    """A server that plays every role; its options set what it rejects and how it writes."""

    refuses: Collection[str] = ()
    words: str = "That cannot be done here."
    status: int = 400
    """HTTP status of rejections."""
    write: Callable[[str], str] = lambda text: text
    """Function that formats the text of each answer, for example by surrounding it with thinking."""
    finish: str = "stop"
    letters: bool = True
    """True if responses include log probabilities."""
    calls_tools: bool = True
    data: Callable[[Body, Any], Any] = lambda _, data: data
    """Function that changes the data of a structured answer, given the request and valid data."""
    requests: list[Body] = field(default_factory=list)

    def server(self) -> ChatServer:
        """Return a server that accepts any model."""
        return ChatServer({}, otherwise=self)

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        body = exchange.body
        self.requests.append(body)
        if any(REFUSALS[name](body) for name in self.refuses):
            await exchange.json(error(self.words), status=self.status)
        elif body.get("logprobs"):
            await exchange.json(self._letter())
        else:
            await self._answer(exchange, body)

    def _letter(self) -> Any:
        completion_body = completion("A", finish=self.finish)
        if self.letters:
            likely = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.4}]
            completion_body["choices"][0]["logprobs"] = {
                "content": [{"token": "A", "logprob": -0.1, "top_logprobs": likely}]
            }
        return completion_body

    async def _answer(self, exchange: Exchange, body: Body) -> None:
        schema = schema_of(body)
        if schema is None and "tools" in body and self.calls_tools:
            call = tool_call("look_up", '{"line": "9"}')
            await exchange.json(completion(None, finish="tool_calls", tool_calls=[call]))
            return
        if schema is None:
            text = self.write("Trams carry more people.")
        else:
            data = json.dumps(self.data(body, build_instance(inline_definitions(schema))))
            if "tool_choice" in body:
                call = tool_call(body["tool_choice"]["function"]["name"], data)
                await exchange.json(completion(None, finish="tool_calls", tool_calls=[call]))
                return
            text = self.write(data)
        if body.get("stream"):
            pieces = [text[at : at + 12] for at in range(0, len(text), 12)]
            await exchange.events([*map(chunk, pieces), chunk(finish=self.finish), usage_chunk()])
        else:
            await exchange.json(completion(text, finish=self.finish))


def schema_of(body: Body) -> Any:
    """Return the schema that a request asks for in any output mode, or None if it asks for text."""
    form = body.get("response_format") or {}
    if "json_schema" in form:
        return form["json_schema"]["schema"]
    if "tool_choice" in body:
        return body["tools"][0]["function"]["parameters"]
    last = str(body["messages"][-1]["content"])
    if "JSON Schema" not in last and "json_schema" not in last:
        return None
    for at, sign in enumerate(last):
        if sign == "{":
            try:
                value, _ = json.JSONDecoder().raw_decode(last[at:])
            except ValueError:
                continue
            if isinstance(value, dict) and "properties" in value:
                return value
    return None
