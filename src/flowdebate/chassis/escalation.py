"""Escalation: steps that answer a question, from the cheapest to the most thorough; the first to settle it decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from flowdebate._text import is_blank
from flowdebate._util.option_types import Share, check_option
from flowdebate._util.wire import extend_frozen, new_list
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.functions import (
    BlockLike,
    Handler,
    as_block,
    decision,
    function_name,
    handler,
    invocation,
    result_text,
)
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.agreement import Agreement, AgreementCheck, AnswerPair
from flowdebate.chassis.output import Entry, PatternOutput, ending_of, mark_answer, publish
from flowdebate.chassis.state import (
    DebateStatus,
    EscalationStep,
    EscalationStepFinished,
    PatternInput,
    PatternState,
    ProviderFailure,
    state_of,
)
from flowdebate.chassis.turn import SKIP, FailurePolicy, in_time, record_failure
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import Usage
from flowdebate.runs.context import Context, place_of
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.events import RunStatus


@dataclass(frozen=True, slots=True)
class Confidence:
    """Rule of an escalation: a step decides if its output has a `confidence` of at least `least`."""

    least: float

    def __post_init__(self) -> None:
        check_option(Share, "least", self.least, where="Confidence", optional=False)


Rule: TypeAlias = Literal["agreement", "settled"] | Agreement | Confidence | Callable[..., Any]
"""When a step ends an escalation.

- "agreement", or `Agreement` with a model or a function: its answer agrees with that of an earlier step.
- "settled": the step's own result says so. In a debate all ballots name the winner, a council has no dissent, a review
  no disputed finding, a consensus debate a consensus, and no claim of a critique holds.
- `Confidence(0.9)`: the `confidence` in its output is high enough.
- A function of the step's output, or of the output and the context: it returns True. The output of a pattern is its raw
  output; `ctx.sequencer.state.steps` has the steps before.
"""
_RULES = '"agreement", "settled", Agreement(…), Confidence(…) or a function of the output'


class EscalationState(PatternState):
    """State of an escalation's sequencer, as `ctx.sequencer.state` shows it to its steps."""

    steps: list[EscalationStep] = Field(default_factory=new_list)
    """The steps so far, failed ones excluded."""

    @property
    def is_decided(self) -> bool:
        """Whether a step has ended the escalation."""
        return bool(self.steps) and self.steps[-1].reason is not None


class EscalationOutput(PatternOutput):
    """The output of an escalation."""

    transcript_field: ClassVar[str] = "steps"

    question: str
    steps: list[EscalationStep]
    """The steps that answered, in order."""
    skipped: list[str] = Field(default_factory=new_list)
    """The steps that were not needed."""
    answer: Any = None
    """The answer of the last step, in words: the one that decided, unless the run ended early (see `status`)."""
    output: Any = None
    """The output of that step; of a pattern its raw output."""
    stop_reason: str | None = None
    """Why the last step was the last one, such as "agrees with first"; None if the run ended early."""
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=new_list)
    seed: int | None = None

    @property
    def decided_by(self) -> str | None:
        """The name of the step that decided; None if the run ended early."""
        return self.steps[-1].name if self.steps and self.stop_reason is not None else None

    @property
    def decision_word(self) -> str | None:
        return self.decided_by

    @property
    def calls(self) -> int:
        """Calls of all steps, and of the checks between them."""
        return sum(step.calls + step.check_calls for step in self.steps)

    @property
    def entries(self) -> list[Entry]:
        """The answers, each as a round of its own."""
        return [
            Entry(round=number, speaker=step.name, text=step.answer or "") for number, step in enumerate(self.steps, 1)
        ]

    def find_repetitions(self) -> list[str]:
        """Return no remarks: steps that give the same answer are what an escalation looks for."""
        return []


MakeOutput: TypeAlias = "Callable[[EscalationState, Context, RunStatus, object], PatternOutput]"
"""Makes the raw output of the state, the context, the status, and the output of the last step so far."""


