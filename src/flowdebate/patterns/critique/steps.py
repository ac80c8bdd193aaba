"""Steps of a critique: the author's turns, a critic's turn, the judge's rulings, and the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate._text import clean_text, is_blank
from flowdebate.blocks.base import Block, Outline, Wrapped, merge_resources
from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.output import publish, status_of
from flowdebate.chassis.rounds import check_quorum
from flowdebate.chassis.state import Recovery, RoundsEnded, accepted, as_model, state_of
from flowdebate.chassis.turn import MISSING, Turn, TurnTask, ask, record_failure, take_turn

from .claims import apply_rulings, claims_text, collect_claims, decide
from .events import AnswerDecided, AnswerGiven, ClaimsMade, ClaimsRuled
from .schemas import (
    AUTHOR,
    Claim,
    ClaimDraft,
    Claims,
    ClaimsRequest,
    CritiqueEntry,
    CritiqueInput,
    CritiqueState,
    RulingsRequest,
    StopReason,
)

if TYPE_CHECKING:
    from flowdebate.chassis.spec import Loop
    from flowdebate.runs.context import Context

    from .options import CritiqueOptions

MakeJudge: TypeAlias = "Callable[[tuple[str, ...]], Block[Any, Any]]"
"""Factory for a block that rules on the claims with the given ids."""
_CACHED_JUDGES = 32


class Answering(Block[Any, None]):
    """Step that takes the answer from the input or the options, or has the author write it."""

    def __init__(self, loop: Loop[CritiqueOptions], turn: Turn | None) -> None:
        """Store the author's `turn`, which is None if the options contain an answer."""
        resources, hidden = ({}, {}) if turn is None else (turn.resources, turn.hidden)
        super().__init__(f"{loop.name}-answer", resources=resources, hidden=hidden)
        self._loop, self._turn = loop, turn

    async def act(self, value: CritiqueInput, ctx: Context, /) -> None:
        answer = self._loop.options.answer if value.answer is None else value.answer
        handle = ctx.scope.handle
        if answer is not None:
            handle.update(answer=clean_text(answer), is_given=True)
            ctx.emit(AnswerGiven(answer=clean_text(answer)))
        elif self._turn is not None:
            await self._turn(value, ctx)
            entries = ctx.scope.handles["transcript"].state.entries
            handle.update(answer=entries[-1].text if entries else None)
        handle.deadline = None  # the author's time limit no longer applies
        state = state_of(ctx, CritiqueState)
        check_quorum(state, [AUTHOR] if state.answer is not None else [], quorum=1, block=ctx.block)
        if is_answered(ctx):
            self._loop.open_round(ctx, 2)

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="handler") if self._turn is None else self._turn.outline()


def is_answered(ctx: Context) -> bool:
    """Check whether there is an answer to criticize."""
    return not is_blank(state_of(ctx, CritiqueState).answer or "")


class CriticTurn(Block[Any, None]):
    """A critic's turn, recorded as a task in the audit trail; it is skipped if there is no answer to criticize.

    If the critic's provider fails permanently, the next of `speakers` criticizes the answer. If none is left, the turn
    is skipped, provided that `failures` allows it.
    """

    def __init__(
        self, loop: Loop[CritiqueOptions], agent_name: str, *, speakers: Sequence[Block[Any, Any]], custom: bool
    ) -> None:
        shared, hidden = merge_resources(f"critic {agent_name!r}", speakers, closed=speakers)
        super().__init__(f"{loop.name}-turn-{agent_name}", resources=shared, hidden=hidden)
        self._speakers, self._agent_name, self._custom = speakers, agent_name, custom
        self._failures = loop.failures

    async def act(self, _: object, ctx: Context, /) -> None:
        if not is_answered(ctx):
            return
        state, name = state_of(ctx, CritiqueState), self._agent_name
        request = ClaimsRequest(question=state.question, answer=state.answer or "")

        async def criticize(block: Block[Any, Any], task: TurnTask) -> ClaimsMade:
            answer = await ask(block, request, ctx, self._failures)
            task.end_review()
            read = partial(read_claims, answer, block=block.name)
            claims = await accepted(read, ctx, returns=list[ClaimDraft], custom=self._custom)
            ctx.scope.handle.update(drafts={**state_of(ctx, CritiqueState).drafts, name: claims})
            task.complete([claim.to_wire() for claim in claims])
            return ClaimsMade(block=block.name, agent_name=name, claims=claims)

        def lose(error: Exception, instead: Recovery) -> None:
            record_failure(error, ctx, block=self._speakers[0].name, role="critic", name=name, instead=instead)

        report = await take_turn(
            ctx,
            self._speakers,
            criticize,
            goal="Criticize the answer",
            metadata={"round": 2, "phase": request.kind},
            failures=self._failures,
            lose=lose,
            round=2,
            agent_name=name,
            phase=request.kind,
        )
        if report is not None:
            ctx.emit(report)

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._speakers[0].outline(),))


def read_claims(answer: object, *, block: str) -> list[ClaimDraft]:
    """Parse a critic's claims, which may be a bare list; raise OutputError, naming the block, if they are invalid."""
    report = {"claims": answer} if isinstance(answer, (list, tuple)) else answer
    return [
        draft.model_copy(
            update={name: clean_text(text) for name, text in draft.model_dump().items() if isinstance(text, str)}
        )
        for draft in as_model(report, Claims, block=block).claims
    ]


