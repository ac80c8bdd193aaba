"""Debate patterns, each in a folder with its prompts, schemas, blocks, factory, front-end page and events.

`PATTERNS` is the registry, a mapping from a pattern's name to its entry.

>>> sorted(PATTERNS)
['consensus', 'council', 'critique', 'debate', 'deliberation', 'handoff', 'review', 'round_robin']
>>> PATTERNS["round_robin"].verb
'round-robin'
"""

from __future__ import annotations

from flowdebate.chassis.registry import PATTERNS as PATTERNS
from flowdebate.chassis.registry import PatternInfo as PatternInfo
from flowdebate.chassis.registry import find_pattern as find_pattern
from flowdebate.chassis.registry import register as register

DEFAULT = "debate"
"""Default pattern for batches, MCP hosts and plans."""


def _register_folder(
    name: str,
    *,
    output: str,
    subject: str,
    help: str,  # noqa: A002 - as in PatternInfo
    events: str,
    listed: bool = False,
) -> None:
    """Register the pattern in the folder `name`, given the names of its output class and event classes."""
    folder = f"{__name__}.{name}"
    info = PatternInfo(
        name=name,
        factory=f"{folder}.factory:{name}",
        output=f"{folder}.schemas:{output}",
        subject=subject,
        page=f"{folder}.page:PAGE",
        help=help,
        events=tuple(f"{folder}.events:{event}" for event in events.split()),
        listed=listed,
    )
    register(info)


_register_folder(
    "debate",
    output="DebateRawOutput",
    events="ModeratorDecided MirrorStarted JudgeViewMade VerdictReached",
    subject="question",
    help="Debate a question: sides argue, a judge decides. The arguments are shown as they are written. After "
    "the verdict a synthesizer writes the output.",
    listed=True,
)
_register_folder(
    "deliberation",
    output="DeliberationOutput",
    events="ModeratorReported",
    subject="topic",
    help="Deliberate on a topic until a moderator finds it settled. All personas speak at the same time; the "
    "moderator sums up each round. The result is a decision.",
)
_register_folder(
    "handoff",
    output="HandoffOutput",
    events="HandoffMade",
    subject="proposition",
    help="Debate a proposition; each speaker names the next. The result is the transcript.",
)
_register_folder(
    "consensus",
    output="ConsensusOutput",
    events="DebateStarted StageEntered AgentMessage CritiqueMade PollVoteCast VoteCast ConsensusDecided DebateEnded",
    subject="task",
    help="Find an answer that enough agents vote for. They propose, criticize each other's proposals, revise "
    "them and vote.",
)
_register_folder(
    "round_robin",
    output="RoundRobinOutput",
    events="RefereeReported",
    subject="question",
    help="Work on a question in turn. Each debater speaks once in each round and sees what was said before; a "
    "synthesizer writes the output.",
)
_register_folder(
    "council",
    output="CouncilOutput",
    events="ReviewFinished",
    subject="question",
    help="Ask several models; a chair answers from their reviews. Each member answers on its own and reviews "
    "the other answers without names; then the chair writes the answer.",
    listed=True,
)
_register_folder(
    "critique",
    output="CritiqueOutput",
    events="AnswerGiven ClaimsMade ClaimsRuled AnswerDecided",
    subject="question",
    help="Check an answer; a judge verifies what a critic claims. Without an answer, an author writes one. Claims "
    "supported by a quote lead to a revision.",
    listed=True,
)
_register_folder(
    "review",
    output="ReviewRawOutput",
    subject="question",
    events="FindingsReported FindingsExamined FindingsDecided",
    help="Review a change or a text; several reviewers must agree. Each reports findings on its own, then confirms or "
    "refutes what the others found, without names; a rule decides.",
    listed=True,
)
