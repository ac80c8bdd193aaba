"""Adapters that use other frameworks' agents and models in any role, and turn patterns into tools and nodes for them.

There is one module per framework. Each module requires its own extra, and imports its framework only when the module is
used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
