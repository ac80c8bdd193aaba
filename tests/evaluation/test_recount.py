"""Recounts: the laws of the decision rules, the ballots that they cannot count, and whether they agree."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import consensus
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import ALL_RULES, recount
from flowdebate.evaluation.decision_rules import borda, copeland, fight_duels, instant_runoff
from flowdebate.evaluation.recounting import LIMITS
from flowdebate.measures import Ballot
from flowdebate.measures.votes import exact
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging, decide, is_settled
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from random import Random

    from flowdebate.evaluation import DecisionRule, Recount
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.patterns.debate.judging.ballots import DecidedBy
    from flowdebate.testing import ModelRequest
    from flowdebate.testing.models import Reply

SIDES = ("a", "b", "c", "d")
MONOTONE: tuple[DecisionRule, ...] = (
    "mean", "median", "plurality", "majority", "supermajority", "unanimous", "approval", "borda", "condorcet",
)  # fmt: skip


def scored(*points: float, model: str | None = None, view: int = 0, problem: str | None = None) -> JudgeBallot:
    """A ballot with so many points for each of the first sides."""
    whole, sides = sum(points), SIDES[: len(points)]
    shares = {side: point / whole for side, point in zip(sides, points, strict=True)}
    return JudgeBallot(order=list(sides), model=model, view=view, scores=shares, problem=problem)


def won(*winners: str | None, model: str | None = None) -> list[JudgeBallot]:
    """Ballots with nothing but a winner, of one model or else of one model each."""
    return [
        JudgeBallot(order=list(SIDES), winner=winner, model=model or f"m{number}")
        for number, winner in enumerate(winners)
    ]


@st.composite
def profiles(draw: st.DrawFn, most: int = 4) -> tuple[list[JudgeBallot], tuple[str, ...]]:
    """Ballots with scores, ties among them, and their sides."""
    count = draw(st.integers(2, most))
    points = st.tuples(*[st.integers(0, 5)] * count).filter(any)
    ballot = st.builds(lambda given, model: scored(*given, model=model), points, st.sampled_from([None, "m", "n"]))
    return draw(st.lists(ballot, min_size=1, max_size=7)), SIDES[:count]


strict = st.integers(2, 4).flatmap(
    lambda count: st.lists(st.permutations(SIDES[:count]), min_size=1, max_size=7).map(lambda cast: (cast, count))
)
"""Ballots as rankings without ties, and how many sides there are."""


def ranks(cast: list[list[str]]) -> list[dict[str, Fraction]]:
    """Rankings as numbers."""
    return [{side: Fraction(-place) for place, side in enumerate(ranking)} for ranking in cast]


def winners(found: Recount) -> dict[str, Any]:
    """The outcome of each rule, as far as the order of sides should not matter."""
    return {row.rule: (row.end, row.winner, set(row.tied), row.scores) for row in found.rows}


@given(profiles(), st.randoms(use_true_random=False))
def test_the_order_of_ballots_changes_nothing(
    profile: tuple[list[JudgeBallot], tuple[str, ...]], random: Random
) -> None:
    """To the last bit, for every rule that can count them."""
    cast, sides = profile
    found = recount(cast, sides=sides, rules=ALL_RULES)
    random.shuffle(cast)
    assert winners(recount(cast, sides=sides, rules=ALL_RULES)) == winners(found)


@given(profiles(), st.permutations(SIDES))
def test_no_side_is_better_for_its_name(profile: tuple[list[JudgeBallot], tuple[str, ...]], names: list[str]) -> None:
    """Other names, and sides declared in another order: the same rows with those names in them."""
    cast, sides = profile
    called = dict(zip(sides, [name.upper() for name in names], strict=False))
    renamed = [
        JudgeBallot(order=[], model=each.model, scores={called[side]: share for side, share in each.shares.items()})
        for each in cast
    ]
    other = winners(recount(renamed, sides=sorted(called.values())))
    for rule, (end, winner, tied, scores) in winners(recount(cast, sides=sides)).items():
        expected = {called[side]: score for side, score in scores.items()}
        assert other[rule] == (end, winner and called[winner], {called[side] for side in tied}, expected)


@given(profiles(), st.sampled_from(SIDES[:2]))
def test_whom_all_have_first_everybody_chooses(profile: tuple[list[JudgeBallot], tuple[str, ...]], best: str) -> None:
    """But for approval, which may approve of others as well: there it shares the lead at least."""
    cast, sides = profile
    shares = [{side: share / 4 + 0.75 * (side == best) for side, share in each.shares.items()} for each in cast]
    raised = [each.model_copy(update={"scores": own}) for each, own in zip(cast, shares, strict=True)]
    found = recount(raised, sides=sides, rules=ALL_RULES)
    approval = found.row("approval")
    assert best in (approval.winner, *approval.tied)
    assert {row.winner for row in found.rows if row.rule != "approval"} == {best}
    by_name = recount(won(*[best] * len(cast)), sides=sides)
    assert (by_name.agree, by_name.row("plurality").winner) == (True, best)


@given(profiles())
def test_rules_that_are_left_out_as_another_are_that_one(profile: tuple[list[JudgeBallot], tuple[str, ...]]) -> None:
    """Asked for, they end in the same way as the rule that the reason names, whatever the ballots say."""
    cast, sides = profile
    for data in (cast, [each.model_copy(update={"scores": None, "winner": "a"}) for each in cast]):
        everything = recount(data, sides=sides, rules=ALL_RULES)
        for rule, reason in recount(data, sides=sides).skipped.items():
            twin: DecisionRule = "plurality" if reason.endswith("plurality") else "mean"
            if " it is " in reason:
                row, other = everything.row(rule), everything.row(twin)
                assert (row.end, row.winner, row.tied) == (other.end, other.winner, other.tied)


@given(profiles())
def test_the_mean_and_the_vote_are_those_of_a_verdict(profile: tuple[list[JudgeBallot], tuple[str, ...]]) -> None:
    """The same numbers; the same winner, but where a float made one of a tie."""
    cast, sides = profile
    found = recount(cast, sides=sides)
    ways: tuple[tuple[DecisionRule, DecidedBy], ...] = (("mean", "mean"), ("plurality", "vote"))
    for rule, by in ways:
        row, verdict = found.row(rule), decide(cast, sides=sides, by=by)
        whole = sum(row.scores.values())
        assert [score / whole for score in row.scores.values()] == pytest.approx(list(verdict.scores.values()))
        assert row.end == "tie" or row.winner == verdict.winner


@given(strict)
def test_rules_for_rankings_are_what_counting_by_hand_gives(profile: tuple[list[list[str]], int]) -> None:
    """Borda by places, duels one by one, and runoffs by striking names out of lists."""
    cast, count = profile
    sides, numbers = SIDES[:count], ranks(cast)
    points = {side: sum(count - 1 - ranking.index(side) for ranking in cast) for side in sides}
    assert borda(numbers, sides) == points
    duels = fight_duels(numbers, sides)
    for one, other in combinations(sides, 2):
        ahead = sum(ranking.index(one) < ranking.index(other) for ranking in cast)
        assert duels[one][other] == -duels[other][one] == (2 * ahead > len(cast)) - (2 * ahead < len(cast))
    for side, points_of_duels in copeland(numbers, sides).items():
        own = [duels[side][other] for other in sides if other != side]
        assert points_of_duels == own.count(1) + Fraction(own.count(0), 2)
    assert set(instant_runoff(numbers, sides).lead) == one_by_one([list(ranking) for ranking in cast])


def one_by_one(lists: list[list[str]]) -> set[str]:
    """The winners of all runoffs that strike one of the last sides out of the lists, whichever of them it is."""
    firsts = {side: sum(ranking[0] == side for ranking in lists) for side in lists[0]}
    best = max(firsts, key=firsts.__getitem__)
    if len(firsts) == 1 or 2 * firsts[best] > len(lists):
        return {best}
    last = [side for side, votes in firsts.items() if votes == min(firsts.values())]
    return set[str]().union(
        *(one_by_one([[each for each in ranking if each != side] for ranking in lists]) for side in last)
    )


@given(strict)
def test_who_beats_all_others_is_elected(profile: tuple[list[list[str]], int]) -> None:
    """Where there is a Condorcet winner; and the row says so."""
    cast, count = profile
    best = [
        side
        for side in SIDES[:count]
        if all(
            2 * sum(ranking.index(side) < ranking.index(other) for ranking in cast) > len(cast)
            for other in SIDES[:count]
            if other != side
        )
    ]
    ballots = [scored(*[count - ranking.index(side) for side in SIDES[:count]]) for ranking in cast]
    row = recount(ballots, sides=SIDES[:count], rules=["condorcet"]).row("condorcet")
    assert (row.winner in best) if best else row.why.startswith("no side beats all others")
    assert bool(best) == (row.why.startswith(f"{row.winner!r} beats all others"))


@given(profiles(), st.integers(0, 6), st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]))
def test_what_is_won_is_not_lost_by_having_more(
    profile: tuple[list[JudgeBallot], tuple[str, ...]], which: int, more: Fraction
) -> None:
    """One ballot gives the winner more, and takes it from the others in proportion: it still wins."""
    cast, sides = profile
    for row in recount(cast, sides=sides, rules=MONOTONE).rows:
        if row.winner is None:
            continue
        raised = list(cast)
        at = which % len(cast)
        before = {side: exact(share) for side, share in cast[at].shares.items()}
        after = {side: share * (1 - more) + more * (side == row.winner) for side, share in before.items()}
        raised[at] = cast[at].model_copy(update={"scores": {side: float(share) for side, share in after.items()}})
        assert recount(raised, sides=sides, rules=[row.rule]).rows[0].winner == row.winner


def test_an_instant_runoff_can_be_lost_by_having_more() -> None:
    """Which is why it is not in that law: two voters who turn to the winner make it lose."""
    cast = [*["abc"] * 6, *["cab"] * 5, *["bca"] * 4, *["bac"] * 2]
    turned = [*["abc"] * 8, *["cab"] * 5, *["bca"] * 4]
    found = [instant_runoff(ranks([list(each) for each in every]), "abc").lead for every in (cast, turned)]
    assert found == [["a"], ["c"]]


def test_a_circle_of_duels_is_told() -> None:
    """Each beats one and loses to one: nobody beats all, and Copeland's points are level."""
    row = recount([scored(3, 2, 1), scored(1, 3, 2), scored(2, 1, 3)], sides=SIDES[:3], rules=["condorcet"]).rows[0]
    assert (row.end, row.tied) == ("tie", ["a", "b", "c"])
    assert row.why == "no side beats all others; 'a', 'b' and 'c' have 1 of 2 points of duels each"
    assert copeland(ranks([list("abc"), list("bca"), list("cab")]), "abc") == dict.fromkeys("abc", 1)


