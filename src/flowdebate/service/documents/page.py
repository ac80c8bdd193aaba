"""Base of pattern pages: the options, speakers, live view, document and construction of one pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from pydantic import BaseModel

from flowdebate.errors import ConfigurationError
from flowdebate.service.documents.document import speakers_of
from flowdebate.service.plans.options import OutputOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.service.documents.document import Document
    from flowdebate.service.documents.live import Live
    from flowdebate.service.plans.models import Models
    from flowdebate.service.plans.options import PatternOptions
    from flowdebate.service.plans.plan import Plan


class PatternPage(ABC):
    """Page of a pattern, named by its registry entry."""

    default_speakers: ClassVar[Sequence[Mapping[str, str]]] = ()
    """Its personas, where none are given."""
    least: ClassVar[int] = 2
    """Minimum number of speakers."""
    proposes: ClassVar[bool] = False
    """Whether a model proposes the speakers where the subject does not say who they are."""
    options: ClassVar[type[PatternOptions]]
    document: ClassVar[type[Document]]
    live: ClassVar[type[Live]]
    default_length: ClassVar[int]
    """Maximum number of rounds (or turns) where none was given."""

    @abstractmethod
    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        """The pattern."""

    def speakers(self, options: Any, made: Models) -> tuple[Any, ...]:  # noqa: ANN401 - the pattern's own options
        """The speakers that were given, or the default ones."""
        from flowdebate.patterns.roster import Persona

        return roster(options, made, kind=Persona, default=self.default_speakers, least=self.least)

    def settled(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002 - the pattern's own plan
        """Options that were decided when the run began, for its stored plan."""
        return {}

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
            about = {plan.info.subject: plan.subject, "status": "interrupted", "seed": facts["seed"]}
            raw = empty_output(plan.info.load_output(), about)
        own: dict[str, Any] = {
            options.ROSTER: speakers_of(plan.speakers),
            f"max_{options.LENGTH}": self.length(options),
            "output": self.output_of(plan, output),
        }
        own = {name: value for name, value in own.items() if name in self.document.model_fields}
        return self.document(raw=raw, **own, **facts)

    def output_of(self, plan: Plan, output: object) -> object:
        """The synthesizer's output, if there is a synthesizer."""
        return output if isinstance(plan.options, OutputOptions) and plan.options.synthesizes else None


def empty_output(kind: type[BaseModel], given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a raw output of any pattern
    """The raw output of a run that never started: fields that are not `given` are empty."""
    empty: dict[str, Any] = dict(given)
    for name, field in kind.model_fields.items():
        if field.is_required() and name not in empty:
            of = get_origin(field.annotation) or field.annotation
            empty[name] = {} if isinstance(of, type) and issubclass(of, BaseModel) else of() if of in _EMPTY else None
    return kind(**empty)


_EMPTY = (list, int, bool)


def roster(
    options: PatternOptions, made: Models, *, kind: type[Any], default: Sequence[Mapping[str, Any]], least: int = 2
) -> tuple[Any, ...]:
    """The speakers, each a `kind`; ConfigurationError for too few of them, or two of one name."""
    from flowdebate.patterns.roster import check_roster

    key = options.ROSTER
    given = getattr(options, key)
    members = [dict(each) for each in default] if not given else [each.model_dump(exclude_unset=True) for each in given]
    where, field = options.place(key)
    for index, member in enumerate(members):
        if "model" in member:
            member["model"] = made(member["model"], where, f"{field}[{index}].model")
    try:
        return check_roster(members, where=where, kind=kind, field=key, least=least)
    except ConfigurationError as error:
        if error.field == key:
            names = [member["name"] for member in members]
            raise ConfigurationError(where, field, names, "given at least twice") from None
        raise
