"""Live view of a run: the sections of its events, as they come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from flowdebate.models.usage import Usage
from flowdebate.patterns.events import RoleFailed, RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.runs.events import (
    BlockAnswered,
    CallFellBack,
    CallRetried,
    CallStarted,
    ModelCalled,
    TextDelta,
    ToolCalled,
)
from flowdebate.runs.limits import Budget
from flowdebate.service.documents.document import speakers_of
from flowdebate.service.documents.sections import (
    FLAGS,
    Ending,
    Entry,
    Fact,
    Output,
    OutputHeading,
    Piece,
    Remark,
    Section,
    Speaking,
    Working,
    role_failed,
    round_heading,
)
from flowdebate.service.plans.options import OutputOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from flowdebate.patterns.state import Flag
    from flowdebate.service.plans.plan import Plan


_TOOL_SHOWN = 200
"""Characters of a tool's arguments and result that are shown."""
_PHASES: Mapping[str | None, str] = {
    None: "thinking",
    "proposal": "proposing",
    "critique": "criticising",
    "revision": "revising",
    "poll": "polled",
    "vote": "voting",
    "review": "ranking the answers",
}
"""What a speaker is doing, by the phase of its turn."""
_ROLES: Mapping[str, str] = {
    "moderator": "opening the round",
    "judge": "weighing the arguments",
    "synthesizer": "writing the output",
    "referee": "reviewing the round",
    "chair": "writing the answer",
}
"""What another role is doing, by the end of its block's name."""


