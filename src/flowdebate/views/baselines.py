"""What a baseline is asked: the debate's question and its positions, and nothing of the debate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowdebate.views.quote import quoted, tag_text
from flowdebate.views.template import Template, filled, listed, uses

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("BASELINE", "BaselineTemplate", "render_baseline_system", "render_baseline_turn")


@dataclass(frozen=True, kw_only=True)
class BaselineTemplate(Template):
    """The texts of a baseline's prompt."""

    system: str = field(
        default=(
            "You are asked a question, and which one of several positions on it is right.\n\n"
            "Positions:\n{positions}\n\n"
            "The order in which they are listed means nothing. First the reasoning: what speaks for and against each "
            "position. Then the winner: exactly one of the positions, as it is written above."
        ),
        metadata=uses("positions"),
    )
    turn: str = field(default="Question: {question}\n\nWhich position is right, and why?", metadata=uses("question"))


BASELINE = BaselineTemplate()


def render_baseline_system(*, positions: Sequence[str], template: BaselineTemplate = BASELINE) -> str:
    """The task, and `positions` in the order in which they are given."""
    return filled(template.system, positions=listed(*map(tag_text, positions)))


def render_baseline_turn(*, question: str, template: BaselineTemplate = BASELINE) -> str:
    """The question."""
    return filled(template.turn, question=quoted(question))
