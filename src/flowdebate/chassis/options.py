"""Options shared by all patterns, and constraints on combining them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from flowdebate._util.option_types import Flag, check_option
from flowdebate.chassis.material import History, check_history
from flowdebate.errors import ConfigurationError, ConflictingOptions
from flowdebate.prompts import Length, Profile, Template, check_length, check_profile

if TYPE_CHECKING:
    from flowdebate.blocks.functions import BlockLike, Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.chassis.material import Material
    from flowdebate.chassis.roles import BlockOptions, RoleOptions
    from flowdebate.chassis.roster import Debater, MemberLike
    from flowdebate.chassis.state import TurnOrder
    from flowdebate.chassis.turn import FailurePolicy
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.resources.resource import StateResource
    from flowdebate.sources.source import Sources, SourcesLike
    from flowdebate.stop import StopWhen

RoleChoice: TypeAlias = "BlockLike | RoleOptions | bool | None"
"""Value of a role's option: a block or a function, options for the default block, True, False, or None."""
VisibilityLike: TypeAlias = "Visibility | Mapping[str, bool] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Options for a pattern's prompts: `debate(prompts=PromptOptions(profile="concise"))`.

    Raises ConfigurationError for options that are invalid or not supported by the pattern.
    """

    profile: Profile | None = None
    """Set of default prompts: "concise" for small models or "full" for others; None to choose one based on
    the model.
    """
    length: Length | None = None
    """Length of a turn: "short", "medium", "long", or a number of words. None means "short" for concise prompts and
    "medium" for full prompts.
    """
    template: Template | None = None
    """Template for the speakers' prompts, an instance of the pattern's template class; None to use the profile's
    template.
    """
    history: History = "all"
    """Rounds of the transcript shown in prompts: "all", or a window of recent rounds.

    `Window(rounds=2)` replaces older rounds with a summary, so a long discussion does not exceed a model's context. The
    summary costs one call per round.
    """
    hide_names: bool | None = None
    """True to replace the names of speakers and of their models with aliases in contributions. None means True in
    patterns that support this option (debate and council).
    """

    def __post_init__(self) -> None:
        location = type(self).__name__
        check_profile(location, self.profile)
        check_length(location, self.length)
        check_history(self.history, location=location)
        check_option(Flag, "hide_names", self.hide_names, location=location)


def check_prompts(
    prompts: PromptOptions | None, template: type[Template], *, accepted: Sequence[str], location: str
) -> PromptOptions:
    """Validate and return a pattern's prompt options; the speakers' template must be an instance of `template`.

    Raises ConfigurationError if the template is an instance of another class, or if `history` or `hide_names` is set
    but not listed in `accepted`.
    """
    if prompts is None:
        return PromptOptions()
    if not isinstance(prompts, PromptOptions):
        raise ConfigurationError(location, "prompts", prompts, "must be PromptOptions")
    if prompts.template is not None and not isinstance(prompts.template, template):
        raise ConfigurationError(location, "prompts.template", prompts.template, f"must be a {template.__name__}")
    for option, value, default in (("history", prompts.history, "all"), ("hide_names", prompts.hide_names, None)):
        if option not in accepted and value != default:
            raise ConfigurationError(location, f"prompts.{option}", None, "is not supported by this pattern")
    return prompts


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options shared by all patterns, as passed to a pattern function.

    Every pattern function passes an instance of this class, or of a subclass with additional options, to
    `check_options`.
    """

    name: str
    roster: Sequence[Debater | MemberLike]
    """Speakers: the pattern's `debaters`, `agents`, `members` or `reviewers`."""
    max_rounds: int
    roles: Mapping[str, RoleChoice] = field(default_factory=dict)
    """Values of the options for all roles except the speakers, keyed by role."""
    visibilities: Mapping[str, VisibilityLike] = field(default_factory=dict)
    """Visibility of the default blocks of each role; None to use the role's default."""
    turn_order: TurnOrder = "declared"
    terminate_when: StopWhen | None = None
    transcript: StateResource[Any] | None = None
    output_schema: object = None
    instructions: TextSlot | None = None
    model: ModelChoice = None
    tools: Sequence[ToolLike] | None = None
    uses: Sequence[Capability] | None = None
    context: MessagesSlot | None = None
    settings: ModelSettings | None = None
    prompts: PromptOptions | None = None
    sources: SourcesLike | Sources | Material | None = None
    collection_id: str | None = None
    failures: FailurePolicy | None = None

    @property
    def has_planned_rounds(self) -> bool:
        """True if another option, such as a debate's phases, already determines the number of rounds."""
        return False

    def for_blocks(self) -> BlockOptions:
        """Return the options for the default blocks of all roles, omitting unset options."""
        options: BlockOptions = {}
        if self.tools is not None:
            options["tools"] = self.tools
        if self.uses is not None:
            options["uses"] = self.uses
        if self.context is not None:
            options["context"] = self.context
        if self.instructions is not None:
            options["instructions"] = self.instructions
        if self.settings is not None:
            options["settings"] = self.settings
        if self.prompts is not None and self.prompts.profile is not None:
            options["profile"] = self.prompts.profile
        return options


OptionsT = TypeVar("OptionsT", bound=CommonOptions)
CheckedT_contra = TypeVar("CheckedT_contra", bound=CommonOptions, contravariant=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Constraint(Generic[CheckedT_contra]):
    """Rule about incompatible options; all front ends report a violation with the same wording."""

    name: str
    options: tuple[str, ...]
    """Names of the options; the error is reported for the first one."""
    sentence: str
    """Error message, with each option name in braces: "{mirror} cannot be combined with …"."""
    broken: Callable[[CheckedT_contra], bool]
    """Predicate that returns True if the options violate the rule."""

    def check(self, options: CheckedT_contra, *, location: str) -> None:
        """Raise ConflictingOptions if `options` violate the rule."""
        if self.broken(options):
            raise ConflictingOptions(location, self.options, self.sentence)


NEEDS_SYNTHESIZER: Constraint[CommonOptions] = Constraint(
    name="writer of the output",
    options=("output_schema", "synthesizer"),
    sentence="{output_schema} cannot be combined with {synthesizer} switched off: only a synthesizer writes an output",
    broken=lambda options: options.output_schema is not None and options.roles.get("synthesizer") is False,
)
"""Constraint for patterns whose output comes from a synthesizer."""


def quorum_of(roster: str) -> Constraint[CommonOptions]:
    """Return the quorum constraint for a pattern that takes its speakers as the option named `roster`."""

    def is_out_of_reach(options: CommonOptions) -> bool:
        return options.failures is not None and (options.failures.quorum or 0) > len(options.roster)

    return Constraint(
        name="quorum of all members",
        options=("quorum", roster),
        sentence=f"{{quorum}} cannot be more than the number of {{{roster}}}",
        broken=is_out_of_reach,
    )
