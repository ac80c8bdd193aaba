"""The judge of a debate: a model or panel reads one or more views and returns a single verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Unpack

from flowdebate._text import error_text, one_line
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.generator import Visibility
from flowdebate.chassis.material import Material, make_material
from flowdebate.chassis.roles import SHOWN, BlockOptions, generator_options
from flowdebate.chassis.roster import bindable, with_answer_schema
from flowdebate.chassis.state import TurnOrder, question_of, recent_entries
from flowdebate.chassis.turn import (
    DEFAULT_QUORUM,
    discard,
    is_provider_failure,
    record_failure,
    recorded_failure,
)
from flowdebate.errors import BadAnswer, ConfigurationError, ModelError
from flowdebate.models.base import Model, profile_of
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.patterns.debate.schemas import JudgedVerdict
from flowdebate.patterns.debate.transcript import Transcript, render_quotes
from flowdebate.prompts import quoted
from flowdebate.runs.events import BlockAnswered
from flowdebate.sources.quotes import look_up

from .ballots import (
    MAX_LETTERS,
    PUBLISHED_CORRELATION,
    Answer,
    DecidedBy,
    JudgeBallot,
    JudgeQuote,
    Judging,
    LetterFit,
    OnFlip,
    Statement,
    decide,
    effective_n,
    is_settled,
    required_lead,
)
from .jurors import (
    JUDGE,
    NO_LOGPROBS,
    JudgeInput,
    JudgeTemplate,
    Juror,
    JurorSetup,
    LetterJuror,
    letter_views,
    letters_for,
    verdict_among,
)
from .options import LETTERS, JudgeOptions, labels_for
from .verdicts import conclude, render_ballots, reply_to, statements_of
from .views import JudgeView, ScheduleLike, apply_labels, in_view, orders_for_judge

if TYPE_CHECKING:
    from random import Random

    from flowdebate.blocks.human.human import Ask
    from flowdebate.chassis.anonymity.aliases import Anonymity
    from flowdebate.runs.context import Context
    from flowdebate.sources.source import SourcesLike


P = ParamSpec("P")


@bindable("name", "transcript", "stances", pattern="debate", role="judge", template=JudgeTemplate)
def create_judge(  # noqa: PLR0913 - the options of a judge
    *,
    name: str,
    transcript: Transcript,
    stances: Sequence[str],
    anonymize_transcript: bool = True,
    shuffle_for_judge: bool = True,
    random: Random | None = None,
    anonymity: Anonymity | None = None,
    turn_order: TurnOrder = "declared",
    template: JudgeTemplate | None = None,
    answer_form: Answer | None = None,
    schedule: ScheduleLike | None = None,
    panel: Sequence[Model | str] = (),
    decided_by: DecidedBy | None = None,
    min_log_odds: float | None = None,
    fit: LetterFit | None = None,
    quotes: bool = True,
    on_flip: OnFlip = "average",
    labels: bool | Sequence[str] = False,
    crossed_labels: bool = False,
    criteria: Mapping[str, float] | None = None,
    curtail: bool = False,
    quorum: int | None = None,
    correlation: float | None = None,
    ask: Ask | None = None,
    **options: Unpack[BlockOptions],
) -> Judge:
    """Create the block `{name}-judge`.

    The judge picks one of `stances` as the winner, or None for a synthesis of several. It sees stances instead of
    names. With `schedule="single"`, it names a winner in one call; the arguments within each round are shuffled by
    `random` (by default, derived from the run's seed: the same seed always gives the same order). Otherwise, it scores
    each side in every view, or answers with a side's letter, and all views are judged concurrently. `JudgeOptions`
    describes the options from `answer_form` to `ask`. A model with a concise profile answers with letters if none of
    these options is set, or if the only one set is a schedule with several orders.

    `verdict.judging` records the ballots, and each view emits `JudgeViewMade`. A winner outside `stances` raises
    `SchemaViolation`; if there are several ballots, unusable ones are ignored unless all of them are unusable.
    `anonymity` provides aliases for names inside arguments. With `sources`, the judge sees which quotes were verified.
    If the `turn_order` is "simultaneous", only arguments from later rounds can be quoted as replies.
    """
    how = JudgeOptions(
        answer_form=answer_form,
        schedule=schedule,
        panel=panel,
        decided_by=decided_by,
        min_log_odds=min_log_odds,
        fit=fit,
        quotes=quotes,
        on_flip=on_flip,
        labels=labels,
        crossed_labels=crossed_labels,
        criteria=criteria,
        curtail=curtail,
        quorum=quorum,
        correlation=correlation,
        ask=ask,
        template=template,
    )
    return Judge(
        how,
        name=name,
        transcript=transcript,
        stances=stances,
        anonymize_transcript=anonymize_transcript,
        shuffle_for_judge=shuffle_for_judge,
        random=random,
        anonymity=anonymity,
        sources=options.get("sources"),
        turn_order=turn_order,
        options=options,
    )


def _with_judge_signature(_: Callable[P, Judge]) -> Callable[[Callable[..., Judge]], Callable[P, Judge]]:
    """Give a function the signature of `create_judge`, which validates the options and supplies defaults."""

    def sign(function: Callable[..., Judge]) -> Callable[P, Judge]:
        function.__dict__["__signature__"] = signature(create_judge)
        return function

    return sign


@bindable("name", "transcript", "stances", pattern="debate", role="judge", template=JudgeTemplate)
@_with_judge_signature(create_judge.create)
def create_judge_panel(**options: Any) -> Judge:  # noqa: ANN401 - those of `create_judge`
    """Create the block `{name}-judge` as a panel.

    This is `create_judge` with a `panel` of models, each judging every view. All models judge the same views (with
    "single", the same shuffled view), and all ballots count. At least `quorum` models must answer (by default, two); if
    a provider fails, the panel continues without that model. `correlation` is the correlation between the models'
    errors, used to compute the verdict's `effective_n`.
    """
    if not (panel := options.get("panel")):
        raise ConfigurationError(f"judge {options.get('name')!r}", "panel", panel, "must contain at least one model")
    return create_judge.create(**options)


class Judge(Block[Any, JudgedVerdict]):
    """Judge or panel of judges, configured by `how`. Applications should call `create_judge()` instead."""

    role: str | None = "judge"

    def __init__(  # noqa: PLR0913 - what a debate knows about its judge
        self,
        how: JudgeOptions,
        *,
        name: str,
        transcript: Transcript,
        stances: Sequence[str],
        anonymize_transcript: bool = True,
        shuffle_for_judge: bool = True,
        random: Random | None = None,
        anonymity: Anonymity | None = None,
        sources: SourcesLike | Material | None = None,
        turn_order: TurnOrder = "declared",
        show: Callable[[str], str] = quoted,
        options: BlockOptions | None = None,
    ) -> None:
        location, block_name = f"judge {name!r}", f"{name}-judge"
        sides = tuple(dict.fromkeys(stances))
        if not sides:
            raise ConfigurationError(location, "stances", stances, "must contain at least one stance")
        merged_options: BlockOptions = {**(options or {}), **how.for_block()}
        material = make_material(sources, location=location)
        block_options = generator_options(merged_options, "intent/synthesize", SHOWN, location=block_name)
        self._visibility: Visibility = block_options["visibility"]
        # a panel has no single model, and the run may have no default model
        self._model: Model | str = (
            block_options["model"] if merged_options.get("model") or not how.panel else how.panel[0]
        )
        self._profile = merged_options.get("profile")
        self._setup = JurorSetup(
            name=block_name,
            sides=sides,
            shows_names=not anonymize_transcript,
            has_sources=material is not None,
            template=how.template or JUDGE,
            fit=how.fit,
            criteria=how.criteria,
            transcript=transcript,
            options=block_options,
            show=show,
        )
        self._labels = labels_for(sides, how.labels or how.crossed_labels, location=location)
        self._asking = self._ask(how)
        lettered = how.is_open and 1 < len(sides) <= MAX_LETTERS
        # only for models with a concise profile; other models may not report log-probabilities
        self._by_letter = self._ask(replace(how, answer_form="letter", model=None)) if lettered else None
        for asking in (self._asking, self._by_letter):
            if asking is not None:
                asking.planned(len(sides))  # raises an error if the schedule does not allow this many sides
        self._person = _person(block_name, how, sides, material) if how.on_flip == "human" else None
        if self._person is not None and anonymize_transcript:
            self._person = read_blind(self._person, anonymity)
        acting = [*(juror.block for juror in self._asking.jurors), *([] if self._person is None else [self._person])]
        shared, hidden = merge_resources(f"judge {block_name!r}", acting)
        super().__init__(block_name, resources=shared, hidden=hidden)
        self._acting = acting  # `seats` finds blocks by inspecting attributes
        self.how = how
        self.sides = sides
        self._anonymized = anonymize_transcript
        self._shuffle = shuffle_for_judge
        self._random = random
        # if tags show names anyway, there is no point in hiding them in arguments
        self._anonymity = anonymity if anonymize_transcript else None
        self._turn_order: TurnOrder = turn_order
        self._material = material

    async def act(self, value: object, ctx: Context, /) -> JudgedVerdict:
        question = question_of(value, ctx)
        asking = self._by_letter if self._by_letter is not None and self._is_concise(ctx) else self._asking
        first = asking.jurors[0]
        fallback: str | None = None
        if asking.how.form == "winner" and isinstance(first, Juror):
            is_asked_once = asking.how.plan.kind == "single"
            cases = self._winner_cases(1 if is_asked_once else 2, question, ctx)
            if is_asked_once:
                self._announce(cases[0], ctx)
                only: JudgedVerdict = await first.asking(cases[0])(cases[0], ctx.child(self.name, ctx.path))
                return only
            ballots = await self._winners(first, cases, ctx)
        else:
            ballots = await self._ballots(asking, question, ctx)
        if any(ballot.problem == NO_LOGPROBS for ballot in ballots):
            # only an answer reveals whether log-probabilities are reported: servers may silently omit them
            fallback = f"{asking.how.form} -> scores: {NO_LOGPROBS}"
            asking = self._ask(replace(asking.how, answer_form="scores", decided_by=None, schedule=asking.how.plan))
            ballots = await self._ballots(asking, question, ctx, step="scores")
        verdict = await self._decide(asking, ballots, question, ctx, fallback)
        if self._visibility.client:
            ctx.emit(BlockAnswered(block=self.name, output=verdict))
        if self._visibility.history:
            content = verdict.model_dump_json(by_alias=True, exclude={"judging"})
            ctx.session.history.append({"role": "assistant", "name": self.name, "content": content})
        return verdict

    def _ask(self, how: JudgeOptions) -> Asking:
        """Create the jurors required by the judge options `how`."""
        form, setup = how.form, self._setup
        if has_several_ballots(how):  # history should contain only the verdict, not every ballot
            hidden = Visibility(client=self._visibility.client, history=False)
            setup = replace(setup, options={**setup.options, "visibility": hidden})
        models = how.panel or (None,)
        if form in LETTERS:
            reasons = form == "letter_after_reasons"
            return Asking(how, [LetterJuror(setup, reasons=reasons, panel_model=model) for model in models])
        return Asking(how, [Juror(setup, scored=form == "scores", panel_model=model) for model in models])

    def _render(
        self, question: str, view: JudgeView, places: Sequence[int], ctx: Context, *, number: int = 0
    ) -> JudgeInput:
        """Render the transcript for `view`, replacing names in arguments with aliases and adding notes on quotes."""
        entries, notes = recent_entries(ctx), list[str]()
        if self._material is not None:
            sources = self._material.of_run(ctx)
            notes = [render_quotes(look_up(entries[place].text, sources)) for place in places]
        if self._anonymity is not None:
            aliases = self._anonymity.aliases(ctx)
            entries = self._anonymity.entries(ctx)[-len(entries) :]
            notes = [aliases.hide(note).text for note in notes]
        labeled = apply_labels([entries[place] for place in places], view)
        return JudgeInput(question=question, view=view, entries=labeled, notes=notes, places=places, number=number)

    def _is_concise(self, ctx: Context) -> bool:
        return (self._profile or profile_of(ctx.model(self._model))) == "concise"

    def _winner_cases(self, count: int, question: str, ctx: Context) -> list[JudgeInput]:
        """Return the inputs for naming a winner: one for the first order and, if needed, one for its mirror image.

        Each round is shuffled separately, so that no side opens every round.
        """
        entries, cases = recent_entries(ctx), list[JudgeInput]()
        orders = orders_for_judge(entries, shuffle=self._shuffle, random=self._random or ctx.random)
        for number, places in enumerate(orders[:count]):
            sides = dict.fromkeys([entries[place].stance for place in places] + [*self.sides])
            cases.append(self._render(question, JudgeView(order=tuple(sides)), places, ctx, number=number))
        return cases

    async def _winners(self, juror: Juror, cases: Sequence[JudgeInput], ctx: Context) -> list[JudgeBallot]:
        """Ask for a winner in each of the `cases`; if one call fails, so does the judge."""

        async def cast(case: JudgeInput) -> JudgeBallot:
            self._announce(case, ctx)
            # the first ballot has the same path as the answer in a single-order schedule, so that a fork with another
            # schedule can reuse it
            path = ctx.path if case.number == 0 else f"{ctx.path}/ballot[{case.number}]"
            return await juror.cast(case, ctx.child(self.name, path))

        return await in_order([partial(cast, case) for case in cases], finish=True)

    async def _ballots(self, asking: Asking, question: str, ctx: Context, *, step: str = "ballot") -> list[JudgeBallot]:
        """Collect ballots in schedule order; with `curtail`, stop once the winner is certain."""
        by_letter, crossed = asking.how.form in LETTERS, asking.how.crossed_labels
        views = asking.how.plan.views(
            self.sides,
            random=self._random or ctx.random,
            shuffle=self._shuffle,
            labels=None if by_letter or crossed else self._labels,
        )
        if by_letter or crossed:
            views = letter_views(
                views, self._labels or letters_for(len(self.sides), location=self.name), crossed=crossed
            )
        entries = recent_entries(ctx)
        calls: list[Callable[[], Awaitable[BallotCall]]] = []
        for number, view in enumerate(views):
            case = self._render(question, view, in_view(entries, view), ctx, number=number)
            for juror in asking.jurors:
                inner = ctx.child(self.name, f"{ctx.path}/{step}[{len(calls)}]")
                calls.append(partial(self._ballot, juror, replace(case, model=juror.voter), inner))
        if not self.how.curtail:
            return await self._usable(await in_order(calls, finish=True), ctx)
        # start with a majority of the calls, since fewer ballots could still be outvoted
        cast = await in_order(calls[: len(calls) // 2 + 1], finish=True)
        while not is_settled(
            [juror_ballot.ballot for juror_ballot in cast],
            remaining=len(calls) - len(cast),
            sides=self.sides,
            by=self.how.rule,
        ):
            cast.append(await calls[len(cast)]())
        return await self._usable(cast, ctx)

    async def _ballot(self, juror: Juror | LetterJuror, case: JudgeInput, ctx: Context) -> BallotCall:
        self._announce(case, ctx)
        error = recorded_failure(ctx, block=self.name)
        try:
            if error is None:
                return BallotCall(await juror.cast(case, ctx), juror, ctx)
        except ModelError as failure:
            if not (isinstance(failure, BadAnswer) or (len(self.how.panel) > 1 and is_provider_failure(failure))):
                raise
            error = failure
        lost = self._setup.open_ballot(case, ctx, problem=one_line(error_text(error)))
        return BallotCall(lost, juror, ctx, error)

    async def _usable(self, cast: Sequence[BallotCall], ctx: Context) -> list[JudgeBallot]:
        """Return all ballots cast; if too few models answered, raise the error of the first failed call."""
        failed = [(call, call.error) for call in cast if call.error is not None]
        answered = {id(call.juror) for call in cast if call.error is None}
        jurors = {id(call.juror) for call in cast}
        if failed and len(answered) < min(self.how.quorum or DEFAULT_QUORUM, len(jurors)):
            failures = {id(call.juror): (call, error) for call, error in failed} if len(self.how.panel) > 1 else {}
            for call, error in failures.values():
                name = call.juror.voter or self.name
                record_failure(error, ctx, block=self.name, role="judge", name=name, instead="skipped")
            raise failed[0][1]
        for call, error in failed:
            await discard(call.ctx, error, block=self.name)  # recorded, so that a resumed run omits the same ballots
            # if the model has other usable ballots, the verdict already states how many were unusable
            silent = id(call.juror) not in answered
            answered.add(id(call.juror))
            if silent or (is_provider_failure(error) and not isinstance(error, BadAnswer)):
                voter = call.juror.voter or self.name
                record_failure(error, ctx, block=self.name, role="judge", name=voter, instead="skipped")
        return [call.ballot for call in cast]

    async def _decide(
        self, asking: Asking, ballots: list[JudgeBallot], question: str, ctx: Context, fallback: str | None
    ) -> JudgedVerdict:
        """Combine all ballots into one verdict by counting them, or ask a person if `on_flip` requires it."""
        how, by_letter = asking.how, asking.how.form in LETTERS
        correlation = PUBLISHED_CORRELATION if self.how.correlation is None else self.how.correlation
        used = [ballot for ballot in ballots if ballot.problem is None]
        minimum = required_lead(ballots) if how.min_log_odds is None else how.min_log_odds
        decision = decide(ballots, sides=self.sides, by=how.rule, min_log_odds=minimum)
        judging = Judging(
            answer=how.form if by_letter else None,
            fallback=fallback,
            schedule=str(how.plan),
            decided_by=how.rule,
            min_log_odds=minimum,
            criteria=None if how.criteria is None else dict(how.criteria),
            ballots=ballots,
            planned=asking.planned(len(self.sides)),
            scores=decision.scores,
            flipped=decision.flipped,
            on_flip=self.how.on_flip if decision.flipped else None,
            effective_n=effective_n(max(len({ballot.model for ballot in used}), 1), correlation),
        )
        if how.form == "letter" and how.quotes:
            judging = judging.model_copy(update={"quotes": await self._quotes(asking.jurors[0], question, ctx)})
        if judging.on_flip == "human" and self._person is not None:
            answer = await self._person(FlippedBallots(subject=question, ballots=ballots), ctx.below(self._person))
            words = {"verdict": answer.verdict, "winner": answer.winner, "reasoning": answer.reasoning}
            return JudgedVerdict(**words, judging=judging)
        return conclude(judging, decision.winner, sides=self.sides, hint=self._is_concise(ctx))

    async def _quotes(self, juror: Juror | LetterJuror, question: str, ctx: Context) -> list[JudgeQuote]:
        """Collect each side's most concrete statement, as picked by the model."""
        assert isinstance(juror, LetterJuror)  # noqa: S101 - of a judge by letter
        entries, hide = recent_entries(ctx), None if self._anonymity is None else self._anonymity.aliases(ctx).hide
        sources = () if self._material is None else self._material.of_run(ctx)
        calls: list[Callable[[], Awaitable[JudgeQuote | None]]] = []
        for side in self.sides:
            if statements := statements_of(entries, side, sources):
                texts = [statement.text if hide is None else hide(statement.text).text for statement in statements]
                inner = ctx.child(self.name, f"{ctx.path}/quote[{len(calls)}]")
                calls.append(partial(self._quote, side, statements, partial(juror.pick, question, texts), inner))
        return [quote for quote in await in_order(calls, finish=True) if quote is not None]

    async def _quote(
        self,
        side: str,
        statements: Sequence[Statement],
        pick: Callable[[Context], Awaitable[int]],
        ctx: Context,
    ) -> JudgeQuote | None:
        """Pick a quote for a side; return None if the model's call fails, since quotes are optional."""
        error = recorded_failure(ctx, block=self.name)
        try:
            if error is None:
                statement = statements[0] if len(statements) == 1 else statements[await pick(ctx)]
                reply = reply_to(statement, recent_entries(ctx), turn_order=self._turn_order)
                return JudgeQuote(side=side, statement=statement, reply=reply)
        except ModelError as failure:
            if not (isinstance(failure, BadAnswer) or is_provider_failure(failure)):
                raise
            await discard(ctx, failure, block=self.name)
        return None

    def _announce(self, case: JudgeInput, ctx: Context) -> None:
        ctx.emit(
            JudgeViewMade(
                block=self.name,
                order=tuple(case.places),
                anonymized=self._anonymized,
                view=case.number,
                model=case.model,
            )
        )

    def outline(self) -> Outline:
        how = self.how
        text = self.name
        if has_several_ballots(how):
            text = f"{text} ({how.plan}, {self._asking.planned(len(self.sides))} ballots)"
        return Outline(text=text, kind="generator")


def has_several_ballots(how: JudgeOptions) -> bool:
    """Check whether a judge's verdict is a count of ballots rather than a single answer."""
    return how.form != "winner" or how.plan.kind != "single"


class Asking(NamedTuple):
    """A judge's options, together with its jurors."""

    how: JudgeOptions
    jurors: Sequence[Juror | LetterJuror]

    def planned(self, sides: int) -> int:
        """Return the total number of ballots; raise ConfigurationError if there are too many sides."""
        return self.how.plan.calls(sides) * len(self.jurors) * (sides if self.how.crossed_labels else 1)


class BallotCall(NamedTuple):
    """Result of requesting one ballot: the ballot, its juror and context, and the error if the request failed."""

    ballot: JudgeBallot
    juror: Juror | LetterJuror
    ctx: Context
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedBallots:
    """Input for the human who decides a flipped verdict."""

    subject: str
    ballots: Sequence[JudgeBallot]


def read_blind(block: Block[Any, Any], anonymity: Anonymity | None) -> Block[Any, Any]:
    """Hide from a human judge everything that is hidden from models.

    The input to `block` then contains stances instead of names, and aliases within arguments.
    """
    blinded: Callable[[object], Block[Any, Any]] | None = getattr(block, "reading_blind", None)
    return block if blinded is None else blinded(recent_entries if anonymity is None else anonymity.entries)


def _person(name: str, how: JudgeOptions, sides: Sequence[str], material: Material | None) -> Block[Any, Any]:
    """Create the human block that decides a flipped verdict."""
    from flowdebate.blocks.human.human import human

    def render_ballot_list(flipped: FlippedBallots) -> str:
        return render_ballots(flipped.ballots)

    prompt = "The judge found otherwise when it was shown the arguments in another order. Decide."
    person = human(name=f"{name}-human", prompt=prompt, context=render_ballot_list, ask=how.ask)
    return with_answer_schema(person, lambda: verdict_among(sides), material=material)
