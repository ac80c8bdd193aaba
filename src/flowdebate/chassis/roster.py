"""Roster: the participants, the roles declared by a pattern, and the default blocks created for both.

A default block's options are merged from these layers, in increasing order of precedence: facts about the pattern
(name, roster, transcript), the pattern's options for all roles, the role's options, and the options for a single member
or role. Only `merge_options` implements this order.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from functools import update_wrapper
from inspect import Parameter, signature
from itertools import product
from types import NoneType
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeGuard, TypeVar, cast, overload

from flowdebate._text import clean_text
from flowdebate._util.option_types import Quorum, check_option
from flowdebate._util.validation import check_seconds, check_text, unknown_option
from flowdebate.blocks.base import Block, Outline
from flowdebate.blocks.functions import BlockLike, Handler
from flowdebate.blocks.generator import Visibility
from flowdebate.blocks.router import Router
from flowdebate.blocks.sequencer import Sequencer
from flowdebate.chassis.material import Material
from flowdebate.chassis.options import RoleChoice
from flowdebate.chassis.roles import SHOWN, BlockOptions, DebaterOptions, RoleOptions, SpeakerOptions
from flowdebate.chassis.state import Recovery
from flowdebate.chassis.turn import FailurePolicy, StandIn
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.base import Model
from flowdebate.models.resolve import ModelSpec, check_model, full_name
from flowdebate.prompts import Template, as_seen
from flowdebate.resources.resource import StateResource
from flowdebate.runs.context import Context


@dataclass(frozen=True, slots=True)
class Debater:
    """A side of a debate.

    >>> Debater("advocate", "ship now").stance
    'ship now'
    """

    name: str
    """Stable identifier of the debater, also recorded as the assignee of the debater's tasks in the audit trail."""
    stance: str
    """Position that the debater argues for."""
    role: str | None = None
    """The debater's persona in a few words; used only by the default block."""
    block: Any = None
    """Replacement for the default debater: a block, or a sync or async function of `(input, ctx)` or `(input)`. It
    returns `str`, `{"text": str}`, or a model with a `text` field.
    """
    model: Model | str | None = None
    """The debater's model; None to use the debate's model. Used only by the default block."""
    options: DebaterOptions | None = None
    """`DebaterOptions` for this debater, overriding the debate's options. Used only by the default block."""


@dataclass(frozen=True, slots=True)
class Persona:
    """Participant without an assigned position, for example in a deliberation or on a panel.

    >>> Persona("Bear", "cautious risk analyst", "You look for what can go wrong.").role
    'cautious risk analyst'
    """

    name: str
    """Stable identifier of the participant, also recorded as the assignee of the participant's tasks in the audit
    trail.
    """
    role: str | None = None
    """The participant's role in a few words, shown to the other participants next to the name."""
    system_prompt: str | None = None
    """Character and interests of the persona, shown only to its own model; used only by the default block."""
    block: Any = None
    """Replacement for the default block: a block, or a sync or async function of `(input, ctx)` or `(input)`."""
    model: Model | str | None = None
    """The participant's model; None to use the pattern's model. Used only by the default block."""
    options: DebaterOptions | None = None
    """`DebaterOptions` for this participant, overriding the pattern's options. Used only by the default block."""


MemberLike: TypeAlias = Persona | Mapping[str, Any] | Model | str
"""Member of a roster in a pattern without positions: a `Persona`, a dict of its fields, or a model, from which the
member takes its name.
"""

MEMBERS_VARIABLE = "FLOWDEBATE_MAX_MEMBERS"
"""Environment variable for the maximum number of members in a roster."""
_MAX_MEMBERS = 100
"""Default maximum number of members in a roster; the time needed to build a pattern grows quadratically with it."""
_MAX_LENGTHS = {"name": 200, "stance": 10_000, "role": 10_000}
"""Maximum length of each field, in characters. The lengths are limited because every prompt contains all names and
stances, and every argument is searched for names.
"""
MANY_MEMBERS = 10
"""Roster size above which a warning is issued."""

MemberT = TypeVar("MemberT", bound=Debater | Persona)


