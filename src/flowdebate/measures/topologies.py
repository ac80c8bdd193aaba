"""Criticism topologies: six pure functions that map names, a round and randomness to (critic, target) edges."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import permutations
from random import Random
from typing import Literal, TypeAlias, get_args

from flowdebate._text import join_choices, short_repr
from flowdebate._util.validation import check_share
from flowdebate.errors import ConfigurationError, OutputError

Topology = Literal["all-to-all", "round-robin", "ring", "star", "sparse", "random-graph"]

Edge: TypeAlias = tuple[str, str]
"""`(critic, target)` pair: the critic reviews the target's proposal."""

_WHERE = "edges()"
_ROUNDING = 1e-9  # in floating point, 0.29 * 100 is 28.999999999999996


def edges(
    topology: Topology | Callable[[Sequence[str], int, Random], Collection[Edge]],
    names: Sequence[str],
    *,
    round: int,  # noqa: A002 - the name in all of the package
    random: Random,
    hub: str | None = None,
    sparsity: float = 0.5,
    targets: Collection[str] | None = None,
    critics: Collection[str] | None = None,
) -> list[Edge]:
    """Choose who criticizes whom in `round`; return the edges in the order of `names`, without self-reviews.

    - `topology`: a name, or a function of `(names, round, random)` that returns edges. Raise OutputError if it returns
      unknown agents, edges from an agent to itself, or duplicates.
    - `hub`: the hub of a star, one of `names`; None means the first by name.
    - `sparsity`: for sparse and random-graph, the share of the other agents that review a proposal, from 0 to 1;
      there is always at least one.
    - `targets`, `critics`: the agents with a proposal, and the agents able to review; None means all. Edges to other
      targets or from other critics are omitted. A proposal without a critic is assigned to the least busy other agent
      able to review it.

    >>> from random import Random
    >>> edges("ring", ["ann", "bob", "cy", "di"], round=1, random=Random(7), targets={"ann"})
    [('bob', 'ann'), ('di', 'ann')]
    """
    _check(topology, names, hub=hub, sparsity=sparsity, some={"targets": targets, "critics": critics})
    live = set(names if targets is None else targets)
    able = set(names if critics is None else critics)
    topologies: dict[Topology, Callable[..., Collection[Edge]]] = {
        "all-to-all": all_to_all,
        "round-robin": round_robin,
        "ring": ring,
        "star": partial(star, hub=hub),
        "sparse": partial(sparse, sparsity=sparsity),
        "random-graph": partial(random_graph, sparsity=sparsity),
    }
    choose = topologies[topology] if isinstance(topology, str) else partial(_custom_edges, topology)
    edges_chosen = [edge for edge in choose(names, round, random) if edge[0] in able and edge[1] in live]
    busy, reviewed, ordered = (
        Counter(critic for critic, _ in edges_chosen),
        {target for _, target in edges_chosen},
        sorted(names),
    )
    # Assign a critic to each proposal that has none: the least busy agent or, among equals, the next one by name.
    for at, target in enumerate(ordered):
        candidates = [name for name in (*ordered[at + 1 :], *ordered[:at]) if name in able]
        if candidates and target in live and target not in reviewed:
            critic = min(candidates, key=lambda name: busy[name])
            busy[critic] += 1
            edges_chosen.append((critic, target))
    place = {name: index for index, name in enumerate(names)}
    return sorted(edges_chosen, key=lambda edge: (place[edge[0]], place[edge[1]]))


def all_to_all(names: Sequence[str], round: int, random: Random) -> list[Edge]:  # noqa: A002, ARG001
    """Have everyone review every other proposal: N(N - 1) edges (Du et al. 2023)."""
    return list(permutations(names, 2))


def round_robin(names: Sequence[str], round: int, random: Random) -> list[Edge]:  # noqa: A002, ARG001
    """Have each agent review one proposal, so that each proposal gets one reviewer: N edges.

    Every agent reviews the agent a fixed distance away in name order. The distance is derived from a hash of the names
    plus the round number, so after N - 1 rounds everyone has reviewed everyone else.
    """
    ring_of = sorted(names)
    count = len(ring_of)
    if count < 2:  # noqa: PLR2004 - nobody else is there
        return []
    ahead = 1 + (_digest(*ring_of) + round) % (count - 1)
    return [(critic, ring_of[(index + ahead) % count]) for index, critic in enumerate(ring_of)]


def ring(names: Sequence[str], round: int, random: Random) -> list[Edge]:  # noqa: A002, ARG001
    """Have each agent review both of its neighbors, in name order: 2N edges, or 2 for two agents."""
    ring_of = sorted(names)
    neighbours = zip(ring_of, ring_of[1:] + ring_of[:1], strict=True)
    directed = [edge for one, other in neighbours if one != other for edge in ((one, other), (other, one))]
    return list(dict.fromkeys(directed))


