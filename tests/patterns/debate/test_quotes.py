# ruff: noqa: RUF001 - quotation marks and dashes of all kinds are what this is about
from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.sources.quotes import find_quotes, normalize, verify_quotes
from tests.cases import slow_but_first
from tests.measures.drawn import texts

if TYPE_CHECKING:
    from flowdebate.sources.quotes import VerifiedQuote

REPORT = (
    "Rents — as the report says — fell by 1.5 per cent in May.\n"
    "The exam-\nples of well-\nknown towns do not show that the ﬁrst caps cost 15–20 € a month, or\u00a0-3% a year."
)


def verify_quote(quote: str, source: str = REPORT) -> VerifiedQuote:
    """Verify one quote."""
    return verify_quotes(f"They say 『{quote}』 there.", {"report": source})[0]


FOUND = {
    "as it is": ("fell by 1.5 per cent in May", ["fell by 1.5 per cent in May"]),
    "case": ("RENTS AS THE REPORT SAYS", ["Rents — as the report says"]),
    "spacing and line breaks": ("in\u2003May.\r\n  The exam", ["in May.\nThe exam"]),
    "punctuation": ("rents, as the report says: fell", ["Rents — as the report says — fell"]),
    "dashes": ("Rents--as the report says–fell", ["Rents — as the report says — fell"]),
    "a word that a line's end breaks": ("the examples of well", ["The exam-\nples of well"]),
    "a broken word at the end": ("in May. The examples", ["in May.\nThe exam-\nples"]),
    "a hyphen at a line's end": ("of well-known towns", ["of well-\nknown towns"]),
    "both of them": ("examples of well-known towns", ["exam-\nples of well-\nknown towns"]),
    "broken elsewhere": ("the ex-\namples of well known", ["The exam-\nples of well-\nknown"]),
    "a ligature": ("that the first caps", ["that the ﬁrst caps"]),
    "a dash in numbers": ("caps cost 15-20 € a month", ["caps cost 15–20 € a month"]),
    "unseen characters": ("fe\u200bll by 1\u2060.5 per\u00ad cent", ["fell by 1.5 per cent"]),
    "quotation marks": ("as «the» ‟report‟ says", ["as the report says"]),
    "an ellipsis": ("as the report says … do not show that", ["as the report says", "do not show that"]),
    "an ellipsis in brackets": (
        "as the report says [...] do not show that",
        ["as the report says", "do not show that"],
    ),
    "a case that is changed openly": ("[t]he exam-\nples of well", ["The exam-\nples of well"]),
    "an ellipsis at the edge": ("… fell by 1.5 per cent ...", ["fell by 1.5 per cent"]),
    "a sign": ("or -3% a year", ["or\u00a0-3% a year"]),
}


@pytest.mark.parametrize("name", FOUND)
def test_quotes_from_a_source_are_verified_with_their_positions(name: str) -> None:
    quote, places = FOUND[name]
    verification = verify_quote(quote)
    assert (verification.status, verification.source) == ("verified", "report")
    assert [REPORT[span.start : span.end] for span in verification.spans] == places


ALTERED = {
    "a not is dropped": "known towns do show that",
    "a not is brought in": "rents did not fall as the report says",
    "a number is another": "fell by 5.1 per cent in May",
    "a point is dropped": "fell by 15 per cent in May",
    "a point is a comma": "fell by 1,5 per cent in May",
    "a blank is in a number": "fell by 1 5 per cent in May",
    "a sign is dropped": "or 3% a year",
    "a range is shortened": "caps cost 15 € a month",
    "a range is turned round": "caps cost 20-15 € a month",
    "another currency": "caps cost 15-20 $ a month",
    "another unit": "or -3 a year",
    "a word is another": "rose by 1.5 per cent in May",
    "words are exchanged": "May in cent per 1.5 by fell",
    "parts in another order": "do not show that … as the report says",
    "one part is not there": "as the report says … rents doubled in May",
    "the same part twice": "as the report says … as the report says",
    "a word is put in": "as the [secret] report says",
}


@pytest.mark.parametrize("name", ALTERED)
def test_altered_words_or_numbers_are_not_verified(name: str) -> None:
    verification = verify_quote(ALTERED[name])
    assert (verification.status, verification.source, verification.spans) == ("unverified", None, ())


@pytest.mark.parametrize("quote", ["as thereport says fell", "as the re port says fell", "well-known / wellknown"])
def test_hyphens_and_spaces_between_words_are_ignored(quote: str) -> None:
    """Letters are compared in order across word boundaries, whatever separates the words."""
    source = f"{REPORT} It is well known, wellknown."
    assert verify_quote(quote, source).status == "verified"
    assert verify_quote("s the report say", source).status == "unverified"


