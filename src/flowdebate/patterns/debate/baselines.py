"""Baselines for a debate: a single call, a vote among first drafts, and samples or revisions with the same budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any, Self, Unpack, get_args

from pydantic import Field, create_model

from flowdebate._text import error_text, join_choices, one_line
from flowdebate._util.option_types import check_option
from flowdebate._util.validation import check_count
from flowdebate._util.wire import WireModel, one_of
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.output import publish
from flowdebate.chassis.roles import BlockOptions, FilledOptions, generator_options
from flowdebate.chassis.roster import Debater, check_roster
from flowdebate.chassis.state import question_of
from flowdebate.chassis.turn import in_time, is_provider_failure
from flowdebate.errors import BadAnswer, ConfigurationError, LimitReached
from flowdebate.measures import Ballot
from flowdebate.measures.votes import tally
from flowdebate.models.base import Model, ModelResponse, Usage
from flowdebate.models.resolve import ModelChoice
from flowdebate.prompts import Template, filled, listed, part, quoted, tag_text, uses
from flowdebate.runs.context import Context
from flowdebate.runs.events import ModelCalled

from .baseline_names import BASELINES, BUDGETED, BaselineName, Equal
from .schemas import BaselineAnswer, DebateRawOutput


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options for baselines: `debate(baselines=BaselineOptions(["self_consistency"], equal="cost"))`."""

    names: bool | Sequence[BaselineName] = True
    """Names of the baselines; True selects a single call, a vote among first drafts, and a vote among as many samples
    as fit in the debate's token budget.
    """
    equal: Equal | None = field(default=None, kw_only=True)
    """Unit of the budget for self-consistency and revision: "tokens" (the default), "completion_tokens", "cost"
    (requires `prices` in the run's limits) or "calls".
    """

    def __post_init__(self) -> None:
        location = type(self).__name__
        check_option(Equal, "equal", self.equal, location=location)
        read_baselines(self.names, location=location)

    @property
    def has_budget(self) -> bool:
        """True if any of the baselines gets the same budget as the debate."""
        return not BUDGETED.isdisjoint(read_baselines(self.names, location=type(self).__name__))


def as_baselines(
    value: bool | Sequence[BaselineName] | BaselineOptions,  # noqa: FBT001 - an option of that kind
    *,
    location: str,
) -> BaselineOptions | None:
    """Convert the value of `debate(baselines=…)` to options; return None if no baselines are requested."""
    if isinstance(value, BaselineOptions):
        # keep the options if only `equal` is set, so that this mistake is reported
        return None if not value.names and value.equal is None else value
    return BaselineOptions(value) if read_baselines(value, location=location) else None


@dataclass(frozen=True, kw_only=True)
class BaselineTemplate(Template):
    """Prompt templates for a baseline."""

    system: str = part(
        "Decide which of several positions on a question is right.\n\n"
        "Positions:\n{positions}\n\n"
        "The order in which they are listed has no meaning. Answer in this order:\n"
        "- Reasoning: what speaks for and against each position.\n"
        "- Winner: exactly one of the positions, as it is written above.",
        uses("positions"),
    )
    turn: str = part("Question: {question}\n\nWhich position is right, and why?", uses("question"))
    revision: str = part(
        "Question: {question}\n\nYou have answered this question before. Your reasoning was: {reasoning}\n\n"
        "Your answer was: {winner}\n\nReconsider it: look for mistakes in your reasoning and for anything that it left "
        "out. Then answer again: which position is right, and why?",
        uses("question", "reasoning", "winner"),
    )
    """Template for the question and an earlier answer to revise."""


BASELINE = BaselineTemplate()


def render_baseline_system(*, positions: Sequence[str], template: BaselineTemplate = BASELINE) -> str:
    """Render the task and the `positions`, in the order given."""
    return filled(template.system, positions=listed(*map(tag_text, positions)))


def render_baseline_turn(*, question: str, draft: Draft | None = None, template: BaselineTemplate = BASELINE) -> str:
    """Render the question, and the `draft` to revise, if any."""
    if draft is None:
        return filled(template.turn, question=quoted(question))
    draft_fields = {"reasoning": quoted(draft.reasoning), "winner": tag_text(draft)}
    return filled(template.revision, question=quoted(question), **draft_fields)


