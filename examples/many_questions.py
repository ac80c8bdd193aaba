"""Debate many questions concurrently, and resume without paying for any of them twice.

Run it with `python examples/many_questions.py`. It uses the default model (see docs/models.md). Stop it with Ctrl-C and
run it again: finished debates are loaded, and interrupted ones are resumed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate import Debater, debate

if TYPE_CHECKING:
    from flowdebate.models import Model
    from flowdebate.runs import BatchSummary
    from flowdebate.store import StoreChoice

QUESTIONS = [
    {"id": "A1", "topic": "transport", "question": "Should our town close its center to cars?"},
    {"id": "A2", "topic": "transport", "question": "Should buses in our town be free?"},
    {"id": "B1", "topic": "housing", "question": "Should our town cap rents?"},
    {"id": "B2", "topic": "housing", "question": "Should our town build towers?"},
]

pattern = debate(
    name="town",
    debaters=[Debater("Ruth", "the proposal should be carried out"), Debater("Omar", "it should be left as it is")],
    max_rounds=1,
    synthesizer=False,
)


async def hold(model: Model | str | None, store: StoreChoice) -> BatchSummary:
    batch = pattern.batch(
        QUESTIONS,
        question=lambda row: row["question"],
        max_concurrency=3,
        model=model,
        store=store,
        batch_id="town-2026",
    )
    async for item in batch:
        if item.error is not None:
            print(f"{item.row['id']}: failed: {item.error}")
        else:
            again = " (from the store)" if item.replayed else ""
            print(f"{item.row['id']}, {item.row['topic']}: {item.raw.verdict.winner or 'nobody wins'}{again}")
    return batch.summary


def main(model: Model | str | None = None, store: StoreChoice = "town.sqlite3") -> BatchSummary:
    summary = asyncio.run(hold(model, store))
    print(f"{summary.done} of {summary.total} done, {summary.usage.calls} calls: {dict(summary.decisions)}")
    return summary


if __name__ == "__main__":
    main()
