"""What the tests of stores put into them."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any

from flowdebate.store.port import RunHeader

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("NASTY", "header")

NASTY = (
    "plain",
    "with space and / and %s and %(x)s and $1 and {0} and ?",
    "quote ' and \" and \\ and -- and ; DROP TABLE runs",
    "line\nbreak\r\ttab",
    "nothing\x00in between",
    "\x00",
    "\x1a0000",
    "\ud800 half of a pair",
    "half \udfff",
    "\N{LATIN SMALL LETTER E WITH ACUTE}e\N{COMBINING ACUTE ACCENT}",
    "\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH JOINER}\N{NO-BREAK SPACE}",
    "\U0001f469\u200d\U0001f680 \U0010ffff",
    "../../etc",
    " ends in blanks ",
    "",
)
"""Texts that a store may not change, mix up or stumble over."""

_SECOND = count(1)


def header(run_id: str, **values: Any) -> RunHeader:  # noqa: ANN401 - fields of RunHeader
    """The header of a new run, newer than all that were made before."""
    given: Mapping[str, Any] = {
        "block": "debate",
        "seed": 7,
        "created_at": time.time() + next(_SECOND) / 1000,
        "question": "May cars go?",
        "input": {"question": "May cars go?"},
        "fingerprint": {"block": "one", "limits": "two"},
    }
    return RunHeader(run_id=run_id, **{**given, **values})
