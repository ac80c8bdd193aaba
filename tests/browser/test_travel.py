"""Earlier steps of a run, reached with the slider, and forks from them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.visit import Visit
    from tests.server.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Serve a model that answers immediately."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


def test_run_can_be_forked_from_the_slider(stage: Stage, visit: Callable[[str], Visit]) -> None:
    run_id = stage.finished()
    page = visit(stage.url).open(f"/runs/{run_id}")
    page.get_by_role("link", name="Time travel").click()
    slider = page.get_by_role("slider", name="Step")
    slider.press("ArrowRight")
    field = page.get_by_role("textbox", name="con")
    field.wait_for()
    assert page.url.endswith("?step=2")
    assert slider.get_attribute("aria-valuetext") == "2 con, step 2 of 4"
    assert page.get_by_text("will be asked again; at most 1 answer reused").is_visible()
    field.fill("We should wait.")
    assert page.get_by_text("At least 1 answer reused").is_visible()
    page.get_by_role("button", name="Fork from step 2").click()
    page.locator("#verdict").wait_for()
    page.get_by_role("link", name="Compare with the original").click()
    page.get_by_text("step 2, changed by hand").wait_for()
    assert page.locator("ins").all_inner_texts() == ["We should wait."]
    page.goto(f"{stage.pages}/runs/{run_id}/travel")
    assert page.get_by_role("link", name="con changed").is_visible()


def test_finished_debate_can_be_continued_with_a_question(stage: Stage, visit: Callable[[str], Visit]) -> None:
    run_id = stage.finished()
    visitor = visit(stage.url)
    page = visitor.open(f"/runs/{run_id}")
    page.get_by_role("textbox", name="Continue the debate").fill("What would <b>it</b> cost?")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="Compare with the original").wait_for()
    page.locator("#verdict").wait_for()
    assert not page.url.endswith(run_id)
    assert page.get_by_text("What would <b>it</b> cost?").is_visible()
    assert page.get_by_role("heading", name="Round 2").is_visible()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", name="Round 3").wait_for()
    stage.http.delete(f"/api/v1/runs/{run_id}")
    visitor.open(f"/runs/{page.url.rpartition('/')[2]}")


def test_problems_are_shown_beside_the_answer(stage: Stage, visit: Callable[[str], Visit]) -> None:
    run_id = stage.finished()
    visitor = visit(stage.url)
    page = visitor.open(f"/runs/{run_id}/travel?step=3")
    field = page.get_by_role("textbox", name="Judge")
    field.fill(field.input_value().replace("null", '"nobody"'))
    page.get_by_role("button", name="Fork from step 3").click()
    page.get_by_text('Winner must be "We should ship" or "We should not ship", or null (got nobody)').wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    assert page.url.endswith("?step=3")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Ask again from step 3").click()
    page.get_by_role("link", name="Compare with the original").wait_for()
    assert re.fullmatch(rf"{stage.pages}/runs/\w+", page.url)
    visitor.problems.clear()  # the browser logs the 422


def test_readers_vote_blind(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """The verdict is hidden until the reader votes. From then on, it is shown beside the vote, even on later visits."""
    run_id = stage.finished()
    visitor = visit(stage.url)
    page = visitor.open(f"/runs/{run_id}/blind")
    assert page.get_by_text("Wait a week.").count() == 0
    first = page.locator(".sides .serif").first.inner_text()
    page.get_by_role("radio", name="Side A").check()
    page.get_by_role("textbox", name="Why").fill("It had figures.")
    page.get_by_role("button", name="Vote").click()
    page.get_by_text("Wait a week.").wait_for()
    assert page.get_by_text("It had figures.").is_visible()
    assert stage.get(f"/runs/{run_id}/votes").json()["sides"][first] == 1
    again = visitor.open(f"/runs/{run_id}/blind")
    again.get_by_text("You have voted").wait_for()


def test_debate_with_a_single_ballot_can_be_judged_in_the_other_order(
    stage: Stage, visit: Callable[[str], Visit]
) -> None:
    run_id = stage.finished()
    page = visit(stage.url).open(f"/runs/{run_id}")
    page.get_by_role("button", name="Judge it in the other order").click()
    page.wait_for_url(lambda url: "/runs/" in url and run_id not in url)
    fork = page.url.rpartition("/")[2].partition("?")[0]
    assert stage.get(f"/runs/{fork}").json()["parent"] == run_id
