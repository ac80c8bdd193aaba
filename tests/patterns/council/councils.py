"""Councils for tests: members and reviewers whose answers depend only on the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flowdebate import council
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models import ModelRequest

NAMES = ("Ann", "Bea", "Cid", "Dov", "Eve")
QUESTION = "Should we ship today?"


def letters_in(request: ModelRequest) -> list[str]:
    """Return the answers' letters in the reviewer's or chair's prompt, in order."""
    return re.findall(r"^\[Answer ([A-Z]+)\]", str(request.messages[-1]["content"]), re.MULTILINE)


def reply(request: ModelRequest) -> Any:
    """Return an opinion, a ranking in prompt order, or the chair's answer."""
    if "-reviewer-" in request.block:
        return {"ranking": [{"answer": letter, "reason": f"{letter} is sound."} for letter in letters_in(request)]}
    if request.block.endswith("-chair"):
        return {"answer": "Wait a week.", "dissent": "How long to wait."}
    return f"Wait, says the block {len(request.block)}."


_TEXTS = {"Ann": "Boldly.", "Bea": "At once.", "Cid": "Carefully."}


def by_text(request: ModelRequest) -> Any:
    """Answer like `reply`, but rank by text so that the order in the prompt does not matter."""
    if "-member-" in request.block:
        return _TEXTS[request.block.rpartition("-")[2]]
    if "-reviewer-" not in request.block:
        return reply(request)
    answers_ = re.findall(r"^\[Answer ([A-Z]+)\] (.*)$", str(request.messages[-1]["content"]), re.MULTILINE)
    ranked = sorted(answers_, key=lambda pair: pair[1])
    return {"ranking": [{"answer": letter, "reason": "-"} for letter, _ in ranked]}


def run_council(names: Sequence[str] = NAMES[:3], *, model: Any = None, seed: int = 7, **options: Any) -> Any:
    """Run a council on `QUESTION`, with `names` as its members."""
    pattern = council(name="ship", members=[{"name": name} for name in names], **options)
    return pattern.run_sync(QUESTION, model=FunctionModel(reply) if model is None else model, seed=seed)
