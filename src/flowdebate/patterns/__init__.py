"""Registry of patterns: one entry for each, which the CLI, stored plans, batches, documents and servers read.

A pattern is one folder here, one page in `flowdebate.service.pages`, and one entry in `PATTERNS`.

>>> sorted(PATTERNS)
['consensus', 'council', 'debate', 'deliberation', 'handoff', 'review', 'round_robin']
>>> PATTERNS["round_robin"].verb
'round-robin'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

    from flowdebate._util.wire import BaseEvent


@dataclass(frozen=True, kw_only=True)
class PatternInfo:
    """One pattern as data. Places are written "module:name" and imported when they are asked for."""

    name: str
    """Its one spelling, in code, documents and plans."""
    factory: str
    """Place of the function that builds it."""
    output: str
    """Place of the class of its raw output."""
    subject: str
    """Name of its input: "question", "topic", "proposition" or "task"."""
    page: str
    """Place of its `Page`: options, document and sections, for every front end."""
    help: str
    """What it does, for lists and the help of its command; the first sentence fits on a line."""
    events: tuple[str, ...] = ()
    """Places of the classes of events that only this pattern emits; streams and pages pass them on as themselves."""

    @property
    def verb(self) -> str:
        return self.name.replace("_", "-")

    def load_factory(self) -> Callable[..., Any]:
        factory: Callable[..., Any] = _load(self.factory)
        return factory

    def load_output(self) -> type[BaseModel]:
        output: type[BaseModel] = _load(self.output)
        return output

    def load_events(self) -> tuple[type[BaseEvent], ...]:
        return tuple(map(_load, self.events))

    def load_page(self) -> Any:  # noqa: ANN401 - a Page of flowdebate.service, which stands above this package
        return _load(self.page)


# places are texts, so that who asks for a name or a command imports no pattern, and no page of a layer above
PATTERNS: dict[str, PatternInfo] = {}
"""Every pattern, by name, in the order in which users see them."""
DEFAULT = "debate"
"""The pattern of a batch, of a host of MCP and of a saved run that name none."""


def register(info: PatternInfo) -> None:
    """Add a pattern, or replace the one of the same name."""
    PATTERNS[info.name] = info


def find_pattern(name: object) -> PatternInfo | None:
    """The pattern of this name or command; None for no pattern.

    >>> found = find_pattern("round-robin")
    >>> found and found.name
    'round_robin'
    """
    for info in PATTERNS.values():
        if name in (info.name, info.verb):
            return info
    return None


def _load(place: str) -> Any:  # noqa: ANN401 - whatever is there
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _own(
    name: str,
    *,
    output: str,
    subject: str,
    help: str,  # noqa: A002 - as in PatternInfo
    events: str = "",
) -> PatternInfo:
    return PatternInfo(
        name=name,
        factory=f"{__name__}.{name}:{name}",
        output=f"{__name__}.{name}.schemas:{output}",
        subject=subject,
        page=f"flowdebate.service.pages.{name}:PAGE",
        help=help,
        events=tuple(f"{__name__}.{name}.{each}" for each in events.split()),
    )


for _info in (
    _own(
        "debate",
        output="DebateRawOutput",
        events="schemas:ModeratorDecided schemas:MirrorStarted schemas:JudgeViewMade schemas:VerdictReached",
        subject="question",
        help="Debate a question: sides argue, a judge decides. The arguments are shown as they are written. After "
        "the verdict a synthesizer writes the output.",
    ),
    _own(
        "deliberation",
        output="DeliberationOutput",
        events="schemas:ModeratorReported",
        subject="topic",
        help="Deliberate on a topic until a moderator finds it settled. All personas speak at the same time; the "
        "moderator sums up each round. The result is a decision.",
    ),
    _own(
        "handoff",
        output="HandoffOutput",
        events="schemas:HandoffMade",
        subject="proposition",
        help="Debate a proposition; each speaker names the next. The result is the transcript.",
    ),
    _own(
        "consensus",
        output="ConsensusOutput",
        events="events:DebateStarted events:StageEntered events:AgentMessage events:CritiqueMade "
        "events:PollVoteCast events:VoteCast events:ConsensusDecided events:DebateEnded",
        subject="task",
        help="Find an answer that enough agents vote for. They propose, criticise each other's proposals, revise "
        "them and vote.",
    ),
    _own(
        "round_robin",
        output="RoundRobinOutput",
        events="schemas:RefereeReported",
        subject="question",
        help="Work on a question in turn. Each debater speaks once in each round and sees what was said before; a "
        "synthesizer writes the output.",
    ),
    _own(
        "council",
        output="CouncilOutput",
        events="schemas:ReviewFinished",
        subject="question",
        help="Ask several models; a chair answers from their reviews. Each member answers on its own and reviews "
        "the other answers without names; then the chair writes the answer.",
    ),
    _own(
        "review",
        output="ReviewRawOutput",
        subject="question",
        events="schemas:FindingsReported schemas:FindingsExamined schemas:FindingsDecided",
        help="Review a change or a text; several reviewers must agree. Each finds on its own, then confirms or "
        "refutes what the others found, without names; a rule decides.",
    ),
):
    register(_info)
