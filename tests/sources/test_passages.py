"""Passages: the parts of sources that a prompt includes if the whole text is too long."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Sources
from flowdebate.chassis.material import render_sources
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import context_of
from flowdebate.models.local.model import LocalModel
from flowdebate.models.wrapper import Retrying
from flowdebate.sources.quotes import cut, find_passages
from flowdebate.sources.source import Page, Source, numbered
from flowdebate.store.open import open_store
from flowdebate.testing import FunctionModel
from flowdebate.ui.document import material_notes
from tests.patterns.talks import QUESTION, READERS, TURNS, Talkers, role_of, talk

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

pytest.importorskip("bm25s", reason="the extra flowdebate[documents]")

TOPICS = ("trams", "rents", "schools", "harbour", "bakeries", "museums", "parks", "taxes")
PARAGRAPHS = [
    f"{topic.capitalize()} in the year {year}: {'so it is said. ' * 20}" for topic in TOPICS for year in range(9)
]
LONG = Source.of(
    "book",
    "\n\n".join(PARAGRAPHS),
    pages=[Page(start=sum(len(text) + 2 for text in PARAGRAPHS[: n * 9]), name=f"page {n + 1}") for n in range(8)],
)


@given(st.text(alphabet="ab .\n", max_size=6_000), st.lists(st.integers(0, 6_000), max_size=5))
def test_passages_cover_the_whole_text(text: str, starts: list[int]) -> None:
    begins = sorted({start for start in starts if start < len(text)})
    source = Source.of("s", text, pages=[Page(start=start, name=f"page {start}") for start in begins])
    passages = list(cut(source))
    assert all(0 < passage.end - passage.start <= 1_200 for passage in passages)
    assert all(before.end <= after.start for before, after in pairwise(passages))
    covered = set().union(*(range(passage.start, passage.end) for passage in passages))
    assert not "".join(letter for place, letter in enumerate(text) if place not in covered).strip()
    assert all(passage.start >= start or passage.end <= start for passage in passages for start in begins)


def test_relevant_passages_are_found_with_their_pages() -> None:
    """The same question always yields the same passages, which appear in the same order as in the source.

    Together, they stay within the budget.
    """
    passages = find_passages((LONG,), ["What about the harbour?"], 3_000)
    assert passages == find_passages((LONG,), ["What about the harbour?"], 3_000)
    assert {passage.page for passage in passages} == {"page 4"}
    assert sum(passage.end - passage.start for passage in passages) <= 3_000
    assert [passage.start for passage in passages] == sorted(passage.start for passage in passages)
    assert find_passages((LONG,), ["", "?"], 100) == []


def test_passages_fill_their_budget() -> None:
    """If the sources slightly exceed the budget, only the excess is left out, however many passages there are."""
    files = tuple(Source.of(f"src/file_{number}.py", f"limit_{number} = {number}\n" * 10) for number in range(700))
    total = sum(len(source.text) for source in files)
    room = total * 9 // 10
    passages = find_passages(files, ["What is wrong?"], room)
    assert 0.99 * room < sum(passage.end - passage.start for passage in passages) <= room
    single = find_passages(files[:1], ["What is wrong?"], room)
    assert [(passage.start, passage.end) for passage in single] == [(0, len(files[0].text))]


@given(st.integers(1, 5), st.integers(0, 40_000), st.integers(1, 60))
def test_long_sources_are_divided_among_readers(readers: int, room: int, files: int) -> None:
    """No reader exceeds its budget. Every reader spends half of it on the same passages, which are the best ones.

    The other half overlaps with another reader's passages only if there is nothing else left to show.
    """
    sources = tuple(Source.of(f"f{number:02}.py", f"limit_{number} = {number}\n" * 60) for number in range(files))
    shares = [find_passages(sources, ["What is the limit?"], room, share=(one, readers)) for one in range(readers)]
    ranges = [{(passage.source, passage.start, passage.end) for passage in passages} for passages in shares]
    assert all(sum(end - start for _, start, end in passages) <= room for passages in ranges)
    best = find_passages(sources, ["What is the limit?"], room if readers == 1 else room // 2)
    texts = {(excerpt.source, place) for excerpt in best for place in range(excerpt.start, excerpt.end)}
    assert all(texts <= {(name, place) for name, *ends in one for place in range(*ends)} for one in ranges)
    if readers * room <= sum(len(source.text) for source in sources) // 2:
        unshared = [
            {passage for passage in one if not any(passage in reader for reader in ranges if reader is not one)}
            for one in ranges
        ]
        assert all(len(part) >= (len(one) - len(best)) // 2 for part, one in zip(unshared, ranges, strict=True))


@pytest.mark.parametrize("pattern", ["council", "deliberation", "round_robin", "consensus", "debate"])
def test_members_together_read_more_files_than_any_single_member(pattern: str) -> None:
    files = {f"file_{number:02}": f"limit_{number} = {number}\n" * 50 for number in range(40)}
    talkers = Talkers()
    raw = talk(pattern, sources=Sources(files, tokens=1_000)).run_sync(QUESTION, model=talkers.model(), seed=1).raw
    first = [turn for turn in raw.passages if turn.round == min(turn.round for turn in raw.passages)]
    source_sets = [{passage.source for passage in turn.passages} for turn in first]
    assert len(source_sets) > 1
    assert (len(set().union(*source_sets)) > max(map(len, source_sets))) is (pattern != "debate")
    everything = {passage.source for turn in raw.passages for passage in turn.passages}
    assert f"Shown: {len(everything)} of 40 files, in the passages that fit each turn best" in material_notes(raw)


def test_files_without_a_passage_are_counted_but_not_named() -> None:
    """If there are many files, their names would take up the space needed for passages."""
    files = tuple(Source.of(f"src/file_{number}.py", "x = 1\n" * 30) for number in range(2_000))
    listed = render_sources(files, complete=False).partition("\n\n")[0]
    assert listed.startswith("Sources:\n2,000 sources with 360,000 characters, too long to be shown in full")
    assert "src/file" not in listed
    assert "[src/file_7.py] (180 characters" in render_sources(files[:10], complete=False)


def test_model_context_determines_the_size_of_passages() -> None:
    """A local model's context size is known even if a policy wraps the model, but a function model's is not known."""
    assert context_of(LocalModel(Path("a.gguf"))) == context_of(Retrying(LocalModel(Path("a.gguf")))) == 8192
    assert context_of(FunctionModel(lambda _: "")) is None


def get_passage_tags(request: ModelRequest) -> list[str]:
    """Return the passage tags in the last message."""
    lines = str(request.messages[-1]["content"]).splitlines()
    return [line.partition("]")[0][1:] for line in lines if line.startswith("[book, page")]


# a review splits long sources instead
@pytest.mark.parametrize("pattern", [pattern for pattern in TURNS if pattern != "review"])
def test_turns_see_the_best_passages_of_long_sources(pattern: str) -> None:
    """The passages precede the task and are listed in the result. Quotes are looked up in the whole text."""

    def quoting(request: ModelRequest) -> Any:
        reply = talkers.reply(request)
        return json.loads(json.dumps(reply).replace("I say", "It says 'taxes in the year 7: so it is said', I say"))

    talkers = Talkers()
    pattern_ = talk(pattern, sources=Sources({"book": LONG}, tokens=500))
    raw = pattern_.run_sync("What about the harbour?", model=FunctionModel(quoting), seed=1).raw
    roles = {*TURNS[pattern], *READERS.get(pattern, ())}
    speaking = [request for request in talkers.asked if role_of(request) in roles]
    assert speaking
    for request in speaking:
        system, last = request.messages[0]["content"], request.messages[-1]["content"]
        assert "characters: too long to be shown in full; each turn shows relevant passages)" in system
        assert "Harbour" not in system
        assert "book, page 4" in get_passage_tags(request)
        assert not last.rpartition("\n\n")[2].startswith("[book")
        assert len(last.partition("Passages from the sources")[2]) < 4_000
    assert len(raw.passages) == len(speaking)
    assert all("page 4" in {passage.page for passage in turn.passages} for turn in raw.passages)
    assert any(quote.page == "page 8" for quotes in raw.quotes for quote in quotes)
    assert type(raw).model_validate_json(raw.model_dump_json(by_alias=True)) == raw
    assert "Shown: 1 of 1 file, in the passages that fit each turn best" in material_notes(raw)


@pytest.mark.parametrize("pattern", ["debate", "consensus"])
def test_resumed_runs_use_the_recorded_passages(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new search might find different passages, and an answer would then no longer match its prompt."""
    talkers, calls = Talkers(), 0

    def failing(request: ModelRequest) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise RuntimeError
        return Talkers().reply(request)

    async def held() -> Any:
        store: Any = open_store(str(tmp_path / "runs.sqlite3"))
        long = talk(pattern, sources=Sources([LONG], tokens=500))
        with pytest.raises(RuntimeError):
            await long.run(QUESTION, model=FunctionModel(failing, name="talkers"), store=store, run_id="a", seed=1)
        before = find_passages

        def otherwise(sources: Any, _: Any, room: int, **share: Any) -> Any:
            return before(sources, ["museums"], room, **share)

        monkeypatch.setattr("flowdebate.chassis.material.find_passages", otherwise)
        result = await long.resume("a", model=talkers.model(), store=store)
        await store.close()
        return result

    result = asyncio.run(held())
    assert result.raw.passages
    requests = [request for request in talkers.asked if role_of(request) in TURNS[pattern]]
    assert len(requests) < len(result.raw.passages)


