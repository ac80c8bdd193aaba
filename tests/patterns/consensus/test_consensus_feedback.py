"""Data that debates store in the archive and that later debates read from it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import ConvergenceOptions, Limits, VotingOptions, sequencer
from flowdebate.errors import LimitReached, NoProposals, ProviderFailed
from flowdebate.measures import Jaccard
from flowdebate.resources.archive import Archive, CritiquePattern, PastDebate, PersonaRecord

from .debates import NAMES, TASK, THREE, Call, World, answer_of, check_emitted, comparable, model, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.runs.context import Context

PARTS = ("past_debates", "critique_patterns", "ratings", "positions", "personas")


async def elo(archive: Archive, *names: str) -> dict[str, float]:
    """Read the agents' ratings from the archive."""
    return {name: rating.elo for name, rating in (await archive.ratings.of(names)).items()}


def voting(*choices: str) -> Any:
    """Create a model whose agents cast the listed votes, in declared order."""

    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": choices[NAMES.index(call.agent)]} if call.phase == "vote" else None

    return model(answer)


# Ratings


async def _ratings_after(archive: Archive, *choices: str) -> tuple[ConsensusOutput, dict[str, float]]:
    debate = plan(NAMES[: len(choices)], max_rounds=1, archive=archive)
    result = await debate.run(TASK, model=voting(*choices))
    check_emitted(result)
    return result.output, await elo(archive, *NAMES)


@pytest.mark.anyio
async def test_consensus_winner_gains_what_the_others_lose() -> None:
    """All three agents start with a rating of 1500.

    The winner gains 10.667 points, and the others lose 5.333 points each.
    """
    output, ratings = await _ratings_after(Archive(), "ann", "ann", "ann")
    assert output.feedback is not None
    assert output.feedback.rating_changes == pytest.approx({"ann": 32 / 3, "bob": -16 / 3, "cy": -16 / 3})
    assert ratings == pytest.approx({"ann": 1500 + 32 / 3, "bob": 1500 - 16 / 3, "cy": 1500 - 16 / 3})


@pytest.mark.anyio
async def test_winner_takes_points_from_all_others_if_there_is_no_consensus() -> None:
    """Since no other agent voted for the winner's proposal, the winner gains 16 points from each of them."""
    output, ratings = await _ratings_after(Archive(), "ann", "ann", "bob", "nobody")
    assert output.outcome == "no_consensus"
    assert ratings == pytest.approx({"ann": 1548, "bob": 1484, "cy": 1484, "di": 1484})


@pytest.mark.anyio
async def test_ratings_do_not_change_if_there_is_no_winner() -> None:
    output, ratings = await _ratings_after(Archive(), "ann", "ann", "bob", "bob")
    assert output.feedback is not None
    assert output.feedback.rating_changes == {}
    assert ratings == {}


@given(size=st.integers(1, 8), seeds=st.lists(st.integers(0, 999), min_size=1, max_size=4))
@pytest.mark.slow
def test_ratings_are_zero_sum(size: int, seeds: list[int]) -> None:
    names, archive = NAMES[:size], Archive()
    debate = plan(names, max_rounds=1, topology="star", archive=archive)
    summed = dict.fromkeys(names, 1500.0)
    for seed in seeds:
        output = debate.run_sync(TASK, model=World(seed, names).model(), seed=seed).output
        assert output.feedback is not None
        assert output.feedback.problems == []
        changes = output.feedback.rating_changes
        assert sum(changes.values()) == pytest.approx(0)
        assert set(changes) == (set(names) if output.winner else set())
        summed = {name: elo + changes.get(name, 0) for name, elo in summed.items()}
    ratings = asyncio.run(elo(archive, *names))
    assert {name: ratings.get(name, 1500.0) for name in names} == pytest.approx(summed)
    assert sum(summed.values()) == pytest.approx(1500 * size)


