"""Costs of a page: how often the store is read, and how many bytes are sent to the browser."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, FlowDebateWarning, debate
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.server.stage import answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flowdebate.models.base import ModelRequest
    from flowdebate.store.base import StepRow, StoredRun
    from tests.server.stage import Stage

WORDS = re.findall(
    r"\w+",
    "rivers run at night as well and what they give can be stored without a battery so a dam answers whenever the wind "
    "rests while roofs in the valley wait for noon and nobody has to burn anything to keep the lamps of a town lit",
)


class CountingReads(MemoryStore):
    """Store that counts how often it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = Counter[str]()

    async def run(self, run_id: str) -> StoredRun:
        self.reads["run"] += 1
        return await super().run(run_id)

    async def runs(self, **filters: Any) -> Sequence[StoredRun]:
        self.reads["runs"] += 1
        return await super().runs(**filters)

    async def steps(self, run_id: str, *, after: int = 0) -> Sequence[StepRow]:
        self.reads["steps"] += 1
        return await super().steps(run_id, after=after)

    async def documents(self, collection: str) -> Mapping[str, str]:
        self.reads["documents"] += 1
        return await super().documents(collection)

    async def documents_in(
        self, collections: Sequence[str], *, key: str | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        self.reads["documents_in"] += 1
        return await super().documents_in(collections, key=key)


@pytest.fixture
def empty_store() -> CountingReads:
    """Create an empty store."""
    return CountingReads()


@pytest.fixture
def counting_server(empty_store: CountingReads) -> Iterator[Stage]:
    """Serve `empty_store`."""
    with staged(lambda: Service(store=empty_store, model=FunctionModel(answer_debate))) as stage:
        yield stage


def test_run_list_reads_its_notes_in_one_query(counting_server: Stage, empty_store: CountingReads) -> None:
    """The notes of all twelve runs on the page are read together."""
    for number in range(12):
        run_id = counting_server.finished()
        counting_server.http.put(f"/api/v1/runs/{run_id}/note", json={"note": f"the note of {number}."})
    empty_store.reads.clear()
    html = counting_server.http.get(f"{counting_server.pages}/").text
    assert empty_store.reads == {"runs": 2, "documents_in": 1}  # the second read lists the runs that wait for a person
    assert all(f"the note of {number}." in html for number in range(12))


@pytest.mark.parametrize("service", ["the service that has executed it", "another service"])
def test_run_page_reads_its_row_and_steps_once(
    service: str, counting_server: Stage, empty_store: CountingReads
) -> None:
    """Events, people, votes, the note and public links are all derived from a single read."""
    with staged(lambda: Service(store=empty_store, model=FunctionModel(answer_debate))) as other:
        run_id = (other if service == "another service" else counting_server).finished()
        empty_store.reads.clear()
        assert "Wait a week." in counting_server.http.get(f"{counting_server.pages}/runs/{run_id}").text
        assert empty_store.reads == {
            "run": 1,
            "steps": 1,
            "documents": 2,
        }  # one read for the votes and the note, and one for the public links


def test_step_page_reads_the_run_once(counting_server: Stage, empty_store: CountingReads) -> None:
    """The page derives the messages sent to the model from the stored run and its steps, without reading them again."""
    run_id = counting_server.finished()
    empty_store.reads.clear()
    assert (
        "Ask again from step 2" in counting_server.http.get(f"{counting_server.pages}/runs/{run_id}/travel?step=2").text
    )
    assert (empty_store.reads["run"], empty_store.reads["steps"]) == (1, 1)


def make_markdown(turn: int) -> str:
    """Write an argument of 4,000 characters, different for each turn."""
    draw = random.Random(turn)
    return " ".join(f"**{word}**" if not at % 40 else word for at, word in enumerate(draw.choices(WORDS, k=745)))


def store_long_debate(turns: int, text_of: Callable[[int], str] = make_markdown) -> MemoryStore:
    """Store the complete debate "long" with the given number of turns, each with text from `text_of`."""

    def answer(request: ModelRequest) -> str | dict[str, Any]:
        return text_of(next(numbers)) if request.output is None else {"reasoning": "-", "winner": None, "verdict": "-"}

    numbers, store = itertools.count(), MemoryStore()
    sides = [Debater("tenant", "rents should be capped"), Debater("owner", "rents should be free")]
    with warnings.catch_warnings(action="ignore", category=FlowDebateWarning):  # the warning about the number of rounds
        rent = debate(name="rent", debaters=sides, max_rounds=turns // 2, judge="single", synthesizer=False)
    asyncio.run(rent.run("Cap rents?", model=FunctionModel(answer), store=store, run_id="long"))
    return store


def test_most_of_a_page_is_text() -> None:
    """Markup increases the compressed size of 100 turns by less than half.

    Each turn has 1,000 characters from our documentation.
    """
    pages = Path(__file__).parents[2].joinpath("docs").glob("*.md")
    paragraphs = "\n\n".join(page.read_text(encoding="utf-8") for page in sorted(pages)).split("\n\n")
    prose = "\n\n".join(paragraph for paragraph in paragraphs if re.match(r"[A-Z][\w ]", paragraph))
    turns = [prose[at : at + 1_000] for at in range(0, 100_000, 1_000)]
    store = store_long_debate(100, turns.__getitem__)
    with (
        staged(lambda: Service(store=store, plans=False)) as stage,
        stage.http.stream("GET", f"{stage.pages}/runs/long") as answer,
    ):
        answer.read()
        sent = answer.num_bytes_downloaded
    assert sent < 1.5 * len(gzip.compress("\n".join(turns).encode(), 5))


def test_page_is_compressed_and_contains_each_text_once() -> None:
    """The 200 turns contain 800 kB of text, so a page that repeated them would not compress to this size."""
    store = store_long_debate(200)
    with staged(lambda: Service(store=store, plans=False)) as stage:
        address = f"{stage.pages}/runs/long"
        with stage.http.stream("GET", address) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            html = b"".join(answer.iter_bytes()).decode()
            size = answer.num_bytes_downloaded
        text = sum(map(len, map(make_markdown, range(200))))
        assert len(html) < 1.6 * text
        assert size < 0.45 * text  # about the rate that gzip -5 achieves for words in random order
        assert html.count(make_markdown(7).split("**")[2][:60]) == 1
        assert stage.http.get(f"{address}/turns/8").text == make_markdown(7)
        assert [stage.http.get(f"{address}/turns/{number}").status_code for number in (0, 201)] == [404, 404]
