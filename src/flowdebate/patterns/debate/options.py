"""Options for a debate, and checks for incompatible combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.chassis.options import NEEDS_SYNTHESIZER, CommonOptions, Constraint, quorum_of

if TYPE_CHECKING:
    from .baselines import BaselineOptions
    from .judging.options import JudgeOptions
    from .phases import Phase

DEFAULT_ROUNDS = 2
"""Default number of rounds."""


@dataclass(frozen=True, kw_only=True)
class DebateOptions(CommonOptions):
    """Options for a debate."""

    judging: JudgeOptions | None
    """Options for the default judge, or None if the judge is custom."""
    phases: tuple[Phase, ...]
    audience: tuple[str, ...]
    mirror: bool
    anonymize_transcript: bool
    shuffle_for_judge: bool
    baselines: BaselineOptions | None

    @property
    def has_planned_rounds(self) -> bool:
        return bool(self.phases)


CONSTRAINTS: Sequence[Constraint[DebateOptions]] = (
    Constraint(
        name="order of a mirror",
        options=("mirror", "turn_order"),
        sentence="{mirror} cannot be combined with {turn_order} simultaneous: all speak at once, so there is no "
        "order to reverse",
        broken=lambda options: options.mirror and options.turn_order == "simultaneous",
    ),
    Constraint(
        name="rounds of phases",
        options=("max_rounds", "phases"),
        sentence="{max_rounds} cannot be combined with {phases}, which define the number of rounds",
        broken=lambda options: (
            bool(options.phases)
            and options.max_rounds not in (DEFAULT_ROUNDS, sum(phase.rounds for phase in options.phases))
        ),
    ),
    Constraint(
        name="decision of an audience",
        options=("audience", "judge"),
        sentence="{audience} cannot be combined with a {judge} or its options: the audience decides",
        broken=lambda options: (
            bool(options.audience) and (options.judging is not None or options.roles.get("judge") is not None)
        ),
    ),
    Constraint(
        name="budget of baselines",
        options=("equal", "baselines"),
        sentence="{equal} needs self_consistency or revision among the {baselines}",
        broken=lambda options: (
            options.baselines is not None and options.baselines.equal is not None and not options.baselines.has_budget
        ),
    ),
    Constraint(
        name="person who judges a mirror",
        options=("mirror", "on_flip"),
        sentence="{mirror} cannot be combined with {on_flip} human: a person would have to judge both debates",
        broken=lambda options: options.mirror and options.judging is not None and options.judging.on_flip == "human",
    ),
    NEEDS_SYNTHESIZER,
    quorum_of("debaters"),
)