def test_rules_can_all_find_otherwise() -> None:
    """The same nine ballots: the middle choice of all, the first of most, and the one with the clearest friends."""
    cast = [
        *[scored(40, 38, 22, model="m")] * 4,
        *[scored(5, 45, 50, model="n")] * 3,
        *[scored(1, 97, 2, model="o")] * 2,
    ]
    found = recount(cast, sides=SIDES[:3])
    assert not found.agree
    named = {row.rule: row.winner for row in found.rows}
    assert named["plurality"] == "a"
    assert named["mean"] == named["median"] == named["borda"] == named["condorcet"] == "b"
    assert named["instant_runoff"] == "c"
    assert named["majority"] is None
    assert found.row("majority").end == "short"
    assert found.line.startswith("5 of 10 rules choose 'b'; the others: ")
    assert "'c' (instant runoff)" in found.line


def test_winners_alone_give_no_scores_and_no_ranking() -> None:
    """Of three sides; of two the second place is known too. Such rules are left out, with the reason."""
    three = recount(won("a", "a", "b"), sides=SIDES[:3])
    assert list(three.skipped) == ["mean", "median", "approval", "borda", "condorcet", "instant_runoff", "weighted"]
    assert all(
        "a ballot with a winner only says who is first" in three.skipped[rule]
        for rule in three.skipped
        if rule != "weighted"
    )
    assert (three.data, three.agree, three.row("majority").winner) == ("winners", False, "a")
    with pytest.raises(LookupError, match="no row for 'borda': not every ballot ranks all sides"):
        three.row("borda")
    two = recount(won("a", "a", "b", None), sides=SIDES[:2], rules=ALL_RULES)
    assert list(two.skipped) == ["mean", "median", "approval", "weighted"]
    assert two.row("borda").scores == {"a": 2.5, "b": 1.5}
    assert two.row("majority").end == "short", "a tie is a spoiled vote"
    mixed = recount([scored(1, 2), *won("a")], sides=SIDES[:2])
    assert (mixed.data, "mean" in mixed.skipped, mixed.row("plurality").end) == ("winners", True, "tie")


