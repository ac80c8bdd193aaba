"""Deciding again: the laws of the protocols, what they cannot say, and whether they agree."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import consensus
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.recount.rankings import beaten, borda, copeland, instant_runoff
from flowdebate.evaluation.recount.recount import ALL, recount
from flowdebate.evaluation.recount.report import LIMITS, findings
from flowdebate.measures.schemas import Ballot
from flowdebate.patterns.debate.judging.ballots import decide, exact
from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from random import Random

    from flowdebate.evaluation.recount.schemas import DecisionRule, Recount
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.patterns.debate.judging.schemas import DecidedBy, OnFlip
    from flowdebate.testing import ModelRequest
    from flowdebate.testing.models import Reply

SIDES = ("a", "b", "c", "d")
ORDERED: tuple[DecisionRule, ...] = ("single", "curtailed")
"""What depends on the order of ballots, as it has to."""
MONOTONE: tuple[DecisionRule, ...] = (
    "mean", "median", "plurality", "majority", "supermajority", "unanimous", "approval", "borda", "condorcet",
    "cumulative", "weighted",
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


def winners(found: Recount, leave_out: tuple[DecisionRule, ...] = ()) -> dict[str, Any]:
    """What each protocol came to, as far as the order of ballots should not matter."""
    rows = {row.protocol: (row.end, row.winner, set(row.tied), row.scores) for row in found.rows}
    return {protocol: end for protocol, end in rows.items() if protocol not in leave_out}


@given(profiles(), st.randoms(use_true_random=False))
def test_the_order_of_ballots_changes_nothing(
    profile: tuple[list[JudgeBallot], tuple[str, ...]], random: Random
) -> None:
    """To the last bit, but for the first ballot alone, and for how many it takes; not for what they come to."""
    cast, sides = profile
    found = recount(cast, sides=sides)
    random.shuffle(cast)
    other = recount(cast, sides=sides)
    assert winners(found, ORDERED) == winners(other, ORDERED)
    assert found.row("curtailed").winner == other.row("curtailed").winner


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
    for protocol, (end, winner, tied, scores) in winners(recount(cast, sides=sides)).items():
        expected = {called[side]: score for side, score in scores.items()}
        assert other[protocol] == (end, winner and called[winner], {called[side] for side in tied}, expected)


@given(profiles(), st.sampled_from(SIDES[:2]))
def test_whom_all_have_first_everybody_chooses(profile: tuple[list[JudgeBallot], tuple[str, ...]], best: str) -> None:
    """But for approval, which may approve of others as well: there it shares the lead at least."""
    cast, sides = profile
    shares = [{side: share / 4 + 0.75 * (side == best) for side, share in each.shares.items()} for each in cast]
    raised = [each.model_copy(update={"scores": own}) for each, own in zip(cast, shares, strict=True)]
    found = recount(raised, sides=sides)
    approval = found.row("approval")
    assert best in (approval.winner, *approval.tied)
    assert {row.winner for row in found.rows if row.protocol != "approval"} == {best}
    by_name = recount(won(*[best] * len(cast)), sides=sides)
    assert (by_name.agree, by_name.row("plurality").winner) == (True, best)


@given(profiles())
def test_rows_that_are_said_to_be_one_rule_are(profile: tuple[list[JudgeBallot], tuple[str, ...]]) -> None:
    """They end in the same way, whatever the ballots say; and only what is there is referred to."""
    cast, sides = profile
    for data in (cast, [each.model_copy(update={"scores": None, "winner": "a"}) for each in cast]):
        found = recount(data, sides=sides)
        for row in found.rows:
            if row.same_as is not None:
                other = found.row(row.same_as)
                assert (row.end, row.winner, row.tied, other.same_as) == (other.end, other.winner, other.tied, None)


@given(profiles())
def test_the_mean_and_the_vote_are_those_of_a_verdict(profile: tuple[list[JudgeBallot], tuple[str, ...]]) -> None:
    """The same numbers; the same winner, but where a float made one of a tie."""
    cast, sides = profile
    found = recount(cast, sides=sides)
    ways: tuple[tuple[DecisionRule, DecidedBy], ...] = (("mean", "mean"), ("plurality", "vote"))
    for protocol, by in ways:
        row, verdict = found.row(protocol), decide(cast, sides=sides, by=by)
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
    duels = beaten(numbers, sides)
    for one, other in combinations(sides, 2):
        ahead = sum(ranking.index(one) < ranking.index(other) for ranking in cast)
        assert duels[one][other] == -duels[other][one] == (2 * ahead > len(cast)) - (2 * ahead < len(cast))
    for side, points_of_duels in copeland(numbers, sides).items():
        own = [duels[side][other] for other in sides if other != side]
        assert points_of_duels == own.count(1) + Fraction(own.count(0), 2)
    lists = [list(ranking) for ranking in cast]
    while len(lists[0]) > 1:
        firsts = {side: sum(ranking[0] == side for ranking in lists) for side in lists[0]}
        if len(set(firsts.values())) == 1 or 2 * max(firsts.values()) > len(cast):
            break
        lists = [[side for side in ranking if firsts[side] > min(firsts.values())] for ranking in lists]
    firsts = {side: sum(ranking[0] == side for ranking in lists) for side in lists[0]}
    assert set(instant_runoff(numbers, sides).lead) == {side for side in firsts if firsts[side] == max(firsts.values())}


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
    row = recount(ballots, sides=SIDES[:count], protocols=["condorcet"]).row("condorcet")
    assert (row.winner in best) if best else row.why.startswith("no side beats all others")
    assert bool(best) == (row.why.startswith(f"{row.winner!r} beats all others"))


@given(profiles(), st.integers(0, 6), st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]))
def test_what_is_won_is_not_lost_by_having_more(
    profile: tuple[list[JudgeBallot], tuple[str, ...]], which: int, more: Fraction
) -> None:
    """One ballot gives the winner more, and takes it from the others in proportion: it still wins."""
    cast, sides = profile
    for row in recount(cast, sides=sides, protocols=MONOTONE).rows:
        if row.winner is None:
            continue
        raised = list(cast)
        at = which % len(cast)
        before = {side: exact(share) for side, share in cast[at].shares.items()}
        after = {side: share * (1 - more) + more * (side == row.winner) for side, share in before.items()}
        raised[at] = cast[at].model_copy(update={"scores": {side: float(share) for side, share in after.items()}})
        assert recount(raised, sides=sides, protocols=[row.protocol]).rows[0].winner == row.winner


def test_an_instant_runoff_can_be_lost_by_having_more() -> None:
    """Which is why it is not in that law: two voters who turn to the winner make it lose."""
    cast = [*["abc"] * 6, *["cab"] * 5, *["bca"] * 4, *["bac"] * 2]
    turned = [*["abc"] * 8, *["cab"] * 5, *["bca"] * 4]
    found = [instant_runoff(ranks([list(each) for each in every]), "abc").lead for every in (cast, turned)]
    assert found == [["a"], ["c"]]


def test_a_circle_of_duels_is_told() -> None:
    """Each beats one and loses to one: nobody beats all, and Copeland's points are level."""
    row = recount([scored(3, 2, 1), scored(1, 3, 2), scored(2, 1, 3)], sides=SIDES[:3], protocols=["condorcet"]).rows[0]
    assert (row.end, row.tied) == ("tie", ["a", "b", "c"])
    assert row.why == "no side beats all others; 'a', 'b' and 'c' have 1 of 2 points of duels each"
    assert copeland(ranks([list("abc"), list("bca"), list("cab")]), "abc") == dict.fromkeys("abc", 1)


