"""Steps of a review: a reviewer's turn in each phase, and what is made of all turns of a phase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate._text import clean_text
from flowdebate.blocks.base import Block, Outline, Wrapped, merge_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.output import publish, status_of
from flowdebate.chassis.rounds import check_quorum
from flowdebate.chassis.state import Recovery, RoundsEnded, accepted, as_model, state_of
from flowdebate.chassis.turn import MISSING, TurnTask, ask, record_failure, take_turn
from flowdebate.sources.source import number_lines

from .events import FindingsDecided, FindingsExamined, FindingsReported
from .findings import decide, group, index_by_finding, join, locate, pairs_to_compare, read_lines
from .prompts import render_finding
from .schemas import (
    Comparison,
    Defence,
    Finding,
    Findings,
    FindingsAsked,
    Raised,
    ReviewPart,
    ReviewReport,
    ReviewState,
    Verdict,
    answer_to,
)

if TYPE_CHECKING:
    from flowdebate.chassis.spec import Loop
    from flowdebate.runs.context import Context
    from flowdebate.sources.quotes import Passage
    from flowdebate.sources.source import Source

    from .options import ReviewOptions


Parts: TypeAlias = "Sequence[Sequence[Passage] | None]"
"""Parts of the sources, in each of which all lines are shown; None for all sources at once."""
Hide: TypeAlias = "Callable[[str, Context], str | None]"
"""Replaces the names in a text by aliases."""
GOALS = {"find": "Read the material", "examine": "Examine findings of others", "defend": "Answer for own findings"}
"""What a reviewer does in each phase, by its name; in order."""
_AT_ONCE = 100
"""Findings that a reviewer's prompt takes in before others are served."""
_MANY = 200
"""Findings that are compared in a moment: these make at most 20,000 pairs."""


