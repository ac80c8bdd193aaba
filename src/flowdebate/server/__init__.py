"""HTTP interface of a service: REST, server-sent events, and a plain list of runs for a browser.

It needs the extra `server`: `pip install 'flowdebate[server]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.server.app import create_app

__all__ = ("create_app",)

_LAZY = {"create_app": "app"}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
