"""Debates that several machines carry out: DBOS hands run ids out, the turns stay in the store on PostgreSQL.

`flowdebate[dbos]` brings what is needed; nothing of it is imported before it is used.
"""

from __future__ import annotations

from flowdebate.workers.deployment import Workers
from flowdebate.workers.queue import Delivery, QueuedRunStatus

__all__ = ("Delivery", "QueuedRunStatus", "Workers")
