"""Adapters: agents and models of other frameworks in any role here, and patterns as tools and nodes there.

One module per framework, each of which needs an extra of its own and imports the framework when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.adapters.tool import as_tool

__all__ = ("as_tool",)

_LAZY = {"as_tool": "tool"}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
