"""Names of test cases."""

from __future__ import annotations

import re

__all__ = ("shown",)


def shown(value: object) -> str:
    """The `repr` of a case without where it is in memory: names must be the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
