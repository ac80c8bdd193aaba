"""Faults in a whole debate: two sides, one round, and a server that plays each role."""

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
    """A failure of a role and the debate's outcome; the n-th handler gets the role's n-th request."""

    id: str
    title: str
    description: str
    posts: int
    """Number of requests in the whole debate."""
    turns: tuple[Handler, ...] = (fine,)
    moderator: tuple[Handler, ...] = ()
    """Handlers of the moderator, or None for a debate without one."""
    judge: tuple[Handler, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: {"on_failure": "skip"})
    limits: Limits | None = None

    status: str = "complete"
    losses: tuple[tuple[str, str], ...] = ()
    """Failed roles, each with the action taken."""
    error: type[Exception] | None = None
    """Exception that the run raises."""
    spoke: tuple[str, ...] = ("tenant", "owner")

    def __str__(self) -> str:
        return self.id


def says(value: Any, *, finish: str = "stop", **message: Any) -> Handler:
    """Return a handler that answers with a text."""

    async def handler(exchange: Exchange) -> None:
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        await exchange.json(completion(text, finish=finish, **message))

    return handler


def refuses(status: int, message: str = "no") -> Handler:
    """Return a handler that responds with an HTTP status."""

    async def handler(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": message}}, status=status)

    return handler


finds = says(VERDICT)
decides = says(DECISION)
SKIP = {"on_failure": "skip"}
ALONE = {"on_failure": "skip", "quorum": 1}
FAIL = {"on_failure": "fail"}

DEBATE: tuple[DebateFault, ...] = (
    DebateFault(
        id="61a",
        title="the judge names a winner who is not in the debate, every time",
        description="retried twice with the reason; then there is no verdict, and the transcript is whole",
        judge=(says({**VERDICT, "winner": "nobody"}),),
        posts=5,
        status="no_verdict",
        losses=(("judge", "no_verdict"),),
    ),
    DebateFault(
        id="61b",
        title="the judge names the winner in capitals, or with a zero-width character in it",
        description="the answer counts",
        judge=(says({**VERDICT, "winner": "CAP\u200b RENTS"}),),
        posts=3,
    ),
    DebateFault(
        id="60",
        title="the judge adds fields (`admin: true`)",
        description="they are dropped",
        judge=(says({**VERDICT, "admin": True}),),
        posts=3,
    ),
    DebateFault(
        id="62a",
        title="the moderator lets nobody speak and does not end the debate, every time",
        description="retried twice with the reason; then all speak in declared order, and the decision is flagged",
        moderator=(says({**DECISION, "nextSpeakers": []}),),
        options=FAIL,
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="62b",
        title="the same once",
        description="retried with the reason; nothing is missing",
        moderator=(says({**DECISION, "nextSpeakers": []}), says({**DECISION, "nextSpeakers": ["owner", "tenant"]})),
        posts=5,
        spoke=("owner", "tenant"),
    ),
    DebateFault(
        id="63",
        title="the moderator calls on somebody who is not in the debate, every time",
        description="retried with the names; then all speak in declared order, and the decision is flagged",
        moderator=(says({**DECISION, "nextSpeakers": ["the landlord"]}),),
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
        moderator=(says({**DECISION, "newAngle": "x" * 100_000}),),
        options=FAIL,
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="65c",
        title="the moderator's angle has 1,000,000 characters",
        description="longer than an answer may be: not retried, all speak in declared order",
        moderator=(says({**DECISION, "newAngle": "x" * 1_000_000}),),
        options=FAIL,
        posts=4,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="66a",
        title="the judge declines",
        description="not retried; there is no verdict, and the transcript is whole",
        judge=(says(None, refusal="I would rather not"),),
        posts=3,
        status="no_verdict",
        losses=(("judge", "no_verdict"),),
    ),
    DebateFault(
        id="66b",
        title="a filter stops the judge's answer",
        description="the same",
        judge=(says("", finish="content_filter"),),
        posts=3,
        status="no_verdict",
        losses=(("judge", "no_verdict"),),
    ),
    DebateFault(
        id="66c",
        title='the judge\'s endpoint is down, where the debate may not go on without (`on_failure="fail"`)',
        description="`ProviderFailed`; `error.run.raw` has the arguments so far",
        judge=(refuses(503),),
        options=FAIL,
        posts=5,
        status="failed",
        error=ProviderFailed,
    ),
    DebateFault(
        id="67",
        title="an argument looks like a template (`{{7*7}}`, `{% for`)",
        description="it reaches the judge as it was written",
        turns=(says("{{7*7}} {% for x in y %} {question} %s"),),
        posts=3,
    ),
    DebateFault(
        id="7",
        title="a debater's endpoint is down",
        description="asked three times; the turn is skipped, and the loss is recorded",
        turns=(refuses(503), refuses(503), refuses(503), fine),
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
        turns=(refuses(503), refuses(503), refuses(503), fine),
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
        turns=(refuses(503), refuses(503), refuses(503), fine),
        options={"on_failure": StandIn("stand-in")},  # the test puts a model on the same server in its place
        posts=6,
        status="degraded",
        losses=(("debater", "stand_in"),),
    ),
    DebateFault(
        id="7d",
        title="the moderator's endpoint is down",
        description="asked three times; all speak in declared order",
        moderator=(refuses(500),),
        posts=6,
        status="degraded",
        losses=(("moderator", "declared_order"),),
    ),
    DebateFault(
        id="37",
        title="a debater's model declines",
        description="not retried; the turn is skipped",
        turns=(says(None, refusal="not that"), fine),
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
        turns=(refuses(401),),
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
        turns=(refuses(401),),
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
"""Faults of debates, each tested over all transports."""
