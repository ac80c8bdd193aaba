from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flowdebate.errors import ConfigurationError
from flowdebate.measures import Ballot, Tally, VotingRule, strength, tally, vote_weight
from tests.measures.drawn import names

RULES: tuple[VotingRule, ...] = get_args(VotingRule)


@dataclass(frozen=True, kw_only=True)
class Election:
    """Input data for a tally."""

    ballots: list[Ballot]
    choices: list[str]
    eligible: list[str]
    rule: VotingRule
    weights: dict[str, float] | None
    quorum: int | None

    def count(self, **changes: Any) -> Tally:
        """Return the tally after replacing these fields."""
        options = {name: value for name, value in vars(self).items() if name != "ballots"} | changes
        return tally(options.pop("ballots", self.ballots), **options)


@st.composite
def elections(draw: st.DrawFn) -> Election:
    """Draw one to ten voters with arbitrary names, and votes that are valid, spoiled or failed."""
    agents = draw(names)
    choices = agents[: draw(st.integers(0, 4))]
    votes = draw(st.lists(st.sampled_from([*choices, *choices, *agents, "stranger", None, "lost"]), max_size=10))
    sure = st.sampled_from([0.0, 0.1, 0.3, 1 / 3, 0.7, 1.0])
    pounds = st.sampled_from([0.1, 0.2, 0.3, 0.5, 1.0, 1.3, 5.0])
    return Election(
        ballots=[
            Ballot(voter=voter, choice=vote, confidence=draw(sure))
            for voter, vote in zip(agents, votes, strict=False)
            if vote != "lost"
        ],
        choices=choices,
        eligible=agents,
        rule=draw(st.sampled_from(RULES)),
        weights=draw(st.none() | st.dictionaries(st.sampled_from(agents), pounds)),
        quorum=draw(st.none() | st.integers(1, 12)),
    )


@given(elections())
def test_each_vote_is_counted_once(election: Election) -> None:
    result = election.count()
    assert result.valid + result.spoiled + result.failed == result.eligible == len(election.eligible)
    assert min(result.valid, result.spoiled, result.failed) >= 0
    assert list(result.counts) == list(result.weights) == election.choices
    assert sum(result.counts.values()) == result.valid
    assert result.spoiled == sum(ballot.choice not in election.choices for ballot in election.ballots)


@given(elections(), st.data())
def test_order_of_ballots_and_voters_does_not_matter(election: Election, data: st.DataObject) -> None:
    result = election.count(
        ballots=data.draw(st.permutations(election.ballots)), eligible=data.draw(st.permutations(election.eligible))
    )
    assert result == election.count()


@given(elections(), st.data())
def test_order_of_choices_affects_only_the_order_of_results(election: Election, data: st.DataObject) -> None:
    choices = data.draw(st.permutations(election.choices))
    one, other = election.count(), election.count(choices=choices)
    excluded = {"tied", "reason"}
    assert one.model_dump(exclude=excluded) == other.model_dump(exclude=excluded)
    assert sorted(one.tied) == sorted(other.tied)


@given(elections())
def test_confidence_is_the_share_of_voters_confident_in_the_winner(election: Election) -> None:
    result = election.count()
    assert 0 <= result.confidence <= 1
    if result.winner is None:
        assert result.confidence == 0
    elif election.rule != "weighted":
        sure = [ballot.confidence for ballot in election.ballots if ballot.choice == result.winner]
        assert result.confidence == pytest.approx(math.fsum(sure) / result.eligible)
        assert result.confidence <= result.counts[result.winner] / result.eligible


@given(elections())
def test_winner_has_the_most_votes_and_a_quorum(election: Election) -> None:
    result = election.count()
    assert result.quorum_met is (result.valid >= result.quorum)
    leads = result.weights if election.rule == "weighted" else result.counts
    if result.winner is None:
        assert not result.reached
        assert result.tied or not result.quorum_met
    else:
        assert result.quorum_met
        assert result.tied == []
        assert all(leads[result.winner] >= other for other in leads.values())
        assert result.counts[result.winner] > 0


@given(elections())
def test_rules_require_a_share_of_all_voters(election: Election) -> None:
    """Depending on the rule, the winner needs votes from more than half, at least two thirds, or all of the voters.

    Failed and spoiled votes do not help to reach that threshold.
    """
    result = election.count()
    if election.rule == "weighted" or result.winner is None:
        return
    share = Fraction(result.counts[result.winner], result.eligible)
    expected = {"majority": share > Fraction(1, 2), "supermajority": share >= Fraction(2, 3), "unanimous": share == 1}
    assert result.reached is expected[election.rule]


@given(elections())
def test_stricter_rules_imply_weaker_ones(election: Election) -> None:
    """Unanimity implies a supermajority, which implies a majority."""
    reached = [election.count(rule=rule) for rule in ("unanimous", "supermajority", "majority")]
    assert [tally_.reached for tally_ in reached] == sorted(tally_.reached for tally_ in reached)
    assert len({tally_.winner for tally_ in reached}) == 1
    if reached[2].reached:
        assert strength(reached[2].counts, eligible=reached[2].eligible) not in {"split", "contested"}


