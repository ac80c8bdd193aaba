"""`AnthropicModel`: a model of Anthropic, called with its own SDK."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.validation import check_library
from flowdebate.errors import AuthenticationFailed, ConfigurationError
from flowdebate.models.anthropic.messages import MessagesClient
from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings
from flowdebate.models.openai.clients import Clients, PooledModel, Transport
from flowdebate.models.openai.endpoint import Endpoint, address_of, check_address, check_headers
from flowdebate.models.openai.model import Chat, Dialect, Parameters, StructuredMode, answer_in_modes, key_variable
from flowdebate.models.resolve import PROVIDERS
from flowdebate.models.retry import Retry
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_KEY_ENV = "ANTHROPIC_API_KEY"
_URL_ENV = "ANTHROPIC_BASE_URL"
_MODES: tuple[StructuredMode, ...] = ("json_schema", "tools", "md_json")
_ONCE = ("judge", "synthesizer", "chair")  # roles that read a transcript once: to write it into a cache costs more
_RETRY = Retry()


class AnthropicModel(PooledModel):
    """The model `name` of Anthropic, by its messages API; needs `pip install "flowdebate[anthropic]"`.

    - `base_url`: another endpoint with that API, up to and with `/v1`; None reads ANTHROPIC_BASE_URL, then means
      Anthropic itself.
    - `api_key`: None reads the environment variable `api_key_env` at each call. It is shown nowhere.
    - `cache`: whether the part of a prompt that later turns repeat is marked for the provider's cache, from which it
      costs a tenth; what is written into it costs a quarter more. False marks nothing.
    - `settings`, `structured`, `default_headers`, `retry`, `transport`, `strict_model`, `label`: as of `OpenAIModel`.
      `settings.effort` makes the model think; `max_tokens` is 8,192 where nobody sets it, and what the effort may take.

    ConfigurationError where the SDK is not installed.

    >>> AnthropicModel("claude-haiku-5-5", settings=ModelSettings(effort="low"))
    AnthropicModel('claude-haiku-5-5')
    """

    gives_logprobs: bool = False
    takes_effort: bool = True
    takes_images: bool = True

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = _KEY_ENV,
        cache: bool = True,
        settings: ModelSettings | None = None,
        structured: StructuredMode = "json_schema",
        default_headers: Mapping[str, str] | None = None,
        retry: Retry | None = _RETRY,
        transport: Transport = "aiohttp",
        strict_model: bool = False,
        label: str | None = None,
    ) -> None:
        where = "AnthropicModel"
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(where, "name", name, "a model's name")
        check_library(where, "anthropic", library="Anthropic's SDK", extra="anthropic")
        if base_url is not None:
            check_address(where, "base_url", base_url)
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError(where, "retry", retry, "a Retry, or None")
        for field, value, allowed in (
            ("structured", structured, _MODES),
            ("transport", transport, get_args(Transport)),
        ):
            if value not in allowed:
                raise ConfigurationError(where, field, value, " or ".join(map(repr, allowed)))
        self.retry = retry
        self._name = name
        self._label = label or name
        self._base_url = base_url
        self._api_key = api_key
        self._api_key_env = api_key_env
        self._cache = cache
        self._settings = settings or ModelSettings()
        self._modes = _MODES[_MODES.index(structured) :]
        self._strict_model = strict_model
        self._headers = check_headers(where, default_headers)
        self._clients = Clients(transport=transport, sdk="anthropic", connect=_connect)

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
        return self._base_url or os.environ.get(_URL_ENV) or str(PROVIDERS["anthropic"].base_url)

    def __repr__(self) -> str:
        where = "" if self._base_url is None else f", base_url={address_of(self._base_url)!r}"
        return f"AnthropicModel({self._name!r}{where})"

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        if request.choices:  # it gives no log-probabilities
            return ModelResponse(finish="stop", usage=Usage.none())
        endpoint = self._endpoint()
        marks = None if not self._cache else "system" if request.role in _ONCE else "transcript"

        def amend(parameters: Parameters) -> Parameters:
            return {**parameters, "marks": marks}

        async with self._clients.keep_open():
            client = await self._clients.client(endpoint)

            def chat(modes: Sequence[StructuredMode]) -> Chat:
                dialect = Dialect(
                    model=self._name,
                    label=self._label,
                    settings=self._settings,
                    structured=modes,
                    tools_with_schema=True,
                    effort="output_config.effort",
                    strict_model=self._strict_model,
                    amend=amend,
                )
                return Chat(dialect=dialect, client=client, endpoint=endpoint)

            return await answer_in_modes(request, self._modes, (endpoint.base_url, self._name), chat)

    def _endpoint(self) -> Endpoint:
        url = self._address
        if self._base_url is None:
            check_address("AnthropicModel", _URL_ENV, url)
        variable = key_variable(self._api_key_env, url, paired=self._base_url is None)
        key = self._api_key or (os.environ.get(variable) if variable else None)
        if not key:
            raise AuthenticationFailed(f"there is no API key: set {variable or _KEY_ENV}, or pass api_key")
        return Endpoint.of(url, key, self._headers)


def _connect(endpoint: Endpoint, options: dict[str, Any]) -> Any:  # noqa: ANN401 - in the place of openai's client
    from anthropic import AsyncAnthropic

    # the SDK adds /v1 itself, and its own spans would stand beside those of the run
    base_url = endpoint.base_url.rstrip("/").removesuffix("/v1")
    return MessagesClient(AsyncAnthropic(**{**options, "base_url": base_url}, open_telemetry=False))
