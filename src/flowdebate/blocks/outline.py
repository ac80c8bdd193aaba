"""Outline of a pipeline, as text and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """One line of a drawing, with the lines below it."""

    text: str
    """The step: a block's name, or a verb and its object."""
    kind: str = "block"
    """handler, generator, router, sequencer, or the name of a step."""
    children: Sequence[Outline] = ()
    target: str | None = None
    """The name of the step that is jumped back to."""
    target_index: int | None = None
    """The index of that step among the siblings of this one."""

    note: str = ""
    """What else a reader should know, such as what ends a loop; no part of `structure`."""

    def __str__(self) -> str:
        return "\n".join(_lines(self, 0, notes=True))

    @property
    def structure(self) -> str:
        """The drawing without notes: a stored run is resumed only with the same one."""
        return "\n".join(_lines(self, 0, notes=False))

    def texts_of(self, kind: str) -> Iterator[str]:
        """The texts of all lines of a kind, from the top."""
        if self.kind == kind:
            yield self.text
        for child in self.children:
            yield from child.texts_of(kind)

    def mermaid(self) -> str:
        """The drawing as a Mermaid flowchart."""
        return "\n".join(["flowchart TD", *_Mermaid().draw(self)])


def outline(block: Block[Any, Any]) -> Outline:
    """`block` as a drawing: `str()` of it is text, `.mermaid()` a flowchart.

    >>> from flowdebate import handler, sequencer
    >>> print(outline(sequencer(name="sum").map(abs).then(handler(lambda value, ctx: value + 1, name="add"))))
    sum
      → map abs
      → add
    """
    return block.outline()


def _lines(node: Outline, depth: int, *, notes: bool) -> Iterator[str]:
    arrow = "  " * depth + ("→ " if depth else "")
    back = f" ↺ {node.target}" if node.target else ""
    note = f", {node.note}" if notes and node.note else ""
    yield arrow + _on_one_line(f"{node.text}{back}{note}")
    for child in node.children:
        yield from _lines(child, depth + 1, notes=notes)


class _Mermaid:
    """Numbers the nodes and draws steps in sequence; children of a step hang inside a subgraph."""

    def __init__(self) -> None:
        self._count = 0

    def draw(self, node: Outline, indent: str = "  ") -> Iterator[str]:
        self._count += 1
        name = f"n{self._count}"
        if not node.children:
            text = _quoted(node.text)
            decides = node.kind in {"router", "loop_back", "branch"}
            yield f"{indent}{name}{{{{{text}}}}}" if decides else f"{indent}{name}[{text}]"
            return
        yield f"{indent}subgraph {name} [{_quoted(node.text)}]"
        ids: list[str] = []
        for child in node.children:
            before = self._count
            yield from self.draw(child, indent + "  ")
            ids.append(f"n{before + 1}")
        yield f"{indent}end"
        if node.kind == "sequencer":
            yield from (f"{indent}{one} --> {other}" for one, other in pairwise(ids))
            for child, key in zip(node.children, ids, strict=True):
                if child.target_index is not None:
                    yield f"{indent}{key} -. again .-> {ids[child.target_index]}"


def _quoted(text: str) -> str:
    return f'"{_on_one_line(text).translate(_ENTITIES)}"'


def _on_one_line(text: str) -> str:
    """`text` with line breaks and invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# Characters that Mermaid interprets even inside quotes: entities, HTML, Markdown, directives.
_ENTITIES = {ord(character): f"#{ord(character)};" for character in '"#&<>%`\\'}
