"""Council data: input, opinions, transcript, reviews, ranking, and output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, create_model, model_validator

from flowdebate._util.wire import WireModel, one_of
from flowdebate.chassis.output import Entry, PatternOutput
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    PatternInput,
    PatternState,
    ProviderFailure,
    TranscriptState,
)
from flowdebate.resources.resource import StateResource

from .prompts import render_answers, render_work

ReviewScope = Literal["others", "all", "none"]
"""Scope of a member's review: the others' answers, all answers including its own, or no answers."""

StopReason = Literal["reviewed", "not_reviewed"]
"""Reason why a council's rounds ended: either the answers were reviewed, or the council skips reviews."""

MEMBERS = ({"name": "Ada"}, {"name": "Ben"}, {"name": "Cleo"})
"""Default members."""
MAX_REASON_LENGTH = 1_000
"""Maximum length of a reason in characters; the chair's prompt contains all reasons."""


class CouncilInput(PatternInput):
    """Input to a council, and to each member's block in the opinion phase."""

    question: str


class CouncilOpinion(Contribution):
    """A member's answer, written without seeing the others' answers."""

    agent_name: str
    role: str | None = None
    alias: str
    """Letter that identifies the answer to reviewers and the chair; "" if the answer is empty and therefore not shown
    to them.
    """
    text: str


class CouncilRanked(WireModel):
    """Rank of an answer in one review."""

    agent_name: str
    """Author of the answer."""
    rank: Annotated[int, Field(ge=1)]
    """Rank of the answer; 1 is the best."""
    reason: str
    """Reason for the rank."""


class CouncilEntry(Contribution):
    """A member's answer in the transcript."""

    round: Annotated[int, Field(ge=1)] = 1
    agent_name: str
    role: str | None = None
    text: str


CouncilTranscript: TypeAlias = "StateResource[TranscriptState[CouncilEntry]]"
"""Type of the resource returned by `create_council_transcript`."""


def create_council_transcript() -> CouncilTranscript:
    """Create a transcript to share between a council and custom blocks, under the key `"transcript"`.

    The transcript stays empty until the chair has answered, so as not to reveal who wrote which answer.
    """
    return StateResource(key="transcript", initial=TranscriptState[CouncilEntry])


class CouncilReview(WireModel):
    """One member's ranking of the answers."""

    agent_name: str
    """Name of the reviewer."""
    order: list[str]
    """Authors of the reviewed answers, in display order."""
    ranking: list[CouncilRanked]
    """Ranking from best to worst."""


class CouncilRank(WireModel):
    """Rank of an answer across all reviews."""

    agent_name: str
    rank: Annotated[int, Field(ge=1)]
    """Rank of the answer; 1 is the best. Answers with equal mean ranks share a rank, and the following ranks are
    skipped.
    """
    tied: bool = False
    """True if the answer is tied with others."""
    mean_rank: float
    """Mean of the answer's ranks in all reviews."""
    borda: Annotated[int, Field(ge=0)]
    """Borda count of the answer: in each review, one point for each answer ranked below it."""
    reviews: Annotated[int, Field(ge=1)]
    """Number of reviews that rank the answer."""
    self_preference: float | None = None
    """Mean rank given by the other members, minus the rank given by the author, if `review="all"`. A positive value
    means that the author ranks the answer higher than the others do; None means that either rank is missing.
    """


class CouncilAgreement(WireModel):
    """Agreement between the reviewers."""

    w: Annotated[float, Field(ge=0, le=1)]
    """Kendall's coefficient of concordance: 1 if all rankings are the same, 0 if they cancel out."""
    reviews: int
    """Number of reviews used to compute the agreement."""


class ChairAnswer(WireModel):
    """The answer of the default chair, and the disagreement that is left."""

    answer: Annotated[str, Field(description="The council's answer to the question")]
    dissent: Annotated[
        str | None, Field(description="The main disagreement that remains among the members; null if there is none")
    ] = None


class CouncilState(PatternState):
    """State of a council, available as `ctx.sequencer.state`."""

    spoken: dict[str, str] = Field(default_factory=dict)
    """Opinions keyed by member, in order of arrival."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Letters assigned to the answers, keyed by member."""
    orders: dict[str, list[str]] = Field(default_factory=dict)
    """Authors of the answers in display order, keyed by reviewer."""
    reviews: dict[str, CouncilReview] = Field(default_factory=dict)
    """Reviews keyed by reviewer, in order of arrival."""
    ranking: list[CouncilRank] = Field(default_factory=list)
    agreement: CouncilAgreement | None = None
    answer: Any = None
    """The chair's answer."""
    dissent: str | None = None
    stop_reason: StopReason | None = None

    @property
    def members_heard(self) -> list[str]:
        """Names of the members who gave a non-empty answer."""
        return [name for name, text in self.spoken.items() if text]


