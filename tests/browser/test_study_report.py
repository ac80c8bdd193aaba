"""The report of a study in a real browser: accessible at every width and in every theme, finished or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.evaluation.study_report import study_report
from tests.evaluation.test_study import made_up

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("answered", [9, 40])
def test_study_report_is_accessible(chromium: Browser, tmp_path: Path, answered: int, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    study, answers = made_up([(n % 3 > 0, n % 4 > 0) for n in range(40)])
    ballot = {"order": ["0", "1"], "scores": {"0": 0.8, "1": 0.2}, "winner": "0"}
    answers = [answer.model_validate({**answer.model_dump(), "ballots": [ballot]}) for answer in answers[:answered]]
    registered = study.registration(model="another-model")
    path = tmp_path / "report.html"
    path.write_text(study_report(study, answers, registration=registered).to_html(), "utf-8")
    page = chromium.new_page(color_scheme=scheme)
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    for width in (320, 360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        violations = axe.run(page).response["violations"]
        assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == []
    assert page.locator("svg[role=img]").count() == 3
    assert page.get_by_role("heading", level=2).all_inner_texts().count("Whom the judge reads first") == 1
    page.close()
    assert messages == []