class Live:
    """Makes sections of events; each pattern adds what its own events look like."""

    roles: ClassVar[Mapping[str, str]] = _ROLES
    """What each role other than a speaker is doing while its model is asked."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock: Callable[[], float] = time.monotonic
        """Seconds, for how long somebody has been at work."""
        self._about = {speaker.name: speaker.about for speaker in speakers_of(plan.speakers)}
        self._budget = None if plan.limits is None else Budget(plan.limits)
        self.usage: Usage = Usage.none()
        """Calls and tokens so far."""
        self.cost: float = 0.0
        """Cost so far, by the plan's prices; 0 without any."""
        self._calls: dict[str, tuple[CallStarted, float]] = {}
        """The calls in progress by path, each with its beginning."""
        self._speakers: dict[str, tuple[str, str | None]] = {}
        """Name and phase of those who had a turn, by block."""
        self._writing: set[str] = set()
        """Blocks whose text is coming in."""
        self.round: RoundStarted | None = None
        """The round in progress."""
        self.turns: int = 0
        """The turns that have started."""

    def follow(self, event: object) -> Iterator[Section]:
        """The sections of `event`, and who is at work after it, where it changes that."""
        yield from self.sections(event)
        if self._changes_work(event) and self._calls:
            yield self._working()

    def about(self, name: str, given: str | None = None) -> str:
        """The text beside a speaker's name: what is `given`, unless the head of the page has it already."""
        return "" if name in self._about else given or ""

    def sections(self, event: object) -> Iterator[Section]:
        """The sections of `event`."""
        match event:
            case RoundStarted():
                yield round_heading(event.round, event.max_rounds)
            case RoleFailed() if event.instead == "cut_off":  # shown with the answer
                pass
            case RoleFailed():
                yield role_failed(event.role, event.name, event.message, event.instead)
            case CallRetried() | CallFellBack():
                yield from self.trouble(event)
            case ToolCalled():
                shown = f"{event.tool}({_cut(event.arguments)}) = {_cut(event.result)}"
                yield Fact(label="Tool", text=shown, tone="dim")
            case _:
                pass

    def progress(self) -> str:
        """How far the run is, in words; "" where that is not known."""
        if self.round is None or self.round.max_rounds == 1:
            return ""
        return f"round {self.round.round} of {self.round.max_rounds}"

    def _changes_work(self, event: object) -> bool:
        match event:
            case CallStarted():
                self._calls[event.path] = event, self.clock()
            case ModelCalled():
                self._count(event)
                self._calls.pop(event.path, None)
                self._writing.discard(event.block)
            case TextDelta() if event.block not in self._writing:
                self._writing.add(event.block)
            case TurnStarted():
                self._speakers[event.block] = event.agent_name, event.phase
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

    def _count(self, call: ModelCalled) -> None:
        self.usage += call.usage
        if self._budget is not None:
            self.cost += sum(self._budget.price_of(each.model, each.usage) or 0.0 for each in call.attempts)

    def _working(self) -> Working:
        calls = list(self._calls.values())
        doing: dict[str, dict[str, None]] = {}
        for call, _ in calls:
            who, what = self._at_work(call.block)
            doing.setdefault(what, {})[who] = None
        models = {call.model for call, _ in calls}
        return Working(
            who="; ".join(f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {do}" for do, names in doing.items()),
            since=min(since for _, since in calls),
            facts=tuple(
                fact for fact in (self.progress(), tokens_text(self.usage), cost_text(self.cost or None)) if fact
            ),
            model=models.pop() if len(models) == 1 else "",
        )

    def _at_work(self, block: str) -> tuple[str, str]:
        """Who speaks through `block`, and what it is doing."""
        if block in self._speakers:
            name, phase = self._speakers[block]
            return name, "writing" if block in self._writing else _PHASES.get(phase, "thinking")
        role = block.rsplit("-", 1)[-1]
        return (f"The {role}", self.roles[role]) if role in self.roles else (block, "at work")

    def trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> Iterator[Section]:
        """A retry or a fallback, with its reason; `who` if several are awaited."""
        before = "" if who is None else f"{who}: "
        if isinstance(event, CallFellBack):
            yield Remark(text=f"{before}{event.model} failed: {event.message}; asking {event.to}")
        else:
            soon = "" if event.wait < 1 else f" in {event.wait:.0f} s"
            yield Remark(text=f"{before}{event.message}; asking again{soon}")


class OneByOne(Live):
    """View of a pattern with one speaker at a time: text is shown as the model writes it.

    Of speakers whose turns overlap, the first is shown as it writes, and each other one once those before it have
    finished.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        options = plan.options
        self._synthesizer = (
            f"{plan.name}-synthesizer" if isinstance(options, OutputOptions) and options.synthesizes else None
        )
        self._speaking: str | None = None
        """The block whose text is shown."""
        self._streamed = False
        """Whether some of its text was shown already."""
        self._open: dict[str, list[object]] = {}
        """The events that are still to be shown of each turn in progress, by block; none of the first turn's."""

    def sections(self, event: object) -> Iterator[Section]:
        block = getattr(event, "block", None)
        if isinstance(event, TurnStarted):
            self._open.setdefault(event.block, [])
        elif isinstance(event, (RoundStarted, RoundsEnded)):  # turns that were given up
            yield from self._released(all_turns=True)
        if block in self._open and block != next(iter(self._open)):
            self._open[block].append(event)
            return
        yield from self._shown(event)
        if _ends_turn(event) and self._open.pop(str(block), None) is not None:
            yield from self._released()

    def _released(self, *, all_turns: bool = False) -> Iterator[Section]:
        """The sections of turns that waited for the one before them."""
        for block in list(self._open):
            held, self._open[block] = self._open[block], []
            for event in held:
                yield from self._shown(event)
            if not all_turns and not any(map(_ends_turn, held)):
                return
            del self._open[block]

    def progress(self) -> str:
        """The turn in place of the round, where every speaker has one in each round."""
        most = len(self.plan.speakers) * self.plan.length
        return f"turn {self.turns} of {most}" if self.round is not None and self.turns <= most else super().progress()

    def _shown(self, event: object) -> Iterator[Section]:
        match event:
            case RoleFailed() if event.instead != "cut_off":
                yield from super().sections(event)
                self._streamed = False
            case TurnStarted():
                yield Speaking(name=event.agent_name, about=self.about(event.agent_name, event.stance))
                self.listen_to(event.block)
            case TextDelta() if event.block == self._speaking:
                if event.block == self._synthesizer and not self._streamed:
                    yield OutputHeading()
                self._streamed = True
                yield Piece(text=event.text)
            case BlockAnswered() if event.block == self._speaking:
                yield from self._answered(event)
            case TurnFinished():
                yield Ending()
                self._speaking = None
                self._streamed = False
            case _:
                yield from super().sections(event)

    def listen_to(self, block: str) -> None:
        """Show what `block` says from now on."""
        self._speaking = block
        self._streamed = False

    def await_output(self) -> None:
        """Listen to the synthesizer, if there is one."""
        if self._synthesizer is not None:
            self.listen_to(self._synthesizer)

    def trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> Iterator[Section]:
        """The same, after marking the text shown so far as void."""
        if self._streamed:
            yield Ending()
            yield Remark(text="that answer does not count")
            self._streamed = False
        yield from super().trouble(event, who=who)

    def _answered(self, answer: BlockAnswered) -> Iterator[Section]:
        shown = self._streamed
        if shown:
            yield Ending()
        if shown and answer.first_counts:
            yield Remark(text="that answer is no better than the first, which counts")
            shown = False
        if shown:
            pass
        elif answer.block == self._synthesizer:
            yield Output(value=answer.output)
        else:
            yield Piece(text=str(answer.output))
            yield Ending()
        if answer.truncated:
            yield Remark(text=FLAGS["cut_off"])


class Together(Live):
    """View of a pattern with several speakers at once: each text is shown whole, as soon as it is finished."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._awaited: dict[str, str] = {}
        """Who speaks, by block."""
        self._answers: dict[str, BlockAnswered] = {}

    def sections(self, event: object) -> Iterator[Section]:
        match event:
            case TurnStarted():
                self._awaited[event.block] = event.agent_name
            case BlockAnswered() if event.block in self._awaited:
                self._answers[event.block] = event
            case TurnFinished():
                yield from self._said(event)
            case RoleFailed() if event.instead != "cut_off":
                yield from super().sections(event)
                self._awaited.pop(event.block, None)
            case CallRetried() | CallFellBack():
                yield from self.trouble(event, who=self._awaited.get(event.block, event.block.rsplit("-", 1)[-1]))
            case _:
                yield from super().sections(event)

    def forget(self, turn: TurnFinished) -> None:
        """Await this turn no longer, and show nothing of it."""
        self._answers.pop(turn.block, None)
        self._awaited.pop(turn.block, None)

    def _said(self, turn: TurnFinished) -> Iterator[Section]:
        answer = self._answers.pop(turn.block, None)
        del self._awaited[turn.block]
        if answer is None:  # of a human, who sees what it types
            return
        flag: Flag | None = "cut_off" if answer.truncated else None
        yield Entry(name=turn.agent_name, about="", text=str(answer.output), flag=flag)


def tokens_text(usage: Usage) -> str:
    """The tokens so far, in words; "" where they are not known.

    >>> from flowdebate.models.usage import Usage
    >>> tokens_text(Usage(calls=2, prompt_tokens=1200, completion_tokens=80))
    '1,200 tokens in, 80 out'
    """
    if not usage.total_tokens:
        return ""
    return f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out"


def cost_text(cost: float | None) -> str:
    """The cost so far, in words; "" without prices.

    >>> cost_text(0.000213), cost_text(12.5), cost_text(0.0), cost_text(None)
    ('cost 0.00021', 'cost 12.50', 'cost 0.00', '')
    """
    if cost is None:
        return ""
    if not cost or cost >= 1:
        return f"cost {cost:,.2f}"
    return f"cost {float(f'{cost:.2g}'):.12f}".rstrip("0")


def _ends_turn(event: object) -> bool:
    return isinstance(event, TurnFinished) or (isinstance(event, RoleFailed) and event.instead == "skipped")


def _listed(names: Iterable[str]) -> str:
    """Names as a sentence has them; many are counted."""
    first, rest = list(names)[:_NAMED], list(names)[_NAMED:]
    if rest:
        return f"{', '.join(first)} and {len(rest)} more"
    return " and ".join(filter(None, (", ".join(first[:-1]), first[-1])))


_NAMED = 4
"""Names that a sentence has."""


def _cut(text: str) -> str:
    return text if len(text) <= _TOOL_SHOWN else f"{text[:_TOOL_SHOWN]}… ({len(text):,})"
