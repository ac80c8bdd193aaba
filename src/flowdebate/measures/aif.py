"""Argument graphs in the Argument Interchange Format, as AIFdb writes it in JSON (Chesñevar et al. 2006).

A claim is an I-node, a support an RA-node between two of them, an attack a CA-node. What the format has no place for
(base score, author, stance, round) stands in an I-node's `flowdebate` field, which other programs leave out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.measures.aif_reading import EXTENSION, from_aif
from flowdebate.measures.argument_checks import check_graph

if TYPE_CHECKING:
    from flowdebate.schemas.arguments import ArgumentGraph, Claim

__all__ = ("EXTENSION", "from_aif", "to_aif")

_TEXTS = {"RA": "Default Inference", "CA": "Default Conflict", "YA": "Default Illocuting"}


def to_aif(graph: ArgumentGraph, *, locutions: bool = False) -> dict[str, Any]:
    """`graph` as AIF: `nodes`, `edges` and `locutions`, all of it JSON.

    With `locutions`, each claim that has an author is said by an L-node, through a YA-node. Programs that know only
    arguments leave these out. ConfigurationError for a graph that `argument_graph` would have refused.

    >>> from flowdebate.measures.arguments import Claim, argument_graph
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
    """Nodes and edges as they are written, with ids that no claim has."""

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
        """A scheme from one node to another."""
        scheme = self._fresh(kind)
        self.node(scheme, kind, _TEXTS[kind])
        for one, other in ((source, scheme), (scheme, target)):
            self.edges.append({"edgeID": self._fresh("E"), "fromID": one, "toID": other, "formEdgeID": None})

    def locution(self, claim: Claim, author: str) -> None:
        """Who said `claim`."""
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
