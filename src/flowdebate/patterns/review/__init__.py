"""Review pattern: reviewers work independently and then examine each other's findings, and a rule confirms them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
