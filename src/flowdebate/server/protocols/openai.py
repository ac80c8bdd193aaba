"""OpenAI-compatible endpoint: each pattern is a model, and each chat completion or response is one run."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Header
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import Response

from flowdebate._text import typed
from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.server.front import Front, FrontOf, ServiceOf
from flowdebate.server.guard import owner_of
from flowdebate.server.problems import JSONData, Problem, problem_of, problem_response
from flowdebate.server.protocols.chat_request import (
    DISCONNECT,
    WHERE,
    ChatModel,
    ChatRequest,
    ResponseRequest,
    chat_models,
    find_chat_model,
)
from flowdebate.server.protocols.chat_sources import End, RunSource, Source, TaskSource
from flowdebate.server.protocols.chat_tasks import is_hidden_task
from flowdebate.server.protocols.streams import PING, cancel_on_disconnect, data_frame
from flowdebate.server.sse import EventStream
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.service.state import RunState

# Errors


class _Route(APIRoute):
    """Route that reports errors in OpenAI's format."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await handle(request)
            except (FlowDebateError, HTTPException, RequestValidationError) as error:
                return error_response(error)

        return handler


_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_UNKNOWN, _INVALID, _OURS = 404, 422, 500


def error_response(error: Exception) -> Response:
    """Convert an error to a response in OpenAI's format; invalid requests get status 400."""
    problem_headers = problem_response(error).headers
    headers = {
        name: problem_headers[name]
        for name in ("retry-after", "x-should-retry", "www-authenticate")
        if name in problem_headers
    }
    return JSONData(_error_body(error), status_code=_status_of(problem_of(error)), headers=headers)


def _status_of(problem: Problem) -> int:
    return 400 if problem.status == _INVALID else problem.status


def _error_body(error: Exception) -> dict[str, Any]:
    problem = problem_of(error)
    status = _status_of(problem)
    kind = _TYPES.get(status, "invalid_request_error" if status < _OURS else "server_error")
    code = "model_not_found" if status == _UNKNOWN else problem.type.rpartition("error:")[2]
    param = problem.errors[0].field if problem.errors else None
    error_fields = {"message": problem.detail, "type": kind, "param": param}
    return {"error": {**error_fields, "code": None if code == "about:blank" else code}}


# Endpoints

router: APIRouter = APIRouter(prefix="/v1", route_class=_Route, include_in_schema=False)


@router.get("/models")
async def list_chat_models(front: FrontOf) -> Response:
    """List the available models: registered patterns, and built-in patterns that require only a question."""
    return JSONData({"object": "list", "data": [_listed(model) for model in chat_models(front.service)]})


@router.get("/models/{model:path}")
async def chat_model(model: str, front: FrontOf) -> Response:
    """Return the model with this id."""
    return JSONData(_listed(_known(front.service, model)))


_Key: TypeAlias = Annotated[str | None, Header(max_length=200)]


@router.post("/chat/completions")
async def chat_completion(
    body: ChatRequest, request: Request, front: FrontOf, service: ServiceOf, idempotency_key: _Key = None
) -> Response:
    """Run a pattern on the last message of a chat; the answer contains the run's contributions and result."""
    front.check_writable()
    ignored = body.check()
    return await _answer(_Completion, body, ignored, request, front, service, idempotency_key)


@router.post("/responses")
async def response(
    body: ResponseRequest, request: Request, front: FrontOf, service: ServiceOf, idempotency_key: _Key = None
) -> Response:
    """Run a pattern, and respond in the newer format of OpenAI's Responses API."""
    front.check_writable()
    ignored = body.check()
    return await _answer(_Response, body.chat(), ignored, request, front, service, idempotency_key)


@router.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def unknown_endpoint(path: str, request: Request) -> Response:
    """Respond to a request for an unknown endpoint with an error in OpenAI's format."""
    message = f"Unknown endpoint {request.method} /v1/{path}; available: models, chat/completions and responses."
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "unknown_url"}
    return JSONData({"error": error}, status_code=_UNKNOWN)