@pytest.mark.anyio
async def test_ratings_count_each_debate_only_once() -> None:
    archive = Archive()
    reports: list[tuple[str, Any]] = []

    @dataclass
    class Twice:
        inner: Any

        async def of(self, names: Any, /) -> Any:
            return await self.inner.of(names)

        async def apply(self, debate: str, changes: Any, /) -> None:
            reports.append((debate, changes))
            await self.inner.apply(debate, changes)
            await self.inner.apply(debate, changes)

    archive.ratings = Twice(archive.ratings)
    debate = plan(max_rounds=1, archive=archive)
    one = await debate.run(TASK, model=model())
    assert (await elo(archive, "ann"))["ann"] == pytest.approx(1510.667, abs=1e-3)
    twice = sequencer(name="both").then(debate).map(lambda output: output.task).then(debate)
    result = await twice.run(TASK, model=model())
    ids = [debate for debate, _ in reports]
    assert len(set(ids)) == len(ids) == 3
    assert ids[0].startswith(one.run_id)
    assert all(name.startswith(result.run_id) for name in ids[1:])
    assert [past.id for past in await archive.past_debates.recent(TASK, limit=9)] != []
    assert len(await archive.past_debates.recent(TASK, limit=9)) == 3


# Positions, personas, points


def answer_with_changes(call: Call) -> Any:
    """Let ann reverse her position, bob qualify his, and cy keep his; ann's critique helps bob win."""
    if call.phase == "revision":
        positions = {"ann": ("yes", "no"), "bob": ("yes", "yes, in cities"), "cy": ("yes", "yes")}
        return {**answer_of(call), "position": positions[call.agent][call.round - 1]}
    if call.phase == "critique":
        return {**answer_of(call), "issues": [f"{call.target} is vague"], "suggestions": [f"say more on {call.target}"]}
    return {**answer_of(call), "choice": "bob"} if call.phase == "vote" else None


@pytest.mark.anyio
async def test_positions_and_changes_of_mind_are_stored() -> None:
    archive = Archive()
    output = (
        await plan(max_rounds=2, convergence=None, archive=archive).run(TASK, model=model(answer_with_changes))
    ).output
    assert output.feedback is not None
    stated = [(one.agent, one.round, one.answer) for one in output.feedback.positions]
    assert stated == [
        ("ann", 1, "yes"),
        ("bob", 1, "yes"),
        ("cy", 1, "yes"),
        ("ann", 2, "no"),
        ("bob", 2, "yes, in cities"),
        ("cy", 2, "yes"),
    ]
    assert {one.claim for one in output.feedback.positions} == {TASK}
    assert [(one.agent, one.kind) for one in output.feedback.flips] == [("ann", "contradiction"), ("bob", "refinement")]
    for name in THREE:
        positions = await archive.positions.of(name)
        assert list(positions) == [one for one in output.feedback.positions if one.agent == name]


@pytest.mark.anyio
async def test_persona_records_add_up_across_debates() -> None:
    archive = Archive()
    debate = plan(max_rounds=2, convergence=None, archive=archive)

    def answer(call: Call) -> Any:
        return ProviderFailed("down") if call == Call("critique", "cy", 1, "ann") else answer_with_changes(call)

    for _ in range(2):
        await debate.run(TASK, model=model(answer))
    records = {name: await archive.personas.of(name) for name in (*THREE, "zoe")}
    assert records == {
        "ann": PersonaRecord(debates=2, wins=0, failures=0, critiques=8, flips=2),
        "bob": PersonaRecord(debates=2, wins=2, failures=0, critiques=8, flips=2),
        "cy": PersonaRecord(debates=2, wins=0, failures=2, critiques=6, flips=0),
        "zoe": PersonaRecord(),
    }


@pytest.mark.anyio
async def test_critique_points_are_helpful_if_their_target_wins() -> None:
    archive = Archive()
    await plan(max_rounds=1, archive=archive).run(TASK, model=model(answer_with_changes))
    patterns = await archive.critique_patterns.successful(limit=9)
    assert list(patterns) == [
        CritiquePattern(issue="bob is vague", suggestion="say more on bob", successes=2, uses=2),
    ]
    (points,) = archive.critique_patterns.log.values.values()  # type: ignore[attr-defined]  # the log in memory
    assert {point.issue: (point.successes, point.uses) for point in points} == {
        "ann is vague": (0, 2),
        "bob is vague": (2, 2),
        "cy is vague": (0, 2),
    }


