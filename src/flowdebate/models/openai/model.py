"""`OpenAIModel`: a model on any server with OpenAI's chat completions API."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, get_args

from flowdebate.errors import AuthenticationFailed, ConfigurationError, RequestRejected
from flowdebate.models.base import ModelResponse, ModelSettings
from flowdebate.models.openai.chat import Chat, Dialect, StructuredMode
from flowdebate.models.openai.clients import Clients, PooledModel, Transport
from flowdebate.models.openai.endpoint import NO_KEY, Endpoint, address_of, check_address, check_headers
from flowdebate.models.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.models.base import ModelRequest


_OPENAI = "https://api.openai.com"
_KEY_ENV = "OPENAI_API_KEY"
_URL_ENV = "OPENAI_BASE_URL"

STRUCTURED_MODES: tuple[StructuredMode, ...] = ("json_schema", "tools", "json", "md_json")
"""Structured modes, from the most to the least constraining."""

# Words in a server's refusal of a structured mode: each server has its own, and none a code for it.
_MODE = re.compile(
    r"response_?format|json_?schema|json_object|structured.?output|tool_?choice|\btools?\b|function.?call|grammar",
    re.IGNORECASE,
)
# Words in a server's refusal of log-probabilities: reasoning models also refuse the rest of such a request.
_LOGPROBS = re.compile(r"log_?probs|temperature|max_(completion_)?tokens", re.IGNORECASE)

_RETRY = Retry()


class OpenAIModel(PooledModel):
    """The model `name` on an OpenAI-compatible server.

    - `base_url`: the endpoint, up to and with `/v1`; None reads OPENAI_BASE_URL, then means OpenAI itself. User and
      password in it are sent as basic authentication, its query with each request. All three are shown nowhere.
    - `api_key`: None reads the environment variable `api_key_env` at each call. It is shown nowhere.
    - `default_headers`: additional headers of each request. Keys and tokens in them are shown nowhere.
    - `settings`: defaults where a request leaves the choice open; of two deadlines the shorter one counts, and a
      timeout that is left at its default is none.
    - `structured`: the first structured mode; "json_schema" constrains the model on servers that can. Where the server
      refuses a mode, or two answers do not fit the schema, the next of `STRUCTURED_MODES` is used. The answer's
      `asked_as` names the mode.
    - `tools_with_schema`: False for servers that cannot take tools and a response format in one request: then the
      tools are offered first, and once the model calls none of them it is asked again for the structured answer.
    - `logprobs`: False for servers that give no log-probabilities, which `JudgeOptions(answer="letter")` needs.
    - `retry`: the retry policy; None for no retries.
    - `transport`: "aiohttp", or "httpx2" where necessary: it is slower, and opens a connection for each call.
    - `strict_model`: True rejects the answer of a model by another name (MalformedResponse), which is otherwise marked
      with the flag `other_model`. Names count as equal if one contains the other: "gpt-4o" and "gpt-4o-2024-08-06".
    - `label`: the model's name in errors and events; None for `name`.

    Connections stay open inside `open_connections()`, which a run enters for its models; `async with model:` keeps them
    open over many runs. One object serves any number of runs, event loops and threads.

    >>> OpenAIModel("gemma3", base_url="http://127.0.0.1:11434/v1", retry=Retry(attempts=5))
    OpenAIModel('gemma3', base_url='http://127.0.0.1:11434/v1')
    """

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = _KEY_ENV,
        settings: ModelSettings | None = None,
        structured: StructuredMode = "json_schema",
        tools_with_schema: bool = True,
        logprobs: bool = True,
        default_headers: Mapping[str, str] | None = None,
        retry: Retry | None = _RETRY,
        transport: Transport = "aiohttp",
        strict_model: bool = False,
        label: str | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError("OpenAIModel", "name", name, "a model's name")
        if base_url is not None:
            check_address("OpenAIModel", "base_url", base_url)
        _check_choice("structured", structured, get_args(StructuredMode))
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError("OpenAIModel", "retry", retry, "a Retry, or None")
        _check_choice("transport", transport, get_args(Transport))
        self.retry = retry
        self._name = name
        self._label = label or name
        self._base_url = base_url
        self._api_key = api_key
        self._api_key_env = api_key_env
        self._settings = settings or ModelSettings()
        self._modes = STRUCTURED_MODES[STRUCTURED_MODES.index(structured) :]
        self._tools_with_schema = tools_with_schema
        self.gives_logprobs = logprobs
        self._strict_model = strict_model
        self._headers = check_headers("OpenAIModel", default_headers)
        self._clients = Clients(transport=transport)

    @property
    def name(self) -> str:
        """Name in errors, events and usage."""
        return self._label

    @property
    def base_url(self) -> str:
        """Address of a call made now, without user, password and query."""
        return address_of(self._address)

    @property
    def _address(self) -> str:
        return self._base_url or os.environ.get(_URL_ENV) or f"{_OPENAI}/v1"

    def __repr__(self) -> str:
        where = "" if self._base_url is None else f", base_url={address_of(self._base_url)!r}"
        return f"OpenAIModel({self._name!r}{where})"

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        endpoint = self._endpoint()
        async with self._clients.opened():
            client = await self._clients.client(endpoint)
            while True:
                before = self._modes
                chat = Chat(dialect=self._dialect(endpoint), client=client, endpoint=endpoint)
                try:
                    return await chat.answer(request)
                except RequestRejected as error:
                    if request.choices and _refuses(error, _LOGPROBS):
                        return ModelResponse(finish="stop")
                    if request.output is None or len(before) == 1 or not _refuses(error, _MODE):
                        raise
                    # a mode that was refused once will always be: later calls skip it
                    refused = before[min(request.skipped_modes, len(before) - 1)]
                    self._modes = tuple(mode for mode in self._modes if mode != refused) or before[-1:]

    def _dialect(self, endpoint: Endpoint) -> Dialect:
        return Dialect(
            model=self._name,
            label=self._label,
            settings=self._settings,
            structured=self._modes,
            tools_with_schema=self._tools_with_schema,
            strict_model=self._strict_model,
            # OpenAI's reasoning models know only the newer name, most other servers only the older one
            room="max_completion_tokens" if endpoint.base_url.startswith(_OPENAI) else "max_tokens",
        )

    def _endpoint(self) -> Endpoint:
        key = self._api_key or (os.environ.get(self._api_key_env) if self._api_key_env else None)
        url = self._address
        if self._base_url is None:
            check_address("OpenAIModel", _URL_ENV, url)
        if not key and self._api_key_env and (url.startswith(_OPENAI) or self._api_key_env != _KEY_ENV):
            raise AuthenticationFailed(f"there is no API key: set {self._api_key_env}, or pass api_key")
        return Endpoint.of(url, key or NO_KEY, self._headers)


def _refuses(error: RequestRejected, option: re.Pattern[str]) -> bool:
    """Return whether a server refuses `option` of the request."""
    return type(error) is RequestRejected and option.search(error.message) is not None


def _check_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError("OpenAIModel", field, value, " or ".join(map(repr, allowed)))
