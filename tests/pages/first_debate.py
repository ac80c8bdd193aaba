"""Setup for docs/first-debate.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import ScriptedModel

ARGUMENTS = ("Families are free on Sundays.", "Nobody would be paid for it.")
VERDICT = {
    "reasoning": "Only Ada said who would come.",
    "winner": "the library should open on Sundays",
    "verdict": "Open it.",
}


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that supplies all answers in a whole debate."""
    page["model"] = ScriptedModel(*ARGUMENTS, VERDICT, "Open on Sundays, with paid staff.")


def arguments(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that only argues."""
    page["model"] = ScriptedModel(*ARGUMENTS)
