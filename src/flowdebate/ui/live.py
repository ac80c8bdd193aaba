"""Live view, which builds sections from a run's events as they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from flowdebate._util.wire import BaseEvent
from flowdebate.chassis.registry import load_patterns
from flowdebate.chassis.state import (
    EscalationStepFinished,
    Flag,
    RoleFailed,
    RoundsEnded,
    RoundStarted,
    TurnFinished,
    TurnStarted,
)
from flowdebate.models.base import Usage
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import (
    BlockAnswered,
    CallFellBack,
    CallRetried,
    CallStarted,
    ModelCalled,
    TextDelta,
    TextWithdrawn,
    ToolCalled,
)
from flowdebate.runs.limits import Budget, Limits
from flowdebate.ui.document import Document, speakers_of
from flowdebate.ui.options import OutputOptions
from flowdebate.ui.sections import (
    FLAGS,
    Card,
    Ending,
    Entry,
    Fact,
    LiveSection,
    Output,
    OutputHeading,
    Piece,
    Remark,
    Section,
    Speaking,
    Working,
    doing,
    incomplete_fact,
    role_failed,
    round_heading,
    step_fact,
)
from flowdebate.ui.speech import WITHDRAWN, Speech
from flowdebate.ui.text import cost_text

if TYPE_CHECKING:
    from flowdebate.ui.plan import Plan


LiveT = TypeVar("LiveT", bound=LiveSection)
_TOOL_SHOWN = 200
"""Maximum number of characters to show from a tool's arguments or result."""
OwnSections: TypeAlias = "Mapping[type[BaseEvent], Callable[[Any], Iterable[Section]]]"
"""Functions that build the sections for pattern-specific events, keyed by event class."""


_UNSEEN = frozenset(
    {
        CallStarted,
        ModelCalled,
        CallRetried,
        CallFellBack,
        TextWithdrawn,
        ToolCalled,
        BlockAnswered,
        TaskChanged,
        TurnStarted,
    }
)
"""Event classes to skip on pages that show only complete contributions: they are frequent and do not affect
such pages.
"""


