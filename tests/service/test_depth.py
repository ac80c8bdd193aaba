"""Run depth: the options for each level, and how a run at depth "auto" ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate import Limits
from flowdebate.cli.app import app
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import ModelRequest
from flowdebate.models.recording import RecordingModel
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from flowdebate.ui.live import Live
from flowdebate.ui.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flowdebate.service.state import RunDetails

QUESTION = "Should we build trams?"
SIDES = [{"name": "ann", "stance": "we should"}, {"name": "ben", "stance": "we should not"}]
DEBATE: dict[str, Any] = {"debaters": SIDES, "synthesizer": False}
CALLS = {"quick": 4, "balanced": 6, "thorough": 16}
"""Number of calls at each depth, for a debate whose judge reads both orders."""


def judged_model(sure: Sequence[str]) -> FunctionModel:
    """Create a model whose judge prefers the side listed first, except at the depths in `sure`."""

    def reply(request: ModelRequest) -> Any:
        if request.output_schema is None:
            return f"{request.block} speaks."
        labels = [*request.output_schema["$defs"]["Scores"]["properties"]]
        best = "we should" if request.block.partition("-")[0] in sure else labels[0]
        return {"reasoning": "-", "scores": {label: 80 if label == best else 20 for label in labels}, "verdict": "-"}

    return FunctionModel(reply)


async def finish_run(model: Any, pattern: str = "debate", **options: Any) -> RunDetails:
    """Run a pattern in a service and return the details of the finished run."""
    async with Service(store="memory:", model=model) as service:
        begun = await service.begin(pattern, QUESTION, options=options)
        return await service.wait(begun.run_id)


@pytest.mark.anyio
@pytest.mark.parametrize("ends", [*CALLS])
async def test_auto_stops_at_the_first_depth_with_a_consistent_judge(ends: str) -> None:
    depths = [*CALLS]
    steps = depths[: depths.index(ends) + 1]
    result = await finish_run(judged_model([ends]), depth="auto", **DEBATE)
    document: Any = result.document
    assert (result.status, document.usage.calls) == ("complete", sum(CALLS[depth] for depth in steps))
    assert [(step.name, step.calls) for step in document.raw.escalation] == [(depth, CALLS[depth]) for depth in steps]
    assert document.raw.rounds == {"quick": 1, "balanced": 2, "thorough": 3}[ends]
    assert document.raw.verdict.winner == "we should"
    reason = "last step" if ends == "thorough" else "undisputed"
    assert f"Depth {ends} ({CALLS[ends]} calls): {reason}" in document.notes
    assert [note for note in document.notes if note.endswith("continues")] == [
        f"Depth {depth} ({CALLS[depth]} calls): continues" for depth in steps[:-1]
    ]


@pytest.mark.anyio
async def test_disputed_auto_run_ends_at_the_last_depth() -> None:
    """A run that remains disputed returns the result of the thorough debate, even if it has no winner."""
    document: Any = (await finish_run(judged_model([]), depth="auto", **DEBATE)).document
    assert [step.name for step in document.raw.escalation] == ["quick", "balanced", "thorough"]
    assert document.raw.verdict.winner is None


@pytest.mark.anyio
async def test_live_page_shows_each_step_of_an_escalation() -> None:
    async with Service(store="memory:", model=judged_model(["balanced"])) as service:
        begun = await service.begin("debate", QUESTION, options={"depth": "auto", **DEBATE})
        events = [update.event async for update in service.follow(begun.run_id) if update.kind == "event"]
    live = Live()
    sections: list[Any] = [section for event in events for section in live.handle(event)]
    labels = [getattr(section, "label", "") for section in sections]
    assert [label for label in labels if label.startswith("Step ")] == ["Step quick", "Step balanced"]
    assert sections[labels.index("Step quick")].text == "4 calls: continues"


@pytest.mark.anyio
@pytest.mark.parametrize("calls", [3, 5, 12])
async def test_auto_run_is_resumed_after_a_limit(calls: int) -> None:
    async with Service(store="memory:", model=judged_model([])) as service:
        begun = await service.begin("debate", QUESTION, options={"depth": "auto", "max_calls": calls, **DEBATE})
        limited: Any = await service.wait(begun.run_id)
        resumed = await service.resume(begun.run_id, limits=Limits(calls=100))
        finished: Any = await service.wait(resumed.run_id)
    assert (limited.status, limited.document.raw.status) == ("limit", "limit")
    assert len(limited.document.raw.escalation) == (0 if calls < 4 else 1 if calls < 10 else 2)
    assert (finished.status, finished.document.usage.calls) == ("complete", 26)


@pytest.mark.anyio
async def test_fork_uses_the_options_of_its_own_depth() -> None:
    """Options that come from the parent's depth are dropped, whereas explicit options are kept."""
    async with Service(store="memory:", model=judged_model(["quick"])) as service:
        begun = await service.begin("debate", QUESTION, options={"depth": "quick", "length": "short", **DEBATE})
        await service.wait(begun.run_id)
        forked = await service.fork(begun.run_id, options={"depth": "balanced"})
        document: Any = (await service.wait(forked.run_id)).document
    assert (document.raw.rounds, len(document.raw.verdict.judging.ballots)) == (2, 2)


