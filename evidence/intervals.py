"""Coverage of the intervals in rankings and content audits with few questions: `python -m evidence.intervals`."""

from __future__ import annotations

from itertools import permutations
from statistics import median
from typing import NamedTuple

import numpy as np

from flowdebate.evaluation import ContentChoice, Game, content_audit, rank_games

QUESTIONS = (3, 5, 8, 20)


class Coverage(NamedTuple):
    """How often, over simulated tournaments, strengths have an interval, and how good these intervals are."""

    has: float
    """Share of strengths with an interval."""
    holds: float
    """Share of these intervals that contain the true strength."""
    width: float
    """Median width of these intervals, in log-odds."""


def tournament_games(
    rng: np.random.Generator, strengths: dict[str, float], questions: int, *, mood: float = 1.0, first: float = 0.3
) -> list[Game]:
    """Draw a tournament in which all pairs meet in both orders, and each question suits some systems better."""
    games = []
    for question in range(questions):
        luck = {name: strength + rng.normal(0, mood) for name, strength in strengths.items()}
        for one, second in permutations(strengths, 2):
            chance = 1 / (1 + np.exp(luck[second] - luck[one] - first))
            games.append(Game(one, second, float(rng.random() < chance), question))
    return games


def cover(systems: int, questions: int, *, studies: int, order: bool = True) -> Coverage:
    """Measure the coverage in simulated tournaments of equally strong systems."""
    rng, names = np.random.default_rng(1000 * systems + questions), "abcdefgh"[:systems]
    widths, holds = [], 0
    for _ in range(studies):
        for system in rank_games(tournament_games(rng, dict.fromkeys(names, 0.0), questions), order=order).systems:
            if system.low is not None and system.high is not None:
                widths.append(system.high - system.low)
                holds += system.low <= 0 <= system.high
    return Coverage(len(widths) / studies / systems, holds / max(len(widths), 1), median(widths or [0.0]))


def audited_choices(
    rng: np.random.Generator, questions: int, *, length: float = 0.0, mood: float = 1.0, ballots: int = 4
) -> list[ContentChoice]:
    """Draw ballots on three systems whose quality varies by question.

    Each unit of a text's length adds `length` to its log-odds.
    """
    choices = []
    for question in range(questions):
        worth, long, marks = rng.normal(0, mood, 3), rng.normal(0, 1, 3), rng.poisson(2, 3) / 2
        for _ in range(ballots):
            one, second = rng.choice(3, 2, replace=False).tolist()
            chance = 1 / (1 + np.exp(worth[second] - worth[one] - length * (long[one] - long[second])))
            won = float(rng.random() < chance)
            columns = {
                "length": [long[one], long[second]], "order": [0.5, -0.5], "style": [marks[one], marks[second]],
            }  # fmt: skip
            choices.append(
                ContentChoice(
                    systems=["abc"[one], "abc"[second]], shares=[won, 1 - won], columns=columns, cluster=str(question)
                )
            )
    return choices


def alarms(questions: int, *, studies: int, length: float = 0.0) -> dict[str, float]:
    """Simulate content audits, and return for each effect the share of audits in which its interval excludes 0."""
    rng, counts, audits = np.random.default_rng(questions), dict.fromkeys(("length", "order", "style"), 0), 0
    for _ in range(studies):
        audit = content_audit(audited_choices(rng, questions, length=length))
        audits += audit.problem is None
        for name, effect in audit.effects.items():
            counts[name] += effect.low is not None and effect.high is not None and not effect.low <= 0 <= effect.high
    return {name: number / audits for name, number in counts.items()}


def main() -> None:
    """Print both tables as Markdown."""
    print(
        "| systems | questions | with an interval | holds the truth | median width |\n| --- | --- | --- | --- | --- |"
    )
    for systems in (2, 3):
        for questions in QUESTIONS:
            coverage = cover(systems, questions, studies=2_000)
            print(
                f"| {systems} | {questions} | {coverage.has:.2f} | {coverage.holds:.3f} | {coverage.width:.2f} |",
                flush=True,
            )
    print("\n| questions | length | order | style | finds length |\n| --- | --- | --- | --- | --- |")
    for questions in (6, 10, 20):
        shares = alarms(questions, studies=2_000)
        power = alarms(questions, studies=1_000, length=1.0)["length"]
        print(f"| {questions} | {' | '.join(f'{share:.3f}' for share in shares.values())} | {power:.2f} |", flush=True)


if __name__ == "__main__":
    main()