def test_powers_and_fractions_differ_from_their_digits() -> None:
    """Compatibility normalization would turn 10² into 102 and 1½ into 11/2."""
    source = "An area of 10² metres costs 1½ pounds a year, and 3/4 of it is tax. No H₂O, much CO₂ in 10 m²."
    assert verify_quote("No H2O, much CO2 in 10 m2", source).status == "verified"
    assert verify_quote("area of 10² metres costs 1½ pounds", source).status == "verified"
    assert verify_quote("metres costs 1 1/2 pounds a year", source).status == "verified"
    assert verify_quote("and ¾ of it is tax", source).status == "verified"
    for altered in (
        "an area of 102 metres costs",
        "metres costs 11/2 pounds a year",
        "and 34 of it is tax",
        "much CO in 10 m",
    ):
        assert verify_quote(altered, source).status == "unverified"


@pytest.mark.parametrize("quote", ["rents", "Rents …", "in May", "… … …", "a b c", "the report says … fell", "— ! —"])
def test_short_quotes_have_a_separate_status(quote: str) -> None:
    """One or two words occur in almost any text, so such quotes are neither verified nor unverified."""
    verification = verify_quote(quote)
    assert (verification.status, verification.spans) == ("too_short", ())


def test_minimum_lengths_are_configurable() -> None:
    text = '"in May" and "May"'
    statuses = [quote.status for quote in verify_quotes(text, {"r": REPORT}, min_words=2, min_characters=1)]
    assert statuses == ["verified", "too_short"]
    for minimums in ({"min_words": 1}, {"min_words": True}, {"min_characters": 0}, {"min_words": 2.5}):
        with pytest.raises(ConfigurationError, match=next(iter(minimums))):
            verify_quotes(text, {"r": REPORT}, **minimums)


def test_hyphens_within_words_are_not_minus_signs() -> None:
    """A minus sign precedes a number and never follows a word."""
    source = "Cases of Covid-19 fell by -5 in all towns."
    assert verify_quote("cases of Covid 19 fell by -5", source).status == "verified"
    assert verify_quote("cases of Covid-19 fell by 5", source).status == "unverified"


def test_scripts_without_spaces_are_compared_by_character() -> None:
    """Part of a Chinese sentence counts as verified, but not if a single character has been changed."""
    source = "报告指出，五月份房租下降了百分之二。"
    verification = verify_quote("五月份房租下降了", source)
    assert [source[span.start : span.end] for span in verification.spans] == ["五月份房租下降了"]
    assert verify_quote("五月份房租上升了", source).status == "unverified"


def test_invisible_characters_do_not_shift_positions() -> None:
    """Invisible characters are skipped in comparisons but counted in positions."""
    source = "\ufeffThe re\u00adport, in 1\u200b.5 li\u200bnes\u200b: all is w\u200bell\u2060."
    verification = verify_quote("report in 1.5 lines all is well", source)
    assert [source[span.start : span.end] for span in verification.spans] == [source[5:-2]]


def test_all_parts_of_a_quote_must_come_from_one_source() -> None:
    """A quote with parts from two sources is not verified.

    If several sources contain all of its parts, the first of these sources is reported.
    """
    halves = {"one": "rents fell in May everywhere", "two": "wages rose in June everywhere"}
    text = "“rents fell in May … wages rose in June”"
    assert verify_quotes(text, halves)[0].status == "unverified"
    sources = {
        **halves,
        "three": "Rents fell in May. And wages rose in June.",
        "four": "rents fell in May wages rose in June",
    }
    assert verify_quotes(text, sources)[0].source == "three"


QUOTED = {
    'It says "one two" and "three".': ["one two", "three"],
    "“curly”, ‘single’, „deutsch“, ‚einzeln‘": ["curly", "single", "deutsch", "einzeln"],
    "«français», « avec espaces », »umgekehrt«, ‹simple›": ["français", " avec espaces ", "umgekehrt", "simple"],
    "”svenska”, 「日本語」, „polski”, ❝heavy❞, 〝low〟": ["svenska", "日本語", "polski", "heavy", "low"],
    "don't, won’t, the workers' rights, the '90s, ’tis, rock 'n' roll": [],
    "‘the workers’ rights are at stake’ it said": ["the workers’ rights are at stake"],
    "'the owner's view' isn't his": ["the owner's view"],
    '6\'2" tall, 5" wide': [],
    '"one","two"': ["one", "two"],
    '("in brackets")—"after a dash"': ["in brackets", "after a dash"],
    "he “said ‘we know «all of it» now’ then” so": [
        "said ‘we know «all of it» now’ then",
        "we know «all of it» now",
        "all of it",
    ],
    "“a “b” c”": ["a “b” c", "b"],
    "no end “of it": [],
    "no begin” of it": [],
    '"unclosed, and "closed"': ["closed"],
    '“mixed" and "mixed”': ["mixed", "mixed"],
    "“over\n\ntwo paragraphs”": ["over\n\ntwo paragraphs"],
    "> A block\n> of two lines.\nNot of it.": ["A block\n> of two lines."],
    "Said:\r\n> A block.\r\n> — Smith, 2020\r\n\r\n  > Another\n": ["A block.", "Another"],
    '> "Both kinds."': ['"Both kinds."', "Both kinds."],
    "a > b\n>\n> \n": [],
    '"" and “ ”': [],
    'before "it\n> breaks" here': ["it\n> breaks"],
}


