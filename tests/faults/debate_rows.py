"""Faults in a whole debate with two sides and one round, in which one server plays every role."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowdebate import Limits, StandIn
from flowdebate.errors import AuthenticationFailed, ProviderFailed, QuorumLost
from tests.models.server import completion, fine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.models.server import Exchange, Handler

__all__ = ("DEBATE", "DebateFault")

VERDICT = {"reasoning": "It answered.", "winner": "cap rents", "verdict": "Cap them."}
DECISION = {"nextSpeakers": ["tenant", "owner"], "briefing": None, "newAngle": None, "done": False}


@dataclass(frozen=True, kw_only=True)
class DebateFault:
    """The failure of a role, and its effect on the debate.

    The n-th handler gets the role's n-th request.
    """

    id: str
    title: str
    description: str
    posts: int
    """The number of requests in the whole debate."""
    turns: tuple[Handler, ...] = (fine,)
    moderator: tuple[Handler, ...] = ()
    """Handlers for the moderator; None for a debate without a moderator."""
    judge: tuple[Handler, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: {"on_failure": "skip"})
    limits: Limits | None = None

    status: str = "complete"
    losses: tuple[tuple[str, str], ...] = ()
    """Failed roles, each with its recovery action."""
    error: type[Exception] | None = None
    """The exception that the run raises."""
    spoke: tuple[str, ...] = ("tenant", "owner")

    def __str__(self) -> str:
        return self.id


def answer_with(value: Any, *, finish: str = "stop", **message: Any) -> Handler:
    """Return a handler that answers with text."""

    async def handler(exchange: Exchange) -> None:
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        await exchange.json(completion(text, finish=finish, **message))

    return handler


def fail_with(status: int, message: str = "no") -> Handler:
    """Return a handler that responds with an HTTP status."""

    async def handler(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": message}}, status=status)

    return handler


finds = answer_with(VERDICT)
decides = answer_with(DECISION)
SKIP = {"on_failure": "skip"}
ALONE = {"on_failure": "skip", "quorum": 1}
FAIL = {"on_failure": "fail"}

DEBATE: tuple[DebateFault, ...] = (
    DebateFault(
        id="61a",
        title="the judge names a winner who is not in the debate, every time",
        description="retried twice with the reason; then there is no verdict, and the transcript is whole",
        judge=(answer_with({**VERDICT, "winner": "nobody"}),),
        posts=5,
        status="no_verdict",
        losses=(("judge", "no_verdict"),),
    ),
    DebateFault(
        id="61b",
        title="the judge names the winner in capitals, or with a zero-width character in it",
        description="the answer counts",
        judge=(answer_with({**VERDICT, "winner": "CAP\u200b RENTS"}),),
        posts=3,
    ),
    DebateFault(
        id="60",
        title="the judge adds fields (`admin: true`)",
        description="they are dropped",
        judge=(answer_with({**VERDICT, "admin": True}),),
        posts=3,
    ),
    DebateFault(
        id="62a",
        title="the moderator lets nobody speak and does not end the debate, every time",
        description="retried twice with the reason; then all speak in declared order, and the decision is flagged",
        moderator=(answer_with({**DECISION, "nextSpeakers": []}),),
        options=FAIL,
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="62b",
        title="the same once",
        description="retried with the reason; nothing is missing",
        moderator=(
            answer_with({**DECISION, "nextSpeakers": []}),
            answer_with({**DECISION, "nextSpeakers": ["owner", "tenant"]}),
        ),
        posts=5,
        spoke=("owner", "tenant"),
    ),
    DebateFault(
        id="63",
        title="the moderator calls on somebody who is not in the debate, every time",
        description="retried with the names; then all speak in declared order, and the decision is flagged",
        moderator=(answer_with({**DECISION, "nextSpeakers": ["the landlord"]}),),
        options=FAIL,
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="65a",
        title="the moderator never ends the debate",
        description="`max_rounds` does",
        moderator=(decides,),
        options={**SKIP, "max_rounds": 3},
        posts=10,
        spoke=("tenant", "owner") * 3,
    ),
    DebateFault(
        id="65b",
        title="the moderator's angle has 100,000 characters",
        description="retried twice with the reason; then all speak in declared order",
        moderator=(answer_with({**DECISION, "newAngle": "x" * 100_000}),),
        options=FAIL,
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="65c",
        title="the moderator's angle has 1,000,000 characters",
        description="longer than an answer may be: not retried, all speak in declared order",
        moderator=(answer_with({**DECISION, "newAngle": "x" * 1_000_000}),),
        options=FAIL,
        posts=4,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="66a",
        title="the judge declines",
        description="not retried; there is no verdict, and the transcript is whole",
        judge=(answer_with(None, refusal="I would rather not"),),
        posts=3,
        status="no_verdict",
        losses=(("judge", "no_verdict"),),
    ),
    DebateFault(
        id="66b",
        title="a filter stops the judge's answer",
        description="the same",
        judge=(answer_with("", finish="content_filter"),),
        posts=3,
        status="no_verdict",
        losses=(("judge", "no_verdict"),),
    ),
    DebateFault(
        id="66c",
        title='the judge\'s endpoint is down, where the debate may not go on without (`on_failure="fail"`)',
        description="`ProviderFailed`; `error.run.raw` has the arguments so far",
        judge=(fail_with(503),),
        options=FAIL,
        posts=5,
        status="failed",
        error=ProviderFailed,
    ),
    DebateFault(
        id="67",
        title="an argument looks like a template (`{{7*7}}`, `{% for`)",
        description="it reaches the judge as it was written",
        turns=(answer_with("{{7*7}} {% for x in y %} {question} %s"),),
        posts=3,
    ),
    DebateFault(
        id="7",
        title="a debater's endpoint is down",
        description="asked three times; the turn is skipped, and the loss is recorded",
        turns=(fail_with(503), fail_with(503), fail_with(503), fine),
        options=ALONE,
        posts=5,
        status="degraded",
        losses=(("debater", "skipped"),),
        spoke=("owner",),
    ),
    DebateFault(
        id="7b",
        title="the same, where two sides must be heard",
        description="`QuorumLost`; `error.run.raw` has the arguments so far",
        turns=(fail_with(503), fail_with(503), fail_with(503), fine),
        posts=4,
        status="failed",
        losses=(("debater", "skipped"),),
        error=QuorumLost,
        spoke=("owner",),
    ),
    DebateFault(
        id="7c",
        title="the same, with a stand-in",
        description="the stand-in argues for the same stance, and the loss is recorded",
        turns=(fail_with(503), fail_with(503), fail_with(503), fine),
        options={"on_failure": StandIn("stand-in")},  # the test replaces it with a model on the same server
        posts=6,
        status="degraded",
        losses=(("debater", "stand_in"),),
    ),
    DebateFault(
        id="7d",
        title="the moderator's endpoint is down",
        description="asked three times; all speak in declared order",
        moderator=(fail_with(500),),
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="37",
        title="a debater's model declines",
        description="not retried; the turn is skipped",
        turns=(answer_with(None, refusal="not that"), fine),
        options=ALONE,
        posts=3,
        status="degraded",
        losses=(("debater", "skipped"),),
        spoke=("owner",),
    ),
    DebateFault(
        id="10",
        title="the key is wrong",
        description="`QuorumLost`, which says that the key was rejected; with one model for all, nobody is heard",
        turns=(fail_with(401),),
        posts=2,
        status="failed",
        losses=(("debater", "skipped"), ("debater", "skipped")),
        error=QuorumLost,
        spoke=(),
    ),
    DebateFault(
        id="10b",
        title='the key is wrong, where the debate may not go on without (`on_failure="fail"`)',
        description="`AuthenticationFailed` at once",
        turns=(fail_with(401),),
        options=FAIL,
        posts=1,
        status="failed",
        error=AuthenticationFailed,
        spoke=(),
    ),
    DebateFault(
        id="limit",
        title="a limit of the run is reached",
        description="no request more is sent; the debate ends with what it has",
        limits=Limits(calls=1),
        posts=1,
        status="limit",
        spoke=("tenant",),
    ),
)
"""The debate faults, each of which is tested over all transports."""
