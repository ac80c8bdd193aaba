"""Review pattern: reviewers independently find faults and examine each other's findings; rules decide the outcome."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
