"""The hand-written debates, their ballots, and the published section."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from pathlib import Path

import pytest

from evidence.judge_cases import JUDGES, cases, fitted, found_in, half_of, judged, judging_of
from evidence.page import written
from flowdebate.models.base import ModelResponse
from flowdebate.patterns.debate.judging.ballots import decide
from flowdebate.patterns.debate.judging.jurors import FITTED
from flowdebate.testing import FunctionModel


def test_debates_are_balanced() -> None:
    """All combinations of quality, speaking order and length occur equally often.

    If both sides are equally good, one of them may still say more.
    """
    debates = cases()
    assert len({case.id for case in debates}) == len(debates)
    for letter, of_each in (("c", 3), ("d", 3), ("n", 4)):
        some = [case for case in debates if case.id[0] == letter]
        ways = Counter((case.better, case.speaking[0] == case.stances[0], case.ratio > 0) for case in some)
        assert set(ways.values()) == {of_each}
        assert len(ways) == 8
    equal = [case for case in debates if case.group == "equal"]
    assert len(equal) == 96
    assert sum(map(half_of, equal)) == 48
    assert all(case.better is None and 0.25 <= math.exp(case.ratio) <= 4 for case in equal)


def test_judge_correction_is_fitted_to_the_stored_ballots() -> None:
    """The fitted values agree with the published ones to two digits."""
    [constants] = FITTED.values()
    fit = fitted(found_in())
    assert (fit.per_log_length, fit.min_log_odds) == pytest.approx(constants, abs=0.0051)


def test_section_on_the_page_matches_the_stored_ballots() -> None:
    assert written() in (Path(__file__).parents[2] / "evidence" / "records" / "evidence.md").read_text("utf-8")
    assert {section.judge for section in found_in()} <= JUDGES.keys()


def test_stored_ballots_match_the_judge() -> None:
    """Combining the stored ballots for both orders gives the judge's original decision."""

    def answer(request: object) -> ModelResponse:
        return ModelResponse(text="A", logprobs={"A": -0.2, "B": -1.7})

    case = next(case for case in cases() if case.id == "c13")
    ballot = asyncio.run(judged(case, "letter", FunctionModel(answer)))
    assert ballot.leads == pytest.approx([1.5, -1.5])
    assert decide(judging_of(case, ballot).ballots, sides=case.stances, by="log_odds", min_log_odds=0.01).winner is None