def escalate(
    *,
    name: str,
    steps: Sequence[BlockLike],
    until: Rule | Mapping[str, Rule] = "agreement",
    failures: FailurePolicy | None = None,
    model: ModelChoice = None,
) -> Sequencer[Any, EscalationOutput]:
    """A block that passes its question to `steps`, one after another, and stops at the first that settles it.

    A step is a pattern, or any block or function that takes the question. `until` is the rule for all steps, or one for
    each by its name; a step without a rule never ends the escalation, and the last one always does. A step whose
    provider fails is left out, unless `failures` says otherwise; if it was the last one, the answer before it stands.
    `model` is the default for all blocks inside.

    >>> from flowdebate import handler
    >>> steps = [handler(lambda question: "42", name=name) for name in ("first", "second", "third")]
    >>> result = escalate(name="answer", steps=steps).run_sync("6 * 7?")
    >>> result.output.answer, result.output.decided_by, result.output.stop_reason, result.output.skipped
    ('42', 'second', 'agrees with first', ['third'])
    """
    return make_escalation(name=name, steps=steps, until=until, failures=failures, model=model)


def make_escalation(
    *,
    name: str,
    steps: Sequence[BlockLike],
    until: Rule | Mapping[str, Rule],
    failures: FailurePolicy | None = None,
    model: ModelChoice = None,
    make_output: MakeOutput | None = None,
) -> Sequencer[Any, Any]:
    """The pipeline of `escalate`, which may make another raw output."""
    where = f"escalate {name!r}"
    blocks = _check_steps(steps, where)
    names = [block.name for block in blocks]
    rules = _check_rules(until, names, where)
    policy = (failures or SKIP).over(SKIP)
    make = make_output or _make_output(names)
    pipeline = sequencer(name=name, state=EscalationState, model=model, protected=True).tap(_stamp(name, make))
    for number, block in enumerate(blocks, 1):
        rule = None if number == len(blocks) else rules.get(block.name)
        check = None if rule is None or (number == 1 and _compares(rule)) else _Check(rule)
        step = _Step(block, number, check, last=number == len(blocks), failures=policy)
        pipeline = pipeline.tap_if(_goes_on, step)

    @handler(name=f"{name}-output")
    def build(_: object, ctx: Context) -> PatternOutput:
        state = state_of(ctx, EscalationState)
        return publish(make(state, ctx, "degraded" if state.losses else "complete", _last_output(ctx)), ctx)

    return pipeline.then(build)


def _check_steps(steps: object, where: str) -> list[Block[Any, Any]]:
    if not isinstance(steps, Sequence) or isinstance(steps, str) or not steps:
        raise ConfigurationError(where, "steps", steps, "a list of at least one block or function")
    blocks = [
        as_block(step, name=function_name(step) if callable(step) else "", where=where, field=f"steps[{index}]")
        for index, step in enumerate(steps)
    ]
    names = [block.name for block in blocks]
    if len({*names}) < len(names):
        raise ConfigurationError(where, "steps", names, "blocks with different names")
    return blocks


def _check_rules(until: object, names: Sequence[str], where: str) -> Mapping[str, Rule]:
    if not isinstance(until, Mapping):
        return dict.fromkeys(names, _check_rule(until, where, "until"))
    for key in until:
        if key not in names[:-1]:
            allowed = f"the name of a step before the last: {', '.join(names[:-1]) or 'there is none'}"
            raise ConfigurationError(where, "until", key, allowed)
    return {key: _check_rule(rule, where, f"until[{key!r}]") for key, rule in until.items()}


def _check_rule(rule: Any, where: str, field: str) -> Rule:  # noqa: ANN401 - what it checks
    if rule in ("agreement", "settled") or isinstance(rule, (Agreement, Confidence)):
        checked: Rule = rule
        return checked
    if not callable(rule) or isinstance(rule, Block):
        raise ConfigurationError(where, field, rule, _RULES)
    invocation(rule, where=where, field=field)
    function: Rule = rule
    return function


