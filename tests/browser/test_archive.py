from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.service import Service
from tests.patterns.consensus.debates import model
from tests.server.stage import staged
from tests.server.test_archive import answer_vote, finish_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.visit import Visit


def test_archived_debate_can_be_corrected_and_deleted(visit: Callable[[str], Visit]) -> None:
    with staged(lambda: Service(store="memory:", model=model(answer_vote))) as stage:
        finish_run(stage.http, "first")
        page = visit(stage.url).open("/")
        page.get_by_role("link", name="Archive").click()
        page.get_by_text("cy disagreed: cy says so.").wait_for()
        page.get_by_label("Agent").select_option("cy")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("cy turned out right.").wait_for()
        page.get_by_label("Answer").fill("Build more.")
        page.get_by_role("button", name="Save").click()
        page.get_by_role("paragraph").filter(has_text="Build more.").wait_for()
        assert stage.get("/archive").json()[0]["recorded"]["right"] == "cy"
        page.evaluate("window.confirm = () => true")
        page.get_by_role("button", name="Delete").click()
        page.get_by_text("The archive has no consensus debates yet.").wait_for()