class Draft(str):
    """Position chosen in an answer, with the reasoning behind it; a later revision reuses both."""

    __slots__ = ("reasoning",)

    reasoning: str

    def __new__(cls, winner: str, reasoning: str) -> Self:
        vote = super().__new__(cls, winner)
        vote.reasoning = reasoning
        return vote


def direct_answer(
    name: str, order: tuple[str, ...], template: BaselineTemplate, options: FilledOptions
) -> Generator[Draft]:
    """Create the block `name`, which answers a question (or revises a draft) with a position.

    The prompt lists the positions in the given `order`, and `options` are passed to `generator`. Any answer other than
    a position raises `SchemaViolation`.
    """

    def turn(task: str | tuple[str, Draft]) -> str:
        question, draft = (task, None) if isinstance(task, str) else task
        return render_baseline_turn(question=question, draft=draft, template=template)

    def winner(answer: Any, _: ModelResponse, __: Context) -> Draft:  # noqa: ANN401 - the model made below
        return Draft(answer.winner, answer.reasoning)

    return generator(
        name=name,
        prompt=render_baseline_system(positions=order, template=template),
        user=turn,
        output_schema=answer_among(order),
        transform=winner,
        **options,
    )


@lru_cache(maxsize=256)  # cached because even a thousand debates between the same sides use only a few orders
def answer_among(positions: tuple[str, ...]) -> type[WireModel]:
    """Build the answer schema; the reasoning comes first, because models commit to whatever they write first."""
    return create_model(
        "DirectAnswer",
        __base__=WireModel,
        reasoning=(str, Field(description="What speaks for and against each position")),
        winner=(one_of(positions), Field(description="The position that is right")),
    )


# maximum number of concurrent samples: a larger wave could exceed the budget before any call reports its usage
_WAVE = 8


def read_baselines(value: bool | Sequence[BaselineName], *, location: str) -> tuple[BaselineName, ...]:  # noqa: FBT001 - an option of that kind
    """Return the baselines named by `value`, cheapest first; raise ConfigurationError if `value` is invalid.

    >>> read_baselines(["drafts", "single"], location="debate 'rent'")
    ('single', 'drafts')
    """
    if isinstance(value, bool):
        return BASELINES if value else ()
    names: tuple[BaselineName, ...] = get_args(BaselineName)
    wrong = isinstance(value, str) or not isinstance(value, Sequence) or any(name not in names for name in value)
    if wrong or len(set(value)) < len(value):
        raise ConfigurationError(
            location,
            "baselines",
            value,
            f"must be true, false, or a list of distinct names from {join_choices(names)}",
        )
    return tuple(name for name in names if name in value)


def create_baselines(
    *,
    name: str,
    stances: Sequence[str],
    models: Sequence[Model | str | None] | None = None,
    baselines: bool | Sequence[BaselineName] = True,
    max_samples: int = 64,
    equal: Equal = "tokens",
    template: BaselineTemplate = BASELINE,
    **options: Unpack[BlockOptions],
) -> Baselines:
    """Create the block `{name}-baselines`: up to four ways to pick a stance without a debate.

    - "single": one call to the default model (`options["model"]`, or `"intent/chat"` if it is None).
    - "drafts": a vote among independent answers, one from each of `models`, the debaters' models (None stands for the
      default model); if `models` is omitted, the default model answers once per stance.
    - "self_consistency": a vote among several answers from the default model: as many as fit in the number of tokens
      that the debate has used so far, from 1 to `max_samples`. `equal` selects a unit other than tokens:
      "completion_tokens", "cost" (based on the `prices` in the run's limits) or "calls". If a server does not report
      token usage, the number of calls is used instead.
    - "revision": a vote among the same drafts after revision: each model revises its own draft as often as the same
      budget allows, without seeing the other drafts. If a debate does better than this baseline, the gain is due
      to the other debaters' arguments (Bertalanič and Fortuna, arXiv 2605.00914).

    Each call sees the question and the positions, in an order drawn from the run's seed; a revision also sees its
    previous answer. The remaining `options` apply to the default blocks: baselines have the same tools, context and
    settings as debaters. If a provider fails, or one of the run's limits stops a call, the missing answer is not
    counted and the debate continues.
    """
    block_name = f"{name}-baselines"
    positions = tuple(dict.fromkeys(stances))
    if not positions:
        raise ConfigurationError(block_name, "stances", stances, "must contain at least one stance")
    check_count(block_name, max_samples=max_samples)
    if equal not in get_args(Equal):
        raise ConfigurationError(block_name, "equal", equal, choices=get_args(Equal))
    names = read_baselines(baselines, location=block_name)
    if equal != "tokens" and not BUDGETED.intersection(names):
        raise ConfigurationError(block_name, "equal", None, f"requires {' or '.join(sorted(BUDGETED))}")
    return Baselines(
        block_name,
        positions=positions,
        models=tuple([None] * len(stances) if models is None else models),
        names=names,
        max_samples=max_samples,
        equal=equal,
        template=template,
        options=generator_options(options, "intent/chat", Visibility(client=False, history=False), location=block_name),
    )


