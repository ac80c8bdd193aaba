"""Kills `flowdebate serve` with SIGKILL at random moments, starts it again on the same store, and follows its runs.

    python -m tests.soak.server_kills --kills 20 [--seed N]

One reader follows one run after another, and comes back with the id of its last event. In the end it must have been
told what an undisturbed run tells, and no model may have been asked for an answer that was recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx2

from flowdebate.events import wire_of
from flowdebate.service.service import Service
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing import FunctionModel
from tests.server.stage import Frame, read_frames
from tests.server.test_serve import client, serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.models.base import ModelRequest

__all__ = ("answer", "main")

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = f"""
import asyncio
import sys

sys.path.insert(0, {str(ROOT)!r})

from flowdebate.models.codec import digest_of
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.soak.server_kills import answer


async def slowly(request):
    with open("asked", "a") as file:
        file.write(digest_of(request) + chr(10))
    await asyncio.sleep(0.05)
    return answer(request)


def service():
    return Service(store="runs.sqlite3", model=FunctionModel(slowly), recover=True)
"""
TOKEN = "a-token-of-this-soak-test"  # noqa: S105 - it opens nothing else
OPTIONS = {"max_rounds": 4}
LONGEST_LIFE = 1.5
"""Seconds after which a server that answers is killed at the latest."""


def answer(request: ModelRequest) -> str | dict[str, Any]:
    """The answer to a request: always the same one, and a valid one, since failed calls are asked again."""
    if request.output_schema is None:
        return f"{request.block} is sure."
    return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}


class Story:
    """What the reader of a run was told."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.question = f"Should we ship {run_id}?"
        self.told: list[tuple[str, str, object]] = []
        self.last: str | None = None
        self.ended = False
        self.resets = 0

    def follow(self, frames: Iterable[Frame]) -> None:
        """Read until the stream ends or breaks."""
        for frame in frames:
            if frame.event == "reset":
                self.told, self.resets = [], self.resets + 1
            elif frame.event == "end":
                self.ended = True
            elif frame.id is not None:
                self.told.append(essence(frame.event, frame.data))
                self.last = frame.id

    def undisturbed(self) -> list[tuple[str, str, object]]:
        """What it has to be told."""

        async def run() -> list[tuple[str, str, object]]:
            async with Service(store="memory:", model=FunctionModel(answer)) as service:
                await service.begin("debate", self.question, options=OPTIONS, seed=1, run_id=self.run_id)
                updates = [update async for update in service.follow(self.run_id)]
                return [essence(each.event.kind, wire_of(each.event)) for each in updates if each.mark is not None]

        return asyncio.run(run())


def essence(kind: str, data: dict[str, Any]) -> tuple[str, str, object]:
    """An event without its times, and without whether it was replayed."""
    return kind, data["path"], data.get("output")


class Soak:
    """The servers, the run in progress, and what was found."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.number = 0
        self.story = Story("r-0")
        self.found: Counter[str] = Counter()
        self.problems: list[str] = []

    def life(self, *, killed: bool) -> None:
        """One server, from its start to its kill; unless it is to be `killed`, until the run ends."""
        options = ("--app", "application:service", "--token-file", "token")
        with serving(self.folder, *options) as (process, url, _), client(url, TOKEN) as http:
            moment = self.random.uniform(0, LONGEST_LIFE)
            timer = threading.Timer(moment, process.kill) if killed else None
            if timer is not None:
                timer.start()
            with suppress(httpx2.HTTPError):  # it was killed
                while True:
                    self.follow(http)
                    if timer is None:
                        break
            if timer is not None:
                timer.join()
                process.wait(60)
        self.found["kills"] += killed

    def follow(self, http: httpx2.Client) -> None:
        """Begin the run, unless it is there, and follow it; once it has ended another one is next."""
        story = self.story
        body = {"pattern": "debate", "question": story.question, "options": OPTIONS, "seed": 1, "runId": story.run_id}
        http.post("/api/v1/runs", json=body).raise_for_status()
        headers = {} if story.last is None else {"last-event-id": story.last}
        try:
            with http.stream("GET", f"/api/v1/runs/{story.run_id}/events", headers=headers) as response:
                story.follow(read_frames(response.iter_lines()))
        finally:
            if story.ended:
                self.check_story()
                self.number += 1
                self.story = Story(f"r-{self.number}")

    def check_story(self) -> None:
        """The reader was told what an undisturbed run tells."""
        self.found["runs"] += 1
        self.found["resets"] += self.story.resets
        expected = self.story.undisturbed()
        if self.story.told != expected:
            added = [each for each in self.story.told if each not in expected]
            missing = [each for each in expected if each not in self.story.told]
            order = [(was, is_) for was, is_ in zip(expected, self.story.told, strict=False) if was != is_][:1]
            self.problems.append(f"{self.story.run_id} was told otherwise: {added=}, {missing=}, {order=}")

    def asked(self) -> list[str]:
        """The requests that models have got, in order."""
        log = self.folder / "asked"
        return log.read_text().split() if log.exists() else []

    def recorded(self) -> set[str]:
        """The requests whose answers are in the store."""

        async def read() -> set[str]:
            store = SqliteStore(self.folder / "runs.sqlite3")
            try:
                runs = [run.header.run_id for run in await store.runs()]
                rows = [row for run_id in runs for row in await store.steps(run_id)]
                return {row.request for row in rows if row.body is not None and row.request is not None}
            finally:
                await store.close()

        return asyncio.run(read())

    def run(self, kills: int) -> None:
        """Kill so many servers, and let the last run end."""
        (self.folder / "application.py").write_text(APPLICATION)
        (self.folder / "token").write_text(TOKEN)
        before, recorded = 0, set[str]()
        for number in range(kills + 1):
            self.life(killed=number < kills)
            asked = self.asked()
            twice = [digest for digest in asked[before:] if digest in recorded]
            if twice:
                self.problems.append(f"life {number}: {len(twice)} recorded calls were asked for again")
            before, recorded = len(asked), self.recorded()
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {kills}")
        self.found["calls"] = before
        self.found["calls in flight that were repeated"] = before - len(set(self.asked()))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.server_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="another one kills at other moments")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.seed)
        soak.run(options.kills)
    found = {**soak.found, "seconds": round(time.monotonic() - began), "problems": soak.problems}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
