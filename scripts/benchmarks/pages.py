"""Pages in a real Chromium: a long list, a long run, and text that streams fast (needs the group `browser`).

Each figure is for one page as measured in the browser: the time until layout is complete, the bytes transferred, and
the longest time that the main thread was blocked while a model wrote 200 tokens per second.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chromium_browser import find

from flowdebate.server import create_app
from flowdebate.server.app import Server, serve
from flowdebate.service import Service
from flowdebate.testing import ModelResponse

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from flowdebate.testing import ModelRequest

_TOKEN = "of-the-benchmarks-alone"  # noqa: S105 - it opens nothing else
_RUNS, _TURNS, _CHARACTERS, _SECONDS, _RATE = 2_000, 200, 4_000, 30, 200
_WORDS = "rents rose where nobody built and fell where somebody did so count the cranes before you count the tenants"
_SIDES = [{"name": "pro", "stance": "cap rents"}, {"name": "con", "stance": "free rents"}]


class _Writer:
    """Model that answers immediately, or writes `_RATE` tokens per second for `_SECONDS`."""

    name = "writer"
    slow = False
    characters = 200

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        if request.output is not None:
            return ModelResponse(data={"reasoning": "-", "winner": None, "verdict": "Wait."})
        words = _WORDS.split()
        if not self.slow:
            text = "\n".join(" ".join(words[at % len(words) :] + words) for at in range(self.characters // 100))
            return ModelResponse(text=text[: self.characters])
        answer = ""
        for at in range(_SECONDS * 20):
            piece = " ".join(words[(at + offset) % len(words)] for offset in range(_RATE // 20)) + (
                " " if at % 40 else "\n"
            )
            answer += piece
            if request.on_text is not None:
                request.on_text(piece)
            await asyncio.sleep(0.05)
        return ModelResponse(text=answer)


def main() -> None:
    program = find()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        print("Pages: Chromium or playwright is not installed; make test-web installs them")
        return
    writer, ready = _Writer(), threading.Event()
    urls: list[str] = []
    threading.Thread(target=lambda: asyncio.run(_serve(writer, urls, ready)), daemon=True).start()
    ready.wait()
    with sync_playwright() as driver, driver.chromium.launch(executable_path=program) as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"{urls[0]}/?token={_TOKEN}")
        print("| page | laid out after | transferred |\n|---|---|---|")
        for name, path in (
            (f"{_RUNS:,} runs, the first 50", "/"),
            (f"{_TURNS} turns of {_CHARACTERS:,} characters", "/runs/long"),
        ):
            print(f"| {name} | {_loaded(page, urls[0] + path)} |")
        writer.slow = True
        page.request.post(f"{urls[0]}/api/v1/runs", data=_body("streaming", 1), headers={"origin": urls[0]})
        busy = _busy(page, f"{urls[0]}/runs/streaming")
        print(f"\n{_SECONDS} s at {_RATE} tokens a second: {busy}")


def _body(run_id: str, rounds: int) -> dict[str, object]:
    options = {"max_rounds": rounds, "debaters": _SIDES, "synthesizer": False}
    return {"pattern": "debate", "question": "Should rents be capped?", "runId": run_id, "options": options}


async def _serve(writer: _Writer, urls: list[str], ready: threading.Event) -> None:
    service = Service(store="memory:", model=writer, max_concurrency=64)
    options = {"max_rounds": 1, "debaters": _SIDES, "synthesizer": False}
    for number in range(_RUNS):
        run = await service.begin("debate", f"Should rents be capped in district {number}?", options=options)
        await service.wait(run.run_id)
    writer.characters = _CHARACTERS
    long = await service.begin(
        "debate", "Should rents be capped?", options={**options, "max_rounds": _TURNS // 2}, run_id="long"
    )
    await service.wait(long.run_id)

    def told(address: str, _: Server) -> None:
        urls.append(address.rstrip("/"))
        ready.set()

    await serve(create_app(service, token=_TOKEN), port=0, started=told)


def _loaded(page: Page, url: str) -> str:
    """Return the median time of five visits, and the bytes transferred by the first one."""
    times, size = [], 0
    for _ in range(5):
        page.goto(url)
        size = size or page.evaluate(
            "performance.getEntries().reduce((sum, each) => sum + (each.transferSize ?? 0), 0)"
        )
        times.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    return f"{statistics.median(times):.0f} ms | {size / 1024:.0f} KB"


def _busy(page: Page, url: str) -> str:
    """Measure how long the main thread is blocked at a time."""
    page.add_init_script("""
      window.busy = [];
      let last = performance.now();
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { const now = performance.now(); window.busy.push(now - last); last = now;
        setTimeout(() => { last = performance.now(); channel.port2.postMessage(0); }, 4); };
      channel.port2.postMessage(0);
    """)
    page.goto(url)
    page.wait_for_timeout(1_000 * (_SECONDS - 2))
    times = sorted(page.evaluate("window.busy"))
    text = page.locator("#speaking .turn").inner_text()
    p95, worst = times[int(0.95 * len(times))], times[-1]
    return f"{len(text):,} characters shown; waits for the main thread: p95 {p95:.1f} ms, longest {worst:.0f} ms"


if __name__ == "__main__":
    main()
