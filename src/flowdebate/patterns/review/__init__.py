"""Review pattern: reviewers independently find faults, then examine each other's findings; a rule decides on them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
