"""Exhaustive matches over all events, in which a new kind of event is a type error."""

from __future__ import annotations

from typing import assert_never, assert_type

from flowdebate import Event, events


def check_a_match_over_all_events_is_exhaustive(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each kind
    assert_type(event.path, str)
    assert_type(event.at, float)
    assert_type(event.kind, str)
    match event:
        case events.RunStarted() | events.RunFinished() | events.HumanAsked() | events.TextDelta():
            return "run"
        case events.ToolCalled() | events.BlockAnswered() | events.ModelCalled() | events.TaskChanged():
            return event.path
        case events.CallStarted() | events.CallRetried() | events.CallFellBack() | events.TextWithdrawn():
            return event.block
        case events.RoundStarted() | events.TurnStarted() | events.TurnFinished() | events.RoleFailed():
            return str(event.round)
        case events.TurnsOrdered() | events.CircuitChanged():
            return event.kind
        case events.RoundsEnded():
            return event.reason
        case events.EscalationStepFinished():
            return event.step.name
        case events.ModeratorDecided() | events.JudgeViewMade() | events.VerdictReached() | events.MirrorStarted():
            return "debate"
        case events.ModeratorReported() | events.HandoffMade() | events.RefereeReported() | events.ReviewFinished():
            return "sibling"
        case events.FindingsReported() | events.FindingsExamined() | events.FindingsDecided():
            return "review"
        case events.DebateStarted() | events.StageEntered() | events.AgentMessage() | events.CritiqueMade():
            return "consensus"
        case events.PollVoteCast() | events.VoteCast() | events.ConsensusDecided() | events.DebateEnded():
            return "consensus"
        case _:
            assert_never(event)


def check_the_events_of_a_run_are_narrowed_by_the_union(event: object) -> None:
    """A stream may contain application events of any type."""
    if isinstance(event, Event):
        assert_type(event, Event)
