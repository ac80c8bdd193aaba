"""Studies that compare designs with baselines and with each other.

A study is registered in advance, and its answers are stored as numbers only.
"""

from __future__ import annotations

import json
import math
import tempfile
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Debater, debate
from flowdebate.errors import BadFile, ConfigurationError, ProviderFailed
from flowdebate.evaluation import (
    AnswersFile,
    Registration,
    Study,
    StudyAnswer,
    StudyProgress,
    ask_study,
    e_value,
    frame,
    study_report,
)
from flowdebate.evaluation.benefit import MethodAnswer
from flowdebate.evaluation.documents import lay_out_study
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, LetterFit, decide
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.testing import FunctionModel
from flowdebate.ui.sections import Table
from tests import warm
from tests.cases import slow_but_first
from tests.profiles import example_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.patterns.debate.judging.ballots import DecidedBy
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
ROWS = [
    {"question": f"Is {n} prime?", "choices": ["It is prime", "It is not"], "truth": int(n % 3 == 0), "topic": n % 10}
    for n in range(31, 51, 2)
]


def primes_design(
    *baselines: str, order: str = "simultaneous", judge: JudgeOptions | None = None
) -> Callable[[Any, Sequence[str]], Block[Any, Any]]:
    """Create a design with two sides and one round."""

    def make_design(_: object, positions: Sequence[str]) -> Block[Any, Any]:
        sides = [Debater(name, stance) for name, stance in zip("ab", positions, strict=True)]
        options: Any = {"turn_order": order, "baselines": list(baselines), "judge": judge}
        return debate(name="primes", debaters=sides, max_rounds=1, moderator=False, synthesizer=False, **options)

    return make_design


class Answering:
    """A model whose judge answers with the result of `finds`. If the result is an exception, the call raises it."""

    def __init__(self, finds: Callable[[ModelRequest, str], Any] = lambda request, question: "It is prime") -> None:
        self.asked: list[ModelRequest] = []
        self.finds = finds
        self.model = FunctionModel(self._answer)

    def _answer(self, request: ModelRequest) -> ModelResponse:
        self.asked.append(request)
        used = Usage(calls=1, prompt_tokens=90, cached_tokens=0, completion_tokens=10)
        if request.output is None:
            return ModelResponse(text=f"Nobody has found a divisor, says {request.block}.", usage=used)
        prompt = " ".join(str(message["content"]) for message in request.messages)
        winner = self.finds(request, prompt)
        if isinstance(winner, BaseException):
            raise winner
        reply = {"reasoning": "It follows.", "winner": winner, "verdict": "So it is."}
        return ModelResponse(data={key: reply[key] for key in request.output_schema["properties"]}, usage=used)  # type: ignore[index]


def study(rows: Sequence[Mapping[str, Any]] = ROWS, **options: Any) -> Study:
    """Create a study with one design and two baselines."""
    designs = {"together": primes_design("single", "self_consistency")}
    return Study(**{"name": "primes", "rows": rows, "designs": designs, "seed": 7, **options})


async def test_questions_are_asked_once_and_no_text_is_stored(tmp_path: Path) -> None:
    path, voters = tmp_path / "answers.jsonl", Answering()
    answers = await ask_study(study(), path, model=voters.model)
    assert [answer.item for answer in answers] == list(dict.fromkeys(answer.item for answer in answers))
    assert {*answers[0].answers} == {"together", "single", "self_consistency"}
    assert answers[0].answers["together"].answer == ["0"]
    assert answers[0].answers["together"].calls == 3
    text = path.read_text("utf-8")
    assert not any(word in text for word in ("prime", "divisor", "follows", "So it is"))
    before = len(voters.asked)
    assert await ask_study(study(), path, model=voters.model) == answers
    assert len(voters.asked) == before


@pytest.mark.parametrize("by", ["log_odds", "mean"])
async def test_ballots_are_stored_without_positions(tmp_path: Path, by: DecidedBy) -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        if request.choices:
            return ModelResponse(text="A", logprobs={"A": -0.5, "B": -1.0})
        if request.output is None:
            return ModelResponse(text="So. " * (40 if "debater-a" in request.block else 2))
        scores = {side: {"evidence": float(len(side)), "style": 2.0} for side in ROWS[0]["choices"]}  # type: ignore[attr-defined]
        reply = {"reasoning": "Hm.", "scores": scores, "verdict": "So.", "winner": "It is prime"}
        return ModelResponse(data={key: reply[key] for key in request.output_schema["properties"]})  # type: ignore[index]

    judge = JudgeOptions(criteria={"evidence": 2.0, "style": 1.0}, schedule="swap")
    if by == "log_odds":
        judge = JudgeOptions(answer_form="letter", fit=LetterFit(per_log_length=0.5, min_log_odds=0.1))
    experiment = study(ROWS[:2], designs={"together": primes_design("single", judge=judge)}, noise=True)
    path = tmp_path / "answers.jsonl"
    answers = await ask_study(experiment, path, model=FunctionModel(answer))
    assert "prime" not in path.read_text("utf-8")
    for record in answers:
        winner = decide(record.ballots, sides=record.order, by=by).winner
        assert record.answers[record.design].answer == ([] if winner is None else [winner])
        ballots = [ballot.lengths if by == "log_odds" else ballot.criteria for ballot in record.ballots]
        assert [{*(by_side or {})} for by_side in ballots] == [{"0", "1"}] * 2


