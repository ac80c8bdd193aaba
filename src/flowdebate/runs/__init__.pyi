from .batch import BatchSummary as BatchSummary
from .context import Context as Context
from .observer import Observer as Observer
from .result import RunResult as RunResult