def build_plan(pattern: str, **options: Any) -> Any:
    """Create the plan for a run of `pattern`."""
    info = PATTERNS[pattern]
    file = {name: value for name, value in options.items() if isinstance(value, list)}
    settings = {name: value for name, value in options.items() if name not in file}
    return make_plan(info, {info.subject: QUESTION, **settings}, file=file)


@pytest.mark.parametrize("pattern", [*PATTERNS])
def test_depth_sets_the_documented_options(pattern: str) -> None:
    """Options that are set explicitly take precedence over those of the depth."""
    page = PATTERNS[pattern].load_page()
    for depth in ("quick", "balanced", "thorough"):
        plan = build_plan(pattern, depth=depth)
        for name, value in page.options_for(depth).items():
            stored_options = plan.options.stored()[name]
            assert stored_options == value, name
    length = page.options.LENGTH
    if length in page.options.names():
        assert build_plan(pattern, depth="quick", **{length: 7}).length == 7


@pytest.mark.parametrize("pattern", ["handoff", "round_robin"])
def test_auto_is_rejected_for_patterns_without_an_agreement_measure(pattern: str) -> None:
    """A run without an agreement measure would always continue to its last step."""
    with pytest.raises(ConfigurationError, match="`--depth` cannot be auto: nobody in a"):
        build_plan(pattern, depth="auto")


@pytest.mark.parametrize("option", [{"baselines": True}, {"continuation": {"rounds": 1}}])
def test_auto_is_rejected_with_single_debate_options(option: dict[str, Any]) -> None:
    """Baselines must be compared with a single debate, and a debate that is continued already has a depth."""
    info = PATTERNS["debate"]
    with pytest.raises(ConfigurationError, match="`--depth` cannot be auto with"):
        make_plan(info, {"question": QUESTION, "depth": "auto"}, file=option)


@pytest.mark.parametrize(
    ("pattern", "field", "counts"), [("council", "members", [3, 3, 5]), ("review", "reviewers", [2, 3, 5])]
)
def test_each_depth_of_a_panel_has_separate_members(pattern: str, field: str, counts: list[int]) -> None:
    """If the user names the members, the same members take part in every step."""
    blocks = str(build_plan(pattern, depth="auto").pattern().outline())
    plan = build_plan(pattern, depth="auto", **{field: [{"name": "Zoe"}, {"name": "Yan"}]})
    names = ("Ada", "Ben", "Cleo", "Dan", "Eve")
    for depth, count in zip(("quick", "balanced", "thorough"), counts, strict=True):
        part = blocks.split(f"\n  → tap_if {depth}\n")[1].split("\n  → ", maxsplit=1)[0]
        assert [name in part for name in names] == [at < count for at in range(5)]
    assert "Ada" not in str(plan.pattern().outline())
    assert str(plan.pattern().outline()).count("Zoe") >= 3


def test_command_replays_a_recorded_escalation(tmp_path: Path) -> None:
    """One recorded run ends at its first step and one at its last. Both are replayed without a model."""
    command = ["debate", QUESTION, "--debater", "ann=we should", "--debater", "ben=we should not", "--depth", "auto"]
    for ends, calls in (("quick", 4), ("thorough", 26)):
        cassette = tmp_path / f"{ends}.json"
        record(cassette, judged_model([ends]))
        result = CliRunner().invoke(
            app,
            [
                *command,
                "--no-synthesizer",
                "--seed",
                "1",
                "--model",
                "openai/gpt-5",
                "--replay",
                str(cassette),
                "--no-store",
                "--json",
            ],
        )
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["raw"]["escalation"][-1]["name"] == ends
        assert document["usage"]["calls"] == calls
        assert document["raw"]["verdict"]["winner"] == "we should"


def record(path: Path, model: FunctionModel) -> None:
    """Record a run at depth "auto"."""
    plan = build_plan("debate", depth="auto", seed=1, **DEBATE)
    plan.pattern().run_sync(QUESTION, model=RecordingModel(model, path), seed=1)
