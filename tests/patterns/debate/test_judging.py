"""A judge with several views, and a panel of judges."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    PromptOptions,
    create_debate_transcript,
    create_judge_panel,
    debate,
)
from flowdebate.chassis.state import RoleFailed
from flowdebate.errors import ConfigurationError, ModelUnavailable
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.patterns.debate.transcript import parse_entries
from flowdebate.runs.events import BlockAnswered
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.models.base import ModelRequest, ModelResponse

THREE = (*SIDES, Debater("carl", "later"))
Scores = dict[str, float]


def _order(prompt: str) -> list[str]:
    """Return the sides' names in the order in which the first round in a judge's prompt lists them."""
    transcript = prompt.split("The full debate:\n")[1].split("\n\n", maxsplit=1)[0]
    return [entry.stance for entry in parse_entries(transcript) if entry.round == 1]


def _scoring_model(
    score: Callable[[list[str], ModelRequest], Scores | str], *, reasoning: str = "It was not answered."
) -> FunctionModel:
    """Create a model that argues, and that judges with the scores that `score` returns for an order of sides."""

    def answer(request: ModelRequest) -> Any:
        if not request.block.endswith("-judge"):
            return f"An argument of {request.block}."
        scores = score(_order(str(request.messages[-1]["content"])), request)
        if isinstance(scores, str):
            return scores
        return {"reasoning": reasoning, "scores": scores, "verdict": "Found."}

    return FunctionModel(answer)


def _biased_judge(bias: float) -> FunctionModel:
    """Create a judge that scores "for" slightly higher and adds `bias` to whichever side comes first."""

    def score(order: list[str], _: ModelRequest) -> Scores:
        return {side: 40 + 5 * (side == "for") + bias * (place == 0) for place, side in enumerate(order)}

    return _scoring_model(score)


def _run_debate(model: Any, *, judge: Any = "swap", debaters: Any = SIDES, seed: int = 0, **options: Any) -> Any:
    """Run a debate whose blocks use `model` unless they have their own."""
    options |= {"debaters": debaters, "judge": judge, "model": model}
    return debate(name="rent", max_rounds=2, synthesizer=False, **options).run_sync(QUESTION, seed=seed)


@pytest.mark.parametrize("seed", range(6))
def test_slot_bias_does_not_change_balanced_verdicts(seed: int) -> None:
    """The judge gives the first side 20 extra points, which cancel out over both orders, whatever the seed."""
    verdict = _run_debate(_biased_judge(20), seed=seed).raw.verdict
    assert verdict.winner == "for"
    assert verdict.judging.flipped
    assert verdict.judging.scores["for"] == pytest.approx((65 / 105 + 45 / 105) / 2)
    assert {tuple(ballot.order) for ballot in verdict.judging.ballots} == {("for", "against"), ("against", "for")}


@pytest.mark.parametrize(
    ("judge", "calls"), [("single", 1), ("swap", 2), ("cyclic", 3), ("full", 6), ("sampled(4)", 4)], ids=str
)
def test_each_scheduled_view_is_judged_once(judge: str, calls: int) -> None:
    # if sides have labels, the judge gives scores even for a single view
    options = JudgeOptions(schedule=judge, labels=True)
    orders: list[list[str]] = []

    def score(order: list[str], request: ModelRequest) -> Scores:
        orders.append(order)
        prompt = str(request.messages[-1]["content"])
        assert all(prompt.count(f"An argument of rent-debater-{side.name}.") == 2 for side in THREE)
        return dict.fromkeys(order, 1.0)

    result = _run_debate(_scoring_model(score), judge=options, debaters=THREE, prompts=PromptOptions(hide_names=False))
    views = events(result, JudgeViewMade)
    assert [view.view for view in views] == list(range(calls))
    assert len(orders) == calls == len(result.raw.verdict.judging.ballots)
    assert all(sorted(view.order) == list(range(6)) for view in views)
    assert all(sorted(order) == ["A", "B", "C"] for order in orders)


def test_labels_replace_stances_for_the_judge() -> None:
    """The judge's answer uses the labels, so its scores are mapped back to stances."""
    prompts: list[str] = []

    def score(order: list[str], request: ModelRequest) -> Scores:
        prompts.append("\n".join(str(message["content"]) for message in request.messages))
        return {label: 10 if f"- {label}: against" in prompts[-1] else 90 for label in order}

    verdict = _run_debate(_scoring_model(score), judge=JudgeOptions(schedule="swap", labels=True)).raw.verdict
    assert verdict.winner == "for"
    assert verdict.judging.scores == {"for": 0.9, "against": pytest.approx(0.1)}
    assert all("[for]" not in prompt and "[against]" not in prompt for prompt in prompts)
    assert {tuple(sorted(ballot.labels.items())) for ballot in verdict.judging.ballots} == {
        (("against", "A"), ("for", "B")),
        (("against", "B"), ("for", "A")),
    }
    assert "A: " in verdict.reasoning


