"""Document for a debate: its sections, its verdict, and notes on how fairly it was judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from flowdebate.chassis.roster import Debater
from flowdebate.ui.document import RoundsDocument, Side, Tokens
from flowdebate.ui.sections import (
    Ballots,
    Card,
    Entry,
    Fact,
    Group,
    Heading,
    Output,
    Section,
    Shares,
    doing,
)

from .audience import NOBODY_MOVED
from .benefit import benefit_item, change_summary
from .judging.verdicts import order_effect
from .schemas import DebateModeratorDecision, DebateRawOutput, DebateVerdict

if TYPE_CHECKING:
    from .judging.ballots import DecidedBy, JudgeBallot, Judging

_ORDERS = {
    "single": "once, random order",
    "swap": "twice, in opposite orders",
    "cyclic": "each side first once",
    "full": "in all orders",
}
_RULES: Mapping[DecidedBy, str] = {"vote": "most ballots", "log_odds": "mean log-odds"}
"""Descriptions of the decision rules, except for the mean of the shares, which needs no explanation."""


class DebateDocument(RoundsDocument):
    """Document for a saved debate."""

    SPEAKERS: ClassVar[str] = "Positions"
    LATE: ClassVar[tuple[str, ...]] = ("judge", "synthesizer")
    STOP_REASONS: ClassVar[Mapping[str, str]] = {"moderator_done": "ended by the moderator"}
    GOES_ON: ClassVar[bool] = True
    pattern: str = "debate"
    debaters: list[Side] = Field(default_factory=list)
    raw: DebateRawOutput
    output: Any = None
    """The synthesizer's output as plain JSON data, or None if there is none."""

    @model_validator(mode="after")
    def _a_whole_debate_has_a_verdict(self) -> DebateDocument:
        if self.status in {"complete", "degraded"} and self.raw.verdict is None:
            message = "a complete debate has a verdict"
            raise ValueError(message)
        return self

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for entry in self.raw.transcript:
            does, stance = doing(entry.kind, entry.to), entry.stance
            yield entry.round, Entry(name=entry.agent_name, about=stance, text=entry.text, flag=entry.flag, does=does)

    def phases(self) -> Mapping[int, str | None]:
        # reversed so that the first entry of each round determines the round's phase
        return {entry.round: entry.phase for entry in reversed(self.raw.transcript)}

    @property
    def last_calls(self) -> int:
        """Count the calls made by the synthesizer and the judge.

        By default, the judge makes one call, or two if there are two sides, to read the debate in both orders.
        """
        return 3 if len(self.debaters) == 2 else 2  # noqa: PLR2004 - sides

    def raw_speakers(self) -> list[Side]:
        spoke = dict.fromkeys((entry.agent_name, entry.stance) for entry in self.raw.transcript)
        return [Side(name=name, stance=stance) for name, stance in spoke]

    def closing(self, number: int) -> Iterator[Section]:
        """Yield the sections of the mirrored debate after the last round.

        If the mirrored debate was cut short, its sections explain why.
        """
        mirrored = self.raw.mirrored
        if mirrored is None or number != max(self.rounds()):
            return
        yield mirror_heading()
        # the mirrored debate's verdict is already included in the combined verdict
        bare = mirrored.model_copy(update={"verdict": None})
        page = DebateDocument.model_construct(  # skip validation, which would require a verdict
            status=mirrored.status, debaters=self.debaters, max_rounds=self.max_rounds, raw=bare, output=None
        )
        yield from page.sections()

    @property
    def has_result(self) -> bool:
        return self.raw.verdict is not None

    @property
    def notes(self) -> list[str]:
        return [*super().notes, *notes_on(self.raw, self.usage)]

    def judging(self) -> Iterator[Fact]:
        verdict = self.raw.verdict
        if verdict is None or verdict.judging is None:
            return
        judging = verdict.judging
        yield Fact(label="Orders read", text=_ORDERS.get(judging.schedule, judging.schedule))
        if (rule := _RULES.get(judging.decided_by)) is not None:
            yield Fact(label="Decided by", text=rule)
        if judging.planned > 1:
            yield Fact(label="Same winner in all orders", text="no" if judging.flipped else "yes")
        if judging.flipped and judging.on_flip is not None:
            yield Fact(label="If orders disagree", text=judging.on_flip)
        if judging.fallback is not None:
            yield Fact(label="Fallback", text=judging.fallback)
        called = {side.stance: side.name for side in self.speakers}
        if (odds := log_odds_of(judging, called if len(called) == len(self.speakers) else None)) is not None:
            yield Fact(label="Log-odds", text=odds)

    def rounds(self) -> Iterable[int]:
        spoken_rounds = {entry.round for entry in self.raw.transcript}
        return sorted(spoken_rounds.union(decision.round for decision in self.raw.moderator_decisions))

    def opening(self, number: int) -> Iterator[Section]:
        yield from (reader_asks(question.text) for question in self.raw.reader_questions if question.round == number)
        yield from (decision_group(decision) for decision in self.raw.moderator_decisions if decision.round == number)

    def result(self) -> Iterator[Section]:
        """List the missing participants if there is no verdict.

        If there is one, they are listed above it instead; see `outcome`.
        """
        if self.raw.verdict is None:
            yield from self.mark()

    def outcome(self) -> Iterator[Section]:
        yield from self.mark()
        if self.raw.verdict is not None:
            reversed_verdict = None if self.raw.mirrored is None else self.raw.mirrored.verdict
            orders = (("In this order", self.raw.first_verdict), ("Reversed", reversed_verdict))
            parts = [(order, winner_of(verdict, self.speakers)) for order, verdict in orders if verdict is not None]
            called = {side.stance: side.name for side in self.speakers}
            for vote in self.raw.audience:
                votes = dict.fromkeys((vote.before, vote.after))
                labels = ("no vote" if stance is None else _called(stance, called) for stance in votes)
                parts.append((vote.voter[:1].upper() + vote.voter[1:], " → ".join(labels)))
            facts = (Fact(label=label, text=text, tone="dim", short=True) for label, text in parts)
            yield verdict_card(self.raw.verdict, self.speakers, *facts)
        if self.output is not None:
            yield Output(value=self.output)


