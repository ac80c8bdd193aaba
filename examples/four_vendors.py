"""Give each role its own model, using one mapping from debaters and roles to models.

Run it with `python examples/four_vendors.py`. By default, it assigns models from the configured vendors in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models import ModelChoice

QUESTION = "Should our library support the oldest Python that still gets security fixes?"
SIDES = [
    Debater("keeper", "The library should support every Python that still gets security fixes"),
    Debater("mover", "The library should support the two newest Pythons only"),
]


def build(model: ModelChoice = "each") -> Sequencer[Any, DebateRawOutput]:
    """Build the debate; `model` is one model for all, or a mapping by name and role."""
    return debate(name="pythons", debaters=SIDES, max_rounds=1, synthesizer=False, model=model)


def main(model: ModelChoice = "each") -> DebateRawOutput:
    """Print the model behind each name, and the verdict."""
    result = build(model).run_sync(QUESTION, seed=7)
    raw: DebateRawOutput = result.output
    for seat, models in result.models.items():
        print(f"{seat}: {', '.join(models)}")
    if raw.verdict is not None:
        print(f"\n{raw.verdict.winner or 'Nobody'}: {raw.verdict.verdict}")
    return raw


if __name__ == "__main__":
    main()
