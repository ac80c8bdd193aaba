"""Options shared by all patterns, with the rules about incompatible options."""

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
"""Choice for a role: a block or a function, options of the default block, True or False, or None."""
VisibilityLike: TypeAlias = "Visibility | Mapping[str, bool] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Options of a pattern's prompts: `debate(prompts=PromptOptions(profile="concise"))`.

    Raise ConfigurationError for invalid options, and for options that a pattern does not use.
    """

    profile: Profile | None = None
    """Default prompts for small models ("concise") or for others ("full"); None: as each model asks for."""
    length: Length | None = None
    """Length of a turn: "short", "medium", "long", or a number of words; None: short with concise prompts, medium with
    full ones."""
    template: Template | None = None
    """Texts of the speakers' prompts, in place of the profile's: a template of the pattern's own kind."""
    history: History = "all"
    """Rounds of the transcript in prompts:

    "all", or `Window(rounds=2)` with a summary of older rounds, so that a long discussion does not exceed the context
    of a model. The summary takes a call in each round.
    """
    hide_names: bool | None = None
    """Use of aliases for the names of speakers and of their models inside their contributions. None: True in a debate
    and in a council, the patterns with this option."""

    def __post_init__(self) -> None:
        location = type(self).__name__
        check_profile(location, self.profile)
        check_length(location, self.length)
        check_history(self.history, location=location)
        check_option(Flag, "hide_names", self.hide_names, location=location)


def check_prompts(
    prompts: PromptOptions | None, template: type[Template], *, accepted: Sequence[str], location: str
) -> PromptOptions:
    """Return the prompt options of a pattern with a `template` for its speakers' prompts.

    ConfigurationError for another kind of template, and for `history` and `hide_names` unless they are `accepted`.
    """
    if prompts is None:
        return PromptOptions()
    if not isinstance(prompts, PromptOptions):
        raise ConfigurationError(location, "prompts", prompts, "PromptOptions(…), or None")
    if prompts.template is not None and not isinstance(prompts.template, template):
        raise ConfigurationError(location, "prompts.template", prompts.template, f"a {template.__name__}, or None")
    for option, value, default in (("history", prompts.history, "all"), ("hide_names", prompts.hide_names, None)):
        if option not in accepted and value != default:
            raise ConfigurationError(location, f"prompts.{option}", value, "left out: this pattern has no use for it")
    return prompts


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options shared by all patterns, in the form passed to a pattern's function.

    The function of a pattern makes one of these, or of a subclass with its own options; `check_options` checks it.
    """

    name: str
    roster: Sequence[Debater | MemberLike]
    """Speakers: the pattern's `debaters`, `agents`, `members` or `reviewers`."""
    max_rounds: int
    roles: Mapping[str, RoleChoice] = field(default_factory=dict)
    """Choices for the roles besides the speakers, by role."""
    visibilities: Mapping[str, VisibilityLike] = field(default_factory=dict)
    """Visibility of a role's default blocks, by role; None for the role's default."""
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
        """True if the number of rounds follows from other options, as from the phases of a debate."""
        return False

    def for_blocks(self) -> BlockOptions:
        """Return the options for the default blocks of all roles, without omitted options."""
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
    """Rule about incompatible options; every front end reports it in the same sentence."""

    name: str
    options: tuple[str, ...]
    """Names of the options; the first one is the field of the error."""
    sentence: str
    """Message, with each option in braces: "{mirror} cannot be combined with …"."""
    broken: Callable[[CheckedT_contra], bool]
    """Predicate to detect options that break the rule."""

    def check(self, options: CheckedT_contra, *, location: str) -> None:
        """Raise ConflictingOptions if `options` break the rule."""
        if self.broken(options):
            raise ConflictingOptions(location, self.options, self.sentence)


NEEDS_SYNTHESIZER: Constraint[CommonOptions] = Constraint(
    name="writer of the output",
    options=("output_schema", "synthesizer"),
    sentence="{output_schema} cannot be combined with {synthesizer} switched off: only a synthesizer writes an output",
    broken=lambda options: options.output_schema is not None and options.roles.get("synthesizer") is False,
)
"""Constraint of the patterns with a synthesizer's output."""


def quorum_of(roster: str) -> Constraint[CommonOptions]:
    """Return the constraint of a pattern with a quorum and the speakers in its option `roster`."""

    def is_out_of_reach(options: CommonOptions) -> bool:
        return options.failures is not None and (options.failures.quorum or 0) > len(options.roster)

    return Constraint(
        name="quorum of all members",
        options=("quorum", roster),
        sentence=f"{{quorum}} cannot be more than the number of {{{roster}}}",
        broken=is_out_of_reach,
    )