def reader_asks(question: str) -> Group:
    """Build the group for the reader's question that a continued debate answers."""
    return Group(label="A reader asks", text=question, opens=True)


def mirror_heading() -> Heading:
    """Build the heading for the mirrored debate."""
    return Heading(title="The debate again, with the speaking order reversed")


def winner_of(verdict: DebateVerdict, sides: Sequence[Side | Debater]) -> str:
    """Return the winner's name and stance, or the reason why nobody won.

    >>> from flowdebate.patterns.debate.schemas import DebateVerdict
    >>> winner_of(DebateVerdict(verdict="v", winner="cap rents", reasoning="r"), [Side(name="a", stance="cap rents")])
    'a (cap rents)'
    """
    if verdict.winner is not None:
        names = ", ".join(side.name for side in sides if side.stance == verdict.winner)
        return f"{names} ({verdict.winner})" if names else verdict.winner
    if verdict.unknown_winner is not None:
        return f"none; the judge named {verdict.unknown_winner!r}, which is not a position"
    if verdict.verdict == NOBODY_MOVED and verdict.judging is None:
        return "none (no side moved more of the audience)"
    judging = verdict.judging
    if judging is not None and judging.answer is not None and judging.on_flip in {None, "average"}:
        return "none (no side is clearly ahead)"
    if judging is None or len(judging.ballots) < 2:  # noqa: PLR2004 - a judge that was asked once
        return "none (the answer combines several positions)"
    return {"abstain": "none (the judge abstained)", "tie": "none (tie)"}.get(judging.on_flip or "tie", "none")


