"""Split of parametrized test cases between `make test` and `make test-slow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ("slow_but_first",)

Case = TypeVar("Case")


def slow_but_first(cases: Iterable[Case], kind: Callable[[Case], object] = lambda _: None) -> list[object]:
    """Mark all cases as slow except the first of each kind; without `kind`, all cases count as one kind."""
    seen = set[object]()
    marked = list[object]()
    for case in cases:
        marked.append(pytest.param(case, marks=[pytest.mark.slow] if kind(case) in seen else []))
        seen.add(kind(case))
    return marked