class CouncilOutput(PatternOutput):
    """Raw output of a council."""

    early_reasons: ClassVar[frozenset[str]] = frozenset({"reviewed", "not_reviewed"})

    question: str
    opinions: list[CouncilOpinion]
    """Opinions in declared order. Members whose provider failed are listed in `losses` instead."""
    reviews: list[CouncilReview] = Field(default_factory=list)
    """Reviews, in the reviewers' declared order; empty if `review="none"`."""
    ranking: list[CouncilRank] = Field(default_factory=list)
    """Ranking from best to worst; empty if there are no reviews."""
    agreement: CouncilAgreement | None = None
    """Agreement between the reviews, or None if there are fewer than two reviews or fewer than two answers in each."""
    answer: Any = None
    """The chair's answer: text, or data matching `output_schema`. It is None if the chair has not answered (see
    `status`).
    """
    dissent: str | None = None
    """The main remaining disagreement, if the default chair reported one."""
    stop_reason: StopReason | None = None
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=list)
    seed: int | None = None

    @property
    def is_undisputed(self) -> bool:
        """True if the chair has answered and reported no remaining disagreement."""
        return self.answer is not None and self.dissent is None

    @property
    def entries(self) -> list[Entry]:
        """Transcript entries: the opinions in round 1 and the reviews in round 2."""
        opinions = [Entry(round=1, speaker=opinion.agent_name, text=opinion.text) for opinion in self.opinions]
        for review in self.reviews:
            lines = [f"{ranked.rank}. {ranked.agent_name}: {ranked.reason}" for ranked in review.ranking]
            opinions.append(Entry(round=2, speaker=review.agent_name, text="\n".join(lines)))
        return opinions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """Input to a member's block in the review phase. The block returns a ranking (see `answer_schema()`)."""

    kind: ClassVar[str] = "review"
    question: str
    agent_name: str
    """Name of the reviewer."""
    answers: tuple[tuple[str, str], ...]
    """Letter and text of each answer, in the order this reviewer reads them, with names replaced by aliases."""

    @property
    def subject(self) -> str:
        """The question."""
        return self.question

    def task_for_human(self) -> str:
        """Describe the answers and the task to a human reviewer."""
        return f"The answers:\n{render_answers(self.answers)}\n\nRank all of them, from the best to the worst."

    def answer_schema(self) -> type[WireModel]:
        """Build the pydantic model for a valid answer: a ranking of all letters in the request."""
        return ranking_of(tuple(letter for letter, _ in self.answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChairRequest:
    """Input to the chair's block.

    The block returns a `ChairAnswer` or its fields, text, or data matching `output_schema`.
    """

    kind: ClassVar[str] = "chair"
    question: str
    answers: tuple[tuple[str, str], ...]
    """Letter and text of each answer, with names replaced by aliases."""
    reviews: tuple[tuple[str, tuple[tuple[int, str, str], ...]], ...] = ()
    """Reviews, each consisting of the letter of the reviewer's own answer and the rank, letter and reason for each
    ranked answer.
    """
    ranking: tuple[tuple[int, str, float, int], ...] = ()
    """Rank, letter, mean rank and number of reviews for each answer."""

    @property
    def subject(self) -> str:
        """The question."""
        return self.question

    def task_for_human(self) -> str:
        """Describe the answers, the reviews, the ranking and the task to a human chair."""
        return f"{render_work(self.question, self.answers, self.reviews, self.ranking)}\n\nWrite the council's answer."


@lru_cache(maxsize=256)  # cached across all councils
def ranking_of(letters: tuple[str, ...]) -> type[WireModel]:
    """Build the pydantic model for a ranking of all `letters` from best to worst, with a reason for each rank.

    >>> model = ranking_of(("A", "B"))
    >>> [ranked.answer for ranked in model(ranking=[{"answer": "B", "reason": "-"}, {"answer": "A"}]).ranking]
    ['B', 'A']
    """
    ranked = create_model(
        "RankedAnswer",
        __base__=WireModel,
        answer=(one_of(letters), Field(description="The letter of the answer")),
        reason=(Annotated[str, Field(max_length=MAX_REASON_LENGTH)], Field("", description="What decided its rank")),
    )

    place: Any = ranked  # type checkers do not accept a variable as a type

    class Ranking(WireModel):
        ranking: Annotated[
            list[place],
            Field(
                min_length=len(letters),
                max_length=len(letters),
                description="All answers, from best to worst, each exactly once",
            ),
        ]

        @model_validator(mode="after")
        def _check_complete(self) -> Ranking:
            answers = [item.answer for item in self.ranking]
            if sorted(answers) != sorted(letters):
                message = f"ranking must name each of {', '.join(letters)} once, got {', '.join(answers)}"
                raise ValueError(message)
            return self

    return Ranking
