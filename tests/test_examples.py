"""Runs of every script in examples/, using a function as the model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ProviderFailed
from flowdebate.models.resolve import resolve_model
from flowdebate.testing import FunctionModel, ToolCall, forbid_real_models

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest
    from flowdebate.testing.models import Reply

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
TESTED_BELOW = {
    "budget_guard",
    "custom_debater",
    "debate_in_a_pipeline",
    "feature_debate",
    "moderated_debate",
    "own_server",
    "record_and_replay",
    "resilient_debate",
    "streaming",
    "three_sides",
}
TESTED_IN_FOLDER = {path.stem.removeprefix("test_") for path in (Path(__file__).parent / "examples").glob("test_*.py")}


def load_script(name: str) -> Any:
    """Load the script as a module, without its `__main__` part."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_model(winner: str | None, **deliverable: object) -> FunctionModel:
    """Create a model that argues, decides for `winner`, and writes `deliverable`."""

    def answer(request: ModelRequest) -> Reply:
        if request.output_schema is None:
            return f"An argument of {request.block}."
        fields = set(request.output_schema["properties"])
        if fields == {"verdict", "winner", "reasoning"}:
            return {"reasoning": "It was not answered.", "winner": winner, "verdict": "It holds."}
        if "nextSpeakers" in fields:
            return decide(request)
        return deliverable

    return FunctionModel(answer)


def decide(request: ModelRequest) -> Reply:
    """Call a tool before the first decision, and end the debate after the second round."""
    used_tools = any(message["role"] == "tool" for message in request.messages)
    if request.tools and not used_tools:
        return ToolCall(id="1", name="look_up", arguments='{"topic": "latency"}')
    second = any("Open round 2" in str(message["content"]) for message in request.messages)
    tool_results = [message["content"] for message in request.messages if message["role"] == "tool"]
    speakers = ["mover"] if second else ["mover", "stayer"]
    return {
        "reason": "One reply is due.",
        "next_speakers": speakers,
        "briefing": tool_results[0] if tool_results else None,
        "new_angle": None,
        "done": second,
    }


@pytest.fixture(autouse=True)
def no_real_models() -> Any:
    """Forbid calls to any server."""
    with forbid_real_models():
        yield


def test_no_example_is_missing() -> None:
    assert set(NAMES) == TESTED_BELOW | TESTED_IN_FOLDER


@pytest.mark.parametrize("name", NAMES)
def test_example_has_a_description_and_a_main_function(name: str) -> None:
    module = load_script(name)
    assert module.__doc__.splitlines()[0].endswith((".", ":"))
    assert "model" in module.main.__annotations__
    assert any(hasattr(module, name_) for name_ in ("pattern", "build", "ROWS"))


def test_feature_debate_returns_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("feature_debate")
    winner = "the new search should ship this week"
    result = example.main(make_model(winner, decision="ship", rationale="it holds"))
    assert result == example.Decision(decision="ship", rationale="it holds")
    printed = capsys.readouterr().out
    assert printed.count("An argument of feature-debate-debater-") == 4
    assert f"Winner: {winner}" in printed


