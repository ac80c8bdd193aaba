from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.measures import claims_without_evidence
from tests.ids import shown
from tests.measures.drawn import texts

CLAIMS = ["Rents rose by 40%.", "It is the worst plan.", "Studies show that caps work.", "1,200 homes were built!"]
BACKED = [
    "Rents rose by 40% [3].",
    "Supply fell by 15% (Diamond et al. 2019).",
    "Diamond (2019) found that supply fell by 15%.",
    "According to the OECD, 4 in 10 tenants pay too much.",
    "It is 3% (https://example.org/rents).",
    "Studies show that caps work; source: the ministry.",
    "Caps cost 5% of supply².",
]
PLAIN = ["Rents should be capped.", "Is it 40%?", "Agent 2 is right.", "At least it is fair.", "I agree with point 3."]
sentences = st.sampled_from(CLAIMS + BACKED + PLAIN)


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_number_a_superlative_and_an_appeal_ask_for_evidence(sentence: str) -> None:
    """Without a source they are found."""
    assert claims_without_evidence(sentence) == [sentence]


@pytest.mark.parametrize("sentence", BACKED + PLAIN)
def test_a_source_is_evidence_and_not_everything_is_a_claim(sentence: str) -> None:
    """Notes, references, links and names are sources; questions and mere opinions claim nothing."""
    assert claims_without_evidence(sentence) == []


@given(st.lists(sentences, max_size=8), st.sampled_from([" ", "\n", "\n\n- ", "\r\n", "  "]))
def test_sentences_are_found_one_by_one_in_order(said: list[str], between: str) -> None:
    """Whatever stands around them, in lines, lists and paragraphs."""
    assert claims_without_evidence(between.join(said)) == [sentence for sentence in said if sentence in CLAIMS]


@given(texts | st.lists(texts | sentences).map(" ".join))
def test_nothing_raises_and_what_is_found_stands_in_the_text(text: str) -> None:
    """As it is written, in order; and it asks for evidence by itself."""
    found = claims_without_evidence(text)
    place = 0
    for claim in found:
        place = text.index(claim, place) + len(claim)
        assert claims_without_evidence(claim) == [claim]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Rents rose by 40%. [3] Taxes fell.", []),
        ("Rents rose by 40%.\nSource: the ministry", []),
        ("Rents rose by 40%. Taxes fell [3].", ["Rents rose by 40%."]),
        ("Dr. Smith says 3 vs. 4. We agree.", ["Dr. Smith says 3 vs. 4."]),
        ("It costs 3.5 million, e.g. in Berlin. So what.", ["It costs 3.5 million, e.g. in Berlin."]),
        ("1. Rents are high.\n2. Wages are low.", []),
        ("- **Rents rose by 40%.**", ["**Rents rose by 40%.**"]),
        ("He said “it is 40%.” Then he left.", ["He said “it is 40%.”"]),
        ("家賃は40%上がった。次の文。", ["家賃は40%上がった。"]),
        ("", []),
    ],
    ids=shown,
)
def test_sentences_end_where_a_reader_would_end_them(text: str, found: list[str]) -> None:
    """Not at abbreviations or decimals; and a note after the full stop belongs to what stands before it."""
    assert claims_without_evidence(text) == found


@pytest.mark.parametrize(
    "text", ["(" * 20_000, "." * 20_000, "[" * 20_000, '."' * 10_000, "(A 1" * 5_000, "a " * 20_000]
)
def test_a_long_text_takes_no_long_time(text: str) -> None:
    """No text of a model can hold up the run."""
    started = time.process_time()
    claims_without_evidence(text)
    assert time.process_time() - started < 1
