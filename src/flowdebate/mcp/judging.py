"""Verdicts on texts supplied by the host: a debate judge compares them, but no debate takes place.

The SDK evaluates annotations when a tool is registered, so this module does not postpone their evaluation.
"""

import hashlib
import json
from typing import Annotated, Any

from mcp.server.mcpserver import Context as ToolContext
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

from flowdebate.blocks.sequencer import Sequencer
from flowdebate.errors import RunChanged, RunExists
from flowdebate.evaluation.comparison import ComparedTexts, create_comparison
from flowdebate.mcp.progress import wait_with_progress
from flowdebate.mcp.reports import DATA, fence, next_of, spent_of
from flowdebate.mcp.tools import ASKS_ONCE, Question, Seconds, ServiceOf, describe
from flowdebate.patterns.debate.judging.options import MAX_CRITERIA, MAX_WEIGHT
from flowdebate.patterns.debate.schemas import DebateRawOutput, DebateVerdict
from flowdebate.service.service import Service
from flowdebate.service.state import RunDetails, RunState
from flowdebate.ui.statuses import RESUMABLE, State

NAME = "judge_texts"
"""Pattern name under which verdicts on texts are stored."""

Texts = Annotated[
    list[Annotated[str, Field(max_length=50_000, pattern=r"\S")]],
    Field(min_length=2, max_length=6, description="The texts to compare, as they are: answers, drafts, arguments."),
]


Criteria = Annotated[
    dict[Annotated[str, Field(pattern=r"\S", max_length=200)], Annotated[float, Field(gt=0, le=MAX_WEIGHT)]],
    Field(
        min_length=1,
        max_length=MAX_CRITERIA,
        description="A rubric: criteria and their weights. Each text is scored on each criterion.",
    ),
]


class Ballot(BaseModel):
    """A judge's answer for one order of the texts."""

    order: list[str] = Field(description="The texts in the judge's reading order.")
    winner: str | None
    scores: dict[str, float] | None = Field(description="Each text's share; they add up to 1.")
    criteria: dict[str, dict[str, float]] | None = Field(description="Each text's scores, by criterion.")
    reasoning: str
    problem: str | None = Field(description="Why the answer does not count; null if it does.")


class TextVerdict(BaseModel):
    """Verdict on the best of several texts."""

    run_id: str
    status: State
    winner: str | None = Field(description='"Text 1" is the first one; null if none is ahead.')
    consistent: bool | None = Field(
        description="Whether the judge preferred the same text in every order. If not, the position in the list "
        "mattered as much as the text. Null before there are ballots."
    )
    scores: dict[str, float] | None = Field(description="The mean share of each text over all orders.")
    verdict: str | None
    reasoning: str | None
    ballots: list[Ballot]
    error: str | None
    spent: str = Field(description="Calls, tokens and cost so far, on one line.")
    next: str = Field(description="What to do now.")


def add_compare_tool(server: MCPServer[Any], service_of: ServiceOf) -> None:
    """Register the `compare` tool; its pattern must already be registered with the service."""

    async def compare(
        ctx: ToolContext[Any, Any],
        question: Question,
        texts: Texts,
        *,
        criteria: Criteria | None = None,
        reference: Annotated[
            str | None, Field(max_length=50_000, pattern=r"\S", description="An answer known to be right.")
        ] = None,
        seed: Annotated[int | None, Field(description="A different number judges the same texts again.")] = None,
        wait: Seconds = 45,
    ) -> TextVerdict:
        """Compare texts that answer a question, without a debate: which is argued best, and is that judgment stable?

        A judge reads them in as many orders as there are texts, each once in each position. Repeating the call returns
        the recorded verdict, or waits for it, and calls no model again.
        """
        service = service_of(ctx)
        texts_by_name = {f"Text {number}": text for number, text in enumerate(texts, 1)}
        value = ComparedTexts.of(question, texts_by_name, reference=reference, location="compare")
        run = await _begun(service, value.model_copy(update={"criteria": criteria}), seed)
        return _verdict_of(await wait_with_progress(service, run.run_id, wait, ctx))

    server.add_tool(compare, description=f"{describe(compare)}\n\n{DATA}", annotations=ASKS_ONCE)


async def _begun(service: "Service", texts: ComparedTexts, seed: int | None) -> RunState:
    """Return the run for these texts: the existing one, resumed if it has stopped early, or a new one."""
    value = texts.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The id is derived from the texts because hosts abort and retry long calls; a retry must find the verdict without
    # paying for it again.
    more = [text for text in (texts.reference, texts.criteria) if text is not None]
    identity = json.dumps([texts.question, [entry.text for entry in texts.transcript], seed, *more]).encode()
    run_id = f"judge-{hashlib.blake2b(identity, digest_size=10).hexdigest()}"
    try:
        run = await service.begin(NAME, value, run_id=run_id, seed=seed)
    except (RunChanged, RunExists):  # the texts were judged by a different model or for a different user
        return await service.begin(NAME, value, seed=seed)
    return await service.resume(run.run_id) if run.status in RESUMABLE else run


def _verdict_of(run: RunDetails) -> TextVerdict:
    raw = None if run.document is None else run.document.raw
    verdict: DebateVerdict | None = raw.verdict if isinstance(raw, DebateRawOutput) else None
    judging = None if verdict is None else verdict.judging
    return TextVerdict(
        run_id=run.run_id,
        status=run.status,
        winner=None if verdict is None else verdict.winner,
        consistent=None if judging is None else not judging.flipped,
        scores=None if judging is None else judging.scores,
        verdict=None if verdict is None else fence(verdict.verdict),
        reasoning=None if verdict is None else fence(verdict.reasoning),
        ballots=[
            Ballot(
                order=ballot.order,
                winner=ballot.winner,
                scores=ballot.scores,
                criteria=ballot.criteria,
                reasoning=fence(ballot.reasoning) or "",
                problem=fence(ballot.problem),
            )
            for ballot in (() if judging is None else judging.ballots)
        ],
        error=fence(run.error or run.problem),
        spent=spent_of(run),
        next="Call compare again with the same arguments." if run.status == "running" else next_of(run.status),
    )


def judge_texts() -> "Sequencer[Any, DebateRawOutput]":
    """Create the block that the `compare` tool runs; it judges the texts in as many orders as there are texts."""
    return create_comparison(name=NAME, orders="cyclic", quotes=True)
