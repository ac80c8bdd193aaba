"""Names of test cases."""

from __future__ import annotations

import re

__all__ = ("case_id",)


def case_id(value: object) -> str:
    """Return the `repr` of a case without memory addresses, so that its name is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
