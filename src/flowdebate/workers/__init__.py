"""Workers: runs executed by several machines. DBOS queues run ids; the turns are stored in PostgreSQL.

Needs `flowdebate[dbos]`, which is imported only when it is used.
"""

from __future__ import annotations

from flowdebate.workers.deployment import Workers
from flowdebate.workers.queue import Delivery, QueuedRunStatus

__all__ = ("Delivery", "QueuedRunStatus", "Workers")
