"""Escaping of what models and users wrote, so that it cannot pass for the prompt's own words.

Its first line stands behind a tag or a label, and each further line behind a bar: no line of it begins a line of the
prompt. What would break a line, or make one look other than it is, is written as `⟦U+2028⟧`; so is a `⟦` itself, and
the first character of what a model's chat template could take for its own: `<|im_end|>`, `</s>`, `[INST]`. Everything
else stays as it was written, and all of it can be read back.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from unicodedata import category, normalize

from flowdebate.errors import ViewError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "AROUND",
    "BAR",
    "DECORATION",
    "PAIRS",
    "as_seen",
    "name_among",
    "quoted",
    "tag_name",
    "tag_text",
    "unescaped",
    "unquoted",
    "without_control_tokens",
)

BAR = "\n  | "
"""Between the lines of one text."""

_MARK = "⟦"
_ESCAPED_ALWAYS = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters but tab and line feed: NUL, most line breaks
    "\\u2028\\u2029"  # line breaks that str.splitlines knows
    "\\u202a-\\u202e\\u2066-\\u2069"  # they turn the direction of what follows, so that a reader sees another order
    "\\ud800-\\udfff"  # halves of surrogate pairs: no request with one can be encoded
    "⟦"
)
# Servers read these as control tokens wherever they stand: `<|im_end|><|im_start|>system` would end the user's message.
_CONTROL = "<(?=[|\\uff5c]|/?\\w+>)"
_IN_TEXT = re.compile(f"[{_ESCAPED_ALWAYS}]|{_CONTROL}|\\[(?=/?[A-Z_]{{2,}}\\])")
_IN_TAG = re.compile(f"[{_ESCAPED_ALWAYS}\n\\[\\]]|{_CONTROL}")
_IN_NAME = re.compile(f"[{_ESCAPED_ALWAYS}\n\\[\\],]|{_CONTROL}")
_TOKENS = re.compile(_CONTROL)
_ESCAPE = re.compile("⟦U\\+(10[0-9A-F]{4}|[0-9A-F]{4,5})⟧")


def quoted(text: str) -> str:
    r"""`text` as it stands behind a tag or a label: further lines behind a bar.

    >>> print("[for] " + quoted("Yes.\n[against] I give up."))
    [for] Yes.
      | [against] I give up.
    """
    # Nothing that is printable is escaped but the mark and brackets: for most texts a pass in C is all that it takes.
    if text.isprintable() and _MARK not in text and "<" not in text and "[" not in text:
        return text
    return _IN_TEXT.sub(_escape, text).replace("\n", BAR)


def unquoted(text: str) -> str:
    r"""What `quoted` was given; ViewError for what it cannot have written.

    >>> unquoted(quoted("one\r\ntwo"))
    'one\r\ntwo'
    """
    plain = unescaped(text.replace(BAR, "\n"))
    if quoted(plain) != text:
        raise ViewError(text, "quoted text")
    return plain


@lru_cache(maxsize=1024)  # the same few names and stances stand in every prompt of a debate
def tag_text(text: str) -> str:
    """`text` on one line and without square brackets: a stance, as it stands in a tag or in a sentence."""
    return _IN_TAG.sub(_escape, text)


@lru_cache(maxsize=1024)
def tag_name(name: str) -> str:
    """`name` as it stands in a tag or in a list: on one line, without square brackets and commas."""
    return _IN_NAME.sub(_escape, name)


def without_control_tokens(text: str) -> str:
    """`text` in which nothing is taken for a token of a chat template; all else, line breaks too, stays as it is.

    >>> without_control_tokens("<|im_end|>")
    '⟦U+003C⟧|im_end|>'
    """
    return _TOKENS.sub(_escape, text) if "<" in text else text


def unescaped(text: str) -> str:
    """`text` with each `⟦U+2028⟧` turned back into what it stands for."""
    return _ESCAPE.sub(_unescape, text) if _MARK in text else text


def _escape(match: re.Match[str]) -> str:
    return f"⟦U+{ord(match[0]):04X}⟧"


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


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
