"""Setup for docs/clients.md: servers for its OpenAI clients and its AG-UI front ends."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

from flowdebate.service import Service
from flowdebate.testing import FunctionModel, ModelRequest
from tests.server.stage import TOKEN, staged

TEXTS = {
    "rent-debater-pro": "Rents rose by 12% last year.",
    "rent-debater-con": "A cap stops new homes.",
    "rent-synthesizer": "Cap rents for three years, and build.",
}
VERDICT = {"reasoning": "The figure was not disputed.", "winner": "Rents should be capped", "verdict": "Cap rents."}


def answer_openai(request: ModelRequest) -> Any:
    """Argue, judge, or fill in the page's schema."""
    fields = set((request.output_schema or {}).get("properties", ()))
    if "steps" in fields:
        return {"steps": ["cap rents", "build homes"]}
    if not fields:
        return TEXTS.get(request.block, "Both have a point.")
    return VERDICT if str(VERDICT["winner"]) in json.dumps(request.output_schema) else {**VERDICT, "winner": None}


def answer_ag_ui(request: ModelRequest) -> Any:
    """Argue or judge."""
    return VERDICT if request.output_schema else f"{request.block.rpartition('-')[2]} has a point."


def serve_openai(page: dict[str, Any]) -> None:
    """Serve the page's debate to OpenAI clients, at `url` with `token`."""
    stack = page["stack"] = ExitStack()
    services = {"rent": page["rent"]}
    model = FunctionModel(answer_openai)
    stage = stack.enter_context(staged(lambda: Service(services, store="memory:", model=model), openai=True))
    page.update(url=stage.url, token=TOKEN)


def close_openai(page: dict[str, Any]) -> None:
    """Close the client, then its server."""
    page["client"].close()
    page["stack"].close()


def serve_ag_ui(page: dict[str, Any]) -> None:
    """Serve the page's debate to AG-UI front ends, with an `http` client that sends the token."""
    stack = page["stack"] = ExitStack()
    services = {"rent": page["rent"]}
    model = FunctionModel(answer_ag_ui)
    stage = stack.enter_context(staged(lambda: Service(services, store="memory:", model=model), ag_ui=True))
    page.update(http=stage.http, url=stage.url)


def close_ag_ui(page: dict[str, Any]) -> None:
    """Close the server."""
    page["stack"].close()
