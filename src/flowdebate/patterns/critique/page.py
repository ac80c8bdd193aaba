"""Critique page: options, the answer, the claims about it with their rulings, and the decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from flowdebate._util.option_types import Flag, Text, explained
from flowdebate.errors import ConfigurationError
from flowdebate.ui.document import Document, Speaker
from flowdebate.ui.files import MEGABYTES, read_text
from flowdebate.ui.live import OwnSections, Together
from flowdebate.ui.options import Depth, PersonaEntry, PlanOptions, PlanValues, option, roster_option
from flowdebate.ui.page import PatternPage, StartTool
from flowdebate.ui.sections import Card, Entry, Fact, Group, Heading, Section, Tone, failures

from .claims import claims_text
from .events import AnswerGiven, ClaimsMade, ClaimsRuled
from .factory import critique
from .schemas import AUTHOR, CRITICS, RULINGS, Claim, CritiqueOutput, Evidence, Outcome

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.roster import Persona
    from flowdebate.chassis.state import RoundStarted, TurnFinished
    from flowdebate.ui.plan import Plan

_PHASES = {1: "Answer", 2: "Claims", 3: "Revision"}
_PROVIDED = "given"
"""Text displayed next to the author's name if the user provided the answer."""
_OUTCOMES: Mapping[Outcome, str] = {
    "stands": "The answer stands",
    "revised": "The answer was revised",
    "rejected": "The answer was rejected",
}
_TONES: Mapping[str, Tone] = {"holds": "warning", "does_not_hold": "good", "cannot_tell": "dim"}


def _read_answer(path: str) -> str:
    return read_text(path, megabytes=MEGABYTES).strip()


class CritiquePlanOptions(PlanOptions):
    """Options for a critique."""

    SUBJECT: ClassVar[str] = "question"
    ROSTER: ClassVar[str] = "critics"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"terminate_when", "history"})
    SPEAKER: ClassVar[str] = "critic"
    ROLES: ClassVar[tuple[str, ...]] = ("author", "judge")
    PEOPLE: ClassVar[tuple[str, ...]] = ("author", "judge")

    question: Text | None = option("The question; may be in --file instead.")
    answer: Text | None = option(
        "File with the answer to check; - for stdin. Default: the author, a model, answers first.",
        panel="Sides",
        metavar="FILE",
        read=_read_answer,
    )
    critics: list[PersonaEntry] | None = roster_option(
        "--critic",
        "A critic and its model; repeat for each. Default: Ada; without --model, of another provider than the author, "
        "if several keys are set.",
        key="model",
    )
    revise: Flag | None = option(
        "The author revises an answer if a claim about it holds; otherwise the answer is rejected. Default: on.",
        panel="Judge",
        on=True,
    )
    humans: Annotated[list[Text], explained("must be a list that names critics, the author or the judge")] | None = (
        option(
            "A role that a human plays: a critic's name, author or judge; repeat for each.",
            panel="Sides",
            flag="--human",
            metavar="ROLE",
        )
    )
    suspend: Flag | None = option(
        "Let humans answer later with flowdebate runs answer. Default: on without a terminal.", panel="Sides"
    )


