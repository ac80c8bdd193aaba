"""Escalation: answering a question in several ways, from the cheapest to the most thorough.

The escalation ends with the first step that settles the question.
"""

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
    Function,
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
from flowdebate.runs.context import Context, escape_path_segment
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.events import RunStatus


@dataclass(frozen=True, slots=True)
class Confidence:
    """Rule that ends an escalation as soon as the `confidence` in a step's output is at least `minimum`."""

    minimum: float

    def __post_init__(self) -> None:
        check_option(Share, "minimum", self.minimum, location="Confidence", optional=False)


Rule: TypeAlias = Literal["agreement", "undisputed"] | Agreement | Confidence | Callable[..., Any]
"""Rule deciding whether a step ends an escalation.

- "agreement", or `Agreement` with a model or a function: the step's answer agrees with an earlier answer.
- "undisputed": all deciders agree on the step's result. In a debate, every ballot is for the winner; in a council,
  nobody dissents; in a review, no finding is disputed; in a consensus debate, consensus was reached; in a critique, no
  claim is upheld.
- `Confidence(0.9)`: the `confidence` in the step's output is high enough.
- A function called with the step's output and, if it has a second parameter, the context; True ends the escalation. The
  output of a pattern is its raw output; `ctx.sequencer.state.steps` lists the steps so far, the current one last.
"""
_RULES = 'must be "agreement", "undisputed", Agreement(…), Confidence(…) or a function of the output'


class EscalationState(PatternState):
    """State of an escalation's sequencer, available to its steps as `ctx.sequencer.state`."""

    steps: list[EscalationStep] = Field(default_factory=new_list)
    """Steps executed so far, excluding those that failed."""

    @property
    def is_decided(self) -> bool:
        """True if a step has ended the escalation."""
        return bool(self.steps) and self.steps[-1].reason is not None


class EscalationOutput(PatternOutput):
    """The output of an escalation."""

    transcript_field: ClassVar[str] = "steps"

    question: str
    steps: list[EscalationStep]
    """The steps that answered, in order."""
    skipped: list[str] = Field(default_factory=new_list)
    """Names of the steps skipped as unnecessary."""
    answer: Any = None
    """The last step's answer as text; the last step is the deciding one, unless the run ended early (see `status`)."""
    output: Any = None
    """The last step's output; for a pattern, its raw output."""
    stop_reason: str | None = None
    """Reason why the escalation ended, for example "agrees with first"; None if the run ended early."""
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=new_list)
    seed: int | None = None

    @property
    def decided_by(self) -> str | None:
        """The name of the deciding step; None if the run ended early."""
        return self.steps[-1].name if self.steps and self.stop_reason is not None else None

    @property
    def decision_word(self) -> str | None:
        return self.decided_by

    @property
    def calls(self) -> int:
        """Number of calls made by all steps and by the checks between them."""
        return sum(step.calls + step.check_calls for step in self.steps)

    @property
    def entries(self) -> list[Entry]:
        """The steps' answers as transcript entries, one per round."""
        return [
            Entry(round=number, speaker=step.name, text=step.answer or "") for number, step in enumerate(self.steps, 1)
        ]

    def find_repetitions(self) -> list[str]:
        """Report no repetitions, because matching answers are exactly what an escalation looks for."""
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Result of the latest step."""

    result: object = None
    """Output of the step's block."""
    output: object = None
    """The step's output; for a pattern, its raw output."""


MakeOutput: TypeAlias = "Callable[[EscalationState, Context, RunStatus, StepResult], PatternOutput | None]"
"""Factory for the raw output, called with the state, the context, the status, and the latest step's result."""


