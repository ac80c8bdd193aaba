"""Council reviews: the order in which each member reads the answers, each member's ranking, and the overall ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from random import Random
from string import ascii_uppercase
from typing import Any, TypeAlias

from flowdebate._text import clean_text
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.options import CommonOptions
from flowdebate.chassis.spec import Loop
from flowdebate.chassis.state import Recovery, RoundsEnded, as_model, state_of
from flowdebate.chassis.turn import FailurePolicy, TurnTask, ask, record_failure, take_turn
from flowdebate.runs.context import Context

from .events import ReviewFinished
from .schemas import (
    ChairRequest,
    CouncilAgreement,
    CouncilRank,
    CouncilRanked,
    CouncilReview,
    CouncilState,
    ReviewRequest,
    ReviewScope,
)

MakeReviewer: TypeAlias = "Callable[[tuple[str, ...]], Block[Any, Any]]"
"""Factory for a block that ranks the answers identified by the given letters."""

Hide: TypeAlias = "Callable[[str, Context], str | None]"
"""Function that replaces names in a string with aliases, or returns the string unchanged."""

# Number of blocks cached per reviewer: each set of letters needs its own answer schema, which is slow to build.
_CACHED_LETTERS = 64


def letter(index: int) -> str:
    """Return the letter or letters of the answer at `index`: A to Z, then AA, AB and so on.

    >>> letter(0), letter(25), letter(26), letter(27)
    ('A', 'Z', 'AA', 'AB')
    """
    more, place = divmod(index, len(ascii_uppercase))
    return (letter(more - 1) if more else "") + ascii_uppercase[place]


def open_reviews(loop: Loop[CommonOptions], scope: ReviewScope) -> Handler[Any, None]:
    """Create the block that runs before the reviews.

    The block draws the answers' letters and each reviewer's reading order.
    """

    @handler(name=f"{loop.name}-open-reviews")
    def open_(_: object, ctx: Context) -> None:
        state = state_of(ctx, CouncilState)
        # sorted, because arrival order differs between runs and the draw must be reproducible
        names = sorted(state.members_heard)
        drawn = [letter(index) for index in range(len(names))]
        ctx.random.shuffle(drawn)  # the letters must not reveal the members' positions on the roster
        ctx.scope.handle.update(aliases=dict(zip(names, drawn, strict=True)))
        if scope == "none" or not names:
            return
        orders = review_orders(names, scope=scope, random=ctx.random)
        # a member has nothing to review if its own answer is the only one
        ctx.scope.handle.update(orders={name: order for name, order in orders.items() if order})
        loop.open_round(ctx, 2)

    return open_


def shown_answers(names: Sequence[str], ctx: Context, hide: Hide) -> tuple[tuple[str, str], ...]:
    """Return the letter and text of each author's answer, in the order of `names`, hiding names in the text."""
    state = state_of(ctx, CouncilState)
    return tuple((state.aliases[name], hide(state.spoken[name], ctx) or "") for name in names)


class ReviewTurn(Block[Any, Any]):
    """A member's review, recorded as a task in the audit trail.

    The review is skipped if the member gave no answer or has none to rank.

    If the member's provider fails permanently, the next of `reviewers` ranks the answers. If none is left, the review
    is skipped, provided that `failures` allows it.
    """

    def __init__(
        self,
        name: str,
        *,
        agent_name: str,
        reviewers: Sequence[MakeReviewer],
        hide: Hide,
        failures: FailurePolicy,
    ) -> None:
        self._makers = [lru_cache(maxsize=_CACHED_LETTERS)(make) for make in reviewers]
        # any letters will do here: the actual ones are drawn during the run, and do not affect the block's resources or
        # outline
        acting = [make(("A", "B")) for make in self._makers]
        shared, hidden = merge_resources(f"review {name!r}", acting, closed=acting)
        super().__init__(name, resources=shared, hidden=hidden)
        self._acting = acting  # used by `seats`
        self._shown = acting[0].outline()
        self._agent_name = agent_name
        self._hide = hide
        self._failures = failures

    async def act(self, _: object, ctx: Context, /) -> CouncilReview | None:
        state, name = state_of(ctx, CouncilState), self._agent_name
        order = state.orders.get(name)
        if order is None:
            return None
        request = ReviewRequest(question=state.question, agent_name=name, answers=shown_answers(order, ctx, self._hide))
        speakers = [make(tuple(label for label, _ in request.answers)) for make in self._makers]

        async def rank(block: Block[Any, Any], task: TurnTask) -> ReviewFinished:
            answer = await ask(block, request, ctx, self._failures)
            task.end_review()
            review = read_review(answer, request, order, block=block.name)
            ctx.scope.handle.update(reviews={**state_of(ctx, CouncilState).reviews, name: review})
            task.complete(review.model_dump(by_alias=True))
            return ReviewFinished(block=block.name, review=review)

        def lose(error: Exception, instead: Recovery) -> None:
            record_failure(error, ctx, block=speakers[0].name, role="reviewer", name=name, instead=instead)

        finished = await take_turn(
            ctx,
            speakers,
            rank,
            goal="Review the answers",
            metadata={"round": 2, "phase": "review"},
            failures=self._failures,
            lose=lose,
            round=2,
            agent_name=name,
            phase="review",
        )
        if finished is None:
            return None
        ctx.emit(finished)
        return finished.review

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._shown,))


