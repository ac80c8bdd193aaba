"""What a speaker returned, read: what it said, whom it named to speak next, and whether that one can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model

from flowdebate._util.text import clean_text, is_blank
from flowdebate._util.wire import WireModel
from flowdebate.errors import shown
from flowdebate.patterns.handoff.schemas import HandoffAnswer, HandoffState
from flowdebate.patterns.handoff.transition import read_transition
from flowdebate.patterns.recording import text_said
from flowdebate.patterns.state import pattern_state
from flowdebate.prompts.names import name_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.patterns.handoff.schemas import ChosenBy
    from flowdebate.runs.context import Context

__all__ = (
    "NOBODY",
    "NOTHING",
    "HandoffDecision",
    "answer_of",
    "chosen",
    "handoff_state",
    "handover_among",
    "judged",
    "merged",
    "written",
)

NOBODY = "nobody was named to speak next"
NOTHING = "nothing was said"

_TEXTS = ("response", "text")
_NAMES = ("next_agent_name", "nextAgentName")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDecision:
    """What somebody said, and to whom it handed over."""

    text: str
    next_agent_name: str | None = None
    """Who speaks next; None where nobody was named who can."""
    chosen_by: ChosenBy | None = None
    problem: str | None = None
    """What is wrong with the answer; None where nothing is."""
    named: str | None = None
    """Whom it named, as it did."""
    speaker: Block[Any, Any] | None = field(default=None, repr=False, compare=False)
    """The block to ask once more; None for one that cannot be asked again."""


def answer_of(value: object, agent_name: str, names: Sequence[str], ctx: Context) -> HandoffAnswer:
    """What a block returned for a turn of `agent_name`, as an answer.

    A dict or an object with a `response` or a `text`, and maybe a `next_agent_name`, in either key style; else text, as
    `text_said` takes it. Text that comes without a name hands over as `read_transition` reads it.
    """
    said = _held(value, _TEXTS)
    text = text_said(said if isinstance(said, str) else value, agent_name, ctx)
    named = _held(value, _NAMES)
    if named is not None:
        return HandoffAnswer(response=text, next_agent_name=written(named))
    transition = read_transition(text, names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name)


def judged(
    answer: HandoffAnswer,
    *,
    agent_name: str,
    names: Sequence[str],
    chosen_by: ChosenBy = "speaker",
    speaker: Block[Any, Any] | None = None,
) -> HandoffDecision:
    """`answer` with what is wrong with it: nothing said, or nobody named who can speak after `agent_name`."""
    name, problem = chosen(answer.next_agent_name, agent_name=agent_name, names=names)
    if is_blank(answer.response):
        problem = NOTHING if problem is None else f"{NOTHING}, and {problem}"
    return HandoffDecision(
        text="" if is_blank(answer.response) else answer.response,
        next_agent_name=name,
        chosen_by=None if name is None else chosen_by,
        problem=problem,
        named=answer.next_agent_name,
        speaker=speaker,
    )


def chosen(named: str | None, *, agent_name: str, names: Sequence[str]) -> tuple[str | None, str | None]:
    """Who speaks next where `agent_name` has `named` somebody; or None, and why that one cannot.

    >>> chosen("con", agent_name="Pro", names=["Pro", "Con"])
    ('Con', None)
    >>> chosen("Pro", agent_name="Pro", names=["Pro", "Con"])
    (None, "'Pro' handed over to itself")
    """
    if named is None or is_blank(named):
        return None, NOBODY
    name = name_among(named, names)
    if name is None:
        return None, f"{shown(named)} is nobody in this debate"
    if name == agent_name:
        return None, f"{name!r} handed over to itself"
    return name, None


def merged(first: HandoffDecision, second: HandoffDecision) -> HandoffDecision:
    """What a speaker said that was asked twice: its first words, where it had any, and its second choice.

    Where its second answer names nobody who can speak next, its first choice stands, if only its words were missing.
    """
    if second.next_agent_name is None:
        return replace(first, text=first.text or second.text)
    return replace(
        first,
        text=first.text or second.text,
        next_agent_name=second.next_agent_name,
        chosen_by="retry",
        named=second.named,
    )


def handoff_state(ctx: Context) -> HandoffState:
    """The state of the handoff around the block; a new one where a speaker is used by itself."""
    state = pattern_state(ctx)
    return state if isinstance(state, HandoffState) else HandoffState()


def _held(value: object, keys: Sequence[str]) -> object:
    """What `value` holds under the first of `keys` that it has; None where it has none."""
    if isinstance(value, Mapping):
        return next((value[key] for key in keys if value.get(key) is not None), None)
    if isinstance(value, str):  # whatever a subclass of str has besides
        return None
    return next((held for key in keys if (held := getattr(value, key, None)) is not None), None)


def written(named: object) -> str | None:
    """A name as somebody wrote it; an enum's member by its value."""
    if isinstance(named, Enum):
        named = named.value
    return clean_text(str(named)) if isinstance(named, str) else None if named is None else shown(named)


def handover_among(names: Sequence[str]) -> type[WireModel]:
    """What a speaker of a handoff says, and which of `names` is next."""
    named: Any = Literal[tuple(names)]
    return create_model(
        "HandoffAnswer",
        __base__=WireModel,
        response=(str, Field(description="What you say")),
        next_agent_name=(named, Field(description="Who speaks next")),
    )
