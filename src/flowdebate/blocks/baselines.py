"""What a debate is compared with: one call, the vote of first drafts, the vote of as many samples as it had tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.base import Block
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.debater import filled
from flowdebate.blocks.direct_answer import direct_answer
from flowdebate.blocks.generator import Visibility
from flowdebate.blocks.losses import in_time, is_loss
from flowdebate.blocks.merge import merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.blocks.state import question_of
from flowdebate.errors import BadAnswer, ConfigurationError, LimitReached, told
from flowdebate.measures.votes import tally
from flowdebate.models.checks import check_count
from flowdebate.models.text import one_line
from flowdebate.models.usage import Usage
from flowdebate.runs.events import ModelCalled
from flowdebate.schemas.baselines import BASELINES, BaselineAnswer
from flowdebate.schemas.measures import Ballot
from flowdebate.views.baselines import BASELINE

if TYPE_CHECKING:
    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.blocks.generator import Generator
    from flowdebate.models.base import Model
    from flowdebate.runs.context import Context
    from flowdebate.schemas.baselines import BaselineName
    from flowdebate.views.baselines import BaselineTemplate

__all__ = ("Baselines", "baselines_asked", "create_baselines")

_ORDERS = 256
"""As many ways to ask (an order of the positions, for a seat) are kept at most."""
_WAVE = 8
"""As many samples are asked for at once at most, before it is looked at what they took."""


def baselines_asked(given: bool | Sequence[BaselineName], *, where: str) -> tuple[BaselineName, ...]:  # noqa: FBT001 - an option of that kind
    """Which baselines `given` means, from the cheapest on; ConfigurationError for what is none.

    >>> baselines_asked(["drafts", "single"], where="debate 'rent'")
    ('single', 'drafts')
    """
    if isinstance(given, bool):
        return BASELINES if given else ()
    wrong = isinstance(given, str) or not isinstance(given, Sequence) or any(name not in BASELINES for name in given)
    if wrong or len(set(given)) < len(given):
        raise ConfigurationError(where, "baselines", given, f"True, False, or different ones of {list(BASELINES)}")
    return tuple(name for name in BASELINES if name in given)


def create_baselines(
    *,
    name: str,
    stances: Sequence[str],
    models: Sequence[Model | str | None] | None = None,
    baselines: bool | Sequence[BaselineName] = True,
    max_samples: int = 64,
    template: BaselineTemplate = BASELINE,
    **options: Unpack[BlockOptions],
) -> Baselines:
    """The block `{name}-baselines`: which of `stances` is right, found without a debate, in up to three ways.

    - "single": one call of the default model (`options["model"]`, None for `"intent/chat"`).
    - "drafts": the vote of independent answers, one for each of `models`, which are those of the debaters' seats (None
      for the default); without `models`, one of the default model for each stance.
    - "self_consistency": the vote of as many answers of the default model as the tokens pay for that the debate around
      the block has used so far, 1 at least and `max_samples` at most. Where a server does not tell its tokens, as many
      as the debate made calls.

    Each call sees the question and the positions, in an order drawn from the run's seed, and nothing else. The other
    `options` are those of the default blocks, so that baselines have the same tools, context and settings as debaters.
    An answer that a provider loses, or that a limit of the run stops, is left out of the vote, and the debate goes on.
    """
    block_name = f"{name}-baselines"
    positions = tuple(dict.fromkeys(stances))
    if not positions:
        raise ConfigurationError(block_name, "stances", stances, "at least one stance")
    check_count(block_name, max_samples=max_samples)
    return Baselines(
        block_name,
        positions=positions,
        seats=tuple([None] * len(stances) if models is None else models),
        asked=baselines_asked(baselines, where=block_name),
        max_samples=max_samples,
        template=template,
        options=filled(options, "intent/chat", Visibility(client=False, history=False), where=block_name),
    )


@dataclass(frozen=True, slots=True)
class _Vote:
    """One answer: a position, or why there is none."""

    winner: str | None = None
    problem: str | None = None


class Baselines(Block[Any, list[BaselineAnswer]]):
    """Answers that took no debate; made by `create_baselines`."""

    def __init__(
        self,
        name: str,
        *,
        positions: tuple[str, ...],
        seats: tuple[Model | str | None, ...],
        asked: tuple[BaselineName, ...],
        max_samples: int,
        template: BaselineTemplate,
        options: dict[str, Any],
    ) -> None:
        self._positions = positions
        self._seats = seats
        self._asked = asked
        self._max_samples = max_samples
        self._template = template
        self._options = options
        self._asking = lru_cache(maxsize=_ORDERS)(self._of_order)
        shared, hidden = merged_resources(f"baselines {name!r}", [direct_answer(name, positions, template, options)])
        super().__init__(name, resources=shared, hidden=hidden)

    async def act(self, value: Any, ctx: Context, /) -> list[BaselineAnswer]:  # noqa: ANN401 - the pattern's input
        budget = await ctx.step(partial(_as_found, _used(ctx, _debate_of(ctx))), key="budget", returns=Usage)
        question = question_of(value, ctx)
        return [await self._answer(name, question, budget, ctx) for name in self._asked]

    async def _answer(self, name: BaselineName, question: str, budget: Usage, ctx: Context) -> BaselineAnswer:
        """What one of them finds, and what it takes."""
        before = _cost(ctx)
        place = f"{ctx.path}/{name}"
        if name == "self_consistency":
            votes = await self._samples(question, budget, ctx, place)
        else:
            seats = range(len(self._seats)) if name == "drafts" else (None,)
            votes = await self._votes(question, seats, ctx, place)
        used, after = _used(ctx, place), _cost(ctx)
        return BaselineAnswer(
            name=name,
            winner=_winner(votes, self._positions),
            votes={position: sum(vote.winner == position for vote in votes) for position in self._positions},
            calls=used.calls,
            prompt_tokens=used.prompt_tokens,
            cached_tokens=used.cached_tokens,
            completion_tokens=used.completion_tokens,
            cost=None if before is None or after is None else after - before,
            lost=sum(vote.problem is not None for vote in votes),
            problem=next((vote.problem for vote in votes if vote.problem is not None), None),
        )

    async def _samples(self, question: str, budget: Usage, ctx: Context, place: str) -> list[_Vote]:
        """Answers of the default model, until the next one would take more than `budget`."""
        votes: list[_Vote] = []
        while room := min(_room(budget, _used(ctx, place), len(votes)), self._max_samples - len(votes), _WAVE):
            wave = await self._votes(question, [None] * room, ctx, place, first=len(votes) + 1)
            votes += wave
            if all(vote.problem is not None for vote in wave):
                break  # who has answered nothing so often will not answer now
        return votes

    async def _votes(
        self, question: str, seats: Sequence[int | None], ctx: Context, place: str, *, first: int = 1
    ) -> list[_Vote]:
        """One answer of the model of each of `seats` (None: of the default model), at once."""
        calls = [
            partial(self._vote, question, seat, ctx.child(self.name, f"{place}[{number}]"))
            for number, seat in enumerate(seats, start=first)
        ]
        return await in_order(calls)

    async def _vote(self, question: str, seat: int | None, ctx: Context) -> _Vote:
        """One answer, to the positions in an order of its own."""
        order = tuple(ctx.random.sample(self._positions, len(self._positions)))
        asking = self._asking(order, seat)
        try:
            winner: str = await in_time(asking(question, ctx), ctx, block=self.name, timeout=None, losses=_goes_on)
        except Exception as error:
            if not _goes_on(error):
                raise
            return _Vote(problem=one_line(told(error)))
        return _Vote(winner)

    def _of_order(self, order: tuple[str, ...], seat: int | None) -> Generator[str]:
        own = None if seat is None else self._seats[seat]
        options = self._options if own is None else {**self._options, "model": own}
        return direct_answer(self.name, order, self._template, options)

    def outline(self) -> Outline:
        return Outline(text=f"{self.name} ({', '.join(self._asked)})", kind="generator")


def _goes_on(error: BaseException) -> bool:
    """Whether the debate goes on without the answer: baselines take no verdict with them."""
    return isinstance(error, (BadAnswer, LimitReached)) or is_loss(error)


def _winner(votes: Sequence[_Vote], positions: Sequence[str]) -> str | None:
    """Who leads; None in a tie, and without a vote."""
    ballots = [Ballot(voter=str(index), choice=vote.winner) for index, vote in enumerate(votes) if vote.winner]
    if not ballots:
        return None
    return tally(ballots, choices=positions, eligible=[ballot.voter for ballot in ballots], quorum=1).winner


def _room(budget: Usage, used: Usage, votes: int) -> int:
    """How many more answers the budget pays for, told by what the ones so far took; the first is always asked for."""
    if not votes:
        return 1
    tokens, spent = budget.total_tokens, used.total_tokens
    if not tokens or not spent:  # not told by a server, or not counted: at equal calls
        return max(budget.calls - votes, 0)
    return max(int((tokens - spent) * votes // spent), 0)


def _debate_of(ctx: Context) -> str:
    """Where the debate is that is compared: around the block, or beside what `with_baselines` puts it in."""
    around = ctx.scope.sequencer
    return ctx.path.rpartition("/")[0].rpartition("/")[0] if around is None else around.path


def _used(ctx: Context, place: str) -> Usage:
    """What the calls below `place` have come to so far."""
    total = Usage.none()
    for event in ctx.run.records.events:
        if isinstance(event, ModelCalled) and (not place or _is_below(event.path, place)):
            total += event.usage
    return total


def _is_below(path: str, place: str) -> bool:
    return path.startswith((f"{place}/", f"{place}["))


def _cost(ctx: Context) -> float | None:
    return None if ctx.run.budget is None else ctx.run.budget.cost


async def _as_found(used: Usage) -> Usage:
    return used
