from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.patterns.handoff.speakers import FORMS, over
from tests.test_examples import load_script

if TYPE_CHECKING:
    from flowdebate.patterns.handoff.schemas import TransitionForm
    from flowdebate.testing import ModelRequest


@pytest.mark.parametrize("form", FORMS)
def test_debaters_can_use_every_form_of_handoff(form: TransitionForm, capsys: pytest.CaptureFixture[str]) -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> Any:
        prompts.append(request.block.removeprefix("moral-decisions-debater-"))
        if len(prompts) == 1:
            return over("I open.", "Moderator", form)
        return over(f"Words {len(prompts)}.", "Neutral" if prompts[-1] == "Opponent" else "Opponent", form)

    with forbid_real_models():
        output = load_script("moral_decisions").main(FunctionModel(answer), transition=form, max_turns=3)
    assert prompts == ["Proponent", "Proponent", "Opponent", "Neutral"]
    assert [turn.text for turn in output.transcript] == ["I open.", "Words 3.", "Words 4."]
    printed = capsys.readouterr().out
    assert "Proponent: I open.\n    -> Opponent (retry)" in printed
    assert "Turn 1: 'Moderator' is not a speaker in this debate" in printed


def test_debaters_have_their_own_positions() -> None:
    example = load_script("moral_decisions")
    assert [debater.name for debater in example.DEBATERS] == [member.value for member in example.Speaker]
    assert len({debater.system_prompt for debater in example.DEBATERS}) == 3