@pytest.mark.parametrize(
    ("others", "ends"),
    [([], "www"), (["lost"], "wws"), (["b", "b"], "ttt"), (["b", "lost"], "sss"), (["lost"] * 4, "sss")],
    ids=str,
)
def test_how_much_a_majority_asks_for(others: list[str], ends: str) -> None:
    """More than half, two thirds or more, all: of all ballots, those that could not be used among them."""
    cast = won("a", "a", *(other for other in others if other != "lost"))
    cast += [scored(1, 0, problem="no JSON")] * others.count("lost")
    found = recount(cast, sides=SIDES[:2])
    told = [found.row(name).end[0] for name in ("majority", "supermajority", "unanimous")]
    assert "".join(told) == ends


def test_who_is_approved_of() -> None:
    """From the threshold on, and exactly: 1/3 is 1/3, and 0.3 is 0.3."""
    thirds = [scored(1, 1, 1), scored(2, 3, 1)]
    assert recount(thirds, sides=SIDES[:3]).row("approval").scores == {"a": 2, "b": 2, "c": 1}
    low = JudgeBallot(order=[], scores={"a": 0.3, "b": 0.7})
    assert recount([low], sides=SIDES[:2], rules=["approval"], threshold=0.3).row("approval").scores == {"a": 1, "b": 1}
    assert recount([low], sides=SIDES[:2], rules=["approval"], threshold=Fraction(7, 10)).row("approval").winner == "b"
    assert recount([low], sides=SIDES[:2], rules=["approval"], threshold=1).row("approval").tied == ["a", "b"]


