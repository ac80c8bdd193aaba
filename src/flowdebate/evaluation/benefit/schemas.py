"""Whether debates helped: what was found with and without one on the same questions, and what that comes to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.patterns.debate.schemas import BaselineName

__all__ = (
    "BenefitItem",
    "BenefitReport",
    "Comparison",
    "Finding",
    "Found",
    "Method",
    "Standing",
)

Method = Literal["debate", BaselineName]
Finding = Literal["helped", "harmed", "no_gain", "too_few"]
"""Better than the baseline; worse; at best better by less than what would be worth it; not known yet."""


class Found(WireModel):
    """What a debate or a baseline found, and what it took."""

    answer: list[str]
    """The position that it named; several of a tie; empty where it named none."""
    calls: Annotated[int, Field(ge=0)] = 0
    tokens: Annotated[int, Field(ge=0)] | None = None
    """None where they are not known."""

    def credit(self, truth: str) -> float:
        """1 for the right answer, 0 for a wrong one or none; of a tie the chance that a lot between them is right."""
        return (truth in self.answer) / len(self.answer) if self.answer else 0.0


class BenefitItem(WireModel):
    """One question, with and without a debate."""

    truth: str | None = None
    """The position that is right; None where that is not known."""
    debate: Found
    baselines: dict[BaselineName, Found]
    """Those that were not lost."""


class Standing(WireModel):
    """How one method fared over all questions that it has an answer to."""

    method: Method
    n: int
    """How many those are."""
    right: float
    """How many it was right in; a tie counts as its chance to be."""
    accuracy: float
    low: float
    high: float
    """The ends of Wilson's interval."""
    undecided: int
    """How many it named several positions in, or none."""
    calls: float
    tokens: float | None
    """Of one question, on average; tokens are None where they are not known of each."""


class Comparison(WireModel):
    """The debate against one baseline, on the questions that both have an answer to."""

    baseline: BaselineName
    n: int
    debate: float
    """How many the debate was right in."""
    other: float
    """How many the baseline was right in."""
    better: int
    worse: int
    """In how many the debate was right, or nearer to it, where the baseline was not; and the other way round."""
    difference: float
    low: float
    high: float
    """The debate's accuracy less the baseline's, and the ends of Newcombe's interval for paired shares."""
    p: float
    """Of the exact test of `better` against `worse` (McNemar's), two-sided."""
    p_holm: float
    """The same, adjusted by Holm for the number of baselines."""
    calls_ratio: float | None
    tokens_ratio: float | None
    """How many times the calls and tokens of the baseline the debate took; None where that is not known."""
    needed: int
    """So many questions would show a gain that is worth it, in four of five evaluations."""
    finding: Finding
    words: str


class BenefitReport(WireModel):
    """Whether debates helped."""

    n: int
    """Questions with a known answer."""
    without_truth: int = 0
    """Questions that were left out, since their answer is not known."""
    confidence: float
    worth: float
    """The gain in accuracy that would be worth it."""
    standings: list[Standing]
    """The debate's, then those of the baselines."""
    comparisons: list[Comparison]
    finding: Finding
    """"helped" where the debate beat every baseline; "harmed" or "no_gain" where one did better, or as well."""
    words: str
    """The same in a sentence or two."""
