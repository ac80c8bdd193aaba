"""Frozen values: lists and dicts of a pattern's history that refuse to change, in blocks as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import BaseModel

from flowdebate._util.wire import WireModel, share_fields_set
from flowdebate.errors import ReadOnly


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
