"""Typical model output: formulas, task lists, right-to-left scripts, and one or two ballots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import QUESTION, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models.base import ModelRequest
    from tests.browser.visit import Visit
    from tests.server.stage import Stage

CALLERS: list[str | None] = []
"""Blocks that called the model, in order."""
SIDES = [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]
TEXT = r"""## Costs

The latency is $E[L] = \frac{1}{\mu - \lambda}$ for \$5 to $10 a month, and

$$ \sum_{i=1}^{n} p_i \cdot \ell_i $$

- [x] Migrations are scripted
- [ ] Rollback was **never** tested

مرحبا بالعالم، هذا نص تجريبي.
"""


def answer(request: ModelRequest) -> Any:
    """Return TEXT as a debater, and prefer a side as the judge.

    If the judge is asked for a winner, it names Ship; if asked for scores, it favors the side read first.
    """
    CALLERS.append(request.block)
    if request.output_schema is None:
        return TEXT
    properties = request.output_schema["properties"]
    if "scores" not in properties:
        return {"reasoning": "-", "winner": "Ship", "verdict": "Ship: $p < 0.05$."}
    scores = request.output_schema["$defs"][properties["scores"]["$ref"].rpartition("/")[2]]["properties"]
    return {"reasoning": "-", "scores": {name: 8 - index for index, name in enumerate(scores)}, "verdict": "Ship."}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve a finished debate with a single judge call."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as shared_stage:
        options = {"max_rounds": 1, "debaters": SIDES, "synthesizer": False, "schedule": "single"}
        shared_stage.finished(runId="once", question=QUESTION, options=options)
        yield shared_stage


@pytest.mark.parametrize("width", [360, 1280])
def test_formulas_task_lists_and_text_direction_are_rendered(
    stage: Stage, width: int, visit: Callable[[str], Visit]
) -> None:
    page = visit(stage.url).open("/runs/once")
    page.set_viewport_size({"width": width, "height": 800})
    turn = page.locator("article.turn").first
    formulas = turn.locator("math")
    assert formulas.count() == 2
    for formula in formulas.all():
        box = formula.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 10
    assert turn.locator("mfrac").count() == 1
    words = turn.inner_text()
    assert "$$" not in words
    assert "for $5 to $10 a month" in " ".join(words.split())
    assert [box.inner_text() for box in turn.locator(".task").all()] == ["☑", "☐"]
    assert page.locator("#verdict math").count() == 1
    begins = turn.locator("p").last.evaluate(
        """paragraph => {
            const range = document.createRange();
            range.setStart(paragraph.firstChild, 0);
            range.setEnd(paragraph.firstChild, 1);
            return paragraph.getBoundingClientRect().right - range.getBoundingClientRect().right;
        }"""
    )
    assert begins < 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_page_names_are_not_wrapped_on_a_phone(stage: Stage, visit: Callable[[str], Visit]) -> None:
    page = visit(stage.url).open("/help/index")
    page.set_viewport_size({"width": 360, "height": 800})
    for name in ("Consensus", "Other frameworks", "Your documents"):
        boxes = page.get_by_role("link", name=name, exact=True).first.evaluate("link => link.getClientRects().length")
        assert boxes <= len(name.split()), name
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_single_ballot_has_no_bar_and_a_button_requests_the_reverse_order(
    stage: Stage, visit: Callable[[str], Visit]
) -> None:
    """A bar showing 100 : 0 would overstate a single ballot.

    The button requests one more ballot, in the reverse order. In this test, the two ballots then show that the order
    decided the outcome.
    """
    before = [*CALLERS]
    page = visit(stage.url).open("/runs/once")
    ballots = page.locator("#ballots")
    assert ballots.locator("svg.share").count() == 0
    assert "100" not in ballots.inner_text()
    ballots.get_by_text("The judge read the debate once.").wait_for()
    page.get_by_role("button", name="Judge it in the other order (1 call)").click()
    page.wait_for_url(lambda address: not address.endswith("/runs/once"))
    page.get_by_text("The judge read the debate twice, each time in another order.").wait_for()
    assert page.locator("#ballots tbody tr").count() == 2
    assert page.get_by_role("button", name="Judge it in the other order").count() == 0
    assert CALLERS[len(before) :] == ["debate-judge"]