async def _answer(
    kind: type[_Answer],
    body: ChatRequest,
    ignored: Sequence[str],
    request: Request,
    front: Front,
    service: Service | OwnedService,
    key: str | None,
) -> Response:
    """Answer a request in one piece or as a stream; cancel the request's run if the client disconnects."""
    model = _known(front.service, body.model)
    if is_hidden_task(body.chat(), body.answer_schema):
        return await _respond(kind(source=TaskSource(body, model, service), model=model, body=body), request, ignored)
    run_id: str | None = None
    if key is not None:  # each user has a separate set of keys
        run_id = f"chat-{sha256(json.dumps([owner_of(request.scope), key]).encode()).hexdigest()[:32]}"
    run = await _begin(service, model, body, run_id=run_id)
    reader = front.audience.join(service, run.run_id, cancel=DISCONNECT not in (body.metadata or {}))
    # Requested through the model's name, or implied because the answer must match a schema.
    answer_only = model.answer_only or body.answer_schema is not None
    source = RunSource(run, service, reader, answer_only=answer_only)
    return await _respond(kind(source=source, model=model, body=body), request, ignored, leave=reader.leave)


async def _respond(
    answer: _Answer, request: Request, ignored: Sequence[str], *, leave: Callable[[], None] = lambda: None
) -> Response:
    """Send an answer in one piece or as a stream; call `leave` once the answer's reader has left."""
    if answer.body.stream:
        response: Response = EventStream(answer.frames(), ended=leave)
    else:
        try:
            response = await cancel_on_disconnect(request, answer.whole()) or Response(status_code=499)
        finally:
            leave()
    if ignored:
        response.headers["x-flowdebate-ignored"] = ", ".join(ignored)
    return response


def _listed(model: ChatModel) -> dict[str, Any]:
    owner = "flowdebate" if model.info is not None else "application"
    return {"id": model.id, "object": "model", "created": 0, "owned_by": owner}


def _known(service: Service, name: str) -> ChatModel:
    model = find_chat_model(service, name)
    if model is None:
        raise HTTPException(404, f"There is no model {typed(name)}; to list all models, use GET /v1/models.")
    return model


async def _begin(
    service: Service | OwnedService, model: ChatModel, body: ChatRequest, *, run_id: str | None
) -> RunState:
    """Start the run for a request; if a run already has the request's idempotency key, return that run instead.

    An existing run is resumed if it was cancelled.
    """
    options, question = model.input(body)
    try:
        run = await service.begin(
            model.pattern, question, options=options or None, run_id=run_id, seed=body.seed, labels=body.labels
        )
    except ConfigurationError as error:
        if body.models is None or not error.field.startswith("model"):
            raise
        # in this API, `model` is the pattern, and `models` are the pattern's models
        field = f"models{error.field.removeprefix('model')}"
        raise error.moved(WHERE, field) from None
    return await service.resume(run.run_id) if run.status == "interrupted" else run


@dataclass(frozen=True, kw_only=True)
class _Answer(ABC):
    """Answer whose text is provided by `source`; it is sent either in one piece or in chunks."""

    source: Source
    model: ChatModel
    body: ChatRequest

    @abstractmethod
    async def whole(self) -> Response:
        """Return the complete answer once the run has ended."""

    @abstractmethod
    def frames(self) -> AsyncGenerator[bytes]:
        """Yield the frames of the stream; if the run fails, the last frame reports the failure."""

    async def _full_text(self) -> tuple[str, End]:
        """Return the complete text of the answer, and the details of how it ended."""
        async with aclosing(self.source.texts()) as texts:
            text = "".join([text async for text in texts if text is not None])
        return text, await self.source.end()