def test_protocols_can_all_find_otherwise() -> None:
    """The same nine ballots: the middle choice of all, the first of most, and the one with the clearest friends."""
    cast = [
        *[scored(40, 38, 22, model="m")] * 4,
        *[scored(5, 45, 50, model="n")] * 3,
        *[scored(1, 97, 2, model="o")] * 2,
    ]
    found = recount(cast, sides=SIDES[:3])
    assert not found.agree
    named = {row.protocol: row.winner for row in found.rules}
    assert named["plurality"] == "a"
    assert named["mean"] == named["median"] == named["borda"] == named["condorcet"] == "b"
    assert named["instant_runoff"] == "c"
    assert named["majority"] is None
    assert found.row("majority").end == "short"
    assert found.line.startswith("5 of 11 protocols find for 'b'; the others: ")
    assert "'c' (instant runoff)" in found.line


def test_winners_alone_give_no_scores_and_no_ranking() -> None:
    """Of three sides; of two the second place is known too. What is not known is told, and not made up."""
    three = recount(won("a", "a", "b"), sides=SIDES[:3])
    untold = [row.protocol for row in three.rows if row.end == "untold"]
    assert untold == ["mean", "median", "approval", "borda", "condorcet", "instant_runoff", "cumulative"]
    assert all("a ballot with a winner only says who is first" in three.row(name).why for name in untold)
    assert all(not three.row(name).scores and three.row(name).winner is None for name in untold)
    assert (three.data, three.agree, three.row("majority").winner) == ("winners", False, "a")
    two = recount(won("a", "a", "b", None), sides=SIDES[:2])
    assert [row.protocol for row in two.rows if row.end == "untold"] == ["mean", "median", "approval", "cumulative"]
    assert two.row("borda").scores == {"a": 2.5, "b": 1.5}
    assert two.row("borda").same_as == "plurality"
    assert two.row("majority").end == "short", "a tie is a spoiled vote"
    mixed = recount([scored(1, 2), *won("a")], sides=SIDES[:2])
    assert (mixed.data, mixed.row("mean").end, mixed.row("plurality").end) == ("winners", "untold", "tie")


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
    assert recount([low], sides=SIDES[:2], threshold=0.3).row("approval").scores == {"a": 1, "b": 1}
    assert recount([low], sides=SIDES[:2], threshold=Fraction(7, 10)).row("approval").winner == "b"
    assert recount([low], sides=SIDES[:2], threshold=1).row("approval").tied == ["a", "b"]


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
    """By the mean of scores, or by first places; without weights it is that rule."""
    cast = [scored(3, 1, model="m"), scored(2, 3, model="n"), scored(2, 3, model="n")]
    assert recount(cast, sides=SIDES[:2]).row("weighted").same_as == "mean"
    heavy = recount(cast, sides=SIDES[:2], weights={"n": 5}).row("weighted")
    assert (heavy.winner, heavy.same_as) == ("b", None)
    assert heavy.scores["b"] == pytest.approx((0.25 + 10 * 0.6) / 11)
    hard = [*won("a", model="m"), *won("b", "b", model="n")]
    assert recount(hard, sides=SIDES[:2], weights={"m": 2.5}).row("weighted").winner == "a"
    assert recount(hard, sides=SIDES[:2], weights={"m": 2}).row("weighted").end == "tie"


