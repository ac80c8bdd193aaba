"""Benefit of a debate: how its answer and cost compare with those of its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field

from flowdebate._util.wire import WireModel

from .baseline_names import BaselineName

if TYPE_CHECKING:
    from .schemas import BaselineAnswer, DebateRawOutput

_Amount = TypeVar("_Amount", int, float)
Method = Literal["debate", BaselineName]
Undecided = Literal["lot", "wrong"]
"""Credit given to an undecided answer: the chance of guessing right among the remaining positions, or zero."""
METHODS: Mapping[Method, str] = {
    "debate": "the debate",
    "single": "one call",
    "drafts": "the vote of first drafts",
    "self_consistency": "self-consistency",
    "revision": "the vote of drafts revised alone",
}
"""Names of the methods as used in sentences, such as "the debate"."""


class MethodAnswer(WireModel):
    """Answer given to one question by a debate or a baseline, and what it cost."""

    answer: list[str]
    """Positions named in the answer: more than one if they are tied, and none if the answer names no position."""
    calls: Annotated[int, Field(ge=0)] = 0
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Number of tokens, or None if the server does not report it."""
    completion_tokens: Annotated[int, Field(ge=0)] | None = None
    """Number of output tokens, already included in `tokens`."""
    cost: Annotated[float, Field(ge=0)] | None = None
    """Cost, in the same currency as the prices; None if no prices are set."""
    votes: Annotated[int, Field(ge=0)] | None = None
    """Number of answers counted as votes, or None for a debate."""

    def credit(self, truth: str, *, sides: int = 2, undecided: Undecided = "lot") -> float:
        """Score the answer: 1 if it is right, 0 if it is wrong.

        A tie scores the chance of guessing right among the tied positions. An answer that names no position scores the
        chance of guessing right among all `sides` positions. With undecided="wrong", both of these score 0.

        >>> open_, tied = MethodAnswer(answer=[]), MethodAnswer(answer=["a", "b"])
        >>> open_.credit("a"), tied.credit("a"), tied.credit("c"), open_.credit("a", undecided="wrong")
        (0.5, 0.5, 0.0, 0.0)
        """
        if undecided == "wrong" and len(self.answer) != 1:
            return 0.0
        return (truth in self.answer) / len(self.answer) if self.answer else 1 / sides


class BenefitItem(WireModel):
    """One question, answered with and without a debate."""

    truth: str | None = None
    """Correct position, or None if unknown."""
    debate: MethodAnswer
    baselines: dict[BaselineName, MethodAnswer]
    sides: Annotated[int, Field(ge=2)] = 2
    """Number of positions to choose from."""
    failed: bool = False
    """True if the debate ended without a verdict; in that case, no baselines were run."""
    cluster: str | None = None
    """Name shared by a group of related questions, such as a topic; None if the question is independent."""


def benefit_item(
    raw: DebateRawOutput,
    *,
    baselines: Sequence[BaselineAnswer],
    calls: int,
    tokens: int | None,
    truth: str | None = None,
    completion_tokens: int | None = None,
    cost: float | None = None,
    cluster: str | None = None,
) -> BenefitItem:
    """Pair a debate's answer with the answers of its `baselines`.

    `calls`, `tokens`, `completion_tokens` and `cost` are totals for the run, so the debate's share is the total minus
    the baselines' share. A baseline without any votes is omitted.
    """
    winner = None if raw.verdict is None else raw.verdict.winner
    return BenefitItem(
        truth=truth,
        sides=max(len({entry.stance for entry in raw.transcript}), 2),
        debate=MethodAnswer(
            answer=[] if winner is None else [winner],
            calls=calls - sum(answer.calls for answer in baselines),
            tokens=_less(tokens, [answer.tokens for answer in baselines]),
            completion_tokens=_less(completion_tokens, [answer.completion_tokens for answer in baselines]),
            cost=_less(cost, [answer.cost for answer in baselines]),
        ),
        baselines={
            answer.name: MethodAnswer(
                answer=answer.leaders,
                calls=answer.calls,
                tokens=answer.tokens,
                completion_tokens=answer.completion_tokens,
                cost=answer.cost,
                votes=sum(answer.votes.values()),
            )
            for answer in baselines
            if answer.leaders
        },
        cluster=cluster,
    )


def _less(total: _Amount | None, parts: Sequence[_Amount | None]) -> _Amount | None:
    """Subtract `parts` from `total`, down to a minimum of 0; return None if any amount is unknown."""
    counted = [part for part in parts if part is not None]
    return None if total is None or len(counted) < len(parts) else max(total - sum(counted), 0)


def change_summary(item: BenefitItem) -> str:
    """Describe whether a debate changed the answer, and at what cost.

    The right answer need not be known.

    >>> single = MethodAnswer(answer=["cap"], calls=1, tokens=100)
    >>> debate = MethodAnswer(answer=["free"], calls=5, tokens=940)
    >>> change_summary(BenefitItem(debate=debate, baselines={"single": single}))
    "The debate changed the answer to 'free': one call says 'cap'. It took 5 calls and 940 tokens: 9.4 times one call."
    """
    alternatives = [(METHODS[name], answer) for name, answer in item.baselines.items()]
    changed = [name for name, answer in alternatives if answer.answer != item.debate.answer]
    answers = "; ".join(f"{name} says {_answer(answer)}" for name, answer in alternatives)
    if not alternatives:
        sentence = (
            f"There is nothing to compare with: no baseline has an answer. The debate says {_answer(item.debate)}."
        )
    elif not changed:
        sentence = f"The debate did not change the answer: {list_names([name for name, _ in alternatives])} "
        sentence += f"{'says' if len(alternatives) == 1 else 'say'} {_answer(item.debate)} as well."
    elif len(changed) == len(alternatives):
        sentence = f"The debate changed the answer to {_answer(item.debate)}: {answers}."
    else:
        sentence = f"The debate says {_answer(item.debate)}: {answers}."
    tokens, single = item.debate.tokens, item.baselines.get("single")
    took = f"It took {item.debate.calls:,} calls" + ("" if tokens is None else f" and {tokens:,} tokens")
    if single is not None and single.tokens and tokens is not None:
        took += f": {times(tokens / single.tokens)} one call"
    return f"{sentence} {took}."


def _answer(answer: MethodAnswer) -> str:
    return list_names([repr(position) for position in answer.answer]) if answer.answer else "no position"


def times(ratio: float) -> str:
    """Format a ratio for use in a sentence, such as "9.4 times"; ratios of 100 or more have no decimals."""
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.1f} times"  # noqa: PLR2004 - three digits


def list_names(names: Sequence[str]) -> str:
    """Join `names` with commas, with "and" before the last one."""
    *first_names, last = names
    return f"{', '.join(first_names)} and {last}" if first_names else last
