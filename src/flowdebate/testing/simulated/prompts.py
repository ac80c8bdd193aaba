"""Judge prompts read back: the slot, label and arguments of each side."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flowdebate.errors import MalformedResponse, ViewError
from flowdebate.patterns.debate.transcript import parse_entries
from flowdebate.prompts.escaping import BAR, unescaped
from flowdebate.testing.simulated.draws import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.models.base import ModelRequest
    from flowdebate.patterns.debate.schemas import DebateContributionEntry


Form = Literal["scores", "winner", "letter", "quote"]
"""The form of a judge's answer; a quote is one of the sentences of a side, by letter."""

_TRANSCRIPT = re.compile(r"^Round [1-9][0-9]*:\n\[.*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_BY_SIDE = re.compile(r"^Side ([A-Z]):((?:\n(?:- |  [|] ).*|\n\(empty\))*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^- (.*(?:\n  [|] .*)*)", re.MULTILINE)
_SENTENCE = re.compile(r"^([A-Z]): (.*(?:\n  [|] .*)*)", re.MULTILINE)
_LISTED = re.compile(r"^- (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSide:
    """One side in a judge view."""

    called: str
    """Its label, or its stance."""
    stance: str
    """Its stance, where the positions say it; else what it is called."""
    texts: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    """The names that can be read in its tags; none in an anonymous view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimView:
    """A view: its sides by slot, the first being the one that is read first."""

    sides: tuple[SimSide, ...]
    form: Form
    fields: tuple[str, ...]
    """Those of the answer."""

    @property
    def item(self) -> int:
        """A number for the item that is judged: the same in all its views."""
        return key_of(*sorted(key_of(side.stance, *side.texts).to_bytes(8, "big").hex() for side in self.sides))

    @property
    def number(self) -> int:
        """A number for the view: its order and its names."""
        return key_of(*(text for side in self.sides for text in (side.called, side.stance)))

    @property
    def labels(self) -> tuple[int, ...]:
        """For each slot the place of what its side is called, of all of them in alphabetical order."""
        names = sorted(side.called for side in self.sides)
        return tuple(names.index(side.called) for side in self.sides)


def read_view(request: ModelRequest) -> SimView:
    """The view that a judge's request holds; MalformedResponse for a request that is no judge's.

    Slots are in the order of reading. A side without arguments is last.
    """
    if request.choices:
        return _lettered(str(request.messages[-1]["content"]), tuple(request.choices))
    form, names, fields = _asked(request)
    system = "\n".join(str(message["content"]) for message in request.messages if message["role"] == "system")
    entries = _entries(str(request.messages[-1]["content"]), names)
    stances = _stances(system, names)
    order = dict.fromkeys([*(entry.stance for entry in entries if entry.stance in names), *names])
    sides = tuple(
        SimSide(
            called=name,
            stance=stances.get(name, name),
            texts=tuple(entry.text for entry in entries if entry.stance == name),
            speakers=tuple(
                dict.fromkeys(entry.agent_name for entry in entries if entry.stance == name and entry.agent_name)
            ),
        )
        for name in order
    )
    return SimView(sides=sides, form=form, fields=fields)


def _lettered(turn: str, letters: tuple[str, ...]) -> SimView:
    """The view of a request for a letter: arguments by side, or sentences to choose a quote from."""
    blocks = {match[1]: match[2] for match in _BY_SIDE.finditer(turn)}
    if set(blocks) == set(letters):
        said = {letter: tuple(map(_original, _ARGUMENT.findall(block))) for letter, block in blocks.items()}
        sides = tuple(SimSide(called=letter, stance=letter, texts=texts) for letter, texts in said.items())
        return SimView(sides=sides, form="letter", fields=())
    sentences = {match[1]: _original(match[2]) for match in _SENTENCE.finditer(turn)}
    sides = tuple(
        SimSide(called=letter, stance=letter, texts=(sentences[letter],)) for letter in letters if letter in sentences
    )
    if len(sides) < len(letters):
        sides = tuple(SimSide(called=letter, stance=letter, texts=(turn,)) for letter in letters)
    return SimView(sides=sides, form="quote", fields=())


def _original(text: str) -> str:
    return unescaped(text.replace(BAR, "\n"))


def _asked(request: ModelRequest) -> tuple[Form, tuple[str, ...], tuple[str, ...]]:
    """Which form the answer has, and the names of the sides in it."""
    schema = request.output_schema or {}
    properties: dict[str, Any] = schema.get("properties", {})
    if "scores" in properties:
        names = tuple(_resolved(properties["scores"], schema).get("properties", {}))
        form: Form = "scores"
    else:
        names, form = tuple(_choices(_resolved(properties.get("winner", {}), schema), schema)), "winner"
    if not names:
        message = "a simulated judge answers with `scores` or a `winner`: the request asks for neither"
        raise MalformedResponse(message, block=request.block)
    return form, names, tuple(properties)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = schema
    while "$ref" in found:
        inner: Any = root
        for part in found["$ref"].removeprefix("#/").split("/"):
            inner = inner[part]
        found = inner
    return found  # type: ignore[no-any-return] # JSON


def _choices(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Sequence[str]:
    for choice in (schema, *schema.get("anyOf", ())):
        inner = _resolved(choice, root)
        found = inner.get("enum") or [inner[key] for key in ("const",) if key in inner]
        if found:
            return [name for name in found if name is not None]
    return []


def _entries(turn: str, names: Sequence[str]) -> list[DebateContributionEntry]:
    """The entries of a transcript without names, if all its tags are sides; else of one with names."""
    found = _TRANSCRIPT.search(turn)
    if found is None:
        return []
    try:
        plain = parse_entries(found[0])
        return plain if all(entry.stance in names for entry in plain) else parse_entries(found[0], names=True)
    except ViewError:
        return []


def _stances(system: str, names: Sequence[str]) -> dict[str, str]:
    """The stance of each label: the positions are listed as "- label: stance"."""
    lines = [unescaped(line) for line in _LISTED.findall(system)]
    if set(names) <= set(lines):
        return {}
    return {name: line.removeprefix(f"{name}: ") for name in names for line in lines if line.startswith(f"{name}: ")}
