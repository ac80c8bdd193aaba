"""Page fragments for a run in progress, each rendered only once for all viewers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

from flowdebate._text import clean_text
from flowdebate.events import TaskChanged, TurnStarted
from flowdebate.patterns import PATTERNS
from flowdebate.runs.events import BlockAnswered, HumanAsked, ModelCalled
from flowdebate.ui.document import Document
from flowdebate.ui.live import Live
from flowdebate.ui.sections import INCOMPLETE, Card, Entry, Fact, Group, Heading, Output, Remark, Section
from flowdebate.web.prose import GrowingProse
from flowdebate.web.run.record import Board, Call, Sums, call_of, draw, models_of
from flowdebate.web.run.sheet import Party, Round, Turn, parties_of, public_sections
from flowdebate.web.templates import macro

_REDRAWN = 1.5
"""Factor by which the number of calls must grow before the trace of all calls is redrawn.

Drawing the trace throughout a run then costs about three times as much as drawing it once at the end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """A pattern's result so far, shown until the finished page replaces it."""

    card: Card | None
    outputs: tuple[Output, ...]
    names: dict[str, Party]
    missing: Fact | None = None
    """Line about participants missing from the result."""


class LivePage:
    """Page of a run in progress, divided into fragments; it must receive all events from the beginning.

    A fragment is an element with an id. It is either appended to the element `at`, or replaces the element with the
    same id. `news` returns a message with the fragments changed since the last call, and `whole` returns a message with
    all of them for viewers who connect later. `link` is the URL of the run's steps, and `manual` is the base URL of the
    documentation. A `public` page shows the contributions, but not the record or any failures, because error messages
    may contain server addresses. If `public` is set, the result appears only on the finished page.
    """

    def __init__(self, document: Document | None, *, link: str = "", manual: str = "", public: bool = False) -> None:
        live: type[Live] = Live if document is None else PATTERNS[document.pattern].load_page().live
        self._live = live(document=document)
        self._live.clock = time.time  # the same clock that browsers use
        self._names = {} if document is None else parties_of(document)
        self._link = link
        self._manual = manual
        self._public = public
        self._pieces: dict[str, dict[str, str]] = {}
        self._new: dict[str, tuple[str, str, tuple[Any, ...]]] = {}
        """Pieces still to be rendered, as place, macro, and arguments, keyed by id."""
        self._changed = False
        self._round = Round(number=0, title="")
        self._parts = 0
        self._turns: dict[str, str] = {}
        """Speakers, keyed by the path of their turn."""
        self._growing: dict[str, GrowingProse] = {}
        """Text being written, keyed by the path of its turn."""
        self._said = 0
        self._calls: list[Call] = []
        self._sums = Sums()
        self._failed = 0
        self._last: dict[str, Call] = {}
        """Last call in each speaker's turn, keyed by the speaker's name."""
        self._drawn = 0
        self._people: dict[str, HumanAsked] = {}
        """People who have been asked for an answer, keyed by place."""
        self._tasks: dict[tuple[str, str], str] = {}
        self._completed: set[str] = set()
        self._result = _Result(card=None, outputs=(), names=self._names)

    def take(self, event: object, start: int | None = None) -> bool:
        """Process `event`; return whether anything other than streamed text has changed.

        For a piece of streamed text, `start` is its offset within the answer.
        """
        if start is not None:
            self._changed |= (changed := self._live.take(event, start))
            return changed
        self._changed = True
        match event:
            case TurnStarted():
                self._turns[event.path] = event.agent_name
                # A function's turn has no call of its own and must not be given the previous turn's call.
                self._last.pop(event.agent_name, None)
                if event.agent_name not in self._names:
                    position, number = event.stance or "", len(self._names)
                    self._names[event.agent_name] = Party(name=event.agent_name, about=position, number=number)
            case _ if not self._public:
                self._record(event)
            case _:
                pass
        sections = self._live.handle(event)
        for section in _published(sections) if self._public else sections:
            self._show(section)
        return True

    @property
    def waiting(self) -> int:
        """Number of fragments waiting to be sent."""
        return len(self._new)

    def news(self) -> str:
        """Return a JSON message with the fragments changed since the last call, or "" if there are none."""
        if not self._changed:
            return ""
        self._changed = False
        for turn, text in self._live.speaking:
            self._growing.setdefault(turn.path, GrowingProse()).grow(text)
        self._sum_up()
        # Keyed by id, so that a piece that has changed several times since the last message is rendered only once.
        new, self._new = self._new, {}
        pieces = []
        for name, (at, template, values) in new.items():
            piece = {"id": name, "at": at, "html": macro(template, *values).strip()}
            if template == "task" and values[0].finished:  # finished tasks follow all other pieces
                piece["last"] = "last"
                self._pieces.pop(name, None)
            self._pieces[name] = piece
            pieces.append(piece)
        return self._message(pieces, complete=False)

    def whole(self) -> str:
        """Return a JSON message with the latest version of every fragment returned by `news` so far."""
        return self._message(list(self._pieces.values()), complete=True)

    def text(self, path: str) -> str:
        """Return a JSON message with new text from the call at `path`, or "" if there is nothing to show yet."""
        for turn, text in self._live.speaking:
            if path.startswith(f"{turn.path}/") and (growing := self._growing.get(turn.path)) and growing.grow(text):
                message = {"kind": "text", "path": turn.path, "keep": growing.kept, "html": growing.news}
                return clean_text(json.dumps(message, ensure_ascii=False, separators=(",", ":")))
        return ""

    def _message(self, pieces: list[dict[str, str]], *, complete: bool) -> str:
        speaking = [
            {
                "path": turn.path,
                "name": turn.agent_name,
                "side": party.side if (party := self._names.get(turn.agent_name)) is not None else None,
                "html": growing.blocks,
            }
            for turn, _ in self._live.speaking
            if (growing := self._growing.get(turn.path)) is not None
        ]
        usage = self._live.usage
        record = (
            {}
            if self._public
            else {
                "calls": len(self._calls),
                "tokens": (usage.prompt_tokens or 0) + (usage.completion_tokens or 0),
            }
        )
        fields = {
            "doing": self._live.doing.replace(" is writing", " is speaking"),
            "since": min((since for *_, since in self._live.at_work), default=None),
            **record,
        }
        message = {"kind": "page", "whole": complete, "pieces": pieces, "speaking": speaking, **fields}
        # A model may send half a surrogate pair, which cannot be encoded.
        return clean_text(json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    def _put(self, name: str, at: str, template: str, *values: object) -> None:
        self._new[name] = at, template, values

    # Contributions

    def _show(self, section: Section) -> None:
        place = f"round-{self._round.number}"
        match section:
            case Heading():
                number = self._round.number + 1
                self._round = Round(number=number, title=section.title)
                self._parts = 0
                self._put_round()
            # A note made after the first contribution stays where it is.
            case Group() if section.opens and not self._parts:
                self._round = replace(self._round, notes=(*self._round.notes, section))
                self._put_round()
            case Entry():
                self._said += 1
                party, call = self._names.get(section.name), self._last.get(section.name)
                turn = Turn(number=self._said, entry=section, party=party, call=call)
                self._put_part(f"turn-{self._said}", place, turn)
            case Fact(label=label) if label == INCOMPLETE:
                self._result = replace(self._result, missing=section)
            case Fact() | Group() | Remark():
                self._put_part(f"{place}-{self._parts + 1}", place, section)
            case Card():
                self._result = replace(self._result, card=section)
                self._put("verdict", "run", "result", self._result)
            case Output():
                self._result = replace(self._result, outputs=(*self._result.outputs, section))
                self._put("verdict", "run", "result", self._result)
            case _:
                assert_never(section)

    def _put_round(self) -> None:
        self._put(f"round-{self._round.number}", "said", "live_round", self._round, self._names)
        self._put(f"to-round-{self._round.number}", "rounds", "to_round", self._round)

    def _put_part(self, name: str, place: str, part: Turn | Fact | Group | Remark) -> None:
        if place not in self._pieces and place not in self._new:  # content above the first heading
            self._put_round()
        self._parts += 1
        if isinstance(part, Turn):
            self._put(name, place, "turn", part, self._link)
        else:
            self._put(name, place, "part", part, self._names, self._link, name)

    # Record

    def _record(self, event: object) -> None:
        match event:
            case ModelCalled():
                self._answer(event)
            case HumanAsked():
                self._people[event.path] = event
            case BlockAnswered() if event.path in self._people:
                self._answer(self._people.pop(event.path))
            case TaskChanged():
                task, tasks = event.task, self._tasks
                name = tasks.setdefault((event.collection_id, task.id), f"task-{len(tasks) + 1}")
                if task.status == "completed":
                    self._completed.add(name)
                self._put(name, "tasks", "task", task, self._names.get(task.assignee or ""), name)
            case _:
                pass

    def _answer(self, event: ModelCalled | HumanAsked) -> None:
        # a failed call is not a step of the run, but still costs money
        if isinstance(event, ModelCalled) and event.error is not None:
            if event.attempts:
                self._failed += 1
                failed = call_of(0, event, self._turns, self._names)
                self._sums.add(failed)
                self._put(f"failed-{self._failed}", "failed", "failed_step", failed, self._failed)
            return
        call = call_of(len(self._calls) + 1, event, self._turns, self._names)
        self._calls.append(call)
        self._sums.add(call)
        if call.party is not None:
            self._last[call.party.name] = call
        self._put(f"step-{call.number}", "steps", "step", call, self._link)

    def _sum_up(self) -> None:
        """Add the calls made since the last update to the totals."""
        places = {at for at, _, _ in self._new.values()}
        if places & {"steps", "failed"}:
            if len(self._calls) >= _REDRAWN * self._drawn:
                self._drawn = len(self._calls)
                self._put("drawing", "trace", "drawing", draw(tuple(self._calls)))
            self._put("steps-sum", "trace", "sum", self._sums)
            self._put("requests", "trace", "requests", self._sums)
            self._put("models", "trace", "models", models_of(self._calls), self._manual)
        if "tasks" in places:
            board = Board(number=len(self._tasks), completed=len(self._completed))
            self._put("done", "board", "done", board)


def _published(sections: Iterable[Section]) -> Iterator[Section]:
    """Omit remarks and results: remarks describe failures, and results belong only on the finished page."""
    return public_sections(section for section in sections if not isinstance(section, Remark | Card | Output))