async def test_all_designs_assign_positions_alike() -> None:
    """Designs must not differ in how they assign positions.

    The correct position speaks first in some questions and second in others.
    """
    experiment = study(designs={"together": primes_design("single"), "in_turn": primes_design(order="declared")})
    dealt = {(case.design, case.item): case.positions for case in experiment.cases}
    assert all(dealt["together", case.item] == dealt["in_turn", case.item] for case in experiment.cases)
    assert len(set(dealt.values())) == 2
    assert [case.design for case in experiment.cases] == ["together"] * len(ROWS) + ["in_turn"] * len(ROWS)


@pytest.mark.parametrize("kills", [1, 20])
async def test_killed_studies_have_the_same_results_as_uninterrupted_ones(tmp_path: Path, kills: int) -> None:
    """The file may end in the middle of a line or between two lines, and no recorded call may be repeated."""
    uninterrupted = await ask_study(study(), tmp_path / "whole.jsonl", model=Answering().model)
    lines = (tmp_path / "whole.jsonl").read_bytes()
    random, path, voters = Random(kills), tmp_path / "killed.jsonl", Answering()
    for _ in range(kills):
        await ask_study(study(), path, model=voters.model, maximum=1)
        content = path.read_bytes()
        path.write_bytes(content + lines[: random.randrange(1, 60)])  # append an unfinished line
    await ask_study(study(), path, model=voters.model)
    killed = list(AnswersFile(path).answers.values())
    assert [(answer.key, answer.answers, answer.ballots) for answer in killed] == [
        (answer.key, answer.answers, answer.ballots) for answer in uninterrupted
    ]
    assert study_report(study(), killed).comparisons == study_report(study(), uninterrupted).comparisons


@pytest.mark.parametrize("seed", slow_but_first([1, 2]))
def test_studies_killed_twenty_times_have_the_same_table(tmp_path: Path, seed: int) -> None:
    """SIGKILL interrupts debates, baselines and noise, yet the report equals that of an uninterrupted study."""
    reports = []
    for kills in (0, 20):
        folder = tmp_path / str(kills)
        folder.mkdir()
        command = (warm.run_module("tests.evaluation.killed_study"), str(folder), str(kills), str(seed))
        process = warm.run_warm(*command, timeout=100, cwd=ROOT)
        assert int(process.stderr.split()[-1]) == kills
        reports.append(json.loads(process.stdout))
    uninterrupted, killed = reports
    assert uninterrupted["asked"] == uninterrupted["planned"] == 36
    assert killed == uninterrupted


async def test_interrupted_debates_are_resumed(tmp_path: Path) -> None:
    """If there is a store, recorded answers are reused. A failed question is retried by the next call."""
    down = True
    voters = Answering(lambda *_: ProviderFailed("away", status=503) if down else "It is not")
    options: Any = {"model": voters.model, "store": tmp_path / "runs.db", "max_concurrency": 1}
    (failed,) = await ask_study(study(ROWS[:1]), tmp_path / "a.jsonl", **options)
    assert (failed.problem, failed.answers) == ("ProviderFailed", {})
    spoken, down = len([request for request in voters.asked if request.output is None]), False
    (answer,) = await ask_study(study(ROWS[:1]), tmp_path / "a.jsonl", **options)
    assert (answer.problem, answer.answers["together"].answer) == (None, ["1"])
    assert len([request for request in voters.asked if request.output is None]) == spoken == 2


async def test_two_processes_cannot_write_to_one_file(tmp_path: Path) -> None:
    with AnswersFile(tmp_path / "a.jsonl"), pytest.raises(BadFile, match="another process"):
        await ask_study(study(), tmp_path / "a.jsonl", model=Answering().model)


