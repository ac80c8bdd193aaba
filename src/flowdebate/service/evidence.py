"""Evidence from a run: its exported journal, and the result of replaying it without a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

from flowdebate._text import short_repr, typed
from flowdebate._util.wire import WireModel
from flowdebate.errors import BadFile, FlowDebateError
from flowdebate.evaluation.readers import Votes, sides_of, votes_of
from flowdebate.models.base import ModelRequest
from flowdebate.models.codec import TextHasher, digest_of
from flowdebate.models.resolve import ModelChoice
from flowdebate.prompts import Profile
from flowdebate.runs.durable.replay import Replay, replay
from flowdebate.runs.execute import Runnable
from flowdebate.runs.header import result_of
from flowdebate.service.runs import UnfinishedRun, document_of_run, outcome_of, replayed
from flowdebate.store.base import StepRow, Store, StoredRun
from flowdebate.store.export import export_run, read_runs
from flowdebate.ui.document import Document
from flowdebate.ui.plan import pattern_of_run, plan_of

Outcome: TypeAlias = Literal["verified", "differs", "unknown"]
"""Outcome of checking whether a part of a run follows from its journal; "unknown" if the part could not be checked."""

UNCHECKED = ("votes of readers", "dates and durations", "the id and the seed", "tokens and costs", "words of errors")
"""Parts of an export that are not derived from the journal, and could therefore have been invented by the export's
author.
"""
_NAMED = 3
_AROUND = 40
"""Number of characters shown on each side of a difference."""


class Finding(WireModel):
    """Result of checking a run against its journal."""

    run_id: str
    question: str
    outcome: Outcome
    problems: tuple[str, ...] = ()
    """Descriptions of the problems found: differences, or reasons why nothing was checked."""
    answers: int = 0
    """Number of recorded answers from models and humans."""
    unchecked: tuple[str, ...] = UNCHECKED
    """Parts of the run that are not covered by any check, such as readers' votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """An exported run and its replay."""

    run: StoredRun
    """The exported run, marked as imported so that no files or servers named in its plan are accessed."""
    steps: Sequence[StepRow]
    votes: Votes
    """Votes cast by readers before they saw the verdict."""
    replay: Replay | None
    """Replay of the run; None if the run's pattern is unknown to this installation."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the replay's requests, keyed by call path."""
    problem: str = ""

    async def document(self) -> Document:
        """Return the run's document; raise BadFile if it has none."""
        so_far = None if self.replay is None else UnfinishedRun.of(self.replay)
        return await document_of_run(self.run, self.steps, so_far=so_far)

    async def check(self, *, same_version: bool) -> Finding:
        """Check whether the transcript, ballots and verdict follow from the recorded answers.

        Other versions of flowdebate may word prompts differently, so differing prompts prove a change only if
        `same_version` is set, which means that the export is known to be from this version.
        """
        header = self.run.header
        answers = sum(step.kind in ("call", "human") and step.body is not None for step in self.steps)
        outcome: Outcome = "verified"
        problems: tuple[str, ...] = ()
        if self.replay is None:
            outcome, problems = "unknown", (self.problem,)
        elif (different := await self._different_result()) is not None and (
            same_version or not different.startswith("`raw.verdict") or not self.changed_requests()
        ):  # if the requests differ, the verdict's counts may differ for that reason alone
            outcome, problems = "differs", (different,)
        elif other := self.changed_requests():
            more = f" and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
            places = f"{', '.join(map(short_repr, other[:_NAMED]))}{more}"
            outcome = "differs" if same_version else "unknown"
            why = "an earlier answer was changed, or the run was written by another version of flowdebate"
            problems = (f"The journal has different prompts than the run produces now, at {places}: {why}.",)
        question = (await self.document()).subject if outcome == "verified" else header.question
        return Finding(run_id=header.run_id, question=question, outcome=outcome, problems=problems, answers=answers)

    async def _different_result(self) -> str | None:
        """Return the first difference between the stored result and the result derived from the journal."""
        outcome = outcome_of(self.run)
        if outcome is None:
            return None  # there is no stored result to compare, only the journal
        assert self.replay is not None  # noqa: S101 - the caller looked
        stored_result = result_of(self.replay.handle.raw, self.replay.output)
        stored = {key: outcome.get(key) for key in stored_result}
        measured = (await self.document()).MEASURED
        besides = {f"{key}.{place}" for key in stored_result for place in measured}
        # this status only reflects where the journal ends, so it is not compared
        if getattr(self.replay.handle.raw, "status", None) == "interrupted":
            besides.add("raw.status")
        difference_found = difference(stored, stored_result, besides=besides)
        if difference_found is None:
            return None
        place, one, other = difference_found
        return f"`{place}`: the result has {one}, but the journal gives {other}."

    def changed_requests(self) -> list[str]:
        """List the paths of recorded answers whose requests differ from those in the replay, in journal order."""
        skipped = frozenset[str]() if self.replay is None else self.replay.skipped
        recorded = [step for step in self.steps if step.kind == "call" and step.body is not None]
        return [step.key for step in recorded if step.key not in skipped and self.digests.get(step.key) != step.request]


