"""Escalations: where they stop, what each step costs, and how limits, failures and stores affect them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from flowdebate import (
    Agreement,
    Confidence,
    Debater,
    FailurePolicy,
    JudgeOptions,
    Limits,
    council,
    debate,
    escalate,
    generator,
    handler,
    outline,
    sequencer,
)
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.events import EscalationStepFinished
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel, ModelRequest, ScriptedModel

QUESTION = "Should we build trams?"
FIRST, SECOND, THIRD = (generator(name=name, prompt="Answer.") for name in ("first", "second", "third"))
SIDES = [Debater("pro", "we should"), Debater("con", "we should not")]
DUEL = debate(name="duel", debaters=SIDES, max_rounds=1, judge=JudgeOptions(schedule="swap"), synthesizer=False)
AGREE, DISAGREE = ({"reasoning": "-", "agree": agree} for agree in (True, False))


def scores(pro: int) -> dict[str, Any]:
    """Return the ballot of a judge that gives this score to trams."""
    return {"reasoning": "-", "scores": {"we should": pro, "we should not": 100 - pro}, "verdict": f"{pro} for trams."}


class Sure(BaseModel):
    """An answer and the confidence in it."""

    answer: str
    confidence: float


def test_equal_answers_end_an_escalation_without_a_judge() -> None:
    """Answers that differ only in case or whitespace count as equal."""
    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD])
    result = block.run_sync(QUESTION, model=ScriptedModel("Yes, build.", " yes,  BUILD."))
    assert (result.output.answer, result.output.decided_by) == (" yes,  BUILD.", "second")
    assert (result.output.stop_reason, result.output.skipped) == ("agrees with first", ["third"])
    assert result.usage.calls == result.output.calls == 2


def test_agreement_judge_reads_both_orders() -> None:
    """Models tend to favor one position, so the two answers swap places in a second request."""
    prompts: list[str] = []

    def reply(request: ModelRequest) -> Any:
        if request.output_schema is None:
            return f"The answer of {request.block}."
        prompts.append(str(request.messages[-1]["content"]))
        return AGREE

    result = escalate(name="answer", steps=[FIRST, SECOND, THIRD]).run_sync(QUESTION, model=FunctionModel(reply))
    places = [[prompt.index(f"The answer of {name}.") for name in ("first", "second")] for prompt in prompts]
    assert [place == sorted(place) for place in places] == [True, False]
    assert [step.check_calls for step in result.output.steps] == [0, 2]


@pytest.mark.parametrize("orders", [(AGREE, DISAGREE), (DISAGREE,)])
def test_answers_must_agree_in_both_orders(orders: tuple[Any, ...]) -> None:
    """If the judge finds no agreement in the first order, the second request is not made."""
    model = ScriptedModel("Yes.", "No.", *orders, "Perhaps.")
    result = escalate(name="answer", steps=[FIRST, SECOND, THIRD]).run_sync(QUESTION, model=model)
    assert (result.output.decided_by, result.output.answer, result.output.stop_reason) == (
        "third",
        "Perhaps.",
        "last step",
    )
    assert [step.reason for step in result.output.steps] == [None, None, "last step"]


def test_answers_may_agree_with_any_earlier_answer() -> None:
    """A new answer is compared with the most recent earlier answer first."""
    last = generator(name="last", prompt="Answer.")
    model = ScriptedModel("Yes.", "No.", DISAGREE, "Yes, of course.", DISAGREE, AGREE, AGREE)
    result = escalate(name="answer", steps=[FIRST, SECOND, THIRD, last]).run_sync(QUESTION, model=model)
    assert (result.output.decided_by, result.output.stop_reason) == ("third", "agrees with first")


def test_functions_can_replace_the_agreement_judge() -> None:
    pairs: list[tuple[str, str, str]] = []

    def same_start(pair: Any) -> bool:
        pairs.append((pair.question, pair.first, pair.second))
        return bool(pair.first[0] == pair.second[0])

    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD], until=Agreement(agree=same_start))
    result = block.run_sync(QUESTION, model=ScriptedModel("Yes.", "Yes, soon."))
    assert pairs == [(QUESTION, "Yes.", "Yes, soon.")]
    assert (result.output.decided_by, result.usage.calls) == ("second", 2)


def test_agreement_judge_can_use_a_different_model() -> None:
    judge = ScriptedModel(AGREE, AGREE, name="judge")
    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD], until=Agreement(model=judge))
    result = block.run_sync(QUESTION, model=ScriptedModel("Yes.", "Sure.", name="writer"))
    assert result.models["agreement-judge"] == ("judge",)


def test_sufficient_confidence_ends_an_escalation() -> None:
    steps = [generator(name=name, prompt="Answer.", output_schema=Sure) for name in ("small", "large", "largest")]
    model = ScriptedModel({"answer": "Yes.", "confidence": 0.6}, {"answer": "No.", "confidence": 0.95})
    result = escalate(name="answer", steps=steps, until=Confidence(0.9)).run_sync(QUESTION, model=model)
    assert (result.output.answer, result.output.stop_reason) == ("No.", "confidence 0.95")
    assert isinstance(result.output.output, Sure)


@pytest.mark.parametrize("confidence", [7, True, "high", None, float("nan")])
def test_invalid_confidence_values_do_not_end_an_escalation(confidence: object) -> None:
    steps: list[Any] = [lambda _: {"answer": "Yes.", "confidence": confidence}, handler(lambda _: "No.", name="last")]
    result = escalate(name="answer", steps=steps, until=Confidence(0.5)).run_sync(QUESTION)
    assert result.output.decided_by == "last"


def test_debates_decide_if_all_ballots_agree() -> None:
    """If swapping the order of the answers changes the judge's winner, the next step decides instead."""
    until: Mapping[str, Any] = {"second": "agreement", "duel": "undisputed"}
    block = escalate(name="careful", steps=[FIRST, SECOND, DUEL, THIRD], until=until)
    answers: list[Any] = ["Yes.", "No.", DISAGREE, "Trams!", "Buses!"]
    agreed = block.run_sync(QUESTION, model=ScriptedModel(*answers, scores(80), scores(80)))
    other = block.run_sync(QUESTION, model=ScriptedModel(*answers, scores(80), scores(20), "Ask again."))
    assert (agreed.output.decided_by, agreed.output.stop_reason, agreed.output.skipped) == (
        "duel",
        "undisputed",
        ["third"],
    )
    assert agreed.output.output.verdict.winner == "we should"
    assert agreed.output.answer == agreed.output.output.answer == "80 for trams."
    assert [step.calls for step in agreed.output.steps] == [1, 1, 4]
    assert (other.output.decided_by, other.output.answer) == ("third", "Ask again.")


