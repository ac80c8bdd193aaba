"""OpenAI-compatible endpoint: each pattern is a model, and each chat completion or response a run of it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Header
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import Response

from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.runs.events import ModelCalled
from flowdebate.server.front import Front, FrontOf, ServiceOf, stored_run
from flowdebate.server.guard import owner_of
from flowdebate.server.problems import JSONData, Problem, problem_of, problem_response
from flowdebate.server.protocols.chat_request import (
    WHERE,
    ChatModel,
    ChatRequest,
    ResponseRequest,
    chat_models,
    find_chat_model,
)
from flowdebate.server.protocols.chat_text import ChatText, answer_of
from flowdebate.server.protocols.streams import PING, Reader, data_frame, unless_disconnected
from flowdebate.server.sse import EventStream
from flowdebate.service.channel import Update
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.service.state import RunDetails, RunState

_ONLY_ONCE = {"x-should-retry": "false"}
"""Header by which OpenAI's clients do not repeat, and pay for, a run that has failed."""
_DISCONNECT = "flowdebate_on_disconnect"
"""Key of `metadata`: "continue" lets the run go on when the client leaves."""


# Errors


class _Route(APIRoute):
    """Endpoint whose errors have the form that OpenAI's have."""

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
    """The response to an error: that of its problem in OpenAI's form, with status 400 for what is invalid."""
    given = problem_response(error).headers
    headers = {name: given[name] for name in ("retry-after", "x-should-retry", "www-authenticate") if name in given}
    return JSONData(_error_body(error), status_code=_status_of(problem_of(error)), headers=headers)


def _status_of(problem: Problem) -> int:
    return 400 if problem.status == _INVALID else problem.status


def _error_body(error: Exception) -> dict[str, Any]:
    problem = problem_of(error)
    status = _status_of(problem)
    kind = _TYPES.get(status, "invalid_request_error" if status < _OURS else "server_error")
    code = "model_not_found" if status == _UNKNOWN else problem.type.rpartition("error:")[2]
    param = problem.errors[0].field if problem.errors else None
    said = {"message": problem.detail, "type": kind, "param": param}
    return {"error": {**said, "code": None if code == "about:blank" else code}}


# Endpoints

router: APIRouter = APIRouter(prefix="/v1", route_class=_Route, include_in_schema=False)


@router.get("/models")
async def list_chat_models(front: FrontOf) -> Response:
    """List the models: the registered patterns, and those built-in ones that need nothing but a question."""
    return JSONData({"object": "list", "data": [_listed(each) for each in chat_models(front.service)]})


@router.get("/models/{model:path}")
async def chat_model(model: str, front: FrontOf) -> Response:
    """Look a model up."""
    return JSONData(_listed(_known(front.service, model)))


_Key: TypeAlias = Annotated[str | None, Header(max_length=200)]


@router.post("/chat/completions")
async def chat_completion(
    body: ChatRequest, request: Request, front: FrontOf, service: ServiceOf, idempotency_key: _Key = None
) -> Response:
    """Run a pattern on the last message of a chat; the answer is what is said, and what it comes to."""
    front.check_writable()
    ignored = body.check()
    return await _answer(_Completion, body, ignored, request, front, service, idempotency_key)


@router.post("/responses")
async def response(
    body: ResponseRequest, request: Request, front: FrontOf, service: ServiceOf, idempotency_key: _Key = None
) -> Response:
    """The same as a response, the newer form of OpenAI's API."""
    front.check_writable()
    ignored = body.check()
    return await _answer(_Response, body.chat(), ignored, request, front, service, idempotency_key)


