"""LaTeX formulas in text, converted to a safe subset of MathML that browsers render.

The converter, latex2mathml, is optional; without it, formulas are shown as written.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from html import unescape
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from markdown_it.rules_inline import StateInline

RULE = "formula"
"""Name of the parser rule and of its tokens."""
_MAX_LENGTH = 1_000
"""Maximum length of a formula in characters; longer formulas are shown as written."""
_MAX_FORMULAS = 1_000
"""Maximum number of potential formula starts to examine in a piece of text; each may require scanning up to the maximum
length of a formula.
"""
_FORMULA = re.compile(
    r"\$\$(?P<block>[^$]{1,1000}?)\$\$"
    r"|\\\[(?P<brackets>.{1,1000}?)\\\]"
    r"|\\\((?P<parentheses>.{1,1000}?)\\\)"
    # Two dollar amounts do not enclose a formula: a formula neither begins nor ends with a space, and is not followed
    # by a digit.
    r"|\$(?P<line>(?![\s$])(?:[^$\\\n]|\\.){1,1000}?(?<!\s))\$(?!\d)",
    re.DOTALL,
)
_ELEMENTS = frozenset(
    (
        *("mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup"),
        *("munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "menclose"),
    )
)
"""Elements allowed in a formula; unlike `mphantom`, none of them can hide its content."""
_WORDS = frozenset(
    (
        *("accent", "accentunder", "columnalign", "displaystyle", "fence", "form", "largeop", "mathvariant"),
        *("movablelimits", "notation", "separator", "stretchy", "symmetric"),
    )
)
"""Attributes allowed in a formula; their values are plain words."""
_VALUE = re.compile(r"[a-z][a-z -]{0,60}")
_WIDTH = re.compile(r"\d?(?:\.\d{1,4})?em")
_ALIGNED = re.compile(r"\\(begin|end)\{(?:aligned|split|gathered)\}")


def find_formula(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - a rule of the parser is called so
    """Parse a formula at the current position; this is the parser's rule for formulas in inline text."""
    if state.src[state.pos] not in "$\\" or converter() is None:
        return False
    tried = state.env["formulas"] = int(state.env.get("formulas", 0)) + 1
    match = None if tried > _MAX_FORMULAS else _FORMULA.match(state.src, state.pos, state.posMax)
    if match is None or (state.pos and state.src[state.pos - 1].isalnum()):
        return False
    if not silent:
        token = state.push(RULE, "", 0)
        token.content, token.markup = match[match.lastgroup or 0], match[0]
        token.info = "block" if match.lastgroup in ("block", "brackets") else ""
    state.pos = match.end()
    return True


@cache
def converter() -> Callable[[str], Element] | None:
    """Return the function that converts LaTeX to MathML, or None if the library is not installed."""
    try:
        from latex2mathml.converter import convert_to_element
    except ImportError:
        return None
    return convert_to_element


@lru_cache(maxsize=1024)
def as_mathml(latex: str, *, block: bool) -> Markup | None:
    """Convert a formula to MathML annotated with its LaTeX source; return None if it cannot be parsed.

    >>> print(as_mathml("7", block=False))
    <math><semantics><mrow><mn>7</mn></mrow><annotation encoding="application/x-tex">7</annotation></semantics></math>
    """
    convert = converter()
    if convert is None or len(latex) > _MAX_LENGTH:
        return None
    try:
        html = "".join(_safe(convert(_ALIGNED.sub(r"\\\1{align*}", latex))))
    except Exception:  # noqa: BLE001 - a model may write anything, for which the library has many errors
        return None
    opened = '<math display="block">' if block else "<math>"
    # browsers do not display annotations
    source = f'<annotation encoding="application/x-tex">{escape(latex)}</annotation>'
    return Markup(f"{opened}<semantics>{html}{source}</semantics></math>")  # noqa: S704 - of safe parts


def _safe(element: Element) -> list[str]:
    """Serialize an element's content with allowed attributes only; raise ValueError for a disallowed element."""
    pieces = [_text(element.text)]
    for child in element:
        if child.tag not in _ELEMENTS:
            message = f"<{child.tag}> is not part of a formula"
            raise ValueError(message)
        attributes = {key: value for key, value in child.attrib.items() if key in _WORDS and _VALUE.fullmatch(value)}
        if child.tag == "mspace" and _WIDTH.fullmatch(width := child.get("width", "")):
            attributes["width"] = width
        written = "".join(f' {key}="{value}"' for key, value in attributes.items())
        pieces += [f"<{child.tag}{written}>", *_safe(child), f"</{child.tag}>", _text(child.tail)]
    return pieces


def _text(text: str | None) -> str:
    """Escape text that may already contain entities, because latex2mathml writes some characters as entities."""
    return str(escape(unescape(text or "")))
