"""The evidence page: reproducible, and accurate about its inputs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import exact, page, simulated
from evidence.estimates import Estimate, bootstrapped, mean_of, table, wilson
from evidence.facts import SIDES, FactPair, PairFigures, fact_pairs, stored_pairs
from evidence.judgements import BALLOTS, Row, judged, rows_of, views_of
from evidence.real import real
from evidence.simulate import WORLDS, Ballots, ballots, right
from evidence.simulated import by_odds, by_vote
from evidence.unkind import unkind
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, centered, decide
from flowdebate.testing import FunctionModel


def make_pair(number: int, *, longer: bool = True) -> FactPair:
    """Return a pair in which the true text is longer than the other, or equally long."""
    return FactPair(
        id=f"fact-{number:03}", true=f"It is {number}{'!' * longer}", false=f"It is {9 - number}", first_is_true=True
    )


def make_rows(pairs: list[FactPair], *, slot_only: bool) -> list[Row]:
    """Return rows from a judge that always chooses the first slot (if `slot_only`) or the true text."""
    rows_found = []
    for one in pairs:
        for name, view in views_of(one).items():
            winner = view.order[0] if slot_only else "true"
            scores = {side: 0.9 if side == winner else 0.1 for side in view.order}
            ballot = JudgeBallot(
                order=list(view.order),
                labels=dict(view.labels or {}),
                view=int(name == "reverse"),
                model="local",
                scores=scores,
                winner=winner,
            )
            rows_found.append(
                Row(id=f"local/{one.id}/{name}", model="local", item=one.id, view=name, ballot=ballot, seconds=1.0)
            )
    return rows_found


def test_page_generation_is_deterministic() -> None:
    """The generated page is always identical, regardless of the clock, the machine and earlier random draws."""
    first = page.page("-", scale=0.002)
    assert page.page("-", scale=0.002) == first


def test_larger_samples_extend_smaller_ones() -> None:
    few, many = (
        np.concatenate([odds for odds, _ in ballots(WORLDS["four"], Ballots(schedule="cyclic"), count)])
        for count in (50, 20_100)
    )
    assert (many[:50] == few).all()


def test_simulations_show_the_documented_effects() -> None:
    """Swapping the order corrects biases that repetition cannot, but it does not correct a bias toward content."""
    _, estimates = simulated.schedules(scale=0.01)
    assert estimates["gap", "`swap`", "mean"].low > estimates["gap", "control: the same order again", "mean"].high + 0.1
    assert abs(estimates["four", "`cyclic`", "odds"].value - 0.861) < 0.02
    gained = simulated.content(scale=0.01).splitlines()[2].split("|")[-3]
    low, high = (float(end) for end in gained.partition("[")[2].strip(" ]").split(","))
    assert low <= 0 <= high


def test_exact_claims_have_no_exceptions() -> None:
    lines = exact.exact().splitlines()[2:]
    assert len(lines) == 5
    assert all(line.endswith("| 0 |") for line in lines)


@pytest.mark.parametrize(
    ("figure", "low", "high", "verdict"),
    [
        (".68", 0.676, 0.678, "yes"),
        (".68", 0.66, 0.67, "no"),
        (".790", 0.7911, 0.792, "no"),
        (".790", 0.78, 0.8, "yes"),
    ],
)
def test_quoted_figure_matches_within_rounding(figure: str, low: float, high: float, verdict: str) -> None:
    """A figure matches if it could have been obtained by rounding a value in the interval."""
    rows = {("gap", "row", "mean"): Estimate((low + high) / 2, low, high, 9)}
    assert verdict in simulated._verdict(figure, rows["gap", "row", "mean"])


def test_slot_bias_and_accuracy_are_distinguished() -> None:
    """A judge that always favors the first slot is reported as biased, and its accuracy is no better than chance.

    A judge that is always right is not reported as biased.
    """
    pairs = [make_pair(number) for number in range(60)]
    slots, truth = real(make_rows(pairs, slot_only=True), pairs), real(make_rows(pairs, slot_only=False), pairs)
    assert "favors the first slot: 120 of 120" in slots
    assert "| `swap` | 2 | .500 [.500, .500] |" in slots
    assert "60 of 60 |" in slots
    assert "| `swap` over one order, the mean of both |  | +.000 [+.000, +.000] |" in truth
    assert "| `swap` | 2 | 1.000 [1.000, 1.000] |" in truth
    assert "favors" not in truth


def test_incompletely_judged_pairs_are_excluded() -> None:
    """Pairs that were judged only in part would unbalance the results of an interrupted run."""
    pairs = [make_pair(number) for number in range(9)]
    assert "8 pairs in three views, 26 calls" in real(make_rows(pairs, slot_only=True)[:-1], pairs)
    assert real([], pairs).endswith("yet.")


def test_measured_part_of_the_page_is_preserved(tmp_path: Path) -> None:
    file = tmp_path / "evidence.md"
    assert page.stored_real(file) == "Nothing has been judged yet."
    file.write_text(f"# x\n\n{page.BEGIN}\nIt was right.\n\nTwice.\n{page.END}\n")
    assert page.stored_real(file) == "It was right.\n\nTwice."


def test_sections_for_models_without_ballots_are_unchanged() -> None:
    """New sections replace only those already stored for the same model."""
    stored = "Old lead.\n\n### `one`\n\nOld one.\n\n### `two`\n\nOld two."
    derived = "New lead.\n\n### `two`\n\nNew two."
    assert page.merged(derived, stored) == "New lead.\n\n### `one`\n\nOld one.\n\n### `two`\n\nNew two."
    assert page.merged("Nothing has been judged yet.", stored) == stored


@pytest.mark.slow
def test_sections_on_the_page_match_the_stored_ballots() -> None:
    """Each judge that answers by letter cast three ballots on each of the 260 pairs, one for each view."""
    sections = rows_of(BALLOTS)
    assert Counter(row.model for row in sections) == {"local, by letter": 780, "smollm2, by letter": 780}
    derived = real(sections, stored_pairs())
    text = (Path(__file__).parents[2] / "evidence" / "records" / "evidence.md").read_text("utf-8")
    for section in derived.split("\n\n### ")[1:]:
        assert section in text
    assert "**not shipped**" in text


def test_figures_on_the_page_match_the_records() -> None:
    root = Path(__file__).parents[2]
    records = "\n".join(path.read_text("utf-8") for path in (root / "evidence" / "records").glob("*.md"))
    page = (root / "docs" / "evidence.md").read_text("utf-8")
    # the page's own section on escalation only summarizes its record
    page = re.sub(r"^## Escalation$.*?(?=^## )", "", page, flags=re.MULTILINE | re.DOTALL)
    rows = [line for line in page.splitlines() if line.startswith("| ") and re.search(r"\[[-+.\d]", line)]
    assert len(rows) >= 20
    assert [row for row in rows if row not in records] == []


def test_stored_pair_figures_match_the_package() -> None:
    assert len(stored_pairs()) == 260
    try:
        pairs = fact_pairs()
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    assert stored_pairs() == [PairFigures.of(entry) for entry in pairs]


def test_reversing_the_order_does_not_help_every_judge() -> None:
    """A second order does not make all-or-nothing ballots more accurate.

    It makes a judge that favors the last word less accurate.
    """
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[-1] for line in unkind(0.02).splitlines()[2:]}
    gains = {name: float(cell.split()[0]) for name, cell in rows.items()}
    assert gains["graded scores, as above"] > 0.18
    assert 0.02 < gains["half of all ballots are all-or-nothing"] < 0.1
    assert abs(gains["all ballots are all-or-nothing"]) < 0.02
    assert gains["adds 1 for the side that spoke last, in all views"] < 0
    assert len(rows) == 8


@pytest.mark.anyio
async def test_letter_judgments_match_the_library(tmp_path: Path) -> None:
    one = make_pair(1)
    view = views_of(one)["reverse"]
    judge = FunctionModel(lambda request: dict(zip(request.choices, (-0.5, -1.5), strict=True)), name="small")
    ballot, costs = await judged(one, "reverse", view, judge, by_letter=True)
    (first,) = [side for side, label in (view.labels or {}).items() if label == "A"]
    assert ballot.log_odds == {side: 0.5 if side == first else -0.5 for side in SIDES}
    assert (ballot.model, ballot.winner, ballot.view) == ("small, by letter", first, 1)
    row = Row(id="r", model="small, by letter", item=one.id, view="reverse", ballot=ballot, **costs)
    (tmp_path / "rows.jsonl").write_text(row.model_dump_json(exclude_defaults=True) + "\n")
    assert rows_of(tmp_path / "rows.jsonl") == [row]
    mute, _ = await judged(one, "reverse", view, FunctionModel(lambda _: "A"), by_letter=True)
    assert mute.problem == "the model gives no log-probabilities"


def test_judging_by_letter_benefits_from_two_orders() -> None:
    """If a judge reads both orders and answers by letter, its verdicts on two sides are right in 89.1% of cases.

    With all-or-nothing scores, they are right in only 68.3%, the same as with one order.
    """
    items = 200_000
    swap = Ballots(schedule="swap")
    letters, votes = (mean_of(series).value for series in right(WORLDS["gap"], swap, items, by_odds, by_vote))
    (one,) = (mean_of(series).value for series in right(WORLDS["gap"], Ballots(), items, by_vote))
    assert letters == pytest.approx(0.891, abs=0.002)
    assert votes == pytest.approx(0.683, abs=0.002)
    assert one == pytest.approx(0.683, abs=0.002)


@given(st.lists(st.tuples(*[st.floats(-9, 9)] * 4), min_size=1, max_size=5))
def test_letter_judging_figures_match_the_library(items: list[tuple[float, ...]]) -> None:
    """`decide()` without a threshold returns the side with the higher mean log-odds over both orders."""
    odds = np.array(items).reshape(len(items), 2, 2)
    leaders = by_odds(odds).leaders
    for number, views in enumerate(odds.tolist()):
        cast = [
            JudgeBallot(view=at, order=["a", "b"], log_odds=centered({"a": view[0], "b": view[1]}))
            for at, view in enumerate(views)
        ]
        winner = decide(cast, sides=["a", "b"], by="log_odds", min_log_odds=0.0).winner
        ahead = abs(odds[number, :, 0].sum() - odds[number, :, 1].sum())
        if winner is not None and ahead > 1e-9:
            assert leaders[number].tolist() == [winner == "a", winner == "b"]


def test_written_rows_can_be_read_back(tmp_path: Path) -> None:
    file, written = tmp_path / "rows.jsonl", make_rows([make_pair(1)], slot_only=True)
    assert rows_of(file) == []
    file.write_text("".join(f"{row.model_dump_json()}\n" for row in written))
    assert rows_of(file) == written


def test_pair_has_three_views() -> None:
    first = []
    for number in range(200):
        views = views_of(make_pair(number))
        assert views["first"] == views["again"]
        assert views["reverse"].order == views["first"].order[::-1]
        assert all(views["first"].named(side) != views["reverse"].named(side) for side in SIDES)
        first.append((views["first"].order[0], views["first"].named("true")))
    assert all(30 <= first.count(view) <= 70 for view in set(first))
    assert len(set(first)) == 4


def test_pairs_are_unchanged() -> None:
    try:
        pairs = fact_pairs()
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    assert (len(pairs), sum(entry.first_is_true for entry in pairs)) == (260, 244)
    assert sum(entry.longer_is_true for entry in pairs) / 260 == pytest.approx(0.704, abs=0.0005)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_contain_the_mean(counted: tuple[int, int]) -> None:
    wins, n = counted
    interval = wilson(wins, n)
    assert 0 <= interval.low <= interval.value + 1e-12
    assert interval.value <= interval.high + 1e-12 <= 1 + 2e-12


def test_estimates_are_formatted_as_published() -> None:
    """Shares have no leading zero, and differences always have a sign."""
    assert f"{Estimate(0.6814, 0.68, 1.0, 3):3}" == ".681 [.680, 1.000]"
    assert f"{Estimate(-0.05, -0.0001, 0.25, 3):+3}" == "-.050 [+.000, +.250]"
    assert table(["a"], [["1"]]) == "| a |\n| --- |\n| 1 |"
    assert mean_of([0, 1, 0, 1]).n == 4
    assert f"{bootstrapped([]):3}" == "-"
    assert bootstrapped([0.5, 0.5]) == Estimate(0.5, 0.5, 0.5, 2)
