"""Debate cases: complete debates represented as values, plus hostile blocks and values, all with a readable `repr`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from flowdebate.blocks.sequencer import Sequencer
from flowdebate.chassis.roster import Debater, check_roster
from flowdebate.models.base import ModelRequest
from flowdebate.patterns.debate import debate
from flowdebate.patterns.debate.formats import find_format
from flowdebate.patterns.debate.phases import check_phases
from flowdebate.runs.context import Context
from flowdebate.runs.result import RunResult
from flowdebate.runs.session import SessionLike
from flowdebate.testing.models import FunctionModel, Reply

T = TypeVar("T")


class Sabotage(Exception):
    """Exception raised by hostile functions and values to simulate an application's exception."""


class Unprintable:
    """Object whose `str()` fails, but whose `repr` works.

    >>> str(Unprintable())
    Traceback (most recent call last):
    flowdebate.testing.cases.Sabotage: __str__
    """

    def __str__(self) -> str:
        raise Sabotage("__str__")

    def __repr__(self) -> str:
        return "Unprintable()"


class Unreadable(Mapping[str, object]):
    """Mapping with plausible keys, but with unreadable values.

    >>> "winner" in list(Unreadable())
    True
    """

    def __getitem__(self, key: str) -> object:
        raise Sabotage(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("text", "verdict", "winner", "reasoning", "next_speakers", "done"))

    def __len__(self) -> int:
        return 6

    def __repr__(self) -> str:
        return "Unreadable()"


Measure = Literal["round", "entries", "calls", "raises"]
"""Quantity tested by a predicate: the round number, or the number of arguments or model calls so far. "raises" raises
Sabotage without testing anything.
"""


@dataclass(frozen=True, init=False, repr=False)
class Returns:
    """Block function that returns one of `values` per round, starting over after the last one.

    Exceptions among the values are raised. With `wait`, the result is awaitable.

    >>> Returns("For.", "Still for.")
    Returns('For.', 'Still for.')
    """

    values: tuple[Any, ...]
    wait: bool

    def __init__(self, *values: object, wait: bool = False) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "wait", wait)

    def __call__(self, _: object, ctx: Context) -> object:
        return _later(self._value, ctx) if self.wait else self._value(ctx)

    def __repr__(self) -> str:
        return f"Returns({', '.join(map(repr, self.values))}{', wait=True' if self.wait else ''})"

    def _value(self, ctx: Context) -> object:
        # Selected by round, because one object may serve several debates at once. An opening precedes round 1.
        value = self.values[(max(ctx.sequencer.state.round, 1) - 1) % len(self.values)]
        if isinstance(value, BaseException):
            raise value
        return value


@dataclass(frozen=True)
class StopWhen:
    """Condition for `terminate_when` that holds once `measure` reaches `at_least`; with `wait`, it is awaitable.

    >>> StopWhen("round", 2)
    StopWhen(measure='round', at_least=2, wait=False)
    """

    measure: Measure
    at_least: int = 0
    wait: bool = False

    def __call__(self, ctx: Context) -> bool | Awaitable[bool]:
        return _later(self._holds, ctx) if self.wait else self._holds(ctx)

    def _holds(self, ctx: Context) -> bool:
        if self.measure == "raises":
            raise Sabotage("terminate_when")
        if self.measure == "round":
            reached = ctx.sequencer.state.round
        elif self.measure == "entries":
            reached = sum(map(len, ctx.scope.handle.state.texts_by_speaker(ctx).values()))
        else:
            reached = ctx.usage.calls
        return bool(reached >= self.at_least)


