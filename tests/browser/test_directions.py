"""Debates in languages of several scripts: each text has its own direction, and no page is wider than its window."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models.base import ModelRequest
    from tests.browser.visit import Visit
    from tests.server.stage import Stage

PICTURES = os.environ.get("FLOWDEBATE_PICTURES")
"""A folder for pictures of the pages, to look at them."""
WORDS = {
    "ar": ("هل يجب تحديد الإيجارات؟", "نعم، حدّدوها", "لا، ابنوا أكثر", "ليلى", "عمر", "ارتفعت «الإيجارات».", "برلين"),
    "he": ("האם להגביל שכר דירה?", "כן, הגבילו", "לא, בנו עוד", "נועה", "דוד", "השכר «עלה».", "ברלין"),
    "fa": (
        "کرایه می‌خواهید محدود شود؟",
        "بله، محدود شود",
        "نه، بسازید",
        "لیلا",
        "رضا",
        "اجاره «بالا» رفت.",
        "برلین",
    ),
    "hi": (
        "क्या किराए पर सीमा होनी चाहिए?",
        "हाँ, सीमा लगाएँ",
        "नहीं, और बनाएँ",
        "प्रिया",
        "अमित",
        "किराया «बढ़ा» है।",
        "बर्लिन",
    ),
    "zh": ("应该限制房租还是多建住房", "限制房租", "多建住房", "李明", "王芳", "“房租”上涨了。", "柏林"),
}
RIGHT_TO_LEFT = {"ar", "he", "fa"}
DIRECTIONS = """() => [...document.querySelectorAll(
    ".prose > p, .prose li, .prose blockquote, .prose td:first-child, .prose .table, h1, .sides .serif, .found > p"
)].filter(each => each.checkVisibility()).map(each => [each.localName, getComputedStyle(each).direction])"""


def text(language: str) -> str:
    """What somebody says, with all kinds of blocks."""
    word, city = WORDS[language][5:]
    table = f"| {city} | {word} |\n|---|---|\n| {city} | 3 |\n"
    return f"{word}\n\n- {word}\n- {city}\n\n1. {word}\n\n   {city}\n\n> {word}\n\n{table}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A server with a debate in each language."""

    def answer(request: ModelRequest) -> Any:
        prompt = "".join(str(message) for message in request.messages)
        language = next(language for language, words in WORDS.items() if words[1] in prompt)
        if request.output_schema is not None:
            return {"reasoning": text(language), "winner": WORDS[language][1], "verdict": WORDS[language][5]}
        return text(language)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        for language, (question, yes, no, one, other, *_) in WORDS.items():
            sides = [{"name": one, "stance": yes}, {"name": other, "stance": no}]
            options = {"max_rounds": 1, "debaters": sides}
            stage.post("/runs", {"pattern": "debate", "question": question, "runId": language, "options": options})
            state = stage.get(f"/runs/{language}?wait=30").json()
            assert state["status"] == "complete", [state.get("error"), state.get("problem")]
        yield stage


@pytest.mark.parametrize("language", WORDS)
def test_each_text_has_its_own_direction(stage: Stage, visit: Callable[[str], Visit], language: str) -> None:
    """On the page of the run, its slides, the blind reading and the report, on a phone and on a screen."""
    there = visit(stage.url)
    wanted = "rtl" if language in RIGHT_TO_LEFT else "ltr"
    pages = {
        name: f"/runs/{language}{path}" for name, path in {"run": "", "blind": "/blind", "present": "/present"}.items()
    }
    for name, path in {**pages, "report": f"/api/v1/runs/{language}/report.html"}.items():
        page = there.open(path)
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            directions = page.evaluate(DIRECTIONS)
            assert directions, name
            assert {direction for _, direction in directions} == {wanted}, (name, width, directions)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            if PICTURES:
                page.screenshot(path=Path(PICTURES) / f"{language}-{name}-{width}.png", full_page=name != "present")
        spoken = page.evaluate("[...document.querySelectorAll('.prose, h1, .found')].map(each => each.lang)")
        assert set(spoken) == {""}, name
        page.close()


def test_text_fields_take_the_direction_of_what_is_typed(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """Whoever begins a debate in Arabic writes from the right."""
    page = visit(stage.url).open("/new?pattern=debate")
    field = page.locator("#question")
    field.fill(WORDS["ar"][0])
    assert field.evaluate("each => getComputedStyle(each).direction") == "rtl"