async def test_noise_is_judged_on_the_arguments_for_another_question(tmp_path: Path) -> None:
    """Every question keeps its positions but is judged on the arguments from a different question."""
    noisy = study(noise=True, designs={"together": primes_design("single")}, primary=("together", "noise"))
    voters = Answering()
    answers = await ask_study(noisy, tmp_path / "a.jsonl", model=voters.model, store=tmp_path / "runs.db")
    noise = [answer for answer in answers if answer.design == "noise"]
    assert len(noise) == len(ROWS)
    assert all(answer.partner not in (None, answer.item) for answer in noise)
    assert {answer.answers["noise"].answer[0] for answer in noise} == {"0"}
    report = study_report(noisy, answers)
    assert [(comparison.one, comparison.other) for comparison in report.comparisons] == [
        ("together", "noise"),
        ("together", "single"),
    ]


def rows_with_notes(rows: Sequence[Mapping[str, Any]] = ROWS) -> list[dict[str, Any]]:
    """Return rows, each with a decisive note."""
    return [{**row, "note": f"The right answer is number {row['truth']}."} for row in rows]


def judge_by_notes(request: ModelRequest, _: str) -> str:
    """Judge by the note, or always in favor of the same position if there is none."""
    text = str(request.messages)
    return "It is not" if "The right answer is number 1." in text else "It is prime"


@pytest.mark.parametrize("judge", [None, JudgeOptions()], ids=["as judged", "judge given"])
async def test_judges_that_use_the_notes_pass_the_control(tmp_path: Path, judge: JudgeOptions | None) -> None:
    experiment = study(rows_with_notes(), control="note", control_gain=0.1, judge=judge)
    assert experiment.methods[-2:] == ("control", "alone")
    answers = await ask_study(experiment, tmp_path / "a.jsonl", model=Answering(judge_by_notes).model)
    report = study_report(experiment, answers)
    right = sum(row["truth"] == 0 for row in ROWS) / len(ROWS)
    assert report.control is not None
    assert (report.control.control, report.control.alone, report.control.passed) == (1.0, right, True)
    assert (report.unfinished, len(answers)) == (0, 3 * len(ROWS))
    assert report.summary.startswith("The control is passed: the judge is right in 100.0% with the deciding text")
    assert {"control", "alone"} <= {method.method for method in report.methods}
    fixed = experiment.registration().fixed["control"]
    assert fixed["gain"] == 0.1
    uninformed = study([{**row, "note": "Nobody knows."} for row in ROWS], control="note", judge=judge)
    assert uninformed.registration().fixed["control"] != fixed


@pytest.mark.parametrize("judge", [None, JudgeOptions()], ids=["as judged", "judge given"])
async def test_judges_that_cannot_use_the_notes_stop_the_study(tmp_path: Path, judge: JudgeOptions | None) -> None:
    experiment, voters = study(rows_with_notes(), control="note", judge=judge, noise=True), Answering()
    answers = await ask_study(experiment, tmp_path / "a.jsonl", model=voters.model)
    debates = [answer for answer in answers if answer.design == "together"]
    assert len(debates) == (1 if judge is None else 0)
    assert len(answers) == 2 * len(ROWS) + len(debates)
    report = study_report(experiment, answers)
    assert report.control is not None
    assert (report.control.passed, report.control.control) == (False, report.control.alone)
    assert report.summary.startswith("Stopped by the control: the judge is right in ")
    assert "but a gain of 10 points was required" in report.summary
    before = len(voters.asked)
    assert await ask_study(experiment, tmp_path / "a.jsonl", model=voters.model) == answers
    assert len(voters.asked) == before


async def test_interrupted_controls_finish_before_any_debate(tmp_path: Path) -> None:
    experiment, voters = study(rows_with_notes(), control="note", judge=JudgeOptions()), Answering(judge_by_notes)
    path = tmp_path / "a.jsonl"
    answers = await ask_study(
        experiment, path, model=voters.model, until=lambda progress: progress.done >= 6, max_concurrency=1
    )
    assert {answer.design for answer in answers} == {"control", "alone"}
    control = study_report(experiment, answers).control
    assert control is not None
    assert control.passed is None
    assert "The control is not finished" in study_report(experiment, answers).summary
    answers = await ask_study(experiment, path, model=voters.model, maximum=2)
    assert sum(answer.design == "together" for answer in answers) == 2


@settings(max_examples=example_count(20))
@given(slices=st.lists(st.integers(1, 5), max_size=5), at_once=st.integers(1, 4))
async def test_noise_partners_do_not_depend_on_the_timing_of_calls(slices: list[int], at_once: int) -> None:
    noisy = study(noise=True, designs={"together": primes_design()}, primary=("together", "noise"))
    items = [case.item for case in noisy.cases]
    with tempfile.TemporaryDirectory() as folder:
        for maximum in (*slices, None):
            options: Any = {"model": Answering().model, "max_concurrency": at_once, "maximum": maximum}
            answers = await ask_study(noisy, Path(folder) / "a.jsonl", **options)
            debated = {answer.item for answer in answers if answer.design == "together"}
            partners = {answer.item: answer.partner for answer in answers if answer.design == "noise"}
            last = partners.pop(items[-1], None)
            assert last == items[0] or slices
            assert partners == {one: after for one, after in pairwise(items) if {one, after} <= debated}


