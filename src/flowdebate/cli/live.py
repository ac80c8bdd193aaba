"""A debate as it is held: its events, written on a page as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.runs.events import (
    BlockAnswered,
    CallFellBack,
    CallRetried,
    JudgeViewMade,
    ModeratorDecided,
    RoundStarted,
    SeatLost,
    TextDelta,
    ToolCalled,
    TurnFinished,
    TurnStarted,
    VerdictReached,
)

if TYPE_CHECKING:
    from flowdebate.cli.page import Page

__all__ = ("LiveView",)


class LiveView:
    """Writes on `page` what `show` is given; `synthesizer` is the block that makes the output, None without one."""

    def __init__(self, page: Page, *, synthesizer: str | None, moderated: bool) -> None:
        self.page = page
        self._synthesizer = synthesizer
        self._moderated = moderated
        self._speaking: str | None = None
        """The block whose text is shown."""
        self._streamed = False
        """Whether some of its text was shown already."""

    def show(self, event: object) -> None:
        """Write what there is to see of `event`."""
        match event:
            case RoundStarted():
                self.page.round(event.round, event.max_rounds)
                if self._moderated:
                    self.page.notice("The moderator opens the round …")
            case ModeratorDecided():
                self.page.decision(event.decision)
            case JudgeViewMade():
                self.page.notice("The judge weighs the arguments …")
            case VerdictReached():
                self.page.verdict(event.verdict)
                if self._synthesizer is not None:
                    self.page.notice("The synthesizer writes the output …")
                    self._listen_to(self._synthesizer)
            case SeatLost():
                self.page.loss(event.seat, event.name, event.message, event.instead)
                self._streamed = False
            case CallRetried() | CallFellBack():
                self._show_trouble(event)
            case _:
                self._show_turn(event)

    def _show_trouble(self, event: CallRetried | CallFellBack) -> None:
        """Why nothing comes yet; and that what was already shown of an answer does not count."""
        if self._streamed:
            self.page.end_text()
            self.page.remark("that answer broke off and does not count")
            self._streamed = False
        if isinstance(event, CallFellBack):
            self.page.remark(f"{event.model} failed: {event.message}; asking {event.to}")
        else:
            soon = "" if event.wait < 1 else f" in {event.wait:.0f} s"
            self.page.remark(f"{event.message}; asking again{soon}")

    def _show_turn(self, event: object) -> None:
        match event:
            case TurnStarted():
                self.page.speaker(event.agent_name, event.stance or "")
                self.page.notice("…")
                self._listen_to(event.block)
            case TextDelta():
                self._text(event)
            case ToolCalled():
                self.page.tool(event)
            case BlockAnswered() if event.block == self._speaking:
                self._answered(event)
            case TurnFinished():
                self.page.end_text()
                self._speaking = None
            case _:
                pass

    def _listen_to(self, block: str) -> None:
        self._speaking = block
        self._streamed = False

    def _text(self, delta: TextDelta) -> None:
        if delta.block == self._speaking:
            if delta.block == self._synthesizer and not self._streamed:
                self.page.output_heading()
            self._streamed = True
            self.page.text(delta.text)

    def _answered(self, answer: BlockAnswered) -> None:
        if self._streamed:
            self.page.end_text()
        elif answer.block == self._synthesizer:
            self.page.output(answer.output)
        else:
            self.page.text(str(answer.output))
            self.page.end_text()
        if answer.truncated:
            self.page.remark("the model ran out of room: what counts ends with the last full sentence")
