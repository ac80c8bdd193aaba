"""Names that are also common words, which are hidden only where they are used as names."""

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
def test_common_words_are_not_mistaken_for_names(text: str) -> None:
    """Bull and Bear are speakers here, but phrases such as "a Bull market" and "bear the cost" do not refer to them."""
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
def test_names_are_hidden_even_if_they_are_common_words(text: str, name: str) -> None:
    """A capital letter in mid-sentence, a form of address or a quoted speaker shows that the word is a name."""
    (leak,) = ALIASES.hide(text).leaks
    assert leak.meant == name
