"""Workers: runs executed on several machines. DBOS queues run ids; PostgreSQL stores the turns.

Needs `flowdebate[dbos]`, which is imported only when it is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
