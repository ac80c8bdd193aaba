"""Helpers for testing `round_robin()`: two panelists, a report, and models that identify themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Persona, round_robin
from flowdebate.patterns.round_robin import create_referee, create_round_robin_transcript
from flowdebate.testing import FunctionModel
from tests.patterns.policies import with_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing import ModelRequest

PANEL = (
    Persona("ada", "economist", "You count what it costs."),
    Persona("ben", "engineer", "You ask whether it holds."),
)
NAMES = tuple(panelist.name for panelist in PANEL)
QUESTION = "When should the bridge be closed?"
REPORT = {
    "assessments": [{"agentName": "ada", "issues": ["no figures"], "score": 40}],
    "notes": "Give figures.",
}


def bridge(**options: Any) -> Any:
    """Build a panel of two that returns its raw output."""
    return round_robin(**with_policy({"name": "bridge", "debaters": PANEL, "synthesizer": False, **options}))


def refereed(name: str = "bridge", names: tuple[str, ...] = NAMES, **options: Any) -> dict[str, Any]:
    """Return the `round_robin()` options for the default referee."""
    transcript = create_round_robin_transcript()
    referee = create_referee(name=name, roster_names=names, transcript=transcript, **options)
    return {"referee": referee, "transcript": transcript}


def by_role(*, report: Callable[[ModelRequest], Any] | Any = REPORT, last: Any = "The answer.") -> FunctionModel:
    """Create a model that answers every default block; a panelist's answer is the name of its block."""

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-referee"):
            return report(request) if callable(report) else report
        return last if request.block.endswith("-synthesizer") else f"said by {request.block}"

    return FunctionModel(answer)


def entries_of(raw: Any) -> list[tuple[int, str, str]]:
    """Return the round, speaker and text of each entry."""
    return [(entry.round, entry.agent_name, entry.text) for entry in raw.transcript]
