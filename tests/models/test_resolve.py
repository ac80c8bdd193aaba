"""Which model a name means."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ConfigurationError, ModelUnavailable
from flowdebate.models import LocalModel, ModelRequest, ModelResponse, OpenAIModel, resolve_model
from flowdebate.models.local.gguf import local_model_installed
from flowdebate.models.resolve import PROVIDERS, ModelResolver, PinnedModel, check_model

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("FLOWDEBATE_MODEL", "FLOWDEBATE_LOCAL_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL")


class Mine:
    """A model of the application's own."""

    name = "mine"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Never asked here."""
        raise NotImplementedError


MINE = Mine()


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """The process's environment with exactly these of `NAMES` set."""
    before = {name: os.environ.pop(name) for name in NAMES if name in os.environ}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in NAMES:
            os.environ.pop(name, None)
        os.environ.update(before)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_each_provider_s_models_can_be_named(provider: str) -> None:
    """The name as the provider writes it may hold slashes; errors call the model what the user called it."""
    model = resolve_model(f"{provider}/some/model:7b")
    assert isinstance(model, OpenAIModel)
    assert model.name == f"{provider}/some/model:7b"
    assert model._name == "some/model:7b"


def test_a_provider_s_model_goes_to_the_provider() -> None:
    """Only OpenAI's address can be moved by OPENAI_BASE_URL."""
    with environment(OPENAI_BASE_URL="http://127.0.0.1:1/v1"):
        ollama, openai = resolve_model("ollama/gemma3"), resolve_model("openai/gpt-5-mini")
        assert isinstance(ollama, OpenAIModel)
        assert isinstance(openai, OpenAIModel)
        assert ollama.base_url == "http://127.0.0.1:11434/v1"
        assert openai.base_url == "http://127.0.0.1:1/v1"


def test_local_is_the_embedded_model() -> None:
    """Without looking for it yet."""
    assert isinstance(resolve_model("local"), LocalModel)


@dataclass(frozen=True)
class Case:
    """What a run was given, what a block asks for, the environment, and the name of the model that is meant."""

    id: str
    given: Any
    asked: Any
    environment: dict[str, str]
    name: str