async def _later(function: Callable[[Context], T], ctx: Context) -> T:
    return function(ctx)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A model's answers to each kind of block, returned in order, starting over after the last one."""

    arguments: Sequence[Any] = ("An argument.",)
    """Answers to requests for text, from debaters and from a synthesizer without a schema."""
    decisions: Sequence[Any] = ()
    """Answers to requests for a moderator's decision."""
    verdict: object = None
    """Answer to requests for a judge's verdict, also used to derive a score for each side."""
    deliverable: object = None
    """Answer to all other requests, which come from a synthesizer with a schema. The members of an audience vote for
    the sides in turn.
    """

    def model(self) -> FunctionModel:
        """Create a new model that replays these answers from the start."""
        counts: Counter[str] = Counter()

        def answer(request: ModelRequest) -> Reply:
            role, replies = self._replies_to(request)
            counts[role] += 1
            reply: Reply = replies[(counts[role] - 1) % len(replies)]
            return reply

        return FunctionModel(answer, name="answers")

    def _replies_to(self, request: ModelRequest) -> tuple[str, Sequence[Any]]:
        """Return the role to which a request is addressed, and that role's replies.

        The answer schema determines the role, because blocks may have any name.
        """
        if request.output_schema is None:
            return "argument", self.arguments or (None,)
        fields = set(request.output_schema.get("properties", ()))
        if "nextSpeakers" in fields:
            return "decision", self.decisions or (None,)
        if fields == {"reasoning", "verdict", "scores"}:
            return "verdict", (_as_scores(self.verdict, request),)
        if fields == {"reasoning", "verdict", "winner"}:
            return "verdict", (self.verdict,)
        if fields == {"reason", "choice"}:
            choices = request.output_schema["properties"]["choice"]["enum"]
            return "vote", [{"reason": "As I see it.", "choice": choice} for choice in choices]
        return "deliverable", (self.deliverable,)


def _as_scores(verdict: object, request: ModelRequest) -> object:
    """Convert `verdict` to scores: 100 for the winner and 0 for the others, or 50 each if there is no winner.

    All scores are equal if the winner is not among the names to score; values other than verdicts are left unchanged.
    """
    if not isinstance(verdict, dict) or "winner" not in verdict:
        return verdict
    names = (request.output_schema or {})["$defs"]["Scores"]["properties"]
    winner = verdict["winner"]
    scores = {name: 100 if name == winner else 0 if winner in names else 50 for name in names}
    return {key: value for key, value in verdict.items() if key != "winner"} | {"scores": scores}


@dataclass(frozen=True, kw_only=True)
class DebateCase:
    """A debate together with its question and a model's answers.

    >>> sides = [{"name": "a", "stance": "cap rents"}, {"name": "b", "stance": "free rents"}]
    >>> found = {"verdict": "Cap them.", "winner": "cap rents", "reasoning": "It was answered."}
    >>> case = DebateCase(
    ...     options={"name": "rent", "debaters": sides, "synthesizer": False}, answers=Answers(verdict=found)
    ... )
    >>> case.run_sync().raw.rounds
    2
    """

    options: Mapping[str, Any]
    """Keyword arguments for `debate()`."""
    answers: Answers
    question: str = "Who is right?"
    seed: int = 0

    @property
    def roster(self) -> tuple[Debater, ...]:
        """Debaters as `Debater` objects."""
        return check_roster(self.options["debaters"], location="case")

    @property
    def stances(self) -> list[str]:
        """Stances eligible to win, in declared order."""
        return [debater.stance for debater in self.roster]

    @property
    def max_rounds(self) -> int:
        """Maximum number of rounds; if there are phases, the sum of their rounds."""
        format_ = find_format(self.options.get("format"), location="case", pattern="debate")
        phase_values = self.options.get("phases") or (None if format_ is None else format_.phases) or None
        phases = check_phases(phase_values, location="case", members=len(self.roster))
        return sum(phase.rounds for phase in phases) or int(self.options.get("max_rounds", 2))

    def debate(self) -> Sequencer[Any, Any]:
        return debate(**self.options)

    def model(self) -> FunctionModel:
        """Create a new model that replays the case's answers from the start; use a separate one for each run."""
        return self.answers.model()

    async def run(self, *, session: SessionLike = None) -> RunResult[Any]:
        return await self.debate().run(self.question, session=session, override_model=self.model(), seed=self.seed)

    def run_sync(self, *, session: SessionLike = None) -> RunResult[Any]:
        """Run the case synchronously, for tests that are not async."""
        return self.debate().run_sync(self.question, session=session, override_model=self.model(), seed=self.seed)