def _compares(rule: Rule) -> bool:
    """Whether a rule is about earlier answers, which the first step does not have."""
    return rule == "agreement" or isinstance(rule, Agreement)


def _stamp(name: str, make: MakeOutput) -> Handler[Any, None]:
    """A tap that keeps the question, and registers the output of a run that ends early."""

    @handler(name=f"{name}-question")
    def stamp(value: object, ctx: Context) -> None:
        ctx.scope.handle.update(question=value.subject if isinstance(value, PatternInput) else result_text(value))

        def partial(status: RunStatus) -> PatternOutput:
            unfinished = ctx.run.partial_output(status, below=ctx.sequencer.path)
            output = _last_output(ctx) if unfinished is None else unfinished
            return make(state_of(ctx, EscalationState), ctx, status, output)

        ctx.run.register_partial_output(ctx.sequencer.path, partial)

    return stamp


def _goes_on(_: object, ctx: Context) -> bool:
    return not state_of(ctx, EscalationState).is_decided


_OUTPUT = "output"
"""Key of the last step's output among what the escalation has derived: it may be of any type, and is not frozen."""


def _last_output(ctx: Context) -> object:
    return ctx.scope.handle.derived.get(_OUTPUT)


def _make_output(names: Sequence[str]) -> MakeOutput:
    def make(state: EscalationState, ctx: Context, status: RunStatus, output: object) -> EscalationOutput:
        last = state.steps[-1] if state.steps else None
        ending = {**ending_of(ctx, status), "stop_reason": None if last is None else last.reason}
        return EscalationOutput(
            question=state.question,
            steps=list(state.steps),
            skipped=list(names[state.round :]) if state.is_decided else [],
            answer=None if last is None else mark_answer(last.answer, state.losses),
            output=output,
            **ending,
        )

    return make


class _Step(Block[Any, Any]):
    """Runs one step, and decides whether it ends the escalation."""

    def __init__(
        self, inner: Block[Any, Any], number: int, check: _Check | None, *, last: bool, failures: FailurePolicy
    ) -> None:
        shared, hidden = merge_resources(f"escalation step {inner.name!r}", [inner])
        super().__init__(inner.name, resources=shared, hidden=hidden)
        self._inner = inner
        self._number = number
        self._check = check
        self._last = last
        self._failures = failures

    async def act(self, value: object, ctx: Context, /) -> None:
        handle = ctx.scope.handle
        handle.update(round=self._number)
        earlier = state_of(ctx, EscalationState).steps
        with ctx.run.watch_raw_output(ctx.path) as raw_output:
            begin = len(ctx.run.records.events)
            try:
                result = await self._in_time(self._inner(value, ctx), ctx, self._inner)
            except Exception as error:
                if not self._failures.tolerates(error) or (self._last and not earlier):
                    raise
                self._lose(error, ctx, role="step", name=self.name)
                if self._last:  # the answer before this step is the best there is
                    last = earlier[-1].model_copy(update={"reason": "last answer"})
                    handle.update(steps=extend_frozen(earlier[:-1], last))
                return
            raw = raw_output()
        output = raw if isinstance(raw, PatternOutput) else result
        answer = _answer_in(result if isinstance(result, str) else output)
        step = EscalationStep(name=self.name, answer=answer, **_cost(ctx, begin))
        begin, reason = len(ctx.run.records.events), "last step" if self._last else None
        if self._check is not None:
            try:
                judged = _Judged(output=output, step=step, earlier=earlier)
                reason = await self._in_time(self._check(judged, ctx.below(self._check)), ctx, self._check)
            except Exception as error:
                if not self._failures.tolerates(error):
                    raise
                self._lose(error, ctx, role="judge", name=self._check.name)
        cost = {f"check_{key}": count for key, count in _cost(ctx, begin).items()}
        step = step.model_copy(update={"reason": reason, **cost})
        handle.derived[_OUTPUT] = output
        handle.update(steps=extend_frozen(earlier, step))
        ctx.emit(EscalationStepFinished(step=step))

    async def _in_time(self, call: Any, ctx: Context, block: Block[Any, Any]) -> Any:  # noqa: ANN401 - of any block
        policy = self._failures
        return await in_time(call, ctx, block=block.name, timeout=policy.turn_timeout, losses=policy.tolerates)

    def _lose(self, error: Exception, ctx: Context, *, role: str, name: str) -> None:
        instead: Literal["earlier_answer", "next_step"] = "earlier_answer" if self._last else "next_step"
        record_failure(error, ctx, block=self.name, role=role, name=name, instead=instead)

    def outline(self) -> Outline:
        inner = self._inner.outline()
        if self._check is None:
            return inner
        return Outline(text=self.name, kind="sequencer", children=(inner, self._check.outline()))


