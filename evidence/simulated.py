"""Simulated part: effects of schedules on judges with a known bias."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evidence.estimates import Estimate, mean_of, table
from evidence.simulate import WORLDS, Ballots, World, ballots, right
from flowdebate.testing.simulated.judge import Decided, decide_all, is_right, shares_of, votes_of

__all__ = ("Quote", "content", "curtailing", "labels", "quotes", "schedules")

ITEMS = 400_000
FEWER = 100_000
"""Number of items for schedules that require many calls."""


def by_mean(odds: Any) -> Decided:
    """Decide by the mean of shares, as the library does."""
    return decide_all(shares_of(odds))


def by_vote(odds: Any) -> Decided:
    """Decide by hard votes."""
    return decide_all(shares_of(odds), by="vote")


def by_odds(odds: Any) -> Decided:
    """Decide by the mean of log-odds, for comparison."""
    mean = odds.mean(axis=1)
    return Decided(mean, mean >= mean.max(axis=-1, keepdims=True) - 1e-12)


WAYS = {"mean": by_mean, "vote": by_vote, "odds": by_odds}


class Row(NamedTuple):
    """A row in the table of schedules."""

    world: str
    name: str
    cast: Ballots
    items: int = ITEMS


SAME = "the same order again"
FAIR = "no bias, as many calls"
ROWS = (
    Row("gap", "`single`, one fixed order", Ballots()),
    Row("gap", "`single`, shuffled", Ballots(shuffle=True)),
    Row("gap", "`swap`", Ballots(schedule="swap")),
    Row("gap", f"control: {SAME}", Ballots(times=2)),
    Row("gap", f"control: {FAIR}", Ballots(schedule="swap", biased=False)),
    Row("sides", "`single`, one fixed order", Ballots()),
    Row("sides", "`single`, shuffled", Ballots(shuffle=True)),
    Row("sides", "`swap`", Ballots(schedule="swap")),
    Row("sides", f"control: {SAME}", Ballots(times=2)),
    Row("four", "`single`", Ballots()),
    Row("four", "`swap`", Ballots(schedule="swap")),
    Row("four", "`sampled(4)`", Ballots(schedule="sampled(4)")),
    Row("four", "`cyclic`", Ballots(schedule="cyclic")),
    Row("four", f"control: {SAME}, 4 times", Ballots(times=4)),
    Row("four", f"control: {FAIR}", Ballots(schedule="cyclic", biased=False)),
    Row("four", "`full`", Ballots(schedule="full"), FEWER),
    Row("four", "`sampled(24)`", Ballots(schedule="sampled(24)"), FEWER),
    Row("ends", "`single`", Ballots()),
    Row("ends", "`swap`", Ballots(schedule="swap")),
    Row("ends", "`swap`, each view twice", Ballots(schedule="swap", times=2)),
    Row("ends", "`cyclic`", Ballots(schedule="cyclic")),
)


def schedules(scale: float = 1.0) -> tuple[str, dict[tuple[str, str, str], Estimate]]:
    """Return the table of schedules, and its estimates by world, schedule and way to decide."""
    estimates: dict[tuple[str, str, str], Estimate] = {}
    lines = []
    for world, name, cast, items in ROWS:
        count = max(1_000, int(items * scale))
        values = map(mean_of, right(WORLDS[world], cast, count, *WAYS.values()))
        estimates |= {(world, name, way): estimate for way, estimate in zip(WAYS, values, strict=True)}
        cells = [f"{estimates[world, name, way]:3}" for way in WAYS]
        calls = _calls(cast, WORLDS[world].sides)
        lines.append([f"`{world}`", name, str(calls), *cells, f"{count:,}"])
    head = ["judge", "schedule", "calls", "scores averaged", "hard votes", "log-odds averaged", "items"]
    return table(head, lines), estimates


def _calls(cast: Ballots, sides: int) -> int:
    from flowdebate.patterns.debate.judging.views import as_schedule

    return as_schedule(cast.schedule, location="evidence").calls(sides) * cast.times


class Quote(NamedTuple):
    """A quoted figure, and the row of the table that should reproduce it."""

    figure: str
    description: str
    world: str
    row: str
    way: str = "mean"


QUOTES = (
    Quote(".68", "two sides, one order", "gap", "`single`, one fixed order"),
    Quote(".89", "two sides, both orders", "gap", "`swap`"),
    Quote(".67", "two sides, two calls in the same order", "gap", f"control: {SAME}"),
    Quote(".68", "four sides, one order", "four", "`single`"),
    Quote(".86", "four sides, `cyclic`", "four", "`cyclic`"),
    Quote(".86", "four sides, no bias, as many calls", "four", f"control: {FAIR}"),
    Quote(".790", "four sides, `cyclic`, hard votes", "four", "`cyclic`", "vote"),
    Quote(".860", "four sides, `cyclic`, scores", "four", "`cyclic`"),
    Quote(".860", "four sides, `cyclic`, log-odds", "four", "`cyclic`", "odds"),
    Quote(".744", "two sides, one fixed order", "gap", "`single`, one fixed order"),
    Quote(".744", "the same", "sides", "`single`, one fixed order"),
    Quote(".748", "two sides, one shuffled order", "sides", "`single`, shuffled"),
    Quote(".890", "two sides, both orders", "gap", "`swap`"),
    Quote(".890", "the same", "sides", "`swap`"),
    Quote(".670", "four sides, both ends favored, `swap`", "ends", "`swap`"),
    Quote(".670", "the same, with as many calls as `cyclic`", "ends", "`swap`, each view twice"),
)


def quotes(estimates: dict[tuple[str, str, str], Estimate]) -> str:
    """Tabulate the quoted figures, and whether they were reproduced."""
    rows = []
    for figure, description, world, row, way in QUOTES:
        measured = estimates[world, row, way]
        rows.append([figure, description, f"`{world}`", f"{measured:4}", _verdict(figure, measured)])
    return table(["figure", "description", "judge", "measured", "reproduced"], rows)


def _verdict(figure: str, measured: Estimate) -> str:
    half = 0.5 * 10.0 ** -(len(figure) - 1)
    if measured.low - half <= float(figure) <= measured.high + half:
        return "yes"
    apart = measured.value - float(figure)
    return f"**no**: {abs(apart):.4f} {'more' if apart > 0 else 'less'}".replace("0.", ".", 1)


def labels(scale: float = 1.0) -> str:
    """Compare labels that stay with their sides with labels that rotate from view to view."""
    rows = []
    items = max(1_000, int(ITEMS * scale))
    for name, cast in (
        ("`cyclic`, each side keeps its label", Ballots(schedule="cyclic", labels="kept")),
        ("`cyclic`, labels rotate", Ballots(schedule="cyclic", labels="moved")),
        ("control: no bias", Ballots(schedule="cyclic", biased=False)),
    ):
        results = np.concatenate(
            [
                np.stack([is_right(by_mean(odds), best), by_mean(odds).leaders[:, 0]])
                for odds, best in ballots(WORLDS["labels"], cast, items)
            ],
            axis=1,
        )
        rows.append([name, f"{mean_of(results[0]):3}", f"{mean_of(results[1]):3}", f"{items:,}"])
    return table(["schedule", "right", "wins of the side that is A in the first view", "items"], rows)


def content(scale: float = 1.0) -> str:
    """Measure the negative control, in which a bias from the text moves with its side."""
    rows, items = [], max(1_000, int(ITEMS * scale))
    for world, label in (("content", "text only"), ("both", "text and slot")):
        results = {
            name: right(WORLDS[world], cast, items, by_mean)[0]
            for name, cast in (
                ("single", Ballots()),
                ("swap", Ballots(schedule="swap")),
                ("same", Ballots(times=2)),
            )
        }
        gained = mean_of(results["swap"] - results["same"])
        rows.append([label, *(f"{mean_of(values):3}" for values in results.values()), f"{gained:+3}", f"{items:,}"])
    fair = World(sides=2, quality=WORLDS["gap"].quality, noise=WORLDS["gap"].noise)
    ceiling = mean_of(right(fair, Ballots(schedule="swap"), items, by_mean)[0])
    rows.append(["neither", "", f"{ceiling:3}", "", "", f"{items:,}"])
    return table(["bias", "`single`", "`swap`", SAME, "`swap` over the same order", "items"], rows)


def curtailing(scale: float = 1.0) -> str:
    """Measure how many calls curtailing saves, and count the verdicts that it changes."""
    rows, items = [], max(1_000, int(ITEMS * scale / 2))
    panel = World(sides=2, quality=WORLDS["gap"].quality, noise=WORLDS["gap"].noise)
    for name, world, cast, by in (
        *((f"panel of {n}, votes", panel, Ballots(times=n), "vote") for n in (3, 5, 7, 9)),
        ("panel of 9, scores", panel, Ballots(times=9), "mean"),
        ("`cyclic`, four sides, votes", WORLDS["four"], Ballots(schedule="cyclic"), "vote"),
        ("`cyclic`, four sides, scores", WORLDS["four"], Ballots(schedule="cyclic"), "mean"),
        ("`sampled(9)`, four sides, votes", WORLDS["four"], Ballots(schedule="sampled(9)"), "vote"),
    ):
        saved, changed = [], 0
        for odds, _ in ballots(world, cast, items):
            shares = shares_of(odds)
            calls, agreements = _stopped(votes_of(shares) if by == "vote" else shares)
            saved.append(1 - calls / shares.shape[1])
            changed += int((~agreements).sum())
        rows.append([name, f"{mean_of(np.concatenate(saved)):3}", str(changed), f"{items:,}"])
    return table(["judge", "calls saved", "verdicts changed", "items"], rows)


def _stopped(shares: Any) -> tuple[Any, Any]:
    """Return the number of ballots after which each item is settled, and whether the winner is then the final one."""
    planned = shares.shape[1]
    totals = shares.cumsum(axis=1)
    ordered = np.sort(totals, axis=-1)
    remaining = planned - 1 - np.arange(planned)
    settled = ordered[..., -1] - ordered[..., -2] > remaining
    settled[:, -1] = True
    calls = settled.argmax(axis=1) + 1
    early = calls < planned
    then = np.take_along_axis(totals, (calls - 1)[:, None, None], axis=1)[:, 0].argmax(axis=1)
    return calls, ~early | (then == totals[:, -1].argmax(axis=1))
