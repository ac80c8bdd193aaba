"""Reviews of a council: the orders of the answers, each member's ranking, and their summary for the chair."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate._util.text import clean_text
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.outline import Outline
from flowdebate.patterns.council.ranking import agreement, rank_answers, review_orders
from flowdebate.patterns.council.schemas import (
    ChairAsked,
    CouncilRanked,
    CouncilReview,
    CouncilState,
    ReviewAsked,
    ReviewFinished,
)
from flowdebate.patterns.events import RoundsEnded
from flowdebate.patterns.state import as_model, pattern_state
from flowdebate.patterns.turn import ask, record_failure, take_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.patterns.anonymity.aliases import Anonymity
    from flowdebate.patterns.council.schemas import ReviewScope
    from flowdebate.patterns.spec import Loop
    from flowdebate.patterns.state import Recovery
    from flowdebate.patterns.turn import FailurePolicy, TurnTask
    from flowdebate.runs.context import Context


MakeReviewer: TypeAlias = "Callable[[tuple[str, ...]], Block[Any, Any]]"
"""Makes the block that ranks the answers with these letters."""

_CACHED_LETTERS = 64
"""Cached blocks of a reviewer: each set of letters has its own answer schema."""


def council_state(ctx: Context) -> CouncilState:
    """The state of the council around the block; a new one where its block is used by itself."""
    state = pattern_state(ctx)
    return state if isinstance(state, CouncilState) else CouncilState()


def letter(index: int) -> str:
    """The letter of the answer at `index`: A to Z, then AA, AB and so on.

    >>> letter(0), letter(25), letter(26), letter(27)
    ('A', 'Z', 'AA', 'AB')
    """
    more, place = divmod(index, len(ascii_uppercase))
    return (letter(more - 1) if more else "") + ascii_uppercase[place]


def open_reviews(loop: Loop, scope: ReviewScope | None) -> Handler[Any, None]:
    """A tap between opinions and reviews: draws the letters of the answers, and the orders of the reviewers."""

    @handler(name=f"{loop.name}-open-reviews")
    def open_(_: object, ctx: Context) -> None:
        state = council_state(ctx)
        names = sorted(state.heard)
        drawn = [letter(index) for index in range(len(names))]
        ctx.random.shuffle(drawn)
        ctx.scope.handle.update(aliases=dict(zip(names, drawn, strict=True)))
        if scope is None or not names:
            return
        orders = review_orders(names, scope=scope, random=ctx.random)
        ctx.scope.handle.update(orders={name: order for name, order in orders.items() if order})
        loop.open_round(ctx, 2)

    return open_


def shown_answers(names: Sequence[str], ctx: Context, anonymity: Anonymity | None) -> tuple[tuple[str, str], ...]:
    """Letter and text of the answers of `names`, in that order, with aliases for the names in the texts."""
    state = council_state(ctx)
    hide = _as_it_is if anonymity is None else anonymity.hide
    return tuple((state.aliases[name], hide(state.spoken[name], ctx) or "") for name in names)


def _as_it_is(text: str, _: Context) -> str:
    return text


class ReviewTurn(Block[Any, Any]):
    """The review of one member, under a task of the audit trail; None for a member without an answer of its own.

    If its provider fails for good, the next of `reviewers` ranks the answers; without one, the review is left out if
    `failures` allows it.
    """

    def __init__(
        self,
        name: str,
        *,
        agent_name: str,
        reviewers: Sequence[MakeReviewer],
        anonymity: Anonymity | None,
        failures: FailurePolicy,
    ) -> None:
        self._makers = [lru_cache(maxsize=_CACHED_LETTERS)(make) for make in reviewers]
        acting = [make(("A", "B")) for make in self._makers]
        shared, hidden = merged_resources(f"review {name!r}", acting, closed=acting)
        super().__init__(name, resources=shared, hidden=hidden)
        self._shown = acting[0].outline()
        self._agent_name = agent_name
        self._anonymity = anonymity
        self._failures = failures

    async def act(self, _: object, ctx: Context, /) -> CouncilReview | None:
        state, name = council_state(ctx), self._agent_name
        order = state.orders.get(name)
        if order is None:
            return None
        asked = ReviewAsked(
            question=state.question, agent_name=name, answers=shown_answers(order, ctx, self._anonymity)
        )
        speakers = [make(tuple(shown for shown, _ in asked.answers)) for make in self._makers]

        async def rank(block: Block[Any, Any], task: TurnTask) -> ReviewFinished:
            answer = await ask(block, asked, ctx, self._failures)
            task.heard()
            review = read_review(answer, asked, order, block=block.name)
            ctx.scope.handle.update(reviews={**council_state(ctx).reviews, name: review})
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


def read_review(answer: object, asked: ReviewAsked, order: Sequence[str], *, block: str) -> CouncilReview:
    """A reviewer's ranking with names for letters; OutputError that names the block for what is no ranking."""
    ranking: Any = as_model(answer, asked.answer_schema(), block=block)
    names = {shown: name for (shown, _), name in zip(asked.answers, order, strict=True)}
    return CouncilReview(
        agent_name=asked.agent_name,
        order=list(order),
        ranking=[
            CouncilRanked(agent_name=names[item.answer], rank=rank, reason=clean_text(item.reason))
            for rank, item in enumerate(ranking.ranking, start=1)
        ],
    )


def sum_up_reviews(loop: Loop, *, reviewed: bool, anonymity: Anonymity | None) -> Handler[Any, ChairAsked]:
    """A block that ranks the answers by all reviews, and returns the chair's input."""

    @handler(name=f"{loop.name}-rank")
    def rank(_: object, ctx: Context) -> ChairAsked:
        state = council_state(ctx)
        names = [name for name in loop.names if name in state.heard]
        ranking = rank_answers(state.reviews, names)
        reason = "reviewed" if reviewed else "not_reviewed"
        ctx.scope.handle.deadline = None
        ctx.scope.handle.update(ranking=ranking, agreement=agreement(state.reviews, seed=ctx.seed), stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason))
        hide = _as_it_is if anonymity is None else anonymity.hide
        by_letter = sorted(names, key=state.aliases.__getitem__)
        return ChairAsked(
            question=state.question,
            answers=shown_answers(by_letter, ctx, anonymity),
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