def test_councils_decide_if_the_chair_reports_no_dissent() -> None:
    """If the chair reports dissent, the escalation continues with the next step."""
    panel = council(name="panel", members=[{"name": "Ada"}, {"name": "Ben"}], review="none")
    block = escalate(name="careful", steps=[panel, THIRD], until="undisputed")
    opinions = ["Yes.", "Yes."]
    agreed = block.run_sync(QUESTION, model=ScriptedModel(*opinions, {"answer": "Yes.", "dissent": None}))
    disputed = block.run_sync(
        QUESTION, model=ScriptedModel(*opinions, {"answer": "Yes.", "dissent": "When?"}, "In May.")
    )
    assert (agreed.output.decided_by, disputed.output.decided_by) == ("panel", "third")


def test_rules_can_be_functions_of_the_output() -> None:
    calls: list[object] = []

    def enough(output: object, ctx: Any) -> bool:
        calls.append((output, [step.answer for step in ctx.sequencer.state.steps]))
        return output == "No."

    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD], until=enough)
    result = block.run_sync(QUESTION, model=ScriptedModel("Yes.", "No."))
    assert calls == [("Yes.", ["Yes."]), ("No.", ["Yes.", "No."])]
    assert result.output.stop_reason == "enough"


def test_later_steps_see_earlier_answers() -> None:
    def review(question: str, ctx: Any) -> str:
        return f"{question} {ctx.sequencer.state.steps[-1].answer}"

    result = escalate(name="answer", steps=[FIRST, review], until={}).run_sync(QUESTION, model=ScriptedModel("Yes."))
    assert result.output.answer == f"{QUESTION} Yes."


