"""Roster and options: who takes part, checked, and the blocks that a pattern fills in with what it knows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import update_wrapper
from inspect import Parameter, signature
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from flowdebate._util.text import clean_text, is_blank
from flowdebate._util.validation import check_count, check_seconds, unknown_option
from flowdebate.blocks.base import Block
from flowdebate.blocks.handler import Handler
from flowdebate.blocks.outline import Outline
from flowdebate.blocks.router import Router
from flowdebate.blocks.sequencer import Sequencer
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.resolve import check_model
from flowdebate.patterns.roles import BlockOptions, DebaterOptions, RoleOptions
from flowdebate.patterns.turn import FailurePolicy, StandIn
from flowdebate.prompts.escaping import as_seen
from flowdebate.prompts.template import check_length
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models.base import Model
    from flowdebate.prompts.template import Length, Template
    from flowdebate.runs.context import Context


@dataclass(frozen=True, slots=True)
class Debater:
    """One side of a debate.

    >>> Debater("advocate", "ship now").stance
    'ship now'
    """

    name: str
    """Stable identifier; the assignee of its tasks in the audit trail."""
    stance: str
    """The position that it argues."""
    role: str | None = None
    """A persona, in a few words; for the default block only."""
    block: Any = None
    """Replaces the default debater: a block, or a sync or async function of `(input, ctx)` or `(input)`. It returns
    `str`, `{"text": str}`, or a model with a `text`."""
    model: Model | str | None = None
    """Its own model; None for that of the debate. For the default block only."""
    options: RoleOptions | None = None
    """`DebaterOptions` of its own, over the debate's. For the default block only."""


@dataclass(frozen=True, slots=True)
class Persona:
    """Somebody who speaks for itself, without an assigned position: in a deliberation, a panel, and so on.

    >>> Persona("Bear", "cautious risk analyst", "You look for what can go wrong.").role
    'cautious risk analyst'
    """

    name: str
    """Stable identifier; the assignee of its tasks in the audit trail."""
    role: str | None = None
    """What it is, in a few words; others see it beside the name."""
    system_prompt: str | None = None
    """Who it is and what it cares for; its own model alone sees it. For the default block only."""
    block: Any = None
    """Replaces the default block: a block, or a sync or async function of `(input, ctx)` or `(input)`."""
    model: Model | str | None = None
    """Its own model; None for that of the pattern. For the default block only."""
    options: RoleOptions | None = None
    """`DebaterOptions` of its own, over the pattern's. For the default block only."""


MANY_MEMBERS = 10
"""More debaters, personas, agents or members than this are warned of."""

MemberT = TypeVar("MemberT", Debater, Persona)


def checked_roster(
    members: Sequence[MemberT | Mapping[str, Any]],
    *,
    where: str,
    kind: type[MemberT] = Debater,  # type: ignore[assignment]  # the default of a type variable
    field: str = "debaters",
    least: int = 2,
    most: int | None = MANY_MEMBERS,
) -> tuple[MemberT, ...]:
    """`members` as they were declared, each a `kind`; ConfigurationError that names the entry and the field."""
    if isinstance(members, (str, bytes, Mapping)) or not isinstance(members, Sequence):
        raise ConfigurationError(where, field, members, f"a list of {kind.__name__} or dicts")
    roster = tuple(_member(entry, kind, where, f"{field}[{index}]") for index, entry in enumerate(members))
    if len(roster) < least:
        count = {1: "one", 2: "two"}.get(least, str(least))
        raise ConfigurationError(where, field, list(members), f"at least {count} {field}")
    names = [member.name for member in roster]
    for index, same in _alike(names):
        unseen = "" if names[index] == names[same] else _NOT_UNSEEN
        raise ConfigurationError(
            where, f"{field}[{index}].name", names[index], f"different from that of {field}[{same}]{unseen}"
        )
    if most is not None and len(roster) > most:
        warnings.warn(
            f"{where}: {len(roster)} {field}: each prompt shows what all of them said, so tokens grow with the square "
            f"of their number; use at most {most}",
            FlowDebateWarning,
            stacklevel=4,  # the caller of the pattern's function
        )
    _check_stances([member.stance for member in roster if hasattr(member, "stance")], where, field)
    return roster


