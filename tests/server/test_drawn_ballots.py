"""Verdicts as shown on pages: a single ballot appears once, and a sentence says when the order decided the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import answer_debate, staged

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

PRO, CON = "We should ship", "We should not ship"


def judge_first_read(request: ModelRequest) -> str | dict[str, Any]:
    """Judge in favor of the side that is read first."""
    if request.output_schema is None:
        return answer_debate(request)
    prompt = str(request.messages)
    first, other = sorted((PRO, CON), key=lambda stance: prompt.index(f"{stance}]"))
    verdict = {"reasoning": "It came first.", "verdict": "So it is."}
    if "scores" in request.output_schema["properties"]:
        return {**verdict, "scores": {first: 80, other: 20}}
    return {**verdict, "winner": first}


def test_single_ballot_is_displayed_once() -> None:
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_first_read))) as stage:
        run_id = stage.finished()
        page = stage.http.get(f"/runs/{run_id}").text
        assert "100 : 0" not in page
        assert "0 : 100" not in page
        assert "Ballot for" in page
        assert "Judge it in the other order (2 calls)" in page
        assert "The order mattered" not in page
        for path in (f"/compare?a={run_id}&b={run_id}", f"/runs/{run_id}/travel?step=1"):
            other = stage.http.get(path).text
            assert "100 : 0" not in other
            assert "0 : 100" not in other


def test_verdict_page_says_that_the_order_was_decisive() -> None:
    blocks: list[str] = []

    def answer(request: ModelRequest) -> Any:
        blocks.append(request.block)
        return judge_first_read(request)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.finished()
        blocks.clear()
        fork = stage.post(f"/runs/{run_id}/fork", {"options": {"schedule": "swap"}}).json()["runId"]
        assert stage.get(f"/runs/{fork}?wait=30").json()["status"] == "complete"
        assert blocks == ["debate-judge", "debate-synthesizer"]  # the fork reuses the run's ballot
        sentence = "The order mattered: each side won when it was read first."
        for path in (f"/runs/{fork}", f"/api/v1/runs/{fork}/report.md"):
            assert sentence in stage.http.get(path).text
        assert "It is a tie." in stage.http.get(f"/api/v1/runs/{fork}/report.md").text
        assert "Read it in the other order" not in stage.http.get(f"/runs/{fork}").text


@pytest.mark.parametrize("without", ["synthesizer", "both"])
def test_fork_that_reverses_the_order_makes_the_announced_number_of_calls(without: str) -> None:
    blocks: list[str] = []

    def answer(request: ModelRequest) -> Any:
        blocks.append(request.block)
        return judge_first_read(request)

    options: dict[str, Any] = {"max_rounds": 1, "schedule": "single", "synthesizer": False}
    if without == "both":
        options["answer_form"] = "scores"
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.finished(options=options)
        assert "Judge it in the other order (1 call)" in stage.http.get(f"/runs/{run_id}").text
        blocks.clear()
        fork = stage.post(f"/runs/{run_id}/fork", {"options": {"schedule": "swap"}}).json()["runId"]
        judging = stage.get(f"/runs/{fork}?wait=30").json()["document"]["raw"]["verdict"]["judging"]
        assert (blocks, len(judging["ballots"]), judging["flipped"]) == (["debate-judge"], 2, True)


def test_front_ends_judge_in_both_orders_by_default() -> None:
    """Debates with two sides are judged in both orders.

    The stored plan, the plan file and the generated program all state this default.
    """
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_first_read))) as stage:
        request = {"pattern": "debate", "question": "Should we ship?", "options": {"max_rounds": 1}}
        run = stage.get(f"/runs/{stage.finished(options=request['options'])}").json()
        judging = run["document"]["raw"]["verdict"]["judging"]
        assert (judging["schedule"], len(judging["ballots"])) == ("swap", 2)
        assert run["document"]["raw"]["verdict"]["winner"] is None
        forms = stage.post("/plans", request).json()
        assert 'schedule = "swap"' in forms["toml"]
        assert '"schedule": "swap"' in forms["python"]
        assert '"schedule": "swap"' in forms["curl"]
        three = {"debaters": [{"name": name, "stance": name} for name in ("Ann", "Ben", "Cleo")]}
        for options in (three, {"schedule": "single"}, {"humans": ["judge"]}, {"audience": ["a nurse"]}):
            toml = stage.post("/plans", {**request, "options": options}).json()["toml"]
            assert 'schedule = "swap"' not in toml