async def test_noise_is_not_requested_after_the_deadline(tmp_path: Path) -> None:
    noisy, voters = study(noise=True, designs={"together": primes_design()}, primary=("together", "noise")), Answering()
    options: Any = {"model": voters.model, "store": tmp_path / "runs.db"}
    answers = await ask_study(noisy, tmp_path / "a.jsonl", **options)
    with AnswersFile(tmp_path / "b.jsonl") as file:
        for answer in answers:
            if answer.design == "together":
                file.add(answer)
    before = len(voters.asked)
    late = await ask_study(noisy, tmp_path / "b.jsonl", seconds=0, **options)
    assert (len(late), len(voters.asked)) == (len(ROWS), before)
    complete = await ask_study(noisy, tmp_path / "b.jsonl", **options)
    assert {record.item: record.partner for record in complete} == {record.item: record.partner for record in answers}


async def test_noise_partners_have_the_same_number_of_positions(tmp_path: Path) -> None:
    """If no other question has the same number of positions, a question is left out of the noise design.

    The study does not wait for it, and no other question uses its arguments.
    """
    three = {"question": "What is 2?", "choices": ["It is prime", "It is not", "It is no number"], "truth": 0}
    rows = [*ROWS[:2], three, *ROWS[2:4]]

    def make_design(_: object, positions: Sequence[str]) -> Block[Any, Any]:
        sides = [Debater(name, stance) for name, stance in zip("abc", positions, strict=False)]
        return debate(name="primes", debaters=sides, max_rounds=1, moderator=False, synthesizer=False)

    experiment, so_far = (
        study(rows, noise=True, designs={"together": make_design}, primary=("together", "noise")),
        list[StudyProgress](),
    )
    answers = await ask_study(experiment, tmp_path / "a.jsonl", model=Answering().model, progress=so_far.append)
    noise = {answer.item: answer.partner for answer in answers if answer.design == "noise"}
    items = [case.item for case in experiment.cases]
    alike = [*items[:2], *items[3:]]
    assert noise == dict(zip(alike, (*alike[1:], alike[0]), strict=True))
    assert (so_far[-1].done, so_far[-1].total) == (9, 9)
    assert study_report(experiment, answers).unfinished == 0


async def test_failed_debates_count_as_wrong_and_do_not_benefit_any_baseline(tmp_path: Path) -> None:
    """A study can also exclude failed debates. In both cases, the report states how many there are."""

    def finds(request: ModelRequest, prompt: str) -> Any:
        undecided = "judge" in str(request.block) and "Is 31 prime?" in prompt
        return ProviderFailed("away", status=503) if undecided else "It is prime"

    answers = await ask_study(study(), tmp_path / "a.jsonl", model=Answering(finds).model)
    for missing, n in (("wrong", 10), ("left out", 9)):
        report = study_report(study(missing=missing), answers)
        primary = report.primary
        assert primary is not None
        assert (primary.n, report.failed) == (n, 1)
        assert "1 debate ended without a verdict, which " in report.summary
        assert "Undecided" not in report.summary


def made_up(wins: Sequence[tuple[bool, bool]], *, clusters: int | None = None) -> tuple[Study, list[StudyAnswer]]:
    """Create a study from pairs of results: whether the debate was right, and whether the vote was."""
    rows = [{"question": str(n), "choices": ["yes", "no"], "truth": "yes"} for n in range(len(wins))]
    experiment = study(rows, cluster=(lambda row: int(row["question"]) % clusters) if clusters else None)
    answers = [
        StudyAnswer(
            design="together",
            item=case.item,
            repeat=0,
            truth="0",
            cluster=case.cluster,
            order=["0", "1"],
            answers={
                "together": MethodAnswer(answer=[str(1 - one)], calls=3, tokens=300),
                "self_consistency": MethodAnswer(answer=[str(1 - other)], calls=3, tokens=150),
            },
            seed=1,
            at=0.0,
            seconds=1.0,
        )
        for case, (one, other) in zip(experiment.cases, wins, strict=True)
    ]
    return experiment, answers


def test_primary_comparison_is_tested_separately() -> None:
    for wins, finding in (
        ([(True, False)] * 12 + [(True, True)] * 8, "helped"),
        ([(False, True)] * 12 + [(True, True)] * 8, "harmed"),
        ([(True, True)] * 400, "none_worth_it"),
        ([(True, False), (False, True)] * 5, "too_few"),
    ):
        experiment, answers = made_up(wins)
        primary = study_report(experiment, answers).primary
        assert primary is not None
        assert (primary.finding, primary.tokens_ratio) == (finding, 2.0)
        assert primary.e_value == pytest.approx(e_value(primary.better, primary.worse))


