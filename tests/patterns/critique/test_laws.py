"""Invariants of a critique, whatever the critics, the judge and the author answer."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowdebate import critique
from flowdebate.patterns.critique import ClaimDraft, apply_rulings, collect_claims, decide, final_ruling, find_evidence
from flowdebate.patterns.critique.schemas import MAX_QUOTES, Claim, Evidence, rulings_on
from flowdebate.testing import FunctionModel

from .critiques import QUESTION, ids_in

WORDS = ("rent", "roof", "cat", "thirty", "days", "paid", "never", "snow")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
"""Sentences from a small vocabulary, so that a generated quote often occurs in a generated text."""
quotes = st.lists(sentences, max_size=MAX_QUOTES)
rulings = st.sampled_from(["holds", "does_not_hold", "cannot_tell"])
drafts = st.lists(
    st.builds(
        ClaimDraft,
        claim=sentences,
        kind=st.sampled_from(["false", "contradiction", "reasoning", "missing"]),
        place=st.none() | sentences,
    ),
    max_size=4,
)


def plain_words(text: str) -> list[str]:
    """Split a generated text into words without using the library's lookup."""
    return re.findall(r"\w+", text.casefold())


def contains(text: str, quote: str) -> bool:
    """Return whether `quote` occurs word for word in `text` and is long enough to be evidence."""
    words, parts = plain_words(text), plain_words(quote)
    starts = range(len(words) - len(parts) + 1)
    return len(parts) >= 3 and any(words[at : at + len(parts)] == parts for at in starts)


@given(
    answer=sentences,
    source=sentences,
    claims=drafts,
    ruled=st.lists(st.tuples(rulings, quotes), max_size=4),
    critics=st.integers(1, 2),
)
def test_claims_with_invented_quotes_never_change_an_answer(
    answer: str, source: str, claims: list[ClaimDraft], ruled: list[tuple[str, list[str]]], critics: int
) -> None:
    def reply(request: Any) -> Any:
        if "-critic-" in request.block:
            return {"claims": [claim.to_wire() for claim in claims]}
        if request.block.endswith("-judge"):
            pairs = zip(ids_in(request), ruled, strict=False)
            answers = [
                {"claim": name, "reason": "-", "ruling": word, "quotes": quoted} for name, (word, quoted) in pairs
            ]
            return {"rulings": answers}
        return "Another answer altogether."

    names = [{"name": "ann"}, {"name": "bea"}][:critics]
    pattern = critique(name="x", answer=answer, critics=names, sources={"a.md": source})
    result = pattern.run_sync(QUESTION, model=FunctionModel(reply))
    raw = result.output
    for claim in raw.claims:
        if claim.ruling != "holds":
            continue
        evidence_quotes = [item.quote for item in claim.evidence]
        assert claim.judged == "holds"
        assert claim.place is None or claim.place.casefold() in answer.casefold() or contains(answer, claim.place)
        assert any(contains(f"{source}", quote) or contains(QUESTION, quote) for quote in evidence_quotes) or (
            len({quote for quote in evidence_quotes if contains(answer, quote)}) >= 2
        )
    assert (raw.answer != answer) == any(claim.ruling == "holds" for claim in raw.claims)
    assert critics <= result.usage.calls <= critics + 2
    assert raw.outcome == ("revised" if raw.upheld else "stands")


