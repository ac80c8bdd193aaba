"""One judge or many, one view or many: the ballots are asked for at once, and make one verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.merge_resources import merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.errors import BadAnswer, ModelError, told
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.patterns.debate.judging.prompt import in_view, order_for_judge
from flowdebate.patterns.debate.judging.schedules import JudgeView
from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging
from flowdebate.patterns.debate.judging.verdict import render_ballots, verdict_of
from flowdebate.patterns.debate.schemas import JudgedVerdict
from flowdebate.patterns.failures import give_up, is_provider_failure, lose, recorded_failure
from flowdebate.patterns.state import entries_of
from flowdebate.runs.events import BlockAnswered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from flowdebate.blocks.generator import Generator, Visibility
    from flowdebate.models.base import Model
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.runs.context import Context

__all__ = (
    "VIEW",
    "Judge",
    "Seat",
    "Shown",
)

VIEW = "flowdebate.judge_view"
"""Where a judge's context has what it is shown."""
BALLOTS = "flowdebate.ballots"
"""Where the context of a person who decides has what was found."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one ballot is about."""

    view: JudgeView
    places: Sequence[int]
    """The places of the transcript's entries, in the order in which they are shown."""
    number: int
    """Which view of the schedule it is."""
    model: str | None
    """The model of a panel that is asked; None for the judge's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One model that judges."""

    model: Model | str | None
    """None: the judge's own."""
    asked: Callable[[tuple[str, ...]], Generator[Any]]
    """Asks it; given what the sides are called, in the order of the view."""

    @property
    def name(self) -> str | None:
        """What ballots say of who cast them."""
        return self.model if self.model is None or isinstance(self.model, str) else self.model.name


