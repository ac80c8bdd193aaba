"""Answer courses: the successive answers of each voice during a run, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from flowdebate._util.wire import WireModel
from flowdebate.measures.statements import same_answer

SameAnswer: TypeAlias = Callable[[str | None, str | None], bool]


class AnswerCourse(WireModel):
    """Each voice's answers to one question in a run, in order, and the outcome."""

    voices: dict[str, list[str | None]]
    """Each voice's answers, in order; None marks a missing answer."""
    outcome: str | None = None
    """Joint outcome reached by the voices; None if there is none."""
    truth: str | None = None
    """Correct answer; None if unknown."""
    cluster: str | None = None
    """Cluster of related courses, for example those on the same topic; None for an independent course."""


def count_changes(courses: Iterable[AnswerCourse]) -> tuple[int, int, int]:
    """Count the voices that answered several times, those that changed their answer, and those that adopted another's.

    An adopted answer is another voice's first answer. Answers are compared by their words.

    >>> count_changes([AnswerCourse(voices={"ann": ["yes", "no"], "bob": ["no", "no"]})])
    (2, 1, 1)
    """
    are_same = same_or_missing(same_answer)
    changes = [change for course in courses for change in changes_in(course, are_same)]
    changed = [value for name, value in changes if name == "changed"]
    return len(changed), sum(changed), sum(value for name, value in changes if name == "adopted")


def same_or_missing(same: Callable[[str, str], bool]) -> SameAnswer:
    """Extend the comparison `same` to missing answers, which are equal only to one another."""

    def are_same(one: str | None, other: str | None) -> bool:
        return one is other if one is None or other is None else one == other or same(one, other)

    return are_same


def changes_in(course: AnswerCourse, are_same: SameAnswer) -> Iterator[tuple[str, bool]]:
    """Yield each kind of change between a voice's first and last answers, and whether the change happened.

    Voices with fewer than two answers are skipped.
    """
    firsts = {name: answers[0] for name, answers in course.voices.items() if answers}
    for name, answers in course.voices.items():
        if len(answers) < 2:  # noqa: PLR2004 - a change is between two
            continue
        begins, ends = answers[0], answers[-1]
        moved = not are_same(begins, ends)
        yield "changed", moved
        rivals = [first for other, first in firsts.items() if other != name and first is not None]
        rivals = [rival for rival in rivals if not are_same(rival, begins)]
        if rivals:
            yield "adopted", moved and any(are_same(rival, ends) for rival in rivals)
        if course.truth is not None:
            was, is_now = are_same(begins, course.truth), are_same(ends, course.truth)
            yield "right_to_wrong" if was else "wrong_to_right", was != is_now
