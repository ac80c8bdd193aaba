"""Tests for in-memory archives, which outlive individual runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.measures import Position
from flowdebate.resources.archive import Archive, CritiquePattern, PastDebate, PersonaRecord, Rating

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

pytestmark = pytest.mark.anyio

names = st.sampled_from(("ann", "bob", "cy"))
ids = st.sampled_from(("1", "2", "3"))


def past_debate(number: int, task: str, at: float = 0.0) -> PastDebate:
    """Return a debate on `task`."""
    return PastDebate(id=str(number), task=task, outcome="no_consensus", at=at)


def run(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in tests that draw examples."""
    return asyncio.run(call)


# Debates


async def recall_ids(archive: Archive, task: str, limit: int = 9) -> list[str]:
    """Return the ids of the recalled debates."""
    return [debate.id for debate in await archive.past_debates.recent(task, limit=limit)]


async def test_debates_on_similar_tasks_are_recalled_by_similarity() -> None:
    """Only tasks that share words with the new one are recalled."""
    archive = Archive()
    tasks = ("How can rents be affordable?", "How can trams be on time?", "Are rents too high?", "Affordable rents now")
    for number, task in enumerate(tasks):
        await archive.past_debates.add(past_debate(number, task))
    assert await recall_ids(archive, "Which rents are affordable") == ["0", "3", "2"]
    assert await recall_ids(archive, "Which trams?") == ["1"]
    assert await recall_ids(archive, "What is love?") == []


async def test_most_recent_of_equally_similar_debates_comes_first() -> None:
    archive = Archive()
    for number, at in enumerate((3.0, 9.0, 1.0)):
        await archive.past_debates.add(past_debate(number, "Rents?", at))
    assert await recall_ids(archive, "Rents?") == ["1", "0", "2"]
    assert await recall_ids(archive, "Rents?", limit=2) == ["1", "0"]


@pytest.mark.parametrize("task", ["Why?", "?!", "家賃に上限", "", "A or B", "Soll es so?"])
async def test_debates_on_the_same_task_are_always_recalled(task: str) -> None:
    archive = Archive()
    await archive.past_debates.add(past_debate(1, task))
    assert await recall_ids(archive, task) == ["1"]


@given(
    tasks=st.lists(st.text(max_size=30) | st.sampled_from(("rents", "cap rents", "trams")), max_size=6),
    query=st.text(max_size=30) | st.sampled_from(("rents", "trams")),
    limit=st.integers(0, 7),
)
def test_limit_bounds_the_number_of_recalled_debates(tasks: list[str], query: str, limit: int) -> None:
    """A recall with a limit returns the first results of a recall without one.

    No debate is recalled twice, and without a limit, all debates on an identical task are recalled.
    """
    archive = Archive()
    for number, task in enumerate(tasks):
        run(archive.past_debates.add(past_debate(number, task, at=number)))
    everything = run(recall_ids(archive, query, limit=99))
    assert run(recall_ids(archive, query, limit=limit)) == everything[:limit]
    assert len(set(everything)) == len(everything)
    assert {str(number) for number, task in enumerate(tasks) if task == query} <= set(everything)


async def test_adding_a_debate_twice_does_not_change_it() -> None:
    archive = Archive()
    await archive.past_debates.add(past_debate(1, "Rents?"))
    await archive.past_debates.add(past_debate(1, "Trams?"))
    assert await recall_ids(archive, "Rents?") == ["1"]
    assert await recall_ids(archive, "Trams?") == []


# Critique points


def critique_point(issue: str, suggestion: str = "", *, successes: int = 0, uses: int = 1) -> CritiquePattern:
    """Create a critique point."""
    return CritiquePattern(issue=issue, suggestion=suggestion, successes=successes, uses=uses)


async def test_points_that_helped_most_come_first() -> None:
    """If two points have helped equally often, the one with fewer uses comes first.

    Points that never helped are left out.
    """
    archive = Archive()
    await archive.critique_patterns.record(
        "1",
        [
            critique_point("never", uses=9),
            critique_point("often", successes=3, uses=9),
            critique_point("sometimes", successes=1, uses=4),
            critique_point("surely", successes=3, uses=3),
        ],
    )
    points = await archive.critique_patterns.successful(limit=9)
    assert [one.issue for one in points] == ["surely", "often", "sometimes"]
    assert list(await archive.critique_patterns.successful(limit=1)) == list(points)[:1]


async def test_points_match_regardless_of_spelling() -> None:
    archive = Archive()
    await archive.critique_patterns.record("1", [critique_point("It is dear.", "Say who pays.", successes=1)])
    await archive.critique_patterns.record("2", [critique_point("it  is DEAR.", "say who pays.", successes=1, uses=2)])
    await archive.critique_patterns.record("3", [critique_point("It is dear.", "Build less.", successes=1)])
    assert list(await archive.critique_patterns.successful(limit=9)) == [
        critique_point("It is dear.", "Say who pays.", successes=2, uses=3),
        critique_point("It is dear.", "Build less.", successes=1, uses=1),
    ]


