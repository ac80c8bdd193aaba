"""MCP server that offers debates as tools, resources and prompts to any MCP host.

Requires the `mcp` extra: `pip install "flowdebate[mcp]"`. The MCP SDK is imported only when needed. `flowdebate mcp`
starts the server from the command line.
"""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        # Without this check, the SDK would raise an ImportError that does not say what to install.
        from flowdebate._util.validation import check_library

        check_library("flowdebate.mcp", "mcp", library="the MCP SDK", extra="mcp")
    return _load(name)
