"""Critique data: the answer, claims about it with their evidence and rulings, and the output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field, create_model

from flowdebate._text import counted
from flowdebate._util.wire import WireModel, new_dict, new_list, one_of
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    PatternInput,
    PatternState,
    ProviderFailure,
    TranscriptState,
)
from flowdebate.resources.resource import StateResource

ClaimKind = Literal["false", "contradiction", "reasoning", "missing"]
"""Kind of fault.

- "false": the answer contradicts the material.
- "contradiction": two statements in the answer cannot both be true.
- "reasoning": a conclusion does not follow.
- "missing": the answer omits something required by the question.
"""
Ruling = Literal["holds", "does_not_hold", "cannot_tell"]
Outcome = Literal["stands", "revised", "rejected"]
"""Decision on the answer.

The answer stands if no claim is upheld. Otherwise, it is revised, or rejected if the author did not change it.
"""
StopReason = Literal["no_answer", "no_claims", "ruled", "not_ruled", "revised"]
"""Reason why a critique ended: there was no answer, no claims were made, the judge ruled, the judge did not rule, or
the author revised the answer.
"""

AUTHOR = "author"
"""Name of the answer's author, in the transcript and wherever models are keyed by name."""
CRITICS = ({"name": "Ada"},)
"""Default critics."""
RULINGS: dict[Ruling, str] = {"holds": "holds", "does_not_hold": "does not hold", "cannot_tell": "cannot tell"}
"""Display text for each ruling."""
MAX_CLAIMS = 20
"""Maximum number of claims per critic."""
MAX_QUOTES = 4
"""Maximum number of quotes per ruling."""
_Text = Annotated[str, Field(max_length=4_000)]


class CritiqueInput(PatternInput):
    """Input to a critique, and to its author."""

    question: str
    answer: str | None = None
    """Answer to criticize. If it is None, the pattern's `answer` option is used or, if that is not set, the author
    writes the answer.
    """


class ClaimDraft(WireModel):
    """One thing that is wrong with the answer, as a critic writes it."""

    claim: Annotated[_Text, Field(description="What is wrong, in one or two sentences")]
    kind: Annotated[ClaimKind, Field(description="false, contradiction, reasoning or missing")]
    place: Annotated[
        _Text | None, Field(description="The words of the answer in question, exactly as written; null if missing")
    ] = None
    settled_by: Annotated[_Text, Field(description="What has to be looked up or compared to settle it")] = ""


class Claims(WireModel):
    """The claims of one critic; an empty list if nothing is wrong."""

    claims: Annotated[list[ClaimDraft], Field(max_length=MAX_CLAIMS)]


class Evidence(WireModel):
    """A judge's quote, and the result of looking it up."""

    quote: str
    source: str | None = None
    """Name of the source containing the quote, or "question"; None if the quote is not in the material."""
    start: int | None = None
    """Character offset of the quote in the answer; None if the answer does not contain it."""
    end: int | None = None
    is_short: bool = False
    """True if the quote has too few words to prove anything."""

    @property
    def is_found(self) -> bool:
        """True if the material or the answer contains the quote."""
        return self.source is not None or self.start is not None


class Claim(WireModel):
    """A claim about the answer, and the ruling on the claim."""

    id: str
    agent_names: list[str]
    """Names of the critics who made the claim."""
    claim: str
    kind: ClaimKind
    place: str | None = None
    """Disputed passage in the answer; None if the claim is about the whole answer or about something
    missing from it.
    """
    place_found: bool | None = None
    """True if the answer contains the quoted words; None if the claim quotes no words."""
    settled_by: str = ""
    """Evidence that would settle the claim."""
    ruling: Ruling = "cannot_tell"
    """The final ruling; it is "holds" only if the evidence has been verified."""
    judged: Ruling | None = None
    """The ruling as given by the judge; None if the judge did not rule on the claim."""
    reason: str = ""
    """The judge's reason."""
    evidence: list[Evidence] = Field(default_factory=new_list)
    why: str = ""
    """Basis for the ruling, in one sentence."""


class CritiqueEntry(Contribution):
    """Transcript entry with the author's answer, a critic's claims or the revised answer, as text."""

    round: Annotated[int, Field(ge=1)] = 1
    """Round number: 1 for the answer, 2 for the claims, 3 for the revised answer."""
    agent_name: str
    text: str


CritiqueTranscript: TypeAlias = "StateResource[TranscriptState[CritiqueEntry]]"
"""Type of the resource returned by `create_critique_transcript`."""


def create_critique_transcript() -> CritiqueTranscript:
    """Create a transcript to be shared by a critique and custom blocks, under the key `"transcript"`."""
    return StateResource(key="transcript", initial=TranscriptState[CritiqueEntry])


class RevisionRequest(CritiqueInput):
    """Input to the author's block for a revision. The block returns the full revised answer as text."""

    kind: ClassVar[str] = "revise"
    is_complete: ClassVar[bool] = True
    """Always True: the input is self-contained, so a human receives it without a transcript."""
    claims: list[Claim]
    """The upheld claims."""

    def task_for_human(self) -> str:
        """Describe the answer, the claims and the task to a human author."""
        from .prompts import render_answer, render_claims

        answer = f"Your answer:\n{render_answer(self.answer or '')}\n\nThese claims about it hold:"
        return f"{answer}\n{render_claims(self.claims)}\n\nWrite the whole revised answer."


