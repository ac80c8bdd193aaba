"""Pure functions for measuring debates: topologies, similarity, convergence, votes, ratings and positions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
