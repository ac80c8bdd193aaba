"""Handoff page: options, turns, and the next speaker after each turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from flowdebate._util.option_types import Count, Text
from flowdebate.chassis.state import RoundStarted, TurnFinished, TurnStarted
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import BlockAnswered
from flowdebate.ui.document import Document, Speaker
from flowdebate.ui.live import Live, OwnSections
from flowdebate.ui.options import PersonaEntry, PlanOptions, PlanValues, option, roster_option
from flowdebate.ui.page import PatternPage
from flowdebate.ui.sections import (
    FLAGS,
    Ending,
    Entry,
    Fact,
    Heading,
    LiveSection,
    Piece,
    Remark,
    Section,
    Speaking,
    failures,
)

from .events import HandoffMade
from .factory import handoff
from .schemas import HandoffAnswer, HandoffEntry, HandoffOutput, OnInvalid, TransitionForm

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.ui.plan import Plan


_DEBATERS = (
    {
        "name": "Proponent",
        "role": "agrees with the proposition",
        "system_prompt": 'You are the proponent. You agree with the proposition "{proposition}".',
    },
    {
        "name": "Opponent",
        "role": "disagrees with the proposition",
        "system_prompt": 'You are the opponent. You disagree with the proposition "{proposition}".',
    },
    {
        "name": "Neutral",
        "role": "has not decided",
        "system_prompt": 'You are neutral. You have not decided about the proposition "{proposition}", and ask what '
        "would decide it.",
    },
)
"""Default speakers: one for, one against, and one in between."""


_TURNS = Heading(title="Turns")


class HandoffPlanOptions(PlanOptions):
    """Options for a handoff."""

    SUBJECT: ClassVar[str] = "proposition"
    LENGTH: ClassVar[str] = "max_turns"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"quorum"})

    proposition: Text | None = option("The proposition; may be in --file instead.")
    debaters: list[PersonaEntry] | None = roster_option(
        "--debater", "A participant and its role; repeat for each. Default: a proponent, an opponent and a neutral one."
    )
    max_turns: Count | None = option("Number of turns. Default: 10.", panel="Rounds")
    transition: TransitionForm | None = option(
        "How a model names the next speaker: in JSON, by a tool call, or in its last line. Default: structured.",
        panel="Rounds",
    )
    on_invalid: OnInvalid | None = option(
        "What to do if a model names nobody who can speak next: ask again and then choose at random, choose at "
        "random at once, or fail. Default: retry.",
        panel="Rounds",
    )
    first: Text | None = option("First speaker. Default: the first debater.", panel="Rounds", metavar="NAME")


class HandoffDocument(Document):
    """Document for a saved handoff."""

    UNIT: ClassVar[str] = "turn"
    STOP_REASONS: ClassVar[Mapping[str, str]] = {"max_turns": "the maximum"}
    pattern: str = "handoff"
    debaters: list[Speaker] = Field(default_factory=list)
    max_turns: int | None = None
    raw: HandoffOutput

    def raw_speakers(self) -> list[Speaker]:
        return [Speaker(name=name) for name in dict.fromkeys(entry.agent_name for entry in self.raw.transcript)]

    @property
    def has_result(self) -> bool:
        return self.status != "no_verdict"  # the transcript is the result

    @property
    def ending(self) -> str | None:
        reason = self.raw.stop_reason
        return None if reason is None else f"Turns: {self.raw.turns}, {self.describe_reason(reason)}"

    def sections(self) -> Iterator[Section]:
        if self.raw.transcript:
            yield _TURNS
        for number in range(1, self.raw.turns + 1):
            for index, entry in enumerate(self.raw.transcript):
                if entry.round == number:
                    facts, quotes = _turn(number, self.max_turns), self.quoted(index)
                    yield Entry(name=entry.agent_name, about=facts, text=entry.text, flag=entry.flag, quotes=quotes)
                    yield from next_speaker(entry)
            yield from failures(loss for loss in self.raw.losses if loss.round == number)
        yield from self.result()

    def result(self) -> Iterator[Section]:
        """List the missing participants; the transcript itself is the result."""
        yield from self.mark()


def next_speaker(turn: HandoffEntry | HandoffMade) -> Iterator[Section]:
    """Yield a line stating the next speaker and how it was chosen, once the choice has been made."""
    problem = f"{turn.next_agent_name} ({turn.problem})"
    choice = {
        "speaker": ("Hands over to", str(turn.next_agent_name)),
        "retry": ("Hands over, when asked again, to", problem),
        "random": ("The lot names", problem),
    }
    if turn.chosen_by is not None:
        label, text = choice[turn.chosen_by]
        yield Fact(label=label, text=text, tone="dim", edge=True)


def _turn(number: int, max_turns: int | None) -> str:
    return f"turn {number}" if max_turns is None else f"turn {number} of {max_turns}"


class HandoffLive(Live):
    """Live view of a handoff.

    Contributions appear only after they have been recorded, because the streamed answer also contains the choice of the
    next speaker.
    """

    _recorded = ""
    """Text recorded for the turn in progress."""
    _answer: HandoffAnswer | None = None
    """The current speaker's latest answer."""
    _shown = False

    event_sections: ClassVar[OwnSections] = {HandoffMade: next_speaker}

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        if event.round == 1:
            yield _TURNS

    def about_turn(self, turn: TurnStarted | TurnFinished) -> str:
        return _turn(turn.round, self.length)

    def sections(self, event: object) -> Iterator[LiveSection]:
        match event:
            case TurnStarted():
                self._recorded, self._answer, self._shown = "", None, False
                yield Speaking(name=event.agent_name, about=self.about_turn(event))
            case TaskChanged() if event.change == "completed":
                self._recorded = str(event.task.output or "")
            case BlockAnswered() if isinstance(event.output, HandoffAnswer):
                self._answer = event.output
            case TurnFinished():
                yield from self._show_text(self._recorded)
            case HandoffMade():  # the text may come from a second answer
                yield from self._show_text("" if self._answer is None else self._answer.response)
                yield from next_speaker(event)
            case _:
                yield from super().sections(event)

    def _show_text(self, text: str) -> Iterator[LiveSection]:
        if text.strip() and not self._shown:
            yield Piece(text=text)
            yield Ending()
            if self._answer is not None and self._answer.cut_off:
                yield Remark(text=FLAGS["cut_off"])
            self._shown = True