class Live:
    """View of one run, shared by all front ends and derived from the run's events.

    Use `handle` for pages, which show finished contributions next to the text in `speaking`. Use `follow` for
    append-only output, such as a terminal. This class itself accepts events from any pattern, and needs neither a plan
    nor a document.
    """

    roles: ClassVar[Mapping[str, str]] = {"synthesizer": "writing the output"}
    """Phrases describing what each role other than the speakers does, such as "writing the output"."""
    phases: ClassVar[Mapping[str, str]] = {}
    """Phrases describing what a speaker does, keyed by the turn's phase."""
    event_sections: ClassVar[OwnSections] = {}

    def __init__(self, plan: Plan | None = None, document: Document | None = None) -> None:
        self.plan = plan
        self.speakers: list[Any] = []
        """Speakers whose names and positions are shown in the page header."""
        self.length: int | None = None
        """Maximum number of rounds or turns, if known."""
        if plan is not None:
            self.speakers, self.length = speakers_of(plan.speakers), plan.length
        elif document is not None:
            self.speakers = document.speakers
            self.length = getattr(document, "max_turns", getattr(document, "max_rounds", None))
        self.clock: Callable[[], float] = time.monotonic
        """Clock in seconds, used to measure how long a call has been in progress."""
        self._names = {speaker.name for speaker in self.speakers}
        self._budget = None if plan is None else Budget(plan.limits or Limits())
        self.usage: Usage = Usage.zero()
        """Calls and tokens so far."""
        self.cost: float = 0.0
        """Cost so far, at the plan's prices or known prices; 0 if there are no prices."""
        self._unpriced = False
        """True once a model without a known price has been called; the cost is then not shown."""
        self._calls: dict[str, tuple[CallStarted, float]] = {}
        """Calls in progress with their start times, keyed by path."""
        self._turns: dict[str, TurnStarted] = {}
        """Each speaker's last turn, keyed by block."""
        self._writing: set[str] = set()
        """Blocks that are currently streaming text."""
        self._failed: list[RoleFailed] = []
        """Failures that the run's result has not listed yet."""
        self._flags: dict[str, Flag] = {}
        """Flags for contributions about to end, keyed by the speaker's name."""
        self._speech = Speech()
        kinds: list[type[Live]] = _kinds() if type(self) is Live else [type(self)]
        self.work_of_roles: dict[str, str] = {
            **Live.roles,
            # Reversed so that the pattern registered first takes precedence if two patterns describe the same role.
            **{role: work for kind in reversed(kinds) for role, work in kind.roles.items()},
        }
        self.work_of_phases: dict[str, str] = {
            phase: words for kind in reversed(kinds) for phase, words in kind.phases.items()
        }
        self.round: RoundStarted | None = None
        self.turns: int = 0

    def follow(self, event: object) -> Iterator[LiveSection]:
        """Yield the sections to append for `event`, and a description of the current work whenever it changes."""
        yield from self._marked(event, self.sections(event))
        if self._changes_work(event) and self._calls:
            models = {call.model for call, _ in self._calls.values()}
            prices = None if self._budget is None else self._budget.prices
            cost = f"cost {cost_text(self.cost, prices)}" if self.cost else ""
            yield Working(
                who=self.doing,
                since=min(since for _, since in self._calls.values()),
                facts=tuple(fact for fact in (self.progress(), tokens_text(self.usage), cost) if fact),
                model=models.pop() if len(models) == 1 else "",
            )

    def take(self, event: object, start: int | None = None) -> bool:
        """Process `event`; return whether the current work changed.

        `start` is the offset of streamed text within the answer, if known.
        """
        for _ in self._speech.of(event, start):  # exhaust the generator to update the current speaker
            pass
        if isinstance(event, RoleFailed) and event.instead in ("cut_off", "empty"):
            self._flags[event.name] = event.instead
        return self._changes_work(event)

    def handle(self, event: object) -> Iterator[Section]:
        """Process an `event` other than streamed text, and return its sections for a page of complete contributions."""
        self.take(event)
        if type(event) not in _UNSEEN:
            yield from self._marked(event, self.whole(event))

    def _marked(self, event: object, sections: Iterable[LiveT]) -> Iterator[LiveT | Fact]:
        """Insert the line about missing participants before the result in `sections`."""
        if isinstance(event, RoleFailed):
            self._failed.append(event)
        for section in sections:
            if isinstance(section, (Card, Output, OutputHeading)):
                if (fact := incomplete_fact(self._failed)) is not None:
                    yield fact
                self._failed = []
            yield section

    @property
    def speaking(self) -> list[tuple[TurnStarted, str]]:
        """Turns in progress, each with the text spoken so far."""
        return self._speech.speaking

    @property
    def at_work(self) -> list[tuple[str, str, float]]:
        """Calls in progress, with their roles, activities and start times."""
        working = []
        for call, since in self._calls.values():
            who, does = call.block, "at work"
            if (turn := self._turns.get(call.block)) is not None:
                who, does = turn.agent_name, self.work_of_phases.get(turn.phase or "", "thinking")
                if call.block in self._writing:
                    does = "writing"
            elif call.role is not None and call.role in self.work_of_roles:
                who, does = f"The {call.role}", self.work_of_roles[call.role]
            working.append((who, does, since))
        return working

    @property
    def doing(self) -> str:
        """Describe the current work in a sentence; return "" if nothing is in progress."""
        doing: dict[str, dict[str, None]] = {}
        for who, what, _ in self.at_work:
            doing.setdefault(what, {})[who] = None
        return "; ".join(f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {do}" for do, names in doing.items())

    def name_of(self, event: CallRetried | CallFellBack) -> str:
        """Return the name of the speaker or role making the call or, if there is neither, the name of the block."""
        turn = self._turns.get(event.block)
        return turn.agent_name if turn is not None else event.role or event.block

    @property
    def describe_other_roles(self) -> list[str]:
        """Describe what each role other than a speaker is currently doing, in one sentence per role."""
        speaking = {turn.agent_name for turn, _ in self.speaking}
        return list(dict.fromkeys(f"{who} is {do}" for who, do, _ in self.at_work if who not in speaking))

    def has_spoken(self, block: str) -> bool:
        """Return whether `block` belongs to a speaker, that is, whether it has had a turn."""
        return block in self._turns

    def about(self, name: str, position: str | None = None) -> str:
        """Return the text shown next to a speaker's name: `position`, or "" if the page header already shows it."""
        return "" if name in self._names else position or ""

    def about_turn(self, turn: TurnStarted | TurnFinished) -> str:
        """Return the text shown next to the current speaker's name."""
        return self.about(turn.agent_name, turn.stance)

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        yield round_heading(event.round, event.max_rounds, event.phase)

    def result(self, event: object) -> Iterator[Section]:  # noqa: ARG002 - for the patterns
        """Build the result's sections if `event` contains the result."""
        yield from ()

    def turn_sections(self, turn: TurnFinished, text: str) -> Iterator[Section]:
        flag = self._flags.pop(turn.agent_name, None)
        does = doing(turn.phase, turn.target)
        yield Entry(name=turn.agent_name, about=self.about_turn(turn), text=text, flag=flag, does=does)

    def whole(self, event: object) -> Iterator[Section]:
        """Build the sections for `event` on a page that shows only complete contributions."""
        match event:
            case TurnFinished():
                yield from self.turn_sections(event, self._speech.finished)
            case RoleFailed() if event.instead in FLAGS:  # shown with the contribution
                pass
            case _:
                yield from self._sections(event)

    def sections(self, event: object) -> Iterator[LiveSection]:
        """Build the sections to append for `event`."""
        if isinstance(event, (CallRetried, CallFellBack)):
            yield from self.trouble(event)
        else:
            yield from self._sections(event)

    def _sections(self, event: object) -> Iterator[Section]:
        match event:
            case RoundStarted():
                yield from self.heading(event)
            case EscalationStepFinished():
                yield step_fact(event.step)
            case RoleFailed() if event.instead == "cut_off":  # shown with the answer
                pass
            case RoleFailed():
                yield role_failed(event.role, event.name, event.message, event.instead)
            case ToolCalled():
                call_text = f"{event.tool}({_cut(event.arguments)}) = {_cut(event.result)}"
                yield Fact(label="Tool", text=call_text, tone="dim")
            case _ if type(self) is Live:
                yield from sections_of(event)
            case BaseEvent() if (render := self.event_sections.get(type(event))) is not None:
                yield from render(event)
            case _:
                yield from self.result(event)

    def progress(self) -> str:
        """Describe the run's progress; return "" if unknown."""
        if self.round is None or self.round.max_rounds == 1:
            return ""
        phase = "" if self.round.phase is None else f", {self.round.phase}"
        return f"round {self.round.round} of {self.round.max_rounds}{phase}"

    def _changes_work(self, event: object) -> bool:
        match event:
            case CallStarted():
                self._calls[event.path] = event, self.clock()
            case ModelCalled():
                self.usage += event.usage
                if self._budget is not None:
                    prices = [self._budget.price_of(attempt.model, attempt.usage) for attempt in event.attempts]
                    self._unpriced = self._unpriced or None in prices
                    self.cost = 0.0 if self._unpriced else self.cost + sum(price or 0.0 for price in prices)
                self._calls.pop(event.path, None)
                self._writing.discard(event.block)
            case TextDelta() if event.block not in self._writing:
                self._writing.add(event.block)
            case TurnStarted():
                self._turns[event.block] = event
                self.turns += 1
                return False
            case RoundStarted():
                self.round = event
                return False
            case RoundsEnded():
                self.round = None
                return False
            case _:
                return False
        return True

    def trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> Iterator[Remark]:
        """Describe a retry or a fallback and its reason, naming the caller `who` if several calls are in progress."""
        before = "" if who is None else f"{who}: "
        if isinstance(event, CallFellBack):
            yield Remark(text=f"{before}{event.model} failed: {event.message}; asking {event.to}")
        else:
            soon = "" if event.wait < 1 else f" in {event.wait:.0f} s"
            yield Remark(text=f"{before}{event.message}; asking again{soon}")


class OneByOne(Live):
    """View for patterns with one speaker at a time, showing text as the model writes it.

    If turns overlap, the first turn is shown as it is written, and each later turn once all earlier turns have
    finished.
    """

    def __init__(self, plan: Plan | None = None, document: Document | None = None) -> None:
        super().__init__(plan, document)
        writes = plan is not None and isinstance(plan.options, OutputOptions) and plan.options.synthesizes
        self._synthesizer = f"{plan.name}-synthesizer" if plan is not None and writes else None
        self._speaking: str | None = None
        """Block whose text is being shown."""
        self._streamed = False
        """True if any of the block's text has been shown."""
        self._open: dict[str, list[object]] = {}
        """Events of waiting turns that have yet to be shown, keyed by block."""

    def sections(self, event: object) -> Iterator[LiveSection]:
        block = getattr(event, "block", None)
        if isinstance(event, TurnStarted):
            self._open.setdefault(event.block, [])
        elif isinstance(event, (RoundStarted, RoundsEnded)):  # drop abandoned turns
            yield from self._released(all_turns=True)
        if block in self._open and block != next(iter(self._open)):
            self._open[block].append(event)
            return
        yield from self._visible_sections(event)
        if _ends_turn(event) and self._open.pop(str(block), None) is not None:
            yield from self._released()

    def _released(self, *, all_turns: bool = False) -> Iterator[LiveSection]:
        """Return the sections of turns that had to wait for an earlier turn to finish."""
        for block in list(self._open):
            pieces, self._open[block] = self._open[block], []
            for event in pieces:
                yield from self._visible_sections(event)
            if not all_turns and not any(map(_ends_turn, pieces)):
                return
            del self._open[block]

    def progress(self) -> str:
        """Describe progress in turns rather than rounds if every speaker has one turn per round."""
        # In mirrored debates and debates with phases, the number of turns varies, so the round is shown instead.
        maximum = len(self.speakers) * (self.length or 0) if self.round is None or self.round.phase is None else 0
        return (
            f"turn {self.turns} of {maximum}"
            if self.round is not None and self.turns <= maximum
            else super().progress()
        )

    def _visible_sections(self, event: object) -> Iterator[LiveSection]:
        match event:
            case RoleFailed() if event.instead != "cut_off":
                yield from self._sections(event)
                self._streamed = False
            case TurnStarted():
                yield Speaking(name=event.agent_name, about=self.about_turn(event))
                self._speaking, self._streamed = event.block, False
            case TextDelta() if self._is_visible(event.block):
                if event.block == self._synthesizer and not self._streamed:
                    yield OutputHeading()
                self._streamed = True
                yield Piece(text=event.text)
            case TextWithdrawn() if self._is_visible(event.block):
                if self._streamed:
                    yield Ending()
                    yield Remark(text=f"that does not count: {WITHDRAWN}")
                    self._streamed = False
            case BlockAnswered() if self._is_visible(event.block):
                yield from self._answered(event)
            case TurnFinished():
                yield Ending()
                self._speaking = None
                self._streamed = False
            case CallRetried() | CallFellBack():
                yield from self.trouble(event)
            case _:
                yield from self._sections(event)

    def _is_visible(self, block: str) -> bool:
        if block == self._synthesizer and block != self._speaking:  # the synthesizer speaks outside of turns
            self._speaking, self._streamed = block, False
        return block == self._speaking

    def trouble(  # type: ignore[override]  # with the end of a text
        self, event: CallRetried | CallFellBack, *, who: str | None = None
    ) -> Iterator[LiveSection]:
        """Describe a retry or a fallback, after a note that the text shown so far does not count."""
        if self._streamed:
            yield Ending()
            yield Remark(text="that answer does not count")
            self._streamed = False
        yield from super().trouble(event, who=who)

    def _answered(self, answer: BlockAnswered) -> Iterator[LiveSection]:
        text = self._streamed
        if text:
            yield Ending()
        if text and answer.first_counts:
            yield Remark(text="that answer is no better than the first one, so the first one counts")
            text = False
        if text:
            pass
        elif answer.block == self._synthesizer:
            yield Output(value=answer.output)
        else:
            yield Piece(text=str(answer.output))
            yield Ending()
        if answer.truncated:
            yield Remark(text=FLAGS["cut_off"])


class Together(Live):
    """View for patterns with simultaneous speakers; each speaker's text is shown once it is complete."""

    def __init__(self, plan: Plan | None = None, document: Document | None = None) -> None:
        super().__init__(plan, document)
        self._awaited: dict[str, str] = {}
        """Current speakers, keyed by block."""
        self._answers: dict[str, BlockAnswered] = {}

    def sections(self, event: object) -> Iterator[LiveSection]:
        match event:
            case TurnStarted():
                self._awaited[event.block] = event.agent_name
            case BlockAnswered() if event.block in self._awaited:
                self._answers[event.block] = event
            case TurnFinished():
                yield from self._answered(event)
            case RoleFailed() if event.instead != "cut_off":
                yield from self._sections(event)
                self._awaited.pop(event.block, None)
            case CallRetried() | CallFellBack():
                yield from self.trouble(event, who=self._awaited.get(event.block, event.role or event.block))
            case _:
                yield from self._sections(event)

    def _answered(self, turn: TurnFinished) -> Iterator[Section]:
        answer = self._answers.pop(turn.block, None)
        del self._awaited[turn.block]  # calls outside of turns do not affect a turn
        if answer is not None:  # None for a human, who has already seen what they typed
            if answer.truncated:
                self._flags[turn.agent_name] = "cut_off"
            yield from self.turn_sections(turn, str(answer.output))


def sections_of(event: object) -> Iterable[Section]:
    """Build the sections for a pattern-specific event; return no sections for run events or application events."""
    for kind in _kinds():
        if isinstance(event, BaseEvent) and (render := kind.event_sections.get(type(event))) is not None:
            return render(event)
    return ()


def _kinds() -> list[type[Live]]:
    """Return the live view classes of all registered patterns."""
    return [info.load_page().live for info in load_patterns().values()]


def tokens_text(usage: Usage) -> str:
    """Describe the tokens used so far; return "" if unknown.

    >>> from flowdebate.models.base import Usage
    >>> tokens_text(Usage(calls=2, prompt_tokens=1200, completion_tokens=80))
    '1,200 tokens in, 80 out'
    """
    if not usage.total_tokens:
        return ""
    return f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out"


def _ends_turn(event: object) -> bool:
    return isinstance(event, TurnFinished) or (isinstance(event, RoleFailed) and event.instead == "skipped")


def _listed(names: Iterable[str]) -> str:
    """Join names for use in a sentence, ending a long list with, for example, "and 3 more"."""
    first, rest = list(names)[:_NAMED], list(names)[_NAMED:]
    if rest:
        return f"{', '.join(first)} and {len(rest)} more"
    return " and ".join(filter(None, (", ".join(first[:-1]), first[-1])))


_NAMED = 4
"""Maximum number of names listed in a sentence."""


def _cut(text: str) -> str:
    return text if len(text) <= _TOOL_SHOWN else f"{text[:_TOOL_SHOWN]}… ({len(text):,})"
