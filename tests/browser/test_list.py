"""The run list: results, comparisons, costs, and the page shown before the first run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Limits, Price
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import QUESTION, staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import ModelRequest
    from tests.browser.visit import Visit

SIDES = [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]


def judge_answer(request: ModelRequest) -> Any:
    """Return a verdict for Ann."""
    return {"reasoning": "-", "winner": "Ship", "verdict": "Ship."} if request.output_schema else "So it is."


def test_run_list_shows_results_and_links_to_a_comparison(visit: Callable[[str], Visit]) -> None:
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_answer))) as stage:
        page = visit(stage.url).open("/")
        page.get_by_text("No runs yet.").wait_for()
        assert page.locator("a[href*='/new?pattern=']").count() > 0
        page.get_by_role("link", name="Start a debate").wait_for()
        for name in ("one", "two"):
            options = {"max_rounds": 1, "debaters": SIDES, "synthesizer": False}
            stage.finished(runId=name, options=options, labels={"team": "red"})
        page.reload()
        row = page.locator("table.list tbody tr").last
        text = " ".join(row.inner_text().split())
        for label in (QUESTION, "Debate: Ann, Ben", "function", "team red", " s "):
            assert label in text
        assert row.locator("td").nth(1).inner_text() == "Ann: Ship"
        page.get_by_role("button", name="Compare two").click()
        page.get_by_role("heading", name="Incomplete address").wait_for()
        page.go_back()
        for box in page.get_by_role("checkbox").all():
            box.check()
        page.get_by_role("button", name="Compare two").click()
        page.get_by_text("Side by side").wait_for()
        assert page.locator(".kicker [title]").all_inner_texts() == ["one", "two"]
        page.goto(f"{stage.pages}/runs/one")
        page.locator("#noted > summary").click()
        page.get_by_label("Note on this run").fill("For the board.")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved.").wait_for()
        page.goto(f"{stage.pages}/")
        page.locator("table.list").get_by_text("For the board.").wait_for()
        assert "For the board." in stage.get("/runs/one/export.jsonl").text


def test_run_list_shows_costs(visit: Callable[[str], Visit]) -> None:
    """Costs are shown only if the server knows the models' prices."""
    limits = Limits(calls=100, prices={"function": Price(prompt=1.0, completion=1.0)})
    sides = [{"name": "Maximiliane-Alexandra von Wolfenbach", "stance": "Ship"}, SIDES[1]]
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_answer), limits=limits)) as stage:
        options = {"max_rounds": 1, "debaters": sides, "synthesizer": False}
        run_id = stage.finished(question=QUESTION * 15, options=options)
        [run] = stage.get("/runs").json()["runs"]
        assert run["runId"] == run_id
        assert set(run["summary"]) == {"speakers", "decision", "models", "cost", "prices"}
        page = visit(stage.url).open("/")
        assert run["summary"]["cost"] > 0
        page.get_by_role("columnheader", name="Cost").wait_for()
        for width in (768, 1280):  # even with a cost column, words must not wrap letter by letter
            page.set_viewport_size({"width": width, "height": 800})
            box = page.get_by_role("columnheader", name="Result").bounding_box()
            assert box is not None
            assert box["height"] < 40, width
            status = page.get_by_role("columnheader", name="Status").bounding_box()
            assert status is not None
            assert status["width"] < 110, width


def test_run_list_describes_decisions_and_failures(visit: Callable[[str], Visit]) -> None:
    replies: dict[str, Any] = {
        "Ship the spring release?": {
            "summary": "They agree.",
            "status": "SETTLED",
            "decision": "**Ship** it in May. Then look again.",
        },
        "Ship the autumn release?": {"summary": "They agree.", "status": "perhaps", "decision": None},
    }

    def moderate(request: ModelRequest) -> Any:
        question = next(question for question in replies if question in str(request.messages))
        return "So it is." if request.output_schema is None else replies[question]

    with staged(lambda: Service(store="memory:", model=FunctionModel(moderate))) as stage:
        for question in replies:
            run_id = stage.begin(pattern="deliberation", question=question, options={"max_rounds": 1})
            stage.get(f"/runs/{run_id}?wait=30")
        page = visit(stage.url).open("/")
        failed, settled = page.locator("table.list tbody tr").all()
        assert settled.locator("td").nth(1).inner_text() == "Ship it in May."
        assert failed.locator("small").inner_text().endswith("· a model's answer could not be read")
        page.get_by_role("columnheader", name="Compare").wait_for()