class _Completion(_Answer):
    """A chat completion, sent in one piece or in chunks."""

    async def whole(self) -> Response:
        text, end = await self._full_text()
        reason = self._reason(end)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if reason == "tool_calls":
            message |= {"content": None, "tool_calls": [self._tool_call(text)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        answer = self._object("chat.completion", [choice], usage=self.source.usage(), end=end)
        return JSONData(answer, headers=_incomplete(end))

    def _reason(self, end: End) -> str:
        """Return the finish reason from `end`, or "tool_calls" if the complete answer is a forced tool's arguments."""
        reason = end.finish_reason
        return reason if reason != "stop" or self.body.forced_tool is None else "tool_calls"

    def _tool_call(self, arguments: str) -> dict[str, Any]:
        tool = self.body.forced_tool
        function = {"name": "" if tool is None else tool.name, "arguments": arguments}
        return {"id": f"call_{self.source.id}", "type": "function", "function": function}

    def _text_delta(self, text: str) -> dict[str, Any]:
        """Build the delta for a chunk of the answer; a structured answer has only one chunk."""
        if self.body.forced_tool is None:
            return {"content": text}
        return {"tool_calls": [{"index": 0, **self._tool_call(text)}]}

    async def frames(self) -> AsyncGenerator[bytes]:
        with_usage = self.body.stream_options is not None and bool(self.body.stream_options.include_usage)
        nothing = {"usage": None} if with_usage else {}
        yield self._frame([_delta({"role": "assistant", "content": ""})], **nothing)
        try:
            async with aclosing(self.source.texts()) as texts:
                async for text in texts:
                    yield PING if text is None else self._frame([_delta(self._text_delta(text))], **nothing)
            end = await self.source.end()
        except (FlowDebateError, HTTPException) as error:
            yield data_frame(_error_body(error))
            return
        yield self._frame([_delta({}, self._reason(end))], **nothing, end=end)
        if with_usage:
            yield self._frame([], usage=self.source.usage())
        yield b"data: [DONE]\n\n"

    def _frame(self, choices: list[dict[str, Any]], *, end: End | None = None, **more: object) -> bytes:
        return data_frame(self._object("chat.completion.chunk", choices, end=end, **more))

    def _object(self, kind: str, choices: list[Any], *, end: End | None = None, **more: object) -> dict[str, Any]:
        extension = {} if end is None else {"flowdebate": _about(end)}
        return {
            "id": f"chatcmpl-{self.source.id}",
            "object": kind,
            "created": self.source.created,
            "model": self.model.id,
            "choices": choices,
            **more,
            **extension,
        }


class _Response(_Answer):
    """A response with a single assistant message, sent in one piece or as events."""

    async def whole(self) -> Response:
        text, end = await self._full_text()
        return JSONData(self._object(end, text), headers=_incomplete(end))

    async def frames(self) -> AsyncGenerator[bytes]:
        number = count()

        def event(kind: str, **data: object) -> bytes:
            return f"event: {kind}\n".encode() + data_frame({"type": kind, "sequence_number": next(number), **data})

        place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        yield event("response.created", response=self._object())
        yield event("response.in_progress", response=self._object())
        yield event("response.output_item.added", output_index=0, item=self._message(None))
        yield event("response.content_part.added", **place, part=_part(""))
        texts_sent: list[str] = []
        try:
            async with aclosing(self.source.texts()) as texts:
                async for text in texts:
                    if text is None:
                        yield PING
                    else:
                        texts_sent.append(text)
                        yield event("response.output_text.delta", **place, delta=text, logprobs=[])
            end = await self.source.end()
        except (FlowDebateError, HTTPException) as error:
            problem = {"code": "server_error", "message": _error_body(error)["error"]["message"]}
            failed = {**self._object(), "status": "failed", "error": problem}
            yield event("response.failed", response=failed)
            return
        full_text = "".join(texts_sent)
        yield event("response.output_text.done", **place, text=full_text, logprobs=[])
        yield event("response.content_part.done", **place, part=_part(full_text))
        done = self._object(end, full_text)
        yield event("response.output_item.done", output_index=0, item=done["output"][0])
        yield event(f"response.{done['status']}", response=done)

    @property
    def _item(self) -> str:
        return f"msg_{self.source.id}"

    def _message(self, text: str | None, status: str = "in_progress") -> dict[str, Any]:
        content = [] if text is None else [_part(text)]
        return {"id": self._item, "type": "message", "role": "assistant", "status": status, "content": content}

    def _object(self, end: End | None = None, text: str | None = None) -> dict[str, Any]:
        """Build the response object, with the status "in_progress" unless `end` is passed."""
        status, extension = "in_progress", {}
        if end is not None:
            status = "completed" if end.finish_reason == "stop" else "incomplete"
            extension = {"flowdebate": _about(end)}
        return {
            "id": f"resp_{self.source.id}",
            "object": "response",
            "created_at": self.source.created,
            "status": status,
            "model": self.model.id,
            "output": [] if end is None else [self._message(text, status)],
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": None,
            "metadata": self.body.metadata or {},
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "usage": None if end is None else self._response_usage(),
            **extension,
        }

    def _response_usage(self) -> dict[str, Any]:
        """Convert the token counts to the format of the Responses API."""
        counts = self.source.usage()
        return {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": counts["prompt_tokens_details"],
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": counts["completion_tokens_details"],
            "total_tokens": counts["total_tokens"],
        }


def _incomplete(end: End) -> dict[str, str]:
    """Build the header stating that an answer's usage is incomplete because a server reported no token counts."""
    return {} if end.counted else {"x-flowdebate-usage": "incomplete"}


def _about(end: End) -> dict[str, Any]:
    return end.run_info if end.counted else {**end.run_info, "usage": "incomplete"}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _delta(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