@pytest.mark.anyio
async def test_critique_points_without_a_revision_are_not_helpful() -> None:
    """The winner's revision failed, so the critique had no effect on the proposal that won."""
    archive = Archive()

    def answer(call: Call) -> Any:
        return ProviderFailed("down") if call == Call("revision", "bob", 1) else answer_with_changes(call)

    output = (await plan(max_rounds=1, archive=archive).run(TASK, model=model(answer))).output
    assert (output.winner, output.outcome) == ("bob", "consensus")
    assert list(await archive.critique_patterns.successful(limit=9)) == []


# The context of later debates


@pytest.mark.anyio
async def test_next_debate_reads_earlier_outcomes() -> None:
    archive = Archive()
    debate = plan(max_rounds=1, convergence=None, archive=archive)
    calls: list[Call] = []
    first = (await debate.run(TASK, model=model(answer_with_changes))).output
    second = (await debate.run("How can rents be lower?", model=model(answer_with_changes, calls=calls))).output
    assert [skipped.source for skipped in first.context.skipped] == ["history", "patterns", "research"]
    assert [past.task for past in second.context.past_debates] == [TASK]
    assert second.context.past_debates[0].answer == first.answer
    assert [point.issue for point in second.context.critique_patterns] == ["bob is vague"]
    assert [(skipped.source, skipped.reason) for skipped in second.context.skipped] == [
        ("research", "none was asked for")
    ]
    assert len(calls) == 3 + 6 + 3 + 3
    for call in calls:
        system = call.request.messages[0]["content"]
        assert f"- an earlier debate about: {TASK}" in system
        assert f"agreement on {first.answer}" in system
        assert "- an issue that critics have raised before: bob is vague\n- their suggestion: say more on bob" in system


@pytest.mark.anyio
async def test_debates_without_agreement_are_stored_without_an_answer() -> None:
    archive = Archive()
    debate = plan(NAMES[:4], max_rounds=1, archive=archive)
    calls: list[Call] = []
    await debate.run(TASK, model=voting("ann", "ann", "bob", "nobody"))
    output = (await debate.run(TASK, model=model(calls=calls))).output
    (past,) = output.context.past_debates
    assert (past.outcome, past.answer, past.winner) == ("no_consensus", None, "ann")
    assert "its outcome: no agreement" in calls[0].prompt


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [0, 1, 2, 9])
async def test_history_limit_bounds_the_context(limit: int) -> None:
    """The limit applies to past debates as well as to helpful points.

    If the limit is 0, the prompt contains neither, and the result gives that as the reason.
    """
    archive = Archive()
    for number in range(4):
        await archive.past_debates.add(PastDebate(id=f"{number}", task=TASK, outcome="no_consensus"))
        point = CritiquePattern(issue=f"point {number}", successes=1, uses=1)
        await archive.critique_patterns.record(f"{number}", [point])
    output = (await plan(max_rounds=1, archive=archive, history_limit=limit).run(TASK, model=model())).output
    assert len(output.context.past_debates) == len(output.context.critique_patterns) == min(limit, 4)
    reasons = {skipped.reason for skipped in output.context.skipped if skipped.source != "research"}
    assert reasons == ({"history_limit is 0"} if limit == 0 else set())


def _write_long_text(task: str, ctx: Context) -> str:
    return "word " * 5_000


async def _look_up(task: str) -> str:
    await asyncio.sleep(0)
    return f" Vienna builds. ({task}, \ud83d)\0 "


@dataclass(frozen=True)
class Research:
    """A research function and the context that it produces."""

    id: str
    function: Any
    text: str | None
    reasons: list[str] = field(default_factory=list)


LOOKED_UP = [
    Research("none", None, None, ["none was asked for"]),
    Research("text", lambda task, ctx: f"{task}: {ctx.block}", f"{TASK}: plan-context"),
    Research("of the task alone", lambda task: f"on {task}", f"on {TASK}"),
    Research("async", _look_up, f"Vienna builds. ({TASK}, \ufffd)"),
    Research("another value", lambda task: ["Vienna"], "['Vienna']"),
    Research("nothing", lambda task: None, None, ["nothing was found"]),
    Research("blank", lambda task: " \n", None, ["nothing was found"]),
    Research("too much", _write_long_text, ("word " * 5_000)[:20_000], ["cut after 20,000 of its 24,999 characters"]),
    Research("it raises", lambda task: 1 / 0, None, ["ZeroDivisionError: division by zero"]),
]


