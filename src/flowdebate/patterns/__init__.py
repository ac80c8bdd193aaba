"""The patterns: a folder for each, with its prompts, schemas, blocks, factory, front-end page and events.

`PATTERNS` is the registry, a mapping from a pattern's name to its entry.

>>> sorted(PATTERNS)
['consensus', 'council', 'debate', 'deliberation', 'handoff', 'review', 'round_robin']
>>> PATTERNS["round_robin"].verb
'round-robin'
"""

from __future__ import annotations

from flowdebate.chassis.registry import PATTERNS as PATTERNS
from flowdebate.chassis.registry import PatternInfo as PatternInfo
from flowdebate.chassis.registry import find_pattern as find_pattern
from flowdebate.chassis.registry import register as register

DEFAULT = "debate"
"""Pattern of a batch, of an MCP host and of a plan that name none."""


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
        page=f"{__name__}.{name}.page:PAGE",
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