@given(elections(), st.data())
def test_failed_votes_never_create_a_consensus(election: Election, data: st.DataObject) -> None:
    """If a consensus is reached although a vote is missing, it would also have been reached with that vote.

    This does not apply to weighted votes.
    """
    if not election.ballots:
        return
    missing_ballot = data.draw(st.sampled_from(election.ballots))
    less = election.count(ballots=[ballot for ballot in election.ballots if ballot != missing_ballot])
    if less.reached and election.rule != "weighted":
        assert election.count().reached


@given(elections(), st.floats(0.1, 5))
def test_equal_weights_give_the_same_result_as_a_majority_vote(election: Election, weight: float) -> None:
    equal_weights = dict.fromkeys(election.eligible, weight)
    excluded = {"rule", "reason", "weights", "confidence"}
    weighted, heads = election.count(rule="weighted", weights=equal_weights), election.count(rule="majority")
    assert weighted.model_dump(exclude=excluded) == heads.model_dump(exclude=excluded)
    assert weighted.confidence == pytest.approx(heads.confidence)


@given(elections(), st.data())
def test_tie_breaks_choose_between_tied_proposals(election: Election, data: st.DataObject) -> None:
    """A tie-break needs a quorum, never creates a consensus, and applies only to ties."""
    result = election.count()
    choice = data.draw(st.sampled_from(result.tied or ["nobody"]))
    broken = election.count(tie_break=choice)
    if not result.tied:
        assert broken == result
    else:
        assert broken.winner == (choice if result.quorum_met else None)
        assert not broken.reached
        with pytest.raises(ConfigurationError, match="one of the tied"):
            election.count(tie_break="nobody at all")


@given(elections())
def test_default_quorum_is_half_of_the_voters_but_at_least_two(election: Election) -> None:
    """With a single voter, one vote is enough. The application can require a higher quorum."""
    size = len(election.eligible)
    assert election.count(quorum=None).quorum == (1 if size == 1 else max(2, math.ceil(size / 2)))
    assert election.count(quorum=12).quorum == 12


