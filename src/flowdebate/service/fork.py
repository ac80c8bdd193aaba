"""Account of a fork: what it has from the run that it was forked from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import Field

from flowdebate._util.wire import WireModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from flowdebate.models.base import ModelRequest
    from flowdebate.store.base import StepRow, StoredRun


class Fork(WireModel):
    """What a fork has from its parent."""

    parent: str
    """The id of the run that it was forked from."""
    reused: int
    """Recorded answers of the parent that it took."""
    at: str | None = Field(default=None, exclude_if=lambda place: place is None)
    """The place from which on nothing was reused; None (and not written) where the fork did not say one."""
    edited: tuple[str, ...] = ()
    """Places of the answers that were replaced."""
    asked: int
    """Answers that models, or humans, gave to it."""

    @classmethod
    def of(cls, run: StoredRun, steps: Sequence[StepRow]) -> Self | None:
        """The account of a stored run; None if it is no fork."""
        parent = run.header.parent
        if parent is None:
            return None
        edits: dict[str, Any] = parent.get("edits") or {}
        origins = [_origin(step, edits) for step in steps if step.kind in ("call", "human") and step.body is not None]
        return cls(
            parent=str(parent.get("run")),
            reused=origins.count("reused"),
            at=parent.get("at"),
            edited=tuple(step.key for step in steps if step.key in edits and step.body is not None),
            asked=origins.count("asked"),
        )

    @property
    def counts(self) -> str:
        """How many answers it has from where, in words.

        >>> Fork(parent="rents", reused=5, edited=(), asked=2).counts
        '5 answers reused, 2 asked for'
        """
        reused = f"{self.reused:,} {'answer' if self.reused == 1 else 'answers'} reused"
        edited = [f"{len(self.edited):,} edited"] if self.edited else []
        return ", ".join([reused, *edited, f"{self.asked:,} asked for"])


def _origin(step: StepRow, edits: dict[str, Any]) -> str:
    if step.key in edits:
        return "edited"
    recorded = json.loads(step.body or "{}")
    return str(recorded.get("origin", "asked")) if isinstance(recorded, dict) else "asked"


def checked_edits(
    edits: Mapping[str, Any], steps: Sequence[StepRow], requests: Mapping[str, ModelRequest]
) -> dict[str, Any]:
    """`edits` as their steps take them: data where the answer has a schema, else as they are.

    `requests` are those of the run's calls. OutputError names each invalid field.
    """
    from flowdebate.blocks.human.answers import checked
    from flowdebate.blocks.human.parsing import checked_against
    from flowdebate.runs.durable.suspend import request_of

    people = {step.key: step for step in steps if step.kind == "human" and step.request is not None}

    def one(place: str, edit: object) -> object:
        if place in people:
            return checked(request_of(place, people[place].request or ""), edit)
        request = requests.get(place)
        if request is None or request.output_schema is None:
            return edit
        return checked_against(request.output_schema, edit, block=request.block)

    return {place: one(place, edit) for place, edit in edits.items()}
