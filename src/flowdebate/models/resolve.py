"""Model names and their meaning in a run.

    "openai/gpt-5-mini"    a provider in `PROVIDERS`, and the provider's name for the model
    "gpt-5-mini"           a model whose name identifies its maker, or one listed by a server on this machine
    "local"                the embedded model
    "cli/claude"           an installed agent CLI, optionally with one of its models after a second slash
    "intent/chat"          the run's model for debaters
    "intent/synthesize"    the run's model for moderators, judges and synthesizers
    "each"                 for a pattern: all available models, distributed among its seats (`chassis/seats.py`)
    a Model object         itself

Order of precedence: the run's `override_model`, the block's own model, the run's `model`, the `model` of the enclosing
patterns (innermost first), and the environment: FLOWDEBATE_MODEL, the first provider in `PROVIDERS` whose key is set, a
responding server on this machine, and the local model if it is installed.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, TypeAlias, cast

from flowdebate._text import did_you_mean, join_choices, nearest
from flowdebate.errors import ConfigurationError, FlowDebateWarning, ModelUnavailable, RealModelForbidden
from flowdebate.models.base import Model, ModelRequest, ModelResponse
from flowdebate.models.call import check_real_calls_allowed, is_loopback
from flowdebate.models.providers import PROVIDERS, Provider, address_variable

ModelSpec: TypeAlias = Model | str

ModelChoice: TypeAlias = Model | str | Mapping[str, Model | str] | None
"""The `model` argument of a run or a pattern: one model for all seats, one per intent (`{"chat": …, "synthesize": …}`),
or None.
"""

_INTENTS = ("chat", "synthesize")
_PREFIX = "intent/"
_VARIABLE = "FLOWDEBATE_MODEL"
_CLI = "cli/"
EACH = "each"
"""Keyword for all available models, alternating between vendors; a pattern distributes them among its seats."""


@dataclass(frozen=True, slots=True)
class Override:
    """A model used in place of all other models in a run; set by `run(override_model=…)`."""

    spec: ModelSpec

    @property
    def name(self) -> str:
        return self.spec if isinstance(self.spec, str) else self.spec.name

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Forward the request to the model; runs normally call the model directly."""
        return await resolve_model(self.spec).request(request)


def choose_model(model: ModelChoice, override_model: ModelSpec | None) -> ModelChoice:
    """Return a run's models; raise ConfigurationError if both arguments are set or the override is invalid."""
    if override_model is None:
        return model
    if model is not None:
        problem = "cannot be combined with `override_model`, which replaces every model"
        raise ConfigurationError("run", "model", None, problem)
    if isinstance(override_model, Mapping):
        raise ConfigurationError(
            "run", "override_model", override_model, "must be a single model, because it replaces every other model"
        )
    check_model(override_model, location="run", field="override_model")
    return Override(override_model)


