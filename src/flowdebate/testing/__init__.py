"""Test support for debates: scripted and simulated models, attacks, and conformance suites.

`flowdebate.testing.strategies` provides hypothesis strategies; `flowdebate[testing]` installs hypothesis.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
