from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.measures import Topology, edges
from flowdebate.measures.topologies import all_to_all, random_graph, ring, round_robin, sparse, star
from tests.ids import case_id
from tests.measures.drawn import names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.measures import Edge

TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)
topologies = st.sampled_from(TOPOLOGIES)
rounds = st.integers(1, 20)
shares = st.floats(0, 1)
seeds = st.integers(0, 2**32)
LETTERS = list("abcdefghij")


def expected_count(topology: Topology, count: int, sparsity: float) -> int:
    """Return how many edges `topology` has, by definition, for `count` agents."""
    if count == 1:
        return 0
    critics = max(1, math.floor((count - 1) * sparsity + 1e-9))
    return {
        "all-to-all": count * (count - 1),
        "round-robin": count,
        "ring": 2 if count == 2 else 2 * count,
        "star": 2 * (count - 1),
        "sparse": count * critics,
        "random-graph": count * critics,
    }[topology]


@given(topologies, names, rounds, shares, seeds)
def test_topologies_have_the_edges_given_by_their_definition(
    topology: Topology, agents: list[str], number: int, sparsity: float, seed: int
) -> None:
    result = edges(topology, agents, round=number, random=Random(seed), sparsity=sparsity)
    assert len(result) == len(set(result)) == expected_count(topology, len(agents), sparsity)


@given(topologies, names, rounds, shares, seeds, st.data())
def test_live_proposals_have_a_critic_other_than_their_author(
    topology: Topology, agents: list[str], number: int, sparsity: float, seed: int, data: st.DataObject
) -> None:
    live = data.draw(st.sets(st.sampled_from(agents)))
    able = data.draw(st.sets(st.sampled_from(agents)))
    result = edges(topology, agents, round=number, random=Random(seed), sparsity=sparsity, targets=live, critics=able)
    assert all(critic != target for critic, target in result)
    assert {critic for critic, _ in result} <= able
    assert {target for _, target in result} == {target for target in live if able - {target}}


@given(topologies, names, rounds, shares, seeds)
def test_edges_follow_the_declared_order_of_names(
    topology: Topology, agents: list[str], number: int, sparsity: float, seed: int
) -> None:
    result = edges(topology, agents, round=number, random=Random(seed), sparsity=sparsity)
    assert result == sorted(result, key=lambda edge: (agents.index(edge[0]), agents.index(edge[1])))


@given(topologies, names, rounds, shares, seeds, st.data())
def test_declared_order_of_agents_does_not_affect_the_edges(
    topology: Topology, agents: list[str], number: int, sparsity: float, seed: int, data: st.DataObject
) -> None:
    """Neighbors, hubs and random draws depend only on the agents' names."""
    shuffled = data.draw(st.permutations(agents))
    one = edges(topology, agents, round=number, random=Random(seed), sparsity=sparsity)
    other = edges(topology, shuffled, round=number, random=Random(seed), sparsity=sparsity)
    assert set(one) == set(other)


@given(names)
def test_round_robin_reviews_each_pair_once_over_all_rounds(agents: list[str]) -> None:
    """Each agent has one critic and one target per round, so N - 1 rounds cover all pairs."""
    rounds_ = [edges("round-robin", agents, round=number, random=Random(0)) for number in range(1, len(agents))]
    for round_edges in rounds_:
        assert (
            sorted(critic for critic, _ in round_edges) == sorted(target for _, target in round_edges) == sorted(agents)
        )
    assert sorted(edge for round_edges in rounds_ for edge in round_edges) == sorted(all_to_all(agents, 1, Random(0)))


@given(names, rounds, rounds, shares, seeds)
def test_the_sparse_topology_is_the_same_in_every_round(
    agents: list[str], one: int, other: int, sparsity: float, seed: int
) -> None:
    random = Random(seed)
    before = random.getstate()
    result = edges("sparse", agents, round=one, random=random, sparsity=sparsity)
    assert random.getstate() == before
    assert result == edges("sparse", agents, round=other, random=Random(seed + 1), sparsity=sparsity)


def test_random_graphs_are_drawn_per_round_from_the_seed() -> None:
    graphs = [
        [edges("random-graph", LETTERS, round=number, random=random, sparsity=0.3) for number in range(10)]
        for random in (Random(7), Random(7))
    ]
    assert graphs[0] == graphs[1]
    assert len({tuple(graph) for graph in graphs[0]}) > 1


@given(names, st.data())
def test_hub_and_other_agents_review_each_other(agents: list[str], data: st.DataObject) -> None:
    hub = data.draw(st.none() | st.sampled_from(agents))
    result = edges("star", agents, round=1, random=Random(0), hub=hub)
    center = hub or min(agents)
    rim = {name for name in agents if name != center}
    assert set(result) == {(center, name) for name in rim} | {(name, center) for name in rim}


def test_rings_connect_neighbors_by_name() -> None:
    result = edges("ring", ["c", "a", "d", "b"], round=3, random=Random(0))
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert set(result) == {*pairs, *((other, one) for one, other in pairs)}


@pytest.mark.parametrize(
    ("sparsity", "count", "critics"),
    [(2 / 3, 4, 2), (1 / 3, 4, 1), (0.29, 101, 29), (0.5, 10, 4), (0, 5, 1), (1, 5, 4), (1.0, 2, 1), (0.99, 3, 1)],
)
def test_share_of_critics_is_rounded_down_exactly(sparsity: float, count: int, critics: int) -> None:
    """Two thirds of three is exactly two, and 0.29 of a hundred is 29 despite floating-point arithmetic."""
    agents = [f"{number:03}" for number in range(count)]
    assert len(edges("sparse", agents, round=1, random=Random(0), sparsity=sparsity)) == count * critics


