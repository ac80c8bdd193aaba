"""Limits on the parts of a pattern, checked before anything is built."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, Persona, consensus, council, debate, deliberation, handoff, round_robin
from flowdebate._util.option_types import MAX_ROUNDS
from flowdebate.chassis.roster import MEMBERS_VARIABLE
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.patterns.debate.judging.views import sampled
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Callable

ROSTERS: dict[str, tuple[Callable[..., Any], str, str | None]] = {
    "debate": (debate, "debaters", "max_rounds"),
    "deliberation": (deliberation, "debaters", "max_rounds"),
    "handoff": (handoff, "debaters", "max_turns"),
    "round_robin": (round_robin, "debaters", "max_rounds"),
    "council": (council, "members", None),
    "consensus": (consensus, "agents", "max_rounds"),
}


def people(pattern: str, count: int, **changes: Any) -> list[Any]:
    """Create a roster and apply `changes` to its last member."""
    if pattern == "debate":
        listed: list[Any] = [{"name": f"n{at}", "stance": f"stance {at}"} for at in range(count)]
    else:
        listed = [{"name": f"n{at}", "role": f"role {at}"} for at in range(count)]
    listed[-1] |= changes
    return [(Debater if pattern == "debate" else Persona)(**fields) for fields in listed]


def rejection_of(pattern: str, roster: list[Any], **options: Any) -> ConfigurationError:
    """Return the error raised for a pattern that cannot be built."""
    make, field, _ = ROSTERS[pattern]
    with pytest.raises(ConfigurationError) as caught:
        make(name="big", **{field: roster}, **options)
    return caught.value


@pytest.mark.parametrize("pattern", ROSTERS)
def test_roster_size_is_bounded(pattern: str) -> None:
    make, field, cap = ROSTERS[pattern]
    start = time.process_time()
    error = rejection_of(pattern, people(pattern, 15_000))
    assert (error.field, error.problem) == (field, "must have at most 100 entries")
    assert "(got 15000)" in str(error)
    assert time.process_time() - start < 2
    assert rejection_of(pattern, people(pattern, 3, name="n" * 400_000)).field == f"{field}[2].name"
    assert rejection_of(pattern, people(pattern, 3, role="r" * 400_000)).field == f"{field}[2].role"
    if pattern == "debate":
        error = rejection_of(pattern, people(pattern, 3, stance="s" * 400_000))
        assert (error.field, error.problem) == ("debaters[2].stance", "must have at most 10,000 characters")
        assert "(got 400000)" in str(error)
    if cap is not None:
        error = rejection_of(pattern, people(pattern, 3), **{cap: 1_000_000_000})
        assert (error.field, error.problem) == (cap, f"must be at most {MAX_ROUNDS:,}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        largest = people(pattern, 100, name="n" * 200, role="r" * 10_000)
        make(name="big", **{field: largest}, **({} if cap is None else {cap: MAX_ROUNDS}))


def test_roster_limit_is_configurable(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        assert "Set FLOWDEBATE_MAX_MEMBERS to allow more" in str(rejection_of("council", people("council", 101)))
        monkeypatch.setenv(MEMBERS_VARIABLE, "200")
        council(name="big", members=people("council", 200))
        assert rejection_of("council", people("council", 201)).problem == "must have at most 200 entries"
        for value in ("many", "1", "-3", "²"):
            monkeypatch.setenv(MEMBERS_VARIABLE, value)
            assert rejection_of("council", people("council", 3)).field == MEMBERS_VARIABLE


def test_sampled_schedules_are_bounded() -> None:
    """All views in a schedule are sampled before the first call, so their number must be limited."""
    assert sampled(1_000).size == 1_000
    with pytest.raises(ConfigurationError, match=r"`size` must be between 1 and 1,000 \(got 999999\)"):
        sampled(999_999)


def test_large_requests_are_rejected_with_the_field_name() -> None:
    """Over HTTP, the request is rejected before the server builds anything."""
    sides = [{"name": f"n{at}", "stance": f"s{at}"} for at in range(8_000)]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"debaters": sides}, "debaters"),
        ({"debaters": [*sides[:2], {"name": "n" * 400_000, "stance": "s"}]}, "debaters[2].name"),
        ({"max_rounds": 1_000_000_000}, "max_rounds"),
    ]
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        for options, field in cases:
            start = time.monotonic()
            answer = stage.post("/runs", {**BRIEF, "options": options})
            assert answer.status_code == 422, answer.text
            [error] = answer.json()["errors"]
            assert error["field"] == field
            assert "at most" in error["problem"]
            assert time.monotonic() - start < 30