@pytest.mark.parametrize("text", QUOTED)
def test_quotations_are_distinguished_from_apostrophes(text: str) -> None:
    quotes = find_quotes(text)
    assert [quote.text for quote in quotes] == QUOTED[text]
    assert [text[quote.start : quote.end] for quote in quotes] == QUOTED[text]


def test_depth_is_the_number_of_enclosing_quotes() -> None:
    quotes = find_quotes("“a «b „c 「d」 c“ b» a” “e”")
    assert [(quote.text[0], quote.depth) for quote in quotes] == [("a", 0), ("b", 1), ("c", 2), ("e", 0)]


def test_quotes_are_found_in_blocks_and_across_lines() -> None:
    text = "As it says:\n\n> rents — as the report\n> says — fell by 1.5\n> — the report\n"
    [quote] = verify_quotes(text, {"report": REPORT})
    assert [REPORT[span.start : span.end] for span in quote.spans] == ["Rents — as the report says — fell by 1.5"]


# Invariants

word_texts = st.sampled_from(
    [
        "rents",
        "Not",
        "re\u200bnt\u00ads",
        "don’t",
        "1.5",
        "15",
        "-3",
        "20%",
        "café",
        "cafe\u0301",
        "straße",
        "ﬁrst",
        "U",
        "€5",
        "2020-21",
    ]
) | st.text(st.characters(categories=("Lu", "Ll", "Nd"), max_codepoint=0x24F), min_size=1, max_size=6)
gaps = st.sampled_from([" ", "  ", "\n", ", ", ". ", " — ", "; ", "\u00a0", " “", "” ", ": ", "! ", "\r\n", " (", ") "])


@st.composite
def sources_and_slices(draw: st.DrawFn) -> tuple[str, int, int]:
    """Draw a source and a slice of it, given by the indexes of its first and last words."""
    words = draw(st.lists(word_texts, min_size=3, max_size=25))
    source = "".join(part for word in words for part in (word, draw(gaps)))
    count = len(normalize(source).words)
    assume(count >= 3)
    first = draw(st.integers(0, count - 3))
    return source, first, draw(st.integers(first + 2, count - 1))


def is_long_enough(keys: list[str]) -> bool:
    """Check that there are enough words for a quote."""
    return sum(any(map(str.isalnum, key)) for key in keys) >= 3 and len(" ".join(keys)) >= 10


@given(sources_and_slices(), st.data())
def test_any_slice_of_a_source_is_verified_at_its_position(slice_: tuple[str, int, int], data: st.DataObject) -> None:
    """Case, spacing and punctuation may differ between words, but the position must cover exactly the quoted words."""
    source, first, last = slice_
    words = normalize(source)
    expected = words.words[first : last + 1]
    assume(is_long_enough(expected))
    quote = source[slice(*words.spans[first])]
    for place in range(first + 1, last + 1):
        (start, end), before = words.spans[place], words.spans[place - 1][1]
        quote += (data.draw(gaps) if start > before else "") + source[start:end]
    for recased in (quote, quote.upper(), quote.lower()):
        quote = recased if recased.casefold() == quote.casefold() else quote
    quote = data.draw(
        st.sampled_from([quote, quote.lower() if quote.lower().casefold() == quote.casefold() else quote])
    )
    outer_quotes = [item for item in verify_quotes(f"「{quote}」", {"": "x", "s": source}) if item.depth == 0]
    assert [item.status for item in outer_quotes] == ["verified"]
    [span] = outer_quotes[0].spans
    normalized = normalize(source[span.start : span.end])
    assert "".join(normalized.words) == "".join(expected)
    assert (normalized.spans[0][0], normalized.spans[-1][1]) == (0, span.end - span.start)


@given(sources_and_slices(), st.data())
def test_replaced_or_inserted_words_make_a_quote_unverified(sample: tuple[str, int, int], data: st.DataObject) -> None:
    """A word that does not occur in the source either replaces a word of the quote or is inserted in front of one."""
    source, first, last = sample
    keys = normalize(source).words[first : last + 1]
    assume("unheard" not in normalize(source).text)
    place = data.draw(st.integers(0, len(keys) - 1))
    keys[place : place + data.draw(st.integers(0, 1))] = ["unheard"]
    assume(is_long_enough(keys))
    [verification] = verify_quotes(f"「{' '.join(keys)}」", {"s": source})
    assert (verification.status, verification.source, verification.spans) == ("unverified", None, ())


