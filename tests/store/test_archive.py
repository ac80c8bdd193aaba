from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import consensus
from flowdebate.errors import ConfigurationError, StoreError
from flowdebate.measures import Ballot, Position
from flowdebate.patterns.consensus.questions import CritiqueRequest, ProposalRequest, RevisionRequest, VoteRequest
from flowdebate.resources.archive import Archive, CritiquePattern, Log, PastDebate, PersonaRecord, VerdictOutcome
from flowdebate.store.archive import stored_archive
from flowdebate.store.memory import MemoryStore
from flowdebate.store.sqlite.store import SqliteStore
from tests.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio

Act = tuple[str, str, Any]

ids = st.sampled_from(("1", "2", "3", "é\n"))
names = st.sampled_from(("ann", "bob", "Zoë"))
counts = st.integers(0, 3)
texts = st.sampled_from(("It is dear.", "it  is DEAR.", "rents", "Cap rents", "家賃")) | st.text(max_size=8)
debates = st.builds(
    PastDebate,
    id=ids,
    task=texts,
    outcome=st.sampled_from(("consensus", "no_consensus")),
    answer=st.none() | texts,
    strength=st.sampled_from((None, "strong", "weak")),
    confidence=st.floats(0, 1),
    at=st.floats(0, 9e9),
)
patterns = st.builds(CritiquePattern, issue=texts, suggestion=texts, successes=counts, uses=counts)
positions = st.builds(
    Position, agent=names, claim=texts, answer=st.none() | texts, confidence=st.floats(0, 1), round=st.integers(1, 3)
)
records = st.builds(PersonaRecord, debates=counts, wins=counts, failures=counts, critiques=counts, flips=counts)
ballots = st.builds(Ballot, voter=names, choice=names, confidence=st.floats(0, 1))
outcomes = st.builds(VerdictOutcome, right=names) | st.builds(VerdictOutcome, wrong=names)
acts = st.one_of(
    st.tuples(st.just("past_debates"), ids, debates),
    st.tuples(st.just("critique_patterns"), ids, st.lists(patterns, max_size=3)),
    st.tuples(st.just("ratings"), ids, st.dictionaries(names, st.floats(-64, 64))),
    st.tuples(st.just("positions"), ids, st.lists(positions, max_size=3)),
    st.tuples(st.just("personas"), ids, st.dictionaries(names, records)),
    st.tuples(st.just("votes"), ids, st.lists(ballots, max_size=3)),
    st.tuples(st.just("outcomes"), ids, outcomes),
)


async def record_fact(archive: Archive, act: Act) -> None:
    """Record one fact in the archive."""
    part, debate, value = act
    tells: dict[str, Callable[[], Awaitable[None]]] = {
        "past_debates": lambda: archive.past_debates.add(value),
        "critique_patterns": lambda: archive.critique_patterns.record(debate, value),
        "ratings": lambda: archive.ratings.apply(debate, value),
        "positions": lambda: archive.positions.add(debate, value),
        "personas": lambda: archive.personas.record(debate, value),
        "votes": lambda: archive.outcomes.add(debate, value),
        "outcomes": lambda: archive.outcomes.resolve(debate, value),
    }
    await tells[part]()


async def list_answers(archive: Archive) -> list[Any]:
    """Return all answers in the archive."""
    everybody = ["ann", "bob", "Zoë", "stranger"]
    return [
        [
            list(await archive.past_debates.recent(task, limit=9))
            for task in ("It is dear.", "Cap rents now", "家賃", "")
        ],
        list(await archive.past_debates.recent("rents", limit=1)),
        list(await archive.critique_patterns.successful(limit=9)),
        list(await archive.critique_patterns.successful(limit=1)),
        dict(await archive.ratings.of(everybody)),
        [list(await archive.positions.of(name)) for name in everybody],
        [await archive.personas.of(name) for name in everybody],
        [list(await archive.outcomes.ballots(debate)) for debate in "123"],
        {name: sorted(records) for name, records in (await archive.outcomes.of(everybody)).items()},
    ]


@given(st.lists(st.tuples(acts, st.booleans()), max_size=12))
def test_stored_archive_matches_an_in_memory_archive(steps: list[tuple[Act, bool]]) -> None:
    """After any sequence of changes, two archives in the same store must agree with an archive in memory."""

    async def compare() -> None:
        store, memory = MemoryStore(), Archive()
        one, second = stored_archive(store), stored_archive(store)
        for act, ask in steps:
            await record_fact(memory, act)
            await record_fact(one if ask else second, act)
            if ask:
                assert await list_answers(second) == await list_answers(memory)
        assert await list_answers(one) == await list_answers(second) == await list_answers(memory)
        assert await list_answers(stored_archive(store)) == await list_answers(memory)

    asyncio.run(compare())


