"""Provider failures that affect moderators, judges and debaters, and the quorum of stances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.chassis.state import RoleFailed
from flowdebate.errors import (
    ProviderFailed,
    QuorumLost,
    Refused,
)
from flowdebate.testing import ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, blocks_asked, decision, events, moderated, script
from tests.patterns.policies import with_policy

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.anyio

DOWN = ProviderFailed("the endpoint answered 503", status=503)


def rent(**options: Any) -> Any:
    """Build a debate that has two sides and two rounds and skips failures."""
    defaults: dict[str, Any] = {"name": "rent", "debaters": SIDES, "synthesizer": False, "on_failure": "skip"}
    return debate(**with_policy({**defaults, **options}))


def losses(result: Any) -> list[tuple[str, str, int, str]]:
    """Return each failure's role, name, round and recovery."""
    return [(loss.role, loss.name, loss.round, loss.instead) for loss in result.raw.losses]


def test_quorum_counts_the_stances_of_speakers_in_each_round() -> None:
    """If only one debater speaks in a round, the quorum requires an answer from that debater alone.

    Debaters who share a stance count as one.
    """
    alone = rent(max_rounds=1, moderator=lambda _: decision("ben"))
    with pytest.raises(QuorumLost, match="nobody answered"):
        alone.run_sync(QUESTION, model=ScriptedModel(DOWN))
    two = [Debater("a", "for"), Debater("b", "for"), Debater("c", "against")]
    with pytest.raises(QuorumLost):
        rent(debaters=two, max_rounds=1).run_sync(QUESTION, model=ScriptedModel("A", "B", DOWN))
    result = rent(debaters=two, max_rounds=1).run_sync(QUESTION, model=ScriptedModel("A", DOWN, "C", VERDICT))
    assert result.status == "degraded"


@pytest.mark.parametrize("synthesizer", [None, False], ids=["with a synthesizer", "without"])
def test_failed_judges_leave_the_debate_without_a_verdict(synthesizer: Any) -> None:
    model = ScriptedModel("A1", "B1", "A2", "B2", Refused("I cannot judge"))
    result = rent(synthesizer=synthesizer).run_sync(QUESTION, model=model)
    assert (result.status, result.raw.status, result.raw.verdict) == ("no_verdict", "no_verdict", None)
    assert result.output is (result.raw if synthesizer is False else None)
    assert len(result.raw.transcript) == 4
    assert losses(result) == [("judge", "rent-judge", 2, "no_verdict")]
    assert result.raw.stop_reason == "max_rounds"
    model.assert_complete()


def test_output_schema_does_not_apply_if_the_judge_fails() -> None:
    """A debate without a verdict has no output to validate."""
    summarize: Callable[[Any], Any] = lambda raw: {"n": 1}  # noqa: E731
    pattern = rent(synthesizer=summarize, output_schema={"type": "object", "required": ["n"]})
    assert pattern.run_sync(QUESTION, model=ScriptedModel("A1", "B1", "A2", "B2", DOWN)).output is None
    assert pattern.run_sync(QUESTION, model=script("A1", "B1", "A2", "B2")).output == {"n": 1}


def test_failed_moderators_are_replaced_by_the_declared_order() -> None:
    """If the moderator fails, the declared order is used for that round only.

    The moderator can open the next round as usual.
    """
    model = ScriptedModel(DOWN, "A1", "B1", decision("ben", "anna"), "B2", "A2", VERDICT)
    result = rent(**moderated()).run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["A1", "B1", "B2", "A2"]
    assert [choice.fallback for choice in result.output.moderator_decisions] == [True, False]
    assert losses(result) == [("moderator", "rent-moderator", 1, "declared_order")]
    with pytest.raises(ProviderFailed):
        rent(on_failure="fail", **moderated()).run_sync(QUESTION, model=ScriptedModel(DOWN))


def test_failures_in_an_inner_debate_degrade_the_outer_run() -> None:
    """Nothing failed in the outer debate itself, so its raw output lists no failures."""
    inner = rent(name="inner", max_rounds=1, quorum=1, synthesizer=lambda raw: raw.verdict.verdict)
    outer = rent(debaters=[Debater("anna", "for", block=inner), SIDES[1]], max_rounds=1)
    model = ScriptedModel("IA", DOWN, VERDICT, "B", VERDICT)
    result = outer.run_sync(QUESTION, model=model)
    assert result.status == "degraded"
    assert result.output.losses == []
    assert [event.name for event in events(result, RoleFailed)] == ["ben"]


def test_failure_handling_does_not_call_the_judge_twice() -> None:
    model = script("A1", "B1", "A2", "B2")
    plain = script("A1", "B1", "A2", "B2")
    result, unguarded = (
        rent().run_sync(QUESTION, model=model, seed=1),
        rent(on_failure="fail").run_sync(QUESTION, model=plain, seed=1),
    )
    assert result.raw == unguarded.raw
    assert blocks_asked(model) == blocks_asked(plain)
    assert (result.status, unguarded.status) == ("complete", "complete")
