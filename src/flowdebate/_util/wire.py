"""Wire forms (snake_case in Python, camelCase on the wire): bases of models and events, and frozen values."""

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
    """The type of one of `values`, which schemas list in this order.

    `typing` takes literals for equal in any order, so `Literal["b", "a"] | None` is `Literal["a", "b"] | None` where
    somebody made that before: what models are shown would depend on earlier runs of the process. The order is part of
    this type.
    """
    choices = tuple(values)
    return Annotated[Literal[choices], choices]


class WireModel(BaseModel):
    """A frozen value that reads both key styles, refuses unknown keys, and writes camelCase `by_alias`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        defer_build=True,  # validators are built at first use, so that the import is fast
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values in some fields: pydantic's own, in a third of its time for the usual model."""
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


_set = object.__setattr__  # frozen models refuse their own


def share_fields_set(model: WireModel) -> None:
    """Let `model` have one set of its fields that were given with all that were given the same: 0.7 KB for each."""
    if model.model_config.get("frozen"):  # nothing adds to its set, which pydantic copies before it changes a copy
        _set(model, "__pydantic_fields_set__", _fields_set(frozenset(model.__pydantic_fields_set__)))


@lru_cache(maxsize=1024)
def _fields_set(names: frozenset[str]) -> set[str]:
    return set(names)


def new_list() -> list[Any]:
    """A new list, as the default of a field: of `list` itself pydantic parses the documentation, in milliseconds."""
    return []


def new_dict() -> dict[str, Any]:
    """A new dict, likewise."""
    return {}


def as_list(value: object) -> object:
    """`value`, with a tuple as a list; iterators are not converted, since they may be endless."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(slots=True, kw_only=True)
class BaseEvent:
    """An event of a run. Emitting it fills in `at`, and `path` where it is not given."""

    kind: ClassVar[str]
    """The kind of event, for readers that do not know the class."""
    repeats_speech: ClassVar[bool] = False
    """Whether a reader of what is said has all of it already: chats leave such an event out."""
    output_item: ClassVar[tuple[str, str] | None] = None
    """Its field that the raw output has as well, and the field of the output: a list of them, or the one value."""
    path: str = field(default="", compare=False, repr=False)
    """The place of the block that emitted it; for events of the run itself, that of the outermost block."""
    at: float = field(default=0.0, compare=False, repr=False)
    """Seconds since the epoch, by the run's clock. In a stored run it does not advance between two steps."""

    def to_wire(self) -> dict[str, Any]:
        """The event as JSON data: its `kind`, then its fields with camelCase keys."""
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
    """An event of a block. Emitting it fills in the `role` of the block as well."""

    role: str | None = field(default=None, compare=False, repr=False, metadata=SPARSE)
    """What the block does in its pattern, such as "judge"; None, and not written, for one outside of all roles."""


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = "list" if isinstance(self, list) else "dict"
    raise ReadOnly(f"a {kind} of a pattern's history", f"change a copy of it: {kind}(…)")


class FrozenList(list[Any]):
    """A list that refuses to change (`ReadOnly`), equal to any list with the same elements."""

    __slots__ = ()

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as one value: the default appends the elements one by one."""
        return type(self), (list(self),)


class FrozenDict(dict[str, Any]):
    """A dict that refuses to change (`ReadOnly`), equal to any dict with the same items."""

    __slots__ = ()

    update = pop = popitem = setdefault = clear = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as one value."""
        return type(self), (dict(self),)


def freeze(value: Any) -> Any:  # noqa: ANN401 - of the same type
    """`value` with frozen copies of the lists and dicts in it and in its models; what is frozen already is shared.

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
    """A frozen list of `items` and `further`; only what is not in a frozen list yet is looked at.

    >>> extend_frozen(extend_frozen([], [1]), [2])
    [[1], [2]]
    """
    before = items if isinstance(items, FrozenList) else freeze(items)
    return FrozenList([*before, *map(freeze, further)])


# Types that nearly all fields have, which need no further look.
_UNCHANGING = frozenset((FrozenList, FrozenDict, str, int, float, bool, type(None)))
