"""Base of pattern pages: all that front ends know about one pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from pydantic import BaseModel, ValidationError

from flowdebate.errors import BadFile
from flowdebate.service.documents.document import speakers_of
from flowdebate.service.plans.files import problem_of
from flowdebate.service.plans.options import OutputOptions
from flowdebate.service.plans.pattern import PatternPlans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.service.documents.document import Document
    from flowdebate.service.documents.live import Live
    from flowdebate.service.plans.plan import Plan


class PatternPage(PatternPlans):
    """Page of a pattern, named by its registry entry: how it is built, and how its runs are shown."""

    document: ClassVar[type[Document]]
    """Its saved runs: their sections, and the words for their stop reasons."""
    live: ClassVar[type[Live]]
    """Its runs as they go on: the sections of its events, and the words for roles and phases at work."""
    diagram: ClassVar[str] = (
        '<circle cx="20" cy="28" r="6"/><circle cx="44" cy="28" r="6"/><circle cx="68" cy="28" r="6"/>'
        '<path d="M26 28h12M50 28h12"/>'
    )
    """How those who speak stand to each other, as SVG of 88 by 56: discs speak, squares settle it."""

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


def document_of_plan(plan: Plan, raw: Any, output: object, /, **facts: Any) -> Document:  # noqa: ANN401 - of any run
    """The document of a run of `plan` that came to `raw` (None: it never started); BadFile where none fits."""
    try:
        document: Document = plan.info.load_page().document_of(plan, raw, output, facts)
    except ValidationError as error:  # of a stored run, imported perhaps
        raise BadFile(f"run {facts.get('run_id')}", problem_of(error)) from None
    return document


def empty_output(kind: type[BaseModel], given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a raw output of any pattern
    """The raw output of a run that never started: fields that are not `given` are empty."""
    empty: dict[str, Any] = dict(given)
    for name, field in kind.model_fields.items():
        if field.is_required() and name not in empty:
            of = get_origin(field.annotation) or field.annotation
            empty[name] = {} if isinstance(of, type) and issubclass(of, BaseModel) else of() if of in _EMPTY else None
    return kind(**empty)


_EMPTY = (list, int, bool)
