"""Hold an Oxford debate with cross-examination: the side that wins over more of the audience wins.

The debate then continues with a reader's question, which costs only the new calls. `format="oxford"` is one of seven
formats; see docs/debate.md.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate import Debater, debate

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model
    from flowdebate.store import StoreChoice

QUESTION = "Should cars be banned from the center?"

pattern = debate(
    name="center",
    debaters=[Debater("Ida", "cars should be banned"), Debater("Otto", "cars should stay")],
    format="oxford",
    audience=["a nurse", "a shopkeeper", "a bus driver"],
    synthesizer=False,
)


async def main(model: Model | str | None = None, store: StoreChoice = "formats.sqlite3") -> DebateRawOutput:
    """Print the cross-examination, each voter's choice before and after, and the answers to the reader."""
    first = await pattern.run(QUESTION, model=model, store=store, seed=7)
    for asked in first.raw.cross_questions:
        print(f"{asked.question.agent_name} asks: {asked.question.text}")
        if asked.answer is not None:
            print(f"  {asked.answer.agent_name}: {asked.answer.text}")
    for vote in first.raw.audience:
        print(f"{vote.voter}: {vote.before} -> {vote.after}")
    if first.raw.verdict is not None:
        print(first.raw.verdict.verdict)

    further = await pattern.continue_run(first.run_id, ask="What would it cost?", model=model, store=store)
    print("\nA reader asks: What would it cost?")
    for turn in further.raw.transcript:
        if turn.round > first.raw.rounds:
            print(f"  {turn.agent_name}: {turn.text}")
    raw: DebateRawOutput = further.raw
    return raw


if __name__ == "__main__":
    asyncio.run(main())