@dataclass(frozen=True, kw_only=True)
class Case:
    """Votes by a, b, c, … in this order, with `-` for a failed vote, and the expected result."""

    id: str
    votes: str
    winner: str | None
    reached: bool
    reason: str
    options: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case(id="majority", votes="aab", winner="a", reached=True, reason="'a' has 2 of 3 votes; majority asks for more"),
    Case(id="half is no majority", votes="aabc", winner="a", reached=False, reason="'a' has 2 of 4 votes"),
    Case(id="lost votes count", votes="aa--", winner="a", reached=False, reason="'a' has 2 of 4 votes"),
    Case(id="spoiled votes count", votes="aazz", winner="a", reached=False, reason="'a' has 2 of 4 votes"),
    Case(
        id="tie", votes="aabb", winner=None, reached=False, reason="'a' and 'b' share the lead; there is no tie break"
    ),
    Case(
        id="broken tie",
        votes="aabb",
        winner="b",
        reached=False,
        reason="'a' and 'b' share the lead; 'b' was chosen",
        options={"tie_break": "b"},
    ),
    Case(id="contested", votes="abc", winner=None, reached=False, reason="'a' and 'b' and 'c' share the lead"),
    Case(
        id="two thirds of three",
        votes="aab",
        winner="a",
        reached=True,
        reason="two thirds of the eligible voters or more",
        options={"rule": "supermajority"},
    ),
    Case(
        id="two thirds of six",
        votes="aaaabb",
        winner="a",
        reached=True,
        reason="4 of 6",
        options={"rule": "supermajority"},
    ),
    Case(
        id="three of five", votes="aaabb", winner="a", reached=False, reason="3 of 5", options={"rule": "supermajority"}
    ),
    Case(id="unanimous", votes="bbb", winner="b", reached=True, reason="3 of 3", options={"rule": "unanimous"}),
    Case(id="one vote lost", votes="bb-", winner="b", reached=False, reason="2 of 3", options={"rule": "unanimous"}),
    Case(id="one vote spoiled", votes="bbz", winner="b", reached=False, reason="2 of 3", options={"rule": "unanimous"}),
    Case(
        id="no quorum",
        votes="aa---",
        winner=None,
        reached=False,
        reason="2 of 5 eligible voters cast a valid vote; the quorum is 3",
    ),
    Case(id="one of two", votes="a-", winner=None, reached=False, reason="1 of 2 eligible voters"),
    Case(id="alone", votes="a", winner="a", reached=True, reason="'a' has 1 of 1 votes"),
    Case(id="nobody", votes="---", winner=None, reached=False, reason="0 of 3 eligible voters"),
    Case(
        id="a heavy vote",
        votes="abb",
        winner="a",
        reached=True,
        reason="'a' has 60.0% of the weight; weighted asks for more than half of the weight",
        options={"rule": "weighted", "weights": {"a": 3.0}},
    ),
    Case(
        id="weights as they are written",
        votes="aab",
        winner=None,
        reached=False,
        reason="'a' and 'b' share the lead",
        options={"rule": "weighted", "weights": {"a": 0.1, "b": 0.2, "c": 0.3}},
    ),
    Case(
        id="weights do not matter by heads",
        votes="abb",
        winner="b",
        reached=True,
        reason="2 of 3",
        options={"weights": {"a": 3.0}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_tallies_follow_the_rules(case: Case) -> None:
    voters = list("abcdef"[: len(case.votes)])
    ballots = [Ballot(voter=voter, choice=vote) for voter, vote in zip(voters, case.votes, strict=True) if vote != "-"]
    result = tally(ballots, choices=["a", "b", "c"], eligible=voters, **case.options)
    assert (result.winner, result.reached) == (case.winner, case.reached)
    assert case.reason in result.reason


def test_ballots_without_a_choice_are_spoiled() -> None:
    result = tally([Ballot(voter="a", choice=None)], choices=["a"], eligible=["a"])
    assert (result.valid, result.spoiled, result.failed, result.winner) == (0, 1, 0, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ballots": [Ballot(voter="a", choice="a"), Ballot(voter="a", choice="b")]}, "ballots"),
        ({"ballots": [Ballot(voter="z", choice="a")]}, "ballots"),
        ({"rule": "plurality"}, "rule"),
        ({"choices": ["a", "a"]}, "choices"),
        ({"choices": "ab"}, "choices"),
        ({"eligible": ["a", "a"]}, "eligible"),
        ({"eligible": []}, "eligible"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": True}, "quorum"),
        ({"quorum": 1.5}, "quorum"),
        ({"weights": {"a": 0}}, "weights.a"),
        ({"weights": {"a": math.nan}}, "weights.a"),
        ({"weights": {"a": math.inf}}, "weights.a"),
        ({"weights": {"a": True}}, "weights.a"),
    ],
    ids=[
        *("two ballots", "stranger", "unknown rule", "choice twice", "choices string", "voter twice", "no voters"),
        *("quorum 0", "quorum bool", "quorum float", "weight 0", "weight nan", "weight infinite", "weight bool"),
    ],
)
def test_invalid_elections_are_rejected(changes: dict[str, Any], field: str) -> None:
    options: dict[str, Any] = {"ballots": [], "choices": ["a", "b"], "eligible": ["a", "b"]} | changes
    with pytest.raises(ConfigurationError) as caught:
        tally(options.pop("ballots"), **options)
    assert caught.value.field == field


@pytest.mark.parametrize("confidence", [-0.1, 1.1, math.nan, math.inf])
def test_confidence_is_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValidationError):
        Ballot(voter="a", choice="a", confidence=confidence)


def test_tallies_survive_serialization() -> None:
    result = tally([Ballot(voter="a", choice="a")], choices=["a"], eligible=["a"])
    wire = result.model_dump(mode="json", by_alias=True)
    assert wire["quorumMet"] is True
    assert Tally.model_validate(wire) == result


@pytest.mark.parametrize(
    ("elo", "calibration", "weight"),
    [
        (None, None, 1.0),
        (1500, None, 1.0),
        (None, 0.5, 1.0),
        (1500, 0.5, 1.0),
        (1500, 0.0, 0.5),
        (1500, 1.0, 1.5),
        (2000, None, 1.3),
        (1000, None, 0.7),
        (2000, 1.0, 1.95),
        (9000, None, 2.0),
        (-9000, None, 0.5),
        (9000, 9.0, 5.0),
        (1500, -9.0, 0.1),
    ],
)
def test_vote_weights_follow_the_formula(elo: float | None, calibration: float | None, weight: float) -> None:
    assert vote_weight(elo, calibration) == pytest.approx(weight)


@given(st.floats(0, 3000), st.floats(0, 3000), st.floats(0, 1), st.floats(0, 1))
def test_better_histories_never_lower_the_weight(one: float, other: float, sure: float, unsure: float) -> None:
    """Weights are between 0.1 and 5 and grow with the rating and the calibration."""
    low, high = sorted((one, other)), sorted((sure, unsure))
    assert 0.1 <= vote_weight(low[0], high[0]) <= vote_weight(low[1], high[1]) <= 5


@pytest.mark.parametrize(("elo", "calibration"), [(math.nan, None), (math.inf, None), (None, math.nan), (True, None)])
def test_invalid_histories_are_rejected(elo: Any, calibration: Any) -> None:
    with pytest.raises(ConfigurationError, match="a finite number"):
        vote_weight(elo, calibration)
