"""Rejudging stored transcripts without generating new arguments."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any, TypedDict, Unpack

from flowdebate._util.validation import check_count
from flowdebate.blocks.functions import handler
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.anonymity.aliases import Anonymity
from flowdebate.chassis.roles import BlockOptions
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import AuditItem
from flowdebate.models.base import Model
from flowdebate.models.resolve import ModelChoice
from flowdebate.patterns.debate.judging.ballots import Answer, DecidedBy, Judging
from flowdebate.patterns.debate.judging.judge import Judge
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.judging.views import ScheduleLike, as_schedule
from flowdebate.patterns.debate.schemas import (
    DebateContributionEntry,
    DebateInput,
    DebateRawOutput,
    DebateTranscriptState,
    DebateVerdict,
)
from flowdebate.patterns.debate.transcript import create_debate_transcript
from flowdebate.runs.batch import Batch, BatchResult, BatchSummary, seed_of_item
from flowdebate.runs.context import Context
from flowdebate.runs.header import StoreOptions
from flowdebate.runs.limits import Limits
from flowdebate.store.open import StoreChoice

NAME = "rejudge"
"""Name of the block and its runs."""


class ArguedDebate(DebateInput):
    """A question and the arguments about it."""

    transcript: list[DebateContributionEntry]

    @property
    def sides(self) -> tuple[str, ...]:
        """Stances in the debate, in the order they were first argued."""
        return tuple(dict.fromkeys(entry.stance for entry in self.transcript))


def create_rejudge(
    *,
    stances: Sequence[str],
    judge: JudgeOptions | None = None,
    repeat: int = 1,
    seed: int | None = None,
    anonymize_transcript: bool = True,
    anonymity: Anonymity | None = None,
    options: BlockOptions | None = None,
) -> Sequencer[ArguedDebate, AuditItem]:
    """Create a block whose default judge decides between `stances`, and whose output includes all ballots.

    `judge` configures the judge (None means `JudgeOptions(schedule="cyclic")`). Each view is judged `repeat` times.
    Views are drawn using the run's seed; if `repeat` is greater than 1, `seed` is required, so that every repetition
    draws the same views. `anonymity` lists the speakers to replace with aliases (None for nobody). `options` are passed
    to the judge's block. Raise ConfigurationError for a judge that omits ballots or asks a person.
    """
    how = replace(JudgeOptions(schedule="cyclic") if judge is None else judge, quotes=False)
    check_count(NAME, repeat=repeat)
    if how.curtail or how.on_flip == "human":
        field = "curtail" if how.curtail else "on_flip"
        raise ConfigurationError(NAME, field, None, "cannot be set, because an audit uses all of a model's ballots")
    if repeat > 1 and seed is None:
        raise ConfigurationError(NAME, "seed", seed, "is required if `repeat` is greater than 1")
    transcript = create_debate_transcript()

    @handler(name=f"{NAME}-transcript", resources={"transcript": transcript})
    def take(value: ArguedDebate, ctx: Context) -> None:
        ctx.resources.transcript.set(DebateTranscriptState(entries=value.transcript))

    judges = {
        f"judge-{number}": Judge(
            how,
            name=NAME,
            transcript=transcript,
            stances=stances,
            anonymize_transcript=anonymize_transcript,
            anonymity=anonymity,
            random=None if repeat == 1 else Random(seed),  # noqa: S311 - the same views again, on purpose
            options=options,
        )
        for number in range(1, repeat + 1)
    }
    return sequencer(name=NAME).tap(take).parallel(judges).map(_item)


class JudgeChanges(TypedDict, total=False):
    """Options from `JudgeOptions` that can be changed when rejudging."""

    answer_form: Answer
    schedule: ScheduleLike
    labels: bool | Sequence[str]
    crossed_labels: bool
    panel: Sequence[Model | str]
    decided_by: DecidedBy
    min_log_odds: float | None
    criteria: Mapping[str, float] | None


def reuse_judge_options(judging: Judging | None, **changes: Unpack[JudgeChanges]) -> JudgeOptions:
    """Reconstruct the options of the judge that cast the ballots in `judging`, and apply `changes`.

    The record provides the answer form, schedule, labels, rubric, decision rule and threshold, but not the models or
    the prompt. If the answer form changes, only the schedule is reused. If the judge only named a winner, the record
    contains no orders, so the new judge gives scores in cyclic orders.
    """
    how: JudgeChanges = {"schedule": "cyclic"}
    if judging is not None and any(ballot.scores is not None for ballot in judging.ballots):
        answer = judging.answer or "scores"
        # the recorded labels and decision rule would not work with a different answer form
        if changes.get("answer_form", answer) != answer:
            how = {"schedule": judging.schedule, **changes}
            return JudgeOptions(**how)
        first, views = judging.ballots[0], {ballot.view for ballot in judging.ballots}
        crossed = len(views) > as_schedule(judging.schedule, location=NAME).calls(len(first.order))
        labels = sorted((first.labels or {}).values())
        has_words = not set(labels) <= set(string.ascii_uppercase)
        how = {
            "answer_form": answer,
            "schedule": judging.schedule,
            "labels": False if crossed or judging.answer or not labels else labels if has_words else True,
            "crossed_labels": crossed,
            "decided_by": judging.decided_by,
            "min_log_odds": judging.min_log_odds,
            "criteria": judging.criteria,
        }
    how = {**how, **changes}
    return JudgeOptions(**how)


async def rejudge(  # noqa: PLR0913 - those of a batch
    debates: Iterable[ArguedDebate | DebateRawOutput],
    *,
    judge: JudgeOptions | Sequence[JudgeOptions] | None = None,
    repeat: int = 1,
    options: BlockOptions | None = None,
    model: ModelChoice = None,
    seed: int = 0,
    limits: Limits | None = None,
    max_concurrency: int = 8,
    store: StoreChoice | StoreOptions = None,
    batch_id: str | None = None,
    progress: Callable[[BatchSummary], object] | None = None,
) -> BatchResult[AuditItem]:
    """Rejudge `debates` as a batch; each output includes the ballots.

    Each debate is a separate run, stored, limited and resumed as in `Block.batch`; `judge`, `repeat` and `options` are
    as in `create_rejudge`. `limits` apply to each run; `progress(…)` is called after each run. `judge` may be a list
    with one judge per debate; if it is None, each raw output is judged as it was before (`reuse_judge_options`). Before
    any call, raise ConfigurationError if there are no transcripts, or if one has fewer than two sides.
    """
    rows: list[tuple[int, ArguedDebate]] = []
    judges = [] if judge is None or isinstance(judge, JudgeOptions) else list(judge)
    for index, debate in enumerate(debates):
        argued, judging = _arguments_and_judging(debate) if isinstance(debate, DebateRawOutput) else (debate, None)
        if len(argued.sides) < 2:  # noqa: PLR2004 - a choice takes two
            problem = "must have arguments from at least two sides"
            raise ConfigurationError("rejudge()", f"debates[{index}]", list(argued.sides), problem)
        rows.append((index, argued))
        if judge is None or isinstance(judge, JudgeOptions):
            judges.append(judge or reuse_judge_options(judging))
    if len(judges) != len(rows):
        raise ConfigurationError("rejudge()", "judge", judges, "must be one judge, or a list with one judge per debate")
    if not rows:
        raise ConfigurationError("rejudge()", "debates", None, "must not be empty")

    def create(index: int, argued: ArguedDebate) -> Sequencer[ArguedDebate, AuditItem]:
        # Each item has its own seed and anonymity, because the items are judged independently.
        item_seed, sides = seed_of_item(seed, index), argued.sides
        names = tuple(dict.fromkeys(entry.agent_name for entry in argued.transcript))
        anonymity = Anonymity(names=names, stances=sides, question=argued.question)
        return create_rejudge(
            stances=sides, judge=judges[index], repeat=repeat, seed=item_seed, anonymity=anonymity, options=options
        )

    def plan(row: tuple[int, ArguedDebate]) -> tuple[Sequencer[ArguedDebate, AuditItem], Mapping[str, Any] | None]:
        return create(*row), None

    batch: Batch[AuditItem] = Batch(
        create(*rows[0]),
        rows,
        question=lambda row: row[1],
        max_concurrency=max_concurrency,
        store=store,
        model=model,
        seed=seed,
        limits=limits,
        batch_id=batch_id,
        progress=progress,
        plan_item=plan,
    )
    return await batch.all()


def _arguments_and_judging(debate: DebateRawOutput) -> tuple[ArguedDebate, Judging | None]:
    verdict = debate.first_verdict or debate.verdict  # for a mirrored debate, use the verdict on this transcript
    argued = ArguedDebate(question=debate.question, transcript=debate.transcript)
    return argued, None if verdict is None else verdict.judging


def _item(verdicts: Mapping[str, DebateVerdict]) -> AuditItem:
    judgings = [verdict.judging for verdict in verdicts.values() if verdict.judging is not None]
    return AuditItem(ballots=list(chain.from_iterable(judging.ballots for judging in judgings)))
