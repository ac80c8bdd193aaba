"""Debates in several scripts: all text has the right direction, and no page is wider than its window."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel, ModelResponse
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models.base import ModelRequest
    from tests.browser.visit import Visit
    from tests.server.stage import Stage

PICTURES = os.environ.get("FLOWDEBATE_PICTURES")
"""Folder for screenshots of the pages."""
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
MEDIA: tuple[tuple[Literal["screen", "print"], int], ...] = (("screen", 360), ("screen", 1280), ("print", 673))
"""Widths of a phone, a screen and an A4 page, in pixels."""
RIGHT_TO_LEFT = {"ar", "he", "fa"}
DIRECTIONS = """() => [...document.querySelectorAll(
    ".prose > p, .prose li, .prose blockquote, .prose td:first-child, .prose .table, h1, .sides .serif, .found > p"
)].filter(each => each.checkVisibility()).map(each => [each.localName, getComputedStyle(each).direction])"""
SIDES = """() => [...document.querySelectorAll(".prose > p, .prose td:first-child, .prose blockquote, .prose > ul")]
.filter(each => each.checkVisibility()).map(each => {
    const text = new Range(), box = each.getBoundingClientRect(), style = getComputedStyle(each);
    text.selectNodeContents(each);
    const begins = text.getBoundingClientRect();
    const [left, right] = [begins.left - box.left, box.right - begins.right];
    if (each.matches("blockquote")) return [each.localName, parseFloat(style.borderLeftWidth) ? "ltr" : "rtl"];
    if (each.matches("ul")) return [each.localName, parseFloat(style.paddingLeft) || left > right ? "ltr" : "rtl"];
    return [each.localName, right < 2 && left >= 2 ? "rtl" : left < 2 && right >= 2 ? "ltr" : "full"];
})"""
"""Script that returns the side on which each block starts, judging by its text, bar or bullets."""
SIGNS = """() => [...document.querySelectorAll(".prose td")].filter(each => each.textContent === "-4%").map(each => {
    const [sign, digit] = [0, 1].map(at => {
        const character = new Range();
        character.setStart(each.firstChild, at);
        character.setEnd(each.firstChild, at + 1);
        return character.getBoundingClientRect().left;
    });
    return sign <= digit;
})"""
"""Script that checks that the sign of each negative number is on its left."""


def block_text(language: str) -> str:
    """Return a contribution with every kind of block."""
    word, city = WORDS[language][5:]
    table = f"| {city} | {word} |\n|---|---|\n| {city} | 3 |\n| X | -4% |\n"
    return f"{word}\n\n- {word}\n- {city}\n\n1. {word}\n\n   {city}\n\n> {word}\n\n{table}"


class Polyglot:
    """Model that answers in the question's language.

    If the question contains a 2, the answers are longer; if it contains a 3, the answers never end.
    """

    name = "polyglot"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        prompt = "".join(str(message["content"]) for message in request.messages)
        language = next(language for language, words in WORDS.items() if words[1] in prompt)
        question = WORDS[language][0]
        reply = f"{block_text(language)}\n{question}\n" if f"{question} 2" in prompt else block_text(language)
        if request.output is not None:
            verdict = {"reasoning": reply, "winner": WORDS[language][1], "verdict": WORDS[language][5]}
            return await FunctionModel(lambda _: verdict).request(request)
        if f"{question} 3" in prompt and request.on_text is not None:
            for begin in range(0, len(reply), 5):
                request.on_text(reply[begin : begin + 5])
            await asyncio.Event().wait()
        return ModelResponse(text=reply)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve three debates in each language, one of them still running."""
    with staged(lambda: Service(store="memory:", model=Polyglot())) as stage:
        for language, (question, yes, no, one, other, *_) in WORDS.items():
            sides = [{"name": one, "stance": yes}, {"name": other, "stance": no}]
            options = {"max_rounds": 1, "debaters": sides}
            for run_id, run_question in (
                (language, question),
                (f"{language}2", f"{question} 2"),
                (f"{language}3", f"{question} 3"),
            ):
                stage.post(
                    "/runs", {"pattern": "debate", "question": run_question, "runId": run_id, "options": options}
                )
            for run_id in (language, f"{language}2"):
                state = stage.get(f"/runs/{run_id}?wait=30").json()
                assert state["status"] == "complete", [state.get("error"), state.get("problem")]
        yield stage


@pytest.mark.parametrize("language", WORDS)
def test_each_piece_of_text_has_its_own_direction(stage: Stage, visit: Callable[[str], Visit], language: str) -> None:
    visitor = visit(stage.url)
    expected = "rtl" if language in RIGHT_TO_LEFT else "ltr"
    pages = {
        "run": f"/runs/{language}",
        "live": f"/runs/{language}3",
        "blind": f"/runs/{language}/blind",
        "present": f"/runs/{language}/present#2",
        "compare": f"/compare?a={language}&b={language}2",
        "report": f"/api/v1/runs/{language}/report.html",
    }
    for name, path in pages.items():
        page = visitor.open(path)
        if name == "live":
            page.locator("#speaking td").last.wait_for()
        for medium, width in MEDIA:
            page.emulate_media(media=medium)
            page.set_viewport_size({"width": width, "height": 900})
            directions = page.evaluate(DIRECTIONS)
            assert directions, name
            assert {direction for _, direction in directions} == {expected}, (name, width, directions)
            beginnings = page.evaluate(SIDES)
            assert {kind for kind, _ in beginnings} >= {"p", "td", "blockquote", "ul"}, name
            signs = page.evaluate(SIGNS)
            assert signs, name
            assert all(signs), (name, width)
            assert {side for _, side in beginnings} - {"full"} == {expected}, (name, width, beginnings)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            if PICTURES:
                page.screenshot(path=Path(PICTURES) / f"{language}-{name}-{width}.png", full_page=name != "present")
        spoken = page.evaluate("[...document.querySelectorAll('.prose, h1, .found')].map(each => each.lang)")
        assert set(spoken) == {""}, name
        page.close()


def test_text_fields_follow_the_direction_of_the_input(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """For example, a question typed in Arabic runs from right to left."""
    page = visit(stage.url).open("/new?pattern=debate")
    field = page.locator("#question")
    field.fill(WORDS["ar"][0])
    assert field.evaluate("each => getComputedStyle(each).direction") == "rtl"