async def test_archive_survives_reopening_its_file(tmp_path: Path) -> None:
    steps: list[Act] = [
        ("past_debates", "1", PastDebate(id="1", task="Cap rents?", outcome="consensus", answer="Yes.", at=9.5)),
        ("critique_patterns", "1", [CritiquePattern(issue="dear", successes=1, uses=2)]),
        ("ratings", "1", {"ann": 16.0, "bob": -16.0}),
        ("positions", "1", [Position(agent="ann", answer="yes", round=1)]),
        ("personas", "1", {"ann": PersonaRecord(debates=1, wins=1)}),
        ("votes", "1", [Ballot(voter="ann", choice="bob", confidence=0.8)]),
        ("outcomes", "1", VerdictOutcome(right="bob")),
    ]
    memory = Archive()
    store = SqliteStore(tmp_path / "runs.sqlite3")
    for act in steps:
        await record_fact(memory, act)
        await record_fact(stored_archive(store, name="council"), act)
    await store.close()
    store = SqliteStore(tmp_path / "runs.sqlite3")
    for act in steps:  # a resumed run records the facts again
        await record_fact(stored_archive(store, name="council"), act)
    assert await list_answers(stored_archive(store, name="council")) == await list_answers(memory)
    assert await list_answers(stored_archive(store)) == await list_answers(Archive())
    await store.close()


PROCESS = """
import asyncio, sys
from flowdebate.store.archive import stored_archive
from flowdebate.store.sqlite.store import SqliteStore

async def main(path, mine):
    store = SqliteStore(path)
    archive = stored_archive(store)
    for number in range(25):
        await archive.ratings.apply(f"{mine}-{number}", {"ann": 1.0, mine: 2.0})
        await archive.ratings.apply(f"both-{number}", {"cy": 4.0})
        await archive.ratings.of(["ann"])
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_no_concurrent_rating_change_is_lost(tmp_path: Path) -> None:
    """Two processes change the ratings at the same time. A debate that both of them report counts only once."""
    path = tmp_path / "runs.sqlite3"
    children = [Warm(PROCESS, str(path), name) for name in ("bob", "dan")]
    assert [await asyncio.to_thread(child.wait, 60) for child in children] == [0, 0]
    store = SqliteStore(path)
    ratings = await stored_archive(store).ratings.of(["ann", "bob", "cy", "dan"])
    assert {name: (one.elo, one.debates) for name, one in ratings.items()} == {
        "ann": (1550.0, 50),
        "bob": (1550.0, 25),
        "cy": (1600.0, 25),
        "dan": (1550.0, 25),
    }
    await store.close()


# In a pipeline


async def voter(request: Any, ctx: Context) -> Any:
    """Return an agent that criticizes, revises, and votes for ann."""
    if isinstance(request, ProposalRequest):
        return f"{request.agent}: cap rents"
    if isinstance(request, CritiqueRequest):
        return {"issues": ["It is dear."], "suggestions": ["Say who pays."]}
    if isinstance(request, RevisionRequest):
        return {"proposal": f"{request.agent}: cap rents at 3%", "position": "cap"}
    assert isinstance(request, VoteRequest)
    return {"choice": "ann", "confidence": 0.9}


async def test_consensus_remembers_the_results_of_an_earlier_process(tmp_path: Path) -> None:
    from flowdebate import Persona

    personas = [Persona(name, f"{name} of the council", block=voter) for name in ("ann", "bob", "cy")]
    outputs, remembered = [], []
    for _ in range(2):
        store = SqliteStore(tmp_path / "runs.sqlite3")
        archive = stored_archive(store)
        pattern = consensus(name="plan", agents=personas, max_rounds=1, archive=archive)
        outputs.append((await pattern.run("How can rents be affordable?")).output)
        remembered.append(await archive.ratings.of(["ann"]))
        positions_kept = await archive.positions.of("bob")
        record = await archive.personas.of("ann")
        await store.close()
    first, second = outputs
    assert first.feedback is not None
    assert second.feedback is not None
    assert first.feedback.problems == second.feedback.problems == []
    assert first.context.past_debates == []
    assert [past.answer for past in second.context.past_debates] == [first.answer]
    assert [(one.issue, one.successes) for one in second.context.critique_patterns] == [("It is dear.", 2)]
    assert remembered[0]["ann"].elo < remembered[1]["ann"].elo
    assert remembered[1]["ann"].debates == 2
    assert [position.answer for position in positions_kept] == ["cap", "cap"]
    assert (record.debates, record.wins) == (2, 2)


# Rejected input


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, None, 7])
def test_archive_name_must_be_a_short_line_of_text(name: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"stored_archive: `name` .*1 to 100 printable characters"):
        stored_archive(MemoryStore(), name=name)


@pytest.mark.parametrize("store", [False, True, 7, ""])
def test_archive_requires_a_store(store: Any) -> None:
    """The error lists the possible stores."""
    with pytest.raises(ConfigurationError, match="stored_archive: `store` must be"):
        stored_archive(store)


async def test_invalid_numbers_do_not_corrupt_ratings() -> None:
    archive = stored_archive(MemoryStore())
    with pytest.raises(StoreError, match="the document of debate 1 in archive/default/ratings cannot be stored"):
        await archive.ratings.apply("1", {"ann": float("nan")})
    with pytest.raises(StoreError, match=r"cannot be stored: `ann` .*number"):
        await archive.ratings.apply("1", {"ann": "good"})  # type: ignore[dict-item]
    assert dict(await archive.ratings.of(["ann"])) == {}
    await archive.ratings.apply("1", {"ann": 1.0})
    assert (await archive.ratings.of(["ann"]))["ann"].elo == 1501.0


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("rents", "cannot be read: JSONDecodeError"),
        ("[" * 3000, "cannot be read: "),
        ("[]", "cannot be read: TypeError"),
        ("{}", "cannot be read: KeyError: 'format'"),
        ('{"format": 1, "value": {"ann": "good"}}', "cannot be read: `ann` "),
        (
            '{"format": 2, "value": 0}',
            r"was written by another version of flowdebate \(format 2; this version reads 1\): use that",
        ),
    ],
)
async def test_error_names_the_unreadable_document(body: str, problem: str) -> None:
    """The debate continues without its history, and the document is left unchanged."""
    store = MemoryStore()
    await store.put("archive/default/ratings", "9", body)
    with pytest.raises(StoreError, match=f"the document of debate 9 in archive/default/ratings {problem}"):
        await stored_archive(store).ratings.of(["ann"])
    assert dict(await store.documents("archive/default/ratings")) == {"9": body}


def test_stored_archive_contains_every_part() -> None:
    archive = stored_archive(MemoryStore(), patience=3.0)
    assert archive.patience == 3.0
    parts = [getattr(archive, field.name) for field in fields(Archive) if field.name != "patience"]
    logs = [getattr(part, field.name) for part in parts for field in fields(part)]
    assert len({id(log) for log in logs}) == 7
    assert all(type(log) is not Log for log in logs)


# Corrections and deletions


async def agreed_debate(archive: Archive) -> str:
    """Run a debate that agrees on ann's proposal, and return its id."""
    from flowdebate import Persona

    personas = [Persona(name, f"{name} of the council", block=voter) for name in ("ann", "bob", "cy")]
    pattern = consensus(name="plan", agents=personas, max_rounds=1, archive=archive)
    feedback = (await pattern.run("How can rents be affordable?")).output.feedback
    assert feedback is not None
    assert feedback.debate is not None
    return feedback.debate