def max_members() -> int:
    """Return the maximum number of members allowed in a roster.

    Raises ConfigurationError if the environment variable has an invalid value.
    """
    text = os.environ.get(MEMBERS_VARIABLE, "").strip() or str(_MAX_MEMBERS)
    if not (text.isascii() and text.isdecimal() and int(text) > 1):
        raise ConfigurationError("environment", MEMBERS_VARIABLE, text, "must be a whole number of at least 2")
    return int(text)


def check_roster(
    members: Sequence[MemberT | MemberLike],
    *,
    location: str,
    kind: type[MemberT] = Debater,  # type: ignore[assignment]  # the default of a type variable
    field: str = "debaters",
    minimum: int = 2,
    maximum: int | None = MANY_MEMBERS,
    stacklevel: int = 4,
) -> tuple[MemberT, ...]:
    """Return `members` in declared order as instances of `kind`; raise ConfigurationError for an invalid entry.

    The warning about a large roster points to the code that called the pattern's function, `stacklevel` frames up.
    """
    if isinstance(members, (str, bytes, Mapping)) or not isinstance(members, Sequence):
        raise ConfigurationError(location, field, members, f"must be a list of {kind.__name__} objects or dicts")
    if len(members) > (maximum_members := max_members()):
        problem = f"must have at most {maximum_members} entries"
        hint = f"Set {MEMBERS_VARIABLE} to allow more"
        raise ConfigurationError(location, field, len(members), problem, hint=hint)
    entries = _name_after_models(members, location, field) if kind is Persona else members
    roster = tuple(_member(entry, kind, location, f"{field}[{index}]") for index, entry in enumerate(entries))
    for (index, member), (name, longest) in product(enumerate(roster), _MAX_LENGTHS.items()):
        if (characters := len(getattr(member, name, None) or "")) > longest:
            problem = f"must have at most {longest:,} characters"
            raise ConfigurationError(location, f"{field}[{index}].{name}", characters, problem)
    if len(roster) < minimum:
        problem = "must not be empty" if minimum == 1 else f"must have at least {minimum} entries"
        raise ConfigurationError(location, field, list(members), problem)
    names = [member.name for member in roster]
    for index, same in _find_lookalikes(names):
        unseen = "" if names[index] == names[same] else _NOT_UNSEEN
        raise ConfigurationError(
            location, f"{field}[{index}].name", names[index], f"must differ from the name of {field}[{same}]{unseen}"
        )
    if maximum is not None and len(roster) > maximum:
        warnings.warn(
            f"{location}: {len(roster)} {field} use many tokens: each prompt contains every contribution, so token "
            f"use grows quadratically with their number; use at most {maximum}",
            FlowDebateWarning,
            stacklevel=stacklevel,
        )
    _check_stances([member.stance for member in roster if hasattr(member, "stance")], location, field)
    return roster


def listed_models(roster: Sequence[object]) -> list[ModelSpec]:
    """Return the roster if it is a list of models; otherwise, return an empty list."""
    listed: list[ModelSpec] = [entry for entry in roster if isinstance(entry, (str, Model))]
    return listed if len(listed) == len(roster) else []


def _name_after_models(members: Sequence[object], location: str, field: str) -> Iterator[object]:
    """Yield `members`, naming each unnamed one after its model.

    A second member with the same model gets the suffix "(2)".
    """
    count: dict[str, int] = {}
    for index, value in enumerate(members):
        member = full_name(value, location, f"{field}[{index}]") if isinstance(value, str) else value
        if isinstance(member, (str, Model)):
            check_model(member, location=location, field=f"{field}[{index}]")
        entry = {"model": member} if isinstance(member, (str, Model)) else member
        model = entry.get("model") if isinstance(entry, Mapping) and entry.get("name") is None else None
        if isinstance(entry, Mapping) and isinstance(model, (str, Model)):
            name = model if isinstance(model, str) else model.name
            count[name] = count.get(name, 0) + 1
            yield {**entry, "name": name if count[name] == 1 else f"{name} ({count[name]})"}
        else:
            yield entry


_NOT_UNSEEN = " by more than case or invisible characters"


