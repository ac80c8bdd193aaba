"""Name matching: names as readers see them, and as models write them back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import category, normalize

from flowdebate.prompts.escaping import unescaped

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "AROUND",
    "DECORATION",
    "PAIRS",
    "as_seen",
    "name_among",
)

PAIRS = {"(": ")", "[": "]", "<": ">", "“": "”", "\u2018": "’", "«": "»", "\u2039": "\u203a"}
"""Brackets and quotes that open, each with what closes it."""
DECORATION = "*_~`\"'" + "".join([*PAIRS, *PAIRS.values()])
"""Quotes, markdown and brackets."""
AROUND = f"{DECORATION}.!?,;:…"
"""Characters around a written name: quotes, markdown, brackets, the end of a sentence."""


def as_seen(name: str) -> str:
    r"""`name` as a reader sees it: without invisible characters, case-folded, in compatibility form (NFKC).

    >>> as_seen("Anna\u200b") == as_seen("ANNA")
    True
    """
    seen = "".join(c for c in normalize("NFKC", name) if category(c) not in {"Cf", "Cc"} or c.isspace())
    return " ".join(normalize("NFKC", seen.casefold()).split())


def name_among(written: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `written`, in whatever case, escaped as in prompts or in quotes; None for none.

    >>> name_among('"OPPONENT".', ["Proponent", "Opponent"])
    'Opponent'
    """
    known = list(names)
    if written in known:
        return written
    seen = {as_seen(name): name for name in known}
    for candidate in (written, unescaped(written), unescaped(written.strip(AROUND + " \t\r\n"))):
        if (found := seen.get(as_seen(candidate))) is not None:
            return found
    return None