def gather_claims(loop: Loop[CritiqueOptions]) -> Handler[Any, None]:
    """Create the block that runs after the critics and checks the quorum.

    The block numbers the claims in the critics' declared order.
    """

    @handler(name=f"{loop.name}-gather-claims", resources={"transcript": loop.transcript})
    def gather(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state = state_of(ctx, CritiqueState)
        if not is_answered(ctx):
            return
        if state.losses:
            check_quorum(state, list(state.drafts), quorum=loop.failures.least, block=ctx.block)
        # added only now, because critics reading the transcript would otherwise see each other's claims
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(*entries_of_critics(loop, state)))
        ctx.scope.handle.update(claims=claims_so_far(loop, state))

    return gather


def _drafts_in_order(loop: Loop[CritiqueOptions], state: CritiqueState) -> dict[str, list[ClaimDraft]]:
    return {name: state.drafts[name] for name in loop.names if name in state.drafts}


def entries_of_critics(loop: Loop[CritiqueOptions], state: CritiqueState) -> list[CritiqueEntry]:
    """Return the transcript entries of all critics that answered, in declared order."""
    drafts = _drafts_in_order(loop, state)
    return [CritiqueEntry(round=2, agent_name=name, text=claims_text(claims)) for name, claims in drafts.items()]


def claims_so_far(loop: Loop[CritiqueOptions], state: CritiqueState) -> list[Claim]:
    """Return the claims, including their rulings once the judge has ruled."""
    return list(state.claims) or collect_claims(_drafts_in_order(loop, state), state.answer or "")


class Judging(Block[Any, None]):
    """Step that has the judge rule on the claims, and looks up the judge's quotes.

    Claims that quote words missing from the answer are not shown to the judge. If no other claims remain, the judge is
    not called.
    """

    def __init__(self, loop: Loop[CritiqueOptions], make: MakeJudge, *, custom: bool) -> None:
        self._make = lru_cache(maxsize=_CACHED_JUDGES)(make)
        # any id will do, because the claims do not affect the block's resources or outline
        judge = self._make(("C1",))
        super().__init__(f"{loop.name}-rule", resources=judge.resources, hidden=judge.hidden)
        self._acting = [judge]  # used by `seats`
        self._loop, self._custom = loop, custom

    async def act(self, _: object, ctx: Context, /) -> None:
        state = state_of(ctx, CritiqueState)
        answer = state.answer or ""
        claims = tuple(claim for claim in state.claims if claim.place_found is not False)
        if not claims:
            ctx.scope.handle.update(is_ruled=is_answered(ctx))
            if state.claims:
                ctx.emit(ClaimsRuled(block=self._acting[0].name, claims=list(state.claims)))
            return
        judge = self._make(tuple(claim.id for claim in claims))
        request = RulingsRequest(question=state.question, answer=answer, claims=claims)
        response = await judge(request, ctx.below(judge))
        if response is MISSING:
            return
        material = self._loop.material
        sources = () if material is None else material.of_run(ctx)

        def read() -> list[Claim]:
            fields = {"rulings": response} if isinstance(response, (list, tuple)) else response
            rulings: Any = as_model(fields, request.answer_schema(), block=judge.name)
            return apply_rulings(state.claims, rulings.rulings, question=state.question, answer=answer, sources=sources)

        ruled = await accepted(read, ctx, returns=list[Claim], custom=self._custom)
        ctx.scope.handle.update(claims=ruled, is_ruled=True)
        ctx.emit(ClaimsRuled(block=judge.name, claims=ruled))

    def outline(self) -> Outline:
        return self._acting[0].outline()


class Revising(Wrapped):
    """Step that has the author revise the answer if a claim holds."""

    def __init__(self, turn: Turn, loop: Loop[CritiqueOptions]) -> None:
        super().__init__(turn)
        self._loop = loop

    async def act(self, value: object, ctx: Context, /) -> None:
        if not state_of(ctx, CritiqueState).upheld:
            return
        self._loop.open_round(ctx, 3)
        await self._inner(value, ctx)
        ctx.scope.handle.deadline = None
        entry = ctx.scope.handles["transcript"].state.entries[-1]
        if entry.round == 3:  # noqa: PLR2004 - the revised answer, unless the turn was skipped
            ctx.scope.handle.update(revision=entry.text)


def build_critique(loop: Loop[CritiqueOptions]) -> Handler[Any, Any]:
    """Create the block that decides on the answer and publishes the raw output."""

    @handler(name=f"{loop.name}-decide")
    def build(_: object, ctx: Context) -> object:
        state = state_of(ctx, CritiqueState)
        reason = _stop_reason(state)
        ctx.scope.handle.update(stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason))
        raw: Any = loop.make_output(ctx, status_of(ctx))
        if raw.outcome is not None:
            ctx.emit(AnswerDecided(outcome=raw.outcome, answer=raw.answer))
        else:
            ctx.run.degrade("no_verdict")
            raw = raw.model_copy(update={"status": "no_verdict"})
        return publish(raw, ctx)

    return build


def _stop_reason(state: CritiqueState) -> StopReason:
    if is_blank(state.answer or ""):
        return "no_answer"
    if not state.claims:
        return "no_claims"
    if not state.is_ruled:
        return "not_ruled"
    return "ruled" if state.revision is None else "revised"


def outcome_of(state: CritiqueState) -> Any:  # noqa: ANN401 - Outcome or None
    """Return the decision on the answer, or None if there is no answer or its claims have no rulings."""
    if is_blank(state.answer or "") or not state.is_ruled or state.stop_reason is None:
        return None
    return decide(state.claims, original=state.answer or "", revision=state.revision)
