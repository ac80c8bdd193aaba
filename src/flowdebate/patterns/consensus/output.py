"""Output of a consensus debate: the lifecycle that ends in it, its parts, and its analytics."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.errors import error_text
from flowdebate.measures import agreement, claims_without_evidence
from flowdebate.patterns.consensus.archive import give_feedback
from flowdebate.patterns.consensus.events import DebateEnded, DebateStarted
from flowdebate.patterns.consensus.relations import SEVERE, relationships
from flowdebate.patterns.consensus.rounds import early_end, time_is_up
from flowdebate.patterns.consensus.schemas import (
    AgentFailure,
    Analytics,
    ConsensusInput,
    ConsensusOutput,
    Dissent,
    Feedback,
)
from flowdebate.patterns.consensus.vote import confidence_heard, strength_heard
from flowdebate.patterns.output import publish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.blocks.outline import Outline
    from flowdebate.patterns.consensus.assembly import ConsensusOptions
    from flowdebate.patterns.consensus.schemas import ConsensusRound, ConsensusState, Critique
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


_SHOWN = 10
"""Entries of a list that grows with the debate."""
_PHASES = ("proposal", "critique", "revision", "poll", "vote")


class ConsensusLifecycle(Block[ConsensusInput, ConsensusOutput]):
    """Runs the phases within the debate's time; then builds the output, with analytics and feedback."""

    def __init__(self, options: ConsensusOptions, phases: Block[Any, Any]) -> None:
        super().__init__(phases.name, resources=phases.resources, hidden=phases.hidden)
        self._options = options
        self._phases = phases

    async def act(self, value: ConsensusInput, ctx: Context, /) -> ConsensusOutput:
        began = time.perf_counter()
        names, path = tuple(self._options.names), ctx.scope.handle.path
        ctx.emit(DebateStarted(task=value.task, agents=names, max_rounds=self._options.max_rounds, path=path))
        error: str | None = None
        try:
            await self._run_phases(value, ctx)
            return await self._finished(ctx, began)
        except BaseException as failure:
            error = error_text(failure)
            raise
        finally:
            state: ConsensusState = ctx.scope.handle.state
            ctx.emit(DebateEnded(outcome=state.outcome, rounds=len(state.rounds), error=error, path=path))

    async def _run_phases(self, value: ConsensusInput, ctx: Context) -> None:
        """Run the phases; if the debate's time is up first, the output contains what was done by then."""
        time_limit = asyncio.timeout(self._options.timeout)
        try:
            async with time_limit:
                await self._phases.act(value, ctx)
        except Exception:
            if not time_limit.expired():
                raise
            if ctx.scope.handle.state.tally is None:
                time_is_up(ctx, self._options.timeout)
                ctx.run.degrade("limit")

    async def _finished(self, ctx: Context, began: float) -> ConsensusOutput:
        state: ConsensusState = ctx.scope.handle.state
        status: RunStatus = "degraded" if state.losses or state.problems else "complete"
        if state.tally is None or not state.tally.valid:
            status = "limit" if state.tally is None else "no_verdict"
        output = build_output(self._options, ctx, status)
        if output.tally is not None:
            output = await self._with_aftermath(output, ctx, began)
        publish(output, ctx)
        return output

    async def _with_aftermath(self, output: ConsensusOutput, ctx: Context, began: float) -> ConsensusOutput:
        """`output` with analytics and feedback; a failure of either does not change the answer."""
        problems = list(ctx.scope.handle.state.problems)
        try:
            output = output.model_copy(update={"analytics": analyse(output, time.perf_counter() - began)})
        except Exception as error:  # noqa: BLE001 - the answer is there already
            problems.append(f"analytics: {one_line(error_text(error))}")
        try:
            feedback = await give_feedback(self._options, output, ctx)
        except Exception as error:  # noqa: BLE001 - the answer is there already
            feedback = Feedback(problems=[f"feedback: {one_line(error_text(error))}"])
        feedback = feedback.model_copy(update={"problems": [*problems, *feedback.problems]})
        return output.model_copy(update={"feedback": feedback})

    def outline(self) -> Outline:
        return self._phases.outline()


def build_output(options: ConsensusOptions, ctx: Context, status: RunStatus) -> ConsensusOutput:
    """The output of the debate around a step as it is now; lists are in declared order, not in order of arrival."""
    state: ConsensusState = ctx.scope.handle.state
    names = options.names
    counted = state.tally
    winner = None if counted is None else counted.winner
    return ConsensusOutput(
        task=state.question,
        outcome=state.outcome,
        answer=None if winner is None else state.proposals[winner].text,
        winner=winner,
        strength=None if counted is None else strength_heard(counted, heard=len(state.proposals)),
        confidence=0.0 if counted is None else confidence_heard(counted, heard=len(state.proposals)),
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
        status=status,
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
            "poll": sorted(one.poll, key=lambda ballot: place[ballot.voter]),
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
        relationships=relationships(output),
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
