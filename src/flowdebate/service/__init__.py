"""Service layer behind all front ends: plans, runs, documents and pages.

The service prints nothing and does not depend on a terminal.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
