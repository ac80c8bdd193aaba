"""Kill `flowdebate serve` with SIGKILL at random moments, restart it on the same store, and follow its runs.

    python -m tests.soak.server_kills --kills 20 [--seed N]

A reader follows one run after another and reconnects with the id of its last event. The runs alternate between a
debate, a debate with a human debater, and a fork of the first one with an edited argument. In the end, the reader must
have received the events of an undisturbed run, no recorded answer may have been requested from a model again, and the
budget must have counted each call.
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
from tests.server.test_serve import make_client, start_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.models.base import ModelRequest

__all__ = ("answer", "main")

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = f"""
import asyncio
import sys

sys.path.insert(0, {str(ROOT)!r})

from flowdebate import Limits
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
    return Service(store="runs.sqlite3", model=FunctionModel(slowly), budget=Limits(calls=1_000_000), recover=True)
"""
TOKEN = "a-token-of-this-soak-test"  # noqa: S105 - it opens nothing else
OPTIONS: dict[str, Any] = {"max_rounds": 4}
KINDS = ("debate", "human", "fork")
"""Kinds of runs, in alternating order; a fork is based on the debate two runs earlier."""
EDITS = {"debate/round[1]/debate-turn-con/debate-debater-con": "I see it in another way."}
MAX_LIFETIME = 1.5
"""Maximum lifetime in seconds of a responding server before it is killed."""


def answer(request: ModelRequest) -> str | dict[str, Any]:
    """Answer a request, always in the same valid way, because failed calls are repeated."""
    if request.output_schema is None:
        return f"{request.block} is sure."
    return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}


class Story:
    """Events received by the reader of a run."""

    def __init__(self, number: int) -> None:
        self.run_id = f"r-{number}"
        self.kind = KINDS[number % len(KINDS)]
        self.parent = f"r-{number - 2}"
        self.question = f"Should we ship {self.parent if self.kind == 'fork' else self.run_id}?"
        self.options = {**OPTIONS, "humans": ["con"], "suspend": True} if self.kind == "human" else OPTIONS
        self.events: list[tuple[str, str, object]] = []
        self.last: str | None = None
        self.ended = False
        self.resets = 0

    def begin(self, http: httpx2.Client) -> None:
        """Start the run unless it exists, answer its requests, and resume it if necessary."""
        body: dict[str, Any] = {"question": self.question, "options": self.options, "seed": 1, "runId": self.run_id}
        if self.kind == "fork":
            forked = http.post(f"/api/v1/runs/{self.parent}/fork", json={"edits": EDITS, "forkId": self.run_id})
            assert forked.status_code in (201, 409), forked.text
        else:
            http.post("/api/v1/runs", json={"pattern": "debate", **body}).raise_for_status()
        details = http.get(f"/api/v1/runs/{self.run_id}").json()
        for pending in details["pending"]:
            reply = {"answer": answer_at(pending["place"]), "place": pending["place"]}
            http.post(f"/api/v1/runs/{self.run_id}/answers", json=reply).raise_for_status()
        if details["status"] == "interrupted":  # the server was killed between the answer and the next call
            http.post(f"/api/v1/runs/{self.run_id}/resume", json={}).raise_for_status()

    def follow(self, frames: Iterable[Frame]) -> None:
        """Read until the stream ends or breaks off."""
        for frame in frames:
            if frame.event == "reset":
                self.events, self.resets = [], self.resets + 1
            elif frame.event == "end":
                self.ended = True
            elif frame.id is not None:
                self.events.append(strip_times(frame.event, frame.data))
                self.last = frame.id

    def undisturbed(self) -> list[tuple[str, str, object]]:
        """Return the events that the reader should receive."""

        async def run() -> list[tuple[str, str, object]]:
            async with Service(store="memory:", model=FunctionModel(answer)) as service:
                first = self.parent if self.kind == "fork" else self.run_id
                await service.begin("debate", self.question, options=self.options, seed=1, run_id=first)
                details = await service.wait(first)
                while details.pending:
                    for request in details.pending:
                        await service.answer(first, answer_at(request.place), place=request.place)
                    details = await service.wait(first)
                if self.kind == "fork":
                    await service.fork(first, edits=EDITS, fork_id=self.run_id)
                updates = [update async for update in service.follow(self.run_id)]
                return [strip_times(item.event.kind, wire_of(item.event)) for item in updates if item.mark is not None]

        return asyncio.run(run())


def answer_at(place: str) -> str:
    """Return the person's answer at a path."""
    return f"I answer at {place}."