@pytest.mark.parametrize("planned", [1, 2, 3, 5])
def test_curtailing_takes_as_few_ballots_as_it_can(planned: int) -> None:
    """Of all that could be cast: with one fewer, some others in their place would have changed the winner."""
    for names in product("ab", repeat=planned):
        row = recount(won(*names), sides="ab", protocols=["plurality", "curtailed"]).row("curtailed")
        assert row.winner == max("ab", key=names.count) or row.end == "tie"
        for size, settled in ((row.ballots, True), (row.ballots - 1, False)):
            if size < 0:
                continue
            ends = {
                decide(won(*names[:size], *rest), sides="ab", by="vote").winner
                for rest in product("ab", repeat=planned - size)
            }
            assert (len(ends) == 1) == settled


def test_ballots_that_were_saved_are_told() -> None:
    """They were planned: what they could have changed is not known, what they could not is."""
    saved = Judging(ballots=won("a", "a"), planned=3, scores={"a": 1, "b": 0}, decided_by="vote")
    found = recount(saved)
    assert (found.row("curtailed").ballots, found.row("curtailed").winner, found.planned) == (2, "a", 3)
    assert found.row("on_flip_abstain").why == "1 ballot not cast could have flipped"
    assert "1 ballot of 3 planned were not cast, and count for nothing" in findings(found)
    open_end = recount(saved.model_copy(update={"planned": 9}))
    assert open_end.row("curtailed").why == "7 ballots that were not cast could have changed it"


@pytest.mark.parametrize(
    ("rule", "end", "winner"),
    [("average", "winner", "a"), ("abstain", "abstains", None), ("tie", "tie", None), ("human", "untold", None)],
)
def test_what_a_flip_comes_to(rule: OnFlip, end: str, winner: str | None) -> None:
    """One model that found for both; the same model for one side is no flip, and each rule is then the mean."""
    flipped = [scored(3, 1, 0, model="m"), scored(2, 3, 0, model="m", view=1), scored(3, 1, 0, model="n")]
    protocol: DecisionRule = f"on_flip_{rule}"  # type: ignore[assignment] # it is one of them
    row = recount(flipped, sides=SIDES[:3]).row(protocol)
    assert (row.end, row.winner) == (end, winner)
    if rule == "tie":
        assert (row.tied, row.scores) == (["a", "b"], {"a": 0.5, "b": 0.5, "c": 0.0})
    steady = recount([flipped[0], flipped[2]], sides=SIDES[:3]).row(protocol)
    assert (steady.winner, steady.same_as) == ("a", "mean")


