"""Names that are also common words: hidden as names, unchanged as words."""

from __future__ import annotations

from random import Random

import pytest

from flowdebate.chassis.anonymity.aliases import make_aliases

ALIASES = make_aliases(["Bull", "Bear", "Advocate"], random=Random(1))


@pytest.mark.parametrize(
    "text",
    [
        "In a bull market we gain, and we bear the cost.",
        "This is a Bull market.",
        "Unlike bear markets, these last.",
        "I agree with bull market logic.",
        "According to bull market theory, prices rise.",
    ],
)
def test_a_common_word_is_not_a_name(text: str) -> None:
    """Lower case, or a series of words, marks an ordinary word."""
    assert ALIASES.hide(text).text == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I think Bull is wrong.", "Bull"),
        ("As Bull, I say so.", "Bull"),
        ("Bear: it falls.", "Bear"),
        ("But the Advocate argues well.", "Advocate"),
        ("But the Advocate will lose.", "Advocate"),
        ("I agree with the Advocate on rents.", "Advocate"),
        ("Unlike bear, I wait.", "Bear"),
    ],
)
def test_a_name_is_still_hidden(text: str, name: str) -> None:
    """A capital inside a sentence, a form of address or a quoted speaker marks a name."""
    (leak,) = ALIASES.hide(text).leaks
    assert leak.meant == name