class ReviewerTurn(Block[Any, None]):
    """The turn of one reviewer in one phase, under a task of the audit trail; none where there is nothing to ask it.

    If its provider fails for good, the next of `speakers` answers; without one, the turn is skipped if that is allowed.
    """

    def __init__(
        self,
        loop: Loop[ReviewOptions],
        phase: str,
        agent_name: str,
        *,
        speakers: Sequence[Sequence[Block[Any, Any]]],
        voices: Sequence[object],
        hide: Hide,
        own: bool,
    ) -> None:
        """`speakers` are the reviewer's blocks and its stand-in's, one for each call; `voices` are their models."""
        acting = [block for blocks in speakers for block in dict.fromkeys(blocks)]
        shared, hidden = merge_resources(f"{phase} {agent_name!r}", acting, closed=acting)
        super().__init__(f"{loop.name}-{phase}-{agent_name}", resources=shared, hidden=hidden)
        self._loop, self._phase, self._agent_name = loop, phase, agent_name
        self._speakers, self._voices, self._hide, self._own = speakers, voices, hide, own

    async def act(self, _: object, ctx: Context, /) -> None:
        state, name, failures = state_of(ctx, ReviewState), self._agent_name, self._loop.failures
        shown = await self._shown(state, ctx)
        if self._phase != "find" and not shown:
            return
        sources = () if self._loop.material is None else self._loop.material.of_run(ctx)
        blocks = {id(each[0]): (each, voice) for each, voice in zip(self._speakers, self._voices, strict=True)}

        async def speak(block: Block[Any, Any], task: TurnTask) -> FindingsReported | FindingsExamined:
            asked, voice = blocks[id(block)]
            parts = self._parts(voice, ctx)
            by_part: dict[int, list[tuple[Finding, str]]] = {n: [] for n in range(len(parts)) if self._phase == "find"}
            place_parts = _index_parts(parts, sources)
            for finding, text in shown:
                number = place_parts.get((finding.place.file, finding.place.line), 0)
                by_part.setdefault(number, []).append((finding, text))
            calls = [
                partial(
                    ask,
                    each,
                    self._input(state, part, turned, number if len(parts) > 1 else None, ctx),
                    _place(ctx, turned, number),
                    failures,
                )
                for number, part in by_part.items()
                for turned, each in enumerate(asked)
            ]
            answers = await in_order(calls)
            task.heard()
            groups = [answers[at : at + len(asked)] for at in range(0, len(answers), len(asked))]
            about = [[finding for finding, _ in part] for part in by_part.values()]
            read = partial(self._read, groups, asked, about, sources)
            said = await accepted(read, ctx, returns=list[Raised | Verdict | Defence], own=self._own)
            task.complete([each.model_dump(by_alias=True) for each in said])
            return self._record(said, voice, block.name, read_lines(sources, parts), ctx)

        def lose(error: Exception, instead: Recovery) -> None:
            block = self._speakers[0][0].name
            record_failure(error, ctx, block=block, role="reviewer", name=name, instead=instead)

        finished = await take_turn(
            ctx,
            [each[0] for each in self._speakers],
            speak,
            goal=GOALS[self._phase],
            metadata={"round": state.round, "phase": self._phase},
            failures=failures,
            lose=lose,
            round=state.round,
            agent_name=name,
            phase=self._phase,
        )
        if finished is not None:
            ctx.emit(finished)

    async def _shown(self, state: ReviewState, ctx: Context) -> list[tuple[Finding, str]]:
        """The findings that the reviewer is asked about, each as text without names."""
        name, defends = self._agent_name, self._phase == "defend"
        if self._phase == "find" or name not in state.found:
            return []
        said = index_by_finding(
            verdict for verdicts in state.verdicts.values() for verdict in verdicts if verdict.verdict == "refute"
        )
        shown = []
        for number, finding in enumerate(state.findings or (), start=1):
            if number % _AT_ONCE == 0:  # others are served meanwhile
                await asyncio.sleep(0)
            against = [verdict.reason for verdict in said[finding.id]] if defends else []
            if (name in finding.raisers) == defends and bool(against) == defends:
                reasons = sorted(self._hide(each, ctx) or "" for each in against)
                title, claim = (self._hide(text, ctx) or "" for text in (finding.title, finding.claim))
                shown.append((finding, render_finding(finding, title=title, claim=claim, refuted=reasons)))
        return shown

    def _parts(self, voice: object, ctx: Context) -> Parts:
        """The parts of the sources that the reviewer is asked about one by one; a person or a custom block has one."""
        material = self._loop.material
        if material is None or voice is None:
            return [None]
        return [*material.parts(ctx, ctx.model(voice))] or [None]  # type: ignore[arg-type]  # what a role takes

    def _input(
        self, state: ReviewState, shown: Sequence[tuple[Finding, str]], turned: int, part: int | None, ctx: Context
    ) -> object:
        if self._phase == "find":
            about = self._loop.spec.input_type.about(state.question)
            return about if part is None else ReviewPart(question=state.question, part=part)
        texts = [text for _, text in shown]
        kind: Any = self._phase
        question = self._hide(state.question, ctx) or ""
        # the order of the findings is the other one as well: what is read first is believed more
        ordered = "\n".join(reversed(texts) if turned else texts)
        return FindingsAsked(kind=kind, question=question, shown=ordered, turned=bool(turned), part=part or 0)

    def _read(
        self,
        groups: Sequence[Sequence[object]],
        blocks: Sequence[Block[Any, Any]],
        about: Sequence[Sequence[Finding]],
        sources: tuple[Source, ...],
    ) -> list[Raised | Verdict | Defence]:
        """The answers about each part as data with places looked up; OutputError names the block of an invalid one."""
        return [
            entry
            for answers, findings in zip(groups, about, strict=True)
            for entry in self._read_part(answers, blocks[0].name, findings, sources)
        ]

    def _read_part(
        self, answers: Sequence[object], block: str, findings: Sequence[Finding], sources: tuple[Source, ...]
    ) -> list[Raised | Verdict | Defence]:
        name = self._agent_name
        if self._phase == "find":
            value = {"findings": answers[0]} if isinstance(answers[0], (list, tuple)) else answers[0]
            found = []
            for draft in as_model(value, Findings, block=block).findings:
                fields = {key: _clean(given) for key, given in draft.model_dump().items()}
                place = locate(sources, **{key: fields.pop(key) for key in ("file", "line", "end_line", "quote")})
                found.append(Raised(agent_name=name, place=place, **fields))
            return [*found]
        schema = answer_to(self._phase)  # of both orders: the words are the same
        read: list[Any] = [as_model(answer, schema, block=block) for answer in answers]
        if self._phase == "defend":
            said = {each.finding: each for each in reversed(read[0].answers)}  # the first answer counts
            kept = (said[each.id] for each in findings if each.id in said)
            return [
                Defence(finding=each.finding, agent_name=name, stands=each.stands, reason=clean_text(each.reason))
                for each in kept
            ]
        orders = [index_by_finding(answer.verdicts) for answer in read]
        verdicts = (self._verdict(finding, [order[finding.id] for order in orders], sources) for finding in findings)
        return [verdict for verdict in verdicts if verdict is not None]

    def _verdict(self, finding: Finding, orders: Sequence[list[Any]], sources: tuple[Source, ...]) -> Verdict | None:
        """What the reviewer says of a finding, if anything; "neither" where it changes with the order of the words."""
        said = [verdict for order in orders for verdict in order]
        if not said:
            return None
        words = {each.verdict for each in said}
        answered = all(orders)
        agreed = answered and len(words) == 1 and "unsure" not in words
        quote = _clean(said[0].quote)
        found = locate(sources, file=None, line=None, end_line=None, quote=quote).found if quote else None
        return Verdict(
            finding=finding.id,
            agent_name=self._agent_name,
            verdict=said[0].verdict if agreed else "neither",
            reason=clean_text(said[0].reason),
            quote=quote,
            quote_found=found,
            flipped={"confirm", "refute"} <= words,
        )

    def _record(
        self, said: Sequence[Any], voice: object, block: str, lines: dict[str, int], ctx: Context
    ) -> FindingsReported | FindingsExamined:
        state, name, handle = state_of(ctx, ReviewState), self._agent_name, ctx.scope.handle
        if self._phase == "find":
            heard = name if voice is None else ctx.model(voice).name  # type: ignore[arg-type]  # what a role takes
            handle.update(
                found={**state.found, name: list(said)},
                voices={**state.voices, name: heard},
                lines={**state.lines, name: lines},
            )
            return FindingsReported(block=block, agent_name=name, findings=list(said))
        field = "verdicts" if self._phase == "examine" else "defences"
        handle.update(**{field: {**getattr(state, field), name: list(said)}})
        given: dict[str, Any] = {"verdicts": [], "defences": [], field: list(said)}
        return FindingsExamined(block=block, agent_name=name, **given)

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._speakers[0][0].outline(),))