def test_each_step_has_an_event_and_a_token_count() -> None:
    """Tokens used by checks are counted separately; together with the steps' tokens, they add up to the run's total."""

    def reply(request: ModelRequest) -> ModelResponse:
        usage = Usage(calls=1, prompt_tokens=90, cached_tokens=0, completion_tokens=10)
        if request.output_schema is not None:
            return ModelResponse(data=AGREE, usage=usage)
        return ModelResponse(text=request.block, usage=usage)

    result = escalate(name="answer", steps=[FIRST, SECOND, THIRD]).run_sync(QUESTION, model=FunctionModel(reply))
    events = [event for event in result.events if isinstance(event, EscalationStepFinished)]
    assert [event.step for event in events] == list(result.output.steps)
    assert [(step.tokens, step.check_tokens) for step in result.output.steps] == [(100, 0), (100, 200)]
    assert result.usage.total_tokens == 400


@pytest.mark.parametrize("calls", range(1, 8))
def test_limits_apply_across_steps_and_keep_the_answer(calls: int) -> None:
    """If the limit is reached during a debate, the arguments made so far become the output."""
    block = escalate(name="careful", steps=[FIRST, SECOND, DUEL, THIRD], until={"second": "agreement"})
    model = ScriptedModel("Yes.", "No.", DISAGREE, "Trams!", "Buses!", scores(80), scores(80), "Last.")
    result = block.run_sync(QUESTION, model=model, limits=Limits(calls=calls))
    raw = result.raw
    assert (result.status, raw.status, raw.decided_by, result.usage.calls) == ("limit", "limit", None, calls)
    assert raw.answer == {1: "Yes.", 2: "No.", 7: "80 for trams."}.get(calls, "Yes." if calls < 2 else "No.")
    if 3 < calls < 7:
        assert len(raw.output.transcript) == min(calls - 3, 2)


@pytest.mark.parametrize("calls", range(1, 8))
def test_resumed_runs_have_the_same_result(calls: int) -> None:
    """The run may be interrupted at any call, and no calls are repeated."""
    block = escalate(name="careful", steps=[FIRST, SECOND, DUEL, THIRD], until={"second": "agreement"})
    answers: list[Any] = ["Yes.", "No.", DISAGREE, "Trams!", "Buses!", scores(80), scores(80), "Last."]
    uninterrupted = block.run_sync(QUESTION, model=ScriptedModel(*answers), seed=1)
    store = MemoryStore()
    options: dict[str, Any] = {"store": store, "run_id": "one", "seed": 1}
    block.run_sync(QUESTION, model=ScriptedModel(*answers), limits=Limits(calls=calls), **options)
    rest = ScriptedModel(*answers[calls:])
    resumed = block.resume_sync("one", store=store, model=rest, limits=Limits(calls=100))
    assert resumed.output == uninterrupted.output
    assert resumed.usage.calls == 8


def test_resumed_runs_do_not_repeat_a_custom_rule() -> None:
    outputs: list[object] = []

    def never(output: object) -> bool:
        outputs.append(output)
        return False

    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD], until=never)
    store = MemoryStore()
    block.run_sync(QUESTION, model=ScriptedModel("a", "b"), limits=Limits(calls=2), store=store, run_id="one")
    resumed = block.resume_sync("one", store=store, model=ScriptedModel("c"), limits=Limits(calls=9))
    assert outputs == ["a", "b"]
    assert resumed.output.answer == "c"


def failing_model(*names: str, answers: Mapping[str, object] = {}) -> FunctionModel:
    """Create a model whose provider fails for these blocks."""

    def reply(request: ModelRequest) -> Any:
        if request.block in names:
            raise ProviderFailed("overloaded", status=400)
        return answers.get(request.block, f"The answer of {request.block}.")

    return FunctionModel(reply)


def test_failed_steps_are_skipped_and_reported() -> None:
    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD])
    result = block.run_sync(QUESTION, model=failing_model("second"))
    assert (result.status, result.output.status, result.output.decided_by) == ("degraded", "degraded", "third")
    assert [step.name for step in result.output.steps] == ["first", "third"]
    assert result.output.answer.startswith("Incomplete: second did not answer (ProviderFailed")
    assert [(loss.name, loss.instead) for loss in result.output.losses] == [("second", "next_step")]


def test_last_answer_is_used_if_later_steps_fail() -> None:
    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD], until={})
    result = block.run_sync(QUESTION, model=failing_model("third"))
    assert (result.output.decided_by, result.output.stop_reason) == ("second", "last answer")
    assert result.output.answer.endswith("The answer of second.")
    assert result.output.output == "The answer of second."
    assert result.output.skipped == []


