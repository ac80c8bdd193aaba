"""Sources of answers for the OpenAI-compatible endpoint: runs, and single model calls for tasks such as titles."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from flowdebate.models.base import Message, Usage
from flowdebate.runs.events import ModelCalled
from flowdebate.server.front import stored_run
from flowdebate.server.protocols.chat_request import ChatModel, ChatRequest
from flowdebate.server.protocols.chat_text import ChatText, answer_of
from flowdebate.server.protocols.streams import Reader
from flowdebate.service.channel import Update
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.service.state import RunDetails, RunState
from flowdebate.ui.document import Tokens
from flowdebate.ui.text import as_json, printable

ONLY_ONCE = {"x-should-retry": "false"}
"""Header that keeps OpenAI's clients from retrying a failed run and paying for it twice."""
_FAILED = ("failed", "rejected", "dead_letter")
_ELSEWHERE = ("running", "queued", "left_behind")
_MAX_MESSAGE_LENGTH = 16_000
"""Maximum length, in characters, of a message sent to the model for a hidden task. The model need not read a whole
debate to choose a title, for example.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Information sent at the end of an answer."""

    finish_reason: str
    """Reason why the answer ended: "stop", or "length" for an interrupted run."""
    run_info: dict[str, Any]
    """Description of the run, for clients written for this server."""
    counted: bool
    """True if all token counts are known."""


class Source(ABC):
    """Source of an answer's text and token counts."""

    def __init__(self, answer_id: str, created_at: float) -> None:
        self.id: str = answer_id
        self.created: int = int(created_at)
        self._counts: Counter[str] = Counter()

    @abstractmethod
    def texts(self) -> AsyncGenerator[str | None]:
        """Yield the answer in chunks, and None during pauses; raise an exception if there is no answer."""

    @abstractmethod
    async def end(self) -> End:
        """Return the information to send at the end of the answer."""

    def usage(self) -> dict[str, Any]:
        """Return the sum of the known token counts of all calls."""
        prompt_tokens, answered = self._counts["prompt_tokens"], self._counts["completion_tokens"]
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": answered,
            "total_tokens": prompt_tokens + answered,
            "prompt_tokens_details": {"cached_tokens": self._counts["cached_tokens"]},
            "completion_tokens_details": {"reasoning_tokens": self._counts["reasoning_tokens"]},
        }

    def _count(self, usage: Usage) -> None:
        self._counts["prompt_tokens"] += usage.prompt_tokens or 0
        self._counts["completion_tokens"] += usage.completion_tokens or 0
        self._counts["cached_tokens"] += usage.cached_tokens or 0
        self._counts["reasoning_tokens"] += usage.reasoning_tokens or 0


class RunSource(Source):
    """Source that yields a run's contributions and result or, with `answer_only`, only its output."""

    def __init__(self, run: RunState, service: Service | OwnedService, reader: Reader, *, answer_only: bool) -> None:
        super().__init__(run.run_id, run.created_at)
        self._service = service
        self._reader = reader
        self._answer_only = answer_only

    async def texts(self) -> AsyncGenerator[str | None]:
        run_id, chat = self.id, ChatText()
        async with aclosing(self._reader.updates()) as updates:
            async for update in updates:
                if update is None:
                    yield None
                    continue
                self._count_call(update)
                if not self._answer_only and (text := chat.translate(update)):
                    yield text
        details = await self._service.run(run_id)
        if details.status in _FAILED:
            raise HTTPException(502, f"Run {run_id} failed: {details.error}", ONLY_ONCE)
        if details.status in _ELSEWHERE:
            raise HTTPException(503, f"The server is stopping; run {run_id} will continue later.", ONLY_ONCE)
        output = None
        if details.document is None:  # the output of a block that is not a pattern
            output = ((await stored_run(self._service, run_id)).outcome or {}).get("output")
        if not self._answer_only:
            yield chat.finish(details, output)
        elif (answer := answer_of(details, output)) is not None:
            yield answer
        else:
            raise HTTPException(
                502, f"Run {run_id} has no answer: it ended with the status {details.status}.", ONLY_ONCE
            )

    async def end(self) -> End:
        details = await self._service.run(self.id)
        complete = details.status in ("complete", "degraded", "no_verdict")
        counted = _is_counted(details.usage)
        return End(finish_reason="stop" if complete else "length", run_info=_about(details), counted=counted)

    def _count_call(self, update: Update) -> None:
        if update.kind == "reset":
            self._counts.clear()
        elif isinstance(update.event, ModelCalled):
            for usage in [attempt.usage for attempt in update.event.attempts] or [update.event.usage]:
                self._count(usage)


class TaskSource(Source):
    """Source for a chat application's hidden task: a single, unstored call to the model in the run's first seat."""

    def __init__(self, body: ChatRequest, model: ChatModel, service: Service | OwnedService) -> None:
        super().__init__(f"task-{os.urandom(16).hex()}", time.time())
        self._body = body
        self._model = model
        self._service = service
        self._counted = False

    async def texts(self) -> AsyncGenerator[str | None]:
        result = await self._service.ask_model(
            self._model.pattern,
            [_message(role, text) for role, text in self._body.chat()],
            output_schema=self._body.answer_schema,
            options=None if self._body.models is None else {"model": self._body.models},
            labels=self._body.labels,
        )
        self._count(result.usage)
        self._counted = _is_counted(result.usage)
        yield printable(result.output) if isinstance(result.output, str) else as_json(result.output)

    async def end(self) -> End:
        return End(finish_reason="stop", run_info={"status": "complete", "hiddenTask": True}, counted=self._counted)


def _message(role: str, text: str) -> Message:
    half = _MAX_MESSAGE_LENGTH // 2
    content = text if len(text) <= _MAX_MESSAGE_LENGTH else f"{text[:half]} […] {text[-half:]}"
    kind = {"developer": "system", "tool": "user", "function": "user"}.get(role, role)
    return {"role": kind, "content": content}


def _is_counted(usage: Usage | Tokens | None) -> bool:
    return usage is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None


def _about(details: RunDetails) -> dict[str, Any]:
    """Describe the run behind an answer, including any missing participants."""
    line = None if details.document is None else details.document.raw.incomplete
    run = {"runId": details.run_id, "status": details.status}
    return run if line is None else {**run, "incomplete": line}
