"""`flowdebate demo`: replay a recorded debate without a model."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient
from typer.testing import CliRunner

from flowdebate import generator
from flowdebate.cli.app import app
from flowdebate.cli.demo import RECORDING, REVIEW_RECORDING, TOLD, recorded_plan
from flowdebate.errors import CassetteMismatch
from flowdebate.events import TextDelta
from flowdebate.models.recording import PlayedModel


def _play(*options: str) -> str:
    return CliRunner().invoke(app, ["demo", *options], catch_exceptions=False).output


def test_recorded_debate_can_be_played_without_a_model() -> None:
    output = _play("--speed", "1000")
    assert "no model is asked" in output
    assert "Qwen2.5-Coder-1.5B-Instruct" in output
    assert "Round 1 of 1" in output
    assert "verified" in output
    assert "Verdict" in output


def test_recording_matches_current_prompts_and_is_small() -> None:
    """A recording that did not match the current prompts could not be replayed.

    The recording must not contain any path from the machine on which it was made.
    """
    plan = recorded_plan(1_000)
    played = plan.pattern().run_sync(plan.subject, model=plan.models, seed=plan.seed, store=False)
    assert played.raw.status == "complete"
    assert f"with seed {plan.seed}," in TOLD
    assert played.raw.verdict.judging.answer == "letter"
    text = RECORDING.read_text("utf-8")
    assert len(text) < 200_000
    assert "/root" not in text
    assert "/home" not in text
    model = (plan.models or {})["chat"]
    assert isinstance(model, PlayedModel)
    assert model.remaining == 0


@pytest.mark.parametrize("speed", ["0", "-1", "1001", "nan"])
def test_invalid_speed_is_rejected(speed: str) -> None:
    assert "--speed" in _play("--speed", speed)


def test_every_answer_is_streamed_word_by_word() -> None:
    model = PlayedModel(RECORDING, words=100_000)
    block = generator(name="debate-debater-remy", prompt="Say something else.", model=model)

    async def collect() -> list[str]:
        handle = block.start("Now.")
        return [event.text async for event in handle if isinstance(event, TextDelta)]

    pieces = asyncio.run(collect())
    assert len(pieces) > 10
    assert "".join(pieces).startswith("The firm should go on with working from home.")
    stranger = generator(name="somebody", prompt="Speak.", model=PlayedModel(RECORDING, words=1e6))
    with pytest.raises(CassetteMismatch):
        stranger.run_sync("Now.")


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (["demo", "--page", "--speed", "1000"], "Should the firm go on with working from home?"),
        (["review", "--demo", "--page"], "What is wrong with this change?"),
    ],
)
def test_page_shows_the_run_and_requires_its_token(
    monkeypatch: pytest.MonkeyPatch, command: list[str], question: str
) -> None:
    """The command opens the run in a browser. Its server shows no other run and cannot start one."""
    opened: list[str] = []

    async def serve(app: Any, *, port: int, started: Any) -> None:
        assert port == 0
        started("http://127.0.0.1:9/", None)
        transport = ASGITransport(app=app)
        async with AsyncClient(transport=transport, base_url="http://127.0.0.1:9") as client:
            page = await client.get(opened[0], headers={"accept": "text/html"}, follow_redirects=True)
            assert page.status_code == 200
            assert question in page.text
            assert "nothing was edited" in page.text  # the page says who spoke, and how the debate was recorded
            assert (await client.get(opened[0].partition("?")[0])).status_code == 401

    monkeypatch.setattr("flowdebate.server.app.serve", serve)
    monkeypatch.setattr("webbrowser.open", opened.append)
    output = CliRunner().invoke(app, command, catch_exceptions=False).output
    assert "Playing at http://127.0.0.1:9/runs/" in output


def test_recorded_review_can_be_shown_without_a_model() -> None:
    result = CliRunner().invoke(app, ["review", "--demo"], catch_exceptions=False)
    assert result.exit_code == 0
    for text in ("no model is asked", "Examination", 'Gate: "no confirmed blocker" holds', "1 confirmed (1 major)"):
        assert text in result.output
    text = REVIEW_RECORDING.read_text("utf-8")
    assert len(text) < 200_000
    assert "/root" not in text
    assert "/work" not in text


def test_recorded_review_takes_less_than_a_second() -> None:
    """The measured time excludes process startup, and the replay adds no delays."""
    CliRunner().invoke(app, ["review", "--demo"])  # warm up imports
    start = time.process_time()
    CliRunner().invoke(app, ["review", "--demo"])
    assert time.process_time() - start < 1


def test_piped_demo_does_not_wait() -> None:
    """Nobody is reading along when the output goes to a pipe, so a minute of delays is skipped."""
    start = time.monotonic()
    output = _play()
    assert "Verdict" in output
    assert time.monotonic() - start < 15


@pytest.mark.parametrize(
    ("options", "message"), [(["--page"], "--page requires --demo"), (["--demo", "--benchmark"], "cannot be combined")]
)
def test_recorded_review_options_require_the_demo(options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["review", *options])
    assert result.exit_code == 2
    assert message in result.output
