"""Pure functions for numbering claims, looking up their quotes, and ruling on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from flowdebate._text import clean_text, is_blank
from flowdebate.prompts import as_seen
from flowdebate.sources.quotes import look_up_quote
from flowdebate.sources.source import Source

from .schemas import Claim, ClaimDraft, Evidence, Outcome, Ruling

if TYPE_CHECKING:
    from flowdebate.sources.quotes import VerifiedQuote

_LABEL = re.compile(r"\s*(?:Settled by|In the answer|Kind|Quote from [^:\n]{1,200}): ")
"""Pattern matching the label at the start of a prompt line; models copy it along with the quoted words."""
QUESTION = "question"
"""Source name for quotes taken from the question."""


def collect_claims(drafts: Mapping[str, Sequence[ClaimDraft]], answer: str) -> list[Claim]:
    """Number all critics' claims in order, merging equal claims and dropping blank ones.

    >>> draft = ClaimDraft(claim="The total is wrong.", kind="false", place="Total: 41")
    >>> [claim] = collect_claims({"ann": [draft], "bea": [draft]}, "Total: 40")
    >>> claim.id, claim.agent_names, claim.place_found
    ('C1', ['ann', 'bea'], False)
    """
    claims: dict[object, Claim] = {}
    for name, written in drafts.items():
        for draft in written:
            if is_blank(draft.claim):
                continue
            place = None if is_blank(draft.place or "") else clean_text(draft.place or "")
            key = as_seen(draft.claim), as_seen(place or "")
            if (equal := claims.get(key)) is not None:
                names = list(dict.fromkeys([*equal.agent_names, name]))
                claims[key] = equal.model_copy(update={"agent_names": names})
                continue
            claims[key] = Claim(
                id=f"C{len(claims) + 1}",
                agent_names=[name],
                claim=clean_text(draft.claim),
                kind=draft.kind,
                place=place,
                place_found=None if place is None else has_words(answer, place),
                settled_by=clean_text(draft.settled_by),
            )
    return [
        claim.model_copy(update={"why": "The answer does not contain the words that the claim is about."})
        if claim.place_found is False
        else claim
        for claim in claims.values()
    ]


def has_words(answer: str, place: str) -> bool:
    """Check whether the answer contains the words quoted by a claim, even if the quote is very short."""
    match = _look_up(place, answer)
    return match.status == "verified" or (match.status == "too_short" and as_seen(place) in as_seen(answer))


def _look_up(quote: str, answer: str) -> VerifiedQuote:
    return look_up_quote(quote, (Source.of("answer", answer),))


def find_evidence(quote: str, *, question: str, answer: str, sources: tuple[Source, ...] = ()) -> Evidence:
    """Look up a judge's quote in the sources, the question and the answer.

    >>> find_evidence("it rained on Monday", question="Did it rain?", answer="Yes, it rained on Monday.").start
    5
    """
    quote = _LABEL.sub("", quote, count=1) if _LABEL.match(quote) else quote
    matches = [look_up_quote(quote, sources)] if sources else []
    matches.append(look_up_quote(quote, (Source.of(QUESTION, question),)))
    material = next((match for match in matches if match.status == "verified"), None)
    inside = _look_up(quote, answer)
    is_inside = inside.status == "verified"
    return Evidence(
        quote=clean_text(quote),
        source=None if material is None else material.source,
        start=inside.spans[0].start if is_inside else None,
        end=inside.spans[-1].end if is_inside else None,
        is_short=inside.status == "too_short" and material is None,
    )


def final_ruling(claim: Claim, judged: Ruling | None, evidence: Sequence[Evidence]) -> tuple[Ruling, str]:
    """Return the final ruling on a claim and the basis for it.

    A claim holds if the judge upholds it and its quotes have been found: at least one in the material, or two at
    different places in the answer. Whether the quotes support the claim is up to the judge; this function only checks
    that they exist.
    """
    if claim.place_found is False:
        return "cannot_tell", claim.why
    if judged is None:
        return "cannot_tell", "The judge did not rule on it."
    if judged != "holds":
        return judged, ""
    if sources := dict.fromkeys(item.source for item in evidence if item.source is not None):
        return "holds", f"A quote is in: {', '.join(sources)}."
    inside = [item for item in evidence if item.start is not None]
    if any(_are_disjoint(one, other) for one, other in combinations(inside, 2)):
        return "holds", "Two quotes are in the answer."
    return "cannot_tell", f"The judge says that it holds, but {_missing(evidence)}."


def _are_disjoint(one: Evidence, other: Evidence) -> bool:
    first, second = sorted([(one.start or 0, one.end or 0), (other.start or 0, other.end or 0)])
    return first[1] <= second[0]


def _missing(evidence: Sequence[Evidence]) -> str:
    if not evidence:
        return "quotes nothing"
    if any(item.start is not None for item in evidence):
        return "quotes one passage of the answer alone"
    if all(item.is_short for item in evidence):
        return "its quotes are too short to show anything"
    return "its quotes do not exist"


def apply_rulings(
    claims: Iterable[Claim], rulings: Sequence[Any], *, question: str, answer: str, sources: tuple[Source, ...] = ()
) -> list[Claim]:
    """Return the claims with their rulings; if there are several rulings on a claim, the first one counts."""
    by_claim = {ruling.claim: ruling for ruling in reversed(rulings)}
    ruled = []
    for claim in claims:
        answered = by_claim.get(claim.id)
        quotes = [] if answered is None else [quote for quote in answered.quotes if not is_blank(quote)]
        evidence = [find_evidence(quote, question=question, answer=answer, sources=sources) for quote in quotes]
        judged = None if answered is None else answered.ruling
        ruling, why = final_ruling(claim, judged, evidence)
        reason = "" if answered is None else clean_text(answered.reason)
        update = {"ruling": ruling, "why": why, "judged": judged, "reason": reason, "evidence": evidence}
        ruled.append(claim.model_copy(update=update))
    return ruled


def decide(claims: Sequence[Claim], *, original: str, revision: str | None) -> Outcome:
    """Decide whether the answer stands.

    It stands if no claim holds. If a claim holds, the answer is revised or, if `revision` is missing or changes
    nothing, rejected.

    >>> decide([], original="Yes.", revision=None)
    'stands'
    """
    if not any(claim.ruling == "holds" for claim in claims):
        return "stands"
    is_other = not is_blank(revision or "") and as_seen(revision or "") != as_seen(original)
    return "revised" if is_other else "rejected"


def claims_text(claims: Sequence[ClaimDraft]) -> str:
    """Render a critic's claims as text, one per line."""
    lines = [f"- {' '.join(clean_text(draft.claim).split())}" for draft in claims if not is_blank(draft.claim)]
    return "\n".join(lines) or "Nothing is wrong."