def test_a_tie_of_scores_is_a_tie() -> None:
    """0.1 + 0.6 + 0.8 is half of three: no float decides."""
    cast = [JudgeBallot(order=[], scores={"a": share, "b": round(1 - share, 1)}) for share in (0.1, 0.6, 0.8)]
    assert recount(cast, sides=SIDES[:2]).row("mean").end == "tie"


@given(st.floats(0, 1), st.floats(0, 1))
def test_an_exact_number_is_that_number(one: float, other: float) -> None:
    """It rounds back to the float, and keeps its order with others."""
    assert float(exact(one)) == one
    assert (exact(one) < exact(other)) == (one < other)


def test_a_model_may_weigh_more() -> None:
    """By the mean of scores, or by first places; without weights there is no such rule."""
    cast = [scored(3, 1, model="m"), scored(2, 3, model="n"), scored(2, 3, model="n")]
    assert recount(cast, sides=SIDES[:2]).skipped["weighted"] == "there are no weights"
    heavy = recount(cast, sides=SIDES[:2], weights={"n": 5}).row("weighted")
    assert heavy.winner == "b"
    assert heavy.scores["b"] == pytest.approx((0.25 + 10 * 0.6) / 11)
    hard = [*won("a", model="m"), *won("b", "b", model="n")]
    assert recount(hard, sides=SIDES[:2], weights={"m": 2.5}).row("weighted").winner == "a"
    assert recount(hard, sides=SIDES[:2], weights={"m": 2}).row("weighted").end == "tie"


@pytest.mark.parametrize("planned", [1, 2, 3, 5])
def test_a_decision_is_settled_by_as_few_ballots_as_it_can_be(planned: int) -> None:
    """Of all that could be cast: with one fewer, some others in their place would have changed the winner."""
    for names in product("ab", repeat=planned):
        sufficient = recount(won(*names), sides="ab").sufficient
        assert sufficient is not None
        for size, settled in ((sufficient, True), (sufficient - 1, False)):
            if size < 0:
                continue
            ends = {
                decide(won(*names[:size], *rest), sides="ab", by="vote").winner
                for rest in product("ab", repeat=planned - size)
            }
            assert (len(ends) == 1) == settled


@given(profiles())
def test_ballots_are_sufficient_when_a_judge_would_stop_asking(
    profile: tuple[list[JudgeBallot], tuple[str, ...]],
) -> None:
    """It is the rule by which a curtailed schedule stops."""
    cast, sides = profile
    by_judge = [is_settled(cast[:number], left=len(cast) - number, sides=sides) for number in range(len(cast) + 1)]
    assert recount(cast, sides=sides).sufficient == by_judge.index(True)


