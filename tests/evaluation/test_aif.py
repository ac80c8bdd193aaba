from __future__ import annotations

import copy
import json
from typing import Any

import arguebuf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.arguments.aif import EXTENSION, from_aif, to_aif
from flowdebate.evaluation.arguments.graph import ArgumentGraph, Claim, argument_graph

texts = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(["RA1", "CA1", "E1", "", "1"])


@st.composite
def graphs(draw: st.DrawFn) -> ArgumentGraph:
    """Graphs without cycles; ids may be those that an export would choose."""
    names = draw(st.lists(texts.filter(bool), min_size=1, max_size=5, unique=True))
    claims = [
        Claim.model_construct(
            id=name,
            text=draw(texts),
            base=draw(st.floats(0, 1)),
            author=draw(st.none() | texts),
            stance=draw(st.none() | texts),
            round=draw(st.none() | st.integers(1, 9)),
        )
        for name in names
    ]
    pairs: dict[str, list[tuple[str, str]]] = {"attacks": [], "supports": [], "": []}
    for place, name in enumerate(names):
        for later in names[place + 1 :]:
            pairs[draw(st.sampled_from(list(pairs)))].append((later, name))
    return argument_graph(claims, attacks=pairs["attacks"], supports=pairs["supports"])


def shape(graph: ArgumentGraph) -> tuple[dict[str, str], set[tuple[str, str]], set[tuple[str, str]]]:
    """What every program of the format keeps: texts by ids, attacks, supports."""
    return {claim.id: claim.text for claim in graph.claims}, set(graph.attacks), set(graph.supports)


RENT = argument_graph(
    [
        Claim(id="1", text="Rents should be capped.", base=0.5, author="ann", stance="for", round=1),
        Claim(id="2", text="Caps cut supply.", base=0.8, author="bob"),
        Claim(id="3", text="Wages lag behind."),
    ],
    attacks=[("2", "1")],
    supports=[("3", "1")],
)


def test_the_export_is_written_as_aifdb_writes_it() -> None:
    """What a reviewer would read."""
    assert to_aif(RENT, locutions=True) == snapshot(
        {
            "nodes": [
                {
                    "nodeID": "1",
                    "text": "Rents should be capped.",
                    "type": "I",
                    "timestamp": "",
                    "flowdebate": {"base": 0.5, "author": "ann", "stance": "for", "round": 1},
                },
                {
                    "nodeID": "2",
                    "text": "Caps cut supply.",
                    "type": "I",
                    "timestamp": "",
                    "flowdebate": {"base": 0.8, "author": "bob"},
                },
                {"nodeID": "3", "text": "Wages lag behind.", "type": "I", "timestamp": "", "flowdebate": {"base": 0.5}},
                {"nodeID": "RA1", "text": "Default Inference", "type": "RA", "timestamp": ""},
                {"nodeID": "CA1", "text": "Default Conflict", "type": "CA", "timestamp": ""},
                {"nodeID": "L1", "text": "ann: Rents should be capped.", "type": "L", "timestamp": ""},
                {"nodeID": "YA1", "text": "Default Illocuting", "type": "YA", "timestamp": ""},
                {"nodeID": "L2", "text": "bob: Caps cut supply.", "type": "L", "timestamp": ""},
                {"nodeID": "YA2", "text": "Default Illocuting", "type": "YA", "timestamp": ""},
            ],
            "edges": [
                {"edgeID": "E1", "fromID": "3", "toID": "RA1", "formEdgeID": None},
                {"edgeID": "E2", "fromID": "RA1", "toID": "1", "formEdgeID": None},
                {"edgeID": "E3", "fromID": "2", "toID": "CA1", "formEdgeID": None},
                {"edgeID": "E4", "fromID": "CA1", "toID": "1", "formEdgeID": None},
                {"edgeID": "E5", "fromID": "L1", "toID": "YA1", "formEdgeID": None},
                {"edgeID": "E6", "fromID": "YA1", "toID": "1", "formEdgeID": None},
                {"edgeID": "E7", "fromID": "L2", "toID": "YA2", "formEdgeID": None},
                {"edgeID": "E8", "fromID": "YA2", "toID": "2", "formEdgeID": None},
            ],
            "locutions": [
                {"nodeID": "L1", "personID": "ann", "timestamp": "", "start": None, "end": None, "source": None},
                {"nodeID": "L2", "personID": "bob", "timestamp": "", "start": None, "end": None, "source": None},
            ],
        }
    )