def test_topologies_are_the_same_in_every_process() -> None:
    """Topologies must not depend on Python's built-in string hash, which varies between processes."""
    code = (
        "from random import Random; from flowdebate.measures import edges; names = list('abcdefg');"
        "kinds = ('round-robin', 'sparse', 'random-graph');"
        "print([edges(kind, names, round=2, random=Random(1)) for kind in kinds])"
    )
    outputs = {
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=60,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@given(names, rounds, seeds)
def test_topologies_are_separate_functions(agents: list[str], number: int, seed: int) -> None:
    functions: dict[Topology, Callable[[Sequence[str], int, Random], list[Edge]]] = {
        "all-to-all": all_to_all,
        "round-robin": round_robin,
        "ring": ring,
        "star": star,
        "sparse": sparse,
        "random-graph": random_graph,
    }
    for name in TOPOLOGIES:
        function = functions[name]
        by_name = edges(name, agents, round=number, random=Random(seed))
        assert by_name == edges(function, agents, round=number, random=Random(seed))
        assert sorted(by_name) == sorted(function(agents, number, Random(seed)))


@given(names, seeds, st.data())
def test_proposals_without_a_critic_get_one(agents: list[str], seed: int, data: st.DataObject) -> None:
    drawn_edges = data.draw(st.sets(st.sampled_from(all_to_all(agents, 1, Random(0)) or [("", "")])))
    own_edges = [] if len(agents) == 1 else sorted(drawn_edges)
    result = edges(lambda names, number, random: own_edges, agents, round=1, random=Random(seed))
    assert set(own_edges) <= set(result)
    added = [target for _, target in result if target not in {target for _, target in own_edges}]
    assert sorted(added) == sorted(set(agents) - {target for _, target in own_edges} if len(agents) > 1 else [])


def test_added_critics_are_spread_evenly() -> None:
    """If the topology has no edges, critics are added so that each agent receives one review."""
    result = edges(lambda names, number, random: (), list("abcd"), round=1, random=Random(0))
    assert result == [("a", "d"), ("b", "a"), ("c", "b"), ("d", "c")]
    few = edges(lambda names, number, random: (), list("abcd"), round=1, random=Random(0), critics=["a", "b"])
    assert few == [("a", "b"), ("a", "c"), ("b", "a"), ("b", "d")]


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Options that do not define a valid topology, and the field at fault."""

    id: str
    field: str
    options: dict[str, Any]


async def asynchronous(names: Sequence[str], number: int, random: Random) -> list[Edge]:
    """Return edges asynchronously, which is not allowed."""
    return []


REFUSED = [
    Refused(id="unknown topology", field="topology", options={"topology": "mesh"}),
    Refused(id="unhashable topology", field="topology", options={"topology": ["ring"]}),
    Refused(id="async topology", field="topology", options={"topology": asynchronous}),
    Refused(id="one string for names", field="names", options={"names": "abc"}),
    Refused(id="the same name twice", field="names", options={"names": ["a", "a"]}),
    Refused(id="a name that is no string", field="names", options={"names": ["a", 1]}),
    Refused(id="a hub that is a stranger", field="hub", options={"topology": "star", "hub": "z"}),
    Refused(id="more than all", field="sparsity", options={"sparsity": 1.1}),
    Refused(id="less than nobody", field="sparsity", options={"sparsity": -0.1}),
    Refused(id="no number", field="sparsity", options={"sparsity": float("nan")}),
    Refused(id="a bool", field="sparsity", options={"sparsity": True}),
    Refused(id="a string", field="sparsity", options={"sparsity": "0.5"}),
    Refused(id="a target that is a stranger", field="targets", options={"targets": {"a", "z"}}),
    Refused(id="a string for targets", field="targets", options={"targets": "ab"}),
    Refused(id="a critic who is a stranger", field="critics", options={"critics": ["z"]}),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_invalid_topologies_are_rejected(case: Refused) -> None:
    options: dict[str, Any] = {"topology": "ring", "names": ["a", "b"], "round": 1, "random": Random(0)} | case.options
    with pytest.raises(ConfigurationError, match=r"edges\(\)") as caught:
        edges(options.pop("topology"), options.pop("names"), **options)
    assert caught.value.field == case.field


@pytest.mark.parametrize(
    ("given_edges", "message"),
    [
        (None, "got None"),
        (iter([("a", "b")]), "got <list_iterator"),
        ({"a": "b"}, "got {'a': 'b'}"),
        (["ab"], "`0` got 'ab'"),
        ([("a", "b"), ("a", "b", "c")], "`1` got"),
        ([("a", 1)], "`0` got"),
        ([("a", "z")], "'z' is not an agent; agents: 'a', 'b', 'c'"),
        ([("z", "a")], "'z' is not an agent"),
        ([("b", "b")], "'b' cannot review their own proposal"),
        ([("a", "b"), ["a", "b"]], "occurs more than once"),
    ],
    ids=case_id,
)
def test_invalid_edges_from_a_function_raise_an_output_error(given_edges: Any, message: str) -> None:
    def my_own(names: Sequence[str], number: int, random: Random) -> Any:
        return given_edges

    with pytest.raises(OutputError) as caught:
        edges(my_own, ["a", "b", "c"], round=1, random=Random(0))
    assert message in str(caught.value)
    assert caught.value.block == "my_own"


def test_errors_in_a_custom_topology_reach_the_caller() -> None:
    def broken(names: Sequence[str], number: int, random: Random, *, why: str) -> list[Edge]:
        raise LookupError(why)

    with pytest.raises(LookupError, match="no map"):
        edges(partial(broken, why="no map"), ["a", "b"], round=1, random=Random(0))