@given(sources_and_slices(), st.data())
def test_quotes_with_a_dropped_word_are_not_verified(sample: tuple[str, int, int], data: st.DataObject) -> None:
    source, first, last = sample
    words = normalize(source)
    keys = words.words[first : last + 1]
    place = data.draw(st.integers(1, len(keys) - 2))
    shorter = keys[:place] + keys[place + 1 :]
    assume(is_long_enough(shorter) and normalize(" ".join(shorter)).text not in words.text)
    [verification] = verify_quotes(f"「{' '.join(shorter)}」", {"s": source})
    assert verification.status != "verified"


pieces = st.sampled_from(
    ['"', "“", "”", "„", "«", "»", "'", "’", "‘", "\n> ", "\n", " ", "…", "...", "[...]", "-\n", "1.5", "x" * 12]
)
hostile = st.lists(pieces | texts, max_size=14).map("".join)


@given(hostile, hostile)
@example('"' + "\ud800 b c d e" + '"', "\ud800 B c d e")
@example("“ﷺ a b c d”", "ﷺ a b c d")
def test_positions_are_valid_for_any_text(text: str, source: str) -> None:
    quotes = verify_quotes(text, {"s": source, "t": text}, min_words=2, min_characters=3)
    assert [item.text for item in quotes] == [text[item.start : item.end] for item in quotes]
    assert [(item.start, -item.end) for item in quotes] == sorted((item.start, -item.end) for item in quotes)
    for item in quotes:
        assert bool(item.spans) == (item.status == "verified") == (item.source is not None)
        origin = {"s": source, "t": text}.get(item.source or "", "")
        ends = [0, *(end for span in item.spans for end in (span.start, span.end))]
        assert ends == sorted(ends)
        assert ends[-1] <= len(origin)
        quoted = "".join(normalize(re.sub(r"\[(\w)\](?=\w)", r"\1", item.text)).words)
        at_place = "".join(key for span in item.spans for key in normalize(origin[span.start : span.end]).words)
        assert item.status != "verified" or at_place == quoted


def test_sources_must_be_text() -> None:
    with pytest.raises(ConfigurationError, match=r"`sources\.a` must be text"):
        verify_quotes("“one two three four”", {"a": b"x"})  # type: ignore[dict-item]


HOSTILE = {
    "quotation marks": '"' * 50_000,
    "marks that only open": "“" * 50_000,
    "nested": "“" * 25_000 + "”" * 25_000,
    "apostrophes": "'" * 50_000,
    "blocks": "> a\n" * 12_000,
    "short quotes": '"a b c d" ' * 5_000,
    "different quotes": " ".join(f'"a b c {number}"' for number in range(3_500)),
    "ellipses": '"' + "a b c d … " * 4_500 + 'x"',
    "points": '"a' + " ." * 25_000 + 'x"',
    "numbers": '"' + "1.-" * 16_000 + '"',
    "broken lines": '"' + "a-\n" * 16_000 + 'b"',
    "unseen": '"' + "a\u200b " * 16_000 + 'b"',
}


@pytest.mark.parametrize("name", slow_but_first(HOSTILE))
def test_hostile_texts_are_processed_in_time(name: str) -> None:
    """A quadratic search for 50,000 characters in text of the same length would exceed the time limit."""
    quotes = verify_quotes(HOSTILE[name], {"s": "a b c d " * 6_000 + "-\nx"})
    assert [(quote.start, quote.end) for quote in quotes] == [(q.start, q.end) for q in find_quotes(HOSTILE[name])]


# Positions in a source


@given(st.lists(st.sampled_from(["a", "aa", "ab", "1", "12", "-1", "b"]), max_size=12), st.data())
def test_words_are_found_at_their_first_position(source: list[str], data: st.DataObject) -> None:
    """The search must agree with a naive comparison at every position and never match part of a word."""
    text = normalize(" ".join(source))
    part = data.draw(st.lists(st.sampled_from(["a", "aa", "ab", "1", "12", "b"]), min_size=1, max_size=4))
    expected = normalize(" ".join(part)).text
    begin = data.draw(st.sampled_from([0, *text.starts]))
    ends = [*text.starts[1:], len(text.text)]
    places = [
        (first, last + 1)
        for first, start in enumerate(text.starts)
        for last, end in enumerate(ends)
        if start >= begin and text.text[start:end] == expected
    ]
    assert text.find(expected, begin) == (min(places) if places else None)


def test_quotes_inside_one_long_word_are_not_found() -> None:
    """The letters of the quote occur at many positions, but never as whole words."""
    assert [quote.status for quote in verify_quotes('"aaa aaa aaa"', {"r": "a" * 100})] == ["unverified"]