class HandoffPage(PatternPage):
    """The service's handoff page."""

    options: ClassVar[type[HandoffPlanOptions]] = HandoffPlanOptions
    document: ClassVar[type[HandoffDocument]] = HandoffDocument
    live: ClassVar[type[HandoffLive]] = HandoffLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = _DEBATERS
    default_length = 10
    example = "Homework should be abolished"
    sample: ClassVar[PlanValues] = {"proposition": "Homework should be abolished"}
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate handoff "Machines should make moral decisions" --max-turns 6',
        'flowdebate handoff "Homework should be abolished" --debater Ann=teacher --debater Ben=pupil --first Ben',
    )
    docs = "handoff"
    diagram = (
        '<circle class="first" cx="10" cy="28" r="6"/><circle cx="33" cy="28" r="6"/>'
        '<circle cx="56" cy="28" r="6"/><circle cx="79" cy="28" r="6"/>'
        '<path d="M13 20q9-10 18 0m-1-5 1 5-5 0M36 36q9 10 18 0m-1 5 1-5-5 0M59 20q9-10 18 0m-1-5 1 5-5 0"/>'
    )

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: HandoffPlanOptions = plan.options
        return handoff(
            debaters=plan.speakers,
            first=options.first,
            transition=options.transition or "structured",
            max_turns=plan.length,
            on_invalid=options.on_invalid or "retry",
            terminate_when=plan.terminate_when,
            **plan.keywords,
        )


PAGE = HandoffPage()