def test_report_states_the_number_of_undecided_answers() -> None:
    """Undecided answers are counted for each method in the primary comparison.

    They score as if the method had chosen at random.
    """
    experiment, answers = made_up([(True, False)] * 6 + [(True, True)] * 8)
    assert "Undecided" not in study_report(experiment, answers).summary
    for answer in answers[:5]:
        answer.answers["together"] = MethodAnswer(answer=[], calls=3, tokens=300)
    assert study_report(experiment, answers).summary.endswith(" Undecided, counted as a lot: 5 of 14 by together.")
    answers[9].answers["self_consistency"] = MethodAnswer(answer=["0", "1"], calls=3, tokens=150)
    assert (
        " Undecided, counted as a lot: 5 of 14 by together and 1 of 14 by self_consistency."
        in study_report(experiment, answers).summary
    )


def test_unfinished_studies_draw_conclusions_only_from_the_e_value() -> None:
    """A small p-value is not enough until all answers are available, and the summary says what is missing."""
    experiment, answers = made_up([(True, False)] * 6 + [(True, True)] * 8)
    early, complete = study_report(experiment, answers[:8]), study_report(experiment, answers)
    assert early.primary is not None
    assert complete.primary is not None
    assert early.primary.p < 0.05 < complete.confidence
    assert (early.unfinished, early.primary.finding) == (6, "too_few")
    assert early.summary.startswith("8 of 14 answered; nothing is concluded yet. So far, together against")
    assert "% 8 of 14 answers: nothing is concluded yet" in early.to_latex()
    assert (complete.unfinished, complete.primary.finding) == (0, "helped")
    experiment, answers = made_up([(True, False)] * 12 + [(True, True)] * 8)
    early = study_report(experiment, answers[:12])
    assert early.primary is not None
    assert (early.primary.finding, early.primary.e_value > 20) == ("helped", True)
    assert early.summary.startswith("12 of 20 answered; the rest is still missing. together is right more often")
    assert "% 12 of 20 answers: the rest is still missing" in early.to_latex()


def test_finished_stages_of_a_study_are_reported_separately() -> None:
    """A comparison is reported once both of its methods have answered all questions, even if other designs have not.

    The p-values of all but the primary comparison are adjusted for all planned tests, including those that have no
    answers yet.
    """
    _, answers = made_up([(True, False)] * 6 + [(True, True)] * 8)
    designs = {"together": primes_design("self_consistency", "single"), "in_turn": primes_design()}
    rows = [{"question": str(n), "choices": ["yes", "no"], "truth": "yes"} for n in range(len(answers))]
    experiment = study(rows, designs=designs)
    for answer in answers:
        answer.answers["single"] = answer.answers["self_consistency"]
    early, stage = study_report(experiment, answers[:-1]), study_report(experiment, answers)
    assert early.primary is not None
    assert stage.primary is not None
    assert (early.primary.early, early.primary.finding) == (True, "too_few")
    assert (stage.primary.early, stage.primary.finding, stage.unfinished) == (False, "helped", 14)
    assert stage.summary.startswith("14 of 28 answered; the rest is still missing. together is right more often than")
    assert "e-value" not in stage.summary
    assert [comparison.p_adjusted / comparison.p for comparison in stage.comparisons] == pytest.approx(
        [1, len(experiment.compare or ())]
    )


def test_report_shows_who_abandoned_the_truth() -> None:
    """The report compares the single call with the debate, and the first ballot with the last.

    Undecided answers do not count as correct.
    """
    experiment, answers = made_up([(n % 4 > 0, True) for n in range(8)])
    ballot = {"order": ["0", "1"], "scores": {"0": 0.8, "1": 0.2}, "winner": "0"}
    changed = [
        answer.model_validate({
            **answer.model_dump(),
            "answers": {**answer.answers, "single": MethodAnswer(answer=["0"] if number > 1 else ["0", "1"])},
            "ballots": [ballot, {**ballot, "winner": answer.answers["together"].answer[0]}],
        })
        for number, answer in enumerate(answers)
    ]  # fmt: skip
    assert study_report(experiment, answers).dynamics == {}
    dynamics = study_report(experiment, changed).dynamics
    assert list(dynamics) == ["one call, then together", "ballots of together"]
    call, ballots = dynamics.values()
    assert call.right_to_wrong is not None
    assert call.wrong_to_right is not None
    assert (round(call.right_to_wrong.value, 3), call.right_to_wrong.n) == (0.167, 6)
    assert (call.wrong_to_right.value, call.wrong_to_right.n) == (0.5, 2)
    assert call.oracle_gap == pytest.approx(1 / 8)
    assert ballots.last_right is not None
    assert (ballots.first_right and ballots.first_right.value, ballots.last_right.value) == (1, 0.75)


