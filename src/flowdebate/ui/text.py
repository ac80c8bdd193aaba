"""Escaping of untrusted text and JSON for display in terminals.

After escaping, no character can move the cursor, reverse the text direction, or remain invisible. All text from models,
users, servers and files passes through this module before it is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from unicodedata import category

from flowdebate._util.documentation import ONE_MODEL, cite

_SUSPICIOUS = re.compile("[^\n\t -~\xa0-\xac\xae-\u02ff]")
"""Characters to examine: everything except printable ASCII and Latin letters."""
_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that a terminal interprets or hides: control and format characters, surrogates, and
line separators.
"""
_HIDDEN = re.compile("[\u2065\ufff0-\ufff8\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]")
"""Unassigned code points, which terminals do not show."""
_JOINERS = "\u200c\u200d"
_JOINED = frozenset({"Lo", "Lm", "Mn", "Mc", "So", "Sk"})
"""Unicode categories of characters that may be joined: letters and marks in scripts that use joiners, and emoji."""
_FIRST_JOINED = "\u0600"
"""First code point of the scripts that use joiners; next to a lower code point, a joiner can only hide something."""


def printable(text: str) -> str:
    r"""Escape every character in `text` that a terminal would interpret or hide.

    Newlines, tabs, and joiners between letters, marks and emoji are kept.

    >>> printable("\x1b[2Jgone?\r\u202e")
    '\\x1b[2Jgone?\\r\\u202e'
    """
    if not _SUSPICIOUS.search(text):  # fast path for nearly all text; the code below examines each character
        return text
    stream = PrintableStream()
    return stream.feed(text) + stream.end()


def models_text(seats: Mapping[str, str]) -> str:
    """List the models on one line, each with its seats.

    >>> models_text({"Ann": "openai/gpt-5", "Ben": "local", "judge": "openai/gpt-5"})
    'Models: openai/gpt-5 (Ann, judge); local (Ben)'
    >>> models_text({"Ann": "local", "Ben": "local"})
    'Model: local everywhere; see “One model everywhere” on the page “Models” of the documentation'
    """
    who: dict[str, list[str]] = {}
    for seat, model in seats.items():
        who.setdefault(model, []).append(seat)
    if len(who) == 1:
        return f"Model: {next(iter(who))} everywhere; see {cite(ONE_MODEL)}"
    return "Models: " + "; ".join(f"{model} ({', '.join(names)})" for model, names in who.items())


def time_text(seconds: float) -> str:
    """Format a duration in seconds.

    >>> time_text(0.01), time_text(70.3)
    ('under 0.1 s', '70.3 s')
    """
    return "under 0.1 s" if seconds < _NO_TENTH else f"{seconds:.1f} s"


_NO_TENTH = 0.05
"""Duration in seconds below which rounding to tenths would give zero."""


def cost_text(cost: float, prices: str | None, *, complete: bool = False) -> str:
    """Format a cost, with its currency if known; `complete` adds the price list and its date.

    >>> cost_text(0.000213, "USD by genai-prices 0.2.3 of 2026-11-09"), cost_text(12.5, "by given prices")
    ('0.00021 USD', '12.50')
    >>> cost_text(0.0, "USD"), cost_text(0.000213, "USD by genai-prices 0.2.3 of 2026-11-09", complete=True)
    ('0.00 USD', '0.00021 USD by genai-prices 0.2.3 of 2026-11-09')
    """
    # Two significant digits, never in exponent form such as 2.1e-05.
    amount = f"{cost:,.2f}" if not cost or cost >= 1 else f"{float(f'{cost:.2g}'):.12f}".rstrip("0")
    unit = in_line(prices or "")
    return f"{amount} {unit if complete else unit.partition('by ')[0]}".rstrip()


def acts_or_hides(char: str) -> bool:
    """Return whether a terminal would interpret or hide `char`."""
    return category(char) in _OBEYED or _HIDDEN.match(char) is not None


def in_line(text: str) -> str:
    r"""Escape `text` as `printable` does, and also escape newlines and replace tabs, for use within a single line.

    >>> in_line("two\nlines")
    'two\\nlines'
    """
    return printable(text).replace("\n", "\\n").replace("\t", " ")


def as_json(value: object) -> str:
    r"""Serialize `value` as indented JSON with control characters escaped; parsing the result restores the value.

    >>> as_json("é\x7f")
    '"é\\u007f"'
    """
    return escape_json(json.dumps(value, ensure_ascii=False, indent=2))


def escape_json(text: str) -> str:
    """Escape the characters in JSON `text` that a terminal would interpret or hide."""

    def escape(match: re.Match[str]) -> str:
        char = match[0]
        if not acts_or_hides(char):
            return char
        return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]  # JSON itself does not require DEL to be escaped

    return _SUSPICIOUS.sub(escape, text)


class PrintableStream:
    r"""Streaming version of `printable`, for text that arrives in chunks.

    >>> stream = PrintableStream()
    >>> stream.feed("\x1b") + stream.feed("[2J") + stream.end()
    '\\x1b[2J'
    """

    __slots__ = ("_before", "_held")

    def __init__(self) -> None:
        self._before = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown so far; a joiner is held back until the next character arrives."""
        text = self._held + piece
        self._held = ""
        if text and text[-1] in _JOINERS:
            text, self._held = text[:-1], text[-1]
        return self._escape(text, self._held)

    def end(self) -> str:
        """Return the remaining text; afterwards the stream can be reused."""
        text = self._escape(self._held, "")
        self._held = self._before = ""
        return text

    def _escape(self, text: str, after: str) -> str:
        if not text:
            return ""
        before, self._before = self._before, text[-1]
        if not _SUSPICIOUS.search(text):
            return text
        befores, afters = before + text if before else "\n" + text, text[1:] + (after or "\n")
        return "".join(map(_escape_char, befores, text, afters))


def _escape_char(before: str, char: str, after: str) -> str:
    if not _SUSPICIOUS.match(char):
        return char
    if char in _JOINERS and _is_joined(before) and _is_joined(after):
        return char
    if acts_or_hides(char):
        return char.encode("unicode_escape").decode()
    return char


def _is_joined(char: str) -> bool:
    return char >= _FIRST_JOINED and category(char) in _JOINED
