"""Argument Interchange Format (AIF): export of argument graphs, and import of graphs that others wrote.

Nothing that is imported is trusted: each error names the place in the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.arguments.graph import check_graph
from flowdebate.evaluation.arguments.schemas import ArgumentGraph, Claim

__all__ = (
    "EXTENSION",
    "from_aif",
    "to_aif",
)

EXTENSION = "flowdebate"
"""The field of an I-node for data that the format has no place for."""

_WHERE = "from_aif()"
_CLAIM = "I"
_SCHEMES = {"RA": "supports", "CA": "attacks"}
_DIALOGUE = {"L", "TA", "YA"}
"""Nodes of the dialogue, which are no part of the argument itself."""
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

    `base` is the base score of claims that have none of their own. Each of several premises of an RA-node supports its
    conclusion. Of what was said (L, TA, YA) only the authors of claims are taken, where `flowdebate` fields name none.
    ConfigurationError, with the place, for what is no AIF, and for what a graph of claims cannot hold: other schemes
    (MA, PA), an attack on an inference instead of a claim, a cycle.

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
    # model_construct: all is checked, and texts may hold halves of surrogate pairs, which validation refuses.
    return Claim.model_construct(
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
    """An id; some programs write numbers."""
    key = item.get(field)
    if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
        raise ConfigurationError(_WHERE, f"{place}.{field}", key, "an id")
    return str(key)


_TEXTS = {"RA": "Default Inference", "CA": "Default Conflict", "YA": "Default Illocuting"}


def to_aif(graph: ArgumentGraph, *, locutions: bool = False) -> dict[str, Any]:
    """Export `graph` as AIF: `nodes`, `edges` and `locutions`, all of it JSON.

    With `locutions`, each claim that has an author is said by an L-node, through a YA-node. Programs that know only
    arguments leave these out. ConfigurationError for a graph that `argument_graph` would have refused.

    >>> from flowdebate.evaluation.arguments.graph import Claim, argument_graph
    >>> graph = argument_graph([Claim(id="a", text="Yes."), Claim(id="b", text="No.")], attacks=[("b", "a")])
    >>> [(node["nodeID"], node["type"], node["text"]) for node in to_aif(graph)["nodes"]]
    [('a', 'I', 'Yes.'), ('b', 'I', 'No.'), ('CA1', 'CA', 'Default Conflict')]
    """
    check_graph(graph, where="to_aif()")
    written = _Written({claim.id for claim in graph.claims})
    for claim in graph.claims:
        written.node(claim.id, "I", claim.text)[EXTENSION] = _extension(claim)
    for kind, pairs in (("RA", graph.supports), ("CA", graph.attacks)):
        for source, target in pairs:
            written.between(source, kind, target)
    for claim in graph.claims if locutions else ():
        if claim.author is not None:
            written.locution(claim, claim.author)
    return {"nodes": written.nodes, "edges": written.edges, "locutions": written.locutions}


class _Written:
    """Nodes and edges of an export, with ids that no claim has."""

    def __init__(self, taken: set[str]) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.locutions: list[dict[str, Any]] = []
        self._taken = taken
        self._count: dict[str, int] = {}

    def node(self, key: str, kind: str, text: str) -> dict[str, Any]:
        made: dict[str, Any] = {"nodeID": key, "text": text, "type": kind, "timestamp": ""}
        self.nodes.append(made)
        return made

    def between(self, source: str, kind: str, target: str) -> None:
        """Add a scheme from one node to another."""
        scheme = self._fresh(kind)
        self.node(scheme, kind, _TEXTS[kind])
        for one, other in ((source, scheme), (scheme, target)):
            self.edges.append({"edgeID": self._fresh("E"), "fromID": one, "toID": other, "formEdgeID": None})

    def locution(self, claim: Claim, author: str) -> None:
        """Add a locution of `author` for `claim`."""
        said = self._fresh("L")
        self.node(said, "L", f"{author}: {claim.text}")
        self.between(said, "YA", claim.id)
        self.locutions.append(
            {"nodeID": said, "personID": author, "timestamp": "", "start": None, "end": None, "source": None}
        )

    def _fresh(self, kind: str) -> str:
        while True:
            self._count[kind] = self._count.get(kind, 0) + 1
            key = f"{kind}{self._count[kind]}"
            if key not in self._taken:
                return key


def _extension(claim: Claim) -> dict[str, Any]:
    fields = {"base": claim.base, "author": claim.author, "stance": claim.stance, "round": claim.round}
    return {name: value for name, value in fields.items() if value is not None}
