"""Fields common to the raw outputs of all patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate, deliberation, handoff, round_robin
from flowdebate.chassis.output import Entry, PatternOutput
from flowdebate.testing import ScriptedModel

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block

pytestmark = pytest.mark.anyio

MEMBERS = [{"name": "ann"}, {"name": "bob"}]
SIDES = [Debater("ann", "cap"), Debater("bob", "free")]
VERDICT = {"reasoning": "It held.", "winner": "cap", "verdict": "Cap them."}
REPORT = {"summary": "Both want it.", "status": "SETTLED", "decision": "Cap half."}
SAID = ["Yes.", "No."]


@pytest.mark.parametrize(
    ("pattern", "replies", "answer", "stop_reason"),
    [
        pytest.param(
            debate(name="x", debaters=SIDES, max_rounds=1, synthesizer=False),
            [*SAID, VERDICT],
            "Cap them.",
            "max_rounds",
            id="debate",
        ),
        pytest.param(
            deliberation(name="x", debaters=MEMBERS), [*SAID, REPORT], "Cap half.", "settled", id="deliberation"
        ),
        pytest.param(
            handoff(name="x", debaters=MEMBERS, max_turns=2, transition="text"),
            ["Yes.\nTransition to bob", "No.\nTransition to ann"],
            None,
            "max_turns",
            id="handoff",
        ),
        pytest.param(
            round_robin(name="x", debaters=MEMBERS, max_rounds=1, synthesizer=False),
            SAID,
            None,
            "max_rounds",
            id="round robin",
        ),
    ],
)
async def test_pattern_outputs_share_their_fields(
    pattern: Block[Any, Any], replies: list[Any], answer: str | None, stop_reason: str
) -> None:
    output = (await pattern.run("Cap rents?", model=ScriptedModel(*replies), seed=7)).output
    assert isinstance(output, PatternOutput)
    assert output.subject == "Cap rents?"
    second = 2 if stop_reason == "max_turns" else 1
    assert output.entries == [
        Entry(round=1, speaker="ann", text="Yes."),
        Entry(round=second, speaker="bob", text="No."),
    ]
    assert (output.answer, output.stop_reason, output.status, output.losses, output.seed) == (
        answer,
        stop_reason,
        "complete",
        [],
        7,
    )
    assert type(output).model_validate(output.to_wire()) == output


async def test_winner_of_a_debate_has_a_stance_and_names() -> None:
    """The winner is `None` if the verdict is a synthesis of several stances."""
    pattern = debate(
        name="x", debaters=[*SIDES, Debater("cy", "cap"), Debater("dee", "wait")], max_rounds=1, synthesizer=False
    )
    model = ScriptedModel("Yes.", "No.", "Yes!", "Later.", VERDICT)
    output = (await pattern.run("Cap rents?", model=model)).output
    assert output.winner is not None
    assert output.verdict is not None
    assert (output.winner.stance, output.winner.debaters) == ("cap", ("ann", "cy"))
    synthesis = output.model_copy(update={"verdict": output.verdict.model_copy(update={"winner": None})})
    assert synthesis.winner is None
    assert output.model_copy(update={"verdict": None}).winner is None
    assert "winner" not in output.to_wire()
