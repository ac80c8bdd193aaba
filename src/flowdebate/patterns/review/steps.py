"""Steps of a review: a reviewer's turn in each phase, the merging of findings, and the decision."""

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
from flowdebate.chassis.seats import check_makers
from flowdebate.chassis.state import Recovery, RoundsEnded, accepted, as_model, state_of
from flowdebate.chassis.turn import MISSING, TurnTask, ask, record_failure, take_turn
from flowdebate.sources.source import number_lines

from .events import FindingsDecided, FindingsExamined, FindingsReported
from .findings import carry_over, decide, group, index_by_finding, join, locate, pairs_to_compare, read_lines
from .prompts import render_finding
from .schemas import (
    Comparison,
    Defence,
    Finding,
    Findings,
    FindingsRequest,
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
"""Parts of the sources, each shown in full; None stands for all sources at once."""
Hide: TypeAlias = "Callable[[str, Context], str | None]"
"""Function that replaces names in a string with aliases."""
GOALS = {"find": "Read the material", "examine": "Examine findings of others", "defend": "Answer for own findings"}
"""A reviewer's goal in each phase, in order."""
_AT_ONCE = 100
"""Number of findings to render before yielding to other tasks."""
_MANY = 200
"""Maximum number of findings to compare on the event loop (at most 20,000 pairs)."""


class ReviewerTurn(Block[Any, None]):
    """A reviewer's turn in one phase, recorded as a task in the audit trail; skipped if there is nothing to ask.

    If the reviewer's provider fails permanently, the next of `speakers` answers. If none is left and the options allow
    it, the turn is skipped.
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
        custom: bool,
    ) -> None:
        """Store the blocks (`speakers`) and models (`voices`) of the reviewer and its fallbacks."""
        acting = [block for blocks in speakers for block in dict.fromkeys(blocks)]
        shared, hidden = merge_resources(f"{phase} {agent_name!r}", acting, closed=acting)
        super().__init__(f"{loop.name}-{phase}-{agent_name}", resources=shared, hidden=hidden)
        self._loop, self._phase, self._agent_name = loop, phase, agent_name
        self._speakers, self._voices, self._hide, self._own = speakers, voices, hide, custom

    async def act(self, _: object, ctx: Context, /) -> None:
        state, name, failures = state_of(ctx, ReviewState), self._agent_name, self._loop.failures
        rendered = await self._render_findings(state, ctx)
        if self._phase != "find" and not rendered:
            return
        sources = () if self._loop.material is None else self._loop.material.of_run(ctx)
        speakers_by_block = {
            id(speakers[0]): (speakers, voice) for speakers, voice in zip(self._speakers, self._voices, strict=True)
        }

        async def speak(block: Block[Any, Any], task: TurnTask) -> FindingsReported | FindingsExamined:
            speakers, voice = speakers_by_block[id(block)]
            parts = self._parts(voice, ctx)
            by_part: dict[int, list[tuple[Finding, str]]] = {n: [] for n in range(len(parts)) if self._phase == "find"}
            place_parts = _index_parts(parts, sources)
            for finding, text in rendered:
                number = place_parts.get((finding.place.file, finding.place.line), 0)
                by_part.setdefault(number, []).append((finding, text))
            calls = [
                partial(
                    ask,
                    speaker,
                    self._input(state, part, turned, number if len(parts) > 1 else None, ctx),
                    _context_of_part(ctx, turned, number),
                    failures,
                )
                for number, part in by_part.items()
                for turned, speaker in enumerate(speakers)
            ]
            # A failure does not cancel the other calls, so their answers are recorded and never paid for again.
            answers = await in_order(calls, finish=True)
            task.end_review()
            groups = [answers[at : at + len(speakers)] for at in range(0, len(answers), len(speakers))]
            findings = [[finding for finding, _ in part] for part in by_part.values()]
            read = partial(self._read, groups, speakers, findings, sources)
            entries = await accepted(read, ctx, returns=list[Raised | Verdict | Defence], custom=self._own)
            task.complete([entry.model_dump(by_alias=True) for entry in entries])
            return self._record(entries, voice, block.name, read_lines(sources, parts), ctx)

        def lose(error: Exception, instead: Recovery) -> None:
            block = self._speakers[0][0].name
            record_failure(error, ctx, block=block, role="reviewer", name=name, instead=instead)

        finished = await take_turn(
            ctx,
            [blocks[0] for blocks in self._speakers],
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

    async def _render_findings(self, state: ReviewState, ctx: Context) -> list[tuple[Finding, str]]:
        """Render, without names, the findings that this reviewer should examine or answer."""
        name, defends = self._agent_name, self._phase == "defend"
        if self._phase == "find" or name not in state.reports:
            return []
        refutations = index_by_finding(
            verdict for verdicts in state.verdicts.values() for verdict in verdicts if verdict.verdict == "refute"
        )
        rendered = []
        for number, finding in enumerate(state.findings or (), start=1):
            if number % _AT_ONCE == 0:  # let other tasks run
                await asyncio.sleep(0)
            against = [verdict.reason for verdict in refutations[finding.id]] if defends else []
            if (name in finding.raisers) == defends and bool(against) == defends:
                reasons = sorted(self._hide(reason, ctx) or "" for reason in against)
                title, claim = (self._hide(text, ctx) or "" for text in (finding.title, finding.claim))
                rendered.append((finding, render_finding(finding, title=title, claim=claim, refuted=reasons)))
        return rendered

    def _parts(self, voice: object, ctx: Context) -> Parts:
        """Divide the sources into parts, one per call; a human or a custom block gets everything in one part."""
        material = self._loop.material
        if material is None or voice is None:
            return [None]
        return [*material.parts(ctx, ctx.model(voice))] or [None]  # type: ignore[arg-type]  # what a role takes

    def _input(
        self, state: ReviewState, rendered: Sequence[tuple[Finding, str]], turned: int, part: int | None, ctx: Context
    ) -> object:
        if self._phase == "find":
            material = self._loop.spec.input_type.about(state.question)
            return material if part is None else ReviewPart(question=state.question, part=part)
        texts = [text for _, text in rendered]
        kind: Any = self._phase
        question = self._hide(state.question, ctx) or ""
        # the second request reverses the findings, because models are swayed most by what they read first
        ordered = "\n".join(reversed(texts) if turned else texts)
        return FindingsRequest(kind=kind, question=question, text=ordered, turned=bool(turned), part=part or 0)

    def _read(
        self,
        groups: Sequence[Sequence[object]],
        blocks: Sequence[Block[Any, Any]],
        findings_by_part: Sequence[Sequence[Finding]],
        sources: tuple[Source, ...],
    ) -> list[Raised | Verdict | Defence]:
        """Parse the answers for all parts and look up the cited locations; raise OutputError for an invalid answer."""
        return [
            entry
            for answers, findings in zip(groups, findings_by_part, strict=True)
            for entry in self._read_part(answers, blocks[0].name, findings, sources)
        ]

    def _read_part(
        self, answers: Sequence[object], block: str, findings: Sequence[Finding], sources: tuple[Source, ...]
    ) -> list[Raised | Verdict | Defence]:
        name = self._agent_name
        if self._phase == "find":
            report = {"findings": answers[0]} if isinstance(answers[0], (list, tuple)) else answers[0]
            raised = []
            for draft in as_model(report, Findings, block=block).findings:
                fields = {key: _clean(value) for key, value in draft.model_dump().items()}
                place = locate(sources, **{key: fields.pop(key) for key in ("file", "line", "end_line", "quote")})
                raised.append(Raised(agent_name=name, place=place, **fields))
            return [*raised]
        schema = answer_to(self._phase)  # answers in both orders are parsed with the same schema
        read: list[Any] = [as_model(answer, schema, block=block) for answer in answers]
        if self._phase == "defend":
            answers_by_finding = {
                answer.finding: answer for answer in reversed(read[0].answers)
            }  # if a finding is answered more than once, the first answer counts
            heard = (answers_by_finding[finding.id] for finding in findings if finding.id in answers_by_finding)
            return [
                Defence(finding=answer.finding, agent_name=name, stands=answer.stands, reason=clean_text(answer.reason))
                for answer in heard
            ]
        orders = [index_by_finding(answer.verdicts) for answer in read]
        verdicts = (self._verdict(finding, [order[finding.id] for order in orders], sources) for finding in findings)
        return [verdict for verdict in verdicts if verdict is not None]

    def _verdict(self, finding: Finding, orders: Sequence[list[Any]], sources: tuple[Source, ...]) -> Verdict | None:
        """Combine the verdicts from both orders: "neither" if they differ, None if there is no verdict."""
        verdicts = [verdict for order in orders for verdict in order]
        if not verdicts:
            return None
        words = {verdict.verdict for verdict in verdicts}
        answered = all(orders)
        agreed = answered and len(words) == 1 and "unsure" not in words
        quote = _clean(verdicts[0].quote)
        quote_found = locate(sources, file=None, line=None, end_line=None, quote=quote).found if quote else None
        return Verdict(
            finding=finding.id,
            agent_name=self._agent_name,
            verdict=verdicts[0].verdict if agreed else "neither",
            reason=clean_text(verdicts[0].reason),
            quote=quote,
            quote_found=quote_found,
            flipped={"confirm", "refute"} <= words,
        )

    def _record(
        self, entries: Sequence[Any], voice: object, block: str, lines: dict[str, int], ctx: Context
    ) -> FindingsReported | FindingsExamined:
        state, name, handle = state_of(ctx, ReviewState), self._agent_name, ctx.scope.handle
        if self._phase == "find":
            heard = name if voice is None else ctx.model(voice).name  # type: ignore[arg-type]  # what a role takes
            handle.update(
                reports={**state.reports, name: list(entries)},
                voices={**state.voices, name: heard},
                lines={**state.lines, name: lines},
            )
            return FindingsReported(block=block, agent_name=name, findings=list(entries))
        field = "verdicts" if self._phase == "examine" else "defences"
        handle.update(**{field: {**getattr(state, field), name: list(entries)}})
        answers: dict[str, Any] = {"verdicts": [], "defences": [], field: list(entries)}
        return FindingsExamined(block=block, agent_name=name, **answers)

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._speakers[0][0].outline(),))


def _context_of_part(ctx: Context, turned: int, part: int = 0) -> Context:
    """Return the context for one call in a turn; the context's path includes the part and the order."""
    path = f"{ctx.path}/part-{part + 1}" if part else ctx.path
    return ctx.child(ctx.block, f"{path}/turned" if turned else path)


def _index_parts(parts: Parts, sources: tuple[Source, ...]) -> dict[tuple[str | None, int | None], int]:
    """Index the parts by file and line, and also by file alone; if several parts match, the first one is used.

    The index is empty if there is only one part.
    """
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
    """Step between the finding and examining phases; it has `merger` compare possibly identical findings twice.

    If there is no merger, only findings with the same location and title are merged.
    """

    def __init__(self, merger: Block[Any, Any] | None, loop: Loop[ReviewOptions], hide: Hide) -> None:
        super().__init__(merger or handler(name=f"{loop.name}-merge")(lambda _: MISSING))
        self._asks, self._loop, self._hide = merger is not None, loop, hide

    async def act(self, _: object, ctx: Context, /) -> None:
        state = state_of(ctx, ReviewState)
        if state.losses:
            check_quorum(state, list(state.reports), quorum=self._loop.failures.least, block=ctx.block)
        reports = [*state.reports.values(), self._raise_earlier(ctx)]
        groups = group(raised for report in reports for raised in report)
        pairs, possible = await _find_pairs(groups) if self._asks else ([], 0)
        ctx.scope.handle.deadline = None  # the first phase's time limit no longer applies
        findings = join(groups, await self._compare(groups, pairs, ctx) if pairs else [])
        ctx.scope.handle.update(findings=findings, uncompared_pairs=possible - len(pairs))
        if any(set(state.reports).difference(finding.raisers) for finding in findings):
            self._loop.open_round(ctx, 2)

    def _raise_earlier(self, ctx: Context) -> list[Raised]:
        """Report the findings from an earlier review again."""
        material = self._loop.material
        sources = () if material is None else material.of_run(ctx)
        return [carry_over(draft, sources) for draft in self._loop.options.earlier or ()]

    async def _compare(
        self, groups: Sequence[Sequence[Raised]], pairs: Sequence[tuple[int, int]], ctx: Context
    ) -> list[tuple[int, int]]:
        """Return the pairs that the merger considers identical in both orders, or no pairs if it does not answer."""

        def render(at: int) -> str:
            [finding] = join([groups[at]], [])
            title, claim = (self._hide(text, ctx) or "" for text in (finding.title, finding.claim))
            return render_finding(finding, title=title, claim=claim).partition("] ")[2]

        same_by_order: list[set[int]] = []
        for turned in (False, True):
            texts = [
                f"[Pair {number}, {word}] {render(at)}"
                for number, pair in enumerate(pairs, start=1)
                for word, at in zip(("first", "second"), reversed(pair) if turned else pair, strict=True)
            ]
            question = FindingsRequest(
                kind="merge", question=state_of(ctx, ReviewState).question, text="\n".join(texts), turned=turned
            )
            answer = await self._inner(question, _context_of_part(ctx, int(turned)))
            if answer is MISSING:
                return []
            answers = as_model(answer, Comparison, block=self.name).pairs
            same_by_order.append(
                {answer.pair for answer in answers if answer.same}
                - {answer.pair for answer in answers if not answer.same}
            )
        return [pair for number, pair in enumerate(pairs, start=1) if all(number in same for same in same_by_order)]


async def _find_pairs(groups: Sequence[Sequence[Raised]]) -> tuple[list[tuple[int, int]], int]:
    """Find the pairs to compare, in a thread if there are many: thousands of findings form millions of pairs."""
    if len(groups) > _MANY:
        return await asyncio.to_thread(pairs_to_compare, groups)
    return pairs_to_compare(groups)


def reports_of(loop: Loop[ReviewOptions], state: ReviewState) -> list[ReviewReport]:
    """Return each reviewer's contributions by phase, in declared order."""
    texts_by_phase: list[dict[str, str]] = [
        {name: report_of(findings) for name, findings in state.reports.items()},
        *(
            {name: verdicts_text(entries) for name, entries in answers.items()}
            for answers in (state.verdicts, state.defences)
        ),
    ]
    return [
        ReviewReport(round=number, agent_name=name, text=texts[name])
        for number, texts in enumerate(texts_by_phase, start=1)
        for name in loop.names
        if name in texts
    ]


def verdicts_text(entries: Sequence[Any]) -> str:
    """Render a reviewer's verdicts or defenses as text, one per line."""
    lines = []
    for entry in entries:
        word = entry.verdict if isinstance(entry, Verdict) else "stands" if entry.stands else "withdrawn"
        lines.append(f"{entry.finding}: {word}. {entry.reason}")
    return "\n".join(lines) or "Nothing said."


def report_of(findings: Sequence[Raised], *, brief: bool = False) -> str:
    """Render a reviewer's findings as text, one per line, plus a count of the empty ones; `brief` omits the claims."""
    lines = [
        f"{f'{finding.place.text}: ' if finding.place.text else ''}{finding.title} ({finding.severity})"
        f"{'' if brief else f'. {finding.claim}'}"
        for finding in findings
        if not finding.is_empty
    ]
    if empty := len(findings) - len(lines):
        lines.append(f"{empty} omitted for lack of a title or a claim.")
    return "\n".join(lines) or "Nothing found."


def check_reviewers(
    loop: Loop[ReviewOptions], voices: Mapping[str, Any], *, not_vendor: Sequence[str], min_vendors: int | None
) -> Handler[Any, None]:
    """Create the step that checks the vendors of the reviewers' models before the first call."""

    @handler(name=f"{loop.name}-vendors")
    def check(_: object, ctx: Context) -> None:
        models = {name: ctx.model(voice).name for name, voice in voices.items()}
        check_makers(models, location=loop.location, not_vendor=not_vendor, min_vendors=min_vendors, seats="reviewers")

    return check


def open_defence(loop: Loop[ReviewOptions]) -> Handler[Any, None]:
    """Create the tap that separates examining from answering, giving each phase its own time limit."""

    @handler(name=f"{loop.name}-open-defence")
    def open_(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        verdicts_by_name = state_of(ctx, ReviewState).verdicts.values()
        if any(verdict.verdict == "refute" for verdicts in verdicts_by_name for verdict in verdicts):
            loop.open_round(ctx, 3)

    return open_


def findings_of(state: ReviewState) -> list[Finding]:
    """Return the findings in their current states, based on all answers so far."""

    def flat(lists: Mapping[str, Sequence[Any]]) -> list[Any]:
        return [value for values in lists.values() for value in values]

    current = state.findings
    if current is None:  # the run ended before the findings were merged
        current = join(group(flat(state.reports)), [])
    return decide(current, flat(state.verdicts), flat(state.defences), state.voices)


def build_review(loop: Loop[ReviewOptions]) -> Handler[Any, Any]:
    """Create the block that decides on all findings and publishes the raw output."""

    @handler(name=f"{loop.name}-decide")
    def build(_: object, ctx: Context) -> object:
        state = state_of(ctx, ReviewState)
        ctx.scope.handle.deadline = None
        # added only now, because a human reviewer would otherwise see the names
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(*reports_of(loop, state)))
        reason = "examined" if state.findings else "nothing_found"
        ctx.scope.handle.update(stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason))
        raw: Any = loop.make_output(ctx, status_of(ctx))
        ctx.emit(FindingsDecided(findings=raw.findings, gate=raw.gate))
        return publish(raw, ctx)

    return build