_NOT_UNSEEN = ", and not by case or unseen characters alone"


def _alike(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The indices of texts that read like an earlier one, each with that one's."""
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        same = first.setdefault(as_seen(text), index)
        if same != index:
            yield index, same


def _check_stances(stances: Sequence[str], where: str, field: str) -> None:
    """Debaters may share a stance, as a team; but there are two stances at least, and none that only looks the same."""
    for index, same in _alike(stances):
        if stances[index] != stances[same]:
            allowed = f"that of {field}[{same}], or different from it{_NOT_UNSEEN}"
            raise ConfigurationError(where, f"{field}[{index}].stance", stances[index], allowed)
    if len(stances) > 1 and len(set(stances)) == 1:
        allowed = f"different from that of {field}[0]: a debate needs two stances"
        raise ConfigurationError(where, f"{field}[1].stance", stances[1], allowed)


def _member(entry: object, kind: type[MemberT], where: str, place: str) -> MemberT:
    known = [field.name for field in fields(kind)]
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    if isinstance(entry, Mapping):
        if not set(needed) <= set(entry) <= set(known):
            optional = ", ".join(name for name in known if name not in needed)
            allowed = f"a dict with {', '.join(needed)}, and optionally {optional}"
            raise ConfigurationError(where, place, dict(entry), allowed)
        entry = kind(**entry)
    if not isinstance(entry, kind):
        raise ConfigurationError(where, place, entry, f"a {kind.__name__}, or a dict with {' and '.join(needed)}")
    for name in needed:
        value = getattr(entry, name)
        if not isinstance(value, str) or is_blank(value):
            raise ConfigurationError(where, f"{place}.{name}", value, "a string that is not blank")
        if clean_text(value) != value:
            raise ConfigurationError(where, f"{place}.{name}", value, "valid Unicode without NUL")
    for name in ("role", "system_prompt"):
        value = getattr(entry, name, None)
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(where, f"{place}.{name}", value, "a string or None")
    if entry.block is not None and not (isinstance(entry.block, Block) or callable(entry.block)):
        raise ConfigurationError(where, f"{place}.block", entry.block, "a block or a function of (input, ctx)")
    return entry


MANY_ROUNDS = 4
"""More rounds than this are warned of."""


def check_name(value: object, *, where: str, field: str) -> None:
    """A name is a string that is not blank."""
    if not isinstance(value, str) or is_blank(value):
        raise ConfigurationError(where, field, value, "a string that is not blank")


def check_rounds(value: object, *, where: str) -> None:
    """A number of rounds is an int of at least 1; a bool is not an int here."""
    check_count(where, max_rounds=value)


def check_synthesizer(where: str, synthesizer: object, output_schema: object) -> None:
    """A synthesizer may be left out; an output schema would then apply to nothing."""
    if not isinstance(synthesizer, bool):
        check_role(where, "synthesizer", synthesizer, "None, which is the default block, False, which leaves it out,")
    elif synthesizer is False and output_schema is not None:
        raise ConfigurationError(
            where, "output_schema", output_schema, "None with synthesizer=False: there is nothing to apply it to"
        )


def check_role(where: str, field: str, value: object, absent: str) -> None:
    """A role is taken by a block or a function; `absent` says what else it may be."""
    if value is not None and not isinstance(value, (Block, RoleOptions)) and not callable(value):
        raise ConfigurationError(where, field, value, f"{absent} a block, or a function of (input, ctx)")


def check_predicate(value: object, *, where: str) -> None:
    """`terminate_when` is a condition, or a function that can be called with the context alone and is no block."""
    if value is None:
        return
    from flowdebate.stop import is_predicate  # most patterns have none

    if not is_predicate(value):
        allowed = "a sync or async function of (ctx), a condition of flowdebate.stop, or None"
        raise ConfigurationError(where, "terminate_when", value, allowed)


def check_transcript(value: object, maker: Callable[[], StateResource[Any]], *, where: str) -> None:
    """A transcript comes from `maker`: those of other patterns have other entries."""
    kind = type(maker().initial())
    is_one = isinstance(value, StateResource) and value.key == "transcript" and isinstance(value.initial(), kind)
    if value is not None and not is_one:
        raise ConfigurationError(where, "transcript", value, f"what {maker.__name__}() makes, or None")


def speaker_options(
    where: str, defaults: RoleOptions, *, length: Length | None, template: Template | None, kind: type[Template]
) -> DebaterOptions:
    """The options of those who speak: `defaults`, which reach all roles, with `length` and `template`."""
    check_length(where, length)
    if not isinstance(template, (kind, NoneType)):
        raise ConfigurationError(where, "template", template, f"a {kind.__name__}, or None")
    given: Any = defaults.for_block()
    return DebaterOptions(**given, length=length, template=template)


def check_failure_policy(policy: Any, *, where: str) -> None:  # noqa: ANN401 - to be checked
    """ConfigurationError for what a failure policy cannot be."""
    if not isinstance(policy, FailurePolicy):
        raise ConfigurationError(where, "failures", policy, "FailurePolicy(…), or None")
    on_failure = policy.on_failure
    if isinstance(on_failure, StandIn):
        check_model(on_failure.model, where=where, field="on_failure")
    elif on_failure not in ("fail", "skip"):
        raise ConfigurationError(where, "on_failure", on_failure, "'fail', 'skip' or StandIn(model)")
    check_count(where, quorum=policy.quorum)
    given = {"turn_timeout": policy.turn_timeout, "round_timeout": policy.round_timeout}
    check_seconds(where, **{name: value for name, value in given.items() if value is not None})


def warn_of_rounds(where: str, max_rounds: int, *, who: str) -> None:
    """Warn of many rounds; called by the pattern's own function, whose caller is shown."""
    if max_rounds > MANY_ROUNDS:
        warnings.warn(
            f"{where}: max_rounds={max_rounds}: {who} tend to agree after {MANY_ROUNDS} rounds, and each turn sends "
            f"the whole transcript; use max_rounds <= {MANY_ROUNDS}",
            FlowDebateWarning,
            stacklevel=4,
        )


P = ParamSpec("P")
BlockT = TypeVar("BlockT", bound="Block[Any, Any]")


class UnboundRole(Block[Any, Any]):
    """A role's block that lacks what its pattern knows, such as the debaters' names; patterns make the block of it.

    Used anywhere else it is a ConfigurationError, which says what is missing.
    """

    def __init__(self, maker: Bindable[Any, Any], given: dict[str, Any], missing: tuple[str, ...]) -> None:
        self.name: str = f"{maker.name}()"
        self.place: str = maker.name
        self._maker = maker
        self._given = given
        self._missing = missing

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that it was given."""
        return self._given

    @property
    def maker(self) -> str:
        """The function that it comes from."""
        return self._maker.name

    @property
    def resources(self) -> Any:  # type: ignore[override]  # noqa: ANN401 - it is never given
        """Refused: whoever asks for them is about to use the block as it is."""
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
            f"given, or filled in by the pattern: {self._maker.pattern}({self._maker.option}={self.name})",
        )


class Bindable(Generic[P, BlockT]):
    """A `create_…` function of which a pattern fills in what it is called without."""

    def __init__(
        self, create: Callable[P, BlockT], needs: tuple[str, ...], pattern: str, role: str, template: type[Template]
    ) -> None:
        update_wrapper(self, create)
        self.template = template
        """The kind of its templates."""
        self.name: str = create.__name__
        self.pattern = pattern
        self.option = "block" if role == "debater" else role
        """The option of `pattern` that takes such a block."""
        self._create = create
        self._role = role
        self._needs = needs
        parameters = signature(create).parameters.values()
        own = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
        self._known = dict.fromkeys([*own, *BlockOptions.__annotations__])

    @overload
    def __call__(self, *args: P.args, **given: P.kwargs) -> BlockT: ...
    @overload
    def __call__(self, **given: Any) -> UnboundRole: ...  # noqa: ANN401 - checked when it is called
    def __call__(self, *args: Any, **given: Any) -> BlockT | UnboundRole:
        """The block, or where something of `needs` is missing, what a pattern makes it of."""
        missing = tuple(need for need in self._needs if isinstance(given.get(need), NoneType))
        for option in given:
            if option not in self._known:
                raise unknown_option(self.name, option, self._known)
        if args or not missing:
            return self.create(*args, **given)
        return UnboundRole(self, {key: value for key, value in given.items() if value is not None}, missing)

    def create(self, *args: P.args, **given: P.kwargs) -> BlockT:
        """The block, which knows its role."""
        block = self._create(*args, **given)
        block.role = self._role
        return block


def bindable(
    *needs: str, pattern: str, role: str, template: type[Template]
) -> Callable[[Callable[P, BlockT]], Bindable[P, BlockT]]:
    """Let the `role` of `pattern`, whose texts are a `template`, be made without `needs`."""
    return lambda create: Bindable(create, needs, pattern, role, template)


def own_options(value: object) -> dict[str, Any] | None:
    """The options of a role over the pattern's; None for a block or a function of the application's own."""
    if value is None or isinstance(value, bool):
        return {}
    if isinstance(value, RoleOptions):
        return dict(value.for_block())
    return value.given if isinstance(value, UnboundRole) else None


def is_own(value: object) -> bool:
    """Whether a role is taken by code of the application; models' and people's answers are recorded as such."""
    coded = (Handler, Router, Sequencer)
    return isinstance(value, coded) or (callable(value) and not isinstance(value, Block))


def role_block(
    value: object, makers: Sequence[Bindable[Any, BlockT]], *, where: str, field: str, defaults: dict[str, Any]
) -> BlockT | None:
    """The default block of a role, made of `defaults` and what `value` says; None for one of the application's own.

    `value` is None, a bool, options, or the unbound block of one of `makers`, of which the first makes the default.
    """
    own = own_options(value)
    if own is None:
        return None
    maker = makers[0]
    if isinstance(value, UnboundRole):
        named = {each.name: each for each in makers}
        if value.maker not in named:
            raise ConfigurationError(where, field, value, f"made by {' or '.join(named)}()")
        maker = named[value.maker]
    options = {**defaults, **own}
    template = options.get("template")
    if not isinstance(template, (maker.template, NoneType)):
        raise ConfigurationError(where, f"template of {field}", template, f"a {maker.template.__name__}")
    return maker.create(**options)


def member_options(member: Debater | Persona) -> dict[str, Any]:
    """The options of `member` that replace the pattern's."""
    own = {} if member.model is None else {"model": member.model}
    return own if member.options is None else {**own, **member.options.for_block()}


def debater_of(
    member: Debater | Persona,
    maker: Bindable[Any, BlockT],
    *,
    where: str,
    defaults: dict[str, Any],
    stand_in: Model | None = None,
) -> BlockT | None:
    """The default block of `member`, with its own options; None for a block of the application's own.

    With `stand_in`, the default block in any case, for that model.
    """
    defaults = {**defaults, **member_options(member)}
    if stand_in is None:
        return role_block(member.block, [maker], where=where, field=f"block of {member.name!r}", defaults=defaults)
    own = own_options(member.block) or {}
    return maker.create(**{**defaults, **own, "model": stand_in, "name": f"{defaults['name']}-stand-in"})


def with_answer_schema(
    block: Block[Any, Any], schema: Callable[[], object] | None = None, *, who: str | None = None
) -> Block[Any, Any]:
    """`block` in a role whose answers have `schema()`: a human without an output schema is asked for that one.

    `who` tells the human about the role. Blocks of other kinds are returned as they are.
    """
    fitted: Callable[[object, str | None], Block[Any, Any]] | None = getattr(block, "with_answer_schema", None)
    return block if fitted is None else fitted(None if schema is None else schema(), who)
