"""Council pattern: members answer independently, review each other anonymously, and a chair writes the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

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

_LAZY = {
    "CHAIR": "chair",
    "COUNCIL_MEMBER": "member",
    "ChairAnswer": "schemas",
    "ChairAsked": "schemas",
    "ChairTemplate": "chair",
    "CouncilAgreement": "schemas",
    "CouncilInput": "schemas",
    "CouncilMemberTemplate": "member",
    "CouncilOpinion": "schemas",
    "CouncilOutput": "schemas",
    "CouncilRank": "schemas",
    "CouncilRanked": "schemas",
    "CouncilReview": "schemas",
    "ReviewAsked": "schemas",
    "ReviewFinished": "schemas",
    "agreement": "ranking",
    "council": "factory",
    "create_chair": "chair",
    "create_council_member": "member",
    "create_council_reviewer": "member",
    "create_council_transcript": "schemas",
    "rank_answers": "ranking",
    "review_orders": "ranking",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
