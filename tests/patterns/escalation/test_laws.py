"""Invariants of escalations: they stay within their budget, and the last step decides if no rule matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Agreement, Confidence, Debater, JudgeOptions, Limits, debate, escalate, generator, handler
from flowdebate._text import is_blank
from flowdebate.errors import BadAnswer, FlowDebateError, ModelError
from flowdebate.events import ModelCalled
from flowdebate.testing import FunctionModel, ModelRequest
from tests.profiles import example_count

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.chassis.escalation import Rule

QUESTION = "Which?"
SIDES = [Debater("pro", "we should"), Debater("con", "we should not")]
STEP_CALLS = {"answer": 1, "sure": 1, "debate": 4, "function": 0}
"""Number of calls per kind of step."""
SURE = {"type": "object", "properties": {"answer": {"type": "string"}, "confidence": {"type": "number"}}}


def make_step(kind: str, name: str) -> Block[Any, Any]:
    """Create a step of this kind."""
    match kind:
        case "answer":
            return generator(name=name, prompt="Answer.")
        case "sure":
            return generator(name=name, prompt="Answer.", output_schema=SURE)
        case "debate":
            judge = JudgeOptions(schedule="swap", answer_form="scores")
            return debate(name=name, debaters=SIDES, max_rounds=1, judge=judge, synthesizer=False)
        case _:
            return handler(lambda question: f"A function on {question}", name=name)


@dataclass(frozen=True)
class Plan:
    """Description from which an escalation is built."""

    kinds: list[str]
    rules: dict[str, Any]

    def build(self) -> Block[Any, Any]:
        """Build the escalation."""
        steps = [make_step(kind, f"step-{number}") for number, kind in enumerate(self.kinds)]
        return escalate(name="answer", steps=steps, until=self.rules)


RULES: st.SearchStrategy[Rule] = st.one_of(
    st.sampled_from(["agreement", "undisputed"]),
    st.floats(0, 1).map(Confidence),
    st.booleans().map(lambda agree: Agreement(agree=lambda pair: agree)),
    st.booleans().map(lambda holds: lambda output: holds),
)


@st.composite
def plans(draw: st.DrawFn, rules: st.SearchStrategy[Any] = RULES) -> Plan:
    """Draw escalations of one to five steps, with and without rules."""
    kinds = draw(st.lists(st.sampled_from([*STEP_CALLS]), min_size=1, max_size=5))
    names = [f"step-{number}" for number in range(len(kinds) - 1)]
    return Plan(kinds, draw(st.dictionaries(st.sampled_from(names), rules)) if names else {})


WORDS = st.text(min_size=1, max_size=12).filter(lambda text: not is_blank(text))
"""Text that the model returns. It is never blank, since blank text counts as a failure, which is tested elsewhere."""


def schema_model(data: st.DataObject) -> FunctionModel:
    """Create a model whose answers match the requested schema but have arbitrary content."""

    def reply(request: ModelRequest) -> Any:
        if request.output_schema is None:
            return data.draw(st.sampled_from(["Yes.", "No."]) | WORDS)
        if "confidence" in request.output_schema.get("properties", {}):
            return {"answer": data.draw(WORDS), "confidence": data.draw(st.floats(-1, 2))}
        if "agree" in request.output_schema.get("properties", {}):
            return {"reasoning": "-", "agree": data.draw(st.booleans())}
        pro = data.draw(st.integers(0, 100))
        return {"reasoning": "-", "scores": {"we should": pro, "we should not": 100 - pro}, "verdict": "-"}

    return FunctionModel(reply)


@settings(max_examples=example_count(60))
@given(plans(), st.data())
def test_cost_covers_the_steps_and_the_checks_between_them(plan: Plan, data: st.DataObject) -> None:
    """Each step runs once, and each pair of answers is compared at most once in each order."""
    result = plan.build().run_sync(QUESTION, model=schema_model(data), seed=1)
    output, last = result.output, len(result.output.steps)
    costs = [STEP_CALLS[kind] for kind in plan.kinds]
    assert [step.calls for step in output.steps] == costs[:last]
    for number, step in enumerate(output.steps):
        compares = plan.rules.get(step.name) == "agreement"
        assert step.check_calls <= 2 * number * compares
    assert result.usage.calls == output.calls <= sum(costs[:last]) + last * (last - 1)
    assert result.usage.calls == sum(event.usage.calls for event in result.events if isinstance(event, ModelCalled))
    assert [step.name for step in output.steps] + output.skipped == [f"step-{at}" for at in range(len(plan.kinds))]


@settings(max_examples=example_count(40))
@given(plans(rules=st.just(lambda output: False)), st.data())
def test_last_step_decides_if_no_rule_matches(plan: Plan, data: st.DataObject) -> None:
    output = plan.build().run_sync(QUESTION, model=schema_model(data), seed=1).output
    assert (output.decided_by, output.stop_reason) == (f"step-{len(plan.kinds) - 1}", "last step")
    assert output.answer == output.steps[-1].answer
    assert not output.skipped


@settings(max_examples=example_count(40))
@given(plans(), st.data())
def test_first_matching_rule_ends_the_escalation(plan: Plan, data: st.DataObject) -> None:
    output = plan.build().run_sync(QUESTION, model=schema_model(data), seed=1).output
    *before, last = output.steps
    assert [step.reason for step in before] == [None] * len(before)
    assert last.reason == output.stop_reason is not None
    rule = plan.rules.get(last.name)
    if output.skipped:
        assert rule is not None
        if isinstance(rule, Confidence):
            assert rule.minimum <= output.output["confidence"] <= 1
        if rule == "undisputed":
            assert {ballot.winner for ballot in output.output.verdict.judging.ballots} == {output.output.winner}


HOSTILE = st.one_of(
    st.text(max_size=8),
    st.none(),
    st.dictionaries(st.sampled_from(["agree", "answer", "confidence", "scores"]), st.none() | st.text(max_size=3)),
    st.just(BadAnswer("no")),
    st.just(ModelError("down")),
)


@settings(max_examples=example_count(60))
@given(plans(), st.data())
def test_escalations_end_whatever_the_models_answer(plan: Plan, data: st.DataObject) -> None:
    def reply(request: ModelRequest) -> Any:
        answer = data.draw(HOSTILE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    try:
        result = plan.build().run_sync(QUESTION, model=FunctionModel(reply), seed=1)
    except FlowDebateError as error:
        assert str(error)  # noqa: PT017 - either of two ends
    else:
        output = result.output
        assert output.stop_reason is not None
        assert len(output.steps) + len(output.losses) >= 1
        assert result.status == output.status
        if result.status == "no_verdict":
            assert output.output.verdict is None


@settings(max_examples=example_count(40))
@given(plans(), st.data(), st.integers(1, 12))
def test_no_call_exceeds_the_shared_limit(plan: Plan, data: st.DataObject, calls: int) -> None:
    """A run that reaches the limit keeps the steps it has completed."""
    result = plan.build().run_sync(QUESTION, model=schema_model(data), seed=1, limits=Limits(calls=calls))
    assert result.usage.calls <= calls
    assert sum(step.calls + step.check_calls for step in result.raw.steps) <= calls
    if result.status == "limit":
        assert result.usage.calls == calls
        assert result.raw.decided_by is None
