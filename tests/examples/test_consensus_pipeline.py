from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.testing import FunctionModel
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest


def answer(request: ModelRequest) -> Any:
    """Answer as agents that vote for the architect."""
    match request.block.split("-")[1]:
        case "propose":
            return f"Move in steps, and measure ({request.block})."
        case "criticize":
            return {"reasoning": "It has no dates.", "issues": ["no dates"], "suggestions": ["dates"], "severity": 0.8}
        case "revise":
            position = "in two steps" if request.block.endswith("-architect") else "in one night"
            return {"proposal": f"Move {position} ({request.block}).", "position": position, "enough": False}
        case _:
            return {"reasoning": "It is the safest.", "choice": "architect", "confidence": 0.8}


def test_pipeline_survives_a_flaky_agent(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = load_script("consensus_pipeline").main(FunctionModel(answer))
    assert [reached.label for reached in first.stages][-4:] == [
        "ROUNDS_COMPLETE",
        "VOTING",
        "VOTE_AGGREGATION",
        "CONSENSUS_REACHED",
    ]
    assert {failure.name for failure in first.losses} == {"operator"}
    assert {failure.error_type for failure in first.losses} == {"ProviderFailed", "CircuitOpen"}
    assert all("operator" not in (proposal.agent for proposal in one.revisions) for one in first.rounds)
    assert (first.winner, first.outcome, first.strength) == ("architect", "consensus", "moderate")
    assert first.answer == "Move in two steps (migration-revise-architect)."
    assert [past.task for past in second.context.past_debates] == [first.task]
    assert [skipped.source for skipped in second.context.skipped] == []
    assert second.context.critique_patterns[0].issue == "no dates"
    assert sum(first.feedback.rating_changes.values()) == 0
    printed = capsys.readouterr().out
    assert "failed: operator, proposal: ProviderFailed" in printed
    assert "consensus: architect, moderate, confidence 60%" in printed