def _find_lookalikes(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the index of each string that looks like an earlier one, paired with the earlier string's index."""
    # neither models nor readers can tell such strings apart, even if `==` can
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        same = first.setdefault(as_seen(text), index)
        if same != index:
            yield index, same


def _check_stances(stances: Sequence[str], location: str, field: str) -> None:
    """Check the stances; a stance may be shared by debaters on the same team.

    At least two stances are required, and no two different stances may look alike.
    """
    for index, same in _find_lookalikes(stances):
        if stances[index] != stances[same]:
            problem = f"must either equal the stance of {field}[{same}] or differ from it{_NOT_UNSEEN}"
            raise ConfigurationError(location, f"{field}[{index}].stance", stances[index], problem)
    if len(stances) > 1 and len(set(stances)) == 1:
        problem = f"must differ from the stance of {field}[0]: a debate needs two stances"
        raise ConfigurationError(location, f"{field}[1].stance", stances[1], problem)


def _member(entry: object, kind: type[MemberT], location: str, place: str) -> MemberT:
    field_names = [field.name for field in fields(kind)]
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    if isinstance(entry, Mapping):
        if not set(needed) <= set(entry) <= set(field_names):
            optional = ", ".join(name for name in field_names if name not in needed)
            problem = f"must be a dict with the keys {', '.join(needed)}, and optionally {optional}"
            raise ConfigurationError(location, place, dict(entry), problem)
        entry = kind(**entry)
    if not isinstance(entry, kind):
        raise ConfigurationError(
            location, place, entry, f"must be a {kind.__name__}, or a dict with the keys {' and '.join(needed)}"
        )
    if isinstance(entry.name, Enum):  # prompts would contain an enum member's str(), which differs from its value
        entry = replace(entry, name=entry.name.value)
    for name in needed:
        value = getattr(entry, name)
        check_name(value, location=location, field=f"{place}.{name}")
        if clean_text(value) != value:
            raise ConfigurationError(location, f"{place}.{name}", value, "must be valid Unicode without NUL characters")
    for name in ("role", "system_prompt"):
        value = getattr(entry, name, None)
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(location, f"{place}.{name}", value, "must be text")
    if entry.block is not None and not (isinstance(entry.block, Block) or callable(entry.block)):
        raise ConfigurationError(
            location, f"{place}.block", entry.block, "must be a block or a function of (input, ctx)"
        )
    return entry


# Checks of options common to all patterns, made before anything is built


def check_name(value: object, *, location: str, field: str) -> None:
    """Check that a name is a non-blank string."""
    check_text(location, {field: value})


def check_predicate(value: object, *, location: str) -> None:
    """Check that `terminate_when` is a condition or a function of the context, and not a block."""
    if value is None:
        return
    from flowdebate.stop import is_predicate  # imported lazily: most patterns have no `terminate_when`

    if not is_predicate(value):
        problem = "must be a function of (ctx) or a condition from flowdebate.stop"
        raise ConfigurationError(location, "terminate_when", value, problem)


def check_transcript(value: object, maker: Callable[[], StateResource[Any]], *, location: str) -> None:
    """Check that a transcript was created by `maker`; each pattern has its own type of transcript entry."""
    if value is None:
        return
    kind = type(maker().initial())
    if not (isinstance(value, StateResource) and value.key == "transcript" and isinstance(value.initial(), kind)):
        raise ConfigurationError(location, "transcript", value, f"must be created by {maker.__name__}()")


def check_failure_policy(policy: object, *, location: str) -> None:
    """Raise ConfigurationError for an invalid failure policy."""
    if not isinstance(policy, FailurePolicy):
        raise ConfigurationError(location, "failures", policy, "must be a FailurePolicy")
    on_failure = policy.on_failure
    if isinstance(on_failure, StandIn):
        check_model(on_failure.model, location=location, field="on_failure")
    elif on_failure not in ("fail", "skip", None):
        raise ConfigurationError(location, "on_failure", on_failure, 'must be "fail", "skip" or StandIn(model)')
    check_option(Quorum, "quorum", policy.quorum, location=location)
    timeouts = {"turn_timeout": policy.turn_timeout, "round_timeout": policy.round_timeout}
    check_seconds(location, timeouts, optional=True)


# Blocks completed by a pattern


P = ParamSpec("P")
BlockT = TypeVar("BlockT", bound="Block[Any, Any]")


class UnboundRole(Block[Any, Any]):
    """Incomplete block for a role; it lacks facts about the role's pattern, such as the debaters' names.

    The pattern replaces it with a complete block. Any other use raises a ConfigurationError listing the missing facts.
    """

    def __init__(self, maker: Bindable[..., Any], options: Mapping[str, object], missing: tuple[str, ...]) -> None:
        self.name: str = f"{maker.name}()"
        self.place: str = maker.name
        self.maker = maker
        self.options = options
        self._missing = missing

    @property
    def resources(self) -> Any:  # type: ignore[override]  # noqa: ANN401 - it is never given
        """Raise ConfigurationError, because the block is incomplete."""
        raise self._refusal()

    hidden = resources

    async def act(self, _: object, __: Context, /) -> Any:  # noqa: ANN401 - it never acts
        raise self._refusal()

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="generator")

    def _refusal(self) -> ConfigurationError:
        return ConfigurationError(
            self.name,
            ", ".join(self._missing),
            None,
            f"must be set, unless the pattern fills it in: {self.maker.pattern}({self.maker.option}={self.name})",
        )


