"""Reviewers from a vendor other than the author's, and from several vendors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from flowdebate import Persona, review
from flowdebate.cli.app import app
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import ModelRequest, ModelResponse
from flowdebate.models.resolve import maker_of

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


class Named:
    """A named model that finds nothing and counts its calls."""

    def __init__(self, name: str) -> None:
        self.name, self.calls = name, 0

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return an answer without findings."""
        self.calls += 1
        return ModelResponse(text='{"findings": []}')


def run_review(*models: Named, run_model: Any = None, **options: Any) -> Any:
    """Run a review with these models, or with the run's model."""
    people = [Persona(f"R{at}", model=model) for at, model in enumerate(models)] or [Persona("R0"), Persona("R1")]
    pattern = review(name="change", reviewers=people, sources={"a.py": "x = 1"}, **options)
    return pattern.run_sync("What is wrong?", model=run_model).output


@pytest.mark.parametrize(
    ("model", "maker"),
    [
        ("openai/gpt-5", "openai"),
        ("gpt-5-mini", "openai"),
        ("openrouter/openai/gpt-oss-120b", "openai"),
        ("groq/gpt-oss-120b", "openai"),
        ("openrouter/anthropic/claude-sonnet-4.5", "anthropic"),
        ("cli/claude", "anthropic"),
        ("cli/claude/sonnet", "anthropic"),
        ("cli/codex", "openai"),
        ("openrouter/google/gemini-3-pro", "gemini"),
        ("openrouter/x-ai/grok-4", "xai"),
        ("openrouter/qwen/qwen3-coder", "qwen"),
        ("Anthropic", "anthropic"),
        ("google", "gemini"),
        ("local", "local"),
    ],
)
def test_maker_of_a_model_is_its_vendor(model: str, maker: str) -> None:
    """A model may be served by several hosts, none of which counts as its vendor."""
    assert maker_of(model) == maker


@pytest.mark.parametrize(
    "author", ["anthropic", "claude-sonnet-4-5", "openrouter/anthropic/claude-opus-4", ["Anthropic"]]
)
@pytest.mark.parametrize("reviewer", ["anthropic/claude-haiku-4-5", "openrouter/anthropic/claude-sonnet-4.5"])
def test_models_from_the_authors_vendor_are_rejected(author: Any, reviewer: str) -> None:
    allowed, excluded = Named("openai/gpt-5"), Named(reviewer)
    with pytest.raises(ConfigurationError, match=re.escape(f"R1 uses {reviewer}, a model from anthropic")):
        run_review(allowed, excluded, not_vendor=author)
    assert (allowed.calls, excluded.calls) == (0, 0)
    assert run_review(allowed, Named("gemini/gemini-3-pro"), not_vendor=author).answer == "nothing found"


def test_minimum_number_of_vendors_is_checked_before_the_first_call() -> None:
    """Two hosts that serve models from the same vendor count as one vendor."""
    one, other = Named("openai/gpt-5"), Named("openrouter/openai/gpt-oss-120b")
    with pytest.raises(ConfigurationError, match=r"`min_vendors` is 2, but all reviewers use models from openai\."):
        run_review(one, other, min_vendors=2)
    assert (one.calls, other.calls) == (0, 0)
    assert run_review(one, Named("xai/grok-4"), min_vendors=2).answer == "nothing found"


def test_run_model_counts_as_a_reviewer_model() -> None:
    """Reviewers without a model of their own use the run's model."""
    model = Named("openai/gpt-5")
    with pytest.raises(ConfigurationError, match="too few vendors"):
        run_review(run_model=model, min_vendors=2)
    with pytest.raises(ConfigurationError, match="R0 uses openai/gpt-5"):
        run_review(run_model=model, not_vendor="openai")
    assert model.calls == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"not_vendor": "antropic"}, "Did you mean anthropic"), ({"not_vendor": [" "]}, "not_vendor"),
     ({"min_vendors": 0}, "min_vendors")],
)  # fmt: skip
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    """A misspelled vendor would exclude nothing, and nobody would notice the mistake."""
    with pytest.raises(ConfigurationError, match=message):
        review(name="change", sources={"a.py": "x = 1"}, **options)


@pytest.fixture
def command(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the command, with keys for three vendors but no server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLOWDEBATE_MODEL", raising=False)
    (tmp_path / "a.py").write_text("x = 1\n")
    for key in KEYS:
        monkeypatch.setenv(key, "k")

    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["review", "--source", "a.py", "--no-store", "--replay", "none", *options])

    return run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "openai/gpt-5", "--min-vendors", "2"], "all reviewers use models from openai"),
        (["--reviewer", "A=gpt-5", "--reviewer", "B=claude-opus-4-1", "--not-vendor", "claude-sonnet-4-5"], "B uses"),
        (["--min-vendors", "4"], "models from"),
        (["--not-vendor", "opnai"], "Did you mean openai"),
    ],
)  # fmt: skip
def test_command_without_suitable_models_fails(command: Any, options: list[str], message: str) -> None:
    result = command(*options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_default_reviewers_are_from_other_vendors(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the user excludes all vendors but one, reviewers from that vendor are enough.

    If no vendor is left, the error message says so.
    """
    from flowdebate.patterns import PATTERNS
    from flowdebate.ui.plan import make_plan

    def makers(**options: Any) -> set[str]:
        plan = make_plan(PATTERNS["review"], {"sources": ["a.py"], **options}, begins=True)
        return {maker_of(speaker.model) for speaker in plan.speakers}

    assert makers() == {"openai", "anthropic", "gemini"}
    assert makers(not_vendor=["anthropic"]) == {"openai", "gemini"}
    assert makers(not_vendor=["claude-sonnet-4-5", "gemini"]) == {"openai"}
    for key in KEYS[1:]:
        monkeypatch.delenv(key)
    result = command("--not-vendor", "openai", "--not-vendor", "local")
    assert result.exit_code == 2
    assert "a model from openai, which" in " ".join(result.output.split())
