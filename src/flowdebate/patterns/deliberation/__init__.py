"""`deliberation()`: personas argue at the same time, round by round; a moderator closes each round."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
