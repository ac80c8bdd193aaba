from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, debate
from flowdebate.errors import AuthenticationFailed, ConfigurationError, ModelUnavailable
from flowdebate.models import AnthropicModel, LocalModel, ModelRequest, ModelResponse, OpenAIModel, resolve_model
from flowdebate.models.openai.endpoint import NO_KEY
from flowdebate.models.providers import PROVIDERS, address_variable
from flowdebate.models.resolve import ModelResolver, Override, check_model, environment_choice, full_name
from flowdebate.patterns import PATTERNS
from flowdebate.testing import forbid_real_models
from flowdebate.ui.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models import Model

KEYS = [provider.key_env for provider in PROVIDERS.values() if provider.key_env]
NAMES = ("FLOWDEBATE_MODEL", "FLOWDEBATE_LOCAL_MODEL", *map(address_variable, PROVIDERS), *KEYS)


class CustomModel:
    """An application's custom model."""

    name = "mine"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Do nothing, since the method is never called."""
        raise NotImplementedError


MINE = CustomModel()


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.pop(name) for name in NAMES if name in os.environ}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in NAMES:
            os.environ.pop(name, None)
        os.environ.update(before)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_models_from_each_provider_can_be_selected_by_name(provider: str) -> None:
    model = resolve_model(f"{provider}/some/model:7b")
    assert isinstance(model, AnthropicModel if provider == "anthropic" else OpenAIModel)
    assert model.name == f"{provider}/some/model:7b"
    assert model._name == "some/model:7b"


def test_a_provider_model_uses_its_own_address() -> None:
    """OPENAI_BASE_URL sets OpenAI's address, but no other provider's."""
    with environment(OPENAI_BASE_URL="http://127.0.0.1:1/v1"):
        ollama, openai = resolve_model("ollama/gemma3"), resolve_model("openai/gpt-5-mini")
        assert isinstance(ollama, OpenAIModel)
        assert isinstance(openai, OpenAIModel)
        assert ollama.base_url == "http://127.0.0.1:11434/v1"
        assert openai.base_url == "http://127.0.0.1:1/v1"


def test_local_selects_the_embedded_model() -> None:
    """Resolving the name does not look up the model's file; that happens later."""
    assert isinstance(resolve_model("local"), LocalModel)


@dataclass(frozen=True)
class Case:
    """The run's model, the block's model and the environment, with the model name expected from them."""

    id: str
    run_model: Any
    block_model: Any
    environment: dict[str, str]
    name: str


