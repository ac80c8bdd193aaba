"""Phases 4 to 6: what can be read off a debate once its answer stands; pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flowdebate.measures import agreement, claims_without_evidence
from flowdebate.patterns.consensus.schemas import Analytics, Dissent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.patterns.consensus.schemas import ConsensusOutput, Critique

__all__ = ("analysed",)

SEVERE = 0.7
"""From this severity on, an issue is a risk."""
_SHOWN = 10
"""Entries of a list that grows with the debate."""


def analysed(output: ConsensusOutput, seconds: float) -> Analytics:
    """What `output`, whose votes are counted, says about the debate that took `seconds`.

    It works on what was recorded; no model is asked. ValueError without a tally.
    """
    tally = output.tally
    if tally is None or output.outcome is None:
        message = "the votes were not counted"
        raise ValueError(message)
    leading = max(tally.counts.values(), default=0)
    others = {name: count for name, count in tally.counts.items() if count and name != output.winner}
    return Analytics(
        seconds=seconds,
        rounds=len(output.rounds),
        outcome=output.outcome,
        agreement=float(agreement(tally.counts, tally.eligible)) if leading else 0.0,
        dissent=[
            Dissent(agent=ballot.voter, choice=ballot.choice, reasoning=ballot.reasoning)
            for ballot in output.ballots
            if output.winner is not None and ballot.choice != output.winner
        ],
        split_opinions=[f"{name}: {count} of {tally.eligible}" for name, count in others.items()],
        risk_areas=_risks(output)[:_SHOWN],
        unsupported_claims={
            proposal.agent: claims
            for proposal in output.final_proposals
            if (claims := claims_without_evidence(proposal.text)[:_SHOWN])
        },
        insights=list(_insights(output))[:_SHOWN],
    )


def _last_critiques(output: ConsensusOutput) -> list[Critique]:
    return output.rounds[-1].critiques if output.rounds else []


def _risks(output: ConsensusOutput) -> list[str]:
    """Severe issues of the last round in the winning proposal (in all, without a winner), the most severe first."""
    about = [item for item in _last_critiques(output) if output.winner in (None, item.target)]
    severe = sorted((item for item in about if item.severity >= SEVERE), key=lambda item: -item.severity)
    return list(dict.fromkeys(issue for item in severe for issue in item.issues))


def _insights(output: ConsensusOutput) -> Iterator[str]:
    """What several critics suggested, and what the rounds did to the proposals."""
    suggested = Counter(
        " ".join(suggestion.split())
        for one in output.rounds
        for critique in one.critiques
        for suggestion in dict.fromkeys(critique.suggestions)
    )
    yield from (f"suggested {times} times: {text}" for text, times in suggested.most_common() if times > 1)
    measured = [one.convergence for one in output.rounds if one.convergence is not None]
    if measured:
        first, last = measured[0], measured[-1]
        yield f"similarity of the proposals: {first.similarity:.2f} after round 1, {last.similarity:.2f} at the end"
        if last.status == "stagnant":
            yield "the agents repeated themselves, and did not agree"
    severities = [[item.severity for item in one.critiques] for one in output.rounds if one.critiques]
    if len(severities) > 1:
        before, after = (sum(numbers) / len(numbers) for numbers in (severities[0], severities[-1]))
        yield f"mean severity of the critiques: {before:.2f} in the first round, {after:.2f} in the last"
