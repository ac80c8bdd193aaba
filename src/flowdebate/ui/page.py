"""Base class for pattern pages, which define everything that front ends need to know about a pattern."""

from __future__ import annotations

import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_origin

from pydantic import BaseModel, JsonValue, ValidationError

from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.ui.document import Document, speakers_of
from flowdebate.ui.files import problem_of
from flowdebate.ui.options import Depth, OutputOptions, PlanOptions, PlanValues

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.store.base import StoredRun
    from flowdebate.ui.live import Live
    from flowdebate.ui.models import Models
    from flowdebate.ui.plan import Plan


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartTool:
    """MCP tool that starts runs of one pattern, in addition to the generic `start_debate` tool."""

    name: str
    description: str
    texts: Mapping[str, FieldInfo] = dataclasses.field(default_factory=dict)
    """Pattern options that the tool accepts as strings, with descriptions and limits."""
    without: frozenset[str] = frozenset()
    """Arguments of other tools that this tool omits, because every argument costs tokens in each request
    from a host.
    """


class PatternPage(ABC):
    """Pattern page, through which front ends plan, build and present the pattern's runs.

    The pattern's registry entry refers to the page.
    """

    options: ClassVar[type[PlanOptions]]
    """Options class of the pattern; it determines plan file keys, flags, form fields, and HTTP and MCP arguments."""
    default_length: ClassVar[int]
    """Default maximum number of rounds (or turns)."""
    default_speakers: ClassVar[Sequence[Mapping[str, str]]] = ()
    """Default personas."""
    each_by_default: ClassVar[bool] = False
    """True if models from all configured vendors are used by default."""
    independent_roles: ClassVar[tuple[str, ...]] = ()
    """Roles to which `each_by_default` assigns models from different vendors, in vendor order; if empty, the models are
    assigned to the speakers.
    """
    min_speakers: ClassVar[int] = 2
    """Minimum number of speakers."""
    proposes: ClassVar[bool] = False
    """True if a model proposes the speakers whenever the subject does not name them; see `create_proposer`."""
    speaks_for: ClassVar[Literal["role", "stance"]] = "role"
    """Key for what a speaker stands for: "stance" for a debater, "role" for all others."""

    example: ClassVar[str] = "…"
    """Example subject, shown in messages that ask for a subject."""
    sample: ClassVar[PlanValues] = {}
    """Sample values for the form: a subject worth debating, and speakers to debate it."""
    examples: ClassVar[Sequence[str]] = ()
    """Example command lines for the help of the pattern's command, ready to copy and paste."""
    docs: ClassVar[str] = "cli"
    """Documentation page about the pattern."""

    question_about_sources: ClassVar[str | None] = None
    """Default subject if the user provides only sources."""
    divides_sources: ClassVar[bool] = False
    """True if sources too long for one prompt are split across several calls instead of being searched."""
    start_tool: ClassVar[StartTool | None] = None
    """MCP tool dedicated to this pattern; it requires sources if there is a `question_about_sources`."""
    reads_pull_requests: ClassVar[bool] = False
    """True if the command can review a pull request and post the result to it."""
    formats: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    """Additional document formats for use by other tools, keyed by name."""
    measured: ClassVar[bool] = False
    """True if the command has the flags --demo, to show a recorded run, and --benchmark, to count how many planted
    faults are found.
    """
    exit_note: ClassVar[str] = ""
    """Description of an exit code used only by this command."""
    depths: ClassVar[Mapping[Depth, PlanValues]] = {}
    """Options implied by each depth, except for the length set by `options_for`; the options for "auto" apply to all of
    its steps.
    """

    fixed_depth: ClassVar[tuple[str, ...]] = ()
    """Options that cannot be combined with depth "auto"."""

    document: ClassVar[type[Document]]
    """Document class for saved runs of the pattern; it builds their sections and describes stop reasons."""
    live: ClassVar[type[Live]]
    """Live view class; it builds the sections for events, and describes active roles and phases."""
    diagram: ClassVar[str] = (
        '<circle cx="20" cy="28" r="6"/><circle cx="44" cy="28" r="6"/><circle cx="68" cy="28" r="6"/>'
        '<path d="M26 28h12M50 28h12"/>'
    )
    """Diagram of how the speakers interact, as an 88 by 56 SVG with discs for speakers and squares for
    deciding roles.
    """

    @abstractmethod
    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        """Build the pattern."""

    def build_at_depth(self, plan: Plan) -> Sequencer[Any, Any]:
        """Build the pattern or, for depth "auto", an escalation of the pattern through all depths."""
        if plan.options.depth != "auto":
            return self.build(plan)
        from flowdebate.ui.depth import build_escalation

        return build_escalation(self, plan)

    def speakers(self, options: Any, models: Models) -> tuple[Any, ...]:  # noqa: ANN401 - the pattern's own options
        """Return the speakers set in the options, or the default speakers."""
        from flowdebate.chassis.roster import Persona

        return roster(options, models, kind=Persona, default=self.default_speakers, minimum=self.min_speakers)

    def speakers_in(self, subject: str) -> list[dict[str, str]] | None:  # noqa: ARG002 - of most patterns, nobody
        """Return the speakers named in the subject, as an option's value; None if a model has to propose them."""
        return []

    def create_proposer(self, instructions: str | None = None) -> Block[Any, Sequence[Any]]:
        """Create the block that proposes speakers for a subject, if `proposes` is set."""
        raise NotImplementedError

    def any_speakers(self, subject: str) -> Sequence[Any]:
        """Return speakers suitable for any subject, to check the options before a model proposes the real ones."""
        raise NotImplementedError

    def defaults(self, options: Any, speakers: Sequence[Any]) -> PlanValues:  # noqa: ANN401, ARG002 - of the patterns
        """Return the defaults that front ends add to every plan, so that users can see them."""
        return {}

    def fork_changes(self, run: StoredRun, options: PlanValues) -> PlanValues:  # noqa: ARG002 - for debates
        """Return the options changed by a fork of `run`, including any options derived from the run."""
        if "continuation" in options:
            raise ConfigurationError("fork", "continuation", None, "cannot be set: only a debate can be continued")
        return options

    def fitting(self, options: PlanOptions, speakers: Sequence[Any]) -> tuple[Any, ...]:  # noqa: ARG002 - for the patterns
        """Return the proposed `speakers`, or as many of them as the options allow."""
        return tuple(speakers)

    def settled(self, plan: Plan) -> PlanValues:  # noqa: ARG002 - the pattern's own plan
        """Return the options that are determined only when the run starts, to be stored in the run's plan."""
        return {}

    def check(self, plan: Plan) -> None:
        """Raise ConfigurationError if the options do not suit the pattern; called once, before the first model call."""
        with warnings.catch_warnings():
            # ignore warnings here, because they are issued again when the pattern is built for its run
            warnings.simplefilter("ignore")
            self.build_at_depth(plan)

    def check_models(self, plan: Plan) -> None:  # noqa: B027 - most patterns take any models
        """Raise ConfigurationError if the options do not permit the plan's models.

        Called before a new run's first call.
        """

    def length(self, options: PlanOptions) -> int:
        """Maximum number of rounds or turns."""
        length_given: int | None = getattr(options, options.LENGTH)
        if length_given is None and options.depth == "auto":
            return self._length_for("thorough")
        return self.default_length if length_given is None else length_given

    def turns(self, plan: Plan) -> int:
        """Estimate the number of turns in a run, assuming one turn per speaker in each round."""
        return len(plan.speakers) * plan.length

    def options_for(self, depth: Depth) -> dict[str, JsonValue]:
        """Return the options implied by a depth; empty for "auto", whose steps use the options of the other depths."""
        if depth == "auto":
            return {}
        length = {self.options.LENGTH: self._length_for(depth)} if self.options.LENGTH in self.options.names() else {}
        return {**length, **self.depths.get(depth, {})}

    def _length_for(self, depth: Depth) -> int:
        return max(1, int(self.default_length * {"quick": 0.5, "balanced": 1, "thorough": 1.5}[depth]))

    def document_of(self, plan: Plan, raw: object, output: object, facts: Mapping[str, Any]) -> Document:
        """Build the document for a run of `plan`; `raw` is the run's raw output, or None if the run never started."""
        options = plan.options
        if raw is None:
            state = {plan.info.subject: plan.subject, "status": "interrupted", "seed": facts["seed"]}
            raw = empty_output(plan.info.load_output(), state)
        raw_values: dict[str, Any] = {
            options.ROSTER: speakers_of(plan.speakers),
            options.LENGTH: self.length(options),
            "output": self.output_of(plan, output),
            "format": getattr(options, "format", None),
        }
        # For example, a council has no rounds, and only patterns with a synthesizer have an output.
        raw_values = {name: value for name, value in raw_values.items() if name in self.document.model_fields}
        return self.document(raw=raw, **raw_values, **facts)

    def output_of(self, plan: Plan, output: object) -> object:
        """Return the synthesizer's output, or None if there is no synthesizer."""
        return output if isinstance(plan.options, OutputOptions) and plan.options.synthesizes else None


