"""Answer dynamics: changes between right and wrong, answers adopted from other voices, and the oracle gap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING

from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.statistics import effective_size, share_interval
from flowdebate.measures.courses import AnswerCourse as AnswerCourse
from flowdebate.measures.courses import SameAnswer, changes_in, same_or_missing
from flowdebate.measures.statements import same_answer

if TYPE_CHECKING:
    from flowdebate.chassis.output import PatternOutput

_WHERE = "dynamics()"


class Dynamics(InNotebooks, WireModel):
    """Changes in the answers given during runs.

    Intervals account for dependencies between the voices in a run.
    """

    courses: int
    changed: Figure | None
    """Share of voices whose first and last answers differ; None if no voice answered twice."""
    adopted: Figure | None
    """Among voices that initially disagreed with another voice, the share that switched to that voice's
    first answer.
    """
    first_right: Figure | None
    """Share of voices whose first answer is correct; like all fields below, None if no correct answer is known."""
    last_right: Figure | None
    right_to_wrong: Figure | None
    """Among voices whose first answer is correct, the share whose last answer is wrong."""
    wrong_to_right: Figure | None
    outcome_right: Figure | None
    """Share of answer courses with a correct outcome."""
    oracle: Figure | None
    """Share of answer courses in which the outcome, or any answer by any voice, is correct."""

    @property
    def oracle_gap(self) -> float | None:
        """Increase in accuracy if the best of all answers were always chosen; None if no correct answer is known."""
        return (
            None if self.oracle is None or self.outcome_right is None else self.oracle.value - self.outcome_right.value
        )


def courses_of(raw: PatternOutput, *, truth: str | None = None, cluster: str | None = None) -> list[AnswerCourse]:
    """Extract the answer courses from a raw output (`result.raw`, or an item of a batch); return [] if it has none.

    In a consensus, every agent is a voice. In a deliberation, the only voice is the moderator, with one answer per
    decision. In a debate, every judging model is a voice, with one answer per ballot, sorted by view. A review has one
    course per finding, with the answers "confirm" and "refute". `truth` is the correct answer for all courses.
    """
    return [
        AnswerCourse(voices=voices, outcome=outcome, truth=truth, cluster=cluster)
        for voices, outcome in raw.answer_courses()
    ]


def dynamics(
    courses: Iterable[AnswerCourse], *, same: Callable[[str, str], bool] = same_answer, confidence: float = 0.95
) -> Dynamics:
    """Measure how the answers in `courses` changed.

    `same` decides whether two answers are the same; the default compares their words (see
    `flowdebate.measures.same_answer`). A missing answer differs from all others and counts as wrong. Raise
    ConfigurationError if there are no courses.

    >>> talked_out = AnswerCourse(voices={"ann": ["yes", "no"], "bob": ["no", "no"]}, outcome="no", truth="yes")
    >>> found = dynamics([talked_out])
    >>> found.right_to_wrong.value, found.adopted.value, found.oracle_gap
    (1.0, 0.5, 1.0)
    """
    check_share(_WHERE, ends=False, confidence=confidence)
    course_list = list(courses)
    if not course_list:
        raise ConfigurationError(_WHERE, "courses", None, "must not be empty")

    are_same = same_or_missing(same)
    seen: dict[str, list[tuple[float, Hashable]]] = {}
    for number, course in enumerate(course_list):
        group = number if course.cluster is None else course.cluster
        for name, value in chain(changes_in(course, are_same), _results(course, are_same)):
            seen.setdefault(name, []).append((float(value), group))

    def figure(name: str) -> Figure | None:
        if name not in seen:
            return None
        values, groups = zip(*seen[name], strict=True)
        low, high = share_interval(fmean(values), effective_size(values, groups), confidence=confidence)
        return Figure(value=fmean(values), n=len(values), low=low, high=high)

    figures = {name: figure(name) for name in Dynamics.model_fields if name != "courses"}
    return Dynamics(courses=len(course_list), **figures)


def _results(course: AnswerCourse, are_same: SameAnswer) -> Iterator[tuple[str, bool]]:
    """Yield pairs of a figure's name and whether the corresponding answer is right.

    The answers are each voice's first and last, the outcome, and the best of all answers, including the outcome.
    Nothing is yielded if the truth is unknown.
    """
    if course.truth is None:
        return
    right = {name: [are_same(answer, course.truth) for answer in answers] for name, answers in course.voices.items()}
    for answers in filter(None, right.values()):
        yield "first_right", answers[0]
        yield "last_right", answers[-1]
    came_out = are_same(course.outcome, course.truth)
    yield "outcome_right", came_out
    yield "oracle", came_out or any(map(any, right.values()))