def test_positions_and_scores_follow_the_view_order() -> None:
    def score(order: list[str], request: ModelRequest) -> Scores:
        system = str(request.messages[0]["content"])
        assert system.index(f"- {order[0]}\n") < system.index(f"- {order[1]}\n")
        schema = json.dumps(request.output_schema)
        assert schema.index(f'"{order[0]}"') < schema.index(f'"{order[1]}"')
        return dict.fromkeys(order, 50.0)

    assert _run_debate(_scoring_model(score)).raw.verdict.winner is None


ON_FLIP: Mapping[str, tuple[str | None, Scores]] = {
    "average": ("for", {"for": 11 / 21, "against": 10 / 21}),
    "abstain": (None, {"for": 11 / 21, "against": 10 / 21}),
    "tie": (None, {"for": 0.5, "against": 0.5}),
}


@pytest.mark.parametrize("on_flip", ON_FLIP)
def test_on_flip_determines_the_winner_after_a_flip(on_flip: Any) -> None:
    winner, scores = ON_FLIP[on_flip]
    verdict = _run_debate(_biased_judge(20), judge=JudgeOptions(schedule="swap", on_flip=on_flip)).raw.verdict
    assert verdict.winner == winner
    assert verdict.judging.scores == pytest.approx(scores)
    assert verdict.judging.on_flip == on_flip
    assert {ballot.winner for ballot in verdict.judging.ballots} == {"for", "against"}


def test_ties_include_all_leaders() -> None:
    """One ballot favors a side and the other is tied, which counts as a flip.

    The scores are therefore split evenly, and nobody wins.
    """

    def score(order: list[str], _: ModelRequest) -> Scores:
        return {side: 50 + 20 * (side == "for") * (order[0] == "for") for side in order}

    verdict = _run_debate(_scoring_model(score), judge=JudgeOptions(schedule="swap", on_flip="tie")).raw.verdict
    assert (verdict.winner, verdict.judging.on_flip) == (None, "tie")
    assert verdict.judging.scores == {"for": 0.5, "against": 0.5}


@pytest.mark.parametrize(
    ("reasoning", "line"),
    [("It was not answered.", "For for: It was not answered."), ("# Issues\n\nNone.", "For for:\n\n# Issues\n\nNone.")],
)
def test_reasons_with_several_paragraphs_keep_their_headings(reasoning: str, line: str) -> None:
    """When the verdict is a tie, a label precedes each ballot's reasons.

    If the reasons begin with a Markdown heading, the heading must start on a new line.
    """
    model = _scoring_model(lambda order, _: dict.fromkeys(order, 50.0) | {order[0]: 70.0}, reasoning=reasoning)
    verdict = _run_debate(model, judge=JudgeOptions(schedule="swap", on_flip="tie")).raw.verdict
    assert verdict.winner is None
    assert line in verdict.reasoning


def test_people_see_the_ballots_and_decide_after_a_flip() -> None:
    """With `on_flip="human"`, a human receives the findings from each ballot and replies with the verdict."""
    requests: list[str] = []

    def ask(request: Any) -> dict[str, str]:
        requests.append(request.shown)
        return {"reasoning": "I have read it.", "winner": "against", "verdict": "No."}

    verdict = _run_debate(_biased_judge(20), judge=JudgeOptions(schedule="swap", on_flip="human", ask=ask)).raw.verdict
    assert (verdict.winner, verdict.verdict) == ("against", "No.")
    assert len(verdict.judging.ballots) == 2
    (ballots_text,) = requests
    assert "which was shown for first: for (for 0.62" in ballots_text
    assert "which was shown against first: against (" in ballots_text