def test_feature_debate_can_be_moderated(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("feature_debate")
    replies = make_model(None, decision="wait", rationale="nobody measured")

    async def answer(request: ModelRequest) -> Any:
        if not request.block.endswith("-moderator"):
            return await replies.request(request)
        second = any("Open round 2" in str(message["content"]) for message in request.messages)
        speakers = ["advocate"] if second else ["advocate", "skeptic"]
        angle = {"briefing": None, "new_angle": "What if it fails?"}
        return {"reason": "One reply is due.", "next_speakers": speakers, **angle, "done": second}

    assert example.main(FunctionModel(answer), moderator=True) == example.Decision(
        decision="wait", rationale="nobody measured"
    )
    printed = capsys.readouterr().out
    assert "Round 1: advocate, skeptic; What if it fails?\nRound 2: advocate; What if it fails?\n" in printed
    assert printed.count("An argument of feature-debate-debater-") == 3
    assert "Winner: none, a synthesis\nFinished after 2 rounds: moderator_done\nDecision: wait" in printed


@pytest.mark.parametrize(("exhausted", "rounds", "reason"), [(True, 1, "predicate"), (False, 4, "max_rounds")])
def test_moderated_feature_debate_ends_when_its_budget_is_used_up(
    capsys: pytest.CaptureFixture[str],
    exhausted: bool,  # noqa: FBT001
    rounds: int,
    reason: str,
) -> None:
    replies = make_model(None, decision="wait", rationale="nobody measured")

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-moderator"):
            return {"next_speakers": ["advocate"], "briefing": None, "new_angle": None, "done": False}
        return await replies.request(request)

    session: dict[str, object] = {"budget_exhausted": exhausted}
    load_script("feature_debate").main(FunctionModel(answer), moderator=True, session=session)
    assert f"Finished after {rounds} rounds: {reason}" in capsys.readouterr().out


def test_moderator_briefing_uses_its_tool(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("moderated_debate")
    raw = example.main(make_model(None))
    assert [decided.next_speakers for decided in raw.moderator_decisions] == [["mover", "stayer"], ["mover"]]
    assert {decided.briefing for decided in raw.moderator_decisions} == {example.MEASURED["latency"]}
    assert (raw.rounds, raw.stop_reason) == (2, "moderator_done")
    assert "Ended by moderator_done" in capsys.readouterr().out


def test_custom_judge_decides_among_three_sides(capsys: pytest.CaptureFixture[str]) -> None:
    """The application's own judge reads the transcript without names."""
    seen: list[str] = []
    replies = make_model("split the reserve evenly", shares_percent=50, cash_percent=50, why="balance")

    async def answer(request: ModelRequest) -> Any:
        if request.block == "risk-judge":
            seen.extend(str(message["content"]) for message in request.messages)
        return await replies.request(request)

    example = load_script("three_sides")
    assert example.main(FunctionModel(answer)).shares_percent == 50
    assert "50% shares" in capsys.readouterr().out
    view = seen[-1]
    assert all(f"[{stance}] An argument" in view for stance in example.STANCES.values())
    assert "[hawk" not in view


def test_handler_argues_from_the_shared_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    raw = load_script("custom_debater").main(make_model("the old parser is too slow"))
    figures = [entry.text for entry in raw.transcript if entry.agent_name == "figures"]
    assert figures == ["Measured: cold start takes 410 ms.", "Measured: large file takes 12 s."]
    assert "Winner: the old parser is too slow" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("calls", "rounds", "reason"), [(1, 1, "predicate"), (4, 2, "predicate"), (99, 4, "max_rounds")]
)
def test_guard_ends_the_debate_at_its_budget(calls: int, rounds: int, reason: str) -> None:
    """The round that exceeds the budget is the last one, unless the maximum number of rounds is reached first."""
    raw = load_script("budget_guard").main(make_model(None), calls=calls)
    assert (raw.rounds, raw.stop_reason) == (rounds, reason)


def test_pipeline_reports_each_debate(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("debate_in_a_pipeline")
    lines = example.main(make_model("it should be left to each team")).splitlines()
    assert [line for topic in example.TOPICS for line in lines if topic in line] == lines
    assert len(lines) == len(example.TOPICS)
    assert "for_each (max_concurrency 2)" in capsys.readouterr().out


def test_stream_prints_text_as_it_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    raw = load_script("streaming").main(make_model(None))
    printed = capsys.readouterr().out
    for entry in raw.transcript:
        assert f"{entry.agent_name} ({entry.stance}): {entry.text}" in printed
    assert "Finished after 2 rounds: max_rounds" in printed


def test_local_server_is_called_at_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("own_server")
    assert resolve_model(example.server()).name == "gemma3"
    assert example.main(make_model("a hot dog is a sandwich")).verdict.winner == "a hot dog is a sandwich"
    assert "a hot dog is a sandwich" in capsys.readouterr().out


def fail_call(request: ModelRequest) -> Reply:
    """Fail as an unavailable provider would."""
    raise ProviderFailed("the endpoint answered 503", status=503, model="down", block=request.block)


def test_resilient_debate_uses_its_fallback(capsys: pytest.CaptureFixture[str]) -> None:
    """Thanks to the fallback, no turn is lost, and the circuit opens after three failed calls."""
    calls: list[str] = []

    def count_and_fail(request: ModelRequest) -> Reply:
        calls.append(request.block)
        return fail_call(request)

    down = FunctionModel(count_and_fail, name="down")
    raw = load_script("resilient_debate").main(down, spare=make_model("no train should run at night"))
    printed = capsys.readouterr().out
    assert (raw.status, len(raw.transcript), raw.losses) == ("complete", 6, [])
    assert len(calls) == 9
    assert "down failed (ProviderFailed)" in printed
    assert "down failed (CircuitOpen)" in printed
    assert "Winner: no train should run at night" in printed


def test_resilient_debate_reports_its_failures(capsys: pytest.CaptureFixture[str]) -> None:
    good = make_model(None)

    async def partly(request: ModelRequest) -> Any:
        return fail_call(request) if request.block.endswith("-neighbour") else await good.request(request)

    example = load_script("resilient_debate")
    raw = example.main(FunctionModel(partly), spare=FunctionModel(partly))
    assert (raw.status, {loss.name for loss in raw.losses}) == ("degraded", {"neighbour"})
    assert "lost in round 2: debater neighbour (skipped)" in capsys.readouterr().out
    cut = example.main(good, spare=good, calls=4)
    assert (cut.status, len(cut.transcript), cut.verdict) == ("limit", 4, None)
    assert "limit: 4 arguments in 2 rounds, 4 calls\nNo verdict." in capsys.readouterr().out


def test_recorded_debate_is_replayed_without_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []
    replies = make_model("meetings should stay unrecorded")

    async def answer(request: ModelRequest) -> Any:
        calls.append(request.block)
        return await replies.request(request)

    raw = load_script("record_and_replay").main(FunctionModel(answer), folder=tmp_path)
    assert raw.verdict.winner == "meetings should stay unrecorded"
    assert len(calls) == 5
    assert len((tmp_path / "meetings.jsonl").read_text("utf-8").splitlines()) == 6
    printed = capsys.readouterr().out
    assert "RecordingModel 5 calls" in printed
    assert "the same: True" in printed
