"""Lazy names of packages: imported from their modules at first use, which keeps `import flowdebate` fast."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("IMPORTING", "lazy_names")

IMPORTING = threading.Lock()
"""Held while a library with import cycles is imported: of two threads that do it together, one may find half of it."""


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of `package`: `homes` has for each name the module below it that defines it.

    Any other name is that of a module or package directly below it.
    """

    def __getattr__(name: str) -> object:  # noqa: N807 - PEP 562
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name)
        return import_module(f"{package}.{name}")

    def __dir__() -> list[str]:  # noqa: N807 - PEP 562
        known = vars(sys.modules[package])
        return sorted({*known, *known["__all__"]})

    return __getattr__, __dir__
