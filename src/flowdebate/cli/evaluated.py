"""What the store has of an evaluation: of each question what was found, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.cli.find import WORDS, state_of
from flowdebate.errors import RunNotFound
from flowdebate.evaluation.benefit.comparison import help_item
from flowdebate.models.usage import Usage
from flowdebate.patterns.debate.schemas import DebateRawOutput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.cli.trials import Trial
    from flowdebate.evaluation.benefit.schemas import BenefitItem
    from flowdebate.store.base import Store

__all__ = ("Evaluated", "read_evaluated")


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An evaluation as far as it came."""

    items: Sequence[BenefitItem]
    """What was found of each question whose debate has a verdict."""
    left_out: Mapping[str, int]
    """How many others there are, by how their runs stand."""
    lost: int
    """Answers of baselines that were lost."""


async def read_evaluated(store: Store, name: str, trials: Sequence[Trial]) -> Evaluated:
    """Read what there is of the evaluation `name`, which is about `trials`."""
    items: list[BenefitItem] = []
    left_out: dict[str, int] = {}
    lost = 0
    for index, trial in enumerate(trials):
        try:
            stored = await store.run(f"{name}-{index}")
        except RunNotFound:
            left_out["not begun"] = left_out.get("not begun", 0) + 1
            continue
        raw = (stored.outcome or {}).get("raw") or {}
        if raw.get("verdict") is None or "baselines" not in raw:
            why = WORDS[state_of(stored)]
            left_out[why] = left_out.get(why, 0) + 1
            continue
        found = DebateRawOutput.model_validate(raw)
        usage = Usage(**stored.outcome["usage"])  # type: ignore[index]  # it has a raw output
        baselines = found.baselines or []
        lost += sum(answer.lost for answer in baselines)
        calls, tokens = usage.calls, usage.total_tokens
        items.append(help_item(found, baselines=baselines, calls=calls, tokens=tokens, truth=trial.truth))
    return Evaluated(items=items, left_out=left_out, lost=lost)
