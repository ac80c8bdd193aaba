"""Argument Interchange Format (AIF): export of argument graphs, and import with full validation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.arguments.graph import ArgumentGraph, Claim, check_graph

EXTENSION = "flowdebate"
"""The field of an I-node for data that has no place in the format."""

_WHERE = "from_aif()"
_CLAIM = "I"
_SCHEMES = {"RA": "supports", "CA": "attacks"}
_DIALOGUE = {"L", "TA", "YA"}
"""Nodes of the dialogue, not of the argument."""
_TYPES = "one of 'I', 'RA', 'CA', 'L', 'TA', 'YA'"


class _Node(NamedTuple):
    place: str
    """Its path in the data, for error messages."""
    kind: str
    data: Mapping[str, Any]


class _Edge(NamedTuple):
    place: str
    source: str
    target: str


def from_aif(data: Mapping[str, Any], *, base: float = 0.5) -> ArgumentGraph:
    """Read a graph from AIF: I-nodes as claims, RA-nodes as supports, CA-nodes as attacks.

    `base` is the base score of claims without a `flowdebate` field. Several premises of one RA-node become one support
    each. Of the dialogue (L, TA, YA) only the authors of claims are read. ConfigurationError, with the place, for
    malformed data, and for what a graph of claims cannot represent: other schemes (MA, PA), an attack on an inference,
    a cycle.

    >>> nodes = [{"nodeID": "1", "type": "I", "text": "Yes."}, {"nodeID": "2", "type": "MA", "text": ""}]
    >>> from_aif({"nodes": nodes, "edges": []})
    Traceback (most recent call last):
    flowdebate.errors.ConfigurationError: from_aif(): `nodes[1].type` must be one of 'I', 'RA', 'CA', ..., got 'MA'
    """
    nodes = _nodes(data)
    edges = _edges(data, nodes)
    authors = _authors(data, nodes, edges)
    claims = [_claim(key, node, base, authors.get(key)) for key, node in nodes.items() if node.kind == _CLAIM]
    pairs = _pairs(nodes, edges)
    graph = ArgumentGraph.model_construct(
        claims=tuple(claims), attacks=tuple(pairs["attacks"]), supports=tuple(pairs["supports"])
    )
    check_graph(graph, where=_WHERE)
    return graph


def _nodes(data: object) -> dict[str, _Node]:
    """The nodes by their ids."""
    found: dict[str, _Node] = {}
    for place, item in _items(data, "nodes"):
        key = _id(item, "nodeID", place)
        if key in found:
            raise ConfigurationError(_WHERE, f"{place}.nodeID", key, "an id that no node before it has")
        kind = item.get("type")
        if not isinstance(kind, str) or kind not in {_CLAIM, *_SCHEMES, *_DIALOGUE}:
            raise ConfigurationError(_WHERE, f"{place}.type", kind, _TYPES)
        if kind == _CLAIM and not isinstance(item.get("text"), str):
            raise ConfigurationError(_WHERE, f"{place}.text", item.get("text"), "text")
        found[key] = _Node(place, kind, item)
    return found


def _edges(data: object, nodes: Mapping[str, _Node]) -> list[_Edge]:
    found = []
    for place, item in _items(data, "edges"):
        ends = [_id(item, field, place) for field in ("fromID", "toID")]
        for field, end in zip(("fromID", "toID"), ends, strict=True):
            if end not in nodes:
                raise ConfigurationError(_WHERE, f"{place}.{field}", end, "the nodeID of a node")
        found.append(_Edge(place, *ends))
    return found


def _pairs(nodes: Mapping[str, _Node], edges: list[_Edge]) -> dict[str, dict[tuple[str, str], None]]:
    """Attacks and supports, each pair once, in the order of the nodes."""
    premises: dict[str, list[str]] = {key: [] for key, node in nodes.items() if node.kind in _SCHEMES}
    conclusions: dict[str, list[str]] = {key: [] for key in premises}
    for edge in edges:
        kinds = {nodes[edge.source].kind, nodes[edge.target].kind}
        if kinds & _DIALOGUE:
            continue
        if (edge.source in premises) == (edge.target in premises):
            between = " and ".join(repr(nodes[end].kind) for end in (edge.source, edge.target))
            raise ConfigurationError(_WHERE, edge.place, between, "between a claim (I) and a scheme (RA, CA)")
        if edge.target in premises:
            premises[edge.target].append(edge.source)
        else:
            conclusions[edge.source].append(edge.target)
    found: dict[str, dict[tuple[str, str], None]] = {"attacks": {}, "supports": {}}
    for key, sources in premises.items():
        if not sources or len(conclusions[key]) != 1:
            got = f"{len(sources)} and {len(conclusions[key])}"
            raise ConfigurationError(
                _WHERE, nodes[key].place, got, "a scheme of at least one premise and one conclusion"
            )
        found[_SCHEMES[nodes[key].kind]].update(dict.fromkeys((source, conclusions[key][0]) for source in sources))
    return found


def _authors(data: Mapping[str, Any], nodes: Mapping[str, _Node], edges: list[_Edge]) -> dict[str, str]:
    """The author of each claim: the person of a locution that leads to it through a YA-node."""
    persons: dict[str, str] = {}
    for place, item in _items(data, "locutions", needed=False):
        person = item.get("personID")
        if isinstance(person, (str, int)):
            persons[_id(item, "nodeID", place)] = str(person)
    said = {edge.target: persons[edge.source] for edge in edges if edge.source in persons}
    found: dict[str, str] = {}
    for edge in edges:
        if nodes[edge.source].kind == "YA" and nodes[edge.target].kind == _CLAIM and edge.source in said:
            found.setdefault(edge.target, said[edge.source])
    return found


def _claim(key: str, node: _Node, base: float, author: str | None) -> Claim:
    """The claim of an I-node."""
    own = node.data.get(EXTENSION, {})
    place = f"{node.place}.{EXTENSION}"
    if not isinstance(own, Mapping):
        raise ConfigurationError(_WHERE, place, own, "an object")
    score = own.get("base", base)
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        field = f"{place}.base" if "base" in own else "base"
        raise ConfigurationError(_WHERE, field, score, "a number from 0 to 1")
    for field in ("author", "stance"):
        if not isinstance(own.get(field), (str, type(None))):
            raise ConfigurationError(_WHERE, f"{place}.{field}", own[field], "text")
    number = own.get("round")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise ConfigurationError(_WHERE, f"{place}.round", number, "an int >= 1")
    return Claim.model_construct(  # validation refuses texts with half a surrogate pair
        id=key,
        text=node.data["text"],
        base=float(score),
        author=own.get("author", author),
        stance=own.get("stance"),
        round=number,
    )


def _items(data: object, field: str, *, needed: bool = True) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects of a list of `data`, each with its place."""
    if not isinstance(data, Mapping):
        raise ConfigurationError(_WHERE, "data", data, "an object with nodes and edges")
    items = data.get(field) if needed else data.get(field) or []
    if not isinstance(items, (list, tuple)):
        raise ConfigurationError(_WHERE, field, items, "a list")
    for place, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise ConfigurationError(_WHERE, f"{field}[{place}]", item, "an object")
    return [(f"{field}[{place}]", item) for place, item in enumerate(items)]


