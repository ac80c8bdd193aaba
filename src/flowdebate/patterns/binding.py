"""Binding: the name, the roster and the transcript of a role's block, filled in by the pattern that it is put into."""

from __future__ import annotations

from functools import update_wrapper
from inspect import Parameter, signature
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from flowdebate._util.validation import unknown_option
from flowdebate.blocks.base import Block
from flowdebate.blocks.handler import Handler
from flowdebate.blocks.outline import Outline
from flowdebate.blocks.router import Router
from flowdebate.blocks.sequencer import Sequencer
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.roles import BlockOptions, RoleOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.base import Model
    from flowdebate.patterns.roster import Debater, Persona
    from flowdebate.prompts.template import Template
    from flowdebate.runs.context import Context


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
        role = self._maker.role
        return ConfigurationError(
            self.name,
            ", ".join(self._missing),
            None,
            f"given, or filled in by the pattern: {self._maker.pattern}({role}={self.name})",
        )


class Bindable(Generic[P, BlockT]):
    """A `create_…` function of which a pattern fills in what it is called without."""

    def __init__(
        self, create: Callable[P, BlockT], needs: tuple[str, ...], pattern: str, role: str, template: type[Template]
    ) -> None:
        update_wrapper(self, create)
        self.create = create
        self.template = template
        """The kind of its templates."""
        self.name: str = create.__name__
        self.pattern = pattern
        self.role = role
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
