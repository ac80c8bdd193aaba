"""Functions that cut text at the end of a sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate._text import CutOff, Trimmed

if TYPE_CHECKING:
    from flowdebate.models.base import ModelResponse
    from flowdebate.runs.context import Context


def whole_sentences(text: str, response: ModelResponse, _: Context) -> str:
    """Cut `text` after its last full sentence if the answer was truncated."""
    return CutOff(trim_to_sentence(text)) if response.finish == "length" else text


_SENTENCE_END = (
    "[.!?\u2026\u061f\u06d4\u0964]+[\"'\u201d\u2019)\\]\u00bb]*(?=\\s|$)"
    "|[\u3002\uff01\uff1f]+[\"'\u201d\u2019\u300d\u300f\uff09)\\]]*"
)
"""Pattern for the end of a sentence, whether or not the script puts spaces between words."""
# Periods that do not end a sentence. If an abbreviation is missing from this list, a turn ends one sentence early.
_ABBREVIATED = r"(?:\b(?:[A-Z]|e\.g|i\.e|U\.[SK]|[ap]\.m|Mrs?|Ms|Dr|St|vs|z\.B))\.\Z"


def first_sentences(text: str, maximum: int, *, begins: str = "", unfinished: bool = False) -> str:
    """Return the first `maximum` sentences of `text`, as a `Trimmed` string if there are more.

    If the text is `unfinished`, its incomplete last sentence is dropped. If that leaves no full sentence after the
    opening words in `begins`, the result is a `CutOff` instead.

    >>> first_sentences("Cars are loud. They stink. They also po", 3, unfinished=True)
    'Cars are loud. They stink.'
    """
    full_text, abbreviated = text.rstrip(), re.compile(_ABBREVIATED)
    ends = [
        end.end()
        for end in re.finditer(_SENTENCE_END, full_text)
        # no abbreviation is longer than 8 characters
        if not abbreviated.search(full_text, max(0, end.end() - 8), end.end())
    ]
    # the prescribed opening words do not count as one of the model's sentences
    ends = [end for end in ends if end > len(begins) or not full_text.startswith(begins)]
    if unfinished and not ends:
        return CutOff(trim_to_sentence(text))
    last = ends[-1] if unfinished else len(full_text)
    end = ends[maximum - 1] if len(ends) >= maximum else last
    return Trimmed(full_text[:end]) if end < len(full_text) or unfinished else full_text


def trim_to_sentence(text: str) -> str:
    """Return `text` up to the end of its last full sentence, or all of `text` if it contains none.

    >>> trim_to_sentence("Cars are loud. They also po")
    'Cars are loud.'
    """
    ends = [match.end() for match in re.finditer(_SENTENCE_END, text)]
    return text[: ends[-1]] if ends else text