def strip_times(kind: str, data: dict[str, Any]) -> tuple[str, str, object]:
    """Return an event without its times and its replay flag."""
    return kind, data["path"], data.get("output")


class Soak:
    """Servers, the current run, and the problems found."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.number = 0
        self.story = Story(0)
        self.found: Counter[str] = Counter()
        self.counted = 0
        """The calls that the server's budget has counted."""
        self.problems: list[str] = []

    def life(self, *, killed: bool) -> None:
        """Run one server until the current cycle of runs ends or, if `killed`, kill it at a random moment."""
        options = ("--app", "application:service", "--token-file", "token")
        with start_server(self.folder, *options) as (process, url, _), make_client(url, TOKEN) as http:
            moment = self.random.uniform(0, MAX_LIFETIME)
            timer = threading.Timer(moment, process.kill) if killed else None
            if timer is not None:
                timer.start()
            with suppress(httpx2.HTTPError):  # the server was killed
                while True:
                    number = self.number
                    self.follow(http)
                    if timer is None and number != self.number and self.number % len(KINDS) == 0:
                        break
            if timer is not None:
                timer.join()
                process.wait(60)
        self.found["kills"] += killed

    def follow(self, http: httpx2.Client) -> None:
        """Start the run unless it exists, and follow it. After its end, select the next one."""
        story = self.story
        story.begin(http)
        headers = {} if story.last is None else {"last-event-id": story.last}
        try:
            with http.stream("GET", f"/api/v1/runs/{story.run_id}/events", headers=headers) as response:
                story.follow(read_frames(response.iter_lines()))
            status = http.get(f"/api/v1/runs/{story.run_id}").json()["status"]
            story.ended = story.ended and status not in ("awaiting", "interrupted")
            self.counted = http.get("/api/v1/budgets").json()[0]["used"]
        except httpx2.HTTPError:
            story.ended = False  # the next server reports whether the run has ended
            raise
        if story.ended:
            self.check_story()
            self.number += 1
            self.story = Story(self.number)

    def check_story(self) -> None:
        """Check that the reader received the events of an undisturbed run."""
        self.found[f"runs: {self.story.kind}"] += 1
        self.found["resets"] += self.story.resets
        expected = self.story.undisturbed()
        if self.story.events != expected:
            added = [event for event in self.story.events if event not in expected]
            missing = [event for event in expected if event not in self.story.events]
            order = [
                (expected_event, event)
                for expected_event, event in zip(expected, self.story.events, strict=False)
                if expected_event != event
            ][:1]
            self.problems.append(f"{self.story.run_id} was told otherwise: {added=}, {missing=}, {order=}")

    def asked(self) -> list[str]:
        """Return the requests received by models, in order."""
        log = self.folder / "asked"
        return log.read_text().split() if log.exists() else []

    def recorded(self) -> set[str]:
        """Return the requests whose answers are in the store."""

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
        """Kill `kills` servers, then let the last run finish."""
        (self.folder / "application.py").write_text(APPLICATION)
        (self.folder / "token").write_text(TOKEN)
        before, recorded = 0, set[str]()
        for number in range(kills + 1):
            self.life(killed=number < kills)
            calls = self.asked()
            twice = [digest for digest in calls[before:] if digest in recorded]
            if twice:
                self.problems.append(f"life {number}: {len(twice)} recorded calls were asked for again")
            before, recorded = len(calls), self.recorded()
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {kills}")
        self.found["calls"] = before
        self.found["calls in the budget"] = self.counted
        if not before <= self.counted <= before + kills:  # a process can be killed after it has counted a call
            self.problems.append(f"{before} calls were made, the budget has {self.counted}")
        self.found["calls in flight that were repeated"] = before - len(set(self.asked()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.server_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="another one kills at other moments")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.seed)
        soak.run(options.kills)
    report = {**soak.found, "seconds": round(time.monotonic() - start), "problems": soak.problems}
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
