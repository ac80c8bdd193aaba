"""Dynamics: planted rates are recovered, and each pattern's outputs show how answers changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import AnswerCourse, courses_of, dynamics
from flowdebate.evaluation.documents import lay_out
from flowdebate.patterns.deliberation.schemas import DeliberationOutput
from flowdebate.patterns.review.schemas import ReviewRawOutput
from flowdebate.testing import FunctionModel
from flowdebate.ui.document import document_of
from tests.patterns.consensus.debates import TASK, plan
from tests.patterns.consensus.debates import model as agents
from tests.patterns.consensus.test_consensus_positions import stating
from tests.profiles import example_count
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to

if TYPE_CHECKING:
    from flowdebate.chassis.output import PatternOutput

TRUTH, LIE = "yes", "no"


def planted_courses(runs: int, *, lost: float, won: float, adopts: float, seed: int) -> list[AnswerCourse]:
    """Simulate three voices, initially right six times out of ten, and one that adopts the truth at rate `adopts`."""
    random = Random(seed)
    courses = []
    for _ in range(runs):
        voices: dict[str, list[str | None]] = {}
        for name in "abc":
            first = TRUTH if random.random() < 0.6 else LIE
            moved = random.random() < (lost if first == TRUTH else won)
            voices[name] = [first, {TRUTH: LIE, LIE: TRUTH}[first] if moved else first]
        # only the fourth voice starts with this answer
        voices["d"] = ["perhaps", TRUTH if random.random() < adopts else "perhaps"]
        votes = Counter(answers[-1] for answers in voices.values())
        courses.append(AnswerCourse(voices=voices, outcome=votes.most_common(1)[0][0], truth=TRUTH))
    return courses


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_planted_rates_are_recovered(seed: int) -> None:
    courses = planted_courses(800, lost=0.25, won=0.10, adopts=0.4, seed=seed)
    alone = dynamics(
        [
            course.model_copy(update={"voices": {n: a for n, a in course.voices.items() if n != "d"}})
            for course in courses
        ]
    )
    assert alone.right_to_wrong is not None
    assert alone.wrong_to_right is not None
    assert alone.right_to_wrong.value == pytest.approx(0.25, abs=0.03)
    assert alone.wrong_to_right.value == pytest.approx(0.10, abs=0.03)
    fourth = dynamics(
        [
            course.model_copy(update={"voices": {n: a[:2] if n == "d" else a[:1] for n, a in course.voices.items()}})
            for course in courses
        ]
    )
    assert fourth.adopted is not None
    reachable = sum(any(course.voices[name][0] == TRUTH for name in "abc") for course in courses) / len(courses)
    assert fourth.adopted.value == pytest.approx(0.4 * reachable, abs=0.03)


@pytest.mark.simulation
def test_planted_rates_are_recovered_in_two_hundred_studies() -> None:
    """Over all seeds, the mean error is 0, and 93% of the 95% intervals contain the planted rate."""
    covered, errors = 0, []
    for seed in range(200):
        figure = dynamics(planted_courses(300, lost=0.25, won=0.10, adopts=0.4, seed=seed)).right_to_wrong
        assert figure is not None
        assert figure.low is not None
        assert figure.high is not None
        errors.append(figure.value - 0.25)
        covered += figure.low <= 0.25 <= figure.high
    assert abs(sum(errors) / len(errors)) < 0.005
    assert covered >= 0.93 * 200


ANSWERS = st.lists(st.sampled_from([TRUTH, LIE, None]), min_size=1, max_size=3)
COURSES = st.builds(
    AnswerCourse,
    voices=st.dictionaries(st.sampled_from("abc"), ANSWERS, min_size=1),
    outcome=st.sampled_from([TRUTH, LIE, None]),
    truth=st.just(TRUTH),
)


@settings(max_examples=example_count(100))
@given(courses=st.lists(COURSES, min_size=1, max_size=12))
def test_oracle_choice_is_never_worse_than_the_outcome(courses: list[AnswerCourse]) -> None:
    report = dynamics(courses)
    assert report.oracle_gap is not None
    assert report.oracle_gap >= 0
    for figure in (report.changed, report.adopted, report.first_right, report.right_to_wrong, report.oracle):
        if figure is not None:
            assert figure.low is not None
            assert figure.high is not None
            assert figure.low - 1e-9 <= figure.value <= figure.high + 1e-9
    moved = {
        name: 0 if figure is None else round(figure.value * figure.n)
        for name, figure in (("lost", report.right_to_wrong), ("won", report.wrong_to_right))
    }
    assert report.first_right is not None
    assert report.last_right is not None
    gained = (report.last_right.value - report.first_right.value) * report.first_right.n
    assert round(gained) == moved["won"] - moved["lost"]


def test_only_changes_are_reported_if_the_truth_is_unknown() -> None:
    report = dynamics([AnswerCourse(voices={"a": ["rent caps", "Rent caps."], "b": ["no", "rent caps, in cities"]})])
    assert report.changed is not None
    assert report.changed.value == 0.5
    assert (report.first_right, report.oracle_gap) == (None, None)
    assert lay_out(report) is not None
    with pytest.raises(ConfigurationError, match="courses"):
        dynamics([])


def test_consensus_agents_have_positions() -> None:
    raw = plan(max_rounds=1).run_sync(TASK, model=agents(stating)).output
    report = dynamics(courses_of(raw, truth="build homes"))
    assert (report.courses, report.adopted) == (1, None)
    assert report.right_to_wrong is not None
    assert report.outcome_right is not None
    assert (round(report.right_to_wrong.value, 3), report.right_to_wrong.n) == (0.333, 3)
    assert report.outcome_right.value == 1
    assert note_on("consensus", raw) == ["Changed positions: 1 of 3, compared by their words"]


def test_reviewers_and_moderators_have_positions() -> None:
    statement = {"agentName": "ann", "title": "t", "claim": "c", "severity": "minor", "place": {}}
    refutes = {"finding": "F1", "agentName": "bob", "verdict": "refute", "reason": "no"}
    neither = {**refutes, "agentName": "cy", "verdict": "neither"}
    gives_in = {"finding": "F1", "agentName": "ann", "stands": False, "reason": "true"}
    finding = {
        "id": "F1",
        **{key: statement[key] for key in ("title", "claim", "severity", "place")},
        "raised": [statement],
    }
    finding |= {"verdicts": [refutes, neither], "defences": [gives_in], "state": "refuted"}
    raw = ReviewRawOutput.model_validate({"question": "?", "findings": [finding]})
    (course,) = courses_of(raw, truth="refute")
    assert course.voices == {"ann": ["confirm", "refute"], "bob": ["refute"], "cy": [None]}
    report = dynamics([course])
    assert report.adopted is not None
    assert (report.adopted.value, report.outcome_right and report.outcome_right.value) == (1, 1)
    assert note_on("review", raw) == [
        "Changed verdicts: 1 of 1, compared by their words, of which 1 to another's first answer"
    ]
    reports = [{"summary": "-", "status": "CONTINUE", "decision": decision} for decision in ("a", "b")]
    content = {"topic": "?", "rounds": 2, "history": [], "summaries": [], "finalDecision": "b", "isSettled": True}
    output = DeliberationOutput.model_validate({**content, "reports": [reports[0], None, reports[1]]})
    assert courses_of(output)[0].voices == {"moderator": ["a", "b"]}
    assert note_on("deliberation", output) == ["Changed decisions: 1 of 1, compared by their words"]
    single_round = DeliberationOutput.model_validate({**content, "rounds": 1, "reports": reports[:1]})
    assert note_on("deliberation", single_round) == []


def note_on(pattern: str, raw: PatternOutput) -> list[str]:
    """Return the notes on changed answers, as every front end shows them."""
    document = document_of({"pattern": pattern, "status": "complete", "raw": raw.to_wire()}, location="here")
    return [note for note in document.notes if note.startswith("Changed")]


@pytest.mark.parametrize("name", PATTERNS)
def test_answer_courses_can_be_extracted_from_every_pattern(name: str) -> None:
    raw = PATTERNS[name]().run_sync(QUESTION, model=FunctionModel(answer_to), seed=1).raw
    courses = courses_of(raw)
    assert all(isinstance(course, AnswerCourse) for course in courses)
    if "debate" in name:
        assert courses[0].voices


_WITHOUT_SCIPY = """
import importlib.util, json, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("numpy", "scipy") else real(name, *more)
sys.modules["numpy"] = sys.modules["scipy"] = None
from flowdebate.ui.document import document_of
from flowdebate.ui.markdown import report
print(report(document_of(json.loads(sys.argv[1]), location="here")))
"""


def test_report_does_not_import_scipy() -> None:
    """A base installation lacks SciPy, so changes are counted without an interval."""
    raw = plan(max_rounds=1).run_sync(TASK, model=agents(stating)).output
    value = json.dumps({"pattern": "consensus", "status": "complete", "raw": raw.to_wire()})
    command = [sys.executable, "-c", _WITHOUT_SCIPY, value]
    process = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)  # noqa: S603 - our own script
    assert process.stderr == ""
    assert "- Changed positions: 1 of 3, compared by their words" in process.stdout