@pytest.mark.parametrize("case", LOOKED_UP, ids=lambda case: case.id)
def test_agents_see_research_and_missing_research_is_explained(case: Research) -> None:
    calls: list[Call] = []
    result = plan(max_rounds=1, research=case.function).run_sync(TASK, model=model(calls=calls))
    context = result.output.context
    assert context.research == case.text
    assert [skipped.reason for skipped in context.skipped if skipped.source == "research"] == case.reasons
    for call in calls:
        assert ("- research: " in call.prompt) is (case.text is not None)
        if case.text is not None:
            assert f"- research: {case.text}" in call.prompt
    assert result.status == "complete"


def test_research_that_reaches_a_run_limit_ends_the_run() -> None:
    """Reaching a run limit does not count as failed research, so no further calls may follow."""

    def spends(task: str) -> str:
        raise LimitReached("calls", limit=1, used=1)

    with pytest.raises(LimitReached) as caught:
        plan(research=spends).run_sync(TASK, model=model())
    check_emitted(caught.value.run)


# Failing archives


class Trouble(Exception):
    """An exception raised by a store."""


@dataclass
class Failing:
    """A store in which every method calls `act`."""

    act: Callable[[], Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        async def call(*args: Any, **options: Any) -> Any:
            return await self.act()

        return call


async def raise_trouble() -> Any:
    """Raise an exception, as a store does when it is down."""
    raise Trouble("disk\nfull")


async def never_return() -> Any:
    """Never return, as if the store were hanging."""
    await asyncio.Event().wait()


async def return_nonsense() -> Any:
    """Return an unusable value."""
    return [object()]


def broken_archive(parts: tuple[str, ...], act: Callable[[], Any]) -> Archive:
    """Create an archive with a short timeout in which the stores named in `parts` fail."""
    return Archive(**{part: Failing(act) for part in parts}, patience=0.01)


PROBLEMS = {
    "past_debates": ["history: "],
    "critique_patterns": ["patterns: "],
    "ratings": ["ratings: "],
    "positions": ["positions: "],
    "personas": ["personas: "],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("act", "reason"), [(raise_trouble, "Trouble: disk\\nfull"), (never_return, "no answer within 0.01 s")]
)
def test_failing_stores_affect_only_what_depends_on_them(part: str, act: Callable[[], Any], reason: str) -> None:
    archive = broken_archive((part,), act)
    result = plan(max_rounds=1, archive=archive).run_sync(TASK, model=model(answer_with_changes), seed=1)
    plain = plan(max_rounds=1).run_sync(TASK, model=model(answer_with_changes), seed=1)
    check_emitted(result)
    assert result.status == "complete"
    actual, expected = comparable(result.output), comparable(plain.output)
    for key in ("context", "feedback"):
        del actual[key], expected[key]
    assert actual == expected
    feedback = result.output.feedback
    assert feedback is not None
    assert len(feedback.problems) == 1
    assert feedback.problems[0].startswith(PROBLEMS[part][0])
    assert reason in feedback.problems[0]
    assert feedback.remembered is (part != "past_debates")
    assert (feedback.rating_changes == {}) is (part == "ratings")
    skipped = {one.source: one.reason for one in result.output.context.skipped}
    if part in ("past_debates", "critique_patterns"):
        assert reason in skipped["history" if part == "past_debates" else "patterns"]
    assert asyncio.run(_count_stored(archive, part)) == {"ratings": 3, "positions": 1, "personas": 1}


async def _count_stored(archive: Archive, broken: str) -> dict[str, int]:
    """Count the records in those parts of the archive that work."""
    return {
        "ratings": 3 if broken == "ratings" else len(await archive.ratings.of(THREE)),
        "positions": 1 if broken == "positions" else len(await archive.positions.of("ann")),
        "personas": 1 if broken == "personas" else (await archive.personas.of("ann")).debates,
    }


@pytest.mark.parametrize("act", [raise_trouble, never_return, return_nonsense])
def test_broken_archives_do_not_affect_the_answer(act: Callable[[], Any]) -> None:
    result = plan(max_rounds=1, archive=broken_archive(PARTS, act)).run_sync(TASK, model=model())
    check_emitted(result)
    assert (result.status, result.output.winner, result.output.outcome) == ("complete", "ann", "consensus")
    assert {skipped.source for skipped in result.output.context.skipped} == {"history", "patterns", "research"}
    assert result.output.feedback is not None
    assert result.output.feedback.rating_changes == {}
    assert len(result.output.feedback.problems) == (1 if act is return_nonsense else 5)


@pytest.mark.parametrize("act", [raise_trouble, never_return, return_nonsense])
def test_votes_have_default_weights_if_ratings_are_unavailable(act: Callable[[], Any]) -> None:
    archive = broken_archive(("ratings",), act)
    debate = plan(max_rounds=1, archive=archive, voting=VotingOptions("weighted", weights={"cy": 4.0}))
    result = debate.run_sync(TASK, model=voting("ann", "ann", "bob"))
    check_emitted(result)
    assert result.output.tally is not None
    assert result.output.tally.weights == {"ann": 2.0, "bob": 4.0, "cy": 0.0}
    assert result.output.winner == "bob"
    assert result.output.feedback is not None
    assert result.output.feedback.problems[0].startswith("weights: ")
    assert result.status == result.output.status == "degraded"


def test_runs_cancelled_during_archiving_keep_their_answer() -> None:
    telling = asyncio.Event()

    async def hang() -> None:
        telling.set()
        await asyncio.Event().wait()

    async def cancelled() -> Any:
        archive = Archive(positions=Failing(hang))
        handle = plan(max_rounds=1, archive=archive).start(TASK, model=model())
        await telling.wait()
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        return handle

    handle = asyncio.run(cancelled())
    check_emitted(handle)
    assert handle.status == handle.raw.status == "interrupted"
    assert (handle.raw.outcome, handle.raw.winner) == ("consensus", "ann")


def test_answer_is_not_lost_if_a_limit_is_reached_during_archiving() -> None:
    archive = Archive(personas=Failing(never_return))
    debate = plan(max_rounds=1, archive=archive)
    result = debate.run_sync(TASK, model=model(), limits=Limits(seconds=0.5))
    check_emitted(result)
    assert result.status == result.raw.status == "limit"
    assert (result.raw.outcome, result.raw.winner) == ("consensus", "ann")


def test_failing_analytics_do_not_affect_the_answer() -> None:
    class Tired(Jaccard):
        name = "tired"
        comparisons = 0

        def __call__(self, texts: Any, /) -> Any:
            self.comparisons += 1
            if self.comparisons > 4:
                raise Trouble("enough")
            return super().__call__(texts)

    long = "We should build one thousand homes near the station"

    def answer(call: Call) -> Any:
        if call.phase != "revision":
            return None
        return {**answer_of(call), "position": f"{long} {'soon' if call.round == 1 else 'now'} {call.round * 'x'}"}

    output = (
        plan(max_rounds=2, convergence=ConvergenceOptions(None, similarity=Tired()))
        .run_sync(TASK, model=model(answer))
        .output
    )
    assert output.winner == "ann"
    assert output.analytics is not None
    assert output.feedback is not None
    assert output.feedback.problems == ["feedback: Trouble: enough"]


@pytest.mark.anyio
async def test_debates_without_a_vote_count_are_not_archived() -> None:
    archive = Archive()
    with pytest.raises(NoProposals):
        await plan(archive=archive).run(TASK, model=model(lambda _: ProviderFailed("down")))
    result = await plan(archive=archive, timeout=0.01).run(TASK, model=model(lambda _: never_return()))
    assert result.output.feedback is None
    assert await archive.past_debates.recent(TASK, limit=9) == []
    assert await archive.ratings.of(THREE) == {}


@pytest.mark.anyio
async def test_concurrent_debates_can_share_an_archive() -> None:
    archive = Archive()
    debate = plan(max_rounds=1, archive=archive)
    results = await asyncio.gather(*[debate.run(TASK, model=model()) for _ in range(10)])
    record = await archive.personas.of("ann")
    assert (record.debates, record.wins) == (10, 10)
    ratings = await archive.ratings.of(THREE)
    assert sum(rating.elo for rating in ratings.values()) == pytest.approx(4500)
    changed = sum(result.output.feedback.rating_changes["ann"] for result in results if result.output.feedback)
    assert ratings["ann"].elo == pytest.approx(1500 + changed)
    assert ratings["ann"].debates == 10