def read_review(answer: object, request: ReviewRequest, order: Sequence[str], *, block: str) -> CouncilReview:
    """Parse a reviewer's ranking, replacing letters with names.

    Raises OutputError, naming the block, if the ranking is invalid.
    """
    ranking: Any = as_model(answer, request.answer_schema(), block=block)
    names = {label: name for (label, _), name in zip(request.answers, order, strict=True)}
    return CouncilReview(
        agent_name=request.agent_name,
        order=list(order),
        ranking=[
            CouncilRanked(agent_name=names[item.answer], rank=rank, reason=clean_text(item.reason))
            for rank, item in enumerate(ranking.ranking, start=1)
        ],
    )


def sum_up_reviews(loop: Loop[CommonOptions], *, reviewed: bool, hide: Hide) -> Handler[Any, ChairRequest]:
    """Create the block that ranks the answers across all reviews and returns the chair's input."""

    @handler(name=f"{loop.name}-rank")
    def rank(_: object, ctx: Context) -> ChairRequest:
        state = state_of(ctx, CouncilState)
        names = [name for name in loop.names if name in state.members_heard]
        ranking = rank_answers(state.reviews, names)
        reason = "reviewed" if reviewed else "not_reviewed"
        ctx.scope.handle.deadline = None  # the reviews' time limit no longer applies; the chair has its own
        ctx.scope.handle.update(ranking=ranking, agreement=agreement(state.reviews), stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason))
        by_letter = sorted(names, key=state.aliases.__getitem__)
        return ChairRequest(
            question=state.question,
            answers=shown_answers(by_letter, ctx, hide),
            reviews=tuple(
                (
                    state.aliases[name],
                    tuple(
                        (ranked.rank, state.aliases[ranked.agent_name], hide(ranked.reason, ctx) or "")
                        for ranked in state.reviews[name].ranking
                    ),
                )
                for name in by_letter
                if name in state.reviews
            ),
            ranking=tuple((at.rank, state.aliases[at.agent_name], at.mean_rank, at.reviews) for at in ranking),
        )

    return rank


# Review statistics: pure functions that ignore the order in which reviews arrived


_TWO = 2  # minimum number of reviewers, and of ranked answers, needed to compute agreement


def review_orders(names: Sequence[str], *, scope: ReviewScope, random: Random) -> dict[str, list[str]]:
    """Return the authors of the answers in display order, keyed by reviewer.

    Each answer appears in each slot equally often, and comes right after every other answer equally often, as far as
    the number of reviews allows (Williams squares). A preference for a slot therefore favors nobody, and no two answers
    always appear in sequence.

    >>> from random import Random
    >>> orders = review_orders(["ann", "bea", "cid"], scope="others", random=Random(1))
    >>> sorted(order[0] for order in orders.values())
    ['ann', 'bea', 'cid']
    """
    drawn = sorted(names)  # sorted so that the draw depends on the seed but not on the order of `names`
    random.shuffle(drawn)
    count = len(drawn)
    steps = _distinct_steps(count)
    orders: dict[str, list[str]] = {}
    for index, name in enumerate(drawn):
        if scope == "others":
            orders[name] = [drawn[(index + step) % count] for step in steps]
        else:  # reversed, because each member would otherwise read its own answer first
            orders[name] = [drawn[(step - index) % count] for step in (0, *steps)]
    return {name: orders[name] for name in names}


