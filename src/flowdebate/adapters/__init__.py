"""Adapters: agents and models of other frameworks in any role here, and patterns as tools and nodes there.

One module per framework. Each needs a separate extra, and imports the framework on use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
