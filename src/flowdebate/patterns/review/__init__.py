"""Review pattern: reviewers find faults and examine each other's findings, and a rule decides on each finding."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
