"""Speech in a run, derived from events: the speakers' text in chunks, and notices of withdrawn text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from flowdebate._text import clean_text
from flowdebate.chassis.state import RoleFailed, TurnFinished, TurnStarted
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import (
    BlockAnswered,
    CallFellBack,
    CallRetried,
    ModelCalled,
    TextDelta,
    TextWithdrawn,
    ToolCalled,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The start of an utterance."""

    id: str
    """Id of the utterance, unique within the run: the block's path, `~`, and the 1-based number of the utterance."""
    block: str
    path: str
    """Path of the speaking block."""
    at: float
    turn: TurnStarted | None
    """Turn to which the utterance belongs; None outside turns, for example for a synthesizer's output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The next chunk of an utterance; never empty."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The end of an utterance."""

    id: str
    void: str | None = None
    """Reason why the utterance is void; None if it is valid."""


WITHDRAWN = "the model was only thinking"
"""Reason for withdrawing text that turned out to be part of a model's thinking."""

Spoken: TypeAlias = Opened | Piece | Closed
"""An update about the speech in a run."""


@dataclass(slots=True)
class _Turn:
    started: TurnStarted
    task: tuple[str, str] | None
    """Collection and id of the turn's task in the audit trail."""
    recorded: str | None = None
    """Text of the turn as recorded in the transcript."""
    was_asked: bool = False
    answered: bool = False
    """True once a call in the turn has been answered."""
    text: str = ""
    """The turn's latest text that has not been withdrawn."""


@dataclass(slots=True)
class _Utterance:
    id: str
    path: str
    turn: _Turn | None
    text: str = ""


