"""Council pattern: members answer independently and review each other anonymously, and a chair writes the answer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
