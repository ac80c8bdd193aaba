"""`LocalModel`: a model running on the user's machine without a key or network access."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowdebate._text import is_blank
from flowdebate.errors import ModelUnavailable
from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings
from flowdebate.models.call import Retry
from flowdebate.models.local.server import CONTEXT, running_server
from flowdebate.models.openai.clients import Clients, PooledModel, load
from flowdebate.models.openai.model import Chat, Dialect
from flowdebate.models.openai.responses import with_tool_calls
from flowdebate.models.output import bound_strings
from flowdebate.prompts import Profile, without_control_tokens

_SAMPLING = {"top_p": 0.9, "min_p": 0.1}
# Sampling settings for text. Small models repeat the other side word for word; once a repetition is longer than four
# tokens, DRY makes each further token less likely.
_TEXT = {
    **_SAMPLING,
    "repeat_penalty": 1.1,
    "repeat_last_n": 2048,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 4,
    "dry_penalty_last_n": 2048,
}
# Sampling settings for structured answers, which have to repeat names.
_STRUCTURED = {**_SAMPLING, "repeat_penalty": 1.0}
_TEMPERATURE = 0.5

# Token limits.
_TURN = 160  # for text: two to four sentences, beyond which small models ramble
_SENTENCE = 45  # per sentence, if the number of sentences is limited
_WORD, _SPARE = 2, 40  # tokens per requested word in most languages, and a margin for finishing the sentence
_ANSWER = 1_200  # for a structured answer, on the first attempt
_MORE = 3  # factor by which the limit is raised after a truncated answer
_RETRY = Retry(attempts=2, first_wait=0)  # the second request restarts a dead engine


class LocalModel(PooledModel):
    """A GGUF model run by llama.cpp. The engine starts on the first call and exits with the process.

    - `path`: the model file; None for the file named by FLOWDEBATE_LOCAL_MODEL or, if that is unset, the model from
      the `local-model` extra.
    - `settings`: defaults for settings the request leaves open; all other settings are preset for small models.
    - `retry`: the retry policy; None for no retries. A dead engine is restarted.

    All `LocalModel`s with the same file share one engine. The engine answers one call at a time, in order. If a prompt
    begins like the previous one, only the rest has to be processed. A call's deadline does not cover the engine's
    startup or the wait for earlier calls. A truncated structured answer is requested again, with a higher token limit.
    """

    base_url = "http://127.0.0.1"
    """Address of the engine, which listens only on the loopback interface."""
    profile: Profile = "concise"
    """Profile that selects the default prompts: concise, because models small enough for a laptop follow short prompts
    best.
    """
    context_tokens = CONTEXT
    """Maximum number of tokens in a prompt and its answer combined."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: ModelSettings | None = None,
        retry: Retry | None = _RETRY,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._settings = settings or ModelSettings()
        self.retry = retry
        self._clients = Clients()

    @property
    def name(self) -> str:
        """Name of the model in errors, events and usage."""
        return "local" if self._path is None else f"local:{self._path.stem}"

    def __repr__(self) -> str:
        return f"LocalModel({'' if self._path is None else repr(str(self._path))})"

    def _endpoint(self) -> None:
        """Do nothing, because the first request starts the engine."""

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        response = await self._ask(request)
        # the engine reports the path of its file, which must not appear in recordings or stored runs
        return response if response.model is None else replace(response, model=Path(response.model).name)

    async def _ask(self, request: ModelRequest) -> ModelResponse:
        async with self._clients.keep_open():
            server = running_server(self._path)
            async with server.turn(request) as endpoint:
                client = await self._clients.client(endpoint)
                dialect = replace(_dialect(self._settings, request), label=self.name)
                chat = Chat(dialect=dialect, client=client, endpoint=endpoint)
                try:
                    if request.begins and request.output is None and not request.tools:
                        return await _continued(chat, request)
                    first = await chat.answer(request)
                    if request.output is None or first.finish != "length":
                        return first
                    # a truncated structured answer is useless, so try again with a higher limit
                    room = _MORE * (request.settings.max_tokens or dialect.settings.max_tokens or _ANSWER)
                    roomier = replace(request.settings, max_tokens=room)
                    second = await chat.answer(replace(request, settings=roomier))
                    return replace(second, usage=first.usage + second.usage)
                except ModelUnavailable:
                    # on the loopback interface, this means that the engine has died, although its process may still
                    # look alive for a moment
                    await load(server.stop)
                    raise


