"""Judge: one model or a panel, one view or many; its ballots make one verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.generator import Visibility
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.blocks.outline import Outline
from flowdebate.errors import BadAnswer, ConfigurationError, ModelError, error_text
from flowdebate.patterns.binding import bindable
from flowdebate.patterns.debate.judging.juror import JudgeInput, Juror
from flowdebate.patterns.debate.judging.options import JudgeOptions, labels_for
from flowdebate.patterns.debate.judging.prompt import (
    JUDGE,
    JudgeTemplate,
    in_view,
    labelled,
    order_for_judge,
    verdict_among,
)
from flowdebate.patterns.debate.judging.schedules import JudgeView
from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging
from flowdebate.patterns.debate.judging.verdict import render_ballots, verdict_of
from flowdebate.patterns.debate.quotes.prompt import quotes_line
from flowdebate.patterns.debate.schemas import JudgedVerdict, JudgeViewMade
from flowdebate.patterns.failures import discard, is_provider_failure, record_failure, recorded_failure
from flowdebate.patterns.roles import SHOWN, generator_options
from flowdebate.patterns.state import entries_of, question_of
from flowdebate.runs.events import BlockAnswered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from random import Random

    from flowdebate.blocks.human.human import Ask
    from flowdebate.models.base import Model
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.debate.judging.schedules import ScheduleLike
    from flowdebate.patterns.debate.judging.schemas import DecidedBy, OnFlip
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.runs.context import Context

__all__ = (
    "Judge",
    "build_judge",
    "create_judge",
    "create_judge_panel",
)


@bindable("name", "transcript", "stances", pattern="debate", role="judge")
def create_judge(  # noqa: PLR0913 - what a judge may be told
    *,
    name: str,
    transcript: Transcript,
    stances: Sequence[str],
    anonymize_transcript: bool = True,
    shuffle_for_judge: bool = True,
    random: Random | None = None,
    anonymity: Anonymity | None = None,
    sources: Mapping[str, str] | None = None,
    template: JudgeTemplate = JUDGE,
    schedule: ScheduleLike = "single",
    decided_by: DecidedBy = "mean",
    on_flip: OnFlip = "average",
    labels: bool | Sequence[str] = False,
    curtail: bool = False,
    ask: Ask | None = None,
    **options: Unpack[BlockOptions],
) -> Judge:
    """The block `{name}-judge`: finds for one of `stances`, or for a synthesis of several (`winner` None).

    It is shown stances instead of names. With the `schedule` "single" it is shown one view, in which the arguments of
    each round stand in an order drawn from `random` (None: from the run's seed, so that the same seed gives the same
    view), and names a winner. With another schedule it is asked once for each view, all at once, and gives each side a
    score; `decided_by`, `on_flip`, `labels`, `curtail` and `ask` are as `JudgeOptions` says. `verdict.judging` has the
    ballots, and each view is told as a `JudgeViewMade`. It cannot name a winner that is not among `stances`:
    `SchemaViolation`; of several ballots, one that cannot be used is left out, unless none can.
    `anonymity` says whose names stand as aliases in what it is shown; with `sources`, texts by name, it is told which
    quotes of an argument stand in them.
    """
    how = JudgeOptions(
        schedule=schedule, decided_by=decided_by, on_flip=on_flip, labels=labels, curtail=curtail, ask=ask
    )
    return build_judge(
        how,
        name=name,
        transcript=transcript,
        stances=stances,
        anonymize_transcript=anonymize_transcript,
        shuffle_for_judge=shuffle_for_judge,
        random=random,
        anonymity=anonymity,
        sources=sources,
        template=template,
        options=options,
    )


@bindable("name", "transcript", "stances", pattern="debate", role="judge")
def create_judge_panel(  # noqa: PLR0913 - what a panel may be told
    *,
    name: str,
    models: Sequence[Model | str],
    transcript: Transcript,
    stances: Sequence[str],
    anonymize_transcript: bool = True,
    shuffle_for_judge: bool = True,
    random: Random | None = None,
    anonymity: Anonymity | None = None,
    sources: Mapping[str, str] | None = None,
    template: JudgeTemplate = JUDGE,
    schedule: ScheduleLike = "single",
    decided_by: DecidedBy = "mean",
    on_flip: OnFlip = "average",
    labels: bool | Sequence[str] = False,
    curtail: bool = False,
    quorum: int | None = None,
    correlation: float | None = None,
    ask: Ask | None = None,
    **options: Unpack[BlockOptions],
) -> Judge:
    """The block `{name}-judge`, a panel: each of `models` judges every view of the schedule, and all ballots count.

    The same views for all models, and one shuffled view for all with "single". `quorum` is how many models must
    answer (None: all); a model that its provider loses is left out as long as enough remain. `correlation` is how
    strongly the models' errors go together (None: as published): the verdict says how many independent judges they are
    worth (`effective_n`). Else as `create_judge`.
    """
    if not models:
        raise ConfigurationError(f"judge {name!r}", "models", models, "at least one model")
    how = JudgeOptions(
        schedule=schedule,
        models=models,
        decided_by=decided_by,
        on_flip=on_flip,
        labels=labels,
        curtail=curtail,
        quorum=quorum,
        correlation=correlation,
        ask=ask,
    )
    return build_judge(
        how,
        name=name,
        transcript=transcript,
        stances=stances,
        anonymize_transcript=anonymize_transcript,
        shuffle_for_judge=shuffle_for_judge,
        random=random,
        anonymity=anonymity,
        sources=sources,
        template=template,
        options=options,
    )


def build_judge(  # noqa: PLR0913 - what create_judge and a debate hand on
    how: JudgeOptions,
    *,
    name: str,
    transcript: Transcript,
    stances: Sequence[str],
    anonymize_transcript: bool,
    shuffle_for_judge: bool,
    options: BlockOptions,
    random: Random | None = None,
    anonymity: Anonymity | None = None,
    sources: Mapping[str, str] | None = None,
    template: JudgeTemplate = JUDGE,
) -> Judge:
    """The judge, or the panel of judges, that `how` describes."""
    where = f"judge {name!r}"
    sides = tuple(dict.fromkeys(stances))
    if not sides:
        raise ConfigurationError(where, "stances", stances, "at least one stance")
    how.plan.calls(len(sides))
    block_name = f"{name}-judge"
    given = generator_options(options, "intent/synthesize", SHOWN, where=block_name)
    visibility: Visibility = given["visibility"]
    if how.scored:  # the verdict is what is remembered, not each ballot
        given["visibility"] = Visibility(client=visibility.client, history=False)
    jurors = [
        Juror(
            block_name,
            sides=sides,
            scored=how.scored,
            named=not anonymize_transcript,
            has_sources=bool(sources),
            template=how.template or template,
            transcript=transcript,
            options=given,
            panel_model=model,
        )
        for model in how.models or (None,)
    ]
    return Judge(
        block_name,
        how=how,
        jurors=jurors,
        sides=sides,
        labels=labels_for(sides, how.labels, where=where),
        anonymized=anonymize_transcript,
        shuffle=shuffle_for_judge,
        random=random,
        anonymity=anonymity if anonymize_transcript else None,
        sources=sources or None,
        visibility=visibility,
    )


class Judge(Block[Any, JudgedVerdict]):
    """A judge, or a panel of them; made by `create_judge` and `create_judge_panel`."""

    def __init__(  # noqa: PLR0913 - the parts of one value; applications call create_judge()
        self,
        name: str,
        *,
        how: JudgeOptions,
        jurors: Sequence[Juror],
        sides: tuple[str, ...],
        labels: tuple[str, ...] | None,
        anonymized: bool,
        shuffle: bool,
        random: Random | None,
        anonymity: Anonymity | None,
        sources: Mapping[str, str] | None,
        visibility: Visibility,
    ) -> None:
        person = _person(name, how, sides) if how.on_flip == "human" else None
        acting = [juror.block for juror in jurors]
        shared, hidden = merged_resources(f"judge {name!r}", [*acting, *([] if person is None else [person])])
        super().__init__(name, resources=shared, hidden=hidden)
        self.how = how
        self.sides = sides
        self._jurors = jurors
        self._labels = labels
        self._anonymized = anonymized
        self._shuffle = shuffle
        self._random = random
        self._anonymity = anonymity
        self._note = None if sources is None else quotes_line(sources)
        self._visibility = visibility
        self._person = person

    async def act(self, value: Any, ctx: Context, /) -> JudgedVerdict:  # noqa: ANN401 - the debate's input
        question = question_of(value, ctx)
        if not self.how.scored:
            juror, shown = self._jurors[0], self._shuffled(question, ctx)
            self._tell(shown, ctx)
            only: JudgedVerdict = await juror.asking(shown)(shown, ctx.child(self.name, ctx.path))
            return only
        verdict = await self._decided(await self._ballots(question, ctx), question, ctx)
        if self._visibility.client:
            ctx.emit(BlockAnswered(block=self.name, output=verdict))
        if self._visibility.history:
            content = verdict.model_dump_json(by_alias=True, exclude={"judging"})
            ctx.session.history.append({"role": "assistant", "name": self.name, "content": content})
        return verdict

    def _shuffled(self, question: str, ctx: Context) -> JudgeInput:
        """The one view of a judge that is asked once: each round is shuffled by itself."""
        entries = entries_of(ctx)
        places = order_for_judge(entries, shuffle=self._shuffle, random=self._random or ctx.random)
        order = dict.fromkeys([*(entries[place].stance for place in places), *self.sides])
        return self._shown(question, JudgeView(order=tuple(order)), places, ctx)

    def _shown(
        self, question: str, view: JudgeView, places: Sequence[int], ctx: Context, *, number: int = 0
    ) -> JudgeInput:
        """The transcript in `view`, with aliases for names that arguments hold, and a note on their quotes."""
        entries = entries_of(ctx)
        notes = [] if self._note is None else [self._note(entries[place]) for place in places]
        if self._anonymity is not None:
            aliases = self._anonymity.aliases(ctx)
            entries, notes = self._anonymity.entries(ctx), [aliases.hide(note).text for note in notes]
        shown = labelled([entries[place] for place in places], view)
        return JudgeInput(question=question, view=view, entries=shown, notes=notes, places=places, number=number)

    async def _ballots(self, question: str, ctx: Context) -> list[JudgeBallot]:
        """The ballots in the order of the schedule; as many as it takes, where they are curtailed."""
        entries, source = entries_of(ctx), self._random or ctx.random
        views = self.how.plan.views(self.sides, random=source, shuffle=self._shuffle, labels=self._labels)
        calls: list[Callable[[], Awaitable[BallotCall]]] = []
        for number, view in enumerate(views):
            shown = self._shown(question, view, in_view(entries, view), ctx, number=number)
            for juror in self._jurors:
                inner = ctx.child(self.name, f"{ctx.path}/ballot[{len(calls)}]")
                calls.append(partial(self._ballot, juror, replace(shown, model=juror.voter), inner))
        if not self.how.curtail:
            return await self._kept(await in_order(calls), ctx)
        cast = await in_order(calls[: len(calls) // 2 + 1])  # fewer could always be outvoted by those that are left
        while not self._settled(cast, left=len(calls) - len(cast)):
            cast.append(await calls[len(cast)]())
        return await self._kept(cast, ctx)

    def _settled(self, cast: Sequence[BallotCall], *, left: int) -> bool:
        from flowdebate.patterns.debate.judging.ballots import is_settled

        ballots = [each.ballot for each in cast]
        return is_settled(ballots, left=left, sides=self.sides, by=self.how.decided_by)

    async def _ballot(self, juror: Juror, shown: JudgeInput, ctx: Context) -> BallotCall:
        self._tell(shown, ctx)
        error = recorded_failure(ctx, block=self.name)
        try:
            if error is None:
                return BallotCall(await juror.asking(shown)(shown, ctx), juror, ctx)
        except ModelError as failure:
            if not (isinstance(failure, BadAnswer) or (self.how.quorum is not None and is_provider_failure(failure))):
                raise
            error = failure
        ballot = JudgeBallot(
            view=shown.number,
            order=list(shown.view.order),
            labels=None if shown.view.labels is None else dict(shown.view.labels),
            model=shown.model,
            problem=one_line(error_text(error)),
        )
        return BallotCall(ballot, juror, ctx, error)

    async def _kept(self, cast: Sequence[BallotCall], ctx: Context) -> list[JudgeBallot]:
        """The ballots, if enough of them can be used; else the first failure. Those that cannot are given up."""
        lost = [each for each in cast if each.error is not None]
        answered = {id(each.juror) for each in cast if each.error is None}
        asked = {id(each.juror) for each in cast}
        if lost and len(answered) < min(self.how.quorum or len(self._jurors), len(asked)):
            raise lost[0].error  # type: ignore[misc] # it has one
        for each in lost:
            await self._give_up(each, ctx)
        return [each.ballot for each in cast]

    async def _give_up(self, cast: BallotCall, ctx: Context) -> None:
        """Go on without this ballot; where its provider was at fault, the debate has lost something."""
        error = cast.error
        if error is None:
            return
        await discard(cast.ctx, error, block=self.name)
        if is_provider_failure(error) and not isinstance(error, BadAnswer):
            record_failure(
                error, ctx, block=self.name, role="judge", name=cast.ballot.model or self.name, instead="skipped"
            )

    async def _decided(self, ballots: list[JudgeBallot], question: str, ctx: Context) -> JudgedVerdict:
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
            planned=self.how.plan.calls(len(self.sides)) * len(self._jurors),
            scores=found.scores,
            flipped=found.flipped,
            on_flip=on_flip,
            effective_n=effective_n(len({ballot.model for ballot in used}), correlation),
        )
        if on_flip == "human" and self._person is not None:
            return await self._asked_person(self._person, judging, question, ctx)
        if on_flip == "tie":
            first = {side for ballot in used for side in firsts_of(ballot, sides=self.sides)}
            tied = {side: 1 / len(first) if side in first else 0.0 for side in self.sides}
            return verdict_of(judging.model_copy(update={"scores": tied}), None)
        return verdict_of(judging, None if on_flip == "abstain" else found.winner)

    async def _asked_person(
        self, person: Block[Any, Any], judging: Judging, question: str, ctx: Context
    ) -> JudgedVerdict:
        """The verdict of a person who is shown the ballots."""
        shown = FlippedBallots(subject=question, ballots=judging.ballots)
        answer = await person(shown, ctx.child(person.name, f"{ctx.path}/{person.place}"))
        return JudgedVerdict(verdict=answer.verdict, winner=answer.winner, reasoning=answer.reasoning, judging=judging)

    def _tell(self, shown: JudgeInput, ctx: Context) -> None:
        ctx.emit(
            JudgeViewMade(
                block=self.name,
                order=tuple(shown.places),
                anonymized=self._anonymized,
                view=shown.number,
                model=shown.model,
            )
        )

    def outline(self) -> Outline:
        if not self.how.scored:
            return Outline(text=self.name, kind="generator")
        calls = self.how.plan.calls(len(self.sides)) * len(self._jurors)
        return Outline(text=f"{self.name} ({self.how.plan}, {calls} ballots)", kind="generator")


@dataclass(frozen=True, slots=True)
class BallotCall:
    """A ballot, the juror that was asked for it, at which place, and why there is none."""

    ballot: JudgeBallot
    juror: Juror
    ctx: Context
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedBallots:
    """The input of a person who decides between ballots that flipped."""

    subject: str
    ballots: Sequence[JudgeBallot]


def _person(name: str, how: JudgeOptions, sides: Sequence[str]) -> Block[Any, Any]:
    """The human who decides where ballots flip."""
    from flowdebate.blocks.human.human import human

    prompt = "The judge found otherwise when it was shown the arguments in another order. Decide."
    person = human(name=f"{name}-human", prompt=prompt, context=_ballots_in_words, ask=how.ask)
    return with_answer_schema(person, lambda: verdict_among(sides))


def _ballots_in_words(shown: FlippedBallots) -> str:
    return render_ballots(shown.ballots)
