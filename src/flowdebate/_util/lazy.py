"""Lazy names of packages: imported from their modules at first use, which keeps `import flowdebate` fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("lazy_names",)


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Make the `__getattr__` of `package`: `homes` gives for each name the module below it that defines the name.

    A name whose home is called the same is the module itself.
    """

    def __getattr__(name: str) -> object:  # noqa: N807 - PEP 562
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name)
        home = import_module(f"{package}.{homes[name]}")
        return home if homes[name] == name else getattr(home, name)

    return __getattr__