async def _continued(chat: Chat, request: ModelRequest) -> ModelResponse:
    """Request the rest of an answer that begins with `request.begins`; llama.cpp continues the assistant's message.

    The opening words are streamed together with the first chunk. If nothing follows them, the answer is empty.
    """
    begins = request.begins.rstrip()
    front = begins

    def listen(piece: str) -> None:
        nonlocal front
        if front and piece:
            piece, front = _join(front, piece), ""
        if request.on_text is not None:
            request.on_text(piece)

    messages = [*request.messages, {"role": "assistant", "content": begins}]
    # always streamed, because an answer sent all at once would repeat the opening words
    rest = await chat.answer(replace(request, messages=messages, on_text=listen))
    return rest if is_blank(rest.text) else replace(rest, text=_join(begins, rest.text))


def _join(begins: str, rest: str) -> str:
    """Join the two strings, inserting the space between words if a model left it out of its first token."""
    return f"{begins} {rest}" if rest[0].isascii() and rest[0].isalnum() and begins[-1].isascii() else begins + rest


def sentences_grammar(maximum: int) -> str:
    """Build a GBNF grammar for one paragraph of up to `maximum` sentences, to avoid truncating short turns.

    A period in a number or an abbreviation does not end a sentence.
    """
    short = " | ".join(f'"{word}"' for word in _ABBREVIATIONS)
    return (
        f"root ::= sentence{{1,{maximum}}}\n"
        f"sentence ::= part+ [{_ENDS}]+ [\"')\u201d\u2019\u300d\u300f\u00bb]?\n"
        f"part ::= [^{_ENDS}\\n\\r] | [0-9] [.] [0-9] | {short}\n"
    )


_ENDS = ".!?\u2026\u3002\uff01\uff1f\u061f\u06d4\u0964"
_ABBREVIATIONS = ("e.g.", "i.e.", "U.S.", "U.K.", "Mr.", "Mrs.", "Ms.", "Dr.", "St.", "vs.", "a.m.", "p.m.")


def _dialect(settings: ModelSettings, request: ModelRequest) -> Dialect:
    room: int = _ANSWER
    sampling: dict[str, Any] = dict(_STRUCTURED)
    if request.output is None:
        # sampling would distort the probabilities, and so would cached results from an earlier prompt
        room, sampling = _TURN, {"cache_prompt": False} if request.choices else dict(_TEXT)
        if request.sentences is not None and not request.tools:
            room = _SENTENCE * request.sentences
            sampling["grammar"] = sentences_grammar(request.sentences)
    if request.words is not None and request.sentences is None:
        room = max(room, _WORD * request.words + _SPARE)
    preset = ModelSettings(
        temperature=_TEMPERATURE if settings.temperature is None else settings.temperature,
        max_tokens=settings.max_tokens or room,
        effort=settings.effort,
        extra={**sampling, **settings.extra},
    )
    return Dialect(
        model="local",
        label="local",
        echoes_name=False,  # the engine reports the file name as its model
        settings=preset,
        structured=("json_schema",),
        tools_with_schema=False,  # a schema becomes a grammar, and a grammar does not allow tool calls
        amend=_amend,
        reread=with_tool_calls,
    )


def _amend(parameters: dict[str, Any]) -> dict[str, Any]:
    """Escape control tokens in messages, and limit the length of strings in the schema.

    llama.cpp obeys control tokens anywhere, so a tool's result or an old message could end its own message and begin a
    system message. In user messages, only known tokens (`flowdebate._util.control_tokens`) are escaped: arguments were
    already escaped when the message was rendered, and quoted material should stay unchanged.
    """
    messages = [
        {**message, "content": without_control_tokens(message["content"], listed=message.get("role") == "user")}
        if message.get("role") != "system" and isinstance(message.get("content"), str)
        else message
        for message in parameters["messages"]
    ]
    amended = {**parameters, "messages": messages}
    if form := parameters.get("response_format"):
        schema = form["json_schema"]
        amended["response_format"] = {**form, "json_schema": {**schema, "schema": bound_strings(schema["schema"])}}
    return amended
