"""Take screenshots for the README and docs: `pictures.py FOLDER` (needs Chromium and the group `pictures`).

The debate in the pictures is handwritten: a scripted model speaks it with pauses, at the pace of a real model.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chromium_browser import find
from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from flowdebate.models.base import Usage
from flowdebate.server import create_app
from flowdebate.server.app import serve
from flowdebate.service import Service
from flowdebate.testing import ModelResponse

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

_TOKEN = "of-the-pictures-alone"  # noqa: S105 - it opens nothing else
_QUESTION = "Should Harrow keep its open-air pool?"
_REPAIR, _REPLACE = "Harrow should repair the pool and keep it open", "Harrow should close it and build a covered one"
_SOURCES = {
    "survey.txt": (
        "Of 1,140 households that answered, 612 had used the pool in the last two summers. One in four of those came "
        "from streets without a garden. The reason that was given most often for staying away was the weather."
    ),
    "engineer.txt": (
        "The basin is sound. The pipes beneath it are not, and every repair since 2011 has moved the leak. Renewing "
        "them costs 1.9 million, after which nothing else is due for twenty-five years."
    ),
}
_TURNS = {
    ("Ines", 1): (
        "A pool is not a machine for laps. It is the only place in Harrow where a child from Mill Street and the "
        "doctor's child stand in the same queue, in the same state of undress, for the same ice cream. The survey "
        "counted it: “One in four of those came from streets without a garden.” For these families the meadow beside "
        "the water is the garden.\n\n"
        "And it can be saved. The engineer does not write like a man who sells repairs, and he writes this: “The "
        "basin is sound.” What leaks are the pipes. New ones cost 1.9 million, once, and then there is quiet for "
        "twenty-five years."
    ),
    ("Tomas", 1): (
        "I learned to swim in that pool, in eleven degrees. I mention it because I am told that whoever wants to close "
        "it cannot have loved it. But love is not a plan. In an ordinary year it is open for fourteen weeks, and in "
        "five of them it rains. Ask those who stay away, as the survey did: “The reason that was given most often for "
        "staying away was the weather.” No pipe repairs that.\n\n"
        "Meanwhile every third child here leaves primary school unable to swim, because there is no water from "
        "September to May. A covered pool teaches on two hundred days. If a pool is for everyone, let it be for "
        "everyone in February."
    ),
    ("Tomas", 2): (
        "Ines is right about the queue, and I take the point with me: a covered pool can have a meadow too, and the "
        "ground behind the school has one. What she leaves out is the second sentence of her engineer: “every repair "
        "since 2011 has moved the leak.” He promises that the ninth repair is the last. He may be right. I would not "
        "stake 1.9 million on it.\n\n"
        "The covered pool costs six, of which the state pays half, but only if we apply by spring. That offer has an "
        "end. The old pool will lose its water whether we mourn it or not."
    ),
    ("Ines", 2): (
        "Three million against two, then, and the three come with a heating bill that nobody has named. Tomas counts "
        "what the state gives once and forgets what the town pays every winter. Brenholt built such a pool, and "
        "“closed it again after six years, for the price of gas”.\n\n"
        "Teach the children, by all means. Two buses a week to the baths in Lund cost forty thousand a year, and they "
        "can begin in January. What cannot be bought anywhere is an afternoon in July on which half the town lies in "
        "the same grass. Whoever closes that does not get it back with a roof."
    ),
    ("Ines", 3): (
        "Five hundred and twenty-eight. I had read that line, and hoped that nobody would subtract. I cannot say "
        "that a pool is the town's meadow when nearly half of the town does not come, and I will not blame the ice "
        "cream.\n\n"
        "So build the roof, if the state pays half of it. But build it where the grass is, and keep the queue: one "
        "door, one price, and the meadow open to whoever only wants to lie in it."
    ),
}
_BEFORE, _AFTER = (
    "He may be right. ",
    "And for whom? “Of 1,140 households that answered, 612 had used the pool”: 528 had not. ",
)
_EDITED = 5
"""Step in which Tomas says `_BEFORE` or, in the fork, `_AFTER`."""
_BRIEFINGS = (
    (
        "What is a pool for?",
        "Both of you speak for the children. Say first what they need: water, or a place. Then say what it costs.",
    ),
    (
        "Which of the two could still be undone?",
        "You agree that the pipes cannot stay. Tomas, why should the ninth repair fail? Ines, who teaches in winter?",
    ),
)
_VERDICTS = (
    (
        (
            "Repair the pipes, put the lessons on the bus to Lund from January, and look at a roof again when the "
            "price of heating it is known."
        ),
        (
            "Both sides want children who can swim, and both showed how. Ines answered the strongest point against "
            "her, the winter without water, with a remedy that has a price. Tomas showed that eight repairs have "
            "failed, not why new pipes would; and the running costs on which his plan depends were asked for and "
            "never named. That Brenholt closed its pool is in none of the sources, and counted for nothing."
        ),
    ),
    (
        "Build the covered pool beside a meadow that stays open, and apply to the state by spring.",
        (
            "The survey that Ines brought was turned against her: 528 of 1,140 households had not come in two "
            "summers, and most named the weather, which no pipe repairs. She granted it, and asked for the meadow, "
            "which a covered pool can have. What heating costs was still not named; that is why the lead is small."
        ),
    ),
)
_SHARES = 0.63, 0.56, 0.41, 0.38
"""The judge's points for the open pool on each ballot: two in the debate, and two in its fork."""


