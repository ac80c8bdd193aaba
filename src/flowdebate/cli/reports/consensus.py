"""The Markdown of a consensus debate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.pages.consensus import about_ballot, about_critique, failure, outcome
from flowdebate.cli.report import escaped, losses, quoted, speaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flowdebate.cli.pages.consensus import ConsensusDocument
    from flowdebate.patterns.consensus.schemas import AgentFailure, Analytics, ConsensusRound, Proposal

__all__ = ("body",)


def body(document: ConsensusDocument) -> Iterator[str]:
    """Proposals, rounds, vote, outcome."""
    raw = document.raw
    yield from ("## Proposals", "")
    yield from _proposals(document, raw.proposals)
    yield from _failures(document.failures("proposal"))
    for one in raw.rounds:
        yield from _round(document, one)
    if raw.ballots or any(document.failures("vote")):
        yield from ("## Vote", "")
        yield from _listed((ballot.voter, about_ballot(ballot)) for ballot in raw.ballots)
        yield from _failures(document.failures("vote"))
    yield from losses(raw.judge_losses)
    found = outcome(raw)
    if found:
        yield from ("## Outcome", "")
        yield from _listed((label, text) for label, text in found if label != "Answer")
    if raw.answer is not None:
        yield from (quoted(raw.answer), "")
    if raw.analytics is not None:
        yield from _analytics(raw.analytics)


def _round(document: ConsensusDocument, one: ConsensusRound) -> Iterator[str]:
    yield from (f"## Round {one.round}", "")
    yield from _listed((f"{each.critic} on {each.target}", about_critique(each)) for each in one.critiques)
    yield from _failures(document.failures("critique", one.round))
    yield from _proposals(document, one.revisions)
    yield from _failures(document.failures("revision", one.round))


def _proposals(document: ConsensusDocument, proposals: Iterable[Proposal]) -> Iterator[str]:
    for proposal in proposals:
        yield from (speaker(proposal.agent, document.role(proposal.agent)), "", quoted(proposal.text), "")


def _failures(failures: Iterable[AgentFailure]) -> Iterator[str]:
    for each in failures:
        about, why = failure(each)
        yield from (f"*{escaped(about)}*: {escaped(why)}", "")


def _listed(parts: Iterable[tuple[str, str]]) -> Iterator[str]:
    lines = [f"- {speaker(label, ' '.join(text.split()))}" for label, text in parts]
    yield from (*lines, "") if lines else ()


def _analytics(found: Analytics) -> Iterator[str]:
    yield from _listed(("Risk", each) for each in found.risk_areas)
    yield from _listed(("Insight", each) for each in found.insights)
