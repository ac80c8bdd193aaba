"""Figures in judge audits: worked examples and invariants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import audit, full_audit
from flowdebate.evaluation.audit_report import LIMITS
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, centered, softmax
from flowdebate.patterns.debate.judging.views import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.evaluation import JudgeAudit, JudgeFigures

SIDES = ("yes", "no", "both")


def ballot(order: str, winner: str | None, **more: object) -> JudgeBallot:
    """Create a ballot on sides whose names are single letters."""
    return JudgeBallot.model_validate({"order": list(order), "winner": winner, **more})


@st.composite
def ballots(draw: st.DrawFn) -> JudgeBallot:
    """Draw a valid or an unusable ballot."""
    order = draw(st.permutations(SIDES[: draw(st.integers(2, 3))]))
    labels = None
    if draw(st.booleans()):
        labels = dict(zip(order, draw(st.permutations("ABC"[: len(order)])), strict=True))
    return JudgeBallot(
        order=list(order),
        labels=labels,
        winner=draw(st.none() | st.sampled_from(order)),
        model=draw(st.sampled_from([None, "one", "two"])),
        problem=draw(st.sampled_from([None, None, None, "no JSON"])),
    )


items = st.lists(st.lists(ballots(), max_size=6), max_size=6)
anything = st.builds(
    JudgeBallot,
    order=st.lists(st.sampled_from(["", "yes", "no", "\ud800"]), max_size=4),
    labels=st.none() | st.dictionaries(st.sampled_from(["yes", "no"]), st.sampled_from(["A", "B"])),
    scores=st.none() | st.dictionaries(st.sampled_from(["yes", "no", "who?"]), st.floats(0, 1)),
    winner=st.none() | st.sampled_from(["yes", "no", "who?", ""]),
    model=st.none() | st.text(max_size=3),
    problem=st.none() | st.just("no JSON"),
)


def all_figures(report: JudgeAudit) -> list[JudgeFigures]:
    """Return the figures for all ballots, and those for each model."""
    return [report, *report.models.values()]


def test_judges_that_always_pick_the_first_side_have_extreme_figures() -> None:
    """No item is judged consistently, so position consistency is 0 and preference fairness is -1."""
    report = audit([[ballot("ab", "a"), ballot("ba", "b")]] * 3)
    assert report.position_consistency is not None
    assert report.preference_fairness is not None
    assert report.flip_probability is not None
    assert (report.position_consistency.value, report.position_consistency.n) == (0.0, 3)
    assert (report.preference_fairness.value, report.flip_probability.value) == (-1.0, 1.0)
    (slots,) = report.slots
    assert [(place.place, place.wins, place.rate) for place in slots.places] == [("1", 6, 1.0), ("2", 0, 0.0)]
    assert (slots.n, slots.items, slots.leaning, slots.first) == (6, 3, 3, 3)


def test_decisive_judges_are_consistent_and_unbiased() -> None:
    report = audit([[ballot("ab", "a"), ballot("ba", "a")], [ballot("ab", "b"), ballot("ba", "b")]])
    assert report.position_consistency is not None
    assert report.preference_fairness is not None
    assert (report.position_consistency.value, report.preference_fairness.value) == (1.0, 0.0)
    assert (report.slots[0].places[0].rate, report.slots[0].leaning) == (0.5, 0)


def test_preference_fairness_matches_the_paper() -> None:
    """Preference fairness is (recency² - primacy²) / inconsistent, divided by its maximum.

    A tie in one order counts as inconsistent.
    """
    primacy = [[ballot("ab", "a"), ballot("ba", "b")], [ballot("ab", "a"), ballot("ba", None)]]
    recency = [[ballot("ab", "b"), ballot("ba", "a")], [ballot("ab", None), ballot("ba", "a")]] * 2
    ties = [[ballot("ab", None), ballot("ba", None)], [ballot("ab", "a"), ballot("ba", "a")]]
    report = audit([*primacy, *recency, *ties])
    raw = 4 * (4 / 6) - 2 * (2 / 6)
    assert report.preference_fairness is not None
    assert report.position_consistency is not None
    assert report.preference_fairness.value == pytest.approx(raw / 8)
    assert report.position_consistency.value == pytest.approx(2 / 8)
    assert report.undecided == 1 + 2 + 2


def test_repetition_stability_is_the_share_of_the_most_frequent_verdict() -> None:
    """Ballots count as repetitions only if the same model cast them after reading the same view of the debate."""
    repeats = [ballot("ab", "a"), ballot("ab", "a"), ballot("ab", "b")]
    report = audit([[*repeats, ballot("ba", "b"), ballot("ab", "b", model="other")]])
    assert report.repetition_stability is not None
    assert (report.repetition_stability.value, report.repetition_stability.n) == pytest.approx((2 / 3, 1))
    assert report.position_consistency is not None
    assert report.position_consistency.value == 0.0  # the most frequent winner is "a" in one order and "b" in the other


def test_scores_determine_the_winner() -> None:
    """The side with the largest share wins, and a tie has no winner, just as in a verdict."""
    report = audit([[ballot("ab", None, scores={"a": 0.2, "b": 0.8}), ballot("ba", "a", scores={"a": 0.5, "b": 0.5})]])
    assert (report.slots[0].places[1].wins, report.undecided) == (1, 1)


def test_labels_are_counted_like_slots() -> None:
    report = audit(
        [[ballot("ab", "a", labels={"a": "Y", "b": "X"})], [ballot("ab", "b", labels={"a": "X", "b": "Y"})]],
    )
    (labels,) = report.labels
    assert [(place.place, place.wins) for place in labels.places] == [("X", 0), ("Y", 2)]
    assert labels.apart


def test_unusable_ballots_are_counted_and_excluded() -> None:
    bad = [
        ballot("", None),
        ballot("a", "a"),
        ballot("aa", "a"),
        ballot("ab", "c"),
        ballot("ab", None, scores={"c": 1.0}),
        ballot("ab", "a", labels={"a": "X"}),
        ballot("ab", "a", labels={"a": "X", "b": "X"}),
    ]
    report = audit([[*bad, ballot("ab", None, problem="no JSON"), ballot("ab", "b")]])
    assert (report.ballots, report.unusable, report.unparsed, report.undecided) == (9, 7, 1, 0)
    assert (report.slots[0].n, report.unparsed_share) == pytest.approx((1, 1 / 9))


def test_models_are_reported_separately_and_compared() -> None:
    """Models that always agree are worth only one independent model."""
    cast = [
        [ballot("ab", winner, model=model) for model in ("one", "two", "three")]
        for winner in ("a", "b", "a", "b", "b") * 10
    ]
    report = audit(cast)
    assert list(report.models) == ["one", "three", "two"]
    assert {figures.ballots for figures in report.models.values()} == {50}
    assert report.rho is not None
    assert report.rho_of == "scores"
    assert (report.rho.value, report.effective_n) == pytest.approx((1.0, 1.0))
    assert audit(cast[:49]).rho is None
    assert "3 models are worth 1.0 independent ones: their scores correlate by 1.00 over 50 items" in report.findings
    assert audit(cast, truth=["a"] * 50).rho == report.rho
    always = [[vote.model_copy(update={"winner": "a"}) for vote in item] for item in cast]
    assert audit(always, truth=["a"] * 50).rho is None  # no judge is ever wrong, so errors cannot correlate


def test_models_are_compared_by_errors_if_the_truth_is_known() -> None:
    """Two models that make different errors are worth more than two that make the same errors."""
    right = "ab" * 30
    one_ballots = [ballot("ab", "a", model="one") for _ in right]
    two_ballots = [ballot("ab", "b", model="two") for _ in right]
    report = audit([[a, b] for a, b in zip(one_ballots, two_ballots, strict=True)], truth=list(right))
    assert report.rho is not None
    assert report.rho_of == "errors"
    assert (report.rho.value, report.effective_n) == pytest.approx((-1.0, 2.0))
    with pytest.raises(ConfigurationError, match=r"audit\(\): `truth` must have one entry per item, 60 in total"):
        audit([[a] for a in one_ballots], truth=["a"])


def test_empty_audits_have_no_figures() -> None:
    nothing: list[list[list[JudgeBallot]]] = [[], [[]]]
    for empty in nothing:
        report = audit(empty)
        assert (report.items, report.ballots, report.slots, report.position_consistency) == (0, 0, [], None)
        assert full_audit(empty).seed == 0
        assert report.findings == ["no verdict for a side in 0 ballots: slots cannot be assessed", LIMITS]


@given(items, st.data())
def test_order_of_items_and_ballots_does_not_matter(cast: list[list[JudgeBallot]], data: st.DataObject) -> None:
    shuffled = [data.draw(st.permutations(cell)) for cell in data.draw(st.permutations(cast))]
    assert audit(shuffled) == audit(cast)


@given(items)
def test_side_names_do_not_matter(cast: list[list[JudgeBallot]]) -> None:
    names = {"yes": "zeta", "no": "alpha", "both": "mu"}
    original, renamed = audit(cast), audit([[_rename(vote, names) for vote in item] for item in cast])
    assert renamed.model_copy(update={"rho": None, "effective_n": None}) == original.model_copy(
        update={"rho": None, "effective_n": None}
    )


@given(items)
def test_mirroring_negates_preference_fairness(cast: list[list[JudgeBallot]]) -> None:
    """If all orders are reversed, preference fairness changes sign, and the figures for the slots are reversed too.

    All other figures stay the same.
    """
    mirrored = [[vote.model_copy(update={"order": vote.order[::-1]}) for vote in item] for item in cast]
    for figure, mirror in zip(all_figures(audit(cast)), all_figures(audit(mirrored)), strict=True):
        assert figure.position_consistency == mirror.position_consistency
        assert figure.flip_probability == mirror.flip_probability
        assert figure.repetition_stability == mirror.repetition_stability
        assert (figure.preference_fairness is None) == (mirror.preference_fairness is None)
        if figure.preference_fairness is not None and mirror.preference_fairness is not None:
            assert figure.preference_fairness.value == -mirror.preference_fairness.value
        for slots, turned in zip(figure.slots, mirror.slots, strict=True):
            assert [place.wins for place in slots.places] == [place.wins for place in turned.places][::-1]


@given(items)
def test_figures_stay_within_their_bounds(cast: list[list[JudgeBallot]]) -> None:
    for figure in all_figures(audit(cast)):
        for places in (*figure.slots, *figure.labels):
            assert sum(place.rate for place in places.places) == pytest.approx(1)
            assert sum(place.wins for place in places.places) == places.n
            assert 0 <= places.first <= places.leaning <= places.items <= places.n
        decided = figure.ballots - figure.unparsed - figure.unusable - figure.undecided
        assert sum(places.n for places in figure.slots) == decided
        for share in (figure.position_consistency, figure.flip_probability, figure.repetition_stability):
            assert share is None or 0 <= share.value <= 1
        if figure.position_consistency is not None and figure.preference_fairness is not None:
            assert abs(figure.preference_fairness.value) <= 1 - figure.position_consistency.value + 1e-9


@given(st.lists(st.lists(anything, max_size=4), max_size=4))
def test_audits_accept_arbitrary_ballots(cast: Sequence[Sequence[JudgeBallot]]) -> None:
    report = audit(cast)
    assert report.ballots == sum(map(len, cast))
    assert report.findings[-1] == LIMITS


def _rename(cast: JudgeBallot, names: dict[str, str]) -> JudgeBallot:
    return cast.model_copy(
        update={
            "order": [names[side] for side in cast.order],
            "winner": None if cast.winner is None else names[cast.winner],
            "labels": None if cast.labels is None else {names[side]: label for side, label in cast.labels.items()},
        }
    )


def _scored_ballot(order: str, share: float, **more: object) -> JudgeBallot:
    scores = {order[0]: share, **dict.fromkeys(order[1:], (1 - share) / (len(order) - 1))}
    return ballot(order, None, scores=scores, **more)


@pytest.mark.parametrize(("full", "times"), [(20, 1), (16, 1), (15, 0), (0, 0)])
def test_all_or_nothing_scores_are_reported(full: int, times: int) -> None:
    """Scores count as all-or-nothing if at least 80% of the ballots give one side a share of 99% or more.

    Letter ballots and ballots without scores are ignored.
    """
    cast = [[_scored_ballot("ab", 0.99), _scored_ballot("ba", 0.01)] for _ in range(full // 2)]
    cast += [[_scored_ballot("ab", 0.99)] for _ in range(full % 2)]
    cast += [[_scored_ballot("ab", 0.98)] for _ in range(20 - full)]
    letter = _scored_ballot("ab", 1.0, log_odds={"a": 9.0, "b": -9.0})
    report = audit([*cast, [letter, ballot("ab", "a"), ballot("ab", None, problem="none")]])
    assert report.saturation is not None
    assert (report.saturation.value, report.saturation.n) == (full / 20, 20)
    findings = [finding for finding in report.findings if finding.startswith("scores are all or nothing: ")]
    why = f"{full} of 20 ballots give a side 99% or more"
    assert findings == [f"scores are all or nothing: swapping cannot help; {why}"] * times
    assert [sentence for sentence in audit(cast[:4]).findings if "all or nothing" in sentence] == []
    three = audit([[_scored_ballot("abc", 1.0)]] * 20)
    assert any("all or nothing: they count as votes" in finding for finding in three.findings)


@given(
    worths=st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=1, max_size=4),
    slot=st.floats(-20, 20),
    sides=st.integers(2, 3),
)
def test_planted_slot_preference_is_recovered_in_log_odds(worths: list[list[float]], slot: float, sides: int) -> None:
    """The preference is recovered whatever the quality of the sides, but only if each side appears in every slot."""
    cast = []
    for worth in worths:
        item = []
        for view in Schedule(kind="cyclic").views("abc"[:sides], shuffle=False):
            sums = {side: worth["abc".index(side)] + slot * (at == 0) for at, side in enumerate(view.order)}
            item.append(ballot("".join(view.order), None, log_odds=centered(sums), scores=softmax(sums), mass=0.9))
        cast.append(item)
    report = full_audit(cast, resamples=99)
    assert report.saturation is None
    assert report.slot_log_odds is not None
    assert report.slot_log_odds.value == pytest.approx(slot, abs=1e-9)
    assert report.slot_log_odds.n == len(worths) * sides
    interval = (report.slot_log_odds.low, report.slot_log_odds.high)
    assert interval == ((None, None) if len(worths) == 1 else pytest.approx((slot, slot), abs=1e-9))
    assert report.unparsed == report.unusable == 0
    assert sum("by letter, the first slot is ahead by" in finding for finding in report.findings) == 1
    assert audit([entry[:1] for entry in cast]).slot_log_odds is None