async def evidence_in(
    store: Store, run_id: str, *, block: Runnable[Any] | None = None, model: ModelChoice = None
) -> tuple[list[str], Evidence]:
    """Return the lines of an exported run and the evidence they contain; for the arguments, see `evidence_of`."""
    lines = [line async for line in export_run(store, run_id)]
    [stored_run] = read_runs(lines, f"run {run_id}")
    return lines, await evidence_of(*stored_run, block=block, model=model)


async def evidence_of(
    run: StoredRun,
    steps: Sequence[StepRow],
    documents: Mapping[str, str],
    *,
    block: Runnable[Any] | None = None,
    model: ModelChoice = None,
) -> Evidence:
    """Replay an exported run. Pass `block` and `model` unless they are described by the run's plan.

    Regardless of the export's content, no models are called, no files are read, and no connections are made.
    """
    run = replace(run, header=replace(run.header, foreign=True))
    votes = Votes.of(list(votes_of(run, documents).values()), sides_of(run))
    if block is None and pattern_of_run(run) is None:
        problem = f"Its pattern {typed(run.header.block)} is unknown here: the run was started by a program."
        return Evidence(run=run, steps=steps, votes=votes, replay=None, problem=problem)

    async def replayed_as(profile: Profile) -> Evidence:
        digests: dict[str, str] = {}
        texts = TextHasher()

        def note(path: str, request: ModelRequest) -> None:
            digests[path] = digest_of(request, texts)

        if block is None:
            plan = plan_of(run, {}, to_ask=False)
            result = await replayed(plan, run, steps, profile=profile, on_request=note)
        else:
            result = await replay(block, run, steps, model=model, profile=profile, on_request=note)
        return Evidence(run=run, steps=steps, votes=votes, replay=result, digests=digests)

    try:
        evidence = await replayed_as("full")
        if run.header.model is None and evidence.changed_requests():
            # A journal contains only the name of a model object, so try both profiles: the right one reproduces the
            # recorded prompts.
            concise = await replayed_as("concise")
            return evidence if concise.changed_requests() else concise
    except FlowDebateError as error:
        return Evidence(run=run, steps=steps, votes=votes, replay=None, problem=f"It cannot be replayed: {error}")
    except RecursionError:  # the export is untrusted, and may be nested too deeply
        raise BadFile(f"run {run.header.run_id}", "is nested too deeply") from None
    return evidence


def difference(one: object, other: object, *, besides: Collection[str] = ()) -> tuple[str, str, str] | None:
    """Find the first difference between two JSON values; return its position, and what each value contains there.

    Positions in `besides` are ignored.

    >>> difference({"transcript": [{"text": "Cap them."}]}, {"transcript": [{"text": "Cut them."}]})
    ('transcript[0].text', "'Cap them.'", "'Cut them.'")
    """
    first_leaves, right = dict(_leaves(one)), dict(_leaves(other))
    for place in dict.fromkeys([*first_leaves, *right]):
        if place in besides or first_leaves.get(place, _NOTHING) == right.get(place, _NOTHING):
            continue
        first_value, second_value = first_leaves.get(place, _NOTHING), right.get(place, _NOTHING)
        is_both = (
            excerpts(first_value, second_value)
            if isinstance(first_value, str) and isinstance(second_value, str)
            else (short_repr(first_value), short_repr(second_value))
        )
        return place, *is_both
    return None


def _leaves(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Return the strings, numbers and empty lists within a value, each with its position."""
    if isinstance(value, dict) and value:
        for key, item in cast("dict[str, object]", value).items():
            yield from _leaves(item, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(cast("list[object]", value)):
            yield from _leaves(item, f"{place}[{index}]")
    else:
        yield place, value


class _NoValue:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _NoValue()


def excerpts(one: str, other: str) -> tuple[str, str]:
    """Return excerpts from two strings around their first difference.

    >>> excerpts("a" * 90 + "b", "a" * 90 + "c")[0]
    "'…aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'"
    """
    at = next((at for at, (one_part, right) in enumerate(zip(one, other, strict=False)) if one_part != right), None)
    at = min(len(one), len(other)) if at is None else at
    start = max(at - _AROUND, 0)
    return tuple(
        short_repr(f"{'…' if start else ''}{text[start : at + _AROUND]}{'…' if at + _AROUND < len(text) else ''}")
        for text in (one, other)
    )  # type: ignore[return-value]  # of two texts