class ModelResolver:
    """Resolver for a run's models; it returns one object per name, so that connections are shared.

    `choice` is the run's `model`, used by blocks that specify no model. `environment` names the model that the
    environment selected when a resumed run was first started; that model is used again.
    """

    __slots__ = ("_by_intent", "_environment", "_known", "_one", "_only", "_overrides")

    def __init__(self, choice: ModelChoice = None, *, environment: str | None = None) -> None:
        self._overrides = isinstance(choice, Override)
        one = choice.spec if isinstance(choice, Override) else choice
        self._one: ModelSpec | None = None if isinstance(one, Mapping) else one
        """Model used for all intents; None if no such model was given."""
        self._only: Model | None = None
        """Resolved form of `_one`, cached because each call needs it several times."""
        self._by_intent: Mapping[str, ModelSpec] = one if isinstance(one, Mapping) else {}
        self._environment = environment
        self._known: dict[str, Model] = {}

    def resolve(self, spec: ModelSpec | None = None, defaults: Sequence[ModelChoice] = ()) -> Model:
        """Return the model for a block that specifies `spec` (None means "intent/chat").

        `defaults` are the models of the enclosing patterns, innermost first. Raises ConfigurationError for an invalid
        name, and ModelUnavailable if no model is set up.
        """
        if spec is None:
            spec = "intent/chat"
        asks_for_intent = isinstance(spec, str) and spec.startswith(_PREFIX)
        if self._one is not None and (asks_for_intent or self._overrides):
            if self._only is None:
                self._only = self._real(self._one)
            return self._only
        if isinstance(spec, str) and asks_for_intent:
            spec = self._spec_of_intent(spec, defaults)
        return self._real(spec)

    def _spec_of_intent(self, name: str, defaults: Sequence[ModelChoice]) -> ModelSpec:
        intent = _check_intent(name, "model", "model")
        spec = of_intent(self._by_intent, intent)
        if spec is not None:
            return spec
        for depth, choice in enumerate(defaults, start=1):
            spec = of_intent(choice, intent)
            if isinstance(spec, str) and spec.startswith(_PREFIX):
                return self._spec_of_intent(spec, defaults[depth:])
            if spec is not None:
                return spec
        if self._environment is None:
            environment_spec = environment_choice()
            if environment_spec is None:
                raise no_model()
            self._environment = environment_spec[0]
        return self._environment

    def _real(self, spec: ModelSpec) -> Model:
        if not isinstance(spec, str):
            return _as_model(spec, "model")
        if spec.startswith(_PREFIX):
            raise ConfigurationError(
                "run", "model", spec, "must be a model, because an intent cannot refer to another intent"
            )
        model = self._known.get(spec)
        if model is None:
            name = full_name(spec)
            model = self._known[spec] = self._known.get(name) or self._known.setdefault(name, _named(name, "model"))
        return model


def of_intent(choice: ModelChoice, intent: str) -> ModelSpec | None:
    """Return the model for `intent` in `choice`, or None if `choice` has none."""
    if not isinstance(choice, Mapping):
        return choice
    _check_mapping(choice)
    return choice.get(intent)


def resolve_model(spec: ModelSpec | None, *, default: ModelChoice = None) -> Model:
    """Resolve `spec` to a model; `default` provides the models for intents.

    >>> resolve_model("ollama/gemma3").name
    'ollama/gemma3'
    """
    return ModelResolver().resolve(spec, (default,))


def check_model(choice: ModelChoice, *, location: str, field: str = "model") -> None:
    """Raise ConfigurationError for an invalid `choice`, without consulting the environment."""
    if choice is None:
        return
    if isinstance(choice, Mapping):
        _check_mapping(choice, location, field)
        for intent, spec in choice.items():
            check_model(spec, location=location, field=f"{field}.{intent}")
    elif not isinstance(choice, str):
        _as_model(choice, field, location)
    elif choice.startswith(_PREFIX):
        _check_intent(choice, location, field)
    elif choice.startswith(_CLI):
        # check only the name, because whether the program is installed depends on the environment
        _check_program(choice, field, location)
    else:
        _named(full_name(choice, location, field), field, location)


def model_of_environment() -> str | None:
    """Return the model name in FLOWDEBATE_MODEL; None if it is unset or blank."""
    return os.environ.get(_VARIABLE, "").strip() or None


def environment_choice() -> tuple[str, str] | None:
    """Return the default model for blocks and runs, with the reason for its choice; None if no model is set up."""
    return next(_list_available(), None)


