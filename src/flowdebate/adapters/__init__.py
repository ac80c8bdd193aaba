"""Adapters that use other frameworks' agents and models in any role, and turn patterns into tools and nodes for them.

There is one module per framework. Each needs its own extra and imports the framework only when it is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
