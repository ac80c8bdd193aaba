"""Workers: runs executed by several machines. DBOS queues run ids; the turns are stored in PostgreSQL.

Needs `flowdebate[dbos]`, which is imported only when it is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
