"""Runs that wait for people: what is asked, and how a run comes to a stand until it is answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = (
    "HumanRequest",
    "Suspended",
    "answer_text",
    "read_answer",
    "request_of",
    "together",
)


def _unchecked(answer: object) -> object:
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanRequest:
    """What a human is asked."""

    block: str
    """The name of the block that asks."""
    place: str
    """Its place in the run, which nothing else in the run has."""
    shown: str
    """What to read: the question, and what was said so far. Nothing in it that a model wrote can pass for more."""
    expects: str
    """What to answer, in words."""
    schema: Mapping[str, Any] | None = None
    """What the answer must be, as JSON Schema; None for text."""
    problem: str | None = None
    """What was wrong with the answer before; None where there was none."""
    check: Callable[[Any], Any] = field(default=_unchecked, repr=False, compare=False)
    """What makes the value of an answer; OutputError that names each field that does not fit."""

    @property
    def text(self) -> str:
        """The request as JSON: what a store keeps of it."""
        kept = {"shown": self.shown, "expects": self.expects, "schema": self.schema, "problem": self.problem}
        return json.dumps({"block": self.block, **kept})


def request_of(place: str, text: str) -> HumanRequest:
    """The request whose `text` it is; ValueError, KeyError or TypeError for another text."""
    kept = json.loads(text)
    names = ("block", "shown", "expects", "schema", "problem")
    return HumanRequest(place=place, **{name: kept[name] for name in names})


def answer_text(answer: object, *, parked: bool) -> str:
    """An answer as a store keeps it; `parked` says that the run had come to a stand for it."""
    return json.dumps({"answer": answer, "parked": parked})


def read_answer(body: str) -> tuple[Any, bool]:
    """What `answer_text` was given."""
    kept = json.loads(body)
    return kept["answer"], kept["parked"]


class Suspended(BaseException):
    """The run cannot go on before `requests` are answered: it ends as "awaiting", and is carried on later."""

    def __init__(self, requests: Sequence[HumanRequest]) -> None:
        self.requests = tuple(requests)
        asked = ", ".join(f"{request.block!r} (at {request.place})" for request in self.requests)
        super().__init__(f"waits for an answer of {asked}")


def together(parked: Mapping[int, Suspended]) -> Suspended:
    """What branches that went on at the same time wait for, in the order of the branches."""
    return Suspended([request for _, one in sorted(parked.items()) for request in one.requests])