@dataclass(frozen=True, slots=True)
class _Vote:
    """One answer: a position, or the reason why there is none."""

    winner: Draft | None = None
    problem: str | None = None


class Baselines(Block[Any, list[BaselineAnswer]]):
    """Block that answers a question without a debate. Applications should call `create_baselines()` instead."""

    role: str | None = "baseline"

    def __init__(
        self,
        name: str,
        *,
        positions: tuple[str, ...],
        models: tuple[Model | str | None, ...],
        names: tuple[BaselineName, ...],
        max_samples: int,
        equal: Equal,
        template: BaselineTemplate,
        options: FilledOptions,
    ) -> None:
        self._positions = positions
        self._models = models
        self._asked = names
        self._max_samples = max_samples
        self._equal = equal
        self._template = template
        self._options = options
        # keyed by the model and the order of the positions
        self._asking = lru_cache(maxsize=256)(self._create_generator)
        shared, hidden = merge_resources(f"baselines {name!r}", [direct_answer(name, positions, template, options)])
        super().__init__(name, resources=shared, hidden=hidden)

    async def act(self, value: object, ctx: Context, /) -> list[BaselineAnswer]:
        around = ctx.scope.sequencer  # the debate either encloses this block or runs before it (`with_baselines`)
        debate = ctx.path.rpartition("/")[0].rpartition("/")[0] if around is None else around.path

        async def count() -> Usage:
            return _used(ctx, debate)

        # recorded, so that a resumed run takes the same number of samples
        budget = await ctx.step(count, key="budget", returns=Usage)
        self.check_prices(ctx)
        question = question_of(value, ctx)
        total = self._amount(budget, ctx, debate)  # computed before the baselines use any tokens
        return await in_order([partial(self._answer, name, question, budget, total, ctx) for name in self._asked])

    def check_prices(self, ctx: Context) -> None:
        """Raise ConfigurationError if `equal` is "cost" but the run's limits lack a price for one of the models."""
        budget = ctx.run.budget
        if self._equal == "cost" and (
            budget is None
            or budget.cost is None
            or any(budget.price_of(ctx.model(model).name, Usage.zero()) is None for model in self._models)
        ):
            problem = "cannot be cost without `prices` in the run's limits (--price on the command line)"
            raise ConfigurationError(self.name, "equal", None, problem)

    async def _answer(
        self, name: BaselineName, question: str, budget: Usage, total: float | None, ctx: Context
    ) -> BaselineAnswer:
        """Return a baseline's answer and usage."""
        money = ctx.run.budget
        place = f"{ctx.path}/{name}"
        if name == "self_consistency":
            votes = await self._samples(question, budget.calls, total, ctx, place)
        elif name == "revision":
            votes = await self._revisions(question, budget.calls, total, ctx, place)
        else:
            models = range(len(self._models)) if name == "drafts" else (None,)
            votes = await self._votes(question, models, ctx, place)
        used, winner = _used(ctx, place), None
        ballots = [Ballot(voter=str(index), choice=vote.winner) for index, vote in enumerate(votes) if vote.winner]
        if ballots:
            voters = [ballot.voter for ballot in ballots]
            winner = tally(ballots, choices=self._positions, eligible=voters, quorum=1).winner
        return BaselineAnswer(
            name=name,
            winner=winner,
            votes={position: sum(vote.winner == position for vote in votes) for position in self._positions},
            calls=used.calls,
            prompt_tokens=used.prompt_tokens,
            cached_tokens=used.cached_tokens,
            completion_tokens=used.completion_tokens,
            cost=None if money is None or money.cost is None else _price(ctx, place) or 0.0,
            lost=sum(vote.problem is not None for vote in votes),
            problem=next((vote.problem for vote in votes if vote.problem is not None), None),
        )

    async def _samples(self, question: str, calls: int, total: float | None, ctx: Context, place: str) -> list[_Vote]:
        """Collect answers from the default model for as long as the budget `total` allows, up to `max_samples`.

        If the usage is unknown or the unit is calls, `calls` answers are collected. Collection ends early if all
        concurrent calls fail.
        """
        votes: list[_Vote] = []
        while room := min(
            _remaining_calls(total, self._amount(_used(ctx, place), ctx, place), calls, len(votes)),
            self._max_samples - len(votes),
            _WAVE,
        ):
            wave = await self._votes(question, [None] * room, ctx, place, first=len(votes) + 1)
            votes += wave
            if all(vote.problem is not None for vote in wave):
                break  # if all concurrent calls have failed, another attempt is unlikely to succeed
        return votes

    async def _revisions(self, question: str, calls: int, total: float | None, ctx: Context, place: str) -> list[_Vote]:
        """Have the debaters' models revise their answers for as long as the budget allows.

        Returns the final revisions.
        """
        votes: list[_Vote] = []
        model_numbers, number = range(len(self._models)), 0
        while number < self._max_samples and (
            not votes
            or _remaining_calls(total, self._amount(_used(ctx, place), ctx, place), calls, number) >= len(model_numbers)
        ):
            wave = await self._votes(question, model_numbers, ctx, place, first=number + 1, drafts=votes)
            if votes and all(vote.problem is not None for vote in wave):
                # if all revisions have failed, more attempts are unlikely to succeed; a failed revision keeps the
                # earlier answer
                break
            pairs = zip(votes or wave, wave, strict=True)
            votes = [replace(new, winner=new.winner or old.winner) for old, new in pairs]
            number += len(model_numbers)
        return votes

    def _amount(self, used: Usage, ctx: Context, place: str) -> float | None:
        """Convert the usage of the calls made under the path `place` to the budget's unit.

        Returns None if the unit is calls or the usage is unknown.
        """
        match self._equal:
            case "tokens":
                return used.total_tokens
            case "completion_tokens":
                return used.completion_tokens
            case "cost":
                return _price(ctx, place)
            case "calls":
                return None

    async def _votes(
        self,
        question: str,
        voters: Sequence[int | None],
        ctx: Context,
        place: str,
        *,
        first: int = 1,
        drafts: Sequence[_Vote] = (),
    ) -> list[_Vote]:
        """Ask each voter's model for an answer, or for a revision of its draft.

        If a voter is None, the default model answers.
        """
        calls = [
            partial(self._vote, question, voter, ctx.child(self.name, f"{place}[{first + index}]"), draft)
            for index, (voter, draft) in enumerate(zip_longest(voters, drafts))
        ]
        return await in_order(calls)

    async def _vote(self, question: str, voter: int | None, ctx: Context, draft: _Vote | None) -> _Vote:
        """Request one answer, listing the positions in random order."""
        order = tuple(ctx.random.sample(self._positions, len(self._positions)))
        asking = self._asking(order, voter)
        task = question if draft is None or draft.winner is None else (question, draft.winner)
        try:
            winner = await in_time(
                asking(task, ctx), ctx, block=self.name, place=ctx.path, timeout=None, losses=_can_continue
            )
        except Exception as error:
            if not _can_continue(error):
                raise
            return _Vote(problem=one_line(error_text(error)))
        return _Vote(winner)

    def _create_generator(self, order: tuple[str, ...], voter: int | None) -> Generator[Draft]:
        model = None if voter is None else self._models[voter]
        options = self._options if model is None else {**self._options, "model": model}
        return direct_answer(self.name, order, self._template, options)

    def outline(self) -> Outline:
        return Outline(text=f"{self.name} ({', '.join(self._asked)})", kind="generator")