class Judge(Block[Any, JudgedVerdict]):
    """A judge, or a panel of them; made by `create_judge` and `create_judge_panel`."""

    def __init__(  # noqa: PLR0913 - the parts of one value; applications call create_judge()
        self,
        name: str,
        *,
        how: JudgeOptions,
        seats: Sequence[Seat],
        sides: tuple[str, ...],
        labels: tuple[str, ...] | None,
        anonymized: bool,
        shuffle: bool,
        random: Random | None,
        visibility: Visibility,
    ) -> None:
        person = _person(name, how, sides) if how.on_flip == "human" else None
        acting = [seat.asked(sides) for seat in seats]
        shared, hidden = merged_resources(f"judge {name!r}", [*acting, *([] if person is None else [person])])
        super().__init__(name, resources=shared, hidden=hidden)
        self.how = how
        self.sides = sides
        self._seats = seats
        self._labels = labels
        self._anonymized = anonymized
        self._shuffle = shuffle
        self._random = random
        self._visibility = visibility
        self._person = person

    async def act(self, value: Any, ctx: Context, /) -> JudgedVerdict:  # noqa: ANN401 - the debate's input
        if not self.how.scored:
            seat, shown = self._seats[0], self._shuffled(ctx)
            verdict: JudgedVerdict = await seat.asked(self.sides).act(value, self._showing(shown, ctx, ctx.path))
            return verdict
        verdict = await self._decided(await self._ballots(value, ctx), value, ctx)
        if self._visibility.client:
            ctx.emit(BlockAnswered(block=self.name, output=verdict))
        if self._visibility.history:
            content = verdict.model_dump_json(by_alias=True, exclude={"judging"})
            ctx.session.history.append({"role": "assistant", "name": self.name, "content": content})
        return verdict

    def _shuffled(self, ctx: Context) -> Shown:
        """The one view of a judge that is asked once: each round is shuffled by itself."""
        entries = entries_of(ctx)
        places = order_for_judge(entries, shuffle=self._shuffle, random=self._random or ctx.random)
        order = dict.fromkeys([*(entries[place].stance for place in places), *self.sides])
        return Shown(JudgeView(order=tuple(order)), places, number=0, model=None)

    async def _ballots(self, value: object, ctx: Context) -> list[JudgeBallot]:
        """The ballots in the order of the schedule; as many as it takes, where they are curtailed."""
        entries, plan = entries_of(ctx), self.how.plan
        source = self._random or ctx.random
        views = plan.views(self.sides, random=source, shuffle=self._shuffle, labels=self._labels)
        calls: list[Callable[[], Awaitable[_Cast]]] = []
        for number, view in enumerate(views):
            places = in_view(entries, view)
            for seat in self._seats:
                shown = Shown(view, places, number=number, model=seat.name)
                calls.append(partial(self._ballot, seat, shown, value, ctx, f"{ctx.path}/ballot[{len(calls)}]"))
        if not self.how.curtail:
            return await self._kept(await in_order(calls), ctx)
        cast = await in_order(calls[: len(calls) // 2 + 1])  # fewer could always be outvoted by those that are left
        while not self._settled(cast, left=len(calls) - len(cast)):
            cast.append(await calls[len(cast)]())
        return await self._kept(cast, ctx)

    def _settled(self, cast: Sequence[_Cast], *, left: int) -> bool:
        from flowdebate.patterns.debate.judging.ballots import is_settled

        ballots = [each.ballot for each in cast]
        return is_settled(ballots, left=left, sides=self.sides, by=self.how.decided_by)

    async def _ballot(self, seat: Seat, shown: Shown, value: object, ctx: Context, path: str) -> _Cast:
        inner = self._showing(shown, ctx, path)
        error = recorded_failure(inner, block=self.name)
        try:
            if error is None:
                names = tuple(map(shown.view.named, shown.view.order))
                return _Cast(await seat.asked(names).act(value, inner), seat, inner)
        except ModelError as failure:
            if not (isinstance(failure, BadAnswer) or (self.how.quorum is not None and is_provider_failure(failure))):
                raise
            error = failure
        return _Cast(
            JudgeBallot(
                view=shown.number,
                order=list(shown.view.order),
                labels=None if shown.view.labels is None else dict(shown.view.labels),
                model=shown.model,
                problem=one_line(told(error)),
            ),
            seat,
            inner,
            error,
        )

    async def _kept(self, cast: Sequence[_Cast], ctx: Context) -> list[JudgeBallot]:
        """The ballots, if enough of them can be used; else the first failure. Those that cannot are given up."""
        lost = [each for each in cast if each.error is not None]
        answered = {id(each.seat) for each in cast if each.error is None}
        asked = {id(each.seat) for each in cast}
        if lost and len(answered) < min(self.how.quorum or len(self._seats), len(asked)):
            raise lost[0].error  # type: ignore[misc] # it has one
        for each in lost:
            await self._give_up(each, ctx)
        return [each.ballot for each in cast]

    async def _give_up(self, cast: _Cast, ctx: Context) -> None:
        """Go on without this ballot; where its provider was at fault, the debate has lost something."""
        error = cast.error
        if error is None:
            return
        await give_up(cast.ctx, error, block=self.name)
        if is_provider_failure(error) and not isinstance(error, BadAnswer):
            lose(error, ctx, block=self.name, seat="judge", name=cast.ballot.model or self.name, instead="skipped")

    async def _decided(self, ballots: list[JudgeBallot], value: object, ctx: Context) -> JudgedVerdict:
        """One verdict of all ballots."""
        from flowdebate.patterns.debate.judging.ballots import PUBLISHED_CORRELATION, decide, effective_n, firsts_of

        correlation = PUBLISHED_CORRELATION if self.how.correlation is None else self.how.correlation
        used = [ballot for ballot in ballots if ballot.problem is None]
        found = decide(ballots, sides=self.sides, by=self.how.decided_by)
        on_flip = self.how.on_flip if found.flipped else None
        judging = Judging(
            schedule=str(self.how.plan),
            decided_by=self.how.decided_by,
            ballots=ballots,
            planned=self.how.plan.calls(len(self.sides)) * len(self._seats),
            scores=found.scores,
            flipped=found.flipped,
            on_flip=on_flip,
            effective_n=effective_n(len({ballot.model for ballot in used}), correlation),
        )
        if on_flip == "human" and self._person is not None:
            return await self._asked_person(self._person, judging, value, ctx)
        if on_flip == "tie":
            first = {side for ballot in used for side in firsts_of(ballot, sides=self.sides)}
            tied = {side: 1 / len(first) if side in first else 0.0 for side in self.sides}
            return verdict_of(judging.model_copy(update={"scores": tied}), None)
        return verdict_of(judging, None if on_flip == "abstain" else found.winner)

    async def _asked_person(
        self, person: Block[Any, Any], judging: Judging, value: object, ctx: Context
    ) -> JudgedVerdict:
        """What a person finds who is shown the ballots."""
        scope = ctx.scope.with_handles({BALLOTS: judging.ballots})
        answer = await person(value, ctx.child(person.name, f"{ctx.path}/{person.place}", scope))
        return JudgedVerdict(verdict=answer.verdict, winner=answer.winner, reasoning=answer.reasoning, judging=judging)

    def _showing(self, shown: Shown, ctx: Context, path: str) -> Context:
        """The context in which a model is shown something; it is told."""
        ctx.emit(
            JudgeViewMade(
                block=self.name,
                order=tuple(shown.places),
                anonymized=self._anonymized,
                view=shown.number,
                model=shown.model,
            )
        )
        scope = ctx.scope.with_handles({VIEW: shown})
        return ctx.child(self.name, path, scope)

    def outline(self) -> Outline:
        if not self.how.scored:
            return Outline(text=self.name, kind="generator")
        calls = self.how.plan.calls(len(self.sides)) * len(self._seats)
        return Outline(text=f"{self.name} ({self.how.plan}, {calls} ballots)", kind="generator")


@dataclass(frozen=True, slots=True)
class _Cast:
    """A ballot, who was asked for it and where, and why it is none."""

    ballot: JudgeBallot
    seat: Seat
    ctx: Context
    error: Exception | None = None


def _person(name: str, how: JudgeOptions, sides: Sequence[str]) -> Block[Any, Any]:
    """Who decides where ballots flip."""
    from flowdebate.blocks.human.human import human
    from flowdebate.blocks.human.prompt import with_answer_schema
    from flowdebate.patterns.debate.judging.prompt import verdict_among

    prompt = "The judge found otherwise when it was shown the arguments in another order. Decide."
    person = human(name=f"{name}-human", prompt=prompt, context=_ballots_of, ask=how.ask)
    return with_answer_schema(person, lambda: verdict_among(sides))


def _ballots_of(_: object, ctx: Context) -> str:
    return render_ballots(ctx.scope.handles[BALLOTS])
