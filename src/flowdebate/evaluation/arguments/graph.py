"""Argument graphs and their DF-QuAD strengths (Rago, Toni, Aurisicchio, Baroni 2016).

A claim has a base score b from 0 to 1. With c = (1 - ∏(1 - supports)) - (1 - ∏(1 - attacks)), over the strengths of
its supporters and attackers, its strength is b + c(1 - b) if c ≥ 0, else b + cb. The order of claims and relations
changes no bit of a strength.
"""

from __future__ import annotations

import math
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flowdebate.patterns.debate.schemas import DebateContributionEntry


_LONGEST_CYCLE = 12
"""The number of claims of a cycle that an error message names."""

Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Claim(WireModel):
    """A claim or an argument of a debate."""

    id: str
    """The id that attacks and supports refer to."""
    text: str = ""
    base: Score = 0.5
    """Its strength without attacks and supports."""
    author: str | None = None
    stance: str | None = None
    round: Annotated[int, Field(ge=1)] | None = None


class ArgumentGraph(WireModel):
    """Claims with their attacks and supports; `argument_graph` builds and checks one."""

    claims: tuple[Claim, ...]
    attacks: tuple[tuple[str, str], ...] = ()
    """Pairs of ids: the first claim attacks the second."""
    supports: tuple[tuple[str, str], ...] = ()
    """Pairs of ids: the first claim supports the second."""


class StrengthChange(WireModel):
    """The strength of one claim before and after; None before for a new claim."""

    claim: str
    before: Score | None
    after: Score


class Contested(WireModel):
    """A graph after one of its claims was contested."""

    graph: ArgumentGraph
    strengths: dict[str, float]
    changes: tuple[StrengthChange, ...]
    """The claims whose strengths changed, in the graph's order."""


def check_graph(graph: ArgumentGraph, *, where: str) -> list[str]:
    """The ids of `graph`, each after all that attack or support it; a ConfigurationError of `where` for a problem."""
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
    sources: dict[str, list[str]] = {claim.id: [] for claim in graph.claims}
    for source, target in (*graph.attacks, *graph.supports):
        sources[target].append(source)
    try:
        return list(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise ConfigurationError(where, "attacks and supports", _cycle(error, sources), "without a cycle") from None


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


def _cycle(error: CycleError, claims: Iterable[str]) -> str:
    """The cycle as "a → b → a", from its first claim in the order of `claims`."""
    around: list[str] = error.args[1][1:]
    on_cycle = set(around)
    first = around.index(next(claim for claim in claims if claim in on_cycle))
    path = [*around[first:], *around[:first], around[first]]
    if len(path) > _LONGEST_CYCLE:
        path = [*path[: _LONGEST_CYCLE - 1], "…", path[-1]]
    return " → ".join(path)


def argument_graph(
    claims: Iterable[Claim],
    *,
    attacks: Iterable[tuple[str, str]] = (),
    supports: Iterable[tuple[str, str]] = (),
) -> ArgumentGraph:
    """Build a graph of `claims` and of pairs of ids: the first claim attacks or supports the second.

    ConfigurationError for a duplicate id, an unknown id, a claim that attacks or supports itself, a pair that is given
    twice or as attack and support, a base score outside 0 to 1, and a cycle, which the message names.

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
    order = check_graph(graph, where="claim_strengths()")
    attackers, supporters = _sources(graph.attacks), _sources(graph.supports)
    base = {claim.id: claim.base for claim in graph.claims}
    found: dict[str, float] = {}
    for claim in order:
        attacked = _together([found[other] for other in attackers.get(claim, ())])
        supported = _together([found[other] for other in supporters.get(claim, ())])
        found[claim] = _combined(base[claim], supported - attacked)
    return {claim: found[claim] for claim in base}


def contest(graph: ArgumentGraph, claim: str, *, base: float | None = None, by: Claim | None = None) -> Contested:
    """Contest one `claim` of `graph`: give it another `base` score, let the new claim `by` attack it, or both.

    Returns a new graph. ConfigurationError for an unknown `claim`, a base score outside 0 to 1, a new claim whose id is
    taken, and a call with neither `base` nor `by`.

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
    claims, attacks = graph.claims, graph.attacks
    if base is not None:
        claims = tuple(item.model_copy(update={"base": base}) if item.id == claim else item for item in claims)
    if by is not None:
        claims, attacks = (*claims, by), (*attacks, (by.id, claim))
    changed = ArgumentGraph.model_construct(claims=claims, attacks=attacks, supports=graph.supports)
    check_graph(changed, where="contest()")
    after = claim_strengths(changed)
    changes = tuple(
        StrengthChange(claim=name, before=before.get(name), after=strength)
        for name, strength in after.items()
        if before.get(name) != strength
    )
    return Contested(graph=changed, strengths=after, changes=changes)


def graph_of_debate(
    entries: Sequence[DebateContributionEntry],
    *,
    base: float | Callable[[DebateContributionEntry], float] = 0.5,
) -> ArgumentGraph:
    """The graph of a transcript, from its structure alone: each of `entries` is a claim, numbered from "1".

    It attacks the latest earlier argument of each other stance and supports the latest of its own. `base` is the base
    score, or a function that scores each argument. Nobody has checked whether an argument answers the one before it, so
    with equal base scores strengths mostly show who spoke last.

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
        claims.append(
            Claim.model_construct(  # validation refuses texts with half a surrogate pair
                id=key, text=entry.text, base=score, author=entry.agent_name, stance=entry.stance, round=entry.round
            )
        )
    return argument_graph(claims, attacks=attacks, supports=supports)


def _sources(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The sources of each target."""
    found: dict[str, list[str]] = {}
    for source, target in pairs:
        found.setdefault(target, []).append(source)
    return found


def _together(strengths: list[float]) -> float:
    """The joint strength of several claims: 1 - ∏(1 - strength), sorted, as float products depend on their order."""
    return 1 - math.prod(1 - strength for strength in sorted(strengths))


def _combined(base: float, influence: float) -> float:
    """`base`, drawn towards 1 or 0, but never beyond them by rounding."""
    drawn = base + influence * (1 - base) if influence >= 0 else base + influence * base
    return min(1.0, max(0.0, drawn))