def test_report_shows_how_often_a_judge_favors_the_first_text() -> None:
    """Each debate counts as one observation, however many ballots it has.

    Undecided ballots and debates with three sides are ignored.
    """
    experiment, answers = made_up([(True, True)] * 5)
    casts = ["01", "00", "1", "", "0"]  # the winners of each debate's ballots, whose orders alternate
    judged = [
        answer.model_copy(
            update={
                "ballots": [
                    JudgeBallot(order=["0", "1"] if at % 2 == 0 else ["1", "0"], winner=winner)
                    for at, winner in enumerate(cast)
                ],
                "order": ["0", "1", "2"] if number > 3 else ["0", "1"],
            }
        )
        for number, (answer, cast) in enumerate(zip(answers, casts, strict=True))
    ]
    assert study_report(experiment, answers).first_read == {}
    first_read = study_report(experiment, judged).first_read
    assert [*first_read] == ["together"]
    assert first_read["together"].n == 3
    assert first_read["together"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    table = next(
        section
        for section in lay_out_study(study_report(experiment, judged)).sections
        if isinstance(section, Table) and section.head[0] == "Judge of"
    )
    assert table.rows == (("together", "50.0%", "12.5% to 87.5%", "3"),)


def test_frontier_omits_methods_if_an_equally_accurate_one_is_cheaper() -> None:
    """A vote that reaches the same accuracy with half the tokens keeps the debate off the frontier."""
    for wins, frontier in (
        ([(True, True)] * 3, ["self_consistency"]),
        ([(True, False), (True, True)], ["self_consistency", "together"]),
    ):
        assert [method.method for method in study_report(*made_up(wins)).frontier] == frontier


def test_a_few_unknown_amounts_do_not_hide_the_mean() -> None:
    """One unknown amount out of twenty is ignored, but if half of them are unknown, there is no mean."""
    experiment, answers = made_up([(True, True)] * 20)
    unknown = MethodAnswer(answer=["0"], calls=3, tokens=None)
    for missing, expected in ((1, 300), (10, None)):
        partial = [
            answer.model_copy(update={"answers": {**answer.answers, "together": unknown}})
            for answer in answers[:missing]
        ]
        report = study_report(experiment, [*partial, *answers[missing:]])
        assert report.methods[0].tokens == expected
        assert (report.primary is None or report.primary.tokens_ratio) == (expected and 2.0)


async def test_report_page_is_static_and_complete(tmp_path: Path) -> None:
    name = "<b>primes</b>\u202e"
    experiment = study(name=name)
    answers = await ask_study(experiment, tmp_path / "a.jsonl", model=Answering().model)
    page = study_report(experiment, answers[:4]).to_html()
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "&lt;b&gt;primes&lt;/b&gt;\\u202e" in page
    assert "4 of 10 answered; nothing is concluded yet" in page
    assert "Nothing was registered before the first answer" in page
    assert 'aria-label="Accuracy of each method by its tokens"' in page
    assert 'aria-label="How often the judge is right by how sure it is"' in page
    registered = study(name=name, seed=8).registration()
    page = study_report(experiment, answers, registration=registered).to_html()
    assert "seed: registered 8, now 7" in page


def test_costs_do_not_depend_on_the_order_of_answers() -> None:
    """A resumed study stores its answers in a different order, but the costs must agree to the last digit."""
    experiment, answers = made_up([(True, False), (True, True)] * 30)
    for number, answer in enumerate(answers):
        for name, method_answer in answer.answers.items():
            answer.answers[name] = method_answer.model_copy(update={"cost": 0.1 * number + len(name)})
    assert study_report(experiment, answers) == study_report(experiment, answers[::-1])


async def test_permanently_failed_debates_do_not_keep_a_study_unfinished(tmp_path: Path) -> None:
    """A failed debate leaves no arguments to use as noise for another question.

    The study must still be able to finish and draw its conclusions.
    """
    voters = Answering(lambda request, prompt: ProviderFailed("no") if "Is 31 prime?" in prompt else "It is prime")
    experiment, so_far = study(noise=True), list[StudyProgress]()
    answers = await ask_study(experiment, tmp_path / "a.jsonl", model=voters.model, progress=so_far.append)
    report = study_report(experiment, answers)
    assert (report.failed, report.asked, report.planned) == (1, 2 * len(ROWS) - 1, 2 * len(ROWS) - 1)
    assert "nothing is concluded yet" not in report.summary
    assert so_far[-1].done == so_far[-1].total


@given(wins=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60), clusters=st.integers(2, 9))
def test_report_does_not_depend_on_the_order_of_answers(wins: list[tuple[bool, bool]], clusters: int) -> None:
    experiment, answers = made_up(wins, clusters=clusters)
    forward, backward = study_report(experiment, answers), study_report(experiment, answers[::-1])
    for first, second in zip(forward.comparisons, backward.comparisons, strict=True):
        assert first.difference == pytest.approx(second.difference)
        assert (first.p, first.e_value) == pytest.approx((second.p, second.e_value))
        assert first.difference == pytest.approx(first.one_accuracy - first.other_accuracy)
        assert first.low - 1e-9 <= first.difference <= first.high + 1e-9