@given(graphs(), st.booleans())
def test_what_is_exported_is_read_back(graph: ArgumentGraph, locutions: bool) -> None:  # noqa: FBT001
    """Claims with all that they have, attacks and supports, by way of JSON text."""
    data = json.loads(json.dumps(to_aif(graph, locutions=locutions)))
    back = from_aif(data)
    assert back.claims == graph.claims
    assert shape(back) == shape(graph)
    assert len({node["nodeID"] for node in data["nodes"]}) == len(data["nodes"])


def loaded_by_arguebuf(data: dict[str, Any]) -> Any:
    """What the library makes of an export."""
    return arguebuf.load.aif(data)  # type: ignore[arg-type] # its TypedDict


@settings(max_examples=30)
@given(graphs())
def test_a_library_reads_and_writes_the_same_graph(graph: ArgumentGraph) -> None:
    """It is arguebuf: claims, texts, attacks and supports survive; scores, authors, stances and rounds are dropped."""
    loaded = loaded_by_arguebuf(to_aif(graph))
    assert {key: node.plain_text for key, node in loaded.atom_nodes.items()} == shape(graph)[0]
    dumped = json.loads(json.dumps(arguebuf.dump.aif(loaded)))
    back = from_aif(dumped, base=0.25)
    assert shape(back) == shape(graph)
    assert {(claim.base, claim.author, claim.stance, claim.round) for claim in back.claims} == {
        (0.25, None, None, None)
    }


def test_a_library_reads_what_kind_each_relation_is() -> None:
    """An inference is a support to it, a conflict an attack."""
    loaded = loaded_by_arguebuf(to_aif(RENT))
    kinds = {
        (premise.id, claim.id): type(scheme.scheme).__name__
        for scheme in loaded.scheme_nodes.values()
        for premise in loaded.incoming_nodes(scheme)
        for claim in loaded.outgoing_nodes(scheme)
    }
    assert kinds == {("2", "1"): "Attack", ("3", "1"): "Support"}


def test_a_library_leaves_out_who_said_it(caplog: pytest.LogCaptureFixture) -> None:
    """With locutions, arguebuf logs the edges that it skips, and has the same argument."""
    loaded = loaded_by_arguebuf(to_aif(RENT, locutions=True))
    assert shape(from_aif(arguebuf.dump.aif(loaded))) == shape(RENT)
    assert len(caplog.records) == 4


def test_authors_are_read_from_locutions() -> None:
    """Where the extension is not there, as in what others write."""
    data = to_aif(RENT, locutions=True)
    for node in data["nodes"]:
        node.pop(EXTENSION, None)
    assert [claim.author for claim in from_aif(data).claims] == ["ann", "bob", None]


def test_what_others_write_is_read() -> None:
    """Ids that are numbers, several premises, an inference drawn twice, and the dialogue around it."""
    nodes = [
        *({"nodeID": place, "type": "I", "text": f"claim {place}"} for place in (1, 2, 3)),
        {"nodeID": 4, "type": "RA", "text": "Expert Opinion", "scheme": "Expert Opinion"},
        {"nodeID": 5, "type": "RA"},
        {"nodeID": 6, "type": "YA", "text": "Arguing"},
        {"nodeID": 7, "type": "TA", "text": "Default Transition"},
    ]
    ends = [(1, 4), (2, 4), (4, 3), (1, 5), (5, 3), (7, 6), (6, 4)]
    edges = [{"edgeID": place, "fromID": one, "toID": other} for place, (one, other) in enumerate(ends)]
    graph = from_aif({"nodes": nodes, "edges": edges, "locutions": None, "participants": []})
    assert graph.supports == (("1", "3"), ("2", "3"))
    assert [claim.base for claim in graph.claims] == [0.5] * 3


def changed(path: str, value: object) -> Any:
    """The export of RENT with `value` at `path`, as in "nodes.0.type"."""
    data: Any = copy.deepcopy(to_aif(RENT, locutions=True))
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = data
    for step in steps:
        place = place[step]
    place[last] = value
    return data


