"""The audience of a debate: listeners who vote before and after it. The side that gains the most votes wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, create_model

from flowdebate._text import is_blank, join_choices
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.generator import generator
from flowdebate.chassis.roles import SHOWN, BlockOptions, generator_options
from flowdebate.chassis.spec import Loop
from flowdebate.chassis.state import question_of, recent_entries, state_of
from flowdebate.chassis.turn import ask, record_failure
from flowdebate.errors import ConfigurationError
from flowdebate.prompts import listed, quoted, tag_text
from flowdebate.runs.context import Context

from .schemas import AudienceVote, DebateState, JudgedVerdict
from .transcript import HOW_TO_READ, render_entries

if TYPE_CHECKING:
    from .options import DebateOptions

MAX_LISTENERS = 100
NOBODY_MOVED = "The audience moved toward no side more than toward the others."
_MAX_LENGTH = 500  # maximum length of a listener's description, in characters


def check_audience(value: object, *, location: str) -> tuple[str, ...]:
    """Validate the audience and return its listeners, or an empty tuple if there is no audience.

    Raises ConfigurationError if the audience is invalid.
    """
    if value is None:
        return ()
    listeners = tuple(value) if isinstance(value, (list, tuple)) else ()
    is_valid = all(
        isinstance(listener, str) and not is_blank(listener) and len(listener) <= _MAX_LENGTH for listener in listeners
    )
    if not is_valid or not 0 < len(listeners) <= MAX_LISTENERS:
        problem = f'must be 1 to {MAX_LISTENERS} listeners, each described in text such as "a nurse"'
        raise ConfigurationError(location, "audience", value, problem)
    return listeners


@lru_cache(maxsize=256)  # cached because applications build a new pattern for each question, often with the same sides
def vote_among(stances: tuple[str, ...]) -> type[BaseModel]:
    """Build the schema for a listener's answer, limiting the choice to `stances`."""

    def check(choice: str) -> str:
        if choice not in stances:
            message = f"it must be {join_choices(stances, most=None)}"
            raise ValueError(message)
        return choice

    choice = Annotated[str, AfterValidator(check), Field(json_schema_extra={"enum": list(stances)})]
    return create_model("Vote", reason=(str, ...), choice=(choice, ...))