def test_ballots_that_were_saved_are_told() -> None:
    """They were planned: where they could have changed the outcome, nothing is said to be sufficient."""
    saved = Judging(ballots=won("a", "a"), planned=3, scores={"a": 1, "b": 0}, decided_by="vote")
    found = recount(saved)
    assert (found.sufficient, found.planned) == (2, 3)
    assert "the first 2 ballots of 3 would have been enough for the same outcome" in found.findings
    assert "1 ballot of 3 planned were not cast, and count for nothing" in found.findings
    assert recount(saved.model_copy(update={"planned": 9})).sufficient is None


def test_a_flip_is_told() -> None:
    """One model that found for both; the same model for one side is no flip."""
    flipped = [scored(3, 1, 0, model="m"), scored(2, 3, 0, model="m", view=1), scored(3, 1, 0, model="n")]
    found = recount(flipped, sides=SIDES[:3])
    assert found.flipped
    assert "a model chose different sides in different views" in found.findings
    assert not recount([flipped[0], flipped[2]], sides=SIDES[:3]).flipped


def test_each_ballot_alone_is_what_one_judge_would_have_said() -> None:
    """For every ballot that could be used."""
    cast = [scored(1, 0, problem="-"), scored(1, 3, model="m", view=1), scored(3, 1, model="n"), scored(1, 1)]
    found = recount(cast, sides=SIDES[:2])
    assert [(each.number, each.voter, each.view, each.winner) for each in found.per_ballot] == [
        (2, "m", 1, "b"), (3, "n", 0, "a"), (4, None, 0, None)
    ]  # fmt: skip
    said = "of 3 ballots, each taken alone, 1 would have chosen 'a', 1 would have chosen 'b', 1 none"
    assert said in found.findings
    assert "1 of 4 ballots could not be used; majorities are of all 4" in found.findings


def vote(request: ModelRequest) -> Reply:
    """Agents who vote for two and two, and one who is lost at the vote."""
    _, phase, agent = request.block.split("-")
    if phase == "propose":
        return f"Do as {agent} does."
    if phase == "criticise":
        return {"reasoning": "-", "issues": [], "suggestions": [], "severity": 0.1}
    if phase == "revise":
        return {"proposal": f"Do as {agent} does.", "position": agent, "enough": True}
    choice = {"ann": "ann", "bob": "ann", "cy": "nobody", "di": "bob"}[agent]
    return {"reasoning": "-", "choice": choice, "confidence": 0.9 if agent == "di" else 0.4}


def agreed(**options: Any) -> ConsensusOutput:
    """What a consensus debate of four came to."""
    plan = consensus(
        name="plan", agents=[{"name": name} for name in ("ann", "bob", "cy", "di")], max_rounds=1, **options
    )
    output: ConsensusOutput = plan.run_sync("How?", model=FunctionModel(vote), store=False).output
    return output


def test_a_consensus_is_decided_again() -> None:
    """Its own rule comes to what it came to; votes have no second place, no scores and no views."""
    output = agreed()
    assert output.tally is not None
    found = recount(output)
    majority = found.row("majority")
    assert (majority.end, majority.why, output.winner) == ("short", output.tally.reason, "ann")
    assert (found.data, found.cast, found.usable, found.planned) == ("votes", 4, 3, 4)
    assert found.row("plurality").winner == "ann"
    assert found.skipped["borda"].endswith("a vote says who is first, and not how the other sides stand")
    assert found.skipped["weighted"] == "there are no weights"
    assert recount(output, weights={"ann": 3, "bob": 3}).row("weighted").winner == "ann"


def test_weights_that_a_consensus_counted_by_count_again() -> None:
    """Where its rule was the weighted one, and no others are given."""
    output = agreed(voting="weighted", weights={"ann": 9})
    assert (output.winner, output.consensus_reached) == ("ann", True)
    row = recount(output).row("weighted")
    assert (row.winner, row.scores["ann"]) == ("ann", 10)


