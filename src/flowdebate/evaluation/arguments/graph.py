"""Argument graphs and their DF-QuAD strengths (Rago, Toni, Aurisicchio, Baroni 2016).

A claim has a base score b from 0 to 1. With c = (1 - ∏(1 - supports)) - (1 - ∏(1 - attacks)), over the strengths of
its supporters and attackers, its strength is b + c(1 - b) where c ≥ 0, else b + cb. A claim without relations keeps
its base score. The order of claims and relations changes no bit of a strength.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError, shown
from flowdebate.evaluation.arguments.schemas import ArgumentGraph, Claim, Contested, StrengthChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flowdebate.patterns.debate.schemas import DebateContributionEntry

__all__ = (
    "ArgumentGraph",
    "Claim",
    "Contested",
    "StrengthChange",
    "argument_graph",
    "check_graph",
    "claim_strengths",
    "contest",
    "graph_of_debate",
    "in_order_of_relations",
)

_LONGEST_CYCLE = 12
"""Claims of a cycle that an error message names."""


def check_graph(graph: ArgumentGraph, *, where: str) -> None:
    """Raise a ConfigurationError of `where` for the first problem of `graph`."""
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
    """The allowed form of a relation that is not valid; None for a valid one."""
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
    """The targets of each claim, and the number of claims that have it as a target."""
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


def argument_graph(
    claims: Iterable[Claim],
    *,
    attacks: Iterable[tuple[str, str]] = (),
    supports: Iterable[tuple[str, str]] = (),
) -> ArgumentGraph:
    """Build a graph of `claims` and of pairs of ids: the first claim attacks or supports the second.

    ConfigurationError for two claims with one id, an unknown id, a claim that attacks or supports itself, a pair that
    is given twice or both attacks and supports, a base score that is none, and a cycle, which the message names.

    >>> rent = Claim(id="cap", text="Cap rents.", base=0.5)
    >>> supply = Claim(id="supply", text="Caps cut supply.", base=0.8)
    >>> claim_strengths(argument_graph([rent, supply], attacks=[("supply", "cap")]))["cap"]
    0.09999999999999998
    """
    graph = ArgumentGraph.model_construct(claims=tuple(claims), attacks=tuple(attacks), supports=tuple(supports))
    check_graph(graph, where="argument_graph()")
    pairs = {field: tuple((one, other) for one, other in getattr(graph, field)) for field in ("attacks", "supports")}
    return graph.model_copy(update=pairs)


def claim_strengths(graph: ArgumentGraph) -> dict[str, float]:
    """The strength of each claim by its id, from 0 to 1, in the order of the claims.

    ConfigurationError for a graph that `argument_graph` would have refused.
    """
    check_graph(graph, where="claim_strengths()")
    against = _sources(graph.attacks)
    speaking_for = _sources(graph.supports)
    base = {claim.id: claim.base for claim in graph.claims}
    found: dict[str, float] = {}
    for claim in in_order_of_relations(graph):
        attacked = _together([found[other] for other in against.get(claim, ())])
        supported = _together([found[other] for other in speaking_for.get(claim, ())])
        found[claim] = _combined(base[claim], supported - attacked)
    return {claim: found[claim] for claim in base}


def contest(graph: ArgumentGraph, claim: str, *, base: float | None = None, by: Claim | None = None) -> Contested:
    """Contest one `claim` of `graph` by another `base` score, a new claim that attacks it, or both.

    The graph that is given stays as it is. ConfigurationError for an unknown `claim`, a base score that is none, a new
    claim whose id is taken, and where nothing is contested.

    >>> said = [Claim(id="caps work", base=0.6), Claim(id="a study says so", base=0.9)]
    >>> graph = argument_graph(said, supports=[("a study says so", "caps work")])
    >>> result = contest(graph, "a study says so", base=0.1)
    >>> [(change.claim, round(change.before, 2), round(change.after, 2)) for change in result.changes]
    [('caps work', 0.96, 0.64), ('a study says so', 0.9, 0.1)]
    """
    before = claim_strengths(graph)
    if claim not in before:
        raise ConfigurationError("contest()", "claim", claim, "the id of a claim of the graph")
    if base is None and by is None:
        raise ConfigurationError("contest()", "base", None, "given, or a new claim as `by`")
    claims = graph.claims if base is None else tuple(_with_base(item, claim, base) for item in graph.claims)
    attacks = graph.attacks
    if by is not None:
        claims, attacks = (*claims, by), (*attacks, (by.id, claim))
    changed = ArgumentGraph.model_construct(claims=claims, attacks=attacks, supports=graph.supports)
    check_graph(changed, where="contest()")
    after = claim_strengths(changed)
    return Contested(graph=changed, strengths=after, changes=_changes(before, after))


def graph_of_debate(
    entries: Sequence[DebateContributionEntry],
    *,
    base: float | Callable[[DebateContributionEntry], float] = 0.5,
) -> ArgumentGraph:
    """The shape of a debate, without looking at what is said: each of `entries`, in their order, is a claim.

    It attacks the latest argument before it of each other stance, and supports the latest of its own. Ids are "1", "2",
    … by place; `base` is the base score, or a function that gives each argument's. So it knows who could answer whom,
    not whether they did: with one base score for all, strengths tell mostly who spoke last.

    >>> from flowdebate.patterns.debate.schemas import DebateContributionEntry as Entry
    >>> said = [Entry(round=1, agent_name=name, stance=name, text="…") for name in ("pro", "con", "pro")]
    >>> graph = graph_of_debate(said)
    >>> graph.attacks, graph.supports
    ((('2', '1'), ('3', '2')), (('3', '1'),))
    """
    latest: dict[str, str] = {}
    claims: list[Claim] = []
    attacks: list[tuple[str, str]] = []
    supports: list[tuple[str, str]] = []
    for place, entry in enumerate(entries, 1):
        key = str(place)
        for stance, earlier in latest.items():
            (supports if stance == entry.stance else attacks).append((key, earlier))
        latest[entry.stance] = key
        score = base(entry) if callable(base) else base
        claims.append(_claim_of(entry, key, score))
    return argument_graph(claims, attacks=attacks, supports=supports)


def _claim_of(entry: DebateContributionEntry, key: str, base: float) -> Claim:
    # model_construct: an entry may hold what pydantic's validation refuses, such as half a surrogate pair.
    return Claim.model_construct(
        id=key, text=entry.text, base=base, author=entry.agent_name, stance=entry.stance, round=entry.round
    )


def _with_base(claim: Claim, contested: str, base: float) -> Claim:
    return claim.model_copy(update={"base": base}) if claim.id == contested else claim


def _sources(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The sources of each target."""
    found: dict[str, list[str]] = {}
    for source, target in pairs:
        found.setdefault(target, []).append(source)
    return found


def _together(strengths: list[float]) -> float:
    """The joint strength of several claims: 1 - ∏(1 - strength), sorted, since a product of floats depends on order."""
    return 1 - math.prod(1 - strength for strength in sorted(strengths))


def _combined(base: float, influence: float) -> float:
    """`base`, drawn towards 1 or 0; rounding does not carry it beyond either."""
    drawn = base + influence * (1 - base) if influence >= 0 else base + influence * base
    return min(1.0, max(0.0, drawn))


def _changes(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[StrengthChange, ...]:
    return tuple(
        StrengthChange(claim=claim, before=before.get(claim), after=strength)
        for claim, strength in after.items()
        if before.get(claim) != strength
    )
