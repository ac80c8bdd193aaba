"""Block types (handler, generator, router and sequencer), tools and outlines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
