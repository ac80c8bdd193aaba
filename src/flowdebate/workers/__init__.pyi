from .deployment import Workers as Workers
from .queue import Delivery as Delivery
from .queue import QueuedRunStatus as QueuedRunStatus