class CritiqueState(PatternState):
    """State of a critique, available as `ctx.sequencer.state`."""

    answer: str | None = None
    """Answer to criticize, or None until it is known."""
    is_given: bool = False
    """True if the user provided the answer."""
    drafts: dict[str, list[ClaimDraft]] = Field(default_factory=new_dict)
    """Claims keyed by critic, in order of arrival."""
    claims: list[Claim] = Field(default_factory=new_list)
    is_ruled: bool = False
    """True once the judge has ruled on the claims."""
    revision: str | None = None
    """The revised answer, or None if there is none."""
    stop_reason: StopReason | None = None

    @property
    def upheld(self) -> list[Claim]:
        """The upheld claims."""
        return [claim for claim in self.claims if claim.ruling == "holds"]

    def turn_of(self, name: str) -> RevisionRequest | None:
        if name != AUTHOR or not self.is_ruled:
            return None
        return RevisionRequest(question=self.question, answer=self.answer, claims=self.upheld)


class CritiqueOutput(PatternOutput):
    """Raw output of a critique."""

    early_reasons: ClassVar[frozenset[str]] = frozenset(get_args(StopReason))

    question: str
    answer: str | None = None
    """Final answer, whether original or revised. It is None if the answer was rejected or if there was no answer."""
    outcome: Outcome | None = None
    """Decision on the answer, or None if the run reached no decision and the answer remains unchecked."""
    original: str | None = None
    """The answer before any revision."""
    is_given: bool = False
    """True if the user provided the answer; False if the author wrote it."""
    claims: list[Claim] = Field(default_factory=new_list)
    """All claims with their rulings, in the critics' declared order."""
    transcript: list[CritiqueEntry] = Field(default_factory=new_list)
    stop_reason: StopReason | None = None
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=new_list)
    seed: int | None = None

    @property
    def upheld(self) -> list[Claim]:
        """The upheld claims."""
        return [claim for claim in self.claims if claim.ruling == "holds"]

    @property
    def is_undisputed(self) -> bool:
        """True if the answer stands because no claim about it holds."""
        return self.outcome == "stands"

    @property
    def decision_word(self) -> str | None:
        return self.outcome

    @property
    def decision_line(self) -> str | None:
        """The outcome and the number of upheld claims, in prose."""
        return None if self.outcome is None else f"{self.outcome}: {self.claims_note}"

    @property
    def claims_note(self) -> str:
        """The number of upheld claims, in prose."""
        if not self.claims:
            return "no claims"
        return f"{len(self.upheld)} of {counted(len(self.claims), 'claim')} held up"


# Requests to critics and the judge


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsRequest:
    """Input to a critic's block. The block returns a `Claims` object, its fields as a dict, or a list of claims."""

    kind: ClassVar[str] = "criticize"
    is_complete: ClassVar[bool] = True
    """Always True: the input is self-contained, so a human receives it without a transcript."""
    question: str
    answer: str

    @property
    def subject(self) -> str:
        """The question."""
        return self.question

    def task_for_human(self) -> str:
        """Describe the answer and the task to a human critic."""
        from .prompts import render_answer

        return (
            f"The answer:\n{render_answer(self.answer)}\n\nSay what is wrong with it, claim by claim; an empty list if "
            "nothing is."
        )

    def answer_schema(self) -> type[WireModel]:
        """Return the pydantic model for a valid answer."""
        return Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class RulingsRequest:
    """Input to the judge's block. The block returns rulings on the claims (see `answer_schema()`)."""

    kind: ClassVar[str] = "rule"
    is_complete: ClassVar[bool] = True
    """Always True: the input is self-contained, so a human receives it without a transcript."""
    question: str
    answer: str
    claims: tuple[Claim, ...]
    """Claims to rule on."""

    @property
    def subject(self) -> str:
        """The question."""
        return self.question

    def task_for_human(self) -> str:
        """Describe the answer, the claims and the task to a human judge."""
        from .prompts import render_answer, render_claims

        return (
            f"The answer:\n{render_answer(self.answer)}\n\nThe claims:\n{render_claims(self.claims)}\n\nRule on each "
            "claim, with quotes from the sources or the question, or with two quotes of the answer that contradict "
            "each other."
        )

    def answer_schema(self) -> type[WireModel]:
        """Build the pydantic model for a valid answer: rulings on the claims in the request and no others."""
        return rulings_on(tuple(claim.id for claim in self.claims))


@lru_cache(maxsize=64)
def rulings_on(ids: tuple[str, ...]) -> type[WireModel]:
    """Create the pydantic model for a judge's rulings; its schema lists the `ids` of the claims.

    The reason and the quotes come before the ruling, because models commit to their first words.

    >>> rulings_on(("C1",))(rulings=[{"claim": "C1", "reason": "-", "ruling": "holds"}]).rulings[0].quotes
    []
    """
    ruled = create_model(
        "ClaimRuling",
        __base__=WireModel,
        claim=(one_of(ids), Field(description="The number of the claim")),
        reason=(_Text, Field(description="What you have compared, and what came out")),
        quotes=(
            Annotated[list[_Text], Field(max_length=MAX_QUOTES)],
            Field(
                default_factory=new_list,
                description="The passages that decide it, each exactly as written in the sources, the question or the "
                "answer",
            ),
        ),
        ruling=(Ruling, Field(description="holds, does_not_hold or cannot_tell")),
    )
    item: Any = ruled  # type checkers do not accept a variable as a type
    return create_model(
        "Rulings",
        __base__=WireModel,
        rulings=(
            list[item],
            # a missing ruling is not worth another call
            Field(max_length=2 * len(ids), json_schema_extra={"minItems": len(ids)}, description="One for each claim"),
        ),
    )