@settings(max_examples=example_count(200))
@given(wins=st.integers(0, 60), losses=st.integers(0, 60))
def test_e_value_is_a_fair_bet(wins: int, losses: int) -> None:
    """If two methods are equally good, the expected e-value stays the same from question to question (a martingale)."""
    after = (e_value(wins + 1, losses) + e_value(wins, losses + 1)) / 2
    assert math.isclose(after, e_value(wins, losses), rel_tol=1e-9)


async def test_registration_is_written_once_and_shows_differences(tmp_path: Path) -> None:
    """Changed rows, designs, seeds and comparisons are reported, as are answers older than the registration."""
    path, answers = (
        tmp_path / "registration.json",
        await ask_study(study(), tmp_path / "a.jsonl", model=Answering().model),
    )
    registration = study(prediction="no gain").register(path, model="local")
    assert Registration.read(path) == registration
    with pytest.raises(FileExistsError):
        study().register(path)
    report = study_report(study(prediction="no gain"), answers, registration=registration, model="local")
    assert report.differences == [f"{len(ROWS)} of {len(ROWS)} answers are older than the registration"]
    report = study_report(study(ROWS[1:], seed=8), answers[1:], registration=registration, model="local")
    differences = " ".join(report.differences)
    assert [word for word in ("rows", "questions", "seed", "prediction") if f"{word}: registered" in differences] == [
        "rows", "questions", "seed", "prediction",
    ]  # fmt: skip
    changed = json.loads(path.read_text("utf-8"))
    changed["fixed"]["seed"] = 9
    path.write_text(json.dumps(changed), "utf-8")
    with pytest.raises(BadFile, match="was modified"):
        Registration.read(path)


async def test_data_frames_have_a_row_per_answer_and_method(tmp_path: Path) -> None:
    answers = await ask_study(study(), tmp_path / "a.jsonl", model=Answering().model)
    rows = frame(study(), answers)
    assert len(rows) == 3 * len(ROWS)
    report = study_report(study(), answers)
    single = [row["right"] for row in rows if row["method"] == "single"]
    assert next(method.accuracy for method in report.methods if method.method == "single") == sum(single) / len(single)
    assert r"self\_consistency" in report.to_latex()


async def test_data_frames_convert_to_pandas_unchanged(tmp_path: Path) -> None:
    """Numbers stay numbers, so a method's accuracy is the mean of a column."""
    pandas: Any = pytest.importorskip("pandas")
    answers = await ask_study(study(), tmp_path / "a.jsonl", model=Answering().model)
    table = pandas.DataFrame(frame(study(), answers))
    means = table.groupby("method")["right"].mean()
    for method in study_report(study(), answers).methods:
        assert means[method.method] == pytest.approx(method.accuracy)
    assert table["tokens"].dtype.kind in "if"


