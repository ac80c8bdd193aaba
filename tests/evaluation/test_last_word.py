"""The last word in judge audits: the last speaker in the last round is tested like a slot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.evaluation.audit_report import LIMITS
from flowdebate.evaluation.judge_audit import audit, full_audit, spoken_of
from flowdebate.evaluation.statistics import place_test, sign_flip_test
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, decide
from tests.patterns.test_turn_order import Speakers, build

scipy = pytest.importorskip("scipy")


def ballots(winner: str | None, *sides: str) -> list[JudgeBallot]:
    """Create ballots by a judge who picks the same winner in both orders."""
    return [JudgeBallot(view=at, order=list(order), winner=winner) for at, order in enumerate([sides, sides[::-1]])]


def speaking_orders(count: int) -> list[list[str]]:
    """Return alternating speaking orders of two sides."""
    return [["tea", "coffee"] if at % 2 else ["coffee", "tea"] for at in range(count)]


def test_23_debates_are_enough_to_detect_judges_favoring_the_last_word() -> None:
    spoken = speaking_orders(23)
    report = full_audit([ballots(order[-1], *order) for order in spoken], spoken=spoken)
    assert report.last_word is not None
    assert (report.last_word.wins, report.last_word.n, report.last_word.items) == (46, 46, 23)
    assert (report.last_word.rate, report.last_word.even, report.last_word.orders) == (1.0, 0.5, 2)
    assert report.last_word.p == pytest.approx(report.turns[0].p)
    assert report.turns[0].p is not None
    assert report.turns[0].p < 1e-5
    assert report.last_word.p_holm == report.turns[0].p_holm
    assert report.last_word.low is not None
    assert report.last_word.low > 0.8
    assert any(finding.startswith("favors the last speaker: 46 of 46 (100%") for finding in report.findings)
    # if there are only two sides, the last word needs no test besides those for slots and turns
    assert report.tests == 2
    assert report.slots[0].p == 1.0
    assert "the last word" in LIMITS == report.findings[-1]


def test_judges_without_a_preference_are_not_accused() -> None:
    spoken = speaking_orders(40)
    report = full_audit([ballots("tea", *order) for order in spoken], spoken=spoken)
    assert report.last_word is not None
    assert (report.last_word.rate, report.last_word.p) == (0.5, 1.0)
    assert report.last_word.low is not None
    assert report.last_word.high is not None
    assert report.last_word.low <= 0.5 <= report.last_word.high


@pytest.mark.parametrize(("liked", "words"), [(2, "favors the last word: it won 30 of 30"), (0, "is against the last")])
def test_last_word_is_tested_separately_if_there_are_more_than_two_sides(liked: int, words: str) -> None:
    """With three sides, the rate expected by chance is one in three, and the finding mentions this rate."""
    orders = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]] * 10
    report = full_audit([ballots(order[liked], *order)[:1] for order in orders], spoken=orders)
    assert report.last_word is not None
    assert report.last_word.even == pytest.approx(1 / 3)
    (sentence,) = [finding for finding in report.findings if "last word: it" in finding]
    assert sentence.startswith(words)
    assert "33% is even" in sentence
    assert report.tests == 3


def test_unknown_speaking_orders_and_simultaneous_turns_have_no_last_word() -> None:
    assert audit([ballots("tea", "tea", "coffee")]).last_word is None
    for order, expected in (("simultaneous", None), ("rotated", ["stance of bea", "stance of ann"])):
        raw = build("debate", 2, turn_order=order).run_sync("Q?", model=Speakers().model).raw
        assert spoken_of(raw) == expected
    assert audit([ballots("tea", "tea", "coffee")], spoken=[["tea", "coffee"]]).last_word is not None


def test_ballots_follow_the_speaking_order_of_their_transcript() -> None:
    """Each ballot is counted for the speaking order of its own transcript.

    In mirrored debates, an impartial judge therefore shows no bias, and a judge that always favors the last word shows
    full bias.
    """

    def mirrored(*winners: str) -> list[JudgeBallot]:
        orders = (["tea", "coffee"], ["coffee", "tea"])
        return [
            JudgeBallot(view=at, order=["tea", "coffee"], winner=winner, spoken=order)
            for at, (winner, order) in enumerate(zip(winners, orders, strict=True))
        ]

    fair, last = audit([mirrored("tea", "tea")] * 9).last_word, audit([mirrored("coffee", "tea")] * 9).last_word
    assert fair is not None
    assert last is not None
    assert (fair.rate, last.rate, last.orders) == (0.5, 1.0, 2)
    # only ballots on the same view of the same transcript are repetitions
    assert audit([mirrored("coffee", "tea")]).repetition_stability is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any), min_size=1, max_size=12))
def test_place_test_with_two_places_matches_the_sign_flip_test(wins: list[tuple[int, int]]) -> None:
    leans = [one - other for one, other in wins]
    assert place_test([(win, 1) for win in wins]) == pytest.approx(sign_flip_test(leans))


@given(st.integers(2, 5), st.integers(1, 15), st.data())
def test_place_test_for_single_wins_is_binomial(sides: int, items: int, data: st.DataObject) -> None:
    from scipy import stats

    last = data.draw(st.integers(0, items))
    every: list[Any] = [([0] * (sides - 1) + [1], sides - 1)] * last + [([1] + [0] * (sides - 1), sides - 1)] * (
        items - last
    )
    chances = stats.binom.pmf(range(items + 1), items, 1 / sides)
    far = abs(last - items / sides)
    expected = sum(chance for won, chance in enumerate(chances) if abs(won - items / sides) >= far - 1e-9)
    assert place_test(every) == pytest.approx(min(expected, 1.0))


def test_last_word_appears_in_the_command_output_and_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    from flowdebate.cli.terminal.page import Page
    from flowdebate.evaluation.documents import lay_out_audit

    spoken = speaking_orders(8)
    report = full_audit([ballots(order[-1], *order) for order in spoken], spoken=spoken)
    Page(sys.stdout, ()).summary(lay_out_audit(report, report.findings))
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "last word " in line]
    assert "100%" in row
    assert "16 of 16" in row
    assert report.model_dump(mode="json", by_alias=True)["lastWord"]["rate"] == 1.0


def test_mirrored_ballots_cancel_a_strong_last_word_bias() -> None:
    """The log-odds are the sum of a simulated quality, an effect of the last word, and noise.

    The quality is drawn from N(0, 1) and the noise from N(0, 0.5), and the effect is 1. The test compares a single
    debate, a mirrored pair and two debates in the same order.
    """
    np = pytest.importorskip("numpy")
    draw = np.random.default_rng(20261122)
    debates = 400_000
    quality = draw.normal(0, 1, debates)

    def share(last: float) -> Any:
        """Return the share of a side, which is the better one if `quality` is positive."""
        return 1 / (1 + np.exp(-(quality + last + draw.normal(0, 0.5, debates))))

    def right(mean: Any) -> float:
        return float(((mean > 0.5) == (quality > 0)).mean())

    first, second, reverse = share(1), share(1), share(-1)
    assert right(first) == pytest.approx(0.682, abs=0.003)
    assert right((first + reverse) / 2) == pytest.approx(0.892, abs=0.003)
    assert right((first + second) / 2) == pytest.approx(0.673, abs=0.003)
    for one, other in zip(first[:300].tolist(), reverse[:300].tolist(), strict=True):
        mirrored = [
            JudgeBallot(view=view, order=["a", "b"], scores={"a": part, "b": 1 - part})
            for view, part in enumerate((one, other))
        ]
        mean = (one + other) / 2
        assert decide(mirrored, sides=["a", "b"]).winner == ("a" if mean > 0.5 else "b")