class Speech:
    """Tracker for the utterances in a run; it must receive all of the run's events from the beginning.

    Several speakers may speak at once. Text from models is passed on as it arrives; an answer that is not streamed is
    passed on as a single chunk. Each utterance is opened and closed exactly once. An utterance is void if its call is
    retried or fails, or if other text replaces it; the replacement is a separate utterance.
    """

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._open: dict[str, _Utterance] = {}
        self._numbers: Counter[str] = Counter()
        self._claimed: tuple[str, str] | None = None
        self.finished: str = ""
        """Text of the most recently finished turn, as recorded in the transcript if possible."""

    def of(self, event: object, start: int | None = None) -> Iterator[Spoken]:
        """Return the updates caused by `event`; streamed text starts at `start`, or where earlier text ended.

        `start` is the text's offset within the answer to its call.
        """
        match event:
            case TextDelta() as delta:
                yield from self._written(delta, start)
            case BlockAnswered() as answer:
                yield from self._answered(answer)
            case TaskChanged() as change:
                self._record(change)
            case TurnStarted() as turn:
                self._turns[turn.path] = _Turn(turn, self._claimed)
            case TurnFinished() as turn:
                yield from self._end_turn(turn)
            case _:
                yield from self._interrupted(event)

    @property
    def speaking(self) -> list[tuple[TurnStarted, str]]:
        """Turns in progress, each with the text it has produced so far."""
        texts = {id(utterance.turn): utterance.text for utterance in self._open.values()}
        return [(turn.started, texts.get(id(turn), "")) for turn in self._turns.values()]

    def end(self) -> Iterator[Closed]:
        """Close any open utterances after the last update, in case the run was interrupted."""
        for utterance in list(self._open.values()):
            yield from self._closed(utterance, void="cut short")

    def _interrupted(self, event: object) -> Iterator[Closed]:
        """Yield the end of each utterance interrupted by `event`."""
        match event:
            case ModelCalled() as call:
                if (turn := self._turn_at(call.path)) is not None:
                    turn.was_asked = True
                if call.error is not None:  # text streamed by a failed call is void
                    yield from self._close(call.path, void=call.error)
            case CallRetried() | CallFellBack() as trouble:
                yield from self._close(trouble.path, void=trouble.message)
            case TextWithdrawn() as withdrawn:
                yield from self._close(withdrawn.path, void=WITHDRAWN)
            case RoleFailed(instead="skipped" | "stand_in") as failed:
                yield from self._close_below(failed.path, void=failed.message)
                if failed.instead == "skipped":
                    self._turns.pop(failed.path, None)
            case ToolCalled() as tool:
                yield from self._close(tool.path)
            case _:
                pass

    def _written(self, delta: TextDelta, start: int | None) -> Iterator[Spoken]:
        place, text = _block_at(delta.path), delta.text
        utterance = self._open.get(place)
        if utterance is not None and start is not None and start < len(utterance.text):
            if start:  # a client that reconnected has already received part of this chunk
                text = text[len(utterance.text) - start :]
            else:
                yield from self._closed(utterance, void="asked again")
                utterance = None
        if utterance is None:
            utterance, opened = self._open_at(place, delta.block, delta.at)
            yield opened
        yield from _piece(utterance, text)

    def _answered(self, answer: BlockAnswered) -> Iterator[Spoken]:
        turn = self._turn_at(answer.path)
        if turn is not None:
            turn.answered = True
        output, utterance = answer.output, self._open.get(answer.path)
        if not isinstance(output, str):
            yield from self._close(answer.path)
            return
        if utterance is not None:
            if answer.first_counts:
                yield from self._closed(utterance, void="the first answer counts")
            elif output.startswith(utterance.text):
                yield from _piece(utterance, output[len(utterance.text) :])
                yield from self._closed(utterance)
                return
            elif not answer.trimmed and utterance.text.strip().startswith(output.strip()):
                yield from self._closed(utterance)
                return
            else:
                yield from self._closed(utterance, void="another text counts")
        yield from self._whole(answer.path, answer.block, answer.at, output)

    def _record(self, change: TaskChanged) -> None:
        task = change.collection_id, change.task.id
        if change.change == "claimed":
            self._claimed = task  # a turn claims its task immediately before it starts
        elif change.change == "completed" and isinstance(change.task.output, str):
            for turn in self._turns.values():
                if turn.task == task:
                    turn.recorded = change.task.output

    def _end_turn(self, finished: TurnFinished) -> Iterator[Spoken]:
        """End the turn, first emitting any recorded text that was not streamed, such as text from a function."""
        yield from self._close_below(finished.path)
        turn = self._turns.get(finished.path)
        self.finished = "" if turn is None else turn.text if turn.recorded is None else turn.recorded
        if turn is not None and turn.recorded and (turn.answered or not turn.was_asked):
            # cleaned in the same way as the transcript, which has no lone surrogates
            last = clean_text(turn.text).strip()
            if not last.startswith(turn.recorded.strip()):
                yield from self._whole(finished.path, finished.block, finished.at, turn.recorded)
        self._turns.pop(finished.path, None)

    def _turn_at(self, path: str) -> _Turn | None:
        """Find the innermost turn in progress at `path`."""
        while path not in self._turns:
            path, _, _ = path.rpartition("/")
            if not path:
                return None
        return self._turns[path]

    def _whole(self, path: str, block: str, at: float, text: str) -> Iterator[Spoken]:
        if text:
            utterance, opened = self._open_at(path, block, at)
            yield opened
            yield from _piece(utterance, text)
            yield from self._closed(utterance)

    def _open_at(self, path: str, block: str, at: float) -> tuple[_Utterance, Opened]:
        self._numbers[path] += 1
        turn = self._turn_at(path)
        utterance = self._open[path] = _Utterance(f"{path}~{self._numbers[path]}", path, turn)
        started = None if turn is None else turn.started
        return utterance, Opened(id=utterance.id, block=block, path=path, at=at, turn=started)

    def _closed(self, utterance: _Utterance, *, void: str | None = None) -> Iterator[Closed]:
        del self._open[utterance.path]
        if void is None and utterance.turn is not None:
            utterance.turn.text = utterance.text
        yield Closed(id=utterance.id, void=void)

    def _close(self, call: str, *, void: str | None = None) -> Iterator[Closed]:
        """Close the utterances of the block that made the `call`."""
        utterance = self._open.get(_block_at(call))
        if utterance is not None:
            yield from self._closed(utterance, void=void)

    def _close_below(self, path: str, *, void: str | None = None) -> Iterator[Closed]:
        for utterance in [
            utterance_open for at, utterance_open in self._open.items() if at == path or at.startswith(f"{path}/")
        ]:
            yield from self._closed(utterance, void=void)


def _block_at(call: str) -> str:
    """Return the path of the block that made `call`, dropping the `#` and number added to repeated calls."""
    return call.partition("#")[0]


def _piece(utterance: _Utterance, text: str) -> Iterator[Piece]:
    if text:
        utterance.text += text
        yield Piece(id=utterance.id, text=text)