def escalate(
    *,
    name: str,
    steps: Sequence[BlockLike],
    until: Rule | Mapping[str, Rule] = "agreement",
    failures: FailurePolicy | None = None,
    model: ModelChoice = None,
) -> Sequencer[Any, EscalationOutput]:
    """Create a block that passes a question to `steps`, one after another, until one of them settles it.

    A step is a pattern, or any block or function that takes the question as its input. `until` is the rule for all
    steps, or a dict of rules keyed by step name. A step without a rule never ends the escalation; the last step always
    does. A step whose provider fails is skipped unless `failures` says otherwise; if the last step is skipped, the
    previous step's answer is used. `model` is the default model for all inner blocks.

    >>> from flowdebate import handler
    >>> steps = [handler(lambda question: "42", name=name) for name in ("first", "second", "third")]
    >>> result = escalate(name="answer", steps=steps).run_sync("6 * 7?")
    >>> result.output.answer, result.output.decided_by, result.output.stop_reason, result.output.skipped
    ('42', 'second', 'agrees with first', ['third'])
    """
    location = f"escalate {name!r}"
    blocks = check_steps(steps, location)
    names = [block.name for block in blocks]

    def make(state: EscalationState, ctx: Context, status: RunStatus, last: StepResult) -> EscalationOutput:
        step = state.steps[-1] if state.steps else None
        ending = {**ending_of(ctx, status), "stop_reason": None if step is None else step.reason}
        return EscalationOutput(
            question=state.question,
            steps=list(state.steps),
            skipped=names[state.round :] if state.is_decided else [],
            answer=None if step is None else mark_answer(step.answer, state.losses),
            output=last.output,
            **ending,
        )

    rules = _check_rules(until, names, location)
    pipeline = make_pipeline(name, blocks, rules=rules, failures=failures or SKIP, make_output=make, model=model)

    @handler(name=f"{name}-output")
    def build(_: object, ctx: Context) -> EscalationOutput:
        state = state_of(ctx, EscalationState)
        return publish(make(state, ctx, ctx.run.outcome, last_result(ctx)), ctx)

    return pipeline.then(build)


def make_pipeline(
    name: str,
    blocks: Sequence[Block[Any, Any]],
    *,
    rules: Mapping[str, Rule],
    failures: FailurePolicy,
    make_output: MakeOutput,
    model: ModelChoice = None,
) -> Sequencer[Any, Any]:
    """Build all steps of an escalation except the final output block.

    `make_output` creates the raw output for a run that ends early.
    """
    policy = failures.over(SKIP)
    pipeline = sequencer(name=name, state=EscalationState, model=model, protected=True).tap(_stamp(name, make_output))
    for number, block in enumerate(blocks, 1):
        rule = None if number == len(blocks) else rules.get(block.name)
        check = None if rule is None or (number == 1 and _compares(rule)) else _Check(rule)
        step = _Step(block, number, check, last=number == len(blocks), failures=policy)
        pipeline = pipeline.tap_if(_is_undecided, step)
    return pipeline


def check_steps(steps: object, location: str) -> list[Block[Any, Any]]:
    """Convert the steps to blocks; raise ConfigurationError if there are none or if two have the same name."""
    if not isinstance(steps, Sequence) or isinstance(steps, str) or not steps:
        raise ConfigurationError(location, "steps", steps, "must be a non-empty list of blocks or functions")
    blocks = [
        as_block(step, name=function_name(step) if callable(step) else "", location=location, field=f"steps[{index}]")
        for index, step in enumerate(steps)
    ]
    names = [block.name for block in blocks]
    if len({*names}) < len(names):
        raise ConfigurationError(location, "steps", names, "must have unique names")
    return blocks


def _check_rules(until: object, names: Sequence[str], location: str) -> Mapping[str, Rule]:
    if not isinstance(until, Mapping):
        return dict.fromkeys(names, _check_rule(until, location, "until"))
    for key in until:
        if key not in names[:-1]:
            raise ConfigurationError(
                location, "until", key, "must be the name of a step before the last one", choices=names[:-1]
            )
    return {key: _check_rule(rule, location, f"until.{key}") for key, rule in until.items()}


def _check_rule(rule: Any, location: str, field: str) -> Rule:  # noqa: ANN401 - what it checks
    if rule in ("agreement", "undisputed") or isinstance(rule, (Agreement, Confidence)):
        checked: Rule = rule
        return checked
    if not callable(rule) or isinstance(rule, Block):
        raise ConfigurationError(location, field, rule, _RULES)
    invocation(rule, location=location, field=field)
    function: Rule = rule
    return function


