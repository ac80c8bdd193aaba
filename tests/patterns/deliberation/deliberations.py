"""Helpers for testing `deliberation()`: two personas, reports, and models that identify themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Persona, deliberation
from flowdebate.testing import FunctionModel
from tests.patterns.policies import with_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing import ModelRequest

PERSONAS = (
    Persona("bull", "investor", "You see growth where others see risk."),
    Persona("bear", "risk analyst", "You see risk where others see growth."),
)
TOPIC = "Should we invest?"


def report(status: str = "CONTINUE", decision: str | None = None, summary: str = "They differ.") -> dict[str, Any]:
    """Create a moderator's answer as a model would write it."""
    return {"summary": summary, "status": status, "decision": decision}


SETTLED = report("SETTLED", "Invest half.", "They agree.")


def deal(**options: Any) -> Any:
    """Build a deliberation with two personas."""
    return deliberation(**with_policy({"name": "deal", "debaters": PERSONAS, **options}))


def by_role(*, reports: Callable[[ModelRequest], Any] | Any = SETTLED) -> FunctionModel:
    """Create a model that answers every default block; a persona's answer is the name of its block."""

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-moderator"):
            return reports(request) if callable(reports) else reports
        return f"said by {request.block}"

    return FunctionModel(answer)


def entries_of(raw: Any) -> list[tuple[int, str, str]]:
    """Return the round, speaker and text of each entry."""
    return [(entry.round, entry.name, entry.text) for entry in raw.history]


def losses_of(run: Any) -> list[tuple[int, str, str, str]]:
    """Return each failure's round, role, name and recovery."""
    return [(loss.round, loss.role, loss.name, loss.instead) for loss in run.raw.losses]
