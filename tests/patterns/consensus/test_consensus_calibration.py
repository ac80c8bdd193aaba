"""Outcomes recorded after debates, and how they affect the weights of later votes."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.measures import calibration
from flowdebate.resources.archive import Archive, Rating, VerdictOutcome
from flowdebate.store import MemoryStore, stored_archive

from .debates import TASK, Call, answer_of, model, plan

pytestmark = pytest.mark.anyio

VOTES = {"ann": ("ann", 0.9), "bob": ("ann", 0.6), "cy": ("cy", 0.8)}


def vote_with_confidence(call: Call) -> Any:
    """Let ann and bob vote for ann with different levels of confidence, and let cy vote for himself."""
    if call.phase != "vote":
        return None
    choice, confidence = VOTES[call.agent]
    return {**answer_of(call), "choice": choice, "confidence": confidence}


async def run_debate(archive: Archive, **options: Any) -> Any:
    """Run a debate with the archive and return its output."""
    return (
        await plan(max_rounds=1, archive=archive, **options).run(TASK, model=model(vote_with_confidence), seed=1)
    ).output


async def weights(archive: Archive) -> dict[str, float]:
    """Return each proposal's weight in a weighted vote between equally rated agents."""
    output = await run_debate(archive, voting="weighted")
    assert output.tally is not None
    return {name: round(weight, 6) for name, weight in output.tally.weights.items()}


async def reset_ratings(archive: Archive) -> None:
    """Reset all ratings so that weights differ only by calibration."""
    rated = await archive.ratings.of(tuple(VOTES))
    await archive.ratings.apply("level", {name: 1500 - rating.elo for name, rating in rated.items()})


@pytest.mark.parametrize("kind", ["memory", "stored"])
async def test_correct_and_confident_voters_gain_weight(kind: str) -> None:
    archive = Archive() if kind == "memory" else stored_archive(MemoryStore())
    first = await run_debate(archive)
    await reset_ratings(archive)
    factors = {name: 0.5 + (calibration([(sure, choice == "cy")]) or 0.0) for name, (choice, sure) in VOTES.items()}
    assert factors["cy"] > 1 > factors["bob"] > factors["ann"]
    await archive.record_outcome(first.feedback.debate, right="cy")
    assert await weights(archive) == {
        "ann": round(factors["ann"] + factors["bob"], 6),
        "bob": 0.0,
        "cy": round(factors["cy"], 6),
    }


async def test_votes_without_recorded_outcomes_are_weighted_by_rating() -> None:
    archive = Archive()
    await run_debate(archive)
    await reset_ratings(archive)
    assert await weights(archive) == {"ann": 2.0, "bob": 0.0, "cy": 1.0}


async def test_wrong_verdict_says_nothing_about_other_choices() -> None:
    """Ann's proposal turned out to be wrong, but nobody knows whether Cy's proposal would have been better."""
    archive = Archive()
    first = await run_debate(archive)
    await archive.record_outcome(first.feedback.debate, wrong="ann")
    outcomes = await archive.outcomes.of(("ann", "bob", "cy"))
    assert outcomes == {"ann": [(0.9, False)], "bob": [(0.6, False)]}


async def test_only_the_first_outcome_recorded_for_a_debate_counts() -> None:
    archive = Archive()
    first = await run_debate(archive)
    for name in ("cy", "cy", "ann"):
        await archive.record_outcome(first.feedback.debate, right=name)
    assert await archive.outcomes.of(("cy",)) == {"cy": [(0.8, True)]}


async def test_calibration_from_the_application_takes_precedence() -> None:
    class Known:
        async def of(self, names: Any, /) -> dict[str, Rating]:
            return {name: Rating(calibration=1.0) for name in names}

        async def apply(self, debate: str, changes: Any, /) -> None:
            pass

    archive = Archive(ratings=Known())
    first = await run_debate(archive)
    await archive.record_outcome(first.feedback.debate, right="bob")
    assert await weights(archive) == {"ann": 3.0, "bob": 0.0, "cy": 1.5}


@pytest.mark.parametrize(
    ("debate", "options", "field"),
    [
        ("none", {"right": "ann"}, "debate"),
        (None, {}, "right"),
        (None, {"right": "ann", "wrong": "bob"}, "right"),
        (None, {"right": " "}, "right"),
        (None, {"wrong": 7}, "wrong"),
        (None, {"right": "Ann"}, "right"),
        (None, {"wrong": "typo"}, "wrong"),
    ],
)
@pytest.mark.parametrize("kind", ["memory", "stored"])
async def test_invalid_outcomes_are_rejected(
    debate: str | None, options: dict[str, Any], field: str, kind: str
) -> None:
    archive = Archive() if kind == "memory" else stored_archive(MemoryStore())
    first = await run_debate(archive)
    with pytest.raises(ConfigurationError) as caught:
        await archive.record_outcome(debate or first.feedback.debate, **options)
    assert caught.value.field == field
    assert await archive.outcomes.of(("ann", "bob", "cy")) == {}


async def test_errors_for_unknown_agents_list_the_agent_names() -> None:
    """Nothing is recorded under a misspelled name, so the outcome can still be recorded afterwards."""
    archive = Archive()
    first = await run_debate(archive)
    with pytest.raises(ConfigurationError, match=r"is not an agent in the debate .got typo.. Choose ann, bob or cy"):
        await archive.record_outcome(first.feedback.debate, right="typo")
    await archive.record_outcome(first.feedback.debate, right="ann")
    assert await archive.outcomes.of(("cy",)) == {"cy": [(0.8, False)]}


async def test_agent_that_cast_no_vote_can_be_right() -> None:
    archive = Archive()
    first = await run_debate(archive)
    ballots = await archive.outcomes.ballots(first.feedback.debate)
    await archive.outcomes.add("without bob", [ballot for ballot in ballots if ballot.voter != "bob"])
    await archive.record_outcome("without bob", right="bob")
    assert first.feedback.debate != "without bob"
    assert await archive.outcomes.of(("ann", "cy")) == {"ann": [(0.9, False)], "cy": [(0.8, False)]}


def test_outcomes_require_exactly_one_agent() -> None:
    with pytest.raises(ValueError, match="either `right` or `wrong`"):
        VerdictOutcome(right="ann", wrong="bob")
    with pytest.raises(ValueError, match="either `right` or `wrong`"):
        VerdictOutcome()
