"""Live view of a run: the sections of its events, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.patterns.events import RoleFailed, RoundStarted, TurnFinished, TurnsOrdered, TurnStarted
from flowdebate.runs.events import BlockAnswered, CallFellBack, CallRetried, TextDelta, ToolCalled
from flowdebate.service.documents import speakers_of
from flowdebate.service.options import OutputOptions
from flowdebate.service.sections import (
    FLAGS,
    Ending,
    Entry,
    Fact,
    Notice,
    Output,
    OutputHeading,
    Piece,
    Remark,
    Section,
    Speaking,
    role_failed,
    round_heading,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.patterns.state import Flag
    from flowdebate.runs.result import RunHandle
    from flowdebate.service.plan import Plan

__all__ = ("Live", "OneByOne", "Together")

_TOOL_SHOWN = 200
"""Characters of a tool's arguments and result that are shown."""


class Live:
    """Makes sections of events; each pattern adds what its own events look like."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._about = {speaker.name: speaker.about for speaker in speakers_of(plan.speakers)}
        self._handle: RunHandle[Any] | None = None

    def attend(self, handle: RunHandle[Any]) -> None:
        """Follow this run from now on."""
        self._handle = handle

    @property
    def transcript(self) -> list[Any]:
        """The entries of the run's transcript."""
        return [] if self._handle is None else list(self._handle.transcript.entries)

    def about(self, name: str) -> str:
        """The text beside a speaker's name."""
        return str(self._about.get(name, ""))

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

    def trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> Iterator[Section]:
        """A retry or a fallback, with its reason; `who` if several are awaited."""
        before = "" if who is None else f"{who}: "
        if isinstance(event, CallFellBack):
            yield Remark(text=f"{before}{event.model} failed: {event.message}; asking {event.to}")
        else:
            soon = "" if event.wait < 1 else f" in {event.wait:.0f} s"
            yield Remark(text=f"{before}{event.message}; asking again{soon}")


class OneByOne(Live):
    """View of a pattern with one speaker at a time: text is shown as the model writes it."""

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
        self._together: Together | None = None
        """The view of a round's turns, where all speak at once."""

    def sections(self, event: object) -> Iterator[Section]:
        if isinstance(event, TurnsOrdered):
            self._together = Together(self.plan) if event.turn_order == "simultaneous" else None
        if self._together is not None and self._together.awaits(event):
            yield from self._together.sections(event)
            return
        match event:
            case RoleFailed() if event.instead != "cut_off":
                yield from super().sections(event)
                self._streamed = False
            case TurnStarted():
                yield Speaking(name=event.agent_name, about=event.stance or self.about(event.agent_name))
                yield Notice(text="…")
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
            case _:
                yield from super().sections(event)

    def listen_to(self, block: str) -> None:
        """Show what `block` says from now on."""
        self._speaking = block
        self._streamed = False

    def await_output(self) -> Iterator[Section]:
        """Announce the synthesizer, if there is one."""
        if self._synthesizer is not None:
            yield Notice(text="The synthesizer writes the output …")
            self.listen_to(self._synthesizer)

    def trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> Iterator[Section]:
        """The same, after marking the text shown so far as void."""
        if self._streamed:
            yield Ending()
            yield Remark(text="that answer broke off and does not count")
            self._streamed = False
        yield from super().trouble(event, who=who)

    def _answered(self, answer: BlockAnswered) -> Iterator[Section]:
        if self._streamed:
            yield Ending()
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
                return
            case TurnFinished():
                yield from self._said(event)
            case RoleFailed() if event.instead != "cut_off":
                yield from super().sections(event)
                self._awaited.pop(event.block, None)
            case CallRetried() | CallFellBack():
                yield from self.trouble(event, who=self._awaited.get(event.block, event.block.rsplit("-", 1)[-1]))
            case TextDelta():
                return
            case _:
                yield from super().sections(event)
        if self._awaited:
            yield Notice(text=f"{', '.join(self._awaited.values())} …")

    def awaits(self, event: object) -> bool:
        """Whether `event` is about a turn."""
        return isinstance(event, TurnStarted) or getattr(event, "block", None) in self._awaited

    def all_said(self) -> bool:
        """Whether all have spoken."""
        return not self._awaited

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
        yield Entry(name=turn.agent_name, about=self.about(turn.agent_name), text=str(answer.output), flag=flag)


def _cut(text: str) -> str:
    return text if len(text) <= _TOOL_SHOWN else f"{text[:_TOOL_SHOWN]}… ({len(text):,})"