class Columns:
    """A table that iterates over its columns, like a data frame."""

    columns = ("question",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rows": []}, "rows"),
        ({"rows": [{**ROWS[0], "truth": 2}]}, "truth of row 0"),
        ({"rows": [{**ROWS[0], "choices": ["It is prime"]}]}, "choices of row 0"),
        ({"rows": [{"question": "Why?"}]}, "choices of row 0"),
        ({"rows": [ROWS[0], ROWS[0]]}, "question of row 1"),
        ({"rows": [{**ROWS[0], "question": math.nan}]}, "question of row 0"),
        ({"rows": ROWS[:2], "id": lambda row: "x"}, "id of row 1"),
        ({"id": lambda row: math.nan}, "id of row 0"),
        ({"cluster": lambda row: None}, "cluster of row 0"),
        ({"rows": Columns()}, "rows"),
        ({"designs": [primes_design()]}, "designs"),
        ({"primary": "together"}, "primary"),
        ({"primary": ("together", "single", "noise")}, "primary"),
        ({"compare": ("together", "single")}, "compare"),
        ({"repeats": 10**9}, "repeats"),
        ({"designs": {}}, "designs"),
        ({"designs": {"noise": primes_design()}}, "designs"),
        ({"designs": {"control": primes_design()}}, "designs"),
        ({"control": "note"}, "control of row 0"),
        ({"control": "topic", "control_gain": 2}, "control_gain"),
        ({"designs": {"together": primes_design()}}, "primary"),
        ({"primary": ("together", "revision")}, "primary"),
        ({"compare": [("single", "single")]}, "compare"),
        ({"repeats": 0}, "repeats"),
        ({"min_gain": 2}, "min_gain"),
    ],
    ids=lambda fields: ", ".join(fields) if isinstance(fields, dict) else fields,
)
def test_invalid_studies_are_rejected_before_any_call(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        study(**options)
    assert caught.value.field == field


async def test_invalid_rows_are_rejected_before_any_call(tmp_path: Path) -> None:
    voters, odd = Answering(), {**ROWS[0], "choices": ["It is prime", "it is PRIME"]}
    with pytest.raises(ConfigurationError, match="stance of row 10` must either equal"):
        await ask_study(study([*ROWS, odd]), tmp_path / "a.jsonl", model=voters.model, maximum=1)
    assert not voters.asked


async def test_budget_includes_failed_calls(tmp_path: Path) -> None:
    """Calls cost money even if the debate that made them produces no answer."""
    so_far: list[StudyProgress] = []
    voters = Answering(lambda *_: ProviderFailed("down"))
    await ask_study(
        study(), tmp_path / "a.jsonl", model=voters.model, max_concurrency=1, progress=so_far.append,
        until=lambda progress: progress.usage.calls >= 5,
    )  # fmt: skip
    assert len(voters.asked) == so_far[-1].usage.calls < 3 * len(ROWS)
    assert so_far[-1].failed == so_far[-1].done < len(ROWS)


async def test_remaining_time_is_estimated_per_design(tmp_path: Path) -> None:
    """A debate with baselines takes longer than a noise question, so each design has its own estimate.

    The order in which the designs run does not matter, and the estimate reaches 0 at the end.
    """
    designs, so_far = (
        {"together": primes_design("single"), "in_turn": primes_design(order="declared")},
        list[StudyProgress](),
    )
    experiment = study(designs=designs, noise=True)
    answers = await ask_study(experiment, tmp_path / "a.jsonl", model=Answering().model, progress=so_far.append)
    assert so_far[-1].remaining == 0
    slow = {"together": 60.0, "in_turn": 30.0, "noise": 5.0}
    with AnswersFile(tmp_path / "b.jsonl") as file:
        for answer in answers:
            if answer.item != experiment.cases[-1].item and (
                answer.design != "noise" or answer.item == experiment.cases[0].item
            ):
                file.add(answer.model_copy(update={"seconds": slow[answer.design]}))
    so_far.clear()
    await ask_study(
        experiment, tmp_path / "b.jsonl", model=Answering().model, max_concurrency=2, maximum=1, progress=so_far.append
    )
    # one more debate has been answered (in no time), so one `in_turn` debate and nine noise questions remain
    assert so_far[0].remaining == pytest.approx((30 + 9 * 5) / 2)


async def test_answers_are_rejected_if_the_correct_answer_has_changed(tmp_path: Path) -> None:
    """An error is raised if a row's correct answer is changed after the row has been answered.

    Clusters are always computed from the current rows.
    """
    path, rows = tmp_path / "a.jsonl", ROWS[:2]
    answers = await ask_study(study(rows), path, model=Answering().model)
    with pytest.raises(ConfigurationError, match="was position 0 when it was answered"):
        study_report(study([{**rows[0], "truth": 1}, rows[1]]), answers)
    with pytest.raises(ConfigurationError, match="was position 0 when it was answered"):
        await ask_study(study([{**rows[0], "truth": 1}, rows[1]]), path, model=Answering().model)
    report = study_report(study(rows, cluster=lambda row: "one"), answers)
    assert [comparison.clusters for comparison in report.comparisons] == [1, 1]


async def test_rows_can_come_from_a_data_frame(tmp_path: Path) -> None:
    numpy: Any = pytest.importorskip("numpy")
    rows = [{**row, "truth": numpy.int64(row["truth"]), "choices": numpy.array(row["choices"])} for row in ROWS]
    assert study(iter(rows)).cases == study().cases  # type: ignore[arg-type] # a generator


def test_invalid_lines_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"design": "together"}\n', "utf-8")
    with pytest.raises(BadFile, match="line 1: `item`"):
        AnswersFile(path)
    path.write_text("x\n", "utf-8")
    with pytest.raises(BadFile, match="line 1: is not JSON"):
        AnswersFile(path)
    with pytest.raises(BadFile, match=f"{path.name}: is not JSON"):
        Registration.read(path)
