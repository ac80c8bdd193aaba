"""Rejudging finished debates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import DebateContributionEntry, Debater, DebateRawOutput, debate
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import ArguedDebate, audit, create_rejudge, rejudge
from flowdebate.evaluation.rejudging import reuse_judge_options
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.testing import FunctionModel, SimJudge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    from flowdebate.testing import ModelRequest
    from flowdebate.testing.models import Reply

pytestmark = pytest.mark.anyio


def arguments_of(*stances: str) -> list[DebateContributionEntry]:
    """Create an argument for each of `stances`."""
    return [DebateContributionEntry(round=1, agent_name=side, stance=side, text=f"For {side}.") for side in stances]


def debate_output(*stances: str) -> ArguedDebate:
    """Create a debate with these sides."""
    return ArguedDebate(question="Q?", transcript=arguments_of(*stances))


class Judge:
    """A judge that counts its calls and favors the last side that it reads."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.model = FunctionModel(self.answer)

    def answer(self, request: ModelRequest) -> Reply:
        prompt = str(request.messages[-1])
        self.asked.append(prompt)
        schema: dict[str, Any] = request.output_schema or {}
        if "winner" in schema["properties"]:
            return {"reasoning": "R.", "winner": None, "verdict": "V."}
        sides = list(schema["$defs"]["Scores"]["properties"])
        last = max(sides, key=lambda side: prompt.rindex(f"[{side}]"))
        return {"reasoning": "R.", "scores": {side: 90 if side == last else 10 for side in sides}, "verdict": "V."}


@pytest.mark.parametrize(
    ("options", "mirror"),
    [
        ({"answer_form": "letter", "min_log_odds": 0.5}, False),
        ({"answer_form": "letter", "min_log_odds": 0.5}, True),
        ({"answer_form": "letter", "crossed_labels": True}, False),
        ({"schedule": "swap", "decided_by": "vote"}, False),
        ({"schedule": "full", "labels": True}, False),
        ({"schedule": "cyclic", "labels": ["red", "blue"]}, True),
        ({"schedule": "single", "answer_form": "scores"}, False),
        ({"schedule": "swap", "criteria": {"evidence": 2.0, "clarity": 1.0}}, False),
        ({"schedule": "swap", "criteria": {"evidence": 2.0, "clarity": 1.0}}, True),
    ],
)
async def test_rejudging_repeats_the_original_judging(options: dict[str, Any], mirror: bool) -> None:  # noqa: FBT001 - drawn
    """Unless an option says otherwise, the judge is asked in exactly the same way as before."""
    how = JudgeOptions(**options, quotes=False)
    sides = [Debater("ann", "cats", block=lambda _: "A cat."), Debater("bea", "dogs", block=lambda _: "A dog.")]
    pattern = debate(name="d", debaters=sides, max_rounds=1, judge=how, mirror=mirror, synthesizer=False)
    raw = (await pattern.run("Q?", model=SimJudge())).raw
    (result,) = await rejudge([DebateRawOutput.model_validate(raw.to_wire())], model=SimJudge(), store=False)
    verdict = raw.first_verdict or raw.verdict
    assert verdict is not None
    before = verdict.judging
    ballots_again = result.unwrap().output.ballots

    def shape(ballots: Sequence[JudgeBallot]) -> list[Any]:
        return sorted(
            (
                len(ballot.order),
                sorted((ballot.labels or {}).values()),
                ballot.log_odds is None,
                ballot.criteria is None,
            )
            for ballot in ballots
        )

    assert before is not None
    assert shape(ballots_again) == shape(before.ballots)
    parsed = reuse_judge_options(before)
    assert (parsed.form, parsed.rule, str(parsed.plan)) == (how.form, how.rule, str(how.plan))
    assert parsed.criteria == how.criteria
    assert before is not None
    # the value used originally is kept, even if it came from the fit rather than from the original options
    assert parsed.min_log_odds == before.min_log_odds
    assert reuse_judge_options(before, schedule="swap").form == how.form
    assert reuse_judge_options(None).form == "scores"


async def test_sides_appear_in_each_slot_and_no_debater_is_called() -> None:
    """The default orders form a Latin square.

    The judge is called as many times as there are sides, each time with the whole transcript.
    """
    judge = Judge()
    raw = DebateRawOutput(rounds=1, question="Q?", transcript=arguments_of("a", "b", "c"), verdict=None)
    results = await rejudge([raw, debate_output("yes", "no")], model=judge.model, store=False)
    first, second = (item.unwrap().output.ballots for item in results)
    assert [len(first), len(second), len(judge.asked)] == [3, 2, 5]
    assert {ballot.order[slot] for ballot in first for slot in range(3)} == {"a", "b", "c"}
    assert all({vote.order[slot] for vote in first} == {"a", "b", "c"} for slot in range(3))
    assert all(ballot.winner == ballot.order[-1] for ballot in [*first, *second])
    assert all("For a." in prompt and "For c." in prompt for prompt in judge.asked if "[a]" in prompt)