def test_people_decide_only_after_a_flip() -> None:
    """If all views lead to the same winner, no human decision is needed."""

    def ask(_: object) -> None:
        pytest.fail("nobody has to decide")

    options = JudgeOptions(schedule="swap", on_flip="human", ask=ask)
    assert _run_debate(_biased_judge(0), judge=options).raw.verdict.judging.on_flip is None


def test_suspended_runs_resume_without_judging_again(tmp_path: Any) -> None:
    """The ballots are stored with the run, so no judge is called again once a human has answered."""
    from flowdebate import submit_answer_sync

    rent = debate(name="rent", debaters=SIDES, synthesizer=False, judge=JudgeOptions(schedule="swap", on_flip="human"))
    model, store = _biased_judge(20), str(tmp_path / "runs.db")
    parked = rent.run_sync(QUESTION, model=model, seed=0, store=store)
    assert parked.status == "awaiting"
    submit_answer_sync(store, parked.run_id, {"reasoning": "Read.", "winner": "for", "verdict": "Yes."})
    silent = ScriptedModel(name="function")
    result = rent.resume_sync(parked.run_id, model=silent, store=store, allow_changes=True)
    assert result.raw.verdict is not None
    assert result.raw.verdict.winner == "for"
    assert result.raw.verdict is not None
    assert result.raw.verdict.judging is not None
    assert len(result.raw.verdict.judging.ballots) == 2
    silent.assert_complete()


def _panel(*models: Any, **options: Any) -> JudgeOptions:
    return JudgeOptions(panel=models, **options)


def _steady_judge(winner: str) -> FunctionModel:
    model = _scoring_model(lambda order, _: {side: 80 if side == winner else 20 for side in order})
    model.name = f"judge-{winner}"
    return model


def test_panels_have_one_ballot_per_model_and_view() -> None:
    options = _panel(
        _steady_judge("for"), _steady_judge("for"), _steady_judge("against"), schedule="swap", decided_by="vote"
    )
    verdict = _run_debate(_biased_judge(0), judge=options).raw.verdict
    assert verdict.winner == "for"
    assert verdict.judging.scores == pytest.approx({"for": 2 / 3, "against": 1 / 3})
    assert len(verdict.judging.ballots) == 6
    assert not verdict.judging.flipped  # disagreement between models is not a flip
    assert verdict.judging.effective_n == pytest.approx(2 / (1 + 0.4375))


def _fail(_: ModelRequest) -> ModelResponse:
    raise ModelUnavailable("down")


def test_panels_with_a_quorum_continue_without_a_failed_model() -> None:
    """With `quorum=1`, the panel goes on without a model whose provider fails, and the failure is recorded.

    By default, at least two models must answer.
    """
    down = FunctionModel(_fail, name="down")
    result = _run_debate(_biased_judge(0), judge=_panel(_steady_judge("for"), down, quorum=1))
    assert result.status == "degraded"
    assert result.raw.verdict.winner == "for"
    assert [ballot.problem is None for ballot in result.raw.verdict.judging.ballots] == [True, False]
    assert result.raw.verdict.judging.effective_n == 1
    assert [(failure.role, failure.instead) for failure in events(result, RoleFailed)] == [("judge", "skipped")]
    assert _run_debate(_biased_judge(0), judge=_panel(_steady_judge("for"), down)).status == "no_verdict"
    three = _panel(_steady_judge("for"), down, _steady_judge("against"))
    result_without = _run_debate(_biased_judge(0), judge=three)
    assert (result_without.status, [loss.name for loss in result_without.raw.losses]) == ("degraded", ["down"])
    with pytest.raises(ModelUnavailable):
        _run_debate(_biased_judge(0), judge=three, failures=FailurePolicy(on_failure="fail"))


