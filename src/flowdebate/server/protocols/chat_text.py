"""Markdown rendering of runs for chat clients, streamed in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowdebate.chassis.output import mark_answer
from flowdebate.chassis.state import RoleFailed, RoundStarted, TurnFinished, TurnStarted
from flowdebate.ui.live import sections_of
from flowdebate.ui.markdown import bold, sections_text
from flowdebate.ui.sections import Group, Output, Remark, Section, role_failed, round_heading
from flowdebate.ui.speech import Closed, Opened, Piece, Speech, Spoken
from flowdebate.ui.text import PrintableStream, as_json, printable

if TYPE_CHECKING:
    from flowdebate.service.channel import Update
    from flowdebate.service.state import RunDetails
    from flowdebate.ui.document import Document


class ChatText:
    """Translator from a run's updates to Markdown; it must receive all updates, beginning with the first.

    Contributions are quoted so that their text cannot end the quote; the client renders their Markdown. If turns
    overlap, the first is shown while it is being written, and each later turn is shown once the turn before it has
    ended.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._speech = Speech()
        self._parts: list[_Part] = []
        """Parts that have not been shown in full yet, in order."""
        self._said: dict[str, _Part] = {}
        """Utterances in progress, keyed by id."""
        self._turns: dict[str, _Part] = {}
        """Empty part marking the end of each turn in progress, keyed by the turn's path."""

    def translate(self, update: Update) -> str:
        """Translate an update; return the next chunk of text, or "" if there is none."""
        if update.kind == "reset":
            self._begin()
            return sections_text([Remark(text="The order of events has changed; the run from its beginning:")])
        event = update.event
        if isinstance(event, TurnStarted):
            self._turns[event.path] = _Part([])
            self._parts.append(self._turns[event.path])
        self._add_speech(self._speech.of(event, update.start))
        if text := sections_text(_sections(event)):
            self._parts.append(_Part([text], done=True))
        skipped = isinstance(event, RoleFailed) and event.instead == "skipped"
        if (skipped or isinstance(event, TurnFinished)) and (end := self._turns.pop(event.path, None)) is not None:
            end.done = True
        return self._visible_text()

    def finish(self, details: RunDetails, output: object = None) -> str:
        """Return the last chunk: the run's result, or its pending request.

        `output` is used if the run has no document.
        """
        self._add_speech(self._speech.end())
        for end in self._turns.values():
            end.done = True
        return f"{self._visible_text()}{_outcome(details.document, output)}{sections_text(_ending(details))}".rstrip(
            "\n"
        )

    def _add_speech(self, spoken: Iterable[Spoken]) -> None:
        for utterance in spoken:
            match utterance:
                case Opened(turn=turn) if turn is not None:
                    heading = turn.stance or " of ".join(filter(None, (turn.phase, turn.target)))
                    part = self._said[utterance.id] = _Part([f"{bold(turn.agent_name, heading)}\n\n> "])
                    end = self._turns.get(turn.path)
                    places = (
                        at for at, other in enumerate(self._parts) if other is end
                    )  # compared by identity, because parts with the same text are equal
                    self._parts.insert(next(places, len(self._parts)), part)
                case Piece() if utterance.id in self._said:
                    self._said[utterance.id].say(utterance.text)
                case Closed() if utterance.id in self._said:
                    self._said.pop(utterance.id).end(utterance.void)
                case _:
                    pass

    def _visible_text(self) -> str:
        """Return the text to show now: everything up to the first unfinished contribution."""
        parts = []
        while self._parts:
            parts += self._parts[0].take()
            if not self._parts[0].done:
                break
            del self._parts[0]
        return "".join(parts)


@dataclass(slots=True)
class _Part:
    """An utterance, or text added by `ChatText`."""

    texts: list[str]
    """Chunks of text still to be shown."""
    done: bool = False
    _stream: PrintableStream = field(default_factory=PrintableStream)

    def say(self, text: str) -> None:
        self.texts.append(_in_quote(self._stream.feed(text)))

    def end(self, void: str | None) -> None:
        """End the part; `void` is the reason why the part does not count, or None if it counts."""
        remark = "" if void is None else sections_text([Remark(text=f"that does not count: {void}")])
        self.texts.append(f"{_in_quote(self._stream.end())}\n\n{remark}")
        self.done = True

    def take(self) -> list[str]:
        """Remove and return the chunks still to be shown."""
        texts, self.texts = self.texts, []
        return texts


def _in_quote(text: str) -> str:
    return text.replace("\n", "\n> ")


def _sections(event: object) -> Iterable[Section]:
    """Convert an event other than an utterance to document sections."""
    match event:
        case RoundStarted():
            return (round_heading(event.round, event.max_rounds),)
        case RoleFailed():  # also reports truncated text, which is not marked in any other way
            return (role_failed(event.role, event.name, event.message, event.instead),)
        case _:
            return sections_of(event)


def _outcome(document: Document | None, output: object) -> str:
    """Render the run's result. Markdown in text output is left for the chat client to render."""
    if document is None:
        return "" if output is None else f"{printable(_text_of(output))}\n\n"
    *sections, last = [None, *document.outcome()]
    before = sections_text(filter(None, sections))
    if isinstance(last, Output) and isinstance(last.value, str):
        return f"{before}## Summary\n\n{printable(last.value)}\n\n"
    return before + sections_text(filter(None, [last]))


def _ending(details: RunDetails) -> Iterator[Section]:
    """Yield a waiting run's pending requests, or the reason why a run ended early."""
    match details.status:
        case "awaiting":
            for request in details.pending:
                yield Group(label=f"Waiting for {request.block}", text=request.expects)
            yield Remark(text=f"Run {details.run_id} goes on once this is answered.")
        case "limit" | "interrupted":
            yield Remark(text=f"The run ended early: {details.error or details.status}")
        case _:
            pass


def answer_of(details: RunDetails, output: object = None) -> str | None:
    """Return only the run's answer: its output as text (or as JSON, if it has fields), or else the pattern's answer.

    If the run has no document, `output` is used instead.
    """
    if details.document is not None:
        document = details.document
        output = getattr(document, "output", None)
        output = mark_answer(document.raw.answer if output is None else output, document.raw.losses)
    return None if output is None else _text_of(output)


def _text_of(output: object) -> str:
    return output if isinstance(output, str) else as_json(output)
