"""Stores for durable runs, ensuring that no recorded call is ever paid for twice.

>>> from flowdebate.store import MemoryStore, SqliteStore
>>> SqliteStore("runs.sqlite3").name
'runs.sqlite3'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