async def test_outcomes_and_answers_can_be_corrected() -> None:
    """The latest outcome applies to the debate and its voters, even in a process that has read an earlier one."""
    store = MemoryStore()
    archive, second_archive = stored_archive(store), stored_archive(store)
    debate = await agreed_debate(archive)
    await archive.record_outcome(debate, wrong="ann")
    assert [past.turned_out for past in await second_archive.debates()] == ["wrong"]
    assert [outcome.right for outcome in (await second_archive.outcomes.of(["bob"]))["bob"]] == [False]
    await archive.correct(debate, right="ann", answer="Cap rents at 4%.")
    assert [(past.answer, past.turned_out) for past in await second_archive.debates()] == [
        ("Cap rents at 4%.", "right")
    ]
    assert [outcome.right for outcome in (await second_archive.outcomes.of(["bob"]))["bob"]] == [True]
    assert [past.answer for past in await second_archive.past_debates.recent("Rents?", limit=1)] == ["Cap rents at 4%."]


async def test_deleted_debate_leaves_no_trace() -> None:
    """Not a word of the debate remains, while other debates are kept."""
    store = MemoryStore()
    archive = stored_archive(store)
    one, second = await agreed_debate(archive), await agreed_debate(archive)
    await archive.record_outcome(one, right="ann")
    before = await list_answers(archive)
    await archive.forget(one)
    assert [past.id for past in await archive.debates()] == [second]
    assert (await archive.ratings.of(["ann"]))["ann"].debates == 1
    assert dict(await archive.outcomes.of(["ann"])) == {}
    assert await list_answers(archive) != before
    for part in archive.logs:
        assert all(one not in body for body in (await store.documents(f"archive/default/{part}")).values())
    await archive.forget("a debate that never was")
    await archive.ratings.apply(one, {"ann": 16.0})  # belongs to a later run with the same id
    assert (await stored_archive(store).ratings.of(["ann"]))["ann"].debates == 2


@pytest.mark.parametrize(
    ("correction", "problem"),
    [
        ({"debate": "rents", "right": "ann"}, "`debate` is not in this archive \\(got rents\\)"),
        ({"right": "zoe"}, "`right` is not an agent in the debate"),
        ({}, "`right` is required unless `wrong` is set"),
        ({"answer": " "}, "`answer` must not be blank"),
    ],
)
async def test_invalid_correction_is_rejected(correction: dict[str, Any], problem: str) -> None:
    archive = stored_archive(MemoryStore())
    debate = await agreed_debate(archive)
    before = await list_answers(archive)
    with pytest.raises(ConfigurationError, match=problem):
        await archive.correct(**{"debate": debate, **correction})
    assert await list_answers(archive) == before
