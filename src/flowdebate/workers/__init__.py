"""Workers that execute runs on several machines; DBOS queues the run ids, and PostgreSQL stores the turns.

Requires `flowdebate[dbos]`, which is imported only when needed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
