"""Test support for debates: scripted and simulated models, attacks, and conformance suites.

`flowdebate.testing.strategies` has hypothesis strategies (hypothesis has to be installed: `flowdebate[testing]`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
