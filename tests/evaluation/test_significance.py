"""Chance in judge audits: power, false alarms, and findings from small samples."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import audit, full_audit
from flowdebate.evaluation.sample_sizes import NEEDED, power, smallest_n, smallest_rate, sought
from flowdebate.evaluation.statistics import Resampling, binomial_chances, exact_interval
from flowdebate.patterns.debate.judging.ballots import JudgeBallot
from flowdebate.patterns.debate.judging.views import as_schedule
from tests.evaluation.test_judge_audit import all_figures, ballot, items
from tests.profiles import example_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.evaluation import JudgeAudit

AUDITS = 1_000
FIRST, LAST = ballot("ab", "a"), ballot("ab", "b")
MIRRORED = ballot("ba", "b"), ballot("ba", "a")


def single_verdicts(n: int, rate: float, source: Random) -> list[list[JudgeBallot]]:
    """Draw single verdicts, in random order, by a judge that picks the first slot at this rate."""
    return [[source.choice((FIRST, MIRRORED[0]) if source.random() < rate else (LAST, MIRRORED[1]))] for _ in range(n)]


def draw_items(
    n: int, schedule: str, sides: Sequence[str], source: Random, *, bias: float = 0.0
) -> list[list[JudgeBallot]]:
    """Draw noisy items according to a schedule.

    The sides' qualities are drawn from N(0, 1), and the first slot gains `bias`.
    """
    cast = []
    for _ in range(n):
        quality = {side: source.gauss(0, 1) for side in sides}
        views = as_schedule(schedule, location="test").views(sides, random=source)
        cast.append([_cast_ballot(view.order, quality, source, bias) for view in views])
    return cast


def _cast_ballot(order: Sequence[str], quality: dict[str, float], source: Random, bias: float) -> JudgeBallot:
    perceived = {side: quality[side] + source.gauss(0, 0.7) + bias * (side == order[0]) for side in order}
    return JudgeBallot.model_construct(order=list(order), winner=max(order, key=lambda side: perceived[side]))


def count_alarms(audits: Sequence[JudgeAudit]) -> int:
    """Return how many audits report a preference for a slot."""
    return sum(any(finding.startswith("favors") for finding in report.findings) for report in audits)


@pytest.mark.simulation
def test_audits_of_54_verdicts_have_a_power_of_80_percent() -> None:
    """At least 80% of the audits detect a bias of 70%, and at most one in twenty accuses a fair judge."""
    source = Random(1)
    detected = count_alarms([full_audit(single_verdicts(54, 0.7, source), resamples=0) for _ in range(AUDITS)])
    false = count_alarms([full_audit(single_verdicts(54, 0.5, source), resamples=0) for _ in range(AUDITS)])
    assert detected >= 0.8 * AUDITS
    assert false <= 0.05 * AUDITS


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("schedule", "sides"), [("swap", "ab"), ("cyclic", "abc"), ("swap", "abc"), ("single", "abcd")]
)
def test_verdicts_on_one_item_are_not_independent_evidence(schedule: str, sides: str) -> None:
    """Whatever the schedule, at most one in twenty audits may accuse a fair judge."""
    source = Random(2)
    resamples = 0 if sides == "ab" else 99
    audits = [full_audit(draw_items(40, schedule, sides, source), resamples=resamples) for _ in range(60)]
    assert count_alarms(audits) <= 7  # 3 of 60 are expected at 5%; the probability of more than 7 is 1%


def test_preferences_are_also_found_with_cyclic_orders() -> None:
    source = Random(3)
    audits = [full_audit(draw_items(60, "cyclic", "abc", source, bias=0.8), resamples=99) for _ in range(10)]
    assert count_alarms(audits) >= 8


def test_order_audits_do_not_detect_content_preferences() -> None:
    """A judge that always prefers the longer side looks perfect in the audit.

    The findings mention this limitation.
    """
    longer = [[FIRST, MIRRORED[1]], [LAST, MIRRORED[0]]] * 30
    report = full_audit(longer)
    assert report.position_consistency is not None
    assert report.preference_fairness is not None
    assert (report.position_consistency.value, report.preference_fairness.value) == (1.0, 0.0)
    findings = report.findings
    assert findings[0].startswith("no slot bias found: the first slot won 60 of 120 (50%")
    assert "a preference that is the same in every order: for length, for style" in findings[-1]


def test_audit_reports_samples_that_are_too_small() -> None:
    source = Random(4)
    for n in (1, 12, 53):
        findings = full_audit(single_verdicts(n, 0.5, source), resamples=0).findings
        assert findings[0].startswith(f"too few to tell: {n} verdict")
        assert findings[0].endswith("; at least 54 are needed to find a rate of 70%")
        assert not any(finding.startswith("no slot bias") for finding in findings)
    assert not any(
        "too few to tell" in finding for finding in full_audit(single_verdicts(54, 0.5, source), resamples=0).findings
    )


def test_preferences_in_few_items_are_reported_once() -> None:
    """The finding itself states the sample size, so a separate remark would only repeat it."""
    findings = full_audit(single_verdicts(23, 1.0, Random(1)), resamples=0).findings
    mentions = [finding for finding in findings if "the first slot" in finding]
    assert len(mentions) == 1
    assert mentions[0].startswith("favors the first slot: 23 of 23")
    assert mentions[0].endswith("; too few for a weaker one: 23 verdicts, at least 54 are needed to find a rate of 70%")


def test_preferences_are_reported_with_their_statistics() -> None:
    cast = [[FIRST]] * 20 + [[MIRRORED[0]]] * 18 + [[LAST]] * 16
    assert full_audit(cast).findings[0] == ("favors the first slot: 38 of 54 (70%, 95% CI 56% to 82%, p = 0.0038)")
    fair = [[FIRST]] * 14 + [[MIRRORED[0]]] * 14 + [[LAST]] * 13 + [[MIRRORED[1]]] * 13
    assert full_audit(fair).findings[0] == (
        "no slot bias found: the first slot won 28 of 54 (52%, 95% CI 38% to 66%, p = 0.89); "
        "with n = 54 one of 70% would have been found in 80% of cases"
    )
    assert audit(fair).findings[0] == "the first slot won 28 of 54 (52%); not tested for chance"


def test_labels_that_never_move_cannot_be_separated_from_sides() -> None:
    """If slots or labels are fixed, their effect cannot be distinguished from the effect of the side."""
    labeled = [ballot(order, order[0], labels={order[0]: "A", order[1]: "B"}) for order in ("ab", "ba")]
    assert full_audit([[FIRST]] * 60).findings[0].startswith("cannot tell: all 60 items were shown in one order")
    findings = full_audit([[ballot_] for ballot_ in labeled * 30]).findings
    assert findings[0].startswith("favors the first slot: 60 of 60")
    assert findings[1].startswith("cannot tell: in all 60 items each label had one slot")


def test_intervals_have_nonzero_width_when_values_do_not_vary() -> None:
    """For 60 out of 60 verdicts, the interval is the Clopper-Pearson interval.

    Figures that vary are resampled by item.
    """
    report = full_audit([[FIRST], [MIRRORED[0]]] * 30)
    first, last = report.slots[0].places
    end = 0.025 ** (1 / 60)
    assert (first.low, first.high, last.low, last.high) == pytest.approx((end, 1.0, 0.0, 1 - end))
    consistent = full_audit([[FIRST, MIRRORED[1]]] * 30)
    assert consistent.position_consistency is not None
    assert consistent.position_consistency.low == pytest.approx(0.025 ** (1 / 30))
    assert consistent.preference_fairness is not None
    assert consistent.preference_fairness.low is not None
    assert -0.5 < consistent.preference_fairness.low < 0


@settings(max_examples=example_count(8))
@given(items, st.data())
def test_resampling_depends_only_on_the_seed(cast: list[list[JudgeBallot]], data: st.DataObject) -> None:
    report = full_audit(cast, seed=5, resamples=50)
    assert full_audit(data.draw(st.permutations(cast)), seed=5, resamples=50) == report
    for tested, plain in zip(all_figures(report), all_figures(audit(cast)), strict=True):
        assert (tested.items, tested.ballots, tested.undecided) == (plain.items, plain.ballots, plain.undecided)
        for places in (*tested.slots, *tested.labels):
            assert places.p is not None
            assert 0 < places.p <= 1
            for place in places.places:
                assert place.low is not None
                assert place.high is not None
                assert -1e-9 <= place.low <= place.high <= 1 + 1e-9


def test_required_sample_sizes_match_the_test() -> None:
    """The required sample size gives a power of at least 80%, while one verdict fewer does not.

    The stored table matches a fresh computation.
    """
    assert [smallest_n(rate) for rate in (0.6, 0.7, 0.8)] == [210, 54, 23]
    for rate in (0.6, 0.7, 0.8, 0.95):
        n = smallest_n(rate)
        assert power(n - 1, rate) < 0.8
        assert all(power(n + more, rate) >= 0.8 for more in range(30))
    assert {sides: smallest_n(sought(sides), sides=sides) for sides in NEEDED} == NEEDED
    assert smallest_n(1.0) == 6
    assert all(power(n - 1, sought(sides), sides=sides) < 0.8 for sides, n in NEEDED.items())
    assert (smallest_rate(54), smallest_rate(210), smallest_rate(5)) == (0.7, 0.6, None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smallest_n(0.5), r"smallest_n\(\): `rate` must be between 0.51 and 1 \(got 0.5\)"),
        (lambda: smallest_n(0.7, sides=1), "`sides` must be at least 2 \\(got 1\\)"),
        (lambda: smallest_n(0.7, power=1.0), "`power` must be strictly between 0 and 1 \\(got 1.0\\)"),
        (lambda: power(0, 0.7), r"power\(\): `n` must be at least 1 \(got 0\)"),
        (lambda: smallest_rate(0), r"smallest_rate\(\): `n` must be at least 1 \(got 0\)"),
        (lambda: full_audit([], seed=-1), r"full_audit\(\): `seed` must be at least 0 \(got -1\)"),
        (lambda: full_audit([], resamples=True), "`resamples` must be a whole number of at least 0 \\(got true\\)"),
    ],
    ids=["even", "one side", "certain", "no item", "no items", "seed", "resamples"],
)
def test_invalid_arguments_are_rejected(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ConfigurationError, match=message):
        call()


@pytest.mark.parametrize(("n", "chance"), [(1, 0.5), (50, 0.999), (1_000, 1 / 3), (20_000, 0.5), (5, 1.0), (3, 0.0)])
def test_binomial_probabilities_match_scipy(n: int, chance: float) -> None:
    """The smallest probabilities would be lost to rounding if they were computed as differences between two sums."""
    stats = pytest.importorskip("scipy.stats")
    assert binomial_chances(n, chance) == pytest.approx(stats.binom.pmf(range(n + 1), n, chance), rel=1e-10, abs=1e-290)


@pytest.mark.parametrize(("wins", "n"), [(0, 5), (5, 5), (3, 9), (1_234, 99_999)])
def test_exact_intervals_match_scipy(wins: int, n: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert exact_interval(wins, n) == pytest.approx(tuple(stats.binomtest(wins, n).proportion_ci(method="exact")))


@pytest.mark.parametrize("size", [2, 40, 3_000])
def test_bootstrap_intervals_match_scipy(size: int) -> None:
    stats, np = pytest.importorskip("scipy.stats"), pytest.importorskip("numpy")
    source = np.random.default_rng(size)
    numbers = source.integers(1, 4, size)
    values = np.sort([source.random() * number for number in numbers])
    numbers = numbers[np.lexsort((numbers, values))].astype(float)
    expected = stats.bootstrap(
        (values, numbers),
        lambda value, number, axis: value.sum(axis=axis) / number.sum(axis=axis),
        paired=True,
        n_resamples=2_000,
        batch=max(1, 500_000 // size),
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert Resampling(3, 2_000).interval(values, numbers, minimum=None) == pytest.approx(tuple(expected))


def test_run_audits_need_no_optional_library() -> None:
    """Figures and findings need neither NumPy nor SciPy.

    Functions that do need them raise an error that names the extra to install.
    """
    script = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "scipy"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Gone())
import importlib.util
importlib.util.find_spec = lambda name, real=importlib.util.find_spec: None if name == "scipy" else real(name)
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import audit, full_audit
from flowdebate.patterns.debate.judging.ballots import JudgeBallot
cast = [[JudgeBallot(order=["a", "b"], winner="a")]] * 3
assert audit(cast).findings
assert not {"numpy", "scipy"} & set(sys.modules)
try:
    full_audit(cast)
except ConfigurationError as error:
    print(error)
from typer.testing import CliRunner
from flowdebate.cli.app import app
line = '{"ballots": [{"order": ["a", "b"], "winner": "a"}]}'
told = CliRunner().invoke(app, ["eval", "audit", "--data", "-"], input=line)
print(told.exit_code, told.stderr, told.stdout)
"""
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)  # noqa: S603 - our own script
    assert process.stderr == ""
    assert 'full_audit() needs scipy, which is not installed: pip install "flowdebate[audit]"' in process.stdout
    assert '0 Warning: p-values and intervals need scipy: pip install "flowdebate[audit]"' in process.stdout
    assert "- too few to tell: 1 verdict (the first slot won 1 of 1, 100%)" in process.stdout