def roster(
    options: PlanOptions, models: Models, *, kind: type[Any], default: Sequence[Mapping[str, Any]], minimum: int = 2
) -> tuple[Any, ...]:
    """Return the speakers as instances of `kind`; raise ConfigurationError for too few speakers or duplicate names."""
    from flowdebate.chassis.roster import check_roster

    key = options.ROSTER
    entries = getattr(options, key)
    members = (
        [dict(entry) for entry in default]
        if not entries
        else [entry.model_dump(exclude_unset=True) for entry in entries]
    )
    location, field = options.place(key)
    for index, member in enumerate(members):
        if "model" in member:
            member["model"] = models(member["model"], location, f"{field}[{index}].model")
    try:
        return check_roster(members, location=location, kind=kind, field=key, minimum=minimum)
    except ConfigurationError as error:
        if error.field == key:
            names = [member.get("name") for member in members]  # members' entries may contain models
            problem = "must be given at least twice" if len(members) < minimum else error.problem
            raise ConfigurationError(location, field, names, problem) from None
        raise


def document_of_plan(plan: Plan, raw: Any, output: object, /, **facts: Any) -> Document:  # noqa: ANN401 - of any run
    """Build the document for a run of `plan`; `raw` is the run's raw output, or None if the run never started.

    Raise BadFile if `raw` is invalid.
    """
    try:
        document: Document = plan.info.load_page().document_of(plan, raw, output, facts)
    except ValidationError as error:  # may happen for an imported run
        raise BadFile(f"run {facts.get('run_id')}", problem_of(error)) from None
    return document


def empty_output(kind: type[BaseModel], values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a raw output of any pattern
    """Build a raw output with empty fields, for a run that never started."""
    empty: dict[str, Any] = dict(values)
    for name, field in kind.model_fields.items():
        if field.is_required() and name not in empty:
            of = get_origin(field.annotation) or field.annotation
            empty[name] = {} if isinstance(of, type) and issubclass(of, BaseModel) else of() if of in _EMPTY else None
    return kind(**empty)


_EMPTY = (list, int, bool)
