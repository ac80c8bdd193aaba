"""HTTP interface of a service: REST, server-sent events, and browser pages of runs.

It requires the extra `server`: `pip install 'flowdebate[server]'`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
