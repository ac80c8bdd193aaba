"""Base class of pattern pages: options, live view, document and construction of one pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from flowdebate.patterns import PATTERNS
from flowdebate.service.documents import speakers_of
from flowdebate.service.options import OutputOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.service.documents import Document
    from flowdebate.service.live import Live
    from flowdebate.service.options import PatternOptions
    from flowdebate.service.plan import Models, Plan

__all__ = ("PatternPage",)


class PatternPage(ABC):
    """Page of a pattern, named by its registry entry."""

    help: ClassVar[str]
    """Help of its command."""
    options: ClassVar[type[PatternOptions]]
    document: ClassVar[type[Document]]
    live: ClassVar[type[Live]]
    default_length: ClassVar[int]
    """Maximum number of rounds (or turns) where none was given."""

    @abstractmethod
    def speakers(self, options: Any, made: Models) -> tuple[Any, ...]:  # noqa: ANN401 - the pattern's own options
        """The speakers that were given, or the default ones."""

    @abstractmethod
    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        """The pattern."""

    @abstractmethod
    def empty(self) -> dict[str, Any]:
        """Required fields of the raw output of a run that never started, without its subject."""

    def with_files(self, options: Any) -> Any:  # noqa: ANN401 - the pattern's own options
        """The options with the contents of the files that they name."""
        return options

    def check(self, plan: Plan) -> None:  # noqa: B027 - most patterns check everything themselves
        """ConfigurationError for invalid combinations; called once, before any model call."""

    def length(self, options: PatternOptions) -> int:
        """Maximum number of rounds or turns."""
        given: int | None = getattr(options, options.LENGTH)
        return self.default_length if given is None else given

    def document_of(self, plan: Plan, raw: Any, output: object, facts: Mapping[str, Any]) -> Document:  # noqa: ANN401 - of any pattern
        """The document of a run of `plan` with the raw output `raw`; None if the run never started."""
        options = plan.options
        if raw is None:
            about = {plan.info.subject: plan.subject, options.LENGTH: 0, "status": "interrupted", "seed": facts["seed"]}
            raw = PATTERNS[plan.info.name].load_output()(**{**about, **self.empty()})
        own: dict[str, Any] = {
            options.ROSTER: speakers_of(plan.speakers),
            f"max_{options.LENGTH}": self.length(options),
        }
        if isinstance(options, OutputOptions):
            own["output"] = output if options.synthesizes else None
        return self.document(raw=raw, **own, **facts)
