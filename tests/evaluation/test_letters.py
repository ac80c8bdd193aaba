"""Length correction for letter judges: the fit, and the threshold for a winner."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, JudgeOptions, debate
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import fit_letters
from flowdebate.models.base import ModelResponse
from flowdebate.patterns.debate import JudgeBallot, Judging, LetterFit
from flowdebate.patterns.debate.judging.ballots import decide
from flowdebate.patterns.debate.judging.jurors import FITTED, JudgeTemplate
from flowdebate.testing import FunctionModel

SIDES = ("cap", "free")
WEIGHTS = "/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"


def draw_ballots(lead: float, lengths: tuple[int, int], *, slot: float = 1.0, fit: LetterFit | None = None) -> Judging:
    """Draw two ballots in which the first side leads by `lead` on average, whatever the slot effect."""
    ballots = []
    for view, order in enumerate((SIDES, SIDES[::-1])):
        ahead = lead + (slot if view == 0 else -slot)
        odds = {"cap": ahead / 2, "free": -ahead / 2}
        length_of = dict(zip(SIDES, lengths, strict=True))
        ballots.append(JudgeBallot(view=view, order=list(order), log_odds=odds, mass=1.0, lengths=length_of, fit=fit))
    return Judging(answer="letter", decided_by="log_odds", ballots=ballots, scores=dict.fromkeys(SIDES, 0.5))


def test_judges_that_weigh_length_and_quality_are_fitted() -> None:
    """The fit recovers the slope that was used to simulate the judge.

    Only about one in twenty pairs of equal quality is given a winner.
    """
    random = Random(7)

    def draw(quality: float) -> tuple[float, tuple[int, int]]:
        ratio = random.uniform(-1.1, 1.1)
        return quality + 0.1 * ratio + random.gauss(0, 0.05), (round(3_000 * math.exp(ratio)), 3_000)

    judgings = [(draw_ballots(*draw(0.2)), "cap") for _ in range(400)]
    equal = [(draw_ballots(*draw(0.0)), None) for _ in range(4_000)]
    fit = fit_letters([*judgings, *equal])
    assert fit.per_log_length == pytest.approx(0.1, abs=0.01)
    assert fit.min_log_odds == pytest.approx(1.96 * 0.05, abs=0.02)
    beyond = 0
    for _ in range(1_000):
        ballots = draw_ballots(*draw(0.0), fit=fit).ballots
        beyond += decide(ballots, sides=SIDES, by="log_odds", min_log_odds=fit.min_log_odds).winner is not None
    assert 25 <= beyond <= 85


def test_unfittable_ballots_are_rejected() -> None:
    judgings = [(draw_ballots(0.1, (100 + number, 100)), "cap") for number in range(10)]
    equal = [(draw_ballots(0.0, (100, 100)), None)] * 20
    assert fit_letters([*judgings, *equal]).min_log_odds >= 0
    for given_, location in (
        ([*judgings, *equal[1:]], "10 and 19"),
        ([*judgings[1:], *equal], "9 and 20"),
        ([*[judgings[0]] * 10, *equal], "10 and 20"),
        ([(draw_ballots(0.1, (2, 1)), "tea")], r"judged\[0\].*tea"),
        ([(Judging(ballots=[], scores={}), None)], r"judged\[0\]"),
    ):
        with pytest.raises(ConfigurationError, match=location):
            fit_letters(given_)


@given(
    lead=st.floats(-3, 3),
    lengths=st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)),
    slope=st.floats(-1, 1),
)
def test_length_effect_is_bounded_and_zero_sum(lead: float, lengths: tuple[int, int], slope: float) -> None:
    """The effect stops growing once one argument is four times as long as the other.

    One side's loss is the other's gain.
    """
    fit = LetterFit(per_log_length=slope, min_log_odds=0.1)
    for ballot in draw_ballots(lead, lengths, fit=fit).ballots:
        explained = ballot.for_length
        assert sum(explained.values()) == pytest.approx(0, abs=1e-12)
        assert abs(explained["cap"] - explained["free"]) <= abs(slope) * math.log(4) + 1e-12
        assert ballot.counted["cap"] == pytest.approx((ballot.log_odds or {})["cap"] - explained["cap"])


def judge_debate(model: Any, **options: Any) -> Any:
    """Judge a debate whose first side writes three times as much."""
    texts = {"cap": "Rents rose by a third. " * 3, "free": "Rents rose by a third. "}
    sides = [Debater(name, name, block=lambda _, __, text=text: text) for name, text in texts.items()]
    judge = JudgeOptions(answer_form="letter", quotes=False, **options)
    pattern = debate(name="rent", debaters=sides, max_rounds=1, judge=judge, synthesizer=False)
    return pattern.run_sync("Cap rents?", model=model, seed=1).raw.verdict


def length_judge(weights: str | None = None) -> FunctionModel:
    """Create a judge whose log-odds are .2 per unit of log length and depend on nothing else."""

    def answer(request: Any) -> ModelResponse:
        turn = request.messages[-1]["content"]
        halves = turn.split("Side A:")[1].split("Side B:")
        odds = 0.2 * math.log(halves[0].count("third") / halves[1].split("\n\n")[0].count("third"))
        logprobs = {"A": -math.log1p(math.exp(-odds)), "B": -math.log1p(math.exp(odds))}
        return ModelResponse(text="A", logprobs=logprobs, model=weights)

    return FunctionModel(answer)


def test_length_alone_does_not_win_with_a_fit_and_its_threshold() -> None:
    assert judge_debate(length_judge()).winner == "cap"
    result = judge_debate(length_judge(), fit=LetterFit(per_log_length=0.2, min_log_odds=0.15))
    assert result.winner is None
    assert result.judging.min_log_odds == 0.15
    assert "Ahead by 0.00 log-odds (+0.22 before the sides' lengths are discounted)" in result.reasoning.replace(
        "-0.00", "0.00"
    )
    assert "A winner needs 0.15." in result.reasoning
    ballot = result.judging.ballots[0]
    assert max((ballot.log_odds or {}).values()) == pytest.approx(0.11, abs=0.01)
    assert ballot.scores == pytest.approx({"cap": 0.5, "free": 0.5}, abs=0.01)
    assert (
        judge_debate(length_judge(), fit=LetterFit(per_log_length=0.2, min_log_odds=9), min_log_odds=0).winner
        is not None
    )
    # the lead is too small by 0.0002
    short_of_it = judge_debate(length_judge(), fit=LetterFit(per_log_length=0, min_log_odds=0.2199))
    assert short_of_it.winner is None
    assert "Ahead by less than 0.22 log-odds" in short_of_it.reasoning


def test_local_model_fit_applies_only_to_its_weights_and_the_default_prompt() -> None:
    """The fit is used neither for other weights with the same name nor for any other prompt."""
    [(slope, threshold)] = FITTED.values()
    fit = LetterFit(per_log_length=slope, min_log_odds=threshold)
    assert [ballot.fit for ballot in judge_debate(length_judge(WEIGHTS)).judging.ballots] == [fit, fit]
    assert judge_debate(length_judge(WEIGHTS)).judging.min_log_odds == fit.min_log_odds
    assert judge_debate(length_judge("other.gguf")).judging.ballots[0].fit is None
    words = JudgeTemplate(letter="Judge.")
    assert judge_debate(length_judge(WEIGHTS), template=words).judging.ballots[0].fit is None
    assert judge_debate(length_judge(WEIGHTS), min_log_odds=0.01).judging.min_log_odds == 0.01
