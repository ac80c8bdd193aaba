"""What is held, shown as it goes on: its events, written on a page as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.patterns.events import RoleFailed, RoundStarted, TurnFinished, TurnStarted
from flowdebate.runs.events import BlockAnswered, CallFellBack, CallRetried, TextDelta, ToolCalled

if TYPE_CHECKING:
    from flowdebate.cli.document import Document
    from flowdebate.cli.page import Page
    from flowdebate.runs.result import RunHandle

__all__ = ("AllAtOnce", "LiveView", "OneByOne")


class LiveView:
    """Writes on `page` what `show` is given; each pattern adds what its events look like."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._handle: RunHandle[Any] | None = None

    def attend(self, handle: RunHandle[Any]) -> None:
        """The run whose events are shown from now on."""
        self._handle = handle

    @property
    def transcript(self) -> list[Any]:
        """What stands in the run's transcript."""
        return [] if self._handle is None else list(self._handle.transcript.entries)

    def show(self, event: object) -> None:
        """Write what there is to see of `event`."""
        match event:
            case RoundStarted():
                self.page.round(event.round, event.max_rounds)
            case RoleFailed():
                self.page.loss(event.seat, event.name, event.message, event.instead)
            case CallRetried() | CallFellBack():
                self.show_trouble(event)
            case ToolCalled():
                self.page.tool(event)
            case _:
                pass

    def show_trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> None:
        """Why nothing comes yet, and from whom where several are awaited."""
        before = "" if who is None else f"{who}: "
        if isinstance(event, CallFellBack):
            self.page.remark(f"{before}{event.model} failed: {event.message}; asking {event.to}")
        else:
            soon = "" if event.wait < 1 else f" in {event.wait:.0f} s"
            self.page.remark(f"{before}{event.message}; asking again{soon}")

    def cut_off(self) -> None:
        """Say that an answer ran out of room."""
        self.page.remark("the model ran out of room: what counts ends with the last full sentence")

    def finish(self, document: Document) -> None:
        """Write what comes when it is over."""
        self.page.ending(document)


class OneByOne(LiveView):
    """A view of what has one speaker at a time: text is shown as the model writes it.

    `synthesizer` is the block that makes an output at the end; None without one.
    """

    def __init__(self, page: Page, *, synthesizer: str | None = None) -> None:
        super().__init__(page)
        self._synthesizer = synthesizer
        self._speaking: str | None = None
        """The block whose text is shown."""
        self._streamed = False
        """Whether some of its text was shown already."""

    def show(self, event: object) -> None:
        match event:
            case RoleFailed():
                super().show(event)
                self._streamed = False
            case TurnStarted():
                self.page.speaker(event.agent_name, self.about(event))
                self.page.notice("…")
                self.listen_to(event.block)
            case TextDelta():
                self._text(event)
            case BlockAnswered() if event.block == self._speaking:
                self._answered(event)
            case TurnFinished():
                self.page.end_text()
                self._speaking = None
            case _:
                super().show(event)

    def about(self, turn: TurnStarted) -> str:
        """What is said of the speaker beside its name."""
        return turn.stance or self.page.about(turn.agent_name)

    def listen_to(self, block: str) -> None:
        """Show what `block` says from now on."""
        self._speaking = block
        self._streamed = False

    def await_output(self) -> None:
        """The synthesizer is next, if there is one."""
        if self._synthesizer is not None:
            self.page.notice("The synthesizer writes the output …")
            self.listen_to(self._synthesizer)

    def show_trouble(self, event: CallRetried | CallFellBack, *, who: str | None = None) -> None:
        """And that what was already shown of an answer does not count."""
        if self._streamed:
            self.page.end_text()
            self.page.remark("that answer broke off and does not count")
            self._streamed = False
        super().show_trouble(event, who=who)

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
            self.cut_off()


class AllAtOnce(LiveView):
    """A view of what has several speakers at the same time: what each said is shown whole, as soon as it is."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._awaited: dict[str, str] = {}
        """Who speaks, by block."""
        self._answers: dict[str, BlockAnswered] = {}

    def show(self, event: object) -> None:
        match event:
            case TurnStarted():
                self._awaited[event.block] = event.agent_name
            case BlockAnswered() if event.block in self._awaited:
                self._answers[event.block] = event
                return
            case TurnFinished():
                self._said(event)
            case RoleFailed():
                super().show(event)
                self._awaited.pop(event.block, None)
            case CallRetried() | CallFellBack():
                self.show_trouble(event, who=self._awaited.get(event.block, event.block.rsplit("-", 1)[-1]))
            case TextDelta():
                return
            case _:
                super().show(event)
        if self._awaited:
            self.page.notice(f"{', '.join(self._awaited.values())} …")

    def all_said(self) -> bool:
        """Whether nobody is awaited any more."""
        return not self._awaited

    def _said(self, turn: TurnFinished) -> None:
        answer = self._answers.pop(turn.block)
        del self._awaited[turn.block]
        self.page.said(turn.agent_name, self.page.about(turn.agent_name), str(answer.output))
        if answer.truncated:
            self.cut_off()
