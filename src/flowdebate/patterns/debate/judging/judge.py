"""The default judge: a model that reads the whole transcript, anonymized and in fair views, and finds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.judge_block import VIEW, Judge, Seat, Shown
from flowdebate.patterns.debate.judging.options import JudgeOptions, labels_for
from flowdebate.patterns.debate.judging.prompt import (
    JUDGE,
    JudgeTemplate,
    labelled,
    render_judge_office,
    render_judge_system,
    render_judge_turn,
    scores_among,
    shares_of,
    verdict_among,
)
from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging
from flowdebate.patterns.debate.quotes.prompt import HOW_TO_READ_QUOTES, quotes_line
from flowdebate.patterns.debate.schemas import JudgedVerdict
from flowdebate.patterns.debate.transcript import render_entries
from flowdebate.patterns.roles import generator_options
from flowdebate.patterns.state import entries_of, question_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from flowdebate.blocks.human.human import Ask
    from flowdebate.models.base import Model, ModelResponse
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.debate.judging.schedules import ScheduleLike
    from flowdebate.patterns.debate.judging.schemas import DecidedBy, OnFlip
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.runs.context import Context

__all__ = (
    "create_judge",
    "create_judge_panel",
    "judge_of",
)


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
    return judge_of(
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
    return judge_of(
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


def judge_of(  # noqa: PLR0913 - what create_judge and a debate hand on
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
    """The judge, or the panel, that `how` describes."""
    where = f"judge {name!r}"
    sides = tuple(dict.fromkeys(stances))
    if not sides:
        raise ConfigurationError(where, "stances", stances, "at least one stance")
    how.plan.calls(len(sides))
    block_name = f"{name}-judge"
    taken = generator_options(options, "intent/synthesize", Visibility(), where=block_name)
    visibility: Visibility = taken["visibility"]
    if how.scored:  # the verdict is what is remembered, not each ballot
        taken["visibility"] = Visibility(client=visibility.client, history=False)
    slots = _Slots(
        sides,
        template=template,
        names=not anonymize_transcript,
        scored=how.scored,
        anonymity=anonymity if anonymize_transcript else None,
        sources=sources,
        model=taken["model"],
    )

    def seat(model: Model | str | None) -> Seat:
        @cache
        def asked(names: tuple[str, ...]) -> Generator[Any]:
            made: Generator[Any] = generator(
                name=block_name,
                prompt=slots.system,
                user=slots.turn,
                output_schema=scores_among(names) if how.scored else verdict_among(sides),
                transform=slots.ballot if how.scored else slots.verdict,
                resources={"transcript": transcript},
                **(taken if model is None else {**taken, "model": model}),
            )
            return made

        return Seat(model=model, asked=asked)

    return Judge(
        block_name,
        how=how,
        seats=[seat(model) for model in how.models or (None,)],
        sides=sides,
        labels=labels_for(sides, how.labels, where=where),
        anonymized=anonymize_transcript,
        shuffle=shuffle_for_judge,
        random=random,
        visibility=visibility,
    )


class _Slots:
    """What fills in a judge's prompt, and reads its answer, for the view that is in its context."""

    def __init__(
        self,
        sides: Sequence[str],
        *,
        template: JudgeTemplate,
        names: bool,
        scored: bool,
        anonymity: Anonymity | None,
        sources: Mapping[str, str] | None,
        model: Model | str,
    ) -> None:
        self._sides = sides
        self._model = model
        self._template = template
        self._names = names
        self._scored = scored
        self._anonymity = anonymity
        self._below = None if not sources else quotes_line(sources)

    def system(self, _: object, ctx: Context) -> str:
        if not self._scored:
            office = render_judge_system(stances=self._sides, template=self._template)
        else:
            office = render_judge_office(view=_shown(ctx).view, template=self._template)
        return office if self._below is None else f"{office}\n\n{HOW_TO_READ_QUOTES}"

    def turn(self, value: object, ctx: Context) -> str:
        shown, entries = _shown(ctx), entries_of(ctx)
        below = [] if self._below is None else [self._below(entries[index]) for index in shown.places]
        if self._anonymity is not None:
            entries, aliases = self._anonymity.entries(ctx), self._anonymity.aliases(ctx)
            below = [aliases.hide(line).text for line in below]
        ordered = labelled([entries[index] for index in shown.places], shown.view)
        return render_judge_turn(
            question=question_of(value, ctx),
            transcript=render_entries(ordered, names=self._names, below=below),
            template=self._template,
        )

    def ballot(self, answer: Any, _: ModelResponse, ctx: Context) -> JudgeBallot:  # noqa: ANN401 - see judge_answers
        """What the answer says of its view."""
        shown = _shown(ctx)
        scores = winner = None
        if self._scored:
            scores = shares_of(answer.scores, {shown.view.named(side): side for side in shown.view.order})
            from flowdebate.patterns.debate.judging.ballots import leader_of

            winner = leader_of(scores)
        else:
            winner = answer.winner
        return JudgeBallot(
            view=shown.number,
            order=list(shown.view.order),
            labels=None if shown.view.labels is None else dict(shown.view.labels),
            model=ctx.model(self._model).name if shown.model is None else shown.model,
            scores=scores,
            winner=winner,
            **({"verdict": answer.verdict, "reasoning": answer.reasoning} if self._scored else {}),
        )

    def verdict(self, answer: Any, response: ModelResponse, ctx: Context) -> JudgedVerdict:  # noqa: ANN401 - see judge_answers
        """The verdict of a judge that was asked once."""
        ballot = self.ballot(answer, response, ctx)
        return JudgedVerdict(
            verdict=answer.verdict,
            winner=answer.winner,
            reasoning=answer.reasoning,
            judging=Judging(ballots=[ballot], scores=ballot.shares),
        )


def _shown(ctx: Context) -> Shown:
    shown: Shown = ctx.scope.handles[VIEW]
    return shown
