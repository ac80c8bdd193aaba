"""Tests for the event watch, which makes a test fail if it emits an invalid event."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from flowdebate.chassis.state import RoleFailed, RoundStarted
from flowdebate.models.base import Usage
from flowdebate.runs.events import ModelCalled
from tests import warm
from tests.event_watch import Watch

ROOT = Path(__file__).parent.parent
PLACE = {"path": "a", "at": 1.0}
CALLED = ModelCalled(block="a", model="m", usage=Usage.zero(), seconds=1.0, path="a", at=1.0)


def failed(instead: object) -> RoleFailed:
    """Create a failure with the given recovery."""
    fields = {"block": "a", "role": "debater", "round": 1, "name": "ann", "error": "E", "message": "m", **PLACE}
    return RoleFailed(instead=instead, **fields)  # type: ignore[arg-type]


def test_valid_events_are_accepted() -> None:
    """An application's custom events are valid, too."""
    watch = Watch()
    for event in (CALLED, RoundStarted(round=1, max_rounds=2, path="a", at=1.0), failed("skipped"), object(), {"a": 1}):
        watch.look(event)
    assert watch.take() == []


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (RoundStarted(round="one", max_rounds=2, path="a", at=1.0), "$.round: 'one' is not of type 'integer'"),  # type: ignore[arg-type]
        (RoundStarted(round=1, max_rounds=2, at=1.0), "path=''"),
        (RoundStarted(round=1, max_rounds=2, path="a"), "at=0.0"),
        (failed("given up"), "$.instead: 'given up' is not one of"),
        (
            ModelCalled(block="a", model="m", usage=Usage(calls="1"), seconds=1.0, path="a", at=1.0),  # type: ignore[arg-type]
            "$.usage.calls: '1' is not of type 'integer'",
        ),
        (
            ModelCalled(block="a", model="m", usage=Usage.zero(), seconds=1.0, flags=("tired",), path="a", at=1.0),  # type: ignore[arg-type]
            "$.flags[0]: 'tired' is not one of",
        ),
    ],
    ids=["type", "path", "time", "closed set", "inner type", "inner closed set"],
)
def test_invalid_event_is_reported_with_the_reason(event: RoundStarted, problem: str) -> None:
    """An invalid event is found even if earlier events of the same class were valid."""
    watch = Watch()
    for other in (CALLED, RoundStarted(round=1, max_rounds=2, path="a", at=1.0), failed("skipped")):
        watch.look(other)
    watch.look(event)
    (problem_text,) = watch.take()
    assert type(event).__name__ in problem_text
    assert problem in problem_text
    assert watch.take() == []


def test_each_shape_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test suite emits hundreds of thousands of events, which have only a few hundred different shapes."""
    watch = Watch()
    validated: list[str] = []

    def noted(wire: dict[str, Any]) -> list[str]:
        validated.append(wire["kind"])
        return []

    monkeypatch.setattr(watch, "problems_of", noted)
    for number in range(9):
        watch.look(RoundStarted(round=number, max_rounds=9, path=f"a[{number}]", at=1.0))
    assert validated == ["round_started"]


WRONG = """
    import pytest
    from flowdebate import handler
    from flowdebate.chassis.state import RoundStarted

    def emitting(event):
        @handler(name="a")
        def act(value, ctx):
            ctx.emit(event)
            return value
        return act

    def test_emits_an_invalid_event():
        emitting(RoundStarted(round="one", max_rounds=1)).run_sync("x")

    def test_emits_valid_events():
        emitting(RoundStarted(round=1, max_rounds=1)).run_sync("x")
        emitting({"any": object()}).run_sync("x")

    @pytest.fixture(scope="module")
    def shared():
        return emitting(RoundStarted(round=1, max_rounds=None)).run_sync("x")

    def test_uses_a_fixture(shared):
        assert shared.output == "x"
"""


def test_test_with_an_invalid_event_fails(tmp_path: Path) -> None:
    """Only the test in which the event was emitted fails, even if the run succeeds or a fixture emitted the event."""
    (tmp_path / "test_wrong.py").write_text(dedent(WRONG), "utf-8")
    options = ["-q", "-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-p", "no:randomly"]
    command = (warm.run_module("pytest"), *options, "-p", "tests.event_watch", str(tmp_path))
    run = warm.run_warm(*command, cwd=ROOT, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "2 failed, 1 passed" in run.stdout
    assert "$.round: 'one' is not of type 'integer'" in run.stdout
    assert "$.maxRounds: None is not of type 'integer'" in run.stdout
    assert "::test_emits_an_invalid_event" in run.stdout


def test_this_suite_is_watched(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("tests.event_watch")