@given(
    answers=st.sampled_from([0, 1]),
    critics=st.integers(1, 3),
    claims=drafts,
    word=rulings,
    revisions=st.sampled_from([0, 1]),
)
def test_number_of_roles_limits_the_number_of_calls(
    answers: int, critics: int, claims: list[ClaimDraft], word: str, revisions: int
) -> None:
    called: list[str] = []

    def reply(request: Any) -> Any:
        called.append(request.block)
        if "-critic-" in request.block:
            return {"claims": [claim.to_wire() for claim in claims]}
        if request.block.endswith("-judge"):
            ruling_list = [
                {"claim": name, "reason": "-", "ruling": word, "quotes": [QUESTION]} for name in ids_in(request)
            ]
            return {"rulings": ruling_list}
        return f"Rent roof cat {len(called)}."

    names = [{"name": f"critic {number}"} for number in range(critics)]
    pattern = critique(name="x", answer=None if answers else "Rent roof cat.", critics=names, revise=bool(revisions))
    result = pattern.run_sync(QUESTION, model=FunctionModel(reply))
    revised = result.output.outcome == "revised"
    judged = called.count("x-judge")
    assert called.count("x-author") == answers + revised
    assert judged == any(claim.place_found is not False for claim in result.output.claims)
    assert len(called) == answers + critics + judged + revised
    assert revised <= revisions


@given(answer=sentences, claims=drafts, other=drafts)
def test_each_claim_is_numbered_once_and_keeps_its_critics(
    answer: str, claims: list[ClaimDraft], other: list[ClaimDraft]
) -> None:
    collected = collect_claims({"ann": claims, "bea": other}, answer)
    assert [claim.id for claim in collected] == [f"C{number + 1}" for number in range(len(collected))]
    assert {claim.claim for claim in collected} == {draft.claim for draft in [*claims, *other]}
    for claim in collected:
        assert (claim.place_found is None) == (claim.place is None)
        assert claim.place is None or claim.place_found == (contains(answer, claim.place) or claim.place in answer), (
            claim
        )


@given(quote=sentences, answer=sentences, source=sentences)
def test_evidence_matches_a_plain_search(quote: str, answer: str, source: str) -> None:
    from flowdebate.sources.source import Source

    evidence = find_evidence(quote, question="What?", answer=answer, sources=(Source.of("a.md", source),))
    long = len(" ".join(plain_words(quote))) >= 10
    assert (evidence.source == "a.md") == (long and contains(source, quote))
    assert (evidence.start is not None) == (long and contains(answer, quote))


@given(st.lists(st.tuples(rulings, quotes), min_size=1, max_size=3))
def test_only_the_first_ruling_on_a_claim_counts(ruled: list[tuple[str, list[str]]]) -> None:
    [claim] = collect_claims({"ann": [ClaimDraft(claim="cat", kind="false")]}, "snow")
    form: Any = rulings_on(("C1",))
    given_rulings = [
        form(rulings=[{"claim": "C1", "reason": "-", "quotes": quoted, "ruling": word}]).rulings[0]
        for word, quoted in ruled
    ]
    [result] = apply_rulings([claim], given_rulings, question="rent roof cat", answer="snow")
    assert result.judged == ruled[0][0]


@given(judged=st.none() | rulings, places=st.lists(st.sampled_from(["source", "answer", "nowhere"]), max_size=3))
def test_claims_without_evidence_never_hold(judged: Any, places: list[str]) -> None:
    """Evidence is necessary for a claim to hold, but not sufficient."""
    evidence = [
        Evidence(
            quote="-",
            source="a.md" if place == "source" else None,
            start=10 * index if place == "answer" else None,
            end=10 * index + 5 if place == "answer" else None,
        )
        for index, place in enumerate(places)
    ]
    claim = Claim(id="C1", agent_names=["ann"], claim="-", kind="false")
    ruling, why = final_ruling(claim, judged, evidence)
    proven = "source" in places or places.count("answer") >= 2
    assert (ruling == "holds") == (judged == "holds" and proven)
    assert ruling in (judged, "cannot_tell")
    assert bool(why) == (judged in (None, "holds"))


@given(ruling=rulings, revision=st.none() | sentences)
def test_decision_depends_only_on_rulings_and_revision(ruling: Any, revision: str | None) -> None:
    """The decision is computed by a fixed rule, without asking a model."""
    claim = Claim(id="C1", agent_names=["ann"], claim="-", kind="false", ruling=ruling)
    outcome = decide([claim], original="rent", revision=revision)
    assert outcome == ("stands" if ruling != "holds" else "rejected" if revision in (None, "rent") else "revised")
