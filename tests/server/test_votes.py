"""Blind reading: the view before a vote, and the results afterwards."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.store.export import import_runs
from flowdebate.store.memory import MemoryStore
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing import FunctionModel
from tests.server.stage import staged
from tests.server.test_pages import HOSTILE, Parts
from tests.server.test_travel_pages import get_page
from tests.web.test_prose import SUBSET

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2

    from tests.server.stage import Stage

SHIP, WAIT = "We should ship", "We should not ship"
SIDES = [{"name": "mira", "stance": SHIP}, {"name": "jonas", "stance": WAIT}]
DEBATE: dict[str, Any] = {"options": {"max_rounds": 2, "debaters": SIDES}, "runId": "d"}
READERS = [f"reader-of-these-tests-{number}" for number in range(4)]


def answer(request: Any) -> Any:
    """Return arguments that name the other side, or a verdict for the first side."""
    if request.output_schema is not None:
        return {"reasoning": "It was shown.", "winner": SHIP, "verdict": "Ship it now."}
    return "As mira said, jonas is wrong." if "mira" in request.block else "mira forgets the customers."


def service() -> Service:
    """Create a service with an in-memory store."""
    return Service(store="memory:", model=FunctionModel(answer))


def cast_vote(stage: Stage, reader: str, winner: str | None, **more: Any) -> httpx2.Response:
    """Vote on the debate."""
    return stage.post("/runs/d/votes", {"reader": reader, "winner": winner, **more})


def test_voters_see_neither_names_nor_verdict() -> None:
    """The page shows the debate in the order that the URL requests, with letters in place of names."""
    with staged(service) as stage:
        stage.finished(**DEBATE)
        for view, first in enumerate((SHIP, WAIT)):
            page = get_page(stage, f"/runs/d/blind?view={view}")
            main = page[page.index("<main") :]
            assert "mira" not in main
            assert "jonas" not in main
            assert "Ship it now." not in main
            assert "data-side" not in main
            assert re.findall(r'class="who">(Side .)</bdi><span class="serif"[^>]*>([^<]+)<', main)[0] == (
                "Side A",
                first,
            )
            assert re.findall(r'<article class="turn" aria-label="([^"]+)"', main) == [
                "Side A, Round 1",
                "Side B, Round 1",
                "Side A, Round 2",
                "Side B, Round 2",
            ]


def test_order_of_sides_is_random() -> None:
    """If the URL specifies no order, the page chooses a random one, which survives a reload."""
    with staged(service) as stage:
        stage.finished(**DEBATE)
        locations = {stage.http.get("/runs/d/blind").headers["location"] for _ in range(30)}
        assert locations == {"?view=0", "?view=1"}
        assert stage.http.get("/runs/d/blind?reader=me").headers["location"].endswith("&reader=me")


def test_only_a_readers_first_vote_counts() -> None:
    """Once a reader has voted, the page shows that vote next to the verdict."""
    with staged(service) as stage:
        stage.finished(**DEBATE)
        first = cast_vote(stage, READERS[0], SHIP, why="<b>Figures.</b>", order=[WAIT, SHIP])
        assert first.status_code == 201
        assert first.json() == {"readers": 1, "sides": {SHIP: 1, WAIT: 0}, "neither": 0}
        assert cast_vote(stage, READERS[0], WAIT).status_code == 409
        assert cast_vote(stage, READERS[1], SHIP).status_code == 201
        assert cast_vote(stage, READERS[2], None).json() == stage.get("/runs/d/votes").json()
        assert stage.get("/runs/d/votes").json() == {"readers": 3, "sides": {SHIP: 2, WAIT: 0}, "neither": 1}
        page = get_page(stage, f"/runs/d/blind?view=0&reader={READERS[0]}")
        assert "Ship it now." in page
        assert "&lt;b&gt;Figures.&lt;/b&gt;" in page
        assert "Ship it now." not in get_page(stage, f"/runs/d/blind?view=0&reader={READERS[3]}")
        assert "2 of 3 for mira" in get_page(stage, "/runs/d")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"winner": "nobody"}, "winner"),
        ({}, "winner"),
        ({"winner": 1}, "winner"),
        ({"winner": SHIP, "order": [SHIP]}, "order"),
        ({"winner": SHIP, "order": [SHIP, SHIP]}, "order"),
        ({"winner": SHIP, "reader": "../x"}, "reader"),
        ({"winner": SHIP, "why": "x" * 3_000}, "why"),
        ({"winner": SHIP, "more": 1}, "more"),
    ],
)
def test_invalid_votes_are_rejected(body: dict[str, Any], field: str) -> None:
    with staged(service) as stage:
        stage.finished(**DEBATE)
        response = stage.post("/runs/d/votes", body)
        assert response.status_code == 422
        assert field in {error["field"] for error in response.json()["errors"]}
        assert stage.get("/runs/d/votes").json()["readers"] == 0


def test_only_finished_debates_accept_votes(stage: Stage) -> None:
    """Runs that are waiting or have no sides accept no votes, and their pages say so."""
    stage.begin(pattern="consensus", options={}, runId="other")
    stage.get("/runs/other?wait=30")
    stage.begin(options={"max_rounds": 1, "humans": ["judge"]}, runId="waits")
    stage.get("/runs/waits?wait=30")
    for run_id in ("other", "waits"):
        assert stage.post(f"/runs/{run_id}/votes", {"winner": None}).status_code == 409
        assert "cannot be read blind" in get_page(stage, f"/runs/{run_id}/blind")
    assert stage.post("/runs/nothing/votes", {"winner": None}).status_code == 404
    assert stage.http.get("/runs/nothing/blind").status_code == 404


def test_votes_survive_a_restart_and_are_exported(tmp_path: Path) -> None:
    def make_service() -> Service:
        return Service(store=SqliteStore(tmp_path / "runs.sqlite3"), model=FunctionModel(answer))

    with staged(make_service) as stage:
        stage.finished(**DEBATE)
        cast_vote(stage, READERS[0], SHIP)
        cast_vote(stage, READERS[1], WAIT)
    with staged(make_service) as stage:
        assert stage.get("/runs/d/votes").json()["readers"] == 2
        assert cast_vote(stage, READERS[0], WAIT).status_code == 409
        export = stage.get("/runs/d/export.jsonl").text
    assert SHIP in export.splitlines()[0]
    store = MemoryStore()
    asyncio.run(import_runs(store, export.splitlines()))
    with staged(lambda: Service(store=store)) as stage:
        assert stage.get("/runs/d/votes").json()["sides"] == {SHIP: 1, WAIT: 1}
        assert "2, with no side ahead" in get_page(stage, "/runs/d")


def test_votes_are_deleted_with_their_run() -> None:
    """If a new run reuses the id of a deleted run, it does not inherit the votes of that run."""
    store = MemoryStore()
    with staged(lambda: Service(store=store, model=FunctionModel(answer))) as stage:
        stage.finished(**DEBATE)
        cast_vote(stage, READERS[0], SHIP)
        assert stage.http.delete("/api/v1/runs/d").status_code == 204
        stage.finished(**DEBATE)
        assert stage.get("/runs/d/votes").json()["readers"] == 0
        assert "votes/" not in stage.get("/runs/d/export.jsonl").text
        assert cast_vote(stage, READERS[0], WAIT).status_code == 201


def test_each_signed_in_user_has_one_vote() -> None:
    """Other reader ids are ignored, and users cannot vote on runs that are not theirs."""
    people = {"key-of-ann": "ann", "key-of-ben": "ben"}
    with staged(service, authenticate=lambda request: people.get(request.headers.get("x-key", ""))) as stage:
        stage.http.headers["x-key"] = "key-of-ann"
        stage.finished(**DEBATE)
        assert cast_vote(stage, READERS[0], SHIP).status_code == 201
        assert cast_vote(stage, READERS[1], SHIP).status_code == 409
        assert "Ship it now." in get_page(stage, "/runs/d/blind?view=0")
        stage.http.headers["x-key"] = "key-of-ben"
        assert cast_vote(stage, READERS[2], SHIP).status_code == 404
        assert stage.get("/runs/d/votes").status_code == 404
        assert stage.http.get("/runs/d/blind?view=0").status_code == 404


def test_read_only_server_accepts_no_votes() -> None:
    """The page shows a note instead of the voting form."""
    store = MemoryStore()
    with staged(lambda: Service(store=store, model=FunctionModel(answer))) as stage:
        stage.finished(**DEBATE)
    with staged(lambda: Service(store=store), read_only=True) as stage:
        assert cast_vote(stage, READERS[0], SHIP).status_code == 403
        page = get_page(stage, "/runs/d/blind?view=0")
        assert "does not accept votes" in page
        assert "<form" not in page


def test_hostile_text_is_escaped() -> None:
    text = "A plain text."

    def hostile(request: Any) -> Any:
        return {"reasoning": text, "winner": None, "verdict": text} if request.output_schema else text

    with staged(lambda: Service(store="memory:", model=FunctionModel(hostile))) as stage:
        parts = []
        for text in ("A plain text.", " ".join(HOSTILE)):
            stage.finished(runId="d", options={"max_rounds": 1, "debaters": SIDES})
            why = text.encode(errors="replace").decode()[:1_900]
            assert cast_vote(stage, READERS[0], None, why=why).status_code == 201
            pages = [get_page(stage, f"/runs/d/blind?view=0&reader={reader}") for reader in READERS[:2]]
            parts.append(Parts("".join(pages)))
            stage.http.delete("/api/v1/runs/d")
        assert parts[1].found <= parts[0].found | SUBSET
        assert parts[1].addresses <= parts[0].addresses


def test_anonymous_votes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error states the maximum number of votes per run."""
    monkeypatch.setattr("flowdebate.evaluation.readers._MAX_VOTES", 3)
    with staged(service) as stage:
        run_id = stage.finished()
        statuses = [stage.post(f"/runs/{run_id}/votes", {"winner": None}) for _ in range(4)]
        assert [status.status_code for status in statuses] == [201, 201, 201, 409]
        assert "already has 3 votes, the maximum per run" in statuses[-1].json()["detail"]
        assert stage.get(f"/runs/{run_id}/votes").json()["readers"] == 3
