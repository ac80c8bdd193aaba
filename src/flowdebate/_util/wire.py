"""Frozen lists and dicts, and base classes for models and events serialized with camelCase keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from flowdebate._util.json_data import SPARSE as SPARSE
from flowdebate._util.json_data import json_data, sparse_defaults, wire_names
from flowdebate.errors import ReadOnly


def one_of(values: Sequence[str]) -> Any:  # noqa: ANN401 - a type
    """Return a literal type for `values` that preserves their order in schemas.

    `typing` considers literals equal regardless of order. If `Literal["a", "b"] | None` was created first,
    `Literal["b", "a"] | None` evaluates to that earlier type. Schemas sent to models would then depend on what the
    process had run before. The returned type prevents this.
    """
    choices = tuple(values)
    return Annotated[Literal[choices], choices]


class WireModel(BaseModel):
    """Frozen model that accepts both key styles, rejects unknown keys, and serializes to camelCase with `by_alias`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        defer_build=True,  # validators are built on first use, so that importing stays fast
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the model with some fields changed; equivalent to pydantic's method, but three times as fast."""
        if deep or self.__pydantic_private__ is not None or self.__pydantic_extra__ is not None:
            return super().model_copy(update=update, deep=deep)
        copy = object.__new__(type(self))
        _set(copy, "__dict__", {**self.__dict__, **(update or {})})
        fields_set = self.__pydantic_fields_set__
        _set(
            copy,
            "__pydantic_fields_set__",
            fields_set if fields_set.issuperset(update or ()) else fields_set.union(update or ()),
        )
        _set(copy, "__pydantic_extra__", None)
        _set(copy, "__pydantic_private__", None)
        return copy

    def to_wire(self) -> dict[str, Any]:
        """Return this value as plain data with camelCase keys."""
        return self.model_dump(mode="json", by_alias=True)


_set = object.__setattr__  # frozen models reject ordinary assignment


def share_fields_set(model: WireModel) -> None:
    """Replace the model's set of explicitly set fields with an equal, shared one, saving 0.7 KB per model."""
    # safe to share: a frozen model's set never grows, and pydantic copies it before modifying a copied model
    if model.model_config.get("frozen"):
        _set(model, "__pydantic_fields_set__", _fields_set(frozenset(model.__pydantic_fields_set__)))


@lru_cache(maxsize=1024)
def _fields_set(names: frozenset[str]) -> set[str]:
    return set(names)


def new_list() -> list[Any]:
    """Return a new list; for use as a `default_factory`, because pydantic takes milliseconds to inspect `list`."""
    return []


def new_dict() -> dict[str, Any]:
    """Return a new dict for use as a field's default; see `new_list`."""
    return {}


def as_list(value: object) -> object:
    """Return `value`, converting a tuple to a list; iterators are not converted, because they may be endless."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(slots=True, kw_only=True)
class BaseEvent:
    """An event in a run. Emitting it sets `at` and, unless it is already set, `path`."""

    kind: ClassVar[str]
    """Event kind, for consumers that do not know the class."""
    repeats_speech: ClassVar[bool] = False
    """True if the event merely repeats text already known to consumers of the run, so chats can omit it."""
    output_item: ClassVar[tuple[str, str] | None] = None
    """Names of an event field and of the raw output field that holds the same value or a list of such values; None if
    the output has no such field.
    """
    path: str = field(default="", compare=False, repr=False)
    """Path of the emitting block; for events of the run itself, the path of the outermost block."""
    at: float = field(default=0.0, compare=False, repr=False)
    """Seconds since the epoch, according to the run's clock. A stored run's clock does not advance between
    two steps.
    """

    def to_wire(self) -> dict[str, Any]:
        """Convert the event to JSON data: its `kind`, followed by its fields with camelCase keys."""
        kind: Any = type(self)
        defaults = sparse_defaults(kind)
        wire: dict[str, Any] = {"kind": self.kind}
        for name, key in wire_names(kind):
            value = getattr(self, name)
            if name not in defaults or value != defaults[name]:
                wire[key] = json_data(value)
        return wire


@dataclass(slots=True, kw_only=True)
class BlockEvent(BaseEvent):
    """An event emitted by a block. Emitting it also sets the block's `role`."""

    role: str | None = field(default=None, compare=False, repr=False, metadata=SPARSE)
    """Role of the block in its pattern, such as "judge"; None (and omitted from JSON) if the block has no role."""


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = "list" if isinstance(self, list) else "dict"
    raise ReadOnly(f"a {kind} in a pattern's history", f"change a copy instead: {kind}(…)")


class FrozenList(list[Any]):
    """List that raises `ReadOnly` on any attempt to change it; equal to any list with the same elements."""

    __slots__ = ()

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the list as a single value; by default, the elements would be appended one by one."""
        return type(self), (list(self),)


class FrozenDict(dict[str, Any]):
    """Dict that raises `ReadOnly` on any attempt to change it; equal to any dict with the same items."""

    __slots__ = ()

    update = pop = popitem = setdefault = clear = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the dict as a single value."""
        return type(self), (dict(self),)


def freeze(value: Any) -> Any:  # noqa: ANN401 - of the same type
    """Return `value` with all its lists and dicts frozen, including those in models; parts already frozen are reused.

    >>> freeze([1, {"a": [2]}])
    [1, {'a': [2]}]
    """
    if type(value) in _UNCHANGING:
        return value
    if isinstance(value, list):
        return FrozenList([part if type(part) in _UNCHANGING else freeze(part) for part in value])
    if isinstance(value, dict):
        return FrozenDict({key: freeze(part) for key, part in value.items()})
    if isinstance(value, BaseModel):
        if isinstance(value, WireModel):
            share_fields_set(value)
        fields = vars(value)
        parts = [(name, old) for name, old in fields.items() if type(old) not in _UNCHANGING]
        changes = {name: new for name, old in parts if (new := freeze(old)) is not old}
        return value.model_copy(update=changes) if changes else value
    return value


def extend_frozen(items: Sequence[Any], *further: object) -> FrozenList:
    """Build a frozen list from `items` followed by `further`; `items` is not traversed again if it is already frozen.

    >>> extend_frozen(extend_frozen([], [1]), [2])
    [[1], [2]]
    """
    before = items if isinstance(items, FrozenList) else freeze(items)
    return FrozenList([*before, *map(freeze, further)])


# Types whose values need no freezing. Nearly all fields have one of these types.
_UNCHANGING = frozenset((FrozenList, FrozenDict, str, int, float, bool, type(None)))
