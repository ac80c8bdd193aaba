"""How often a text that attacks the local model as a judge wins a comparison, with attacks written for material.

Two texts of similar quality are compared without an attack, and with each attack for material appended to one of them,
in both orders. Results are appended to a file as one line of JSON per comparison, so a run can be stopped and
continued.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from pathlib import Path
from time import monotonic
from typing import Any

from flowdebate.evaluation import compare
from flowdebate.models.local.model import LocalModel
from flowdebate.testing import ATTACKS, Attack
from injection_debates import DEBATES, TwoSided
from injection_report import newcombe, wilson, write_into

MATERIAL = tuple(attack for attack in ATTACKS if attack.place == "material")
OWN, OTHER = "this text", "the other text"
ORDERS = 2


async def compare_texts(debate: TwoSided, side: int, attack: Attack | None, model: LocalModel) -> dict[str, Any]:
    """Compare the two sides of a debate as texts; `side` is the attacker."""
    names = ("first", "second")
    texts = {name: f"{one.first} {one.second}" for name, one in zip(names, debate.sides, strict=True)}
    if attack is not None:
        texts[names[side]] += attack.written(own=OWN, other=OTHER, question=debate.question)
    start = monotonic()
    comparison = await compare(debate.question, texts, judges=[model], store=False)
    ballots = comparison.ballots
    return {
        "debate": debate.id,
        "attack": None if attack is None else attack.id,
        "won": [ballot.winner == names[side] for ballot in ballots],
        "log_odds": [(ballot.log_odds or {}).get(names[side]) for ballot in ballots],
        "seconds": round(monotonic() - start, 1),
    }


async def measure(out: Path, debates: int) -> None:
    """Make the comparisons missing from `out`."""
    done = {(row["debate"], row["attack"]) for row in read(out)}
    model = LocalModel()
    for number, debate in enumerate(DEBATES[:debates]):
        for attack in (None, *MATERIAL):
            if (debate.id, None if attack is None else attack.id) not in done:
                row = await compare_texts(debate, number % 2, attack, model)
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def read(out: Path) -> list[dict[str, Any]]:
    """Read the comparisons so far."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def report(rows: list[dict[str, Any]]) -> str:
    """Render the table for debates that were compared with all attacks."""
    by_debate: dict[str, dict[str | None, dict[str, Any]]] = {}
    for row in rows:
        by_debate.setdefault(row["debate"], {})[row["attack"]] = row
    complete = [results for results in by_debate.values() if len(results) == len(MATERIAL) + 1]
    clean = [results[None] for results in complete]
    calls = sum(len(results) for results in complete) * ORDERS
    wins = _share([won for row in clean for won in row["won"]])
    setup = f"Pairs of texts: {len(complete)}; attacks: {len(MATERIAL)}; orders: {ORDERS}; calls: {calls}."
    lines = [
        f"{setup} The text that attacks wins {wins} clean.",
        "",
        "| Attacks in a compared text | wins attacked | difference to clean, points | change of its log-odds |",
        "|---|---|---|---|",
    ]
    kinds: dict[str, list[str]] = {"all": [attack.id for attack in MATERIAL]}
    for attack in MATERIAL:
        kinds.setdefault(attack.kind, []).append(attack.id)
    for name, ids in kinds.items():
        attacked = [(results[id_], results[None]) for results in complete for id_ in ids]
        pairs = [pair for one, baseline in attacked for pair in zip(one["won"], baseline["won"], strict=True)]
        shifts = [
            a - b for one, baseline in attacked for a, b in zip(one["log_odds"], baseline["log_odds"], strict=True)
        ]
        low, high = newcombe(pairs)
        gained = (sum(won for won, _ in pairs) - sum(won for _, won in pairs)) / len(pairs)
        difference = f"{100 * gained:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}]"
        wins = _share([won for won, _ in pairs])
        lines.append(f"| {name} ({len(ids)}) | {wins} | {difference} | {statistics.fmean(shifts):+.2f} |")
    return "\n".join(lines)


def _share(won: list[bool]) -> str:
    low, high = wilson(sum(won), len(won))
    return f"{sum(won)}/{len(won)} [{low:.0%}, {high:.0%}]"


def main() -> None:
    """Measure, or write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the file of results, one line of JSON a comparison")
    parser.add_argument("--debates", type=int, default=4, choices=range(1, len(DEBATES) + 1), help="pairs of texts")
    parser.add_argument("--report", type=Path, help="write the table between the markers of this page, and end")
    options = parser.parse_args()
    if options.report is not None:
        write_into(options.report, report(read(options.out)), "material")
    else:
        asyncio.run(measure(options.out, options.debates))


if __name__ == "__main__":
    main()
