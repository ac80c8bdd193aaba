"""Votes and vote results."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowdebate import VotingOptions
from flowdebate._text import clean_text
from flowdebate.errors import ConnectionLost, RosterError
from flowdebate.measures import vote_weight
from flowdebate.models.reading import find_name
from flowdebate.patterns.consensus.agents import create_tie_judge
from flowdebate.prompts import tag_name
from flowdebate.resources.archive import Archive, LoggedRatings, Rating
from flowdebate.testing import ATTACKS
from tests.prompts.nasty import texts

from .debates import NAMES, TASK, THREE, Call, answer_of, check_emitted, model, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.consensus.questions import TieBreakRequest
    from flowdebate.patterns.consensus.schemas import ConsensusOutput

STRENGTHS = ("contested", "split", "weak", "moderate", "strong", "unanimous")
FOUR = NAMES[:4]


def vote(choices: Mapping[str, str | None] | Sequence[str | None], **options: Any) -> ConsensusOutput:
    """Run a debate with these votes; None makes a vote fail."""
    by_name = choices if isinstance(choices, Mapping) else dict(zip(NAMES, choices, strict=False))
    confidence = options.pop("confidence", 1.0)

    def answer(call: Call) -> Any:
        if call.phase != "vote":
            return None
        choice = by_name[call.agent]
        if choice is None:
            return ConnectionLost("gone")
        return {"reasoning": f"{call.agent} is for {choice}.", "choice": choice, "confidence": confidence}

    debate = plan(list(by_name), max_rounds=1, topology="star", **options)
    result = debate.run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    return result.output


# Counting


@given(
    choices=st.lists(st.sampled_from((*NAMES, "nobody", None)), min_size=1, max_size=10),
    confidence=st.floats(0, 1),
    voting=st.sampled_from(("majority", "supermajority", "unanimous", "weighted")),
)
def test_every_eligible_vote_counts_as_valid_spoiled_or_failed(
    choices: list[str | None], confidence: float, voting: str
) -> None:
    output = vote(choices, confidence=confidence, voting=voting)
    names = NAMES[: len(choices)]
    tally = output.tally
    assert tally is not None
    valid = [choice for choice in choices if choice in names]
    lost = choices.count(None)
    assert (tally.valid, tally.spoiled, tally.failed) == (len(valid), len(choices) - len(valid) - lost, lost)
    assert tally.valid + tally.spoiled + tally.failed == tally.eligible == len(choices)
    assert tally.counts == {name: valid.count(name) for name in names}
    assert 0 <= output.confidence <= 1
    assert output.confidence == tally.confidence
    assert output.consensus_reached is tally.reached
    assert output.stages[-1].stage == ("CONSENSUS_REACHED" if tally.reached else "NO_CONSENSUS")
    assert [(b.voter, b.choice) for b in output.ballots] == [
        (name, choice) for name, choice in zip(names, choices, strict=True) if choice is not None
    ]
    if output.winner is None:
        assert (output.answer, output.confidence, output.consensus_reached) == (None, 0, False)
    else:
        assert output.answer == next(p.text for p in output.final_proposals if p.agent == output.winner)


@pytest.mark.parametrize("size", [1, 2, 5, 6])
@pytest.mark.parametrize("voting", ["majority", "supermajority", "unanimous"])
def test_more_votes_never_weaken_an_agreement(size: int, voting: str) -> None:
    results = []
    for agreeing in range(size + 1):
        other_votes = [None if index % 2 else "nobody" for index in range(size - agreeing)]
        output = vote(["ann"] * agreeing + other_votes, voting=voting)
        results.append((STRENGTHS.index(output.strength or ""), output.consensus_reached))
    assert [strength for strength, _ in results] == sorted(strength for strength, _ in results)
    assert [reached for _, reached in results] == sorted(reached for _, reached in results)
    assert results[-1] == (STRENGTHS.index("unanimous"), True)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 9])
@pytest.mark.parametrize(
    ("voting", "share", "itself"),
    [("majority", Fraction(1, 2), False), ("supermajority", Fraction(2, 3), True), ("unanimous", Fraction(1), True)],
)
def test_each_rule_requires_its_exact_share(size: int, voting: str, share: Fraction, itself: bool) -> None:  # noqa: FBT001
    """The rules require more than half, at least two thirds, and all of the votes, respectively."""
    for agreeing in range(size + 1):
        met = agreeing >= min(size, max(2, -(-size // 2)))
        had = Fraction(agreeing, size)
        output = vote(["ann"] * agreeing + ["nobody"] * (size - agreeing), voting=voting)
        assert output.consensus_reached is (met and (had >= share if itself else had > share))


def test_strength_counts_all_eligible_voters() -> None:
    """The agreement is weaker if an agent does not vote."""
    rows: dict[str, Sequence[str | None]] = {
        "unanimous": ["ann"] * 3,
        "strong": ["ann"] * 6 + ["bob"],
        "moderate": ["ann", "ann", "ann", "bob", None],
        "weak": ["ann"] * 5 + ["bob"] * 4,
        "split": ["ann", "ann", "bob", "bob"],
        "contested": ["ann", "bob", "cy"],
    }
    assert {strength: vote(choices).strength for strength, choices in rows.items()} == {key: key for key in rows}


def test_single_agent_agrees_with_itself() -> None:
    calls: list[Call] = []
    result = plan(["ann"], convergence=None).run_sync(TASK, model=model(calls=calls))
    check_emitted(result)
    output = result.output
    assert [call.phase for call in calls] == ["proposal", "vote"]
    assert (output.outcome, output.winner, output.strength, output.confidence) == (
        "consensus",
        "ann",
        "unanimous",
        0.75,
    )
    assert [one.edges for one in output.rounds] == [[], [], []]
    assert output.feedback is not None
    assert output.answer == "ann has a first idea."


@pytest.mark.parametrize(
    ("choices", "min_votes", "met"),
    [
        (["ann", None], None, False),
        (["ann", "ann"], None, True),
        (["ann", "ann", None, None], None, True),
        (["ann", "nobody", None, None], None, False),
        (["ann", "ann", None, None, None], None, False),
        (["ann", None, None, None], 1, True),
        (["ann", "ann", "ann", None], 4, False),
    ],
)
def test_winner_needs_enough_votes(choices: list[str | None], min_votes: int | None, met: bool) -> None:  # noqa: FBT001
    """By default, at least half of the agents, and never fewer than two, must cast valid votes."""
    output = vote(choices, voting=VotingOptions(min_votes=min_votes))
    assert output.tally is not None
    assert output.tally.quorum_met is met
    assert output.winner == ("ann" if met else None)
    if not met:
        assert "the quorum is" in output.tally.reason


# Choices


@pytest.mark.parametrize(
    "written", ["ann", " ANN ", "**Ann**", "Ann's", "the proposal of ann", "I vote for Ann.", "[ann]", "A\u200bnn\n"]
)
def test_choices_are_parsed_leniently(written: str) -> None:
    """Models decorate the names they choose with Markdown, brackets, invisible characters or extra words."""
    output = vote([written] * 3)
    assert output.winner == "ann"
    assert [ballot.choice for ballot in output.ballots] == ["ann"] * 3


@pytest.mark.parametrize("written", ["", " ", "nobody", "ann or bob", "ann\x00bob", "none of them", "a" * 5000])
def test_unknown_choices_spoil_the_vote_and_are_recorded_verbatim(written: str) -> None:
    output = vote([written, "ann", "ann"])
    assert output.tally is not None
    assert (output.tally.valid, output.tally.spoiled) == (2, 1)
    assert output.ballots[0].choice == written.replace("\0", "")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_attacks_given_as_choices_spoil_the_vote(attack: Any) -> None:
    output = vote([attack.written(own="ann", other="bob"), "bob", "bob"])
    assert output.tally is not None
    assert (output.tally.spoiled, output.winner) == (1, "bob")


@given(written=st.lists(texts | st.sampled_from(("ann", "ANN", "[bob]")), min_size=3, max_size=3), custom=st.booleans())
def test_all_votes_are_counted(written: list[str], custom: bool) -> None:  # noqa: FBT001
    """A vote that contains arbitrary characters, even lone surrogates, must still be stored as valid JSON."""

    def block(request: Any) -> Any:
        index = THREE.index(request.agent)
        return {"proposal": "An idea.", "critique": {}, "revision": "An idea.", "vote": written[index]}[request.kind]

    if custom:
        output = plan(agents=[{"name": name, "block": block} for name in THREE], max_rounds=1).run_sync(TASK).output
    else:
        output = vote(written)
    cleaned = [clean_text(text) for text in written]
    assert [ballot.choice for ballot in output.ballots] == [find_name(text, THREE) or text for text in cleaned]
    assert output.tally is not None
    valid = [text for text in cleaned if find_name(text, THREE) is not None]
    assert (output.tally.valid, output.tally.spoiled, output.tally.failed) == (len(valid), 3 - len(valid), 0)
    output.model_dump_json()


@given(name=st.text(min_size=1, max_size=12), other=st.text(min_size=1, max_size=12))
def test_escaped_names_match_their_agent(name: str, other: str) -> None:
    """Prompts show names in brackets, with any commas or brackets in them escaped, and models copy what they see."""
    assume(name != other and tag_name(name) != other)
    assert find_name(tag_name(name), [name, other]) == name
    assert find_name(name, [other, name]) == name


def test_voters_may_copy_escaped_names() -> None:
    names = ("Änne O'Neill, PhD", "bob", "cy")
    output = vote(dict.fromkeys(names, tag_name(names[0])))
    assert output.winner == names[0]
    assert tag_name(names[0]) != names[0]


def test_long_texts_are_not_searched_for_a_choice() -> None:
    """Long text can mention many names without choosing one."""
    assert find_name("the proposal of " * 20_000 + "ann", THREE) is None


def test_votes_for_agents_without_a_proposal_are_spoiled() -> None:
    def answer(call: Call) -> Any:
        if call.phase == "proposal" and call.agent == "bob":
            return ConnectionLost("gone")
        return {**answer_of(call), "choice": "bob"} if call.phase == "vote" else None

    output = plan(max_rounds=1).run_sync(TASK, model=model(answer)).output
    assert output.tally is not None
    assert (output.tally.spoiled, output.tally.counts, output.winner) == (3, {"ann": 0, "cy": 0}, None)
    assert [ballot.choice for ballot in output.ballots] == ["bob"] * 3


@pytest.mark.parametrize("shuffle", [True, False])
def test_voters_see_proposals_in_different_orders(shuffle: bool) -> None:  # noqa: FBT001
    """The order of the proposals depends on the seed.

    If shuffling is disabled, all voters see the proposals in the order in which the agents were declared.
    """

    def orders(seed: int) -> list[list[str]]:
        calls: list[Call] = []
        plan(NAMES, topology="star", max_rounds=1, voting=VotingOptions(shuffle=shuffle)).run_sync(
            TASK, model=model(calls=calls), seed=seed
        )
        prompts = [call.prompt.splitlines() for call in calls if call.phase == "vote"]
        return [[line[1:].split("]")[0] for line in lines if line.startswith("[")] for lines in prompts]

    voter_orders = orders(4)
    assert all(sorted(order) == sorted(NAMES) for order in voter_orders)
    assert (len({tuple(order) for order in voter_orders}) > 5) is shuffle
    assert (voter_orders == [list(NAMES)] * 10) is not shuffle
    assert voter_orders == orders(4)
    assert (voter_orders == orders(5)) is not shuffle


# Weights


@pytest.mark.parametrize(
    ("weights", "winner", "reached"),
    [
        (None, "ann", True),
        ({"cy": 5.0}, "bob", True),
        ({"cy": 2.0}, None, False),
        ({"ann": 0.5, "bob": 0.5, "cy": 0.9}, "ann", True),
    ],
)
def test_votes_can_be_weighted(weights: Any, winner: str | None, reached: bool) -> None:  # noqa: FBT001
    output = vote(["ann", "ann", "bob"], voting=VotingOptions("weighted", weights=weights))
    assert (output.winner, output.consensus_reached) == (winner, reached)


class FixedRatings(LoggedRatings):
    """A store with predefined ratings."""

    fixed: dict[str, Rating]

    async def of(self, names: Sequence[str], /) -> Mapping[str, Rating]:
        return {name: self.fixed[name] for name in names if name in self.fixed}


def _rated_archive(**ratings: Rating) -> Archive:
    store = FixedRatings()
    store.fixed = ratings
    return Archive(ratings=store)


def test_votes_are_weighted_by_archive_ratings() -> None:
    """A vote's weight is derived from its agent's rating and calibration, and is 1 for an unknown agent.

    Weights set by the application take precedence.
    """
    archive = _rated_archive(ann=Rating(elo=2500, calibration=1.0), bob=Rating(elo=1000))
    output = vote(["ann", "bob", "cy"], voting="weighted", archive=archive)
    assert output.tally is not None
    assert output.tally.weights == {"ann": vote_weight(2500, 1.0), "bob": vote_weight(1000, None), "cy": 1.0}
    assert (output.winner, output.consensus_reached) == ("ann", True)
    weighted = vote(
        ["ann", "bob", "cy"], voting=VotingOptions("weighted", weights={"ann": 1.0, "cy": 4.0}), archive=archive
    )
    assert weighted.tally is not None
    assert weighted.tally.weights["ann"] == 1.0
    assert weighted.winner == "cy"


def test_majority_rule_ignores_ratings() -> None:
    """The majority rule counts agents, so their weights have no effect."""
    archive = _rated_archive(cy=Rating(elo=3000, calibration=1.0))
    assert vote(["ann", "ann", "bob"], archive=archive).winner == "ann"


# Ties


def tie(choose: Any, choices: Sequence[str | None] = ("ann", "ann", "bob", "bob"), **options: Any) -> ConsensusOutput:
    """Run a debate with a tied vote and this tie rule."""
    return vote(choices, tie_break=choose, **options)


def test_tied_votes_produce_no_winner_if_there_is_no_tie_rule() -> None:
    output = tie(None)
    assert output.tally is not None
    assert (output.winner, output.tally.tied, output.outcome) == (None, ["ann", "bob"], "no_consensus")


@pytest.mark.parametrize(
    "answer", ["bob", " Bob.", {"choice": "bob"}, {"choice": "the proposal of bob", "reasoning": "It is cheaper."}]
)
def test_tie_rule_chooses_a_tied_agent(answer: Any) -> None:
    requests: list[TieBreakRequest] = []

    def choose(value: TieBreakRequest) -> Any:
        requests.append(value)
        return answer

    output = tie(choose)
    assert (output.winner, output.outcome) == ("bob", "no_consensus")
    assert output.answer == next(p.text for p in output.final_proposals if p.agent == "bob")
    (value,) = requests
    assert (value.task, [proposal.agent for proposal in value.proposals]) == (TASK, ["ann", "bob"])
    assert output.status == "complete"


@pytest.mark.parametrize("answer", ["cy", "nobody", "", None, 7, {"choice": ["ann"]}, {}])
def test_invalid_tie_breaks_are_recorded_as_losses(answer: Any) -> None:
    """Only a tied agent's name can break a tie. Any other answer except `None` is recorded as a loss."""
    output = tie(lambda _: answer)
    assert (output.winner, output.outcome) == (None, "no_consensus")
    if answer is not None:
        (loss,) = output.losses
        assert (loss.role, loss.name, loss.instead) == ("judge", "plan-tie-judge", "no_report")
        assert "must be ann or bob" in loss.error
        assert output.status == "degraded"