def _list_available() -> Iterator[tuple[str, str]]:
    """Yield the available models in order of preference, each with the reason why it is available.

    Servers are contacted only if needed.
    """
    from flowdebate.models.openai.endpoint import address_of

    configured = model_of_environment()
    if configured:
        check_model(configured, location="environment", field=_VARIABLE)
        yield full_name(configured, "environment", _VARIABLE), f"{_VARIABLE} names it"
    for name, provider in PROVIDERS.items():
        variables = [provider.key_env, "OPENAI_BASE_URL"] if provider.base_url is None else [provider.key_env]
        variable = next((variable for variable in variables if variable and os.environ.get(variable)), None)
        if variable:
            yield f"{name}/{provider.default}", f"{variable} is set"
    for name, model in running_servers().items():
        if model is not None:
            yield (
                f"{name}/{model}",
                f"it answers at {address_of(str(PROVIDERS[name].address(name)))}, and no key is set",
            )
    from flowdebate.models.local.gguf import local_model_installed

    if local_model_installed():
        yield "local", "it is installed, and no other model is configured"


def no_model() -> ModelUnavailable:
    """Return the error to raise when no model is set up."""
    error = ModelUnavailable(f"no model is configured: {explain_no_models()}, or pass model=…")
    error.providers_fault = False  # a fallback or a quorum must not hide this error
    return error


def vendor_of(model: ModelSpec) -> str:
    """Return a model's vendor: the provider in its name or, if there is none, the maker identified by the name.

    >>> vendor_of("openrouter/openai/gpt-oss-120b"), vendor_of("gpt-5-mini")
    ('openrouter', 'openai')
    """
    return with_maker(model if isinstance(model, str) else model.name).partition("/")[0]


def maker_of(model: ModelSpec) -> str:
    """Return the maker of a model, regardless of where it is hosted; if given a vendor, return its usual name.

    >>> maker_of("openrouter/anthropic/claude-sonnet-4.5"), maker_of("groq/openai/gpt-oss-120b"), maker_of("cli/codex")
    ('anthropic', 'openai', 'openai')
    >>> maker_of("google"), maker_of("local")
    ('gemini', 'local')
    """
    *path, last = with_maker(model if isinstance(model, str) else model.name).split("/")
    maker, slash, _ = with_maker(last).partition("/")
    word = re.split(r"[\W\d_]", last.lower())[0]
    name = maker if slash else _WORDS.get(word) or _ALIASES.get(last.lower()) or (path[-1] if path else last)
    return _ALIASES.get(name.lower(), name.lower())


def check_vendor(vendor: str, *, location: str, field: str) -> None:
    """Raise ConfigurationError if a vendor seems to be misspelled, since it would not exclude any models."""
    vendors = {*PROVIDERS, *_WORDS.values(), *_ALIASES}
    hint = did_you_mean(maker_of(vendor), vendors, cutoff=0.75)
    if hint and maker_of(vendor) not in vendors:
        problem = "must be a vendor or the author's model"
        raise ConfigurationError(location, field, vendor, problem, hint=hint)


def list_available_models(*, without: Collection[str] = ()) -> list[str]:
    """Return the available models, one per vendor, starting with the default model for runs.

    The local model is included only if there is no other model. Models from vendors in `without` are omitted.
    """
    models: dict[str, str] = {}
    excluded = set(map(maker_of, without))
    for name, _ in _list_available():
        if maker_of(name) not in excluded:
            models.setdefault(vendor_of(name), name)
    return [name for vendor, name in models.items() if vendor != "local"] or [*models.values()]


def explain_no_models() -> str:
    """Explain where models were looked for and what to do next."""
    from flowdebate.models.local.gguf import WAYS_OUT

    empty = "".join(f" ({name} is running, but has none)" for name in running_servers())
    return (
        f"neither {_VARIABLE} nor the key of a provider is set, no local server has a model{empty}, and the "
        f"local model is not installed: {WAYS_OUT}"
    )


# timeout in seconds for all servers together: a local server either lists its models at once or not at all
_PATIENCE = 0.2
_MAX_LIST_SIZE = 1_000_000  # maximum size of a server's response, in bytes
_FRESH = 60.0  # how long an answer is cached, in seconds, so that the model displayed is the one called
# Names of models without chat support, for servers that do not report their models' capabilities.
_NO_CHAT = re.compile(
    r"embed|rerank|whisper|tts|minilm|paraphrase|sentence[-_]|(^|/)(bge|gte|e5|clip|flux)[-_]", re.IGNORECASE
)
_MAX_DESCRIBED = 5  # maximum number of models per server whose capabilities are queried


