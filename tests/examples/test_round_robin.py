from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest


def answer(request: ModelRequest) -> Any:
    """Answer as debaters who give no figures, a referee who reports this, and a planner."""
    if request.block.endswith("-referee"):
        critiques = [{"agentName": name, "issues": ["no figures"], "score": 50} for name in ("Ruth", "Omar", "Lena")]
        return {"assessments": critiques, "notes": "Give figures."}
    if request.block.endswith("-synthesizer"):
        return {
            "reasons": ["it slows cars down"],
            "plan": "Build a raised crossing.",
            "first_step": "Measure.",
            "open_risks": [],
        }
    has_feedback = "about your last turn: no figures" in str(request.messages[-1]["content"])
    return f"{'With figures' if has_feedback else 'Without'}: {request.block}."


def test_round_robin_heeds_its_referee_and_delivers_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("round_robin")
    with forbid_real_models():
        plan = example.main(FunctionModel(answer))
    assert plan == example.Plan(
        reasons=["it slows cars down"], plan="Build a raised crossing.", first_step="Measure.", open_risks=[]
    )
    printed = capsys.readouterr().out
    for debater in example.DEBATERS:
        block = f"way-to-school-debater-{debater.name}"
        assert f"1. [{debater.name}, {debater.role}] Without: {block}." in printed
        assert f"2. [{debater.name}, {debater.role}] With figures: {block}." in printed
    assert printed.count("50 of 100; no figures") == 6
    assert "Plan: Build a raised crossing.\nFirst step: Measure.\nRisks: none" in printed
