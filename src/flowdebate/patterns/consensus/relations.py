"""Analytics, relationships between agents, and key moments of a finished debate, all computed from its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations

from flowdebate.measures import Flip, agreement

from .schemas import Analytics, ConsensusOutput, Critique, Dissent, Moment, Relationship

_SEVERE = 0.7
"""Minimum severity at which a critique counts as severe and its issues are listed as risks."""
_UPSET = 100.0  # with this difference in rating, the stronger player is expected to win 64 games out of 100
"""Minimum gap in Elo ratings for a win by the lower-rated agent to count as a surprise."""
_SHOWN = 10
"""Maximum length of lists that would otherwise grow with the debate."""


def analyze(output: ConsensusOutput, seconds: float) -> Analytics:
    """Compute a debate's analytics from its output and its duration in `seconds`.

    Raises ValueError if the votes were not counted.
    """
    tally, winner = output.tally, output.winner
    if tally is None or output.outcome is None:
        message = "the votes were not counted"
        raise ValueError(message)
    last = output.rounds[-1].critiques if output.rounds else []
    severe = [item for item in last if item.severity >= _SEVERE and winner in (None, item.target)]
    risks = dict.fromkeys(issue for item in sorted(severe, key=lambda item: -item.severity) for issue in item.issues)
    return Analytics(
        seconds=seconds,
        rounds=len(output.rounds),
        outcome=output.outcome,
        agreement=float(agreement(tally.counts, tally.eligible)) if any(tally.counts.values()) else 0.0,
        dissent=[
            Dissent(agent=ballot.voter, choice=ballot.choice, reasoning=ballot.reasoning)
            for ballot in output.ballots
            if winner is not None and ballot.choice != winner
        ],
        split_opinions=[
            f"{name}: {count} of {tally.eligible}" for name, count in tally.counts.items() if count and name != winner
        ],
        risk_areas=list(risks)[:_SHOWN],
        insights=list(_find_insights(output))[:_SHOWN],
        relationships=relationships(output),
    )


def _find_insights(output: ConsensusOutput) -> Iterator[str]:
    """List suggestions made by several critics, and describe how the rounds changed the proposals."""
    suggested = Counter(
        " ".join(suggestion.split())
        for critique in _critiques(output)
        for suggestion in dict.fromkeys(critique.suggestions)  # count a suggestion only once per critique
    )
    yield from (f"suggested {times} times: {text}" for text, times in suggested.most_common() if times > 1)
    measured = [one.convergence for one in output.rounds if one.convergence is not None]
    if measured:
        first, last = measured[0], measured[-1]
        yield f"similarity of the proposals: {first.similarity:.2f} after round 1, {last.similarity:.2f} at the end"
        if last.status == "stagnant":
            yield "the agents repeated themselves, and did not agree"
    means = [_mean([item.severity for item in one.critiques]) for one in output.rounds if one.critiques]
    if len(means) > 1:
        yield f"mean severity of the critiques: {means[0]:.2f} in the first round, {means[-1]:.2f} in the last"


def relationships(output: ConsensusOutput) -> list[Relationship]:
    """Describe the relationships between all agents that interacted, in declared order."""
    valid = {proposal.agent for proposal in output.final_proposals}
    choices = {ballot.voter: ballot.choice for ballot in output.ballots if ballot.choice in valid}
    by_pair: dict[tuple[str, str], list[Critique]] = {}
    for critique in _critiques(output):
        by_pair.setdefault((critique.critic, critique.target), []).append(critique)
    revised = {(one.round, revision.agent) for one in output.rounds for revision in one.revisions}
    # agents without a proposal can still criticize and vote
    names = [proposal.agent for proposal in output.proposals] + [ballot.voter for ballot in output.ballots]
    relations = []
    for agent, other in permutations(dict.fromkeys([*names, *(critic for critic, _ in by_pair)]), 2):
        critiques = by_pair.get((agent, other), [])
        relationship = Relationship(
            agent=agent,
            other=other,
            critiques=len(critiques),
            severity=_mean([critique.severity for critique in critiques]) if critiques else None,
            revised=sum((critique.round, other) in revised for critique in critiques),
            endorsed=choices.get(agent) == other,
            agreed=choices[agent] == choices[other] if agent in choices and other in choices else None,
        )
        if critiques or relationship.agreed is not None or relationship.endorsed:
            relations.append(relationship)
    return relations


def moments(
    output: ConsensusOutput, flips: Sequence[Flip] = (), ratings: Mapping[str, float] | None = None
) -> list[Moment]:
    """Return the key moments of a debate, round by round and ending with the vote.

    `flips` are the agents' changes of mind, and `ratings` are their Elo ratings before the debate.
    """
    all_moments = [
        Moment(
            kind="reversal",
            round=flip.after.round,
            agents=[flip.agent],
            text=f"{flip.agent} went from {flip.before.answer!r} to {flip.after.answer!r}",
        )
        for flip in flips
        if flip.kind != "refinement"
    ]
    for one in output.rounds:
        severe = _severe_pairs(one.critiques)
        for critic, target in one.edges:
            if critic < target and {(critic, target), (target, critic)} <= severe:
                text = f"{critic} and {target} criticized each other severely"
                all_moments.append(Moment(kind="clash", round=one.round, agents=[critic, target], text=text))
    all_moments += [*_find_turns(output), *_find_surprises(output, ratings or {})]
    return sorted(all_moments, key=lambda moment: len(output.rounds) + 1 if moment.round is None else moment.round)


def _find_turns(output: ConsensusOutput) -> Iterator[Moment]:
    """Find the first deadlock, and the first convergence after a round without convergence."""
    measured = [(one.round, one.convergence) for one in output.rounds if one.convergence is not None]
    names = [proposal.agent for proposal in output.final_proposals]
    stuck = next((number for number, convergence in measured if convergence.status == "stagnant"), None)
    if stuck is not None:
        text = "the agents repeated themselves, and did not agree"
        yield Moment(kind="deadlock", round=stuck, agents=names, text=text)
    for (_, before), (number, now) in pairwise(measured):
        if now.status == "converged" and before.status != "converged":
            text = f"the proposals converged: similarity {before.similarity:.2f} became {now.similarity:.2f}"
            yield Moment(kind="breakthrough", round=number, agents=names, text=text)
            return


def _find_surprises(output: ConsensusOutput, ratings: Mapping[str, float]) -> Iterator[Moment]:
    """Find key moments in the vote."""
    severe, winner = _severe_pairs(_critiques(output)), output.winner
    for ballot in output.ballots:
        if ballot.choice is not None and (ballot.voter, ballot.choice) in severe:
            text = f"{ballot.voter} voted for {ballot.choice}, whose proposal it had criticized severely"
            yield Moment(kind="conversion", round=None, agents=[ballot.voter, ballot.choice], text=text)
    if winner is None:
        return
    # only round 1, since later critiques concern revised proposals
    first: dict[str, list[float]] = {}
    for item in output.rounds[0].critiques if output.rounds else ():
        first.setdefault(item.target, []).append(item.severity)
    means = {target: _mean(severities) for target, severities in first.items()}
    other_means = [mean for target, mean in means.items() if target != winner]
    if other_means and means.get(winner, 0.0) >= _SEVERE and means[winner] > max(other_means):
        text = f"{winner} won with the proposal that was criticized most severely in round 1"
        yield Moment(kind="comeback", round=None, agents=[winner], text=text)
    best = max(ratings, key=lambda name: ratings[name], default=winner)
    if best != winner and winner in ratings and ratings[best] - ratings[winner] >= _UPSET:
        text = f"{winner} ({ratings[winner]:.0f}) won against {best} ({ratings[best]:.0f})"
        yield Moment(kind="upset", round=None, agents=[winner, best], text=text)


def _critiques(output: ConsensusOutput) -> list[Critique]:
    return [critique for one in output.rounds for critique in one.critiques]


def _severe_pairs(critiques: Iterable[Critique]) -> set[tuple[str, str]]:
    """Return the (critic, target) pairs of severe critiques."""
    return {(item.critic, item.target) for item in critiques if item.severity >= _SEVERE}


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
