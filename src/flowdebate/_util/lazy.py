"""Lazy names of packages: imported from their modules at first use, which keeps `import flowdebate` fast."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("IMPORTING", "lazy_names")

IMPORTING = threading.Lock()
"""Held while a library with import cycles is imported: of two threads that do it together, one may find half of it."""


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of `package`: `homes` has for each name the module below it that defines it.

    A name whose home is called the same is the module itself.
    """

    def __getattr__(name: str) -> object:  # noqa: N807 - PEP 562
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name)
        home = import_module(f"{package}.{homes[name]}")
        return home if homes[name] == name else getattr(home, name)

    def __dir__() -> list[str]:  # noqa: N807 - PEP 562
        return sorted({*vars(sys.modules[package]), *homes})

    return __getattr__, __dir__