@dataclass(frozen=True, slots=True)
class _Server:
    """A server on this machine and its models."""

    models: tuple[str, ...]
    first: str | None
    """First chat model; None if there is none."""


_seen: tuple[float, Mapping[str, _Server]] = (float("-inf"), {})


def running_servers() -> Mapping[str, str | None]:
    """Query the servers at the usual local addresses concurrently, and map each to its first model.

    A server without models maps to None. Within `forbid_real_models`, no server is contacted.
    """
    return {name: server.first for name, server in _servers().items()}


def models_at(base_url: str) -> tuple[str, ...]:
    """Query the server at `base_url` for its models if it is on this machine; return () if it does not list them."""
    from http.client import HTTPException

    if not is_loopback(base_url):
        return ()
    with suppress(RealModelForbidden, OSError, HTTPException, ValueError, TypeError, KeyError, RecursionError):
        check_real_calls_allowed("models", base_url=base_url)
        return _ask_server("", base_url).models
    return ()


def _servers() -> Mapping[str, _Server]:
    """Query the servers at the usual local addresses for their models."""
    global _seen  # noqa: PLW0603 - the result is the same for the whole process
    servers = {name: provider.address(name) for name, provider in PROVIDERS.items() if _is_local(provider)}
    since, server_models = _seen
    if time.monotonic() - since < _FRESH:
        return server_models
    listed: dict[str, _Server] = {}

    def look(name: str, base_url: str) -> None:
        from http.client import HTTPException

        with suppress(OSError, HTTPException, ValueError, TypeError, KeyError, RecursionError):
            listed[name] = _ask_server(name, base_url)

    looking = []
    for name, address in servers.items():
        with suppress(RealModelForbidden):
            check_real_calls_allowed(name, base_url=address)
            # daemon threads, so that a slow server does not keep the process alive
            looking.append(threading.Thread(target=look, args=(name, address), daemon=True))
    for thread in looking:
        thread.start()
    ends = time.monotonic() + _PATIENCE
    for thread in looking:
        thread.join(max(0.0, ends - time.monotonic()))
    server_models = {name: listed[name] for name in PROVIDERS if name in listed}
    if any(server.models for server in server_models.values()):
        _seen = time.monotonic(), server_models
    return server_models