def test_each_ballot_alone_is_what_one_judge_would_have_said() -> None:
    """For every ballot that could be used; the row "single" is the first of them."""
    cast = [scored(1, 0, problem="-"), scored(1, 3, model="m", view=1), scored(3, 1, model="n"), scored(1, 1)]
    found = recount(cast, sides=SIDES[:2])
    assert [(each.number, each.voter, each.view, each.winner) for each in found.alone] == [
        (2, "m", 1, "b"), (3, "n", 0, "a"), (4, None, 0, None)
    ]  # fmt: skip
    assert (found.row("single").winner, found.row("single").ballots) == ("b", 1)
    said = "of 3 ballots, each as the only one, 1 would have found for 'a', 1 would have found for 'b', 1 for none"
    assert said in findings(found)
    assert "1 of 4 ballots could not be used; majorities are of all 4" in findings(found)


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
    assert found.row("cumulative").winner == "bob", "one who is sure against two who are not"
    assert found.row("borda").why.endswith("a vote says who is first, and not how the other sides stand")
    assert found.row("on_flip_tie").why.startswith("voters are asked once")
    assert found.row("weighted").same_as == "majority"
    assert recount(output, weights={"ann": 3, "bob": 3}).row("weighted").winner == "ann"


def test_weights_that_a_consensus_counted_by_count_again() -> None:
    """Where its rule was the weighted one, and no others are given."""
    output = agreed(voting="weighted", weights={"ann": 9})
    assert (output.winner, output.consensus_reached) == ("ann", True)
    row = recount(output).row("weighted")
    assert (row.winner, row.scores["ann"], row.same_as) == ("ann", 10, None)


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
    assert recount(output.model_copy(update={"ballots": [], "tally": None})).line == (
        "no protocol can be told from these ballots"
    )


def test_only_what_is_asked_for_is_decided() -> None:
    """In the order of all protocols; what would be another rule's twin is a rule where that one is not there."""
    found = recount(won("a", "b", "b"), sides=SIDES[:2], protocols=["instant_runoff", "borda"])
    assert [(row.protocol, row.same_as) for row in found.rows] == [("borda", None), ("instant_runoff", "borda")]
    assert (found.agree, found.line) == (True, "the one protocol finds for 'b'")
    with pytest.raises(LookupError, match="there is no row for 'mean'"):
        found.row("mean")


def test_whether_protocols_agree_is_told() -> None:
    """All, some, none; and that one ballot says no more than itself."""
    clear = recount([scored(3, 1, 1), scored(4, 1, 1), scored(5, 1, 1)], sides=SIDES[:3])
    assert (clear.agree, clear.line) == (True, "all 11 protocols find for 'a'")
    assert findings(clear)[-1] == LIMITS
    level = recount([scored(1, 1)], sides=SIDES[:2], protocols=["plurality", "majority"])
    assert level.line == "none of 2 protocols names a winner: a tie (plurality); not enough for anybody (majority)"
    assert "there is one ballot, which every protocol can only repeat" in findings(level)
    assert recount([scored(1, 1)], sides=SIDES[:2], protocols=["mean"]).line == "no winner: a tie (mean)"
    empty = recount([], sides=SIDES)
    assert (empty.line, empty.agree) == ("no protocol can be told from these ballots", False)
    assert [row.protocol for row in empty.rows] == list(ALL)


@pytest.mark.parametrize(
    ("data", "options", "problem"),
    [
        ([], {}, "`sides` must be given for bare ballots"),
        ([], {"sides": "aa"}, "`sides` must be different sides"),
        (won("x"), {"sides": "ab"}, r"`ballots\[0\].winner` must be one of the sides"),
        ([scored(1, 1, 1)], {"sides": "ab"}, r"`ballots\[0\].scores` must be one of the sides"),
        ([*won("a"), Ballot(voter="v", choice="a")], {"sides": "ab"}, "`data` must be ballots of one kind"),
        (["a"], {"sides": "ab"}, "`data` must be ballots of one kind"),
        (won("a"), {"sides": "ab", "protocols": ["dice"]}, "`protocols` must be some of mean"),
        (won("a"), {"sides": "ab", "protocols": []}, "`protocols` must be at least one"),
        (won("a"), {"sides": "ab", "threshold": 0}, "`threshold` must be None or a number above 0"),
        (won("a"), {"sides": "ab", "threshold": float("nan")}, "`threshold` must be"),
        (won("a", model="m"), {"sides": "ab", "weights": {"n": 1}}, "`weights` must be weights of those"),
        (won("a", model="m"), {"sides": "ab", "weights": {"m": 0}}, r"`weights\['m'\]` must be a finite number > 0"),
        (won("a"), {"sides": "ab", "eligible": ["m"]}, "`eligible` must be None"),
        ([Ballot(voter="v", choice="a")] * 2, {"sides": "ab"}, "`ballots` must be one of each voter"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_is_refused(data: Any, options: dict[str, Any], problem: str) -> None:
    """With what would be allowed."""
    with pytest.raises(ConfigurationError, match=problem):
        recount(data, **options)