@given(st.lists(st.tuples(ids, st.lists(st.sampled_from("abc"), max_size=4)), max_size=6))
def test_points_repeated_within_a_debate_count_once(reports: list[tuple[str, list[str]]]) -> None:
    archive = Archive()
    counted: dict[str, int] = {}
    debates: set[str] = set()
    for debate, issues in reports:
        run(archive.critique_patterns.record(debate, [critique_point(issue, successes=1) for issue in issues]))
        for issue in issues if debate not in debates else ():
            counted[issue] = counted.get(issue, 0) + 1
        debates.add(debate)
    points = run(archive.critique_patterns.successful(limit=99))
    assert {one.issue: (one.successes, one.uses) for one in points} == {key: (n, n) for key, n in counted.items()}


# Ratings


async def test_only_agents_with_a_history_have_a_rating() -> None:
    """It is up to the caller to choose a rating for unknown names."""
    archive = Archive()
    await archive.ratings.apply("1", {"ann": 16.0, "bob": -16.0})
    assert dict(await archive.ratings.of(["bob", "zoe"])) == {"bob": Rating(elo=1484.0, debates=1)}
    assert dict(await archive.ratings.of([])) == {}


@given(st.lists(st.tuples(ids, st.dictionaries(names, st.floats(-64, 64))), max_size=8))
def test_rating_changes_accumulate_and_count_once_per_debate(reports: list[tuple[str, dict[str, float]]]) -> None:
    archive = Archive()
    elo: dict[str, float] = {}
    debates: set[str] = set()
    for debate, changes in reports:
        run(archive.ratings.apply(debate, changes))
        for name, change in changes.items() if debate not in debates else ():
            elo[name] = elo.get(name, 1500.0) + change
        debates.add(debate)
    assert {name: one.elo for name, one in run(archive.ratings.of(["ann", "bob", "cy"])).items()} == elo


# Positions and personas


@given(st.lists(st.tuples(ids, st.lists(st.tuples(names, st.integers(1, 3)), max_size=4)), max_size=5))
def test_positions_keep_their_insertion_order(reports: list[tuple[str, list[tuple[str, int]]]]) -> None:
    archive = Archive()
    stored: list[Position] = []
    debates: set[str] = set()
    for debate, stated in reports:
        positions = [Position(agent=name, claim=debate, answer="yes", round=number) for name, number in stated]
        run(archive.positions.add(debate, positions))
        stored += positions if debate not in debates else []
        debates.add(debate)
    for name in ("ann", "bob", "cy"):
        assert list(run(archive.positions.of(name))) == [one for one in stored if one.agent == name]


async def test_changing_a_result_does_not_change_the_archive() -> None:
    archive = Archive()
    await archive.positions.add("1", [Position(agent="ann", answer="yes", round=1)])
    positions: Sequence[Position] = await archive.positions.of("ann")
    assert isinstance(positions, list)
    positions.clear()
    assert len(await archive.positions.of("ann")) == 1


records = st.builds(
    PersonaRecord,
    debates=st.integers(0, 3),
    wins=st.integers(0, 3),
    failures=st.integers(0, 3),
    critiques=st.integers(0, 3),
    flips=st.integers(0, 3),
)


@given(st.lists(st.tuples(ids, st.dictionaries(names, records)), max_size=6))
def test_persona_records_accumulate_and_count_once_per_debate(
    reports: list[tuple[str, dict[str, PersonaRecord]]],
) -> None:
    archive = Archive()
    first: dict[str, dict[str, PersonaRecord]] = {}
    for debate, record_by_name in reports:
        run(archive.personas.record(debate, record_by_name))
        first.setdefault(debate, record_by_name)
    for name in ("ann", "bob", "cy"):
        own_records = [given_[name].model_dump() for given_ in first.values() if name in given_]
        sums = {field: sum(record[field] for record in own_records) for field in PersonaRecord.model_fields}
        assert run(archive.personas.of(name)).model_dump() == sums


# The archive


async def test_archives_are_independent() -> None:
    one, other = Archive(), Archive()
    await one.ratings.apply("1", {"ann": 1.0})
    await one.past_debates.add(past_debate(1, "Rents?"))
    assert dict(await other.ratings.of(["ann"])) == {}
    assert await recall_ids(other, "Rents?") == []


@pytest.mark.parametrize("patience", [0, -1, True, "10", None, float("nan")])
def test_patience_must_be_a_positive_number_of_seconds(patience: Any) -> None:
    """`patience` limits how long a debate waits for a store."""
    with pytest.raises(ConfigurationError) as caught:
        Archive(patience=patience)
    assert (caught.value.location, caught.value.field) == ("Archive", "patience")