def test_the_error_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the run must fail before its first call instead of using arbitrary parts of the sources."""
    monkeypatch.setitem(sys.modules, "bm25s", None)
    talkers, second = Talkers(), Source.of("other", LONG.text)
    with pytest.raises(ConfigurationError, match=r"flowdebate\[documents\]"):
        talk("debate", sources=Sources([second], tokens=500)).run_sync(QUESTION, model=talkers.model())
    assert talkers.asked == []
    wrong: Any
    for wrong in (0, True, "many"):
        with pytest.raises(ConfigurationError, match=r"Sources: `tokens` must be .*at least 1"):
            Sources([LONG], tokens=wrong)


@given(st.text("ab\n\r", max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_passages_are_numbered_line_by_line(text: str, start: int, end: int) -> None:
    """A line is numbered and displayed in full if any of its characters, or its line break, is in the passage."""
    lines, numbered_lines, at = text.removesuffix("\n").split("\n") if text else [], [], 0
    for number, line in enumerate(lines, start=1):
        if at < end and at + len(line) + 1 > start:
            numbered_lines.append(f"{number:>5} {line}")
        at += len(line) + 1
    assert numbered(Source(name="x", text=text, size=1, sha256="0"), start, end) == "\n".join(numbered_lines)


def test_long_sources_are_numbered_in_linear_time() -> None:
    """When the code still copied the rest of the text for each line, a file of 2 MB took 22 s of CPU time.

    The file in this test has the same size, in 50,000 lines.
    """
    source = Source.of("long.txt", "A line of forty characters, more or less\n" * 50_000)
    before = time.process_time()
    assert numbered(source).count("\n") == 49_999
    assert time.process_time() - before < 3.0