CASES = [
    Case("the run's model", MINE, "intent/chat", {}, "mine"),
    Case("a block that asks for nothing", MINE, None, {}, "mine"),
    Case("the run's name", "ollama/a", "intent/synthesize", {}, "ollama/a"),
    Case("by intent: chat", {"chat": MINE, "synthesize": "ollama/a"}, "intent/chat", {}, "mine"),
    Case("by intent: synthesize", {"chat": MINE, "synthesize": "ollama/a"}, "intent/synthesize", {}, "ollama/a"),
    Case("an intent left out", {"chat": MINE}, "intent/synthesize", {"FLOWDEBATE_MODEL": "ollama/b"}, "ollama/b"),
    Case("the run before a block's name", MINE, "ollama/c", {}, "mine"),
    Case("the run before a block's model", "ollama/a", MINE, {}, "ollama/a"),
    Case("an intent's model behind a block's name", {"chat": MINE}, "ollama/c", {}, "ollama/c"),
    Case("a stand-in keeps its model", MINE, PinnedModel("ollama/c"), {}, "ollama/c"),
    Case("the run before the environment", MINE, None, {"FLOWDEBATE_MODEL": "ollama/b"}, "mine"),
    Case("the environment's name", None, None, {"FLOWDEBATE_MODEL": "ollama/b", "OPENAI_API_KEY": "k"}, "ollama/b"),
    Case("a key", None, None, {"OPENAI_API_KEY": "k"}, "openai/gpt-5-mini"),
    Case("an address", None, None, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai/gpt-5-mini"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_intent_means_the_first_that_is_set(case: Case) -> None:
    """The run's one model, a block's own choice, the run's intents, environment, OpenAI, in this order."""
    with environment(**case.environment):
        assert ModelResolver(case.given).resolve(case.asked).name == case.name


@dataclass(frozen=True)
class Around:
    """What the patterns around a block name, the nearest first, what the block asks for, and what is meant."""

    id: str
    defaults: tuple[Any, ...]
    asked: str
    name: str


AROUND = [
    Around("one model", ("ollama/near", "ollama/far"), "intent/synthesize", "ollama/near"),
    Around("an intent that is left out", ({"chat": "ollama/near"}, "ollama/far"), "intent/synthesize", "ollama/far"),
    Around("an intent for another", ("intent/chat", {"chat": "ollama/far"}), "intent/synthesize", "ollama/far"),
    Around("an intent for itself", ("intent/chat",), "intent/chat", "ollama/env"),
    Around("the block's own", ("ollama/near",), "ollama/own", "ollama/own"),
    Around("nothing", (None, {}), "intent/chat", "ollama/env"),
]


@pytest.mark.parametrize("case", AROUND, ids=lambda case: case.id)
def test_the_nearest_pattern_says_what_an_intent_means(case: Around) -> None:
    """Before the environment; an intent that a pattern names is looked up further out."""
    with environment(FLOWDEBATE_MODEL="ollama/env"):
        assert ModelResolver().resolve(case.asked, case.defaults).name == case.name


def test_with_nothing_set_up_the_local_model_is_meant_or_the_ways_out_are_told() -> None:
    """Never a foreign error, and never silence."""
    with environment():
        if local_model_installed():
            assert resolve_model(None).name == "local"
        else:
            with pytest.raises(ModelUnavailable, match=r"local-model.*OPENAI_API_KEY.*Ollama"):
                resolve_model(None)


def test_one_resolver_gives_one_object_for_one_name() -> None:
    """So that a run's debaters share their connections; another run has its own."""
    resolver = ModelResolver("ollama/a")
    assert resolver.resolve("intent/chat") is resolver.resolve("ollama/a") is resolver.resolve("intent/synthesize")
    assert ModelResolver("ollama/a").resolve("ollama/a") is not resolver.resolve("ollama/a")


@pytest.mark.parametrize("name", ["", " ", "gpt-5", "nobody/gpt", "openai/", "openai/ ", "intent/think", "LOCAL", "/x"])
def test_a_name_that_means_nothing_is_refused_and_the_allowed_ones_are_told(name: str) -> None:
    """When it is resolved, and when a factory checks it."""
    for attempt in (lambda: resolve_model(name), lambda: check_model(name, where="debate 'x'")):
        with pytest.raises(ConfigurationError) as caught:
            attempt()
        assert caught.value.got == name
        assert "intent/chat" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("openai:gpt-5-mini", "openai/gpt-5-mini"),
        ("opnai/gpt-5", "openai/gpt-5"),
        ("OpenAI/gpt-5", "openai/gpt-5"),
        ("ollama:gemma3:1b", "ollama/gemma3:1b"),
        ("openai / gpt-5", "openai/gpt-5"),
        ("gpt-5-mini", "openai/gpt-5-mini"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("LOCAL", "local"),
        ("local/qwen", "local"),
        ("nobody/gpt", None),
        ("openai/", None),
        ("", None),
    ],
)
def test_a_mistyped_name_is_answered_with_the_one_that_is_meant(name: str, meant: str | None) -> None:
    """With another sign than "/", a mistyped provider, or none; without a guess where nothing is close."""
    with pytest.raises(ConfigurationError) as caught:
        check_model(name, where="debate 'x'")
    assert str(caught.value).partition("Did you mean ")[2] == ("" if meant is None else f"{meant!r}?")


@pytest.mark.parametrize("value", [5, b"local", OpenAIModel, {"chat": 5}, {"debate": MINE}, {5: MINE}])
def test_what_is_no_model_is_refused(value: Any) -> None:
    """A class is not a model, and a mapping's keys are intents."""
    with pytest.raises(ConfigurationError):
        ModelResolver(value).resolve("intent/chat")
    with pytest.raises(ConfigurationError, match="debate 'x'"):
        check_model(value, where="debate 'x'")


def test_an_intent_cannot_mean_an_intent() -> None:
    """It would mean nothing, for ever."""
    with pytest.raises(ConfigurationError, match="intent"):
        ModelResolver("intent/chat").resolve("intent/chat")


@pytest.mark.parametrize("value", [None, MINE, "local", "intent/chat", "ollama/a", {"chat": MINE}, {}])
def test_what_can_mean_a_model_passes_the_check(value: Any) -> None:
    """Without a look at the environment, the disk or the network."""
    check_model(value, where="debate 'x'")