def test_unusable_ballots_are_excluded_and_recorded() -> None:
    def score(order: list[str], _: ModelRequest) -> Scores | str:
        return "I had rather not." if order[0] == "for" else {side: 30.0 + 40 * (side == "for") for side in order}

    verdict = _run_debate(_scoring_model(score)).raw.verdict
    assert verdict.winner == "for"
    assert sorted(ballot.problem is None for ballot in verdict.judging.ballots) == [False, True]
    unreadable = _run_debate(_scoring_model(lambda *_: "I had rather not."))
    assert (unreadable.status, unreadable.raw.losses[0].error_type) == ("no_verdict", "SchemaViolation")


@given(votes=st.lists(st.sampled_from(["for", "against"]), min_size=1, max_size=7), seed=st.integers(0, 9))
def test_curtailed_votes_have_the_same_winner_as_the_full_vote(votes: list[str], seed: int) -> None:
    results = [
        _run_debate(
            _biased_judge(0), judge=_panel(*map(_steady_judge, votes), decided_by="vote", curtail=curtail), seed=seed
        )
        for curtail in (False, True)
    ]
    complete, short = (result.raw.verdict for result in results)
    assert complete.winner == short.winner
    assert complete.judging.saved == 0
    assert short.judging.saved == short.judging.planned - len(short.judging.ballots)
    if len(votes) > 2 and len(set(votes)) == 1:
        assert short.judging.saved == len(votes) - len(votes) // 2 - 1


def test_session_stores_the_verdict() -> None:
    result = _run_debate(_biased_judge(0))
    last = [item for item in result.session.history if item["name"] == "rent-judge"]
    assert [json.loads(item["content"])["winner"] for item in last] == ["for"]
    assert "judging" not in last[0]["content"]
    assert len([event for event in events(result, BlockAnswered) if event.block == "rent-judge"]) == 3


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "schedule": ({"schedule": "both"}, '"single", "swap"'),
    "sampled": ({"schedule": "sampled(0)"}, "between 1 and 1,000"),
    "on_flip": ({"on_flip": "ignore"}, "average, abstain, tie or human"),
    "decided_by": ({"decided_by": "score"}, "mean, vote or log_odds"),
    "panel": ({"panel": "local"}, "a sequence of models"),
    "quorum": ({"panel": ["local"], "quorum": 2}, "at most 1"),
    "curtail": ({"curtail": True, "on_flip": "tie"}, "`curtail` cannot be combined with `on_flip` tie"),
    "labels": ({"labels": ["A", ""]}, "a list with one label per side"),
    "correlation": ({"correlation": 1.5}, "between 0 and 1"),
    "ask": ({"ask": print}, "requires `on_flip` human"),
}


@pytest.mark.parametrize("field", WRONG)
def test_errors_name_the_invalid_option(field: str) -> None:
    options, allowed = WRONG[field]
    with pytest.raises(ConfigurationError, match=field if field != "sampled" else "size") as caught:
        JudgeOptions(**options)
    assert allowed in str(caught.value)


def test_judge_options_must_match_the_sides() -> None:
    """The judge must be able to tell all sides apart, and each scheduled order must contain all of them."""
    five = [Debater(f"n{index}", f"side {index}") for index in range(5)]
    for judge, debaters, message in (
        (JudgeOptions(labels=["for", "B"]), SIDES, "differ from each other and from the stances"),
        (JudgeOptions(labels=["A", "B", "C"]), SIDES, "each of the 2 sides"),
        ("full", five, "at most 4"),
        ("both", SIDES, '"single", "swap"'),
    ):
        with pytest.raises(ConfigurationError, match=message):
            debate(name="rent", debaters=debaters, judge=judge)


def test_panels_can_be_created_as_blocks() -> None:
    """A panel created as a block must use the debate's transcript and needs at least one model."""
    transcript = create_debate_transcript()
    options: dict[str, Any] = {"name": "rent", "transcript": transcript, "stances": ["for", "against"]}
    panel = create_judge_panel(
        panel=[_steady_judge("for"), _steady_judge("against"), _steady_judge("against")], **options
    )
    assert _run_debate(_biased_judge(0), judge=panel, transcript=transcript).raw.verdict.winner == "against"
    with pytest.raises(ConfigurationError, match="`panel` must contain at least one model"):
        create_judge_panel(panel=[], **options)