class CritiqueDocument(Document):
    """A saved critique."""

    SPEAKERS: ClassVar[str] = "Critics"
    ROSTER: ClassVar[str] = "critics"
    UNIT: ClassVar[str] = "text"
    STOP_REASONS: ClassVar[Mapping[str, str]] = {
        "no_answer": "there was no answer",
        "no_claims": "nothing to rule on",
        "ruled": "the judge has ruled",
        "not_ruled": "the judge did not rule",
        "revised": "the answer was revised",
    }
    pattern: str = "critique"
    critics: list[Speaker] = Field(default_factory=list)
    raw: CritiqueOutput

    def raw_speakers(self) -> list[Speaker]:
        names = dict.fromkeys(entry.agent_name for entry in self.raw.transcript if entry.round == 2)  # noqa: PLR2004
        return [Speaker(name=name) for name in names]

    @property
    def has_result(self) -> bool:
        return self.raw.outcome is not None

    @property
    def holds_gate(self) -> bool:
        return self.raw.outcome != "rejected"

    @property
    def ending(self) -> str | None:
        reason = self.raw.stop_reason
        return None if reason is None else f"Claims: {len(self.raw.claims)}, {self.describe_reason(reason)}"

    def sections(self) -> Iterator[Section]:
        raw = self.raw
        for number, title in _PHASES.items():
            entries = list(self._entries(number))
            lost = list(failures(loss for loss in raw.losses if max(loss.round, 1) == number))
            rulings = list(claim_groups(raw.claims)) if number == 2 else []  # noqa: PLR2004
            if entries or lost or rulings:
                yield Heading(title=title)
                yield from entries
                yield from rulings
                yield from lost
        yield from self.result()

    def _entries(self, number: int) -> Iterator[Section]:
        if number == 1 and self.raw.is_given:
            yield Entry(name=AUTHOR, about=_PROVIDED, text=self.raw.original or "")
        for index, entry in enumerate(self.raw.transcript):
            if entry.round == number:
                yield Entry(
                    name=entry.agent_name,
                    about="",
                    text=entry.text,
                    flag=entry.flag,
                    quotes=self.quoted(index),
                )

    def result(self) -> Iterator[Section]:
        """Show the decision and the final answer."""
        raw = self.raw
        yield from self.mark(raw.answer)
        if raw.outcome is None and raw.answer is None:
            return
        answer = [] if raw.answer is None else [Fact(label="Answer", text=raw.answer, tone="strong")]
        if raw.outcome is None:
            facts = [Fact(label="Outcome", text="The answer was not checked", tone="warning"), *answer]
        else:
            tone: Tone = "warning" if raw.outcome == "rejected" else "good"
            text = f"{_OUTCOMES[raw.outcome]}: {raw.claims_note}"
            facts = [Fact(label="Outcome", text=text, tone=tone), *answer]
        yield Card(title="Critique", facts=tuple(facts), lead=facts[-1].label)


def claim_groups(claims: list[Claim]) -> Iterator[Section]:
    """Yield a group for each claim, with its ruling and evidence."""
    for claim in claims:
        word = RULINGS[claim.ruling]
        text = f"{word}. {claim.why}" if claim.why else word
        facts = [Fact(label="Ruling", text=text, tone=_TONES[claim.ruling])]
        if claim.place:
            label = "In the answer" if claim.place_found else "Not in the answer"
            facts.append(Fact(label=label, text=claim.place, tone="dim" if claim.place_found else "warning"))
        facts += [Fact(label="Settled by", text=claim.settled_by, tone="dim")] if claim.settled_by else []
        if len(claim.agent_names) > 1:
            facts.append(Fact(label="Made by", text=", ".join(claim.agent_names), tone="dim"))
        facts += [Fact(label="Reason", text=claim.reason)] if claim.reason else []
        facts += [_quote_fact(item) for item in claim.evidence]
        # join the lines; otherwise, part of a multi-line claim could be mistaken for the page's own text
        yield Group(label=f"{claim.id}, {claim.kind}", text=" ".join(claim.claim.split()), facts=tuple(facts))


def _quote_fact(evidence: Evidence) -> Fact:
    if evidence.source is not None:
        return Fact(label=f"Quote from {evidence.source}", text=evidence.quote, tone="dim")
    if evidence.start is not None:
        return Fact(label="Quote from the answer", text=evidence.quote, tone="dim")
    label = "Quote, too short" if evidence.is_short else "Quote, not found"
    return Fact(label=label, text=evidence.quote, tone="warning")


def _show_answer(event: AnswerGiven) -> Iterator[Section]:
    yield Entry(name=AUTHOR, about=_PROVIDED, text=event.answer)


def _show_claims(event: ClaimsMade) -> Iterator[Section]:
    yield Entry(name=event.agent_name, about="", text=claims_text(event.claims))


