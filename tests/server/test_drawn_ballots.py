"""What a judge decided, as pages draw it: one ballot is one ballot, and an order that decided is said in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import debater, staged

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

PRO, CON = "We should ship", "We should not ship"


def first_reader(request: ModelRequest) -> str | dict[str, Any]:
    """A judge that finds for whoever it reads first."""
    if request.output_schema is None:
        return debater(request)
    prompt = str(request.messages)
    first, other = sorted((PRO, CON), key=lambda stance: prompt.index(f"{stance}]"))
    verdict = {"reasoning": "It came first.", "verdict": "So it is."}
    if "scores" in request.output_schema["properties"]:
        return {**verdict, "scores": {first: 80, other: 20}}
    return {**verdict, "winner": first}


def test_one_ballot_is_drawn_as_one_ballot() -> None:
    """Not as a share of everything; the page offers to read it in both orders, and says what that takes."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(first_reader))) as stage:
        run_id = stage.finished()
        page = stage.http.get(f"/runs/{run_id}").text
        assert "100 : 0" not in page
        assert "0 : 100" not in page
        assert "Ballot for" in page
        assert "Read it in both orders (3 calls)" in page
        assert "The order mattered" not in page
        for path in (f"/compare?a={run_id}&b={run_id}", f"/runs/{run_id}/travel?step=1"):
            other = stage.http.get(path).text
            assert "100 : 0" not in other
            assert "0 : 100" not in other


def test_a_verdict_says_that_the_order_decided() -> None:
    """In words, on the page and in the report; what the page offers makes as many calls as it says."""
    asked: list[str] = []

    def answer(request: ModelRequest) -> Any:
        asked.append(request.block)
        return first_reader(request)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.finished()
        asked.clear()
        fork = stage.post(f"/runs/{run_id}/fork", {"options": {"schedule": "swap"}}).json()["runId"]
        assert stage.get(f"/runs/{fork}?wait=30").json()["status"] == "complete"
        assert len(asked) == 3
        said = "The order mattered: each side won when it was read first."
        for path in (f"/runs/{fork}", f"/api/v1/runs/{fork}/report.md"):
            assert said in stage.http.get(path).text
        assert "Read it in both orders" not in stage.http.get(f"/runs/{fork}").text
