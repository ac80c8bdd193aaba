"""The prompt profile that a model declares, as seen through every wrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.models import (
    CircuitBreaker,
    ConcurrencyLimit,
    Fallback,
    LocalModel,
    OpenAIModel,
    RateLimit,
    RecordingModel,
    ReplayModel,
    Retrying,
    SharedRateLimit,
    Timeout,
)
from flowdebate.models.base import profile_of
from flowdebate.models.wrapper import PerRequestWrapper, Wrapper
from flowdebate.testing import FunctionModel, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Small(ScriptedModel):
    """Model that declares short prompts."""

    profile: Any = "concise"


def test_models_without_a_profile_get_the_full_prompts() -> None:
    """Hosted, scripted and custom models get the full prompts, whereas the local model gets concise ones."""
    assert profile_of(OpenAIModel("gpt-5-mini")) == profile_of(ScriptedModel()) == "full"
    assert profile_of(FunctionModel(lambda _: "Yes.")) == "full"
    assert profile_of(LocalModel()) == profile_of(Small()) == "concise"


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "breaker": CircuitBreaker,
    "concurrency": lambda inner: ConcurrencyLimit(inner, 2),
    "fallback": lambda inner: Fallback(inner, ScriptedModel()),
    "own": Wrapper,
    "per request": PerRequestWrapper,
    "rate": lambda inner: RateLimit(inner, requests=5),
    "retrying": Retrying,
    "shared rate": lambda inner: SharedRateLimit(inner, url="postgresql://localhost/runs", requests=5),
    "timeout": lambda inner: Timeout(inner, 5),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapper_gets_its_inner_models_prompts(wrap: Callable[[Any], Any]) -> None:
    """Policies and replays expose the prompts of the model they wrap; a fallback chain exposes its first model's."""
    assert profile_of(wrap(Small())) == profile_of(wrap(wrap(Small()))) == "concise"
    assert profile_of(wrap(ScriptedModel())) == "full"


def test_a_fallback_gets_its_first_models_prompts() -> None:
    """The prompt is written before the first call, so later models in the chain receive the same prompt."""
    assert profile_of(Fallback(ScriptedModel(), Small())) == "full"


def test_a_replayed_model_gets_the_recorded_prompts(tmp_path: Path) -> None:
    """A replay can answer only recorded prompts, so it must be given prompts in the recorded style."""
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    assert profile_of(RecordingModel(Small(), small)) == profile_of(ReplayModel(small)) == "concise"
    assert profile_of(RecordingModel(ScriptedModel(), large)) == profile_of(ReplayModel(large)) == "full"
    assert "profile" not in large.read_text()


def test_a_profile_attribute_that_is_not_a_string_is_ignored() -> None:
    model = Small()
    model.profile = object()
    assert profile_of(model) == "full"


def test_an_unknown_model_profile_is_rejected() -> None:
    model = Small(name="mine")
    model.profile = "concice"
    with pytest.raises(ConfigurationError, match=r"model 'mine'.*`profile` must be concise or full"):
        profile_of(model)