def _place(ctx: Context, turned: int, part: int = 0) -> Context:
    """Where a call of a turn is made: about the first part of the sources or another, in one order or the other."""
    path = f"{ctx.path}/part-{part + 1}" if part else ctx.path
    return ctx.child(ctx.block, f"{path}/turned" if turned else path)


def _index_parts(parts: Parts, sources: tuple[Source, ...]) -> dict[tuple[str | None, int | None], int]:
    """The number of the first part that has each line of each file, and each file; {} for one part."""
    index: dict[tuple[str | None, int | None], int] = {}
    by_name = {source.name: source for source in sources}
    for number, part in enumerate(parts if len(parts) > 1 else ()):
        for passage in part or ():
            for line in number_lines(by_name[passage.source]):
                if passage.start <= line.start < passage.end:
                    index.setdefault((line.file, line.number), number)
                    index.setdefault((line.file, None), number)
    return index


def _clean(value: Any) -> Any:  # noqa: ANN401 - a field of a finding
    return clean_text(value) if isinstance(value, str) else value


class Merging(Wrapped):
    """The step between finding and examining: asks `merger` about pairs that may be the same, twice.

    Without one, only what is the same in place and title is one.
    """

    def __init__(self, merger: Block[Any, Any] | None, loop: Loop[ReviewOptions], hide: Hide) -> None:
        super().__init__(merger or handler(name=f"{loop.name}-merge")(lambda _: MISSING))
        self._asks, self._loop, self._hide = merger is not None, loop, hide

    async def act(self, _: object, ctx: Context, /) -> None:
        state = state_of(ctx, ReviewState)
        if state.losses:
            check_quorum(state, list(state.found), quorum=self._loop.failures.least, block=ctx.block)
        groups = group(raised for found in state.found.values() for raised in found)
        asked, possible = await _find_pairs(groups) if self._asks else ([], 0)
        ctx.scope.handle.deadline = None  # the time for finding is over
        findings = join(groups, await self._compare(groups, asked, ctx) if asked else [])
        ctx.scope.handle.update(findings=findings, left_apart=possible - len(asked))
        if any(len(finding.raisers) < len(state.found) for finding in findings):
            self._loop.open_round(ctx, 2)

    async def _compare(
        self, groups: Sequence[Sequence[Raised]], pairs: Sequence[tuple[int, int]], ctx: Context
    ) -> list[tuple[int, int]]:
        """The pairs that the merger finds the same in both orders; without its answer, none."""

        def shown(at: int) -> str:
            [finding] = join([groups[at]], [])
            title, claim = (self._hide(text, ctx) or "" for text in (finding.title, finding.claim))
            return render_finding(finding, title=title, claim=claim).partition("] ")[2]

        found: list[set[int]] = []
        for turned in (False, True):
            texts = [
                f"[Pair {number}, {word}] {shown(at)}"
                for number, pair in enumerate(pairs, start=1)
                for word, at in zip(("first", "second"), reversed(pair) if turned else pair, strict=True)
            ]
            asked = FindingsAsked(
                kind="merge", question=state_of(ctx, ReviewState).question, shown="\n".join(texts), turned=turned
            )
            answer = await self._inner(asked, _place(ctx, int(turned)))
            if answer is MISSING:
                return []
            said = as_model(answer, Comparison, block=self.name).pairs
            found.append({each.pair for each in said if each.same} - {each.pair for each in said if not each.same})
        return [pair for number, pair in enumerate(pairs, start=1) if all(number in each for each in found)]