async def test_repeated_views_have_the_same_order() -> None:
    """Repeated judgments of a debate use the same order of sides, while different debates have different orders."""
    judge = Judge()
    results = await rejudge([debate_output("a", "b", "c")] * 8, repeat=2, model=judge.model, seed=4, store=False)
    orders = [[tuple(ballot.order) for ballot in item.unwrap().output.ballots] for item in results]
    assert all(order[:3] == order[3:] for order in orders)
    assert len({order[0] for order in orders}) > 1


async def test_single_judge_call_asks_for_a_winner_instead_of_scores() -> None:
    results = await rejudge([debate_output("a", "b")], judge=JudgeOptions(), model=Judge().model, store=False)
    (ballot,) = results[0].unwrap().output.ballots
    assert (ballot.scores, ballot.winner) == (None, None)


async def test_judge_receives_the_instructions_in_its_options() -> None:
    systems: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        systems.append(str(request.messages[0]))
        return Judge().answer(request)

    how = JudgeOptions(instructions="Weigh the numbers.", model=FunctionModel(answer))
    results = await rejudge([debate_output("a", "b")], judge=how, store=False)
    assert [len(item.unwrap().output.ballots) for item in results] == [1]
    assert ["Weigh the numbers." in system for system in systems] == [True]


async def test_stored_verdicts_are_not_requested_again(tmp_path: Path) -> None:
    judge = Judge()
    runs = [
        await rejudge([debate_output("a", "b")], model=judge.model, store=tmp_path / "runs.db", batch_id="again")
        for _ in range(2)
    ]
    assert len(judge.asked) == 2
    assert runs[0][0].unwrap().output == runs[1][0].unwrap().output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": JudgeOptions(schedule="cyclic", curtail=True)}, "`curtail` cannot be set"),
        ({"judge": JudgeOptions(schedule="cyclic", on_flip="human")}, "`on_flip` cannot be set"),
        ({"repeat": 0}, "`repeat` must be at least 1"),
        ({"repeat": 2}, "`seed` is required if `repeat` is greater than 1"),
    ],
    ids=["curtailed", "a person", "never", "no seed"],
)
async def test_judges_that_omit_ballots_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_rejudge(stances=["a", "b"], **options)


async def test_unjudgeable_debates_are_rejected_before_any_call() -> None:
    judge = Judge()
    with pytest.raises(ConfigurationError, match="`debates` must not be empty"):
        await rejudge([], model=judge.model)
    with pytest.raises(ConfigurationError, match=r"`debates\[1\]` must have arguments from at least two sides"):
        await rejudge([debate_output("a", "b"), debate_output("a")], model=judge.model)
    assert judge.asked == []


async def test_names_in_arguments_are_hidden_when_rejudging() -> None:
    """The judge of a stored debate sees aliases, as the original judge did."""
    judge = Judge()
    texts = {"yes": "As anna, I say yes.", "no": "ben: no."}
    entries = [
        DebateContributionEntry(round=1, agent_name=name, stance=stance, text=texts[stance])
        for name, stance in (("anna", "yes"), ("ben", "no"))
    ]
    await rejudge([ArguedDebate(question="Q?", transcript=entries)], model=judge.model, store=False)
    assert len(judge.asked) == 2
    assert not any("anna" in prompt or "ben" in prompt for prompt in judge.asked)


async def test_letter_ballots_are_rejudged(tmp_path: Path) -> None:
    """The ballots serve only to measure the judge's bias, so no quotes are requested.

    Rejudging with the same `batch_id` makes no further calls.
    """
    judge, requests = SimJudge(slot=1.5, quality=lambda text: len(text) / 10), []

    def count_request(request: ModelRequest) -> Any:
        requests.append(request)
        return judge.request(request)

    async def rejudge_again() -> Any:
        return await rejudge(
            [debate_output("a", "b", "c"), debate_output("yes", "no")],
            judge=JudgeOptions(answer_form="letter"),
            model=FunctionModel(count_request),
            store=str(tmp_path / "runs.db"),
            batch_id="again",
        )

    cast = [item.unwrap().output.ballots for item in await rejudge_again()]
    assert [len(ballots) for ballots in cast] == [3, 2]
    assert len(requests) == 5
    assert all(ballot.log_odds is not None and ballot.problem is None for ballots in cast for ballot in ballots)
    slot = audit(cast).slot_log_odds
    assert slot is not None
    assert slot.value == pytest.approx(1.5, abs=1e-9)
    assert [item.unwrap().output.ballots for item in await rejudge_again()] == cast
    assert len(requests) == 5