def _compares(rule: Rule) -> bool:
    """Return whether a rule compares answers and therefore cannot apply to the first step."""
    return rule == "agreement" or isinstance(rule, Agreement)


def _stamp(name: str, make: MakeOutput) -> Handler[Any, None]:
    """Create a tap that stores the question, and registers `make` to build the output if the run ends early."""

    @handler(name=f"{name}-question")
    def stamp(value: object, ctx: Context) -> None:
        ctx.scope.handle.update(question=value.subject if isinstance(value, PatternInput) else result_text(value))

        def partial(status: RunStatus) -> PatternOutput | None:
            unfinished = ctx.run.partial_output(status, below=ctx.sequencer.path)
            last = last_result(ctx) if unfinished is None else StepResult(output=unfinished)
            return make(state_of(ctx, EscalationState), ctx, status, last)

        ctx.run.register_partial_output(ctx.sequencer.path, partial)

    return stamp


def _is_undecided(_: object, ctx: Context) -> bool:
    return not state_of(ctx, EscalationState).is_decided


_RESULT = "result"
"""Key of the latest step's result among the escalation's derived values. The result may have any type, so it is not
stored in the state, which would freeze it.
"""


def last_result(ctx: Context) -> StepResult:
    """Return the result of the latest step."""
    result: StepResult = ctx.scope.handle.derived.get(_RESULT, StepResult())
    return result


class _Step(Block[Any, Any]):
    """Block that runs a step and decides whether it ends the escalation."""

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
        begin, before, outcome = len(ctx.run.records.events), last_result(ctx), ctx.run.outcome
        try:
            result = await self._run(value, ctx)
        except Exception as error:
            if not self._failures.tolerates(error) or (self._last and not earlier):
                raise
            self._lose(error, ctx, role="step", name=self.name)
            handle.derived[_RESULT] = before
            if self._last:  # the previous answer is the best so far
                last = earlier[-1].model_copy(update={"reason": "last answer"})
                handle.update(steps=extend_frozen(earlier[:-1], last))
            return
        output = last_result(ctx).output
        answer = _answer_in(result if isinstance(result, str) else output)
        step = EscalationStep(name=self.name, answer=answer, **_cost(ctx, begin))
        # record the step before the check, because the check may hit a limit
        handle.update(steps=extend_frozen(earlier, step))
        begin, reason = len(ctx.run.records.events), "last step" if self._last else None
        if self._check is not None:
            reason = await self._decide(self._check, _Judged(output=output, step=step, earlier=earlier), ctx)
        if reason is None and outcome != "no_verdict" == ctx.run.outcome:
            # a debate without a verdict does not determine the status if another step follows
            ctx.run.outcome = "degraded"
        cost = {f"check_{key}": count for key, count in _cost(ctx, begin).items()}
        step = step.model_copy(update={"reason": reason, **cost})
        handle.update(steps=extend_frozen(earlier, step))
        ctx.emit(EscalationStepFinished(step=step))

    async def _run(self, value: object, ctx: Context) -> object:
        """Run the step and store its output (for a pattern, its raw output), even if the run ends afterwards."""
        raw: object = None
        result: object = None
        with ctx.run.watch_raw_output(ctx.path) as raw_output:
            try:
                result = await self._in_time(self._inner(value, ctx), ctx, self._inner, place=ctx.path)
            finally:
                raw = raw_output()
                output = raw if isinstance(raw, PatternOutput) else result
                ctx.scope.handle.derived[_RESULT] = StepResult(result=result, output=output)
        return result

    async def _decide(self, check: _Check, judged: _Judged, ctx: Context) -> str | None:
        """Return the reason for ending the escalation here, or None if it should continue or the judge fails."""
        try:
            below = ctx.below(check)
            reason: str | None = await self._in_time(check(judged, below), ctx, check, place=below.path)
        except Exception as error:
            if not self._failures.tolerates(error):
                raise
            self._lose(error, ctx, role="judge", name=check.name)
            return None
        return reason

    async def _in_time(self, call: Any, ctx: Context, block: Block[Any, Any], *, place: str) -> Any:  # noqa: ANN401 - of any block
        policy = self._failures
        return await in_time(
            call, ctx, block=block.name, place=place, timeout=policy.turn_timeout, losses=policy.tolerates
        )

    def _lose(self, error: Exception, ctx: Context, *, role: str, name: str) -> None:
        instead: Literal["earlier_answer", "next_step"] = "earlier_answer" if self._last else "next_step"
        record_failure(error, ctx, block=self.name, role=role, name=name, instead=instead)

    def outline(self) -> Outline:
        inner = self._inner.outline()
        if self._check is None:
            return inner
        return Outline(text=self.name, kind="sequencer", children=(inner, self._check.outline()))