def test_failed_tie_judges_are_recorded_as_losses() -> None:
    def answer(call: Call) -> Any:
        if call.phase == "vote":
            return {**answer_of(call), "choice": "ann" if call.agent in FOUR[:2] else "bob"}
        return ConnectionLost("gone") if call.phase == "tie" else None

    judge = create_tie_judge(name="plan", choices=FOUR)
    result = plan(FOUR, max_rounds=1, tie_break=judge).run_sync(TASK, model=model(answer))
    assert result.status == result.output.status == "degraded"
    assert result.output.winner is None
    assert [loss.name for loss in result.output.losses] == ["plan-tie-judge"]


def test_default_tie_judge_chooses_between_tied_proposals() -> None:
    """The judge is told that it is not one of the agents, and it reads nothing but the tied proposals."""
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        if call.phase == "vote":
            return {**answer_of(call), "choice": "ann" if call.agent in FOUR[:2] else "bob"}
        return {"reasoning": "Cheaper.", "choice": "Bob", "confidence": 1} if call.phase == "tie" else None

    judge = create_tie_judge(name="plan", choices=FOUR)
    debate = plan(FOUR, max_rounds=1, tie_break=judge)
    output = debate.run_sync(TASK, model=model(answer, calls=calls)).output
    assert output.winner == "bob"
    prompt = calls[-1].prompt
    assert (calls[-1].phase, "You are not one of the agents." in prompt) == ("tie", True)
    assert {line[1:4] for line in prompt.splitlines() if line.startswith("[")} == {"ann", "bob"}


@pytest.mark.parametrize("choices", [["ann", "ann", "ann", "bob"], ["ann", "bob", None, None, None], [None, None]])
def test_tie_rule_is_not_called_if_there_is_no_tie(choices: list[str | None]) -> None:
    """There is no tie if one proposal is ahead or if too few agents have voted."""

    def never(value: object) -> str:
        raise AssertionError(value)

    assert [loss for loss in tie(never, choices).losses if loss.role == "judge"] == []


def test_exceptions_in_a_custom_tie_rule_are_raised() -> None:
    def broken(value: object) -> str:
        raise RosterError("own", "zoe", ["ann"])

    with pytest.raises(RosterError) as caught:
        tie(broken)
    assert caught.value.run.raw.ballots
    assert caught.value.run.raw.tally is None
