"""Judge audits in plain words: biases that were found, were not found, and could not have been found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.text import counted
from flowdebate.evaluation.sample_sizes import NEEDED, POWER, smallest_rate, sought
from flowdebate.evaluation.statistics import ALPHA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.evaluation.judges.schemas import Figure, JudgeAudit, JudgeFigures, PlaceRate, Places

__all__ = (
    "LIMITS",
    "findings",
)

LIMITS = (
    "An audit of orders cannot find a preference that is the same in every order: for length, for style, or for a name "
    "in the text."
)
"""The last sentence of every audit."""


def findings(audit: JudgeAudit) -> list[str]:
    """The findings of `audit`, a sentence each with its numbers; the last one is `LIMITS`.

    >>> from flowdebate.evaluation.judges.audit import audit
    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    >>> audited = audit([[JudgeBallot(order=["yes", "no"], winner="yes")], [JudgeBallot(order=["no", "yes"])]])
    >>> findings(audited)[0]
    'too small: 1 verdict (the first slot won 1 of 1, 100%); 54 are needed to find a rate of 70%'
    """
    sentences = list(_of_judge(audit))
    for name, figures in audit.models.items():
        sentences += [f"{name or 'unknown model'}: {finding}" for finding in _of_judge(figures)]
    sentences += _of_panel(audit)
    tests = sum(_tests(figures) for figures in (audit, *audit.models.values()))
    if tests > 1:
        sentences.append(f"{tests} tests were made; each of them finds a bias in up to {ALPHA:.0%} of fair judges")
    return [*sentences, LIMITS]


def _of_judge(figures: JudgeFigures) -> Iterator[str]:
    if not figures.slots:
        yield f"no verdict for a side in {counted(figures.ballots, 'ballot')}: there is nothing to say about slots"
    for places in (*figures.slots, *figures.labels):
        yield from _of_places(places)
    yield from _of_orders(figures)
    if figures.unparsed:
        share = f"{figures.unparsed_share:.0%}"
        yield f"{figures.unparsed} of {counted(figures.ballots, 'answer')} ({share}) could not be used"
    if figures.unusable:
        yield f"{counted(figures.unusable, 'ballot')} not counted: contradictory"


def _of_places(places: Places) -> Iterator[str]:
    kind, favoured = places.kind, _favoured(places)
    won = f"{favoured.wins} of {places.n}"
    if places.arrangements == 1 and places.items > 1:
        what = "one order" if kind == "slot" else "one set of labels"
        yield f"cannot tell: all {places.items} items were shown in {what}, so {kind}s and sides are not separate"
        return
    if not places.apart and places.items > 1:
        yield f"cannot tell: in all {places.items} items each label had one slot, so labels and slots are not separate"
        return
    needed = NEEDED.get(places.sides)
    small = needed is not None and places.items < needed
    if small:
        shown = f"{_name(places, favoured)} won {won}, {favoured.rate:.0%}"
        rate = f"{sought(places.sides):.0%}"
        yield f"too small: {_size(places)} ({shown}); {needed} are needed to find a rate of {rate}"
    numbers = f"{won} ({', '.join(_numbers(places, favoured))})"
    if places.p is None:
        if not small:
            yield f"{_name(places, favoured)} won {numbers}; not tested for chance"
    elif places.p <= ALPHA:
        yield f"favours {_name(places, favoured)}: {numbers}"
    elif not small:
        rate_shown = smallest_rate(places.items, sides=places.sides)
        could = (
            ""
            if rate_shown is None
            else f"; with n = {places.items} one of {rate_shown:.0%} would have been found in {POWER:.0%} of cases"
        )
        yield f"no {kind} bias found: {_name(places, favoured)} won {numbers}{could}"


def _of_orders(figures: JudgeFigures) -> Iterator[str]:
    consistency, fairness = figures.position_consistency, figures.preference_fairness
    if consistency is not None:
        n = consistency.n
        same = f"{round(consistency.value * n)} of {counted(n, 'time')} the verdict was the same in all orders"
        yield f"position consistency {_value(consistency)}: {same}"
    if fairness is not None and fairness.value and (fairness.low is None or fairness.low * (fairness.high or 0) > 0):
        end = "the first" if fairness.value < 0 else "the last"
        yield f"preference fairness {_value(fairness)}: what changed with the order went to {end} slot more often"
    stability = figures.repetition_stability
    if stability is not None:
        yield f"repetition stability {_value(stability)}, over {counted(stability.n, 'view')} judged several times"


def _of_panel(audit: JudgeAudit) -> Iterator[str]:
    if audit.rho is None or audit.effective_n is None:
        return
    yield (
        f"{len(audit.models)} models are worth {audit.effective_n:.1f} independent ones: their {audit.rho_of} "
        f"correlate by {audit.rho.value:.2f} over {counted(audit.rho.n, 'item')}"
    )


def _favoured(places: Places) -> PlaceRate:
    """The place that the test is about: of two, the one with more items, not the one with more verdicts."""
    if places.sides == 2 and places.leaning != 2 * places.first:  # noqa: PLR2004 - the sign test is for two
        return places.places[0 if 2 * places.first > places.leaning else 1]
    return places.favoured


def _name(places: Places, place: PlaceRate) -> str:
    if places.kind == "label":
        return f"the label {place.place!r}"
    ends = {"1": "the first slot", str(places.sides): "the last slot"}
    return ends.get(place.place, f"slot {place.place} of {places.sides}")


def _numbers(places: Places, place: PlaceRate) -> Iterator[str]:
    yield f"{place.rate:.0%}"
    if place.low is not None:
        yield f"95% CI {place.low:.0%} to {place.high:.0%}"
    if places.p is not None:
        yield f"p = {places.p:.2g}" if places.p >= 0.001 else "p < 0.001"  # noqa: PLR2004 - as journals write it


def _value(figure: Figure) -> str:
    return f"{figure.value:.2f}" + ("" if figure.low is None else f" (95% CI {figure.low:.2f} to {figure.high:.2f})")


def _size(places: Places) -> str:
    return counted(places.items, "verdict" if places.n == places.items else "item")


def _tests(figures: JudgeFigures) -> int:
    return sum(places.p is not None for places in (*figures.slots, *figures.labels))