class Bindable(Generic[P, BlockT]):
    """A `create_…` function whose missing arguments are filled in by the pattern."""

    def __init__(
        self, create: Callable[P, BlockT], needs: tuple[str, ...], pattern: str, role: str, template: type[Template]
    ) -> None:
        update_wrapper(self, create)
        self.template = template
        self.name: str = create.__name__
        self.pattern = pattern
        self.option: str = "block" if role == "debater" else role
        """Option of `pattern` that accepts such a block."""
        self._create = create
        self._role = role
        self._needs = needs
        parameters = signature(create).parameters.values()
        option_names = [parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
        self._known = dict.fromkeys([*option_names, *BlockOptions.__annotations__])

    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> BlockT: ...
    @overload
    def __call__(self, **options: Any) -> UnboundRole: ...  # noqa: ANN401 - checked when it is called
    def __call__(self, *args: Any, **options: Any) -> BlockT | UnboundRole:
        """Create the block or, if any of the `needs` is missing, an `UnboundRole` for a pattern to complete."""
        missing = tuple(need for need in self._needs if isinstance(options.get(need), NoneType))
        for option in options:  # check now, because a pattern may create the block later, far from the faulty call
            if option not in self._known:
                raise unknown_option(self.name, option, self._known)
        if args or not missing:
            return self.create(*args, **options)
        return UnboundRole(self, {key: value for key, value in options.items() if value is not None}, missing)

    def create(self, *args: P.args, **options: P.kwargs) -> BlockT:
        """Create the block and set its role."""
        block = self._create(*args, **options)
        block.role = self._role
        return block


def bindable(
    *needs: str, pattern: str, role: str, template: type[Template]
) -> Callable[[Callable[P, BlockT]], Bindable[P, BlockT]]:
    """Return a decorator for functions that build the block for `role` in `pattern`.

    Callers may omit the arguments named in `needs`.
    """
    return lambda create: Bindable(create, needs, pattern, role, template)


def role_options(value: object) -> Mapping[str, object] | None:
    """Return a role's own options, which override the pattern's, or None for a custom block or function."""
    if value is None or isinstance(value, bool):
        return {}  # use the default block with the pattern's options
    if isinstance(value, RoleOptions):
        return value.for_block()
    return value.options if isinstance(value, UnboundRole) else None


def is_custom(value: RoleChoice) -> TypeGuard[BlockLike]:
    """Return whether a role is filled by a custom block or function instead of a default block."""
    return role_options(value) is None


def is_custom_code(value: object) -> bool:
    """Return whether a role is filled by application code, rather than by a model or a person."""
    coded = (Handler, Router, Sequencer)
    return isinstance(value, coded) or (callable(value) and not isinstance(value, Block))


def merge_options(*layers: Mapping[str, object] | RoleOptions | None) -> dict[str, object]:
    """Merge layers of options for a default block; None in a later layer keeps the earlier layer's value.

    >>> merge_options({"model": "a", "tools": ()}, RoleOptions(model="b"), {"model": None})
    {'model': 'b', 'tools': ()}
    """
    merged: dict[str, object] = {}
    for layer in layers:
        options: Mapping[str, object] = layer.for_block() if isinstance(layer, RoleOptions) else layer or {}
        for option, value in options.items():
            if value is not None:
                merged[option] = value  # noqa: PERF403 - a comprehension costs a call for each layer
    return merged


def speaker_options(*layers: BlockOptions | SpeakerOptions | RoleOptions | None) -> SpeakerOptions:
    """Merge layers of a speaker's options as `merge_options` does; the result contains no facts about the pattern."""
    return cast("SpeakerOptions", merge_options(*layers))  # the merged options have the same keys as the layers


def make_default(
    value: object, makers: Sequence[Bindable[..., BlockT]], options: Mapping[str, object], *, location: str, field: str
) -> BlockT:
    """Create the default block from `options` and from the options in `value`.

    `value` is None, a bool, options, or an unbound block created by one of `makers`. For any value other than an
    unbound block, the first maker is used.
    """
    maker = makers[0]
    if isinstance(value, UnboundRole):
        if value.maker not in makers:
            raise ConfigurationError(
                location, field, value, f"must be created by {' or '.join(f'{role.name}()' for role in makers)}"
            )
        maker = value.maker
    merged = merge_options(options, role_options(value))
    template = merged.get("template")
    # otherwise, a template for another role would pass this check, and its missing parts would cause an error only
    # during the run
    if not isinstance(template, (maker.template, NoneType)):
        raise ConfigurationError(location, f"template of {field}", template, f"must be a {maker.template.__name__}")
    return maker.create(**merged)


_ABSENT = {
    "never": "None (the default),",
    "if False": "None (the default), False (none),",
    "by default": "True (the default), None or False (none),",
}
"""Values accepted for a role in addition to a custom block or function, keyed by `Role.absent`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Role:
    """A role as declared by its pattern: the default blocks, their visibility, and how failures are handled."""

    name: str
    """Name of the pattern's option for the role. The role's block is named `{pattern}-{name}`."""
    create: Sequence[Bindable[..., Any]]
    """Functions that create default blocks; the first one is used if the option is None."""
    instead: Recovery = "skipped"
    """Action to take if the role's provider fails and the failure policy lets the run continue."""
    absent: Literal["never", "if False", "by default"] = "never"
    """Circumstances in which the pattern is built without this role."""
    visibility: Visibility = SHOWN
    """Visibility of the role's default blocks; overridden by the option `{name}_visibility`, if the pattern has one."""
    block: str | None = None
    """Suffix of the block's name; None to use the role's name."""
    acts_as: str | None = None
    """Role assigned to the block in events and failures; None to use the role's name."""

    @property
    def closes(self) -> bool:
        """True if the role acts only after the last contribution.

        Its failure then does not affect the contributions, and the role is called again when the run is resumed.
        """
        return self.instead in ("no_verdict", "no_output")

    def check(self, value: object, *, location: str) -> None:
        """Return a ConfigurationError if the value cannot fill the role; otherwise None."""
        if isinstance(value, bool) and self.absent != "never":
            return
        if value is not None and not isinstance(value, (Block, RoleOptions)) and not callable(value):
            problem = f"must be {_ABSENT[self.absent]} a block, or a function of (input, ctx)"
            raise ConfigurationError(location, self.name, value, problem)

    def is_filled(self, value: object) -> bool:
        """Return whether a pattern includes the role if the role's option is set to `value`."""
        return value is not False and (value is not None or self.absent != "by default")


def with_answer_schema(
    block: Block[Any, Any],
    schema: Callable[[], object] | None = None,
    *,
    who: str | None = None,
    material: Material | None = None,
) -> Block[Any, Any]:
    """Give a human `block` the answer schema of its role, unless it has an output schema of its own.

    `schema()` returns the answer schema. `who` describes the role to the human, who also sees the `material`. Blocks
    other than human blocks are returned unchanged.
    """
    fitted: Callable[..., Block[Any, Any]] | None = getattr(block, "with_answer_schema", None)
    if fitted is None:
        return block
    return fitted(None if schema is None else schema(), who, None if material is None else material.of_run)
