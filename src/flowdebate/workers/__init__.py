"""Workers: runs executed by several machines. DBOS queues run ids; the turns are stored in PostgreSQL.

Needs `flowdebate[dbos]`, which is imported only when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.workers.deployment import Workers
    from flowdebate.workers.queue import Delivery, QueuedRunStatus

__all__ = ("Delivery", "QueuedRunStatus", "Workers")

_LAZY = {"Delivery": "queue", "QueuedRunStatus": "queue", "Workers": "deployment"}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