@router.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def unknown_endpoint(path: str, request: Request) -> Response:
    """Say in OpenAI's form that there is no such endpoint."""
    message = f"There is no {request.method} /v1/{path}: models, chat/completions and responses are there."
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
    """The answer to a request, whole or as a stream; it cancels its run if its client leaves."""
    model = _known(front.service, body.model)
    run_id: str | None = None
    if key is not None:  # each user has keys of their own
        run_id = f"chat-{sha256(json.dumps([owner_of(request.scope), key]).encode()).hexdigest()[:32]}"
    run = await _begin(service, model, body, run_id=run_id)
    reader = front.audience.join(service, run.run_id, cancel=_DISCONNECT not in (body.metadata or {}))
    answer = kind(run=run, model=model, body=body, service=service, reader=reader)
    if body.stream:
        response: Response = EventStream(answer.frames(), ended=reader.leave)
    else:
        try:
            response = await unless_disconnected(request, answer.whole()) or Response(status_code=499)
        finally:
            reader.leave()
    if ignored:
        response.headers["x-flowdebate-ignored"] = ", ".join(ignored)
    return response


def _listed(model: ChatModel) -> dict[str, Any]:
    owner = "flowdebate" if model.info is not None else "application"
    return {"id": model.id, "object": "model", "created": 0, "owned_by": owner}


def _known(service: Service, name: str) -> ChatModel:
    found = find_chat_model(service, name)
    if found is None:
        raise HTTPException(404, f"The model {name!r} does not exist; GET /v1/models lists those that do.")
    return found


async def _begin(
    service: Service | OwnedService, model: ChatModel, body: ChatRequest, *, run_id: str | None
) -> RunState:
    """The run of a request; with a key, the one that it started before, resumed if it was cancelled."""
    metadata = dict(body.metadata or {})
    if metadata.pop(_DISCONNECT, "continue") != "continue":
        raise ConfigurationError(WHERE, f"metadata.{_DISCONNECT}", body.metadata, '"continue", or left out')
    labels = metadata if body.user is None else {**metadata, "user": body.user}
    options, question = model.input(body)
    try:
        run = await service.begin(
            model.pattern, question, options=options or None, run_id=run_id, seed=body.seed, labels=labels
        )
    except ConfigurationError as error:
        if body.models is None or not error.field.startswith("model"):
            raise
        field = f"models{error.field.removeprefix('model')}"  # `model` is the pattern here
        raise ConfigurationError(WHERE, field, error.got, error.allowed, hint=error.hint) from None
    return await service.resume(run.run_id) if run.status == "interrupted" else run


@dataclass(frozen=True, kw_only=True)
class _Answer(ABC):
    """What is said in a run, and what it comes to, as a whole or piece by piece."""

    run: RunState
    model: ChatModel
    body: ChatRequest
    service: Service | OwnedService
    reader: Reader
    counted: Counter[str] = field(default_factory=Counter)
    """The tokens that servers have told, by the names of OpenAI's counts."""

    @property
    def answer_only(self) -> bool:
        """Whether the answer is the output alone: by the model's name, and where it has to fit a schema."""
        return self.model.answer_only or self.body.answer_schema is not None

    @abstractmethod
    async def whole(self) -> Response:
        """The response with the whole answer, once the run has ended."""

    @abstractmethod
    def frames(self) -> AsyncGenerator[bytes]:
        """The frames of a stream; a failure of the run is the last one."""

    async def _said(self) -> tuple[str, RunDetails]:
        """The whole text, and the run that has ended."""
        async with aclosing(self._texts()) as texts:
            said = "".join([text async for text in texts if text is not None])
        return said, await self.service.run(self.run.run_id)

    async def _texts(self) -> AsyncGenerator[str | None]:
        """The pieces of the answer; None in a pause. An exception if the run has no answer."""
        run_id, chat = self.run.run_id, ChatText()
        async with aclosing(self.reader.updates()) as updates:
            async for update in updates:
                if update is None:
                    yield None
                    continue
                self._count(update)
                if not self.answer_only and (text := chat.translate(update)):
                    yield text
        details = await self.service.run(run_id)
        if details.status in _FAILED:
            raise HTTPException(502, f"Run {run_id} has failed: {details.error}", _ONLY_ONCE)
        if details.status in _ELSEWHERE:
            raise HTTPException(503, f"The server stops; run {run_id} goes on later.", _ONLY_ONCE)
        output = None
        if details.document is None:  # of a block that is no pattern
            output = ((await stored_run(self.service, run_id)).outcome or {}).get("output")
        if not self.answer_only:
            yield chat.finish(details, output)
        elif (answer := answer_of(details, output)) is not None:
            yield answer
        else:
            raise HTTPException(502, f"Run {run_id} has no answer: it ended as {details.status!r}.", _ONLY_ONCE)

    def _count(self, update: Update) -> None:
        """Count the tokens of a call."""
        if update.kind == "reset":
            self.counted.clear()
        elif isinstance(update.event, ModelCalled):
            for usage in [attempt.usage for attempt in update.event.attempts] or [update.event.usage]:
                self.counted["prompt_tokens"] += usage.prompt_tokens or 0
                self.counted["completion_tokens"] += usage.completion_tokens or 0
                self.counted["cached_tokens"] += usage.cached_tokens or 0
                self.counted["reasoning_tokens"] += usage.reasoning_tokens or 0

    def _usage(self) -> dict[str, Any]:
        """The tokens of all calls of the run, as far as they are known."""
        asked, answered = self.counted["prompt_tokens"], self.counted["completion_tokens"]
        return {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
            "prompt_tokens_details": {"cached_tokens": self.counted["cached_tokens"]},
            "completion_tokens_details": {"reasoning_tokens": self.counted["reasoning_tokens"]},
        }