async def _find_pairs(groups: Sequence[Sequence[Raised]]) -> tuple[list[tuple[int, int]], int]:
    """Find the pairs to ask about; those of many findings, of which there may be millions, beside the event loop."""
    if len(groups) > _MANY:
        return await asyncio.to_thread(pairs_to_compare, groups)
    return pairs_to_compare(groups)


def reports_of(loop: Loop[ReviewOptions], state: ReviewState) -> list[ReviewReport]:
    """What was said in each phase, in declared order."""
    said: list[dict[str, str]] = [
        {name: report_of(found) for name, found in state.found.items()},
        *({name: verdicts_text(each) for name, each in of.items()} for of in (state.verdicts, state.defences)),
    ]
    return [
        ReviewReport(round=number, agent_name=name, text=texts[name])
        for number, texts in enumerate(said, start=1)
        for name in loop.names
        if name in texts
    ]


def verdicts_text(said: Sequence[Any]) -> str:
    """What a reviewer says of findings, as text, a line for each."""
    lines = []
    for each in said:
        word = each.verdict if isinstance(each, Verdict) else "stands" if each.stands else "withdrawn"
        lines.append(f"{each.finding}: {word}. {each.reason}")
    return "\n".join(lines) or "Nothing said."


def report_of(found: Sequence[Raised], *, brief: bool = False) -> str:
    """What a reviewer found, as text, a line for each finding, and how many were empty; without claims if `brief`."""
    lines = [
        f"{f'{each.place.text}: ' if each.place.text else ''}{each.title} ({each.severity})"
        f"{'' if brief else f'. {each.claim}'}"
        for each in found
        if not each.is_empty
    ]
    if empty := len(found) - len(lines):
        lines.append(f"{empty} left out, without a title or a claim.")
    return "\n".join(lines) or "Nothing found."


def open_defence(loop: Loop[ReviewOptions]) -> Handler[Any, None]:
    """A tap between examining and answering, which has a time of its own."""

    @handler(name=f"{loop.name}-open-defence")
    def open_(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        said = state_of(ctx, ReviewState).verdicts.values()
        if any(each.verdict == "refute" for verdicts in said for each in verdicts):
            loop.open_round(ctx, 3)

    return open_


def findings_of(state: ReviewState) -> list[Finding]:
    """The findings as they stand now, decided by all that was said so far."""

    def flat(said: Mapping[str, Sequence[Any]]) -> list[Any]:
        return [each for given in said.values() for each in given]

    found = state.findings
    if found is None:  # the run ended before they were merged
        found = join(group(flat(state.found)), [])
    return decide(found, flat(state.verdicts), flat(state.defences), state.voices)


def build_review(loop: Loop[ReviewOptions]) -> Handler[Any, Any]:
    """A block that decides about all findings and publishes the raw output."""

    @handler(name=f"{loop.name}-decide")
    def build(_: object, ctx: Context) -> object:
        state = state_of(ctx, ReviewState)
        ctx.scope.handle.deadline = None
        transcript = ctx.scope.handles["transcript"]  # not before: a person who reviews is shown it, with names
        transcript.set(transcript.state.with_entry(*reports_of(loop, state)))
        reason = "examined" if state.findings else "nothing_found"
        ctx.scope.handle.update(stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason))
        raw: Any = loop.make_output(ctx, status_of(ctx))
        ctx.emit(FindingsDecided(findings=raw.findings, gate=raw.gate))
        return publish(raw, ctx)

    return build