def _distinct_steps(count: int) -> list[int]:
    """Order the numbers from 1 to `count` - 1 so that no two pairs of neighbors have the same difference.

    Differences are taken modulo `count`. The numbers come alternately from both ends. If `count` is odd, this zigzag
    would repeat differences, so halfway through, two numbers in a row come from the same end. This replaces the second
    half of the differences with the missing ones.

    >>> _distinct_steps(6), _distinct_steps(7)
    ([1, 5, 2, 4, 3], [1, 6, 2, 3, 5, 4])
    """
    candidates = list(range(1, count))
    turn = 2 * ((count - 3) // 4) if count % 2 else None
    steps: list[int] = []
    low = True
    for place in range(count - 1):
        steps.append(candidates.pop(0 if low else -1))
        low = low == (place == turn)
    return steps


def rank_answers(reviews: Mapping[str, CouncilReview], names: Sequence[str]) -> list[CouncilRank]:
    """Rank the members' answers from best to worst by mean rank, omitting unranked answers.

    Tied answers share a rank and are listed in the order of `names`.
    """
    ranks: dict[str, dict[str, int]] = {name: {} for name in names}
    borda = dict.fromkeys(names, 0)
    for reviewer, review in reviews.items():
        for ranked in review.ranking:
            ranks[ranked.agent_name][reviewer] = ranked.rank
            borda[ranked.agent_name] += len(review.ranking) - ranked.rank
    means = {
        name: Fraction(sum(member_ranks.values()), len(member_ranks))
        for name, member_ranks in ranks.items()
        if member_ranks
    }
    order = sorted(means, key=lambda name: (means[name], names.index(name)))
    standings = []
    for name in order:
        own_rank = ranks[name].get(name)
        other_ranks = [rank for reviewer, rank in ranks[name].items() if reviewer != name]
        rank = CouncilRank(
            agent_name=name,
            rank=1 + sum(mean < means[name] for mean in means.values()),
            tied=sum(mean == means[name] for mean in means.values()) > 1,
            mean_rank=float(means[name]),
            borda=borda[name],
            reviews=len(ranks[name]),
            self_preference=None
            if own_rank is None or not other_ranks
            else float(Fraction(sum(other_ranks), len(other_ranks)) - own_rank),
        )
        standings.append(rank)
    return standings


def agreement(reviews: Mapping[str, CouncilReview]) -> CouncilAgreement | None:
    """Compute Kendall's W for the reviews.

    W compares the spread of the answers' rank sums with the spread under full agreement. Because each reviewer omits
    its own answer, Durbin's form for incomplete blocks is used. The result is None if there are fewer than two reviews,
    or if they contain nothing to compare. No confidence interval is given, because none is valid for so few reviewers.
    """
    ranked = [[item.agent_name for item in review.ranking] for review in reviews.values()]
    if len(ranked) < _TWO or max(map(len, ranked)) < _TWO:
        return None
    sums = _centered_sums(ranked)
    # in a balanced design, the spread under full agreement is fixed; after a failed review, it depends on the consensus
    consensus = sorted(sums, key=lambda name: (sums[name], name))
    agreed = _centered_sums([sorted(ranking, key=consensus.index) for ranking in ranked])
    spread, maximum = (sum(value * value for value in sums_by_answer.values()) for sums_by_answer in (sums, agreed))
    return CouncilAgreement(w=min(1.0, spread / maximum), reviews=len(ranked))


def _centered_sums(rankings: Sequence[Sequence[str]]) -> dict[str, int]:
    """Sum each answer's centered ranks; the sums are doubled to make them whole numbers."""
    sums: dict[str, int] = {}
    for ranking in rankings:
        for index, name in enumerate(ranking):
            sums[name] = sums.get(name, 0) + 2 * index + 1 - len(ranking)
    return sums
