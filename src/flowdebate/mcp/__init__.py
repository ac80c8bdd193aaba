"""MCP server: debates as tools, resources and prompts of any MCP host.

Needs `flowdebate[mcp]`, which is imported only when it is used. `flowdebate mcp` serves from the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names
from flowdebate._util.validation import check_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.mcp.serve import serve_http, serve_stdio
    from flowdebate.mcp.server import create_server, http_app

__all__ = ("create_server", "http_app", "serve_http", "serve_stdio")

_LAZY = {"create_server": "server", "http_app": "server", "serve_http": "serve", "serve_stdio": "serve"}
"""Imported at first use: they bring the SDK with them."""
__dir__: Callable[[], list[str]]
_lazy, __dir__ = lazy_names(__name__, _LAZY)


def __getattr__(name: str) -> object:
    if name in _LAZY:
        check_library("flowdebate.mcp", "mcp", library="the MCP SDK", extra="mcp")
    return _lazy(name)