class CritiqueLive(Together):
    """Live view of a critique."""

    roles: ClassVar[Mapping[str, str]] = {"author": "answering", "judge": "checking the claims"}
    phases: ClassVar[Mapping[str, str]] = {"criticize": "looking for faults", "revise": "revising the answer"}
    event_sections: ClassVar[OwnSections] = {
        AnswerGiven: _show_answer,
        ClaimsMade: _show_claims,
        ClaimsRuled: lambda event: claim_groups(event.claims),
    }

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        yield Heading(title=_PHASES[event.round])

    def turn_sections(self, turn: TurnFinished, text: str) -> Iterator[Section]:
        return iter(()) if turn.phase == "criticize" else super().turn_sections(turn, text)


class CritiquePage(PatternPage):
    """The service's critique page."""

    options: ClassVar[type[CritiquePlanOptions]] = CritiquePlanOptions
    document: ClassVar[type[CritiqueDocument]] = CritiqueDocument
    live: ClassVar[type[CritiqueLive]] = CritiqueLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = CRITICS
    each_by_default = True
    independent_roles: ClassVar[tuple[str, ...]] = ("author", "critic", "judge")
    default_length = 3
    min_speakers = 1
    exit_note = "4 the answer is rejected"
    depths: ClassVar[Mapping[Depth, PlanValues]] = {
        "quick": {"revise": False},
        "thorough": {"critics": [{"name": name} for name in ("Ada", "Ben", "Cleo")]},
    }
    start_tool: ClassVar[StartTool | None] = StartTool(
        name="check_answer",
        description="Check an `answer` to a question: another language model looks for faults, and a judge verifies "
        "each of them.\n\n"
        "A fault counts only if the judge quotes words for it that exist in the `sources`, in the question, or at two "
        "contradicting places of the answer. The result has each claim with its ruling, and the answer, revised if a "
        "claim holds. Returns after at most `wait` seconds; then call wait_for_run until it is over. `depth`: "
        '"quick" makes up to 2 calls of models (without a revision), "balanced" up to 3, "thorough" up to 5 '
        '(three critics); "auto" ends where no claim holds. With a hosted model each takes half a minute to a '
        "minute; a small local one takes longer.",
        without=frozenset({"models", "effort", "quorum"}),
        texts={
            "answer": Field(
                max_length=50_000,
                description="The answer to check, such as your own. Without it a model answers first.",
            )
        },
    )
    example = "When must the deposit be paid back?"
    sample: ClassVar[PlanValues] = {"question": "How long do hard-boiled eggs keep in the fridge, and why?"}
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate critique "When must the deposit be paid back?" --source lease.md',
        'flowdebate critique "When must the deposit be paid back?" --answer draft.txt --source lease.md',
        'flowdebate critique "Explain entropy" --model author=local --model critic=openai/gpt-5',
    )
    docs = "critique"
    diagram = (
        '<circle cx="14" cy="28" r="7"/><circle cx="44" cy="12" r="6"/>'
        '<path d="M21 24l17-9M50 14l14 9M22 30h40"/><rect class="settles" x="66" y="21" width="14" height="14"/>'
    )

    def length(self, options: Any) -> int:  # noqa: ANN401, ARG002 - as its base says
        return self.default_length  # the number of phases

    def turns(self, plan: Plan) -> int:
        return len(plan.speakers) + (plan.options.answer is None)

    def check(self, plan: Plan) -> None:
        names = [*(critic.name for critic in plan.speakers), *CritiquePlanOptions.PEOPLE]
        if unknown := sorted(set(plan.options.humans or ()).difference(names)):
            location, field = plan.options.place("humans")
            raise ConfigurationError(location, field, unknown[0], choices=names)
        super().check(plan)

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: CritiquePlanOptions = plan.options
        people = options.humans or ()

        def person(name: str) -> Any:  # noqa: ANN401 - a human, which most plans do not need
            from flowdebate.blocks.human.human import human

            return human(name=f"{plan.name}-{name}", ask=None if options.suspend else plan.ask)

        def seated(critic: Persona) -> Persona:
            return replace(critic, block=person(f"critic-{critic.name}")) if critic.name in people else critic

        return critique(
            answer=options.answer,
            critics=[seated(critic) for critic in plan.speakers],
            author=person("author") if "author" in people else None,
            judge=person("judge") if "judge" in people else None,
            revise=options.revise is not False,
            **plan.keywords,
        )


PAGE = CritiquePage()
