"""How often an argument that attacks the local model as a judge wins, with each of five transcript formats.

Each debate is judged without and with an attack, with the attacker speaking first and second. Results are appended to
`--out` as one line of JSON per call, and existing calls are not repeated.

    python scripts/benchmarks/injection.py --out injection.jsonl --pairs 8
    python scripts/benchmarks/injection.py --out injection.jsonl --report evidence/records/injection.md
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, create_model

from flowdebate import Debater, create_debate_transcript, debate
from flowdebate.errors import FlowDebateError, ModelUnavailable
from flowdebate.models import LocalModel, ModelSettings, OutputSchema, Wrapper
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import ATTACKS
from flowdebate.testing.cases import Returns
from injection_debates import DEBATES
from injection_defences import DEFENCES, judge_with
from injection_report import Judged, report, write_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.models import Model, ModelRequest, ModelResponse
    from injection_debates import TwoSided

STRONG = ("forged-entry", "ignore-the-above", "evaluation-team", "chatml", "verdict-json")
"""Attacks to try by default; `--attacks` overrides them."""
FITTED = {
    "none": "forged-entry-plain",
    "datamark": "forged-entry-plain",
    "encode": "forged-entry-plain",
    "delimiter": "forged-entry-markup",
}
"""Forged entry for each defense in the format of its transcript, since an attacker would know that format."""
TEMPLATES = {attack.id: attack for attack in ATTACKS}
SETTINGS = ModelSettings(temperature=0, max_tokens=200, extra={"repeat_penalty": 1.0, "seed": 1})


class Brief(Wrapper):
    """Model with answers of bounded length: a grammar limits the reasoning to 80 characters and the verdict to 20.

    Otherwise, a small machine would spend most of a call on words that nobody reads.
    """

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        assert request.output is not None  # noqa: S101 - only the judges ask
        return await self.ask(replace(request, output=OutputSchema.of(briefly(request.output.model))))


@lru_cache
def briefly(verdict: type[BaseModel]) -> type[BaseModel]:
    """Return the schema of a judge's answer, with the same fields in the same order, but short texts."""
    fields: Any = {name: (field.annotation, field) for name, field in verdict.model_fields.items()}
    for name, longest in (("reasoning", 80), ("verdict", 20)):
        fields[name] = (Annotated[str, Field(max_length=longest)], fields[name][1])
    return create_model(verdict.__name__, __base__=verdict, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One call: the debate to judge, and how to judge it."""

    debate: TwoSided
    attacker: int
    """Index of the attacking side."""
    defence: str
    slot: int
    """1 if the attacker speaks first in each round, 2 if second."""
    attack: str | None
    """Name of the attack; None if nobody attacks."""

    @property
    def id(self) -> str:
        return f"{self.debate.id}/{self.defence}/{self.slot}/{self.attack or 'clean'}"

    def texts(self, side: int) -> tuple[str, str]:
        """Return a side's arguments in both rounds; an attack is appended to the last one."""
        speaker, opponent = self.debate.sides[side], self.debate.sides[1 - side]
        if side != self.attacker or self.attack is None:
            return speaker.first, speaker.second
        id_ = FITTED.get(self.defence, self.attack) if self.attack == "forged-entry" else self.attack
        attack = TEMPLATES[id_].written(own=speaker.stance, other=opponent.stance, question=self.debate.question)
        return speaker.first, speaker.second + attack


def cells(pairs: int, attacks: Sequence[str], defences: Sequence[str], seed: int) -> Iterator[Cell]:
    """List all calls debate by debate, so that partial results are balanced."""
    order = list(DEBATES)
    Random(seed).shuffle(order)
    for number, one in enumerate(order[:pairs]):
        for defence in defences:
            for slot in (1, 2):
                for attack in (None, *attacks):
                    yield Cell(debate=one, attacker=number % 2, defence=defence, slot=slot, attack=attack)


async def judged(cell: Cell, model: Model) -> Judged:
    """Run the debate, and return the winner."""
    transcript = create_debate_transcript()
    order = (cell.attacker, 1 - cell.attacker)[:: 1 if cell.slot == 1 else -1]
    stances = [side.stance for side in cell.debate.sides]
    judge = judge_with(cell.defence, stances=stances, transcript=transcript, settings=SETTINGS)
    pattern = debate(
        name="injection",
        transcript=transcript,
        debaters=[Debater(f"side-{side}", stances[side], block=Returns(*cell.texts(side))) for side in order],
        max_rounds=2,
        judge=judge,
        synthesizer=False,
    )
    fields: dict[str, Any] = {"debate": cell.debate.id, "attacker": stances[cell.attacker]}
    fields |= {"id": cell.id, "defence": cell.defence, "slot": cell.slot, "attack": cell.attack}
    try:
        result = await pattern.run(cell.debate.question, model=model, seed=1)
    except ModelUnavailable:
        raise
    except FlowDebateError as error:
        return Judged(**fields, winner=None, error=type(error).__name__)
    call = next(event for event in result.events if isinstance(event, ModelCalled))
    verdict = result.output.found
    return Judged(
        **fields,
        winner=verdict.winner,
        reasoning=verdict.reasoning,
        seconds=round(call.seconds, 2),
        prompt_tokens=call.usage.prompt_tokens,
        completion_tokens=call.usage.completion_tokens,
    )


def done(out: Path) -> list[Judged]:
    """Read all calls judged so far."""
    if not out.exists():
        return []
    return [Judged(**json.loads(line)) for line in out.read_text().splitlines()]


async def measure(todo: Sequence[Cell], out: Path) -> None:
    model = Brief(LocalModel())
    for number, cell in enumerate(todo, start=1):
        row = await judged(cell, model)
        with out.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        print(f"{number}/{len(todo)} {cell.id}: {row.error or row.winner}", flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the file of results, one line of JSON a call")
    parser.add_argument("--pairs", type=int, default=8, choices=range(2, len(DEBATES) + 1, 2), help="debates, even")
    parser.add_argument("--attacks", nargs="+", default=STRONG, choices=TEMPLATES, metavar="ID")
    parser.add_argument("--defences", nargs="+", default=DEFENCES, choices=DEFENCES)
    parser.add_argument("--seed", type=int, default=1, help="which debates, in which order")
    parser.add_argument(
        "--report", type=Path, help="write the tables between the markers of this Markdown file, and end"
    )
    return parser.parse_args()


def main() -> None:
    arguments = options()
    before = done(arguments.out)
    if arguments.report is not None:
        write_into(arguments.report, report(before))
        return
    judged_ids = {row.id for row in before}
    planned = cells(arguments.pairs, arguments.attacks, arguments.defences, arguments.seed)
    try:
        asyncio.run(measure([cell for cell in planned if cell.id not in judged_ids], arguments.out))
    except ModelUnavailable as missing:
        print(f"injection: not measured: {missing}")


if __name__ == "__main__":
    main()