def _cost(ctx: Context, begin: int) -> dict[str, Any]:
    """Count the calls and tokens used by the step enclosing `ctx`, starting at event index `begin`."""
    usage, place = Usage.zero(), f"{ctx.path}/"
    for event in ctx.run.records.events[begin:]:
        if isinstance(event, ModelCalled) and (event.path == ctx.path or event.path.startswith(place)):
            usage += event.usage
    return {"calls": usage.calls, "tokens": usage.total_tokens}


def _answer_in(output: object) -> str | None:
    """Return the answer in a step's output as text; None if the output contains no answer."""
    if isinstance(output, Mapping):
        answer = output.get("answer", output)
    else:
        answer = getattr(output, "answer", None if isinstance(output, PatternOutput) else output)
    text = "" if answer is None else result_text(answer)
    return None if is_blank(text) else str(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """Step to which a rule is being applied."""

    output: object
    step: EscalationStep
    earlier: Sequence[EscalationStep]


class _Check(Block[_Judged, "str | None"]):
    """Block that applies a rule to a step; it returns the reason for ending the escalation, or None to continue."""

    def __init__(self, rule: Rule) -> None:
        super().__init__("until")
        options = Agreement() if rule == "agreement" else rule if isinstance(rule, Agreement) else None
        self._agreement = None if options is None else AgreementCheck("agreement", options)
        self._confidence = rule.minimum if isinstance(rule, Confidence) else None
        self._function: Function | None = None
        if options is None and self._confidence is None and not isinstance(rule, str):
            function: Any = rule
            self._function = function

    async def act(self, value: _Judged, ctx: Context, /) -> str | None:
        if self._agreement is not None:
            return await self._find_agreement(self._agreement, value, ctx)
        if self._confidence is not None:
            return _is_confident(value.output, self._confidence)
        if self._function is None:
            return "undisputed" if getattr(value.output, "is_undisputed", None) is True else None
        function = invocation(self._function, location=self.name, field="rule")
        holds = await decision(function, value.output, ctx, ctx.path, read=bool, returns=bool)
        return function_name(self._function) if holds else None

    async def _find_agreement(self, check: AgreementCheck, value: _Judged, ctx: Context) -> str | None:
        """Compare the answer with the earlier answers, latest first; return the reason to stop, if one agrees."""
        question = state_of(ctx, EscalationState).question
        for other in reversed(value.earlier):
            if value.step.answer is None or other.answer is None:
                continue
            pair = AnswerPair(question=question, first=other.answer, second=value.step.answer)
            if await check(pair, ctx.child(check.name, f"{ctx.path}/{check.place}[{escape_path_segment(other.name)}]")):
                return f"agrees with {other.name}"
        return None

    def outline(self) -> Outline:
        if self._agreement is not None:
            return self._agreement.outline()
        rule = "undisputed" if self._function is None else function_name(self._function)
        return Outline(text=rule if self._confidence is None else f"confidence {self._confidence}", kind="until")


def _is_confident(output: object, minimum: float) -> str | None:
    value = output.get("confidence") if isinstance(output, Mapping) else getattr(output, "confidence", None)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value <= 1:
        return None
    return f"confidence {value:.2f}"