class Author:
    """Model that answers with the texts above, word by word."""

    name = "written by hand"

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._said: dict[str, int] = {}

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        number = self._said[request.block] = self._said.get(request.block, 0) + 1
        await asyncio.sleep(12 * self._pause)
        prompt = sum(len(str(message["content"])) for message in request.messages) // 4
        answer = self._answer(request, number)
        if isinstance(answer, dict):
            return ModelResponse(data=answer, usage=_usage(prompt, len(str(answer)) // 4))
        for word in answer.split(" "):
            if request.on_text is not None:
                request.on_text(f"{word} ")
            await asyncio.sleep(self._pause / 4)
        return ModelResponse(text=answer, usage=_usage(prompt, len(answer) // 4))

    def _answer(self, request: ModelRequest, number: int) -> str | dict[str, Any]:
        role = request.block.rsplit("-", 1)[-1]
        if role == "moderator":
            angle, briefing = _BRIEFINGS[number - 1]
            order = ["Ines", "Tomas"] if number == 1 else ["Tomas", "Ines"]
            return {"next_speakers": order, "briefing": briefing, "new_angle": angle, "done": number == len(_BRIEFINGS)}
        if role == "judge":
            verdict, reasoning = _VERDICTS[number > 2]  # noqa: PLR2004 - asked in two orders, then in the fork
            return {
                "verdict": verdict,
                "reasoning": reasoning,
                "scores": {_REPAIR: _SHARES[number - 1], _REPLACE: 1 - _SHARES[number - 1]},
            }
        return _TURNS[role, number]


def _usage(prompt: int, completion: int) -> Usage:
    return Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=0)


class Server:
    """Server for the pictures, running in a thread."""

    def __init__(self, pause: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._pause = pause
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    async def _serve(self) -> None:
        service = Service(store="memory:", model=Author(self._pause))
        await serve(create_app(service, token=_TOKEN), port=self.port)

    @property
    def url(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self.port}"


_BODY = {
    "pattern": "debate",
    "question": _QUESTION,
    "runId": "harrow-pool",
    "options": {
        "debaters": [{"name": "Ines", "stance": _REPAIR}, {"name": "Tomas", "stance": _REPLACE}],
        "moderator": True,
        "schedule": "swap",
        "sources": _SOURCES,
        "synthesizer": False,
    },
}


def photograph(browser: Browser, server: Server, folder: Path) -> None:
    """Take all pictures: the run in progress, and every page of the finished run."""
    fork = film(browser, server, folder / "debate.webp")
    for scheme in ("light", "dark"):
        page = browser.new_context(
            viewport={"width": 1280, "height": 860}, color_scheme=scheme, device_scale_factor=1
        ).new_page()
        page.goto(f"{server.url}/?token={_TOKEN}")
        pages = page.url.rstrip("/")
        for name, path in _PAGES.items():
            for width, height in _HEIGHTS.items():
                page.set_viewport_size({"width": width, "height": height})
                page.goto(pages + path.format(fork=fork))
                page.wait_for_timeout(200)
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
        page.context.close()
    for picture in folder.glob("*.png"):
        _shrink(picture)


def film(browser: Browser, server: Server, path: Path) -> str:  # noqa: PLR0915 - one thing after the other
    """Record a debate, a changed sentence, and the new verdict; return the fork's id."""
    page = browser.new_context(viewport=_FILM, device_scale_factor=1).new_page()
    frames: list[tuple[Image.Image, int]] = []
    live = path.with_name("live-1280-light.png")
    live.unlink(missing_ok=True)

    def take(milliseconds: int) -> None:
        """Take a frame with this duration."""
        frames.append((Image.open(BytesIO(page.screenshot())).convert("RGB"), milliseconds))

    def follow(*, every: int, duration: int) -> None:
        """Take frames until the verdict appears, and show the verdict."""
        latest = page.get_by_role("button", name="Jump to latest")
        while not page.locator("#verdict").count():
            if page.locator("#turn-3").count() and not live.exists():
                page.set_viewport_size({"width": 1280, "height": 860})
                page.wait_for_timeout(500)
                page.screenshot(path=live)
                page.set_viewport_size(_FILM)
            if latest.is_visible():
                latest.click()
            take(duration)
            page.wait_for_timeout(every)
        page.locator("#verdict").scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.querySelector('#verdict').offsetTop - 70)")
        page.wait_for_timeout(500)
        take(4_000)

    page.goto(f"{server.url}/?token={_TOKEN}")
    pages = page.url.rstrip("/")
    response = page.context.request.post(f"{pages}/api/v1/runs", data=_BODY, headers={"origin": server.url})
    if not response.ok:
        raise SystemExit(response.text())
    page.goto(f"{pages}/runs/harrow-pool")
    page.locator("#speaking .turn p").first.wait_for(timeout=120_000)
    take(1_500)
    follow(every=1_300, duration=300)
    page.goto(f"{pages}/runs/harrow-pool/travel?step={_EDITED}")
    field = page.get_by_role("textbox", name="Tomas")
    field.scroll_into_view_if_needed()
    page.evaluate("scrollBy(0, 120)")
    take(1_200)
    begin = field.input_value().index(_BEFORE)
    field.evaluate(f"field => field.setSelectionRange({begin}, {begin + len(_BEFORE)})")
    field.focus()
    take(1_200)
    for piece in _AFTER.split(" ")[:-1]:
        page.keyboard.insert_text(f"{piece} ")
        take(140)
    take(1_500)
    page.get_by_role("button", name=f"Fork from step {_EDITED}").click()
    page.wait_for_url(f"{pages}/runs/*")
    follow(every=1_300, duration=300)
    fork = page.url.rpartition("/")[2]
    page.context.close()
    pictures, durations = zip(*frames, strict=True)
    pictures[0].save(
        path, "WEBP", save_all=True, append_images=pictures[1:], duration=list(durations), loop=0, quality=40, method=6
    )
    return fork


_FILM: ViewportSize = {"width": 960, "height": 620}
_HEIGHTS = {1280: 860, 768: 860, 360: 740}
_PAGES = {
    "run": "/runs/harrow-pool",
    "compare": "/compare?a=harrow-pool&b={fork}",
    "runs": "/",
    "new": "/new",
    "travel": "/runs/harrow-pool/travel?step=5",
    "blind": "/runs/harrow-pool/blind",
    "audit": "/audit",
    "present": "/runs/harrow-pool/present#3",
    "report": "/api/v1/runs/harrow-pool/report.html",
}


def _shrink(picture: Path) -> None:
    """Reduce the picture to 256 colors, which suffice because pages use few."""
    small = BytesIO()
    Image.open(picture).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    picture.write_bytes(small.getvalue())


def main() -> None:
    """Take the pictures."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    program = find()
    if program is None:
        raise SystemExit("Chromium is not installed: scripts/chromium install")
    with sync_playwright() as driver, driver.chromium.launch(executable_path=program) as browser:
        photograph(browser, Server(pause=0.25), folder)


if __name__ == "__main__":
    main()