class _Completion(_Answer):
    """A chat completion, whole or in chunks."""

    async def whole(self) -> Response:
        said, details = await self._said()
        reason = self._reason(details)
        message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": None}
        if reason == "tool_calls":
            message |= {"content": None, "tool_calls": [self._tool_call(said)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        answer = self._object("chat.completion", [choice], usage=self._usage(), details=details)
        return JSONData(answer, headers=_incomplete(details))

    def _reason(self, details: RunDetails) -> str:
        """Return the reason of the end; "tool_calls" for the arguments of a tool that had to be called."""
        reason = _finish_reason(details)
        return reason if reason != "stop" or self.body.forced_tool is None else "tool_calls"

    def _tool_call(self, arguments: str) -> dict[str, Any]:
        tool = self.body.forced_tool
        function = {"name": "" if tool is None else tool.name, "arguments": arguments}
        return {"id": f"call_{self.run.run_id}", "type": "function", "function": function}

    def _said_delta(self, text: str) -> dict[str, Any]:
        """The delta of a piece of the answer; an answer in a schema is one piece."""
        if self.body.forced_tool is None:
            return {"content": text}
        return {"tool_calls": [{"index": 0, **self._tool_call(text)}]}

    async def frames(self) -> AsyncGenerator[bytes]:
        with_usage = self.body.stream_options is not None and bool(self.body.stream_options.include_usage)
        nothing = {"usage": None} if with_usage else {}
        yield self._frame([_delta({"role": "assistant", "content": ""})], **nothing)
        try:
            async with aclosing(self._texts()) as texts:
                async for text in texts:
                    yield PING if text is None else self._frame([_delta(self._said_delta(text))], **nothing)
            details = await self.service.run(self.run.run_id)
        except (FlowDebateError, HTTPException) as error:
            yield data_frame(_error_body(error))
            return
        yield self._frame([_delta({}, self._reason(details))], **nothing, details=details)
        if with_usage:
            yield self._frame([], usage=self._usage())
        yield b"data: [DONE]\n\n"

    def _frame(self, choices: list[dict[str, Any]], *, details: RunDetails | None = None, **more: object) -> bytes:
        return data_frame(self._object("chat.completion.chunk", choices, details=details, **more))

    def _object(
        self, kind: str, choices: list[Any], *, details: RunDetails | None = None, **more: object
    ) -> dict[str, Any]:
        extension = {} if details is None else {"flowdebate": _about(details)}
        return {
            "id": f"chatcmpl-{self.run.run_id}",
            "object": kind,
            "created": int(self.run.created_at),
            "model": self.model.id,
            "choices": choices,
            **more,
            **extension,
        }


class _Response(_Answer):
    """A response: one message of the assistant's, whole or in events."""

    async def whole(self) -> Response:
        said, details = await self._said()
        return JSONData(self._object(details, said), headers=_incomplete(details))

    async def frames(self) -> AsyncGenerator[bytes]:
        number = count()

        def event(kind: str, **data: object) -> bytes:
            return f"event: {kind}\n".encode() + data_frame({"type": kind, "sequence_number": next(number), **data})

        place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        yield event("response.created", response=self._object())
        yield event("response.in_progress", response=self._object())
        yield event("response.output_item.added", output_index=0, item=self._message(None))
        yield event("response.content_part.added", **place, part=_part(""))
        said: list[str] = []
        try:
            async with aclosing(self._texts()) as texts:
                async for text in texts:
                    if text is None:
                        yield PING
                    else:
                        said.append(text)
                        yield event("response.output_text.delta", **place, delta=text, logprobs=[])
            details = await self.service.run(self.run.run_id)
        except (FlowDebateError, HTTPException) as error:
            problem = {"code": "server_error", "message": _error_body(error)["error"]["message"]}
            failed = {**self._object(), "status": "failed", "error": problem}
            yield event("response.failed", response=failed)
            return
        whole = "".join(said)
        yield event("response.output_text.done", **place, text=whole, logprobs=[])
        yield event("response.content_part.done", **place, part=_part(whole))
        done = self._object(details, whole)
        yield event("response.output_item.done", output_index=0, item=done["output"][0])
        yield event(f"response.{done['status']}", response=done)

    @property
    def _item(self) -> str:
        return f"msg_{self.run.run_id}"

    def _message(self, text: str | None, status: str = "in_progress") -> dict[str, Any]:
        content = [] if text is None else [_part(text)]
        return {"id": self._item, "type": "message", "role": "assistant", "status": status, "content": content}

    def _object(self, details: RunDetails | None = None, said: str | None = None) -> dict[str, Any]:
        """The response, which is in progress without `details` of its run."""
        status, extension = "in_progress", {}
        if details is not None:
            status = "completed" if _finish_reason(details) == "stop" else "incomplete"
            extension = {"flowdebate": _about(details)}
        return {
            "id": f"resp_{self.run.run_id}",
            "object": "response",
            "created_at": int(self.run.created_at),
            "status": status,
            "model": self.model.id,
            "output": [] if details is None else [self._message(said, status)],
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": None,
            "metadata": self.body.metadata or {},
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "usage": None if details is None else self._response_usage(),
            **extension,
        }

    def _response_usage(self) -> dict[str, Any]:
        """The tokens in the words of responses."""
        counts = self._usage()
        return {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": counts["prompt_tokens_details"],
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": counts["completion_tokens_details"],
            "total_tokens": counts["total_tokens"],
        }


def _incomplete(details: RunDetails) -> dict[str, str]:
    """The header of an answer whose usage lacks the tokens of a server that did not tell them."""
    return {} if _is_counted(details) else {"x-flowdebate-usage": "incomplete"}


def _is_counted(details: RunDetails) -> bool:
    usage = details.usage
    return usage is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None


def _about(details: RunDetails) -> dict[str, Any]:
    """Describe the run of an answer, with its missing participants."""
    line = None if details.document is None else details.document.raw.incomplete
    run = {"runId": details.run_id, "status": details.status}
    run |= {} if _is_counted(details) else {"usage": "incomplete"}
    return run if line is None else {**run, "incomplete": line}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


_FAILED = ("failed", "rejected", "dead_letter")
_ELSEWHERE = ("running", "queued", "left_behind")


def _delta(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _finish_reason(details: RunDetails) -> str:
    """Return "stop" for a run that came to its end, "length" for one that was stopped, or that waits for a human."""
    return "stop" if details.status in ("complete", "degraded", "no_verdict") else "length"
