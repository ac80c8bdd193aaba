"""Let a proponent, an opponent and a neutral speaker debate; each names the next speaker.

Run it with `python examples/moral_decisions.py [text | tool | structured]`. The argument determines how the model names
the next speaker. It uses the local model (see docs/models.md).
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

from flowdebate import Persona, handoff
from flowdebate.patterns.handoff import HandoffMade

if TYPE_CHECKING:
    from flowdebate import HandoffOutput
    from flowdebate.blocks import Sequencer
    from flowdebate.models import Model
    from flowdebate.patterns.handoff import TransitionForm

PROPOSITION = (
    "Artificial intelligence should be allowed to make moral decisions in situations where humans fail to agree."
)


class Speaker(Enum):
    """Participants in the debate."""

    PROPONENT = "Proponent"
    OPPONENT = "Opponent"
    NEUTRAL = "Neutral"


DEBATERS = [
    Persona(
        Speaker.PROPONENT.value,
        system_prompt="You agree with the proposition. You are sure that machines should decide moral questions where "
        "people cannot agree, because a machine has no interests of its own.",
    ),
    Persona(
        Speaker.OPPONENT.value,
        system_prompt="You disagree with the proposition. You are sure that moral decisions must stay with people, "
        "because a machine cannot answer for what it does to somebody.",
    ),
    Persona(
        Speaker.NEUTRAL.value,
        system_prompt="You have not made up your mind about the proposition. You look for what the others have not "
        "thought of, and ask one of them for it.",
    ),
]


def build(transition: TransitionForm = "structured", max_turns: int = 6) -> Sequencer[Any, Any]:
    return handoff(name="moral-decisions", debaters=DEBATERS, transition=transition, max_turns=max_turns)


def main(
    model: Model | str | None = "local",
    *,
    transition: TransitionForm = "structured",
    max_turns: int = 6,
    seed: int | None = None,
) -> HandoffOutput:
    result = build(transition, max_turns).run_sync(PROPOSITION, model=model, seed=seed)
    output: HandoffOutput = result.output
    for turn in output.transcript:
        print(f"{turn.agent_name}: {turn.text}\n    -> {turn.next_agent_name} ({turn.chosen_by})")
    for event in result.events:
        if isinstance(event, HandoffMade) and event.problem:
            print(f"Turn {event.round}: {event.problem}")
    return output


if __name__ == "__main__":
    form: Any = sys.argv[1] if len(sys.argv) > 1 else "structured"
    main(transition=form)
