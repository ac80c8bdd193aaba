"""Blind comparisons of texts in all orders, singly and in tables."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as reference_kappa
from statsmodels.stats.proportion import proportion_confint

from flowdebate import JudgeOptions, Limits
from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.evaluation import compare, compare_all, tabulate
from flowdebate.evaluation.documents import lay_out
from flowdebate.models.resolve import resolve_model
from flowdebate.store import SqliteStore
from flowdebate.testing import FunctionModel, SimJudge
from tests.vendors import vendors

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.testing import ModelRequest
    from flowdebate.testing.models import Reply
    from tests.vendors import VendorRequest

pytestmark = pytest.mark.anyio
TEXTS = {"a": "a good answer", "b": "a bad one"}


def quality_of(text: str) -> float:
    """Return the quality of a text."""
    return 2.0 * text.count("good")


def rows_of(number: int, *names: str, seed: int = 1) -> list[dict[str, str]]:
    """Create rows of texts with different lengths."""
    draw = Random(seed)
    return [
        {"question": f"Q{at}?", **{name: f"{name} {at} " + "x" * draw.randint(1, 40) for name in names}}
        for at in range(number)
    ]


async def test_each_text_comes_first_once_and_stays_anonymous() -> None:
    prompts: list[str] = []

    class RecordingJudge(SimJudge):
        async def request(self, request: ModelRequest, /) -> Any:
            prompts.append("\n".join(str(message["content"]) for message in request.messages))
            return await super().request(request)

    texts = {"gpt-9": "a good answer", "llama-9": "bad", "own": "bad as well"}
    judges = [RecordingJudge(quality=quality_of, name="fair"), SimJudge(quality=quality_of, slot=9.0, name="biased")]
    comparison = await compare("Which?", texts, judges=judges, reference="the answer", seed=3, store=False)
    assert (comparison.winner, comparison.flips, len(comparison.ballots)) == ("gpt-9", 1, 12)
    assert [(judge.judge, judge.flipped, judge.for_first, judge.ballots) for judge in comparison.judges] == [
        ("fair", False, 2, 6),
        ("biased", True, 6, 6),
    ]
    assert sum(comparison.shares.values()) == pytest.approx(1)
    assert all(side.low < side.share < side.high for side in comparison.sides)
    assert [side.characters for side in comparison.sides] == [13, 3, 11]
    assert len(set(prompts)) == 6
    assert not any(name in prompt for prompt in prompts for name in ("gpt-9", "llama-9"))
    assert all("  | the answer" in prompt for prompt in prompts)


async def test_comparisons_stopped_by_a_limit_report_no_verdict() -> None:
    with pytest.raises(FlowDebateError, match=r"run \w+ ended without a verdict"):
        await compare("Which?", TEXTS, judges=[SimJudge(quality=quality_of)], limits=Limits(calls=1), store=False)


async def test_rubrics_are_scored_by_criterion_and_weighted() -> None:
    """Scores are averaged separately for each criterion.

    Each side's share is proportional to the weighted mean of its scores.
    """

    def answer(request: ModelRequest) -> Reply:
        prompt = str(request.messages[-1]["content"])
        scores = {
            label: {"correct": 90, "clear": 30} if f"[{label}] a good" in prompt else {"correct": 30, "clear": 90}
            for label in "AB"
        }
        return {"reasoning": "R.", "scores": scores, "verdict": "V."}

    comparison = await compare(
        "Q?", TEXTS, judges=[FunctionModel(answer)], criteria={"correct": 3, "clear": 1}, store=False
    )
    assert comparison.winner == "a"
    assert comparison.shares == pytest.approx({"a": 75 / 120, "b": 45 / 120})
    assert [side.criteria for side in comparison.sides] == [{"correct": 90, "clear": 30}, {"correct": 30, "clear": 90}]
    assert comparison.ballots[0].criteria == {"a": {"correct": 90, "clear": 30}, "b": {"correct": 30, "clear": 90}}
    with pytest.raises(ConfigurationError, match="criteria"):
        JudgeOptions(criteria={"correct": 1}, answer_form="letter")


async def test_sides_missing_from_all_rows_are_rejected() -> None:
    """If a misspelled name were accepted, the comparison would silently leave out the side that was meant."""
    with pytest.raises(ConfigurationError, match=r"`sides` must be names of texts in the rows .*theirz"):
        await compare_all(
            rows_of(2, "ours", "theirs", "third"), sides=["ours", "theirs", "theirz"], judges=[SimJudge()]
        )


@pytest.mark.slow
async def test_models_from_any_vendor_can_judge() -> None:
    """A model can judge even if its service reports no log probabilities.

    Judges may be given by name or as objects.
    """

    def say(request: VendorRequest) -> Any:
        return {"reasoning": "R.", "scores": {"A": 80, "B": 20}, "verdict": "V."}

    with vendors() as clients:
        for vendor in clients.values():
            vendor.say = say
        names = ["openai/gpt-5-mini", "anthropic/claude-haiku-5-5"]
        for judges in (names, [resolve_model(name) for name in names]):
            compared = await compare("Q?", TEXTS, judges=judges, store=False)
            assert [(judge.judge, judge.flipped) for judge in compared.judges] == [(name, True) for name in names]
    small = SimJudge(quality=quality_of)
    small.profile, small.gives_logprobs = "concise", False  # type: ignore[attr-defined] # attributes that models may have
    assert (await compare("Q?", TEXTS, judges=[small], store=False)).winner == "a"


async def test_local_model_judges_by_letter() -> None:
    """The reasons given by a model with the profile "concise" may contradict its choice of winner.

    Such a model is therefore asked only for a letter.
    """
    judge = SimJudge(quality=quality_of)
    judge.profile = "concise"  # type: ignore[attr-defined] # an attribute that models may have
    comparison = await compare("Q?", TEXTS, judges=[judge], store=False)
    assert comparison.winner == "a"
    assert comparison.verdict.startswith("The judge sides with: a.")
    assert all(ballot.log_odds is not None for ballot in comparison.ballots)


@pytest.mark.parametrize(
    ("texts", "options", "field"),
    [
        ({"a": "x"}, {}, "texts"),
        (["x", "y"], {}, "texts"),
        ({"a": "x", "b": " \n"}, {}, r"texts.b"),
        ({"a": "x", "b": 3}, {}, r"texts.b"),
        ({"a": "x", " ": "y"}, {}, "the name"),
        ({str(number): "x" for number in range(5)}, {}, "orders"),
        (TEXTS, {"orders": "every"}, "orders"),
        (TEXTS, {"judges": "local"}, "judges"),
        (TEXTS, {"judges": []}, "judges"),
        (TEXTS, {"judges": [3]}, "judges"),
        (TEXTS, {"judges": [SimJudge(), SimJudge()]}, "judges"),
        (TEXTS, {"criteria": {}}, "criteria"),
        (TEXTS, {"criteria": {"clear": 0}}, "criteria"),
        (TEXTS, {"criteria": ["clear"]}, "criteria"),
        (TEXTS, {"reference": ""}, "reference"),
    ],
)
async def test_invalid_input_is_rejected_before_any_call(texts: Any, options: dict[str, Any], field: str) -> None:
    judge = SimJudge()
    with pytest.raises(ConfigurationError, match=field):
        await compare("Q?", texts, **{"judges": [judge], "store": False, **options})
    if isinstance(texts, dict) and "reference" not in options:
        rows = [{"question": "Q?", **TEXTS}, {"question": "Q?", **texts}]
        with pytest.raises(ConfigurationError, match=field):
            await compare_all(rows, **{"judges": [judge], "store": False, **options})


async def test_interrupted_comparisons_compare_each_row_once(tmp_path: Path) -> None:
    rows, prompts, broken = rows_of(8, "left", "right"), [], True

    class Breaking(SimJudge):
        async def request(self, request: ModelRequest, /) -> Any:
            if broken and "Q5?" in str(request.messages[-1]):
                raise RuntimeError("no")
            prompts.append(1)
            return await super().request(request)

    judge, store = Breaking(), SqliteStore(str(tmp_path / "runs.sqlite3"))
    partial = await compare_all(rows, judges=[judge], store=store, max_concurrency=2)
    assert (partial.rows, list(partial.failed)) == (7, [5])
    assert "failed: 1 row" in partial.findings[0]
    assert [
        row["question"] if comparison else None for row, comparison in zip(rows, partial.comparisons, strict=True)
    ] == [None if number == 5 else f"Q{number}?" for number in range(8)]
    assert all(
        comparison.question == row["question"]
        for row, comparison in zip(rows, partial.comparisons, strict=True)
        if comparison
    )
    broken = False
    complete = await compare_all(rows, judges=[judge], store=store)
    assert (complete.rows, complete.failed, len(prompts)) == (8, {}, 16)
    assert await compare_all(rows, judges=[judge], store=store) == complete
    assert len(prompts) == 16


async def test_tables_report_the_accuracy_of_judges() -> None:
    """Accuracy is reported for each order, and for the rows in which the judge agrees with itself in both orders.

    The judges are never shown the correct answer, and a row may lack one.
    """
    printed_lines: list[str] = []

    def by_number(request: ModelRequest) -> dict[str, Any]:
        # prefer the first text on every fourth question and the longer one on all others
        text = str(request.messages[-1]["content"])
        printed_lines.append(text)
        labels = list(request.output_schema["$defs"]["Scores"]["properties"])  # type: ignore[index]
        lines = [next(line for line in text.splitlines() if line.startswith(f"[{label}]")) for label in labels]
        number, lengths = int(text.split("#")[1]), [line.count("x") for line in lines]
        first = lengths[0] > lengths[1] if number % 4 else text.index(f"[{labels[0]}]") < text.index(f"[{labels[1]}]")
        return {
            "reasoning": "-",
            "verdict": "-",
            "scores": dict(zip(labels, (75, 25) if first else (25, 75), strict=True)),
        }

    rows: list[dict[str, Any]] = [
        {"question": f"#{number}#", "1": "x" * (2 + number % 2), "2": "xx" + "x" * (1 - number % 2), "label": 1}
        for number in range(40)
    ]
    rows[39]["label"] = None
    judge = FunctionModel(by_number, name="judge")
    table = await compare_all(rows, judges=[judge], truth="label", store=False)
    assert not any("label" in text for text in printed_lines)
    truth = table.judges[0].truth
    assert truth is not None
    assert (truth.rows, truth.decided.value, truth.decided.n) == (39, 29 / 39, 39)
    # 29 rows have the same winner in both orders, and text 1 is the longer one in the 19 rows with odd numbers
    assert truth.right is not None
    assert (truth.right.value, truth.right.n) == (19 / 29, 29)
    assert {order: figure.value for order, figure in truth.orders.items()} == {"1 2": 29 / 39, "2 1": 19 / 39}
    assert truth.one_order.value == pytest.approx(24 / 39)
    assert (truth.right.low or 1) < 19 / 29 < (truth.right.high or 0)
    assert table.truth is not None
    assert (table.truth.decided.value, table.truth.right) == (29 / 39, truth.right)
    assert table.truth.credit.value == pytest.approx((19 + 5) / 39)
    findings = " ".join(table.findings)
    assert "judge was right in 61.5% of its ballots, and in 66% of 29 rows" in findings
    assert lay_out(table) is not None
    rows[3]["label"] = "3"
    with pytest.raises(ConfigurationError, match="row 3: `label` must be the name of a text in the row: 1 or 2"):
        await compare_all(rows, judges=[judge], truth="label", store=False)


@pytest.mark.parametrize(("rows", "better"), [(4, False), (5, False), (6, True)])
async def test_system_is_reported_as_better_if_an_exact_test_rejects_equality(rows: int, better: bool) -> None:  # noqa: FBT001 - of pytest
    texts = [{"question": f"Q{number}?", "ours": "a good answer", "theirs": "a bad one"} for number in range(rows)]
    table = await compare_all(texts, judges=[SimJudge(quality=quality_of, noise=0.0)], store=False)
    assert table.p == 2 / 2**rows
    assert table.findings[0].startswith("ours is better" if better else "ours is not clearly better")


async def test_judges_favoring_the_first_slot_are_found() -> None:
    """One of the two judges is biased and the other is fair, and 200 rows are enough to tell which is which."""
    judges = [SimJudge(slot=1.0, noise=0.3, name="biased"), SimJudge(noise=0.3, name="fair")]
    table = await compare_all(rows_of(200, "left", "right"), judges=judges, store=False, max_concurrency=50)
    biased, fair = table.judges
    assert (biased.favors, fair.favors) == ("first", None)
    assert biased.first_place is not None
    assert (biased.first_place.low or 0) > 0.5
    (sentence,) = [finding for finding in table.findings if "favors" in finding]
    assert sentence.startswith("biased favors the first place")
    assert "95% interval" in sentence


async def test_tables_match_reference_libraries() -> None:
    rows = rows_of(40, "a", "b", "c")
    for row in rows[:10]:
        del row["c"]
    judges = [SimJudge(noise=2.0, seed=seed, name=f"judge-{seed}") for seed in range(3)]
    table = await compare_all(rows, judges=judges, orders="cyclic", store=False, max_concurrency=50)
    names = ["a", "b", "c", None]
    choices = np.array(
        [
            [names.index(judgment.winner) for judgment in comparison.judges]
            for comparison in table.comparisons
            if comparison
        ]
    )
    counts = np.array([[(row == name).sum() for name in range(4)] for row in choices])
    assert table.kappa == pytest.approx(reference_kappa(counts[:, counts.sum(axis=0) > 0]), abs=1e-9)
    assert table.alpha == pytest.approx(krippendorff.alpha(choices.T, level_of_measurement="nominal"), abs=1e-9)
    for system in table.systems:
        ends = proportion_confint(system.rate.value * system.rows, system.rows, method="wilson")
        assert (system.rate.low, system.rate.high) == pytest.approx(ends, abs=1e-9)
    assert [entry.name for entry in table.systems if entry.rows == 40] != []
    assert table.ranking is not None
    assert len(table.ranking.systems) == 3


def measure_coverage(studies: int, judges: int, *, seed: int) -> float:
    """Return how often the interval for a share contains the mean of the simulated judges."""
    from flowdebate.evaluation.statistics import share_interval

    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(studies):
        one, other = rng.uniform(0.5, 8, size=2)
        low, high = share_interval(float(rng.beta(one, other, size=judges).mean()), judges)
        hits += low <= one / (one + other) <= high
    return hits / studies


def test_intervals_have_nominal_coverage() -> None:
    assert min(measure_coverage(1_000, judges, seed=6) for judges in (1, 2, 3, 5, 9)) >= 0.93


@pytest.mark.simulation
def test_intervals_have_nominal_coverage_in_many_studies() -> None:
    assert min(measure_coverage(20_000, judges, seed=9) for judges in (1, 2, 3, 5, 9)) >= 0.93


def test_empty_tables_are_reported_as_empty() -> None:
    table = tabulate([], failed={0: "no"})
    assert (table.rows, table.systems, table.findings) == (0, [], ["excluded because their judging failed: 1 row"])