MALFORMED: dict[str, tuple[Any, str]] = {
    "no object": ([], "data"),
    "no nodes": ({}, "nodes"),
    "no edges": ({"nodes": []}, "edges"),
    "nodes are an object": (changed("nodes", {}), "nodes"),
    "nodes are text": (changed("nodes", "nodes"), "nodes"),
    "a node is none": (changed("nodes.1", None), "nodes[1]"),
    "no id": (changed("nodes.1.nodeID", None), "nodes[1].nodeID"),
    "an id of nothing": (changed("nodes.1.nodeID", ""), "nodes[1].nodeID"),
    "an id is a list": (changed("nodes.1.nodeID", ["1"]), "nodes[1].nodeID"),
    "an id twice": (changed("nodes.1.nodeID", "1"), "nodes[1].nodeID"),
    "an id twice, once as a number": (changed("nodes.1.nodeID", 1), "nodes[1].nodeID"),
    "an unknown type": (changed("nodes.0.type", "X"), "nodes[0].type"),
    "a type of no text": (changed("nodes.0.type", {}), "nodes[0].type"),
    "another scheme": (changed("nodes.3.type", "MA"), "nodes[3].type"),
    "no text": (changed("nodes.0.text", None), "nodes[0].text"),
    "an extension of another": (changed(f"nodes.0.{EXTENSION}", 7), f"nodes[0].{EXTENSION}"),
    "no base score": (changed(f"nodes.0.{EXTENSION}.base", "0.5"), f"nodes[0].{EXTENSION}.base"),
    "a base score beyond": (changed(f"nodes.0.{EXTENSION}.base", 1.01), f"nodes[0].{EXTENSION}.base"),
    "a base score that is no number": (
        changed(f"nodes.0.{EXTENSION}.base", float("nan")),
        f"nodes[0].{EXTENSION}.base",
    ),
    "an author of no text": (changed(f"nodes.0.{EXTENSION}.author", 7), f"nodes[0].{EXTENSION}.author"),
    "a stance of no text": (changed(f"nodes.0.{EXTENSION}.stance", []), f"nodes[0].{EXTENSION}.stance"),
    "a round before the first": (changed(f"nodes.0.{EXTENSION}.round", 0), f"nodes[0].{EXTENSION}.round"),
    "an edge is none": (changed("edges.2", "x"), "edges[2]"),
    "an edge from nowhere": (changed("edges.0.fromID", "x"), "edges[0].fromID"),
    "an edge to nothing": (changed("edges.0.toID", None), "edges[0].toID"),
    "an edge between claims": (changed("edges.0.toID", "1"), "edges[0]"),
    "an attack on an inference": (changed("edges.3.toID", "RA1"), "edges[3]"),
    "no premise": (changed("edges.0.fromID", "L1"), "nodes[3]"),
    "two conclusions": (changed("edges", [*to_aif(RENT)["edges"], {"fromID": "CA1", "toID": "3"}]), "nodes[4]"),
    "locutions are none": (changed("locutions", 5), "locutions"),
    "a locution of nothing": (changed("locutions.0.nodeID", None), "locutions[0].nodeID"),
    "a support of itself": (changed("edges.1.toID", "3"), "supports[0]"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused_with_its_place(name: str) -> None:
    """The error names the field."""
    data, field = MALFORMED[name]
    with pytest.raises(ConfigurationError) as caught:
        from_aif(data)
    assert caught.value.field == field


def test_cycles_are_refused_both_ways() -> None:
    """A graph of claims has none."""
    ends = [("1", "4"), ("4", "2"), ("2", "5"), ("5", "1")]
    nodes = [
        {"nodeID": key, "type": kind, "text": ""} for key, kind in zip("1245", ["I", "I", "RA", "CA"], strict=True)
    ]
    edges = [{"edgeID": "", "fromID": one, "toID": other} for one, other in ends]
    with pytest.raises(ConfigurationError, match=r"1 → 2 → 1|2 → 1 → 2"):
        from_aif({"nodes": nodes, "edges": edges})
    cyclic = ArgumentGraph(claims=(Claim(id="a"), Claim(id="b")), attacks=(("a", "b"), ("b", "a")))
    with pytest.raises(ConfigurationError, match="a → b → a"):
        to_aif(cyclic)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 6)
    | st.floats()
    | st.sampled_from(["I", "RA", "CA", "L", "YA", "1", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["nodes", "edges", "nodeID", "type", "text", "fromID", "toID", "flowdebate", "base"]), inner
        )
    ),
    max_leaves=25,
)


@given(json_values | st.fixed_dictionaries({"nodes": json_values, "edges": json_values}))
def test_any_json_is_a_graph_or_an_error_of_the_one_kind(data: Any) -> None:
    """Nothing else escapes, and what is read is sound."""
    try:
        graph = from_aif(data)
    except ConfigurationError as error:
        assert error.where == "from_aif()"  # noqa: PT017
    else:
        assert shape(from_aif(to_aif(graph))) == shape(graph)


def test_the_base_score_that_is_given_must_be_one() -> None:
    """It is for claims without one of their own."""
    with pytest.raises(ConfigurationError, match="`base` must be a number from 0 to 1"):
        from_aif({"nodes": [{"nodeID": "1", "type": "I", "text": ""}], "edges": []}, base=2)
