"""Paid calls whose answers were rejected, as shown in the trace of their run."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import answer_debate, staged

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

OPTIONS = {"max_rounds": 1, "schedule": "single", "attempts": 3, "synthesizer": False}


def model_with_invalid_winners(refusals: int) -> Any:
    """Create a model whose judge names an unknown side the given number of times."""
    remaining = [refusals]

    def answer(request: ModelRequest) -> str | dict[str, Any]:
        if request.output_schema is not None and remaining[0]:
            remaining[0] -= 1
            return {"reasoning": "r", "winner": f"Mars {remaining[0]}", "verdict": "x"}
        return answer_debate(request)

    return FunctionModel(answer)


def read_trace(page: str) -> tuple[int, list[str]]:
    """Return the number of requests that a page shows, and the rejected answers shown on it."""
    tries = re.search(r'<tr id="steps-sum">.*?<td class="num">(\d+)</td>', page, re.DOTALL)
    assert tries is not None
    return int(tries[1]), re.findall(r"Mars \d", unescape(page[page.index('id="trace"') :]))


@pytest.mark.parametrize(("refusals", "status"), [(1, "complete"), (3, "no_verdict")])
def test_rejected_answers_are_in_the_trace(refusals: int, status: str) -> None:
    with staged(lambda: Service(store="memory:", model=model_with_invalid_winners(refusals))) as stage:
        run_id = stage.begin(options=OPTIONS)
        run = stage.get(f"/runs/{run_id}?wait=30").json()
        assert run["status"] == status
        calls, answers = read_trace(stage.http.get(f"/runs/{run_id}").text)
        assert calls == run["usage"]["calls"]
        assert len(set(answers)) == refusals