def _ask_server(name: str, base_url: str) -> _Server:
    """Query the server `name` for its models and, if it is Ollama, for the first model with chat support."""
    from http.client import HTTPConnection
    from json import dumps, loads
    from urllib.parse import urlsplit

    parts = urlsplit(base_url)
    server = HTTPConnection(str(parts.hostname), parts.port, timeout=_PATIENCE)

    def ask(method: str, path: str, body: str | None = None) -> Any:  # noqa: ANN401 - JSON of a server
        server.request(method, path, body)
        with server.getresponse() as answer:
            return loads(answer.read(_MAX_LIST_SIZE))

    def chats(model: str) -> bool:
        """Ask Ollama whether `model` supports text completion; return True if Ollama does not say."""
        try:
            abilities = ask("POST", "/api/show", dumps({"model": model}))["capabilities"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return True
        return not isinstance(abilities, list) or "completion" in abilities

    with closing(server):
        entries = ask("GET", f"{parts.path}/models")["data"] or ()
        models = tuple(model for entry in entries if (model := str(entry["id"])).isprintable())
        chat_models = [model for model in models if not _NO_CHAT.search(model)]
        if name == "ollama":
            chat_models = list(itertools.islice(filter(chats, chat_models[:_MAX_DESCRIBED]), 1))
        return _Server(models, next(iter(chat_models), None))


def _is_local(provider: Provider) -> bool:
    return provider.key_env is None and provider.base_url is not None


def _named(spec: str, field: str, location: str = "model") -> Model:
    if spec == "local":
        from flowdebate.models.local.model import LocalModel

        return LocalModel()
    if spec.startswith(_CLI):
        from flowdebate.models.cli import CliModel

        program, _, model = _check_program(spec, field, location).partition("/")
        return CliModel(program, model=model or None, label=spec)
    provider_name, slash, name = spec.partition("/")
    provider = PROVIDERS.get(provider_name)
    if spec == EACH:
        problem = 'cannot be "each": only a pattern has roles to assign models to'
        raise ConfigurationError(location, field, None, problem, hint='Write debate(model="each"), or --model each')
    if not slash or not name.strip() or provider is None:
        raise ConfigurationError(location, field, spec, _ALLOWED, hint=_hint(spec))
    if provider_name == "anthropic" and find_spec("anthropic") is not None:
        from flowdebate.models.anthropic import AnthropicModel

        return AnthropicModel(name, label=spec)
    base_url = None if provider.base_url is None else _address(provider_name)
    if provider_name == "anthropic":
        _recommend_sdk()
    from flowdebate.models.openai.model import OpenAIModel

    return OpenAIModel(
        name,
        base_url=base_url,
        api_key_env=provider.key_env,
        structured=provider.structured,
        tools_with_schema=provider.tools_with_schema,
        effort=provider.effort,
        logprobs=provider.logprobs,
        label=spec,
    )


def _address(provider: str) -> str | None:
    """Return the address of a provider that needs no SDK; raise ConfigurationError if it is invalid."""
    from flowdebate.models.openai.endpoint import address_of, check_address

    address, variable = PROVIDERS[provider].address(provider), address_variable(provider)
    if address == PROVIDERS[provider].base_url:
        return address
    if provider == "anthropic":  # Anthropic's own API differs from its OpenAI-compatible endpoint
        hint = 'Run `pip install "flowdebate[anthropic]"`, or unset the variable'
        raise ConfigurationError(
            "environment", variable, address_of(str(address)), "cannot be set without Anthropic's SDK", hint=hint
        )
    check_address("environment", variable, address)
    return address


def _check_program(spec: str, field: str, location: str) -> str:
    """Return the agent CLI in `spec` and the model after the slash; raise ConfigurationError for an unknown CLI."""
    from flowdebate.models.programs import PROGRAMS, is_model_name

    program, slash, model = (name := spec.removeprefix(_CLI)).partition("/")
    if program not in PROGRAMS or (slash and not is_model_name(model)):
        programs = join_choices(f"{_CLI}{option}" for option in PROGRAMS)
        raise ConfigurationError(location, field, spec, f"must be {programs}, optionally followed by /MODEL")
    return name


@lru_cache(maxsize=1)
def _recommend_sdk() -> None:
    """Recommend installing Anthropic's SDK, once per process."""
    message = (
        "Anthropic models are called through its OpenAI-compatible endpoint, which has no prompt caching: "
        'pip install "flowdebate[anthropic]" to pay less for repeated input'
    )
    warnings.warn(message, FlowDebateWarning, stacklevel=2)


# Names without a provider


_ALLOWED = 'must be "local", "intent/chat", "intent/synthesize", "cli/program" or "provider/model"'
# Makers whose models cannot run locally, so no local server has to be queried for them.
_MAKERS: Mapping[str, re.Pattern[str]] = {
    "openai": re.compile(r"(ft:)?(gpt-\d|chatgpt-).*|o\d+(-.+)?|codex-.+", re.IGNORECASE),
    "anthropic": re.compile(r"claude-.+", re.IGNORECASE),
    "gemini": re.compile(r"gemini-.+", re.IGNORECASE),
    "xai": re.compile(r"grok-.+", re.IGNORECASE),
    "mistral": re.compile(
        r"(open-)?(mistral|ministral|mixtral|magistral|codestral|devstral|pixtral)(-.+)?-(latest|\d{4})", re.IGNORECASE
    ),
    "deepseek": re.compile(r"deepseek-(chat|reasoner|flash)", re.IGNORECASE),
}
# Makers of open-weight models, which a server on this machine may also offer.
_PUBLISHERS: Mapping[str, re.Pattern[str]] = {
    "mistral": re.compile(
        r"(open-)?(mistral|ministral|mixtral|magistral|codestral|devstral|pixtral)(-[^:]+)?", re.IGNORECASE
    ),
    "deepseek": re.compile(r"deepseek-[^:]+", re.IGNORECASE),
}
_WORDS: Mapping[str, str] = {
    "gpt": "openai", "chatgpt": "openai", "claude": "anthropic", "sonnet": "anthropic", "opus": "anthropic",
    "haiku": "anthropic", "gemini": "gemini", "grok": "xai", "mistral": "mistral", "deepseek": "deepseek",
}  # fmt: skip
"""Makers, keyed by the first word of their models' names; used to suggest corrections for mistyped names."""
_ALIASES: Mapping[str, str] = {
    "google": "gemini", "mistralai": "mistral", "x-ai": "xai", "deepseek-ai": "deepseek", "codex": "openai",
}  # fmt: skip
"""Vendors, keyed by the names that hosting providers use for them."""
_HOSTS = ("cerebras", "fireworks", "groq", "openrouter", "together")
"""Providers that host models from many makers."""
_TAG = re.compile(r"[^/:\s]+:([\d.]+[bmk]|latest|[^:]*q\d)[^/:\s]*", re.IGNORECASE)
"""Pattern matching a name with a tag, as in Ollama."""
_LISTED = re.compile(r"\w[\w./:-]*\w")
"""Pattern matching model names as listed by a server."""


def with_maker(name: str) -> str:
    """Prefix `name` with its maker if the name identifies it; return other names unchanged.

    >>> with_maker("gpt-5-mini"), with_maker("claude-sonnet-4-5"), with_maker("gpt-oss-120b")
    ('openai/gpt-5-mini', 'anthropic/claude-sonnet-4-5', 'gpt-oss-120b')
    """
    maker = next((maker for maker, names in _MAKERS.items() if names.fullmatch(name)), None)
    return name if maker is None else f"{maker}/{name if name.startswith('ft:') else name.lower()}"


def full_name(spec: str, location: str = "model", field: str = "model") -> str:
    """Prefix a model name with its provider, unless it already has one or no provider is known.

    Servers on this machine are contacted only for names without a known maker. Raises ConfigurationError for an
    ambiguous name.

    >>> full_name("claude-sonnet-4-5"), full_name("local")
    ('anthropic/claude-sonnet-4-5', 'local')
    """
    name = with_maker(spec)
    provider, slash, _ = name.partition("/")
    if name in ("local", EACH) or f"{provider}/" in (_PREFIX, _CLI) or (slash and provider in PROVIDERS):
        return name
    mistyped = re.search("[/:]", spec) and not _TAG.fullmatch(spec) and _guess_provider(spec, 0.75)
    if mistyped or not _LISTED.fullmatch(spec):
        return spec
    forms = [
        f"{server}/{model}" for server, listing in _servers().items() for model in _find_by_name(spec, listing.models)
    ]
    maker = next((maker for maker, names in _PUBLISHERS.items() if names.fullmatch(spec)), None)
    if maker is not None and (not forms or _has_key(maker)):
        forms.insert(0, f"{maker}/{spec}")
    if len(forms) > 1:
        problem = f"matches several models: {', '.join(forms)}"
        raise ConfigurationError(location, field, spec, problem)
    return forms[0] if forms else spec


def _find_by_name(name: str, models: Sequence[str]) -> list[str]:
    """Find the server's model called `name`; if there is none, return all models whose names differ only in the tag."""
    exact = [model for model in models if model in (name, f"{name}:latest")]
    return exact[:1] or [model for model in models if model.partition(":")[0] == name]


def _has_key(provider: str) -> bool:
    return bool(os.environ.get(PROVIDERS[provider].key_env or ""))


def _guess_provider(spec: str, cutoff: float = 0.6) -> str | None:
    """Guess which provider the start of `spec` refers to, tolerating typos; None if no guess is possible."""
    provider = re.split(r"\s*[/:]\s*", spec.strip(), maxsplit=1)[0].lower()
    return nearest(provider, PROVIDERS, cutoff=cutoff)


_AZURE = (
    "Azure's API works like OpenAI's: set OPENAI_BASE_URL=https://RESOURCE.openai.azure.com/openai/v1, and "
    "OPENAI_API_KEY to the resource's key; the model name is the deployment's name."
)
_BEDROCK = (
    "Bedrock's API works like OpenAI's: set OPENAI_BASE_URL=https://bedrock-runtime.REGION.amazonaws.com/openai/v1, "
    "and OPENAI_API_KEY to a Bedrock API key; the model name is the model's ID."
)
_CLOUDS = {
    **dict.fromkeys(("azure", "azure-openai", "azure_openai", "azure_ai"), _AZURE),
    **dict.fromkeys(("bedrock", "amazon-bedrock", "aws", "aws-bedrock"), _BEDROCK),
}
"""Advice for clouds that are not in `PROVIDERS`, keyed by common name."""


def _hint(spec: str) -> str:
    """Suggest a correction for a mistyped or missing provider in `spec`; return "" if no guess is possible."""
    start, *name = re.split(r"\s*[/:]\s*", spec.strip(), maxsplit=1)
    maker = next((maker for word, maker in _WORDS.items() if start.lower().startswith(word)), None)
    if cloud := _CLOUDS.get(start.lower()):
        return f"{cloud} Then write openai/{name[0] if name and name[0] else 'NAME'}"
    if start.lower() == "local":
        meant = "local"
    elif _TAG.fullmatch(spec):
        meant = f"ollama/{spec}"
    elif name and name[0] and (provider := _guess_provider(spec)):
        meant = f"{provider}/{name[0]}"
    elif maker is not None and not name and not start.lower().startswith("gpt-oss"):
        meant = f"{maker}/{start if re.search('[0-9]', start) else PROVIDERS[maker].default}"
    elif not name and _LISTED.fullmatch(spec):
        hosts = [host for host in _HOSTS if _has_key(host)] or [*_HOSTS, "ollama"]
        forms = [_form_at(host, spec) for host in hosts]
        if len(forms) > 1:
            return f"Several providers may offer it: write {', '.join(forms[:-1])} or {forms[-1]}"
        [meant] = forms
    else:
        return ""
    return f"Did you mean {meant}?"


def _form_at(host: str, name: str) -> str:
    """Return the full name under which the provider `host` offers another maker's model `name`."""
    default = PROVIDERS[host].default or ""
    return f"{host}/{default if default.rpartition('/')[2] == name else name}"


def _as_model(value: object, field: str, location: str = "model") -> Model:
    # equivalent to isinstance(value, Model), but ten times faster
    if not isinstance(value, type) and callable(getattr(value, "request", None)) and hasattr(value, "name"):
        return cast("Model", value)
    raise ConfigurationError(location, field, value, "must be a Model object or a model name")


def _check_intent(name: str, location: str, field: str) -> str:
    intent = name.removeprefix(_PREFIX)
    if intent not in _INTENTS:
        raise ConfigurationError(location, field, name, choices=[_PREFIX + known_intent for known_intent in _INTENTS])
    return intent


def _check_mapping(choice: Mapping[str, Model | str], location: str = "run", field: str = "model") -> None:
    unknown = [intent for intent in choice if intent not in _INTENTS]
    if unknown:
        raise ConfigurationError(
            location, field, unknown[0], f"must be a mapping with the keys {' and '.join(_INTENTS)}"
        )
