"""Relationships between agents and moments of a debate: pure functions of its output."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.measures import Flip
    from flowdebate.patterns.consensus.schemas import ConsensusOutput, Critique


SEVERE = 0.7
"""From this severity on, a critique is severe, and an issue a risk."""
_UPSET = 100.0
"""Points of ELO that a winner has to be behind."""

MomentKind = Literal["reversal", "clash", "deadlock", "breakthrough", "conversion", "comeback", "upset"]
"""A position was withdrawn or contradicted; two agents criticised each other severely; positions differed and agents
repeated themselves; proposals converged after they had not; an agent voted for a proposal that it had criticised
severely; the proposal that was criticised most in round 1 won; an agent won that was rated 100 points below another."""


class Relationship(WireModel):
    """How one agent dealt with another in a debate."""

    agent: str
    other: str
    critiques: int = 0
    """Critiques by `agent` of the proposals of `other`."""
    severity: Annotated[float, Field(ge=0, le=1)] | None = None
    """Their mean severity; None without critiques."""
    revised: int = 0
    """Critiques after which `other` revised its proposal in the same round."""
    endorsed: bool = False
    """Whether `agent` voted for the proposal of `other`."""
    agreed: bool | None = None
    """Whether both voted for the same proposal; None unless both votes are valid."""

    @property
    def weight(self) -> float:
        """The interaction weight, from -1 for opposition to 1 for support.

        Half a point for the same vote, and half for a vote for the other; less half for another vote, and less half of
        the mean severity.
        """
        opposed = float(self.agreed is False) + (self.severity or 0.0)
        return (float(self.agreed is True) + float(self.endorsed) - opposed) / 2


class Moment(WireModel):
    """A turning point of a debate."""

    kind: MomentKind
    round: int | None
    """None for moments of the vote."""
    agents: list[str]
    text: str
    """What happened, in one sentence."""


def relationships(output: ConsensusOutput) -> list[Relationship]:
    """The relationship of each agent to each other agent with which it had to do, in declared order."""
    valid = {proposal.agent for proposal in output.final_proposals}
    chosen = {ballot.voter: ballot.choice for ballot in output.ballots if ballot.choice in valid}
    made: dict[tuple[str, str], list[Critique]] = {}
    for critique in (critique for one in output.rounds for critique in one.critiques):
        made.setdefault((critique.critic, critique.target), []).append(critique)
    revised = {(one.round, revision.agent) for one in output.rounds for revision in one.revisions}
    names = dict.fromkeys([*(each.agent for each in output.proposals), *(ballot.voter for ballot in output.ballots)])
    found = []
    for agent, other in permutations(dict.fromkeys([*names, *(critic for critic, _ in made)]), 2):
        critiques = made.get((agent, other), [])
        relationship = Relationship(
            agent=agent,
            other=other,
            critiques=len(critiques),
            severity=_mean([critique.severity for critique in critiques]),
            revised=sum((critique.round, other) in revised for critique in critiques),
            endorsed=chosen.get(agent) == other,
            agreed=chosen[agent] == chosen[other] if agent in chosen and other in chosen else None,
        )
        if critiques or relationship.agreed is not None or relationship.endorsed:
            found.append(relationship)
    return found


def moments(
    output: ConsensusOutput, flips: Sequence[Flip] = (), ratings: Mapping[str, float] | None = None
) -> list[Moment]:
    """The moments of a debate, round by round, those of the vote last.

    `flips` are the agents' changes of mind, and `ratings` their ELO before the debate.
    """
    found = [*_reversals(flips), *_clashes(output), *_turns(output), *_of_vote(output, ratings or {})]
    return sorted(found, key=lambda moment: len(output.rounds) + 1 if moment.round is None else moment.round)


def _reversals(flips: Sequence[Flip]) -> Iterator[Moment]:
    for flip in flips:
        if flip.kind != "refinement":
            text = f"{flip.agent} went from {flip.before.answer!r} to {flip.after.answer!r}"
            yield Moment(kind="reversal", round=flip.after.round, agents=[flip.agent], text=text)


def _clashes(output: ConsensusOutput) -> Iterator[Moment]:
    for one in output.rounds:
        severe = {(item.critic, item.target) for item in one.critiques if item.severity >= SEVERE}
        for critic, target in one.edges:
            if (critic, target) in severe and (target, critic) in severe and critic < target:
                text = f"{critic} and {target} criticised each other severely"
                yield Moment(kind="clash", round=one.round, agents=[critic, target], text=text)


def _turns(output: ConsensusOutput) -> Iterator[Moment]:
    """The first deadlock, and the first convergence after a round without."""
    measured = [(one.round, one.convergence) for one in output.rounds if one.convergence is not None]
    names = [proposal.agent for proposal in output.final_proposals]
    stuck = next((number for number, found in measured if found.status == "stagnant"), None)
    if stuck is not None:
        text = "the agents repeated themselves, and did not agree"
        yield Moment(kind="deadlock", round=stuck, agents=names, text=text)
    for (_, before), (number, now) in pairwise(measured):
        if now.status == "converged" and before.status != "converged":
            text = f"the proposals converged: similarity {before.similarity:.2f} became {now.similarity:.2f}"
            yield Moment(kind="breakthrough", round=number, agents=names, text=text)
            return


def _of_vote(output: ConsensusOutput, ratings: Mapping[str, float]) -> Iterator[Moment]:
    severe = {(item.critic, item.target) for one in output.rounds for item in one.critiques if item.severity >= SEVERE}
    for ballot in output.ballots:
        if ballot.choice is not None and (ballot.voter, ballot.choice) in severe:
            text = f"{ballot.voter} voted for {ballot.choice}, whose proposal it had criticised severely"
            yield Moment(kind="conversion", round=None, agents=[ballot.voter, ballot.choice], text=text)
    winner = output.winner
    if winner is None:
        return
    first: dict[str, list[float]] = {}
    for item in output.rounds[0].critiques if output.rounds else ():
        first.setdefault(item.target, []).append(item.severity)
    means = {target: _mean(severities) or 0.0 for target, severities in first.items()}
    others = [mean for target, mean in means.items() if target != winner]
    if others and means.get(winner, 0.0) >= SEVERE and means[winner] > max(others):
        text = f"{winner} won with the proposal that was criticised most severely in round 1"
        yield Moment(kind="comeback", round=None, agents=[winner], text=text)
    best = max(ratings, key=lambda name: ratings[name], default=winner)
    if best != winner and winner in ratings and ratings[best] - ratings[winner] >= _UPSET:
        text = f"{winner} ({ratings[winner]:.0f}) won against {best} ({ratings[best]:.0f})"
        yield Moment(kind="upset", round=None, agents=[winner, best], text=text)


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
