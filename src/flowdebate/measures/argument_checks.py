"""Whether an argument graph is sound: its ids known, its relations once, and no cycle in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flowdebate.schemas.arguments import ArgumentGraph

__all__ = ("check_graph", "in_order_of_relations")

_LONGEST_CYCLE = 12
"""Claims of a cycle that a message names."""


def check_graph(graph: ArgumentGraph, *, where: str) -> None:
    """ConfigurationError of `where` for the first thing that is wrong with `graph`."""
    known: set[str] = set()
    for place, claim in enumerate(graph.claims):
        if claim.id in known:
            raise ConfigurationError(where, f"claims[{place}].id", claim.id, "an id that no claim before it has")
        known.add(claim.id)
        score: object = claim.base
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
            raise ConfigurationError(where, f"claims[{place}].base", score, "a number from 0 to 1")
    given: dict[tuple[str, str], str] = {}
    for field, pairs in (("attacks", graph.attacks), ("supports", graph.supports)):
        for place, pair in enumerate(pairs):
            if problem := _problem(pair, known, given):
                raise ConfigurationError(where, f"{field}[{place}]", pair, problem)
            given[pair[0], pair[1]] = f"{field}[{place}]"
    if len(in_order_of_relations(graph)) < len(known):
        raise ConfigurationError(where, "attacks and supports", _cycle(graph), "without a cycle")


def _problem(pair: object, known: set[str], given: Mapping[tuple[str, str], str]) -> str | None:
    """What a relation must be instead; None for a good one."""
    match pair:
        case (str() as source, str() as target):
            strangers = [name for name in (source, target) if name not in known]
            if strangers:
                return f"a pair of ids of claims ({shown(strangers[0])} is none)"
            if source == target:
                return "a pair of two claims"
            first = given.get((source, target))
            return None if first is None else f"given once (it is {first} too)"
        case _:
            return "a pair of ids"


def in_order_of_relations(graph: ArgumentGraph) -> list[str]:
    """Ids, each after all that attack and support it; those on a cycle, and what depends on it, are left out."""
    targets, waiting = _targets(graph)
    ready = [claim for claim, count in waiting.items() if not count]
    for claim in ready:  # it grows while it is gone through
        for target in targets[claim]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ready


def _targets(graph: ArgumentGraph) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Whom each claim attacks or supports, and by how many it is attacked or supported."""
    targets: dict[str, list[str]] = {claim.id: [] for claim in graph.claims}
    count = dict.fromkeys(targets, 0)
    for source, target in _pairs(graph):
        targets[source].append(target)
        count[target] += 1
    return targets, count


def _pairs(graph: ArgumentGraph) -> Iterable[tuple[str, str]]:
    yield from graph.attacks
    yield from graph.supports


def _cycle(graph: ArgumentGraph) -> str:
    """One cycle, as "a → b → a": from a claim that is left over, backwards until one comes again."""
    left = {claim.id for claim in graph.claims}.difference(in_order_of_relations(graph))
    source_of = {target: source for source, target in _pairs(graph) if source in left and target in left}
    # What only depends on a cycle has a source on it, so that going back always ends on the cycle itself.
    path: dict[str, None] = {}
    claim = next(item.id for item in graph.claims if item.id in left)
    while claim not in path:
        path[claim] = None
        claim = source_of[claim]
    back = list(path)
    around = [claim, *reversed(back[back.index(claim) :])]
    if len(around) > _LONGEST_CYCLE:
        around = [*around[: _LONGEST_CYCLE - 1], "…", claim]
    return " → ".join(around)