class Audience(Block[Any, Any]):
    """Block in which all listeners vote simultaneously.

    The vote before the debate passes its input on unchanged, and the vote after it returns the verdict.
    """

    def __init__(
        self, loop: Loop[DebateOptions], listeners: Sequence[str], options: BlockOptions, *, after: bool
    ) -> None:
        self.after = after
        self.listeners = listeners
        self.sides: tuple[str, ...] = tuple(dict.fromkeys(debater.stance for debater in loop.roster))
        self._failures = loop.failures
        self._anonymity = loop.anonymity
        block_name = f"{loop.name}-audience{'' if after else '-before'}"
        blocks = [
            generator(
                name=f"{block_name}-{number + 1}",
                prompt=self._system,
                user=partial(self._task, number),
                output_schema=vote_among(self.sides),
                resources={"transcript": loop.transcript},
                **generator_options(options, "intent/synthesize", SHOWN, location=block_name),
            ).in_role("judge")
            for number in range(len(listeners))
        ]
        shared, hidden = merge_resources(f"audience {block_name!r}", blocks)
        super().__init__(block_name, resources=shared, hidden=hidden)
        self._blocks = blocks

    def _system(self, value: object, ctx: Context) -> str:
        # identical for all listeners, as is the transcript, so a server with a prefix cache processes both only once
        return (
            f"You are in the audience of a debate.\n\nQuestion: {quoted(question_of(value, ctx))}\n\n{HOW_TO_READ}\n\n"
            "Vote for the position that you yourself believe is right, going by your own experience and by what you "
            "have heard, not for the better speaker. Give your reason first, in one sentence, and then your choice: "
            "one position, exactly as it is written."
        )

    def _task(self, number: int, _: object, ctx: Context) -> str:
        # each listener sees the positions in a different order, because models tend to prefer the first one
        shift = number % len(self.sides)
        sides = listed(*map(tag_text, (*self.sides[shift:], *self.sides[:shift])))
        who = f"You are: {quoted(self.listeners[number])}\nPositions:\n{sides}"
        if not self.after:
            return f"{who}\n\nThe debate has not started yet. Which position do you hold?"
        anonymity = self._anonymity
        recent = recent_entries(ctx)
        entries = recent if anonymity is None else anonymity.entries(ctx)[-len(recent) :]
        votes = state_of(ctx, DebateState).audience
        before = votes[number].before if number < len(votes) else None
        voted = "" if before is None else f"\n\nBefore the debate, you voted for: {tag_text(before)}"
        task = f"The debate:\n{render_entries(entries)}\n\n{who}{voted}"
        return f"{task}\n\nThe debate is over. Which position do you hold now?"

    async def act(self, value: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what it is given, or the verdict
        cast = await in_order([partial(self._vote, block, value, ctx) for block in self._blocks], finish=True)
        if not self.after:
            votes = [AudienceVote(voter=who, before=vote) for who, vote in zip(self.listeners, cast, strict=True)]
            ctx.scope.handle.update(audience=votes)
            return value
        before = [earlier_vote.before for earlier_vote in state_of(ctx, DebateState).audience] or [None] * len(cast)
        votes = [
            AudienceVote(voter=who, before=was, after=vote)
            for who, was, vote in zip(self.listeners, before, cast, strict=True)
        ]
        ctx.scope.handle.update(audience=votes)
        return verdict_of(votes, self.sides)

    async def _vote(self, block: Block[Any, Any], value: object, ctx: Context) -> str | None:
        """Ask one listener to choose a position; return None if the provider fails and the failure is tolerated."""
        try:
            choice: str = (await ask(block, value, ctx, self._failures)).choice
        except Exception as error:
            if not self._failures.tolerates(error):
                raise
            record_failure(error, ctx, block=block.name, role="judge", name=block.name, instead="skipped")
            return None
        return choice

    def outline(self) -> Outline:
        return Outline(text=f"{self.name} ({len(self.listeners)} listeners)", kind="parallel")


def verdict_of(votes: Sequence[AudienceVote], sides: Sequence[str]) -> JudgedVerdict:
    """Return a verdict for the side with the largest gain, counting only listeners who voted both times.

    No side wins if the largest gain is zero or is shared by several sides.

    >>> before_and_after = [("tea", "coffee"), ("tea", "tea"), ("coffee", "coffee")]
    >>> votes = [AudienceVote(voter="a nurse", before=was, after=now) for was, now in before_and_after]
    >>> found = verdict_of(votes, ["tea", "coffee"])
    >>> found.winner, found.verdict
    ('coffee', 'The audience moved most toward: coffee (from 1 to 2 of 3 votes).')
    """
    complete_votes = [vote for vote in votes if vote.before is not None and vote.after is not None]
    was, now = (Counter(getattr(vote, part) for vote in complete_votes) for part in ("before", "after"))
    gains = {side: now[side] - was[side] for side in sides}
    highest_gain = max(gains.values(), default=0)
    ahead = [side for side, gain in gains.items() if gain == highest_gain]
    winner = ahead[0] if len(ahead) == 1 and highest_gain > 0 else None
    moved = sum(vote.before != vote.after for vote in complete_votes)
    counts = "; ".join(f"{side}: {was[side]} before, {now[side]} after" for side in sides)
    verdict = NOBODY_MOVED
    if winner is not None:
        moved_from = f"from {was[winner]} to {now[winner]} of {len(complete_votes)} votes"
        verdict = f"The audience moved most toward: {winner} ({moved_from})."
    left_out = len(votes) - len(complete_votes)
    missing = f" {left_out} did not vote twice, and do not count." if left_out else ""
    reasoning = f"{moved} of {len(complete_votes)} listeners changed their vote. {counts}.{missing}"
    return JudgedVerdict(verdict=verdict, winner=winner, reasoning=reasoning)