def _cost(ctx: Context, begin: int) -> dict[str, Any]:
    """Calls and tokens of the step around `ctx` since the event at `begin`."""
    usage, place = Usage.none(), f"{ctx.path}/"
    for event in ctx.run.records.events[begin:]:
        if isinstance(event, ModelCalled) and (event.path == ctx.path or event.path.startswith(place)):
            usage += event.usage
    return {"calls": usage.calls, "tokens": usage.total_tokens}


def _answer_in(output: object) -> str | None:
    """The answer in the output of a step, in words; None for none."""
    if isinstance(output, Mapping):
        answer = output.get("answer", output)
    else:
        answer = getattr(output, "answer", None if isinstance(output, PatternOutput) else output)
    text = "" if answer is None else result_text(answer)
    return None if is_blank(text) else str(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The step that a rule is about."""

    output: object
    step: EscalationStep
    earlier: Sequence[EscalationStep]


class _Check(Block[_Judged, "str | None"]):
    """Decides by a rule whether a step ends the escalation: the reason, or None."""

    def __init__(self, rule: Rule) -> None:
        options = Agreement() if rule == "agreement" else rule if isinstance(rule, Agreement) else None
        self._agreement = None if options is None else AgreementCheck("agreement", options)
        self._rule = rule
        super().__init__("until")

    async def act(self, value: _Judged, ctx: Context, /) -> str | None:
        rule = self._rule
        if self._agreement is not None:
            return await self._find_agreement(self._agreement, value, ctx)
        if rule == "settled":
            return "settled" if getattr(value.output, "is_settled", None) is True else None
        if isinstance(rule, Confidence):
            return _is_confident(value.output, rule.least)
        function = invocation(rule, where="escalate", field="until")
        holds = await decision(function, value.output, ctx, ctx.path, read=bool, returns=bool)
        return function_name(rule) if holds else None

    async def _find_agreement(self, check: AgreementCheck, value: _Judged, ctx: Context) -> str | None:
        """Compare the answer with earlier ones, the latest first."""
        question = state_of(ctx, EscalationState).question
        for other in reversed(value.earlier):
            if value.step.answer is None or other.answer is None:
                continue
            pair = AnswerPair(question=question, first=other.answer, second=value.step.answer)
            if await check(pair, ctx.child(check.name, f"{ctx.path}/{check.place}[{place_of(other.name)}]")):
                return f"agrees with {other.name}"
        return None

    def outline(self) -> Outline:
        if self._agreement is not None:
            return self._agreement.outline()
        rule = self._rule
        text = rule if isinstance(rule, str) else repr(rule) if isinstance(rule, Confidence) else function_name(rule)
        return Outline(text=f"until {text}", kind="until")


def _is_confident(output: object, least: float) -> str | None:
    value = output.get("confidence") if isinstance(output, Mapping) else getattr(output, "confidence", None)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 1:
        return None
    return f"confidence {value:.2f}"