def test_answers_cannot_agree_if_the_agreement_judge_fails() -> None:
    """If the judge gives no answer, the escalation continues with the next step."""
    result = escalate(name="answer", steps=[FIRST, SECOND, THIRD]).run_sync(
        QUESTION, model=failing_model("agreement-judge")
    )
    assert (result.output.decided_by, result.output.stop_reason) == ("third", "last step")
    assert [loss.role for loss in result.output.losses] == ["judge"]


def test_failures_are_raised_if_there_is_no_answer_or_the_policy_says_so() -> None:
    """If there is no answer yet, there is nothing to fall back on."""
    steps = [FIRST, SECOND, THIRD]
    with pytest.raises(ProviderFailed):
        escalate(name="answer", steps=steps).run_sync(QUESTION, model=failing_model("first", "second", "third"))
    strict = escalate(name="answer", steps=steps, failures=FailurePolicy(on_failure="fail"))
    with pytest.raises(ProviderFailed):
        strict.run_sync(QUESTION, model=failing_model("second"))


def test_resumed_runs_do_not_repeat_failed_steps() -> None:
    """A failed step stays skipped even if the provider has recovered in the meantime."""
    block, store = escalate(name="answer", steps=[FIRST, SECOND, THIRD], until={}), MemoryStore()
    options: dict[str, Any] = {"store": store, "run_id": "one"}
    first = block.run_sync(QUESTION, model=failing_model("second"), limits=Limits(calls=2), **options)
    assert first.status == "limit"
    resumed = block.resume_sync("one", store=store, model=failing_model(), limits=Limits(calls=9))
    assert [step.name for step in resumed.output.steps] == ["first", "third"]


@pytest.mark.anyio
async def test_concurrent_escalations_are_independent() -> None:
    async def reply(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        if request.output_schema is not None:
            return scores(80)
        return " ".join(str(message["content"]) for message in request.messages)[-30:]

    one = escalate(name="one", steps=[DUEL, THIRD], until="undisputed")
    many = sequencer(name="many").for_each(one)
    questions = [f"Should we build {number} trams?" for number in range(5)]
    result = await many.run(questions, model=FunctionModel(reply))
    assert [output.output.question for output in result.output] == questions
    assert [[step.calls for step in output.steps] for output in result.output] == [[4]] * 5


def test_escalations_can_be_nested() -> None:
    inner = escalate(name="inner", steps=[FIRST, SECOND])
    outer = escalate(name="outer", steps=[inner, THIRD, generator(name="last", prompt="Answer.")])
    result = outer.run_sync(QUESTION, model=ScriptedModel("a", "b", "B"))
    assert (result.output.decided_by, result.output.stop_reason) == ("third", "agrees with inner")
    result = outer.run_sync(QUESTION, model=ScriptedModel("a", "b", "b"))
    assert [step.calls for step in result.output.steps] == [2, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": []}, "`steps` must be a non-empty list of blocks or functions"),
        ({"steps": "first"}, "`steps` must be a non-empty list of blocks or functions"),
        ({"steps": [FIRST, FIRST]}, "`steps` must have unique names"),
        ({"steps": [FIRST, 3]}, r"`steps\[1\]`"),
        ({"steps": [FIRST, SECOND], "until": "consensus"}, '`until` must be "agreement", "undisputed"'),
        (
            {"steps": [FIRST, SECOND], "until": {"second": "agreement"}},
            "must be the name of a step before the last one",
        ),
        ({"steps": [FIRST, SECOND], "until": {"first": 3}}, r"`until.first` must be"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        escalate(name="answer", **options)


def test_invalid_rules_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="`minimum` must be between 0 and 1"):
        Confidence(90)
    with pytest.raises(ConfigurationError, match="`model` cannot be set if `agree` is a function"):
        Agreement(model="local", agree=lambda pair: True)


def test_outline_shows_steps_and_rules() -> None:
    until: Mapping[str, Any] = {"second": "agreement", "third": Confidence(0.8)}
    block = escalate(name="answer", steps=[FIRST, SECOND, THIRD, str.upper], until=until)
    assert str(outline(block)).splitlines()[2:] == [
        "  → tap_if first",
        "  → tap_if second",
        "    → second",
        "    → agreement",
        "      → agreement-judge",
        "  → tap_if third",
        "    → third",
        "    → confidence 0.8",
        "  → tap_if upper",
        "  → answer-output",
    ]
