"""Tests for `SimJudge` in a real debate and with arrays."""

from __future__ import annotations

import math
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry, Debater, debate
from flowdebate.errors import ConfigurationError, MalformedResponse
from flowdebate.models.base import Model, ModelRequest, ModelSettings
from flowdebate.models.output import OutputSchema
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, decide
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.transcript import render_entries
from flowdebate.testing.cases import Returns
from flowdebate.testing.simulated.draws import normal, normals, uniform
from flowdebate.testing.simulated.judge import (
    SimJudge,
    decide_all,
    is_right,
    length_of,
    orders_of,
    read_view,
    shares_of,
    style_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from flowdebate import DebateVerdict

STANCES = ("cap rents", "free rents", "tax land, [at once]", "build")
"""Stances, one of which contains characters that a tag must escape."""
numbers = st.floats(-4, 4).map(lambda value: round(value, 3))


def verdict(model: Model, judge: Any = None, *, stances: Sequence[str] = STANCES, seed: int = 1) -> DebateVerdict:
    """Return the verdict on a two-round debate with short arguments."""
    sides = [Debater(f"debater-{n}", stance, block=Returns(f"So: {stance}!")) for n, stance in enumerate(stances)]
    pattern = debate(name="rent", debaters=sides, max_rounds=2, judge=judge, synthesizer=False)
    raw_verdict = pattern.run_sync("What of rents?", model=model, seed=seed).raw.verdict
    assert raw_verdict is not None
    return raw_verdict


def judge_request(texts: dict[str, str], *, output: Any, settings: ModelSettings | None = None) -> ModelRequest:
    """Create a judge's request about texts with these side names."""
    entries = [DebateContributionEntry(round=1, agent_name="-", stance=side, text=texts[side]) for side in texts]
    messages = [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": f"Question: ?\n\n{render_entries(entries)}\n\nWho?"},
    ]
    return ModelRequest(
        messages=messages, block="judge", output=OutputSchema.of(output), settings=settings or ModelSettings()
    )


def scores_schema(*names: str) -> dict[str, Any]:
    """Return the JSON Schema of an answer with scores."""
    number = {"type": "number"}
    scores = {"type": "object", "properties": dict.fromkeys(names, number)}
    return {"type": "object", "properties": {"scores": scores}, "required": ["scores"]}


@pytest.mark.parametrize("judge", [None, "swap", "cyclic", "full", "sampled(3)", JudgeOptions(labels=True)], ids=str)
def test_simulated_judges_can_judge_a_real_debate(judge: Any) -> None:
    model = SimJudge(slot=1, label=0.5, noise=0.5, quality={side: 9.0 * (side == "build") for side in STANCES})
    assert isinstance(model, Model)
    assert verdict(model, judge).winner == "build"


def test_slot_biased_judges_prefer_the_first_slot() -> None:
    judging = verdict(SimJudge(slot=2, quality=dict.fromkeys(STANCES, 0.0)), "cyclic").judging
    assert judging is not None
    assert [ballot.winner for ballot in judging.ballots] == [ballot.order[0] for ballot in judging.ballots]
    assert judging.flipped
    assert max(judging.scores.values()) - min(judging.scores.values()) < 1e-12


def test_label_biased_judges_prefer_their_label() -> None:
    """The judge can tell from the prompt which label belongs to which side."""
    options = JudgeOptions(schedule="cyclic", labels=True)
    judging = verdict(SimJudge(label={"C": 2.0}, quality=dict.fromkeys(STANCES, 0.0)), options).judging
    assert judging is not None
    for ballot in judging.ballots:
        assert ballot.labels is not None
        assert ballot.winner is not None
        assert ballot.labels[ballot.winner] == "C"


def test_seeded_judges_do_not_depend_on_earlier_requests() -> None:
    one, second = SimJudge(noise=1, seed=5), SimJudge(noise=1, seed=5)
    first = verdict(one, "cyclic")
    for seed in range(3):
        verdict(second, "swap", seed=seed)
    assert verdict(second, "cyclic").judging == first.judging
    assert verdict(SimJudge(noise=1, seed=6), "cyclic").judging != first.judging


async def get_scores(model: SimJudge, request: ModelRequest) -> dict[str, float]:
    """Return the judge's scores."""
    scores: dict[str, float] = (await model.request(request)).data["scores"]  # type: ignore[index] # it is a dict
    return scores


@pytest.mark.anyio
async def test_different_request_seeds_draw_new_noise() -> None:
    """As with a real model, the answers vary with the seed, and the same seed always gives the same answer."""
    texts = {"a": "Yes.", "b": "No."}
    model = SimJudge(noise=1)
    plain, one, same_seed, other_seed = [
        await get_scores(
            model, judge_request(texts, output=scores_schema("a", "b"), settings=ModelSettings(extra=extra))
        )
        for extra in ({}, {"seed": 1}, {"seed": 1}, {"seed": 2})
    ]
    assert one == same_seed
    assert len({str(answer) for answer in (plain, one, other_seed)}) == 3


@pytest.mark.anyio
async def test_style_length_and_identity_are_read_from_the_text() -> None:
    texts = {"a": "Ann says it is good! Very good!", "b": "It is bad."}
    cases = {
        "style": (SimJudge(style=1.5, quality=lambda _: 0.0), 1.5),
        "length": (SimJudge(length=2.0, quality=lambda _: 0.0), 2 * math.log2(7 / 3)),
        "identity": (SimJudge(identity={"ann": 0.7, "Bob": 5}, quality=lambda _: 0.0), 0.7),
    }
    for model, odds in cases.values():
        for order in (("a", "b"), ("b", "a")):
            request = judge_request({side: texts[side] for side in order}, output=scores_schema(*order))
            scores = await get_scores(model, request)
            assert math.log(scores["a"] / scores["b"]) == pytest.approx(odds)


@pytest.mark.anyio
async def test_requests_for_other_roles_are_rejected() -> None:
    request = judge_request({"a": "Yes."}, output={"type": "object", "properties": {"plan": {"type": "string"}}})
    with pytest.raises(MalformedResponse, match="neither"):
        await SimJudge().request(request)


@pytest.mark.anyio
async def test_error_names_the_missing_qualities() -> None:
    with pytest.raises(ConfigurationError, match="must include b"):
        await SimJudge(quality={"a": 1}).request(
            judge_request({"a": "Yes.", "b": "No."}, output=scores_schema("a", "b"))
        )


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"slot": math.nan}, "slot"),
        ({"slot": [0, math.inf]}, "slot"),
        ({"label": True}, "label"),
        ({"noise": -1}, "noise"),
        ({"style": "much"}, "style"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SimJudge(**options)
    assert caught.value.field == field


def test_number_of_slot_biases_must_match_the_number_of_sides() -> None:
    with pytest.raises(ConfigurationError, match="3 positions"):
        SimJudge(slot=[1, 0]).log_odds([0, 0, 0], order=[0, 1, 2])


@given(
    st.integers(2, 5).flatmap(lambda k: st.lists(st.lists(numbers, min_size=k, max_size=k), min_size=1, max_size=4)),
    st.sampled_from(["single", "swap", "cyclic", "sampled(3)"]),
    numbers,
    numbers,
    st.floats(0, 2),
    st.integers(-(2**70), 2**70),
    st.randoms(use_true_random=False),
)
def test_array_decisions_match_single_decisions_exactly(
    quality: list[list[float]], schedule: str, slot: float, label: float, noise: float, seed: int, random: Random
) -> None:
    sides = len(quality[0])
    judge = SimJudge(slot=slot, label=label, noise=noise, seed=seed)
    orders = orders_of(schedule, sides, random=random, shuffle=True)
    called = np.array([random.sample(range(sides), sides) for _ in orders])
    content = [[random.random() for _ in row] for row in quality]
    items = np.array([random.getrandbits(63) for _ in quality])
    together = judge.log_odds_of(quality, orders=orders, called=called, content=content, items=items)
    one_by_one = [
        [
            judge.log_odds(row, order=order, called=labels, content=extra, item=int(item), view=view)
            for view, (order, labels) in enumerate(zip(orders.tolist(), called.tolist(), strict=True))
        ]
        for row, extra, item in zip(quality, content, items, strict=True)
    ]
    assert together.tolist() == one_by_one
    shares = shares_of(together)
    names = [str(side) for side in range(sides)]
    for by in ("mean", "vote"):
        decided = decide_all(shares, by=by)
        for number, views in enumerate(shares.tolist()):
            cast = [JudgeBallot(order=names, scores=dict(zip(names, view, strict=True))) for view in views]
            decision = decide(cast, sides=names, by=by)
            assert list(decision.scores.values()) == pytest.approx(decided.scores[number].tolist(), abs=1e-9)
            if (
                decision.winner is not None
                and sorted(decision.scores.values())[-2] < decision.scores[decision.winner] - 1e-9
            ):
                assert np.flatnonzero(decided.leaders[number]).tolist() == [int(decision.winner)]


def test_decisions_in_debates_match_array_decisions() -> None:
    quality = {side: number / 2 for number, side in enumerate(STANCES)}
    judge = SimJudge(slot=1, noise=0.5, seed=4, quality=quality)
    request = judge_request(dict.fromkeys(STANCES, "Yes."), output=scores_schema(*STANCES))
    view = read_view(request)
    assert [side.called for side in view.sides] == list(STANCES)
    odds = judge.log_odds_of(
        [[quality[side.stance] for side in view.sides]],
        orders=[range(4)],
        items=np.array([view.item], dtype=np.uint64),
        views=np.array([view.number], dtype=np.uint64),
    )
    expected = shares_of(odds)[0, 0]
    assert list(judge.shares(view).values()) == pytest.approx(expected.tolist(), abs=1e-14)


def test_draws_are_standard_normal_and_symmetric() -> None:
    drawn = [normal(1, item, 0, 0) for item in range(20_000)]
    assert abs(fmean(drawn)) < 0.03
    assert abs(pstdev(drawn) - 1) < 0.02
    assert normals(1, np.arange(20_000), 0, 0).tolist() == drawn
    assert abs(fmean(uniform(1, 0, view, 0) for view in range(20_000)) - 0.5) < 0.01


def test_ties_that_include_the_best_side_earn_partial_credit() -> None:
    shares = np.array([[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]], [[1, 1, 1]], [[0.2, 0.1, 0.7]]])
    right = is_right(decide_all(shares), [0, 2, 1, 2])
    assert right.tolist() == pytest.approx([0.5, 0, 1 / 3, 1])


def test_text_features_are_measured() -> None:
    """The emphasis score is capped at 1, and a text without any words has a length of 0."""
    assert (style_of("!!! **a** **b**"), style_of(""), length_of(""), length_of("a b c d")) == (1.0, 0.0, 0.0, 2.0)


def test_visible_names_in_tags_are_read() -> None:
    """A judge that is biased toward a name can favor it only if the transcript shows names."""
    model = SimJudge(identity={"debater-1": 9.0}, quality=dict.fromkeys(STANCES, 0.0))
    sides = [Debater(f"debater-{n}", stance, block=Returns("So.")) for n, stance in enumerate(STANCES)]
    winners = []
    for hidden in (True, False):
        pattern = debate(
            name="rent", debaters=sides, judge="swap", synthesizer=False, anonymize_transcript=hidden, max_rounds=1
        )
        raw_verdict = pattern.run_sync("?", model=model).raw.verdict
        assert raw_verdict is not None
        winners.append(raw_verdict.winner)
    assert winners == [None, STANCES[1]]