def test_votes_that_were_lost_have_not_agreed() -> None:
    """Who could vote is of a stored debate, or is given; unknown names are made up where only their number is known."""
    votes = [Ballot(voter="ann", choice="x"), Ballot(voter="bob", choice="x")]
    assert recount(votes, sides="xy").row("unanimous").winner == "x"
    more = recount(votes, sides="xy", eligible=["ann", "bob", "cy", "di"])
    assert [more.row(name).end for name in ("majority", "unanimous")] == ["short", "short"]
    output = agreed()
    assert output.tally is not None
    lost = output.model_copy(
        update={"ballots": output.ballots[:2], "tally": output.tally.model_copy(update={"eligible": 6})}
    )
    assert recount(lost).row("majority").why.startswith("'ann' has 2 of 6 votes")
    assert recount(output.model_copy(update={"ballots": [], "tally": None})).line == ("no rule can count these ballots")


def test_only_what_is_asked_for_is_decided() -> None:
    """In the order of all rules, those that cannot differ from another among them."""
    found = recount(won("a", "b", "b"), sides=SIDES[:2], rules=["instant_runoff", "borda"])
    assert [row.rule for row in found.rows] == ["borda", "instant_runoff"]
    assert (found.agree, found.line) == (True, "all 2 rules choose 'b'")
    with pytest.raises(LookupError, match="no row for 'mean': it was not asked for"):
        found.row("mean")
    assert recount(won("a", "b", "b"), sides=SIDES[:2]).skipped["borda"] == "with two sides it is plurality"


def test_whether_rules_agree_is_told() -> None:
    """All, some, none; and that one ballot says no more than itself."""
    clear = recount([scored(3, 1, 1), scored(4, 1, 1), scored(5, 1, 1)], sides=SIDES[:3])
    assert (clear.agree, clear.line) == (True, "all 10 rules choose 'a'")
    assert clear.findings[-1] == LIMITS
    level = recount([scored(1, 1)], sides=SIDES[:2], rules=["plurality", "majority"])
    assert level.line == "none of 2 rules names a winner: a tie (plurality); too few votes for a winner (majority)"
    assert "there is one ballot, which every rule can only repeat" in level.findings
    assert recount([scored(1, 1)], sides=SIDES[:2], rules=["mean"]).line == "no winner: a tie (mean)"
    empty = recount([], sides=SIDES)
    assert (empty.line, empty.agree) == ("no rule can count these ballots", False)
    assert list(empty.skipped) == list(ALL_RULES)


@pytest.mark.parametrize(
    ("data", "options", "problem"),
    [
        ([], {}, "`sides` must be given for bare ballots"),
        ([], {"sides": "aa"}, "`sides` must be different sides"),
        (won("x"), {"sides": "ab"}, r"`ballots\[0\].winner` must be one of the sides"),
        ([scored(1, 1, 1)], {"sides": "ab"}, r"`ballots\[0\].scores` must be one of the sides"),
        ([*won("a"), Ballot(voter="v", choice="a")], {"sides": "ab"}, "`data` must be ballots of one kind"),
        (["a"], {"sides": "ab"}, "`data` must be ballots of one kind"),
        (won("a"), {"sides": "ab", "rules": ["dice"]}, "`rules` must be some of mean"),
        (won("a"), {"sides": "ab", "rules": []}, "`rules` must be at least one"),
        (won("a"), {"sides": "ab", "threshold": 0}, "`threshold` must be None or a number above 0"),
        (won("a"), {"sides": "ab", "threshold": float("nan")}, "`threshold` must be"),
        (won("a", model="m"), {"sides": "ab", "weights": {"n": 1}}, "`weights` must be weights of those"),
        (won("a", model="m"), {"sides": "ab", "weights": {"m": 0}}, r"`weights\['m'\]` must be a number > 0"),
        (won("a", model="m"), {"sides": "ab", "weights": {"m": 1e308}}, r"`weights\['m'\]` must be .*<= 1,000,000"),
        (won("a"), {"sides": "ab", "eligible": ["m"]}, "`eligible` must be None"),
        ([Ballot(voter="v", choice="a")] * 2, {"sides": "ab"}, "`ballots` must be one of each voter"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_is_refused(data: Any, options: dict[str, Any], problem: str) -> None:
    """With what would be allowed."""
    with pytest.raises(ConfigurationError, match=problem):
        recount(data, **options)