def ballots_of(judging: Judging, called: Mapping[str, str] | None = None) -> str | None:
    """Summarize the ballots in one line; return None for a single ballot.

    `called` maps stances to display names.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
    >>> both = [JudgeBallot(order=["a", "b"], winner="a"), JudgeBallot(order=["b", "a"], winner="b")]
    >>> ballots_of(Judging(schedule="swap", ballots=both, planned=2, scores={"a": 0.5, "b": 0.5}, flipped=True))
    '2 (swap), which disagree: a 0.50, b 0.50'
    """
    if judging.planned == 1 and judging.answer is None:
        return None
    unusable = sum(ballot.problem is not None for ballot in judging.ballots)
    notes = [judging.schedule]
    notes += ["by letter"] * (judging.answer is not None)
    notes += [f"{unusable} could not be used"] * bool(unusable)
    notes += [f"{judging.saved} saved"] * bool(judging.saved)
    shares = ", ".join(f"{_called(side, called)} {share:.2f}" for side, share in judging.scores.items())
    flipped = ", which disagree" if judging.flipped else ""
    return f"{len(judging.ballots)} ({', '.join(notes)}){flipped}: {shares}"


def rubric_of(judging: Judging, called: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the mean score for each criterion across all ballots, or an empty dict if there is no rubric.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
    >>> ballot = JudgeBallot(order=["a", "b"], criteria={"a": {"clear": 80}, "b": {"clear": 35}})
    >>> rubric_of(Judging(ballots=[ballot], scores={"a": 0.7, "b": 0.3}))
    {'clear': 'a 80, b 35'}
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for ballot in judging.ballots:
        criteria = {} if ballot.criteria is None or ballot.problem is not None else ballot.criteria
        for side in judging.scores:  # keep the same order for every ballot
            for name, score in criteria.get(side, {}).items():
                scores.setdefault(name, {}).setdefault(side, []).append(score)
    return {
        name: ", ".join(f"{_called(side, called)} {fmean(side_scores):.0f}" for side, side_scores in by.items())
        for name, by in scores.items()
    }


def log_odds_of(judging: Judging, called: Mapping[str, str] | None = None) -> str | None:
    """Summarize the log-odds of letter ballots in one line, noting which side was shown first.

    Returns None for other ballots.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
    >>> ballot = JudgeBallot(order=["a", "b"], log_odds={"a": 0.284, "b": -0.284}, mass=0.3)
    >>> log_odds_of(Judging(answer="letter", ballots=[ballot], scores={"a": 0.64, "b": 0.36}))
    'a first: a +0.28, b -0.28 (the letters had 30% of the probability)'
    """
    panel = len({ballot.model for ballot in judging.ballots}) > 1
    bars = []
    for ballot in judging.ballots:
        if ballot.log_odds is not None:
            who = f"{ballot.model}, " if panel and ballot.model else ""
            values = ballot.log_odds.items()
            # adding 0.0 turns -0.0 into 0.0, which is formatted without a minus sign
            odds = ", ".join(f"{_called(side, called)} {round(value, 2) + 0.0:+.2f}" for side, value in values)
            low = ballot.mass is not None and ballot.mass < _LOW_MASS
            mass = f" (the letters had {ballot.mass:.0%} of the probability)" if low else ""
            bars.append(f"{who}{_called(ballot.order[0], called)} first: {odds}{mass}")
    more = [f"and {len(bars) - _MAX_BALLOTS} more"] * (len(bars) > _MAX_BALLOTS)
    return "; ".join([*bars[:_MAX_BALLOTS], *more]) or None


_MAX_BALLOTS = 8
_LOW_MASS = 0.5


def _called(side: str, called: Mapping[str, str] | None) -> str:
    return side if called is None else called.get(side, side)


def decision_group(decision: DebateModeratorDecision) -> Group:
    """Build the group for one of the moderator's decisions."""
    added = f"{', '.join(decision.added)}, as their side has to be heard" if decision.added else ""
    facts = (
        Fact(label="Left out because", text=decision.reason or "", tone="dim"),
        Fact(label="Added", text=added, tone="dim"),
        Fact(label="Briefing", text=decision.briefing or "", tone="dim", apart="paragraphs"),
        Fact(label="Angle", text=decision.new_angle or "", tone="dim", apart="heading"),
    )
    return Group(
        label="Moderator calls on",
        text=", ".join(decision.next_speakers) or "nobody",
        facts=tuple(fact for fact in facts if fact.text),
        remark="This round is the last." if decision.done else None,
        opens=True,
    )


def verdict_card(verdict: DebateVerdict, sides: Sequence[Side | Debater], *more: Fact) -> Card:
    """Build the card for the verdict: its winner, reasoning and ballots, followed by any additional facts in `more`."""
    facts = [
        Fact(label="Winner", text=winner_of(verdict, sides), tone="good", short=True),
        Fact(label="Verdict", text=verdict.verdict),
        Fact(label="Reasoning", text=verdict.reasoning),
    ]
    if (judging := verdict.judging) is not None:
        called = {side.stance: side.name for side in sides}
        # if several debaters share a stance, show stances instead of names
        called = called if len(called) == len(sides) else {}
        effect = order_effect(judging)
        if effect is not None and effect not in verdict.verdict:
            facts.append(Fact(label="Order", text=effect, tone="warning", short=True))
        dim = (
            ("Ballots", ballots_of(judging, called)),
            *((f"Criterion “{name}”", scores) for name, scores in rubric_of(judging, called).items()),
            ("Log-odds", log_odds_of(judging, called)),
            ("Fallback", judging.fallback),
        )
        facts += [
            Fact(label=label, text=text, tone="dim", short=label != "Log-odds")
            for label, text in dim
            if text is not None
        ]
    won = [side.name for side in sides if side.stance == verdict.winner]
    return Card(
        title="Verdict",
        facts=(*facts, *more),
        lead="Verdict",
        winner=won[0] if len(won) == 1 else None,
        ballots=_ballots(verdict.judging, sides),
    )


def _ballots(judging: Judging | None, sides: Sequence[Side | Debater]) -> Ballots | None:
    """Build the table of the shares given by each usable ballot.

    Returns None if there are no usable ballots or if several sides share a stance.
    """
    names = {side.stance: side.name for side in sides}
    if judging is None or not judging.ballots or len(names) != len(sides):
        return None
    usable = [ballot for ballot in judging.ballots if ballot.problem is None and names.keys() == set(ballot.order)]
    if not usable:
        return None
    models = {ballot.model for ballot in usable}
    return Ballots(
        sides=tuple(names.values()),
        rows=tuple(
            Shares(
                order=tuple(names[side] for side in ballot.order),
                values=tuple(ballot.shares.get(side, 0.0) for side in names),
                model=ballot.model if len(models) > 1 else None,
            )
            for ballot in usable
        ),
        total=tuple(judging.scores.get(side, 0.0) for side in names),
        remark=_how_read(judging, usable, len(models)),
        are_votes=all(ballot.scores is None for ballot in usable),
    )


def _how_read(judging: Judging, usable: Sequence[JudgeBallot], models: int) -> str:
    orders = len({tuple(ballot.order) for ballot in usable})
    who = f"{models} models read the debate" if models > 1 else "The judge read the debate"
    times = {1: "once", 2: "twice"}.get(len(usable), f"{len(usable)} times")
    how = f", in {orders} orders" if orders > 1 else ""
    if orders == len(usable) > 1:
        how = ", each time in another order"
    sentences = [f"{who} {times}{how}."]
    if orders > 1:
        sentences.append(order_effect(judging) or "The winner was the same in every order.")
    if unusable := len(judging.ballots) - len(usable):
        sentences.append(f"{unusable} {'answer' if unusable == 1 else 'answers'} could not be used.")
    if judging.saved:
        sentences.append(f"{judging.saved} more were skipped, as they could not have changed the winner.")
    return " ".join(sentences)


# Notes on fairness


def notes_on(raw: DebateRawOutput, usage: Tokens | None) -> list[str]:
    """List notes about baselines and hidden names."""
    notes = []
    if raw.leaks is not None:
        names = ", ".join(dict.fromkeys(leak.meant for leak in raw.leaks.leaks))
        notes.append(f"Names in arguments that were hidden from debaters and judge: {raw.leaks.count} ({names})")
    if raw.baselines is not None and raw.verdict is not None and usage is not None:
        is_counted = usage.prompt_tokens is not None and usage.completion_tokens is not None
        tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) if is_counted else None
        notes.append(change_summary(benefit_item(raw, baselines=raw.baselines, calls=usage.calls, tokens=tokens)))
    return notes