def _can_continue(error: BaseException) -> bool:
    """Check whether the debate can continue after `error`: a failed baseline must not cost the debate its verdict."""
    return isinstance(error, (BadAnswer, LimitReached)) or is_provider_failure(error)


def _remaining_calls(budget: float | None, spent: float | None, calls: int, votes: int) -> int:
    """Estimate how many more answers fit in the budget, based on the answers so far; return 1 if there are none yet."""
    if not votes:
        return 1
    if not budget or not spent:  # if usage is unknown or the unit is calls, match the debate's number of calls
        return max(calls - votes, 0)
    return max(int((budget - spent) * votes // spent), 0)


def _used(ctx: Context, place: str) -> Usage:
    """Return the combined usage of all calls made so far under the path `place`."""
    return sum((event.usage for event in _calls(ctx, place)), start=Usage.zero())


def _price(ctx: Context, place: str) -> float | None:
    """Return the cost of all calls made so far under the path `place`, or None if no prices are known."""
    budget = ctx.run.budget
    costs = [] if budget is None else [budget.price_of(event.model, event.usage) for event in _calls(ctx, place)]
    priced = [cost for cost in costs if cost is not None]
    return math.fsum(priced) if priced else None


def _calls(ctx: Context, place: str) -> Iterator[ModelCalled]:
    for event in ctx.run.records.events:
        if isinstance(event, ModelCalled) and (not place or event.path.startswith((f"{place}/", f"{place}["))):
            yield event


def with_baselines(
    pattern: Block[Any, Any],
    debaters: Sequence[Debater | Mapping[str, Any]],
    *,
    baselines: bool | Sequence[BaselineName] | BaselineOptions = True,
    max_samples: int = 64,
    **options: Unpack[BlockOptions],
) -> Sequencer[Any, Any]:
    """Add baselines to `pattern`, a debate between `debaters`.

    The baselines run after the verdict; see `create_baselines`. Their answers are stored in `raw.baselines`, and the
    debate's output is returned unchanged. A failed baseline does not affect the verdict. `options` apply to the default
    blocks, and should match those of the debate.

    >>> from flowdebate import debate
    >>> from flowdebate.testing import FunctionModel
    >>> def answer(request):
    ...     asked = request.output_schema and request.output_schema["properties"]
    ...     said = {"reasoning": "It follows.", "winner": "free rents", "verdict": "Free them."}
    ...     return {key: said[key] for key in asked} if asked else "Build more."
    >>> sides = [{"name": "a", "stance": "cap rents"}, {"name": "b", "stance": "free rents"}]
    >>> rent = with_baselines(debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False), sides)
    >>> result = rent.run_sync("Should rents be capped?", model=FunctionModel(answer))
    >>> [(found.name, found.winner, found.calls) for found in result.raw.baselines]
    [('single', 'free rents', 1), ('drafts', 'free rents', 2), ('self_consistency', 'free rents', 3)]
    """
    location = f"with_baselines({pattern.name!r})"
    roster = check_roster(debaters, location=location, maximum=None)
    compared = as_baselines(baselines, location=location)
    if compared is None:
        raise ConfigurationError(location, "baselines", baselines, "must contain at least one baseline")
    model = options.pop("model", None)
    return add_baselines(pattern, roster, model=model, baselines=compared, max_samples=max_samples, options=options)


def add_baselines(
    pattern: Block[Any, Any],
    roster: Sequence[Debater],
    *,
    model: ModelChoice,
    baselines: BaselineOptions,
    options: BlockOptions,
    max_samples: int = 64,
) -> Sequencer[Any, Any]:
    """Add baselines to `pattern`; `model` is the default model for all calls."""
    equal = baselines.equal or "tokens"
    compared = create_baselines(
        name=pattern.name,
        stances=[debater.stance for debater in roster],
        models=[debater.model for debater in roster],
        baselines=baselines.names,
        max_samples=max_samples,
        equal=equal,
        **options,
    )

    def _debate(ctx: Context) -> DebateRawOutput:
        raw = ctx.run.raw_output
        assert isinstance(raw, DebateRawOutput)  # noqa: S101 - `pattern` has ended
        return raw

    def has_verdict(_: object, ctx: Context) -> bool:
        return bool(_debate(ctx).verdict)

    def _question(_: object, ctx: Context) -> str:
        return _debate(ctx).question

    def _keep(answers: list[BaselineAnswer], ctx: Context) -> None:
        publish(_debate(ctx).model_copy(update={"baselines": answers}), ctx, path=ctx.path)

    def _output(output: object, ctx: Context) -> object:
        return ctx.run.raw_output if isinstance(output, DebateRawOutput) else output

    def _check_prices(_: object, ctx: Context) -> None:
        compared.check_prices(ctx)  # check before the debate incurs any cost

    pipeline: Sequencer[Any, Any] = sequencer(name=pattern.name, model=model)
    pipeline = pipeline.tap(_check_prices) if equal == "cost" else pipeline
    comparing = sequencer(name=f"{pattern.name}-compare").map(_question).then(compared).map(_keep)
    return pipeline.then(pattern).tap_if(has_verdict, comparing).map(_output)
