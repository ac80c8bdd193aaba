"""Setup for docs/council.md."""

from __future__ import annotations

import re
from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest

OPINIONS = {"Ada": "Ship, if you can roll back.", "Ben": "Ship today.", "Cleo": "Wait for QA."}


def answer(request: ModelRequest) -> Any:
    """Give an opinion, rank the answers (best if they mention a way to roll back), or answer as the chair."""
    text = str(request.messages[-1]["content"])
    if "-reviewer-" in request.block:
        answers = re.findall(r"^\[Answer ([A-Z])\] (.*)$", text, re.MULTILINE)
        ranking = sorted(answers, key=lambda pair: ("roll back" not in pair[1], pair[1]))
        return {"ranking": [{"answer": letter, "reason": "It names a way back."} for letter, _ in ranking]}
    if request.block.endswith("-chair"):
        if "ship" in (request.output_schema or {})["properties"]:
            return {"ship": True, "condition": "A way to roll back."}
        return {"answer": "Ship today behind a flag that you can switch off.", "dissent": "Whether to wait for QA."}
    return OPINIONS[request.block.rpartition("-")[2]]


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that answers in every role."""
    page["model"] = FunctionModel(answer)