def _id(item: Mapping[str, Any], field: str, place: str) -> str:
    """An id of `item` as text; some programs write numbers."""
    key = item.get(field)
    if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
        raise ConfigurationError(_WHERE, f"{place}.{field}", key, "an id")
    return str(key)


_TEXTS = {"RA": "Default Inference", "CA": "Default Conflict", "YA": "Default Illocuting"}


def to_aif(graph: ArgumentGraph, *, locutions: bool = False) -> dict[str, Any]:
    """Export `graph` as AIF: `nodes`, `edges` and `locutions`, ready for JSON.

    With `locutions`, L- and YA-nodes record the author of each claim that has one. ConfigurationError for a graph that
    `argument_graph` would have refused.

    >>> from flowdebate.evaluation.arguments.graph import argument_graph
    >>> graph = argument_graph([Claim(id="a", text="Yes."), Claim(id="b", text="No.")], attacks=[("b", "a")])
    >>> [(node["nodeID"], node["type"], node["text"]) for node in to_aif(graph)["nodes"]]
    [('a', 'I', 'Yes.'), ('b', 'I', 'No.'), ('CA1', 'CA', 'Default Conflict')]
    """
    check_graph(graph, where="to_aif()")
    export = _Export({claim.id for claim in graph.claims})
    for claim in graph.claims:
        extension = {field: getattr(claim, field) for field in ("base", "author", "stance", "round")}
        given = {field: value for field, value in extension.items() if value is not None}
        export.node(claim.id, "I", claim.text)[EXTENSION] = given
    for kind, pairs in (("RA", graph.supports), ("CA", graph.attacks)):
        for source, target in pairs:
            export.scheme(source, kind, target)
    for claim in graph.claims if locutions else ():
        if claim.author is not None:
            export.locution(claim, claim.author)
    return {"nodes": export.nodes, "edges": export.edges, "locutions": export.locutions}


class _Export:
    """Nodes and edges of an export; new ids never collide with those of claims."""

    def __init__(self, taken: set[str]) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.locutions: list[dict[str, Any]] = []
        self._taken = taken
        self._counts: defaultdict[str, int] = defaultdict(int)

    def node(self, key: str, kind: str, text: str) -> dict[str, Any]:
        made: dict[str, Any] = {"nodeID": key, "text": text, "type": kind, "timestamp": ""}
        self.nodes.append(made)
        return made

    def scheme(self, source: str, kind: str, target: str) -> None:
        """Add a scheme from one node to another."""
        key = self._fresh(kind)
        self.node(key, kind, _TEXTS[kind])
        for one, other in ((source, key), (key, target)):
            self.edges.append({"edgeID": self._fresh("E"), "fromID": one, "toID": other, "formEdgeID": None})

    def locution(self, claim: Claim, author: str) -> None:
        """Add a locution of `author` for `claim`."""
        said = self._fresh("L")
        self.node(said, "L", f"{author}: {claim.text}")
        self.scheme(said, "YA", claim.id)
        self.locutions.append(
            {"nodeID": said, "personID": author, "timestamp": "", "start": None, "end": None, "source": None}
        )

    def _fresh(self, kind: str) -> str:
        while True:
            self._counts[kind] += 1
            key = f"{kind}{self._counts[kind]}"
            if key not in self._taken:
                return key