CASES = [
    Case("the run's model", MINE, "intent/chat", {}, "mine"),
    Case("a block that asks for nothing", MINE, None, {}, "mine"),
    Case("the run's name", "ollama/a", "intent/synthesize", {}, "ollama/a"),
    Case("by intent: chat", {"chat": MINE, "synthesize": "ollama/a"}, "intent/chat", {}, "mine"),
    Case("by intent: synthesize", {"chat": MINE, "synthesize": "ollama/a"}, "intent/synthesize", {}, "ollama/a"),
    Case("an intent left out", {"chat": MINE}, "intent/synthesize", {"FLOWDEBATE_MODEL": "ollama/b"}, "ollama/b"),
    Case("a block's name before the run", MINE, "ollama/c", {}, "ollama/c"),
    Case("a block's model before the run", "ollama/a", MINE, {}, "mine"),
    Case("an override before a block's name", Override(MINE), "ollama/c", {}, "mine"),
    Case("an override before an intent", Override("ollama/a"), None, {}, "ollama/a"),
    Case("an intent's model behind a block's name", {"chat": MINE}, "ollama/c", {}, "ollama/c"),
    Case("the run before the environment", MINE, None, {"FLOWDEBATE_MODEL": "ollama/b"}, "mine"),
    Case("the environment's name", None, None, {"FLOWDEBATE_MODEL": "ollama/b", "OPENAI_API_KEY": "k"}, "ollama/b"),
    Case("a key", None, None, {"OPENAI_API_KEY": "k"}, "openai/gpt-5.6-luna"),
    Case("an address", None, None, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai/gpt-5.6-luna"),
    Case("another's key", None, None, {"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-haiku-5-5"),
    Case("the table's order", None, None, {"XAI_API_KEY": "k", "GROQ_API_KEY": "k"}, "groq/openai/gpt-oss-120b"),
    Case("OpenAI first", None, None, {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai/gpt-5.6-luna"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_intent_uses_the_first_configured_model(case: Case) -> None:
    """A run's override takes precedence over the block's own choice, which takes precedence over the run's model.

    The environment comes next, and OpenAI last.
    """
    with environment(**case.environment):
        assert ModelResolver(case.run_model).resolve(case.block_model).name == case.name


@dataclass(frozen=True)
class EnclosingModels:
    """The enclosing patterns' models, nearest first, with the block's model and the expected model name."""

    id: str
    defaults: tuple[Any, ...]
    model: str
    name: str


AROUND = [
    EnclosingModels("one model", ("ollama/near", "ollama/far"), "intent/synthesize", "ollama/near"),
    EnclosingModels(
        "an intent that is left out", ({"chat": "ollama/near"}, "ollama/far"), "intent/synthesize", "ollama/far"
    ),
    EnclosingModels(
        "an intent for another", ("intent/chat", {"chat": "ollama/far"}), "intent/synthesize", "ollama/far"
    ),
    EnclosingModels("an intent for itself", ("intent/chat",), "intent/chat", "ollama/env"),
    EnclosingModels("the block's own", ("ollama/near",), "ollama/own", "ollama/own"),
    EnclosingModels("nothing", (None, {}), "intent/chat", "ollama/env"),
]


@pytest.mark.parametrize("case", AROUND, ids=lambda case: case.id)
def test_an_intent_is_resolved_by_the_nearest_pattern(case: EnclosingModels) -> None:
    """Patterns take precedence over the environment.

    If a pattern maps an intent to another intent, the patterns that enclose it resolve the second one.
    """
    with environment(FLOWDEBATE_MODEL="ollama/env"):
        assert ModelResolver().resolve(case.model, case.defaults).name == case.name


@pytest.fixture
def local_servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """Start servers at the addresses of Ollama, LM Studio, vLLM and llama-server."""
    with Servers() as at:
        placed = {
            name: replace(provider, base_url=f"http://127.0.0.1:{at.ports[name]}/v1") if name in at.ports else provider
            for name, provider in PROVIDERS.items()
        }
        monkeypatch.setattr("flowdebate.models.resolve.PROVIDERS", placed)
        monkeypatch.setattr("flowdebate.models.resolve._seen", (float("-inf"), {}))
        monkeypatch.setattr("flowdebate.models.local.gguf.local_model_installed", lambda: False)
        with environment():
            yield at


class Servers:
    """Four servers, each with its response to a request for its models, or None if it does not respond."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | None] = {}
        self.abilities: dict[str, list[str]] = {}
        """What Ollama says that its models can do."""
        self.asked: list[str] = []
        self.over = threading.Event()
        self.ports: dict[str, int] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        for name in (name for name, provider in PROVIDERS.items() if provider.key_env is None):
            server = self._open.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), self._handler(name)))
            server.daemon_threads = True
            self.ports[name] = server.server_address[1]
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            self._open.callback(server.shutdown)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._open.close()

    def _handler(self, name: str) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805 - its name; `self` is the servers
                self.asked.append(f"{name} {handler.path} {sorted(map(str.lower, handler.headers))}")
                answer = self.answers.get(name, b"{}")
                if answer is None:
                    self.over.wait(20)
                    return
                handler.send_response(200)
                handler.send_header("content-length", str(len(answer)))
                handler.end_headers()
                handler.wfile.write(answer)

            def do_POST(handler) -> None:  # noqa: N805
                body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
                self.asked.append(f"{name} {handler.path} {body['model']}")
                abilities = self.abilities.get(body["model"])
                answer = json.dumps({"error": "what?"} if abilities is None else {"capabilities": abilities}).encode()
                handler.send_response(404 if abilities is None else 200)
                handler.send_header("content-length", str(len(answer)))
                handler.end_headers()
                handler.wfile.write(answer)

            def log_message(handler, *_: object) -> None:  # noqa: N805
                """Print nothing."""

        return Handler


def list_models(*names: str) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


def test_a_local_server_is_the_default_if_no_key_is_set(local_servers: Servers) -> None:
    local_servers.answers = {
        "ollama": list_models("nomic-embed-text", "gemma3:4b", "qwen3"),
        "vllm": list_models("big"),
    }
    assert environment_choice() == (
        "ollama/gemma3:4b",
        f"it answers at http://127.0.0.1:{local_servers.ports['ollama']}/v1, and no key is set",
    )
    assert ModelResolver().resolve(None).name == "ollama/gemma3:4b"
    lists = [f"{name} /v1/models ['accept-encoding', 'host']" for name in sorted(local_servers.ports)]
    assert sorted(local_servers.asked) == sorted([*lists, "ollama /api/show gemma3:4b"])


@pytest.mark.parametrize("name", ["ollama", "lmstudio"])
def test_an_embedding_model_is_never_the_default(name: str, local_servers: Servers) -> None:
    """Ollama reports which models are embedding models, even if their names do not show it."""
    listed = ["bge-m3:latest", "all-minilm:latest", "paraphrase-multilingual:latest", "BAAI/bge-large", "newvec:1b"]
    local_servers.answers = {name: list_models(*listed[: None if name == "ollama" else 4], "qwen3:14b")}
    local_servers.abilities = {"newvec:1b": ["embedding"], "qwen3:14b": ["completion", "tools"]}
    choice = environment_choice()
    assert choice is not None
    assert choice[0] == f"{name}/qwen3:14b"


def test_the_address_of_every_provider_can_be_set(local_servers: Servers) -> None:
    """Each provider with a key and each local server has an environment variable for its address."""
    moved = f"http://127.0.0.1:{local_servers.ports['vllm']}/v1"
    for name, provider in PROVIDERS.items():
        key = {} if provider.key_env is None else {provider.key_env: "k"}
        with environment(**key, **{address_variable(name): moved}):
            assert getattr(resolve_model(f"{name}/m"), "base_url", None) == moved, name
    local_servers.answers = {"vllm": list_models("qwen3")}
    with environment(OLLAMA_BASE_URL=moved):
        assert environment_choice() == ("ollama/qwen3", f"it answers at {moved}, and no key is set")


def test_an_address_for_the_anthropic_api_requires_its_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK, only Anthropic's OpenAI-compatible API can be used, and it has a different address."""
    monkeypatch.setattr("flowdebate.models.resolve.find_spec", lambda _: None)
    moved = environment(ANTHROPIC_BASE_URL="https://gateway.example", ANTHROPIC_API_KEY="k")
    with moved, pytest.raises(ConfigurationError, match=r"flowdebate\[anthropic\]"):
        resolve_model("anthropic/claude-haiku-5-5")


def test_the_error_for_an_invalid_address_names_its_variable() -> None:
    """An address set in an environment variable must follow the same rules as one passed as an option."""
    with environment(GROQ_BASE_URL="groq.example"), pytest.raises(ConfigurationError, match="GROQ_BASE_URL"):
        resolve_model("groq/m")


def test_unresponsive_servers_delay_startup_by_at_most_200_ms(local_servers: Servers) -> None:
    local_servers.answers = dict.fromkeys(local_servers.ports) | {"llama-server": list_models("small")}
    start = time.monotonic()
    assert environment_choice() == (
        "llama-server/small",
        f"it answers at http://127.0.0.1:{local_servers.ports['llama-server']}/v1, and no key is set",
    )
    assert 0.2 <= time.monotonic() - start < 0.6


@pytest.mark.parametrize("variables", [{"FLOWDEBATE_MODEL": "ollama/b"}, {"ANTHROPIC_API_KEY": "k"}], ids=str)
def test_no_server_is_probed_when_a_model_or_a_key_is_set(variables: dict[str, str], local_servers: Servers) -> None:
    """Importing the library never probes a server.

    A call inside a guard against real models does not probe any server either, unless the guard allows loopback.
    """
    local_servers.answers = {"ollama": list_models("gemma3")}
    with environment(**variables):
        assert environment_choice() is not None
    with forbid_real_models(), pytest.raises(ModelUnavailable):
        ModelResolver().resolve(None)
    assert local_servers.asked == []
    with forbid_real_models(allow_local=True):
        assert environment_choice() is not None
    assert local_servers.asked != []


@pytest.mark.slow
def test_importing_the_library_opens_no_connection() -> None:
    script = (
        "import pkgutil, importlib, sys, flowdebate\n"
        "sys.addaudithook(lambda event, _: event == 'socket.connect' and sys.exit(9))\n"
        "for each in ('models', 'cli', 'service', 'patterns', 'blocks', 'evaluation'):\n"
        "    package = importlib.import_module(f'flowdebate.{each}')\n"
        "    for module in pkgutil.walk_packages(package.__path__, f'{package.__name__}.'):\n"
        "        importlib.import_module(module.name)\n"
    )
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    subprocess.run([sys.executable, "-c", script], env=clean, check=True, timeout=100)  # noqa: S603 - our own


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[]",
        b'{"data": {}}',
        b'{"data": [{}]}',
        b'{"data": [1]}',
        b'{"data": null}',
        list_models("a\nb"),
        b"\xff",
    ],
    ids=str,
)
def test_a_web_page_or_a_server_without_models_is_ignored(answer: bytes, local_servers: Servers) -> None:
    """The error lists where the library looked and what it found.

    It suggests every possible remedy, not just setting one provider's key.
    """
    local_servers.answers = {"lmstudio": answer}
    ways = r"^no model is configured: neither FLOWDEBATE_MODEL nor the key of a provider is set, no local"
    ways += r" server has a model( \(lmstudio is running, but has none\))?, and the local.*"
    ways += r"OPENAI_API_KEY, ANTHROPIC_API_KEY and others.*Ollama"
    with pytest.raises(ModelUnavailable, match=ways) as caught:
        resolve_model(None)
    empty = answer in (b'{"data": null}', b'{"data": {}}', list_models("a\nb"))
    assert ("lmstudio is running" in str(caught.value)) is empty


def test_the_local_model_is_the_default_of_last_resort(local_servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowdebate.models.local.gguf.local_model_installed", lambda: True)
    assert resolve_model(None).name == "local"


# Keys


HOSTED = {name: provider for name, provider in PROVIDERS.items() if provider.key_env}


def sent_key(model: Model) -> tuple[str, str | None]:
    """Return the host that a call would reach, and the key that it would send; None if it would send no key."""
    assert isinstance(model, (OpenAIModel, AnthropicModel))
    try:
        endpoint = model._endpoint()
    except AuthenticationFailed:
        return "", None
    return str(urlsplit(endpoint.base_url).hostname), None if endpoint.api_key == NO_KEY else endpoint.api_key


@given(
    keys=st.sets(st.sampled_from(KEYS)),
    to=st.sampled_from(list(HOSTED)),
    spelling=st.sampled_from([str, str.upper, lambda host: f"{host}.", lambda host: f"{host}:443"]),
    variable=st.sampled_from(KEYS),
    way=st.sampled_from(["name", "base_url", "variable", "plan", "environment", "native", "native variable"]),
)
def test_a_key_is_not_sent_to_other_providers(
    keys: set[str], to: str, spelling: Callable[[str], str], variable: str, way: str
) -> None:
    """The address may come from a name, an option, a plan or OPENAI_BASE_URL, in any spelling.

    The key in OPENAI_API_KEY is the only one sent to OPENAI_BASE_URL, unless the provider at this address has its own
    key.
    """
    address = PROVIDERS[to].base_url or "https://api.openai.com/v1"
    host = str(urlsplit(address).hostname)
    url = address.replace(host, spelling(host))
    key_env = PROVIDERS[to].key_env
    with environment(**{name: f"key of {name}" for name in keys}):
        if way == "name":
            model = resolve_model(f"{to}/m")
        elif way == "plan":
            plan = make_plan(PATTERNS["debate"], {"question": "Q?", "model": "m", "base_url": url})
            model = resolve_model("intent/chat", default=plan.models)
        elif way == "environment":
            model = resolve_model("openai/m")
            os.environ["OPENAI_BASE_URL"] = url
        else:
            options: dict[str, Any] = {"api_key_env": variable} if "variable" in way else {}
            model = (AnthropicModel if "native" in way else OpenAIModel)("m", base_url=url, **options)
        _, key = sent_key(model)
    paired = "key of OPENAI_API_KEY" if way == "environment" and "OPENAI_API_KEY" in keys else None
    assert key == (f"key of {key_env}" if key_env in keys else paired)


def test_one_resolver_returns_one_object_per_name() -> None:
    """The debaters in a run share connections, but a second run opens its own."""
    resolver = ModelResolver("ollama/a")
    assert resolver.resolve("intent/chat") is resolver.resolve("ollama/a") is resolver.resolve("intent/synthesize")
    assert ModelResolver("ollama/a").resolve("ollama/a") is not resolver.resolve("ollama/a")


@pytest.mark.parametrize(
    "name", ["", " ", "gemma3", "nobody/gpt", "openai/", "openai/ ", "intent/think", "LOCAL", "/x"]
)
def test_an_unknown_name_is_rejected_with_the_allowed_names(name: str) -> None:
    """The error is raised not only when the name is resolved, but also when a factory checks it."""
    for attempt in (lambda: resolve_model(name), lambda: check_model(name, location="debate 'x'")):
        with pytest.raises(ConfigurationError) as caught:
            attempt()
        assert caught.value.got == name
        assert "intent/chat" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("openai:gpt-5-mini", "openai/gpt-5-mini"),
        ("opnai/gpt-5", "openai/gpt-5"),
        ("OpenAI/gpt-5", "openai/gpt-5"),
        ("ollama:gemma3:1b", "ollama/gemma3:1b"),
        ("openai / gpt-5", "openai/gpt-5"),
        ("LOCAL", "local"),
        ("local/qwen", "local"),
        ("nobody/gpt", None),
        ("openai/", None),
        ("", None),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(name: str, suggestion: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_model(name, location="debate 'x'")
    assert str(caught.value).partition("Did you mean ")[2] == ("" if suggestion is None else f"{suggestion}?")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("gpt-5-mini", "openai/gpt-5-mini"),
        ("o4-mini", "openai/o4-mini"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-3-pro", "gemini/gemini-3-pro"),
        ("grok-4", "xai/grok-4"),
        ("openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("gpt-oss-120b", "gpt-oss-120b"),  # many providers serve this model
        ("local", "local"),
        ("each", "each"),
    ],
)
def test_a_name_that_implies_its_provider_needs_no_prefix(name: str, full: str) -> None:
    """The name used by the model's maker, such as `gpt-5-mini`, is enough."""
    assert full_name(name) == full
    if "/" in full and full != name:
        assert resolve_model(name).name == full


@pytest.mark.parametrize(
    ("name", "full"),
    [("qwen3:14b", "ollama/qwen3:14b"), ("gemma3", "ollama/gemma3:latest"), ("phi4", "ollama/phi4:mini")],
)
def test_a_local_ollama_model_needs_no_prefix(name: str, full: str, local_servers: Servers) -> None:
    local_servers.answers = {"ollama": list_models("qwen3:14b", "qwen3:8b", "gemma3:latest", "gemma3:1b", "phi4:mini")}
    assert full_name(name) == full
    with pytest.raises(ConfigurationError, match="matches several models: ollama/qwen3:14b, ollama/qwen3:8b"):
        full_name("qwen3")
    assert full_name("llama9") == "llama9"


def test_no_server_is_probed_for_a_proprietary_model_name(local_servers: Servers) -> None:
    """Resolving a well-known name opens no connection, whether or not its provider's key is set."""
    local_servers.answers = {"ollama": list_models("gpt-5-mini")}
    names = ["gpt-5-mini", "Claude-Sonnet-4-5", "mistral-large-latest", "deepseek-chat", "ft:gpt-4o:Org::x"]
    assert [full_name(name).partition("/")[0] for name in names] == [
        "openai", "anthropic", "mistral", "deepseek", "openai",
    ]  # fmt: skip
    assert full_name("ft:gpt-4o:Org::x") == "openai/ft:gpt-4o:Org::x"
    assert local_servers.asked == []


@pytest.mark.parametrize("name", ["mistral-small", "deepseek-r1"])
def test_a_model_with_public_weights_can_be_local_or_hosted(name: str, local_servers: Servers) -> None:
    """A local server takes precedence if it has the model.

    If the maker's key is set as well, an error lists both names.
    """
    maker = name.partition("-")[0]
    with environment():
        assert full_name(name) == f"{maker}/{name}"
    local_servers.answers = {"ollama": list_models(f"{name}:latest"), "vllm": list_models("qwen/qwen3-8b")}
    with environment():
        assert full_name(name) == f"ollama/{name}:latest"
        assert full_name("qwen/qwen3-8b") == "vllm/qwen/qwen3-8b"
    with (
        environment(**{f"{maker.upper()}_API_KEY": "k"}),
        pytest.raises(ConfigurationError, match=f"matches several models: {maker}/{name}, ollama/{name}:latest"),
    ):
        debate(name="rent", debaters=[Debater("pro", "cap"), Debater("con", "free")], model=name)


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("gpt-oss-120b", ["GROQ_API_KEY", "OPENROUTER_API_KEY"], "groq/openai/gpt-oss-120b or openrouter/openai/gpt-"),
        ("gpt-oss-120b", ["CEREBRAS_API_KEY"], "Did you mean cerebras/gpt-oss-120b?"),
        ("llama-3.3-70b", [], "together/llama-3.3-70b or ollama/llama-3.3-70b"),
        ("qwen3:14b", [], "Did you mean ollama/qwen3:14b?"),
        ("mistral:7b", ["MISTRAL_API_KEY"], "Did you mean ollama/mistral:7b?"),
        ("sonnet", [], "Did you mean anthropic/claude-haiku-5-5?"),
        ("gpt5", [], "Did you mean openai/gpt5?"),
        ("azure/my-gpt4o", [], "https://RESOURCE.openai.azure.com/openai/v1"),
        ("azure/my-gpt4o", [], "Then write openai/my-gpt4o"),
        ("bedrock/openai.gpt-oss-20b-1:0", [], "https://bedrock-runtime.REGION.amazonaws.com/openai/v1"),
        ("Bedrock/openai.gpt-oss-20b-1:0", [], "Then write openai/openai.gpt-oss-20b-1:0"),
    ],
)
def test_the_error_for_an_ambiguous_name_lists_its_full_forms(
    name: str, keys: list[str], message: str, local_servers: Servers
) -> None:
    """The error lists the full names for all providers whose keys are set, or for every provider if no key is set."""
    local_servers.answers = {}
    with environment(**dict.fromkeys(keys, "k")), pytest.raises(ConfigurationError, match=re.escape(message)):
        check_model(name, location="debate 'x'")


def test_the_error_for_a_bare_name_names_the_missing_variable() -> None:
    """The error is the same as for the name with its provider prefix."""
    with environment(), pytest.raises(AuthenticationFailed, match=r"set OPENAI_API_KEY, .*model 'openai/gpt-5-mini'"):
        debate(name="rent", debaters=[Debater("pro", "cap"), Debater("con", "free")], model="gpt-5-mini").run_sync(
            "Cap?"
        )


@pytest.mark.parametrize("value", [5, b"local", OpenAIModel, {"chat": 5}, {"debate": MINE}, {5: MINE}])
def test_only_models_are_accepted(value: Any) -> None:
    """A class is not accepted in place of a model, and a mapping must have intents as its keys."""
    with pytest.raises(ConfigurationError):
        ModelResolver(value).resolve("intent/chat")
    with pytest.raises(ConfigurationError, match="debate 'x'"):
        check_model(value, location="debate 'x'")


def test_an_intent_cannot_resolve_to_an_intent() -> None:
    """If an intent could resolve to another intent, the resolution might never end."""
    with pytest.raises(ConfigurationError, match="intent"):
        ModelResolver("intent/chat").resolve("intent/chat")


@pytest.mark.parametrize("value", [None, MINE, "local", "intent/chat", "ollama/a", {"chat": MINE}, {}])
def test_valid_model_values_pass_the_check(value: Any) -> None:
    check_model(value, location="debate 'x'")
