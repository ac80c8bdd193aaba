"""Adapters: agents and models of other frameworks in any role here, and patterns as tools and nodes there.

One module per framework, each of which needs an extra of its own and imports the framework when it is used.
"""

from __future__ import annotations

from flowdebate.adapters.tool import as_tool

__all__ = ("as_tool",)
