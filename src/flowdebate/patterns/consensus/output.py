"""Output of a consensus debate, and what can be read off it; pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flowdebate.measures import agreement, claims_without_evidence, strength
from flowdebate.patterns.consensus.phases.ending import early_end
from flowdebate.patterns.consensus.schemas import AgentFailure, Analytics, ConsensusOutput, Dissent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.consensus.schemas import ConsensusRound, ConsensusState, Critique
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "analyse",
    "build_output",
)

SEVERE = 0.7
"""From this severity on, an issue is a risk."""
_SHOWN = 10
"""Entries of a list that grows with the debate."""
_PHASES = ("proposal", "critique", "revision", "vote")


def build_output(options: Options, ctx: Context, status: RunStatus) -> ConsensusOutput:
    """The output of the debate around a step as it is now, in declared order, whatever order answers came in."""
    state: ConsensusState = ctx.sequencer.state
    names = options.names
    counted = state.tally
    winner = None if counted is None else counted.winner
    return ConsensusOutput(
        task=state.question,
        outcome=state.outcome,
        answer=None if winner is None else state.proposals[winner].text,
        winner=winner,
        strength=None if counted is None else strength(counted.counts, eligible=counted.eligible),
        confidence=0.0 if counted is None else counted.confidence,
        context=state.context,
        proposals=[state.first[name] for name in names if name in state.first],
        rounds=[_ordered(one, names) for one in state.rounds],
        final_proposals=[state.proposals[name] for name in names if name in state.proposals],
        ballots=[state.ballots[name] for name in names if name in state.ballots],
        tally=counted,
        early_end=early_end(state),
        failures=sorted(state.failures, key=lambda failure: _place(failure, names)),
        judge_losses=[loss for loss in state.losses if not isinstance(loss, AgentFailure)],
        stages=list(state.stages),
        status="failed" if status == "running" else status,
        seed=ctx.seed,
    )


def _ordered(one: ConsensusRound, names: Sequence[str]) -> ConsensusRound:
    order = {edge: index for index, edge in enumerate(one.edges)}
    place = {name: index for index, name in enumerate(names)}
    return one.model_copy(
        update={
            "critiques": sorted(one.critiques, key=lambda critique: order[critique.critic, critique.target]),
            "revisions": sorted(one.revisions, key=lambda revised: place[revised.agent]),
            "enough": sorted(one.enough, key=place.__getitem__),
        }
    )


def _place(failure: AgentFailure, names: Sequence[str]) -> tuple[int, int, int, int]:
    target = -1 if failure.target is None else names.index(failure.target)
    when = failure.round + (failure.phase == "vote")  # votes come after the last round
    return when, _PHASES.index(failure.phase), names.index(failure.agent), target


def analyse(output: ConsensusOutput, seconds: float) -> Analytics:
    """Analytics of a debate that took `seconds`, from its output alone; ValueError if the votes were not counted."""
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
    """Severe issues of the last round in the winning proposal, or in all without a winner, the most severe first."""
    about = [item for item in _last_critiques(output) if output.winner in (None, item.target)]
    severe = sorted((item for item in about if item.severity >= SEVERE), key=lambda item: -item.severity)
    return list(dict.fromkeys(issue for item in severe for issue in item.issues))


def _insights(output: ConsensusOutput) -> Iterator[str]:
    """Suggestions of several critics, and the effect of the rounds on the proposals."""
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
