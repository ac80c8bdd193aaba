"""Council pattern: members answer independently, review each other anonymously, and a chair writes the answer."""

from __future__ import annotations

from flowdebate.patterns.council.chair import CHAIR, ChairTemplate, create_chair
from flowdebate.patterns.council.factory import council
from flowdebate.patterns.council.member import (
    COUNCIL_MEMBER,
    CouncilMemberTemplate,
    create_council_member,
    create_council_reviewer,
)
from flowdebate.patterns.council.ranking import agreement, rank_answers, review_orders
from flowdebate.patterns.council.schemas import (
    ChairAnswer,
    ChairAsked,
    CouncilAgreement,
    CouncilInput,
    CouncilOpinion,
    CouncilOutput,
    CouncilRank,
    CouncilRanked,
    CouncilReview,
    ReviewAsked,
    ReviewFinished,
    create_council_transcript,
)

__all__ = (
    "CHAIR",
    "COUNCIL_MEMBER",
    "ChairAnswer",
    "ChairAsked",
    "ChairTemplate",
    "CouncilAgreement",
    "CouncilInput",
    "CouncilMemberTemplate",
    "CouncilOpinion",
    "CouncilOutput",
    "CouncilRank",
    "CouncilRanked",
    "CouncilReview",
    "ReviewAsked",
    "ReviewFinished",
    "agreement",
    "council",
    "create_chair",
    "create_council_member",
    "create_council_reviewer",
    "create_council_transcript",
    "rank_answers",
    "review_orders",
)
