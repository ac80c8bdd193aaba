"""HTTP interface to a service: REST, server-sent events, and pages about its runs.

Requires the `server` extra: `pip install 'flowdebate[server]'`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
