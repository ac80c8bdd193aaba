"""Raw outputs: the base class that the outputs of all patterns share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flowdebate._util.wire import WireModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.state import DebateStatus, ProviderFailure

__all__ = (
    "Entry",
    "PatternOutput",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One contribution, whatever the pattern calls its parts."""

    round: int
    """The round, or the turn of a handoff, from 1; 0 for a consensus debate's first proposals."""
    speaker: str
    """The name of the debater or agent."""
    text: str


class PatternOutput(WireModel):
    """Everything a pattern came to, in the terms that all patterns share.

    Each pattern adds fields of its own, under the names that its wire form has.
    """

    subject_field: ClassVar[str] = "question"
    """The field that holds the question, the topic, the proposition or the task."""

    # Declared for type checkers only: the outputs declare them as fields, in the order of their wire forms.
    if TYPE_CHECKING:

        @property
        def answer(self) -> str | None:
            """The pattern's own answer in words; None for a pattern that makes none, or if it made none."""

        @property
        def stop_reason(self) -> str | None:
            """Why there was no further round; None if the rounds were cut short."""

        @property
        def status(self) -> DebateStatus:
            """How it ended."""

        @property
        def losses(self) -> Sequence[ProviderFailure]:
            """The provider failures that the pattern went on without."""

        @property
        def seed(self) -> int | None:
            """The seed of the run."""

    @property
    def subject(self) -> str:
        """The question, the topic, the proposition or the task."""
        return str(getattr(self, self.subject_field))

    @property
    def entries(self) -> list[Entry]:
        """All contributions, in the order of the transcript."""
        raise NotImplementedError

    def to_wire(self) -> dict[str, Any]:
        """This output as plain data with camelCase keys."""
        return self.model_dump(mode="json", by_alias=True)