def star(names: Sequence[str], round: int, random: Random, *, hub: str | None = None) -> list[Edge]:  # noqa: A002, ARG001
    """Have the hub (default: the first by name) review all others, and all others review the hub: 2(N - 1) edges."""
    center = min(names, default=None) if hub is None else hub
    rim = [name for name in sorted(names) if name != center]
    return [edge for name in rim if center is not None for edge in ((center, name), (name, center))]


def sparse(names: Sequence[str], round: int, random: Random, *, sparsity: float = 0.5) -> list[Edge]:  # noqa: A002, ARG001
    """Assign max(1, floor((N - 1) * sparsity)) critics to each proposal, the same in every round (Li et al. 2024).

    Critics are chosen by a hash of both names, so most assignments stay the same if an agent is absent.
    """
    critics = _critics(len(names), sparsity)
    drawn: list[Edge] = []
    for target in sorted(names):
        other_names = sorted((name for name in names if name != target), key=lambda name: (_digest(target, name), name))
        drawn += [(critic, target) for critic in other_names[:critics]]
    return drawn


def random_graph(names: Sequence[str], round: int, random: Random, *, sparsity: float = 0.5) -> list[Edge]:  # noqa: A002, ARG001
    """Assign as many critics to each proposal as `sparse` does, but draw them from `random` each time."""
    critics = _critics(len(names), sparsity)
    drawn: list[Edge] = []
    for target in sorted(names):
        other_names = sorted(name for name in names if name != target)
        drawn += [(critic, target) for critic in random.sample(other_names, critics)]
    return drawn


def _critics(count: int, sparsity: float) -> int:
    """Return how many critics each of `count` proposals has."""
    return min(count - 1, max(1, math.floor((count - 1) * sparsity + _ROUNDING))) if count else 0


def _digest(*names: str) -> int:
    """Compute a hash that is the same in every process; `text` may contain lone surrogates."""
    parts = [name.encode("utf-8", "surrogatepass") for name in names]
    data = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return int.from_bytes(sha256(data).digest()[:8], "big")


def _check(
    topology: object,
    names: Sequence[str],
    *,
    hub: object,
    sparsity: object,
    some: Mapping[str, Collection[str] | None],
) -> None:
    """Raise ConfigurationError for invalid arguments."""
    topologies = get_args(Topology)
    if inspect.iscoroutinefunction(topology) or not (callable(topology) or topology in topologies):
        problem = f"must be {join_choices(topologies)}, or a sync function of (names, round, random)"
        raise ConfigurationError(_WHERE, "topology", topology, problem)
    if isinstance(names, str) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ConfigurationError(_WHERE, "names", names, "must be distinct strings")
    if topology == "star" and hub is not None and hub not in names:
        raise ConfigurationError(_WHERE, "hub", hub, f"must be one of the agents: {join_choices(names)}")
    check_share(_WHERE, sparsity=sparsity)
    for field, value in some.items():
        if value is not None and (isinstance(value, str) or not set(value) <= set(names)):
            raise ConfigurationError(
                _WHERE, field, value, f"must be a subset of the agents: {join_choices(names, word='and')}"
            )


def _custom_edges(
    topology: Callable[[Sequence[str], int, Random], object], names: Sequence[str], number: int, random: Random
) -> list[Edge]:
    """Compute the edges of a custom topology; raise OutputError if they are invalid."""
    selected = topology(tuple(names), number, random)
    custom_edges: list[Edge] = []
    problems: list[tuple[str, str]] = []
    if not isinstance(selected, (list, tuple, set, frozenset)):
        selected, problems = (), [("", f"got {short_repr(selected)}")]
    for place, edge in enumerate(selected):
        match edge:
            case (str(critic), str(target)) if not {critic, target} <= {*names}:
                allowed, stranger = ", ".join(map(repr, names)), target if critic in names else critic
                problems.append((str(place), f"{short_repr(stranger)} is not an agent; agents: {allowed}"))
            case (str(critic), str(target)) if critic == target:
                problems.append((str(place), f"{short_repr(critic)} cannot review their own proposal"))
            case (str(critic), str(target)):
                custom_edges.append((critic, target))
            case _:
                problems.append((str(place), f"got {short_repr(edge)}"))
    twice = [
        ("", f"{short_repr(edge)} occurs more than once") for edge, times in Counter(custom_edges).items() if times > 1
    ]
    if problems or twice:
        block = getattr(topology, "__name__", type(topology).__name__)
        raise OutputError(block, "a list of (critic, target) pairs", problems or twice)
    return custom_edges
