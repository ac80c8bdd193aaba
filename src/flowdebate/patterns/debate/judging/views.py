"""Views of a transcript: the orders and labels shown to a judge, their schedules, and a blind view for readers.

A judge that favors a slot or a label also favors a side if it sees only one view. If every side occupies every slot
once, the bias favors all sides equally and cancels out when the scores are averaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations
from random import Random
from typing import Literal, TypeAlias, get_args

from flowdebate._text import join_choices
from flowdebate._util.validation import check_count
from flowdebate.chassis.anonymity.aliases import Aliases, make_aliases
from flowdebate.chassis.state import Flag
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.schemas import DebateContributionEntry, DebateRawOutput
from flowdebate.patterns.debate.transcript import render_entries

ScheduleKind = Literal["single", "swap", "cyclic", "full", "sampled"]
ScheduleLike: TypeAlias = "Schedule | str"
"""A schedule or its name: "single", "swap", "cyclic", "full", or, for example, "sampled(5)"."""

NAMES = '"single", "swap", "cyclic", "full" or "sampled(n)"'
_MAX_SAMPLES = 1_000
"""Maximum number of sampled views; each view requires a call, and all views are drawn before the first call."""
FULL_AT_MOST = 4  # maximum number of sides; with five, there would already be 120 calls


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeView:
    """One way to show a transcript to a judge: the order of the sides, and their labels, if any."""

    order: tuple[str, ...]
    """Sides in slot order: in each round, the first side's arguments come first."""
    labels: Mapping[str, str] | None = None
    """Each side's label, or None if sides are identified by their stances."""

    def named(self, side: str) -> str:
        """Return the label of `side`, or its stance if it has no label."""
        return side if self.labels is None else self.labels[side]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Set of views shown to a judge; each view takes one call.

    - "single": one random order.
    - "swap": one order and its reverse; sufficient for two sides.
    - "cyclic": as many orders as there are sides, forming a Latin square: each side occupies each slot once, so that a
      bias toward a slot benefits all sides equally.
    - "full": every order, for at most four sides.
    - "sampled(n)": n random orders, which reduce noise, but cancel bias only on average.
    """

    kind: ScheduleKind = "single"
    size: int | None = None
    """Number of orders in a sampled schedule."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ScheduleKind):
            raise ConfigurationError("schedule", "kind", self.kind, choices=get_args(ScheduleKind))
        drawn = self.size
        if self.kind != "sampled":
            if drawn is not None:
                raise ConfigurationError(
                    f"schedule {self.kind!r}", "size", None, "cannot be set: only a sampled schedule has a size"
                )
        else:
            check_count("schedule 'sampled'", maximum=_MAX_SAMPLES, size=drawn)

    def __str__(self) -> str:
        return self.kind if self.size is None else f"{self.kind}({self.size})"

    def calls(self, sides: int) -> int:
        """Return the number of views for `sides` sides; raise ConfigurationError if there are too many sides."""
        if self.kind == "full" and sides > FULL_AT_MOST:
            raise ConfigurationError(
                "schedule 'full'",
                "sides",
                sides,
                f"must have at most {FULL_AT_MOST} entries; use a cyclic schedule for more",
            )
        sizes = {"single": 1, "swap": min(2, sides), "cyclic": sides, "full": math.factorial(min(sides, FULL_AT_MOST))}
        return self.size if self.size is not None else sizes[self.kind]

    def views(
        self,
        sides: Sequence[str],
        *,
        random: Random | None = None,
        shuffle: bool = True,
        labels: Sequence[str] | None = None,
    ) -> tuple[JudgeView, ...]:
        """Draw the views of `sides` using `random`, by default `Random(0)`.

        Without `shuffle`, the first view follows the order of `sides`. `labels`, one for each side, rotate relative to
        the slots from view to view: over as many views as there are sides, each side gets each label once.

        >>> [view.order for view in Schedule(kind="cyclic").views(["a", "b", "c"], shuffle=False)]
        [('a', 'b', 'c'), ('b', 'c', 'a'), ('c', 'a', 'b')]
        """
        if len(set(sides)) != len(sides) or not sides:
            raise ConfigurationError(
                f"schedule {str(self)!r}", "sides", sides, "must not be empty, and must not contain duplicates"
            )
        if labels is not None and len(set(labels)) < max(len(sides), len(labels)):
            raise ConfigurationError(
                f"schedule {str(self)!r}", "labels", labels, f"must be {len(sides)} distinct labels, one per side"
            )
        count, source = self.calls(len(sides)), Random(0) if random is None else random  # noqa: S311 - repeatable
        slots = list(sides)
        if self.kind == "sampled":
            orders = [tuple(source.sample(slots, len(slots))) for _ in range(count)]
        else:
            if shuffle:
                source.shuffle(slots)
            if self.kind == "full":
                orders = list(permutations(slots))
            elif self.kind == "swap":
                orders = [tuple(slots), tuple(reversed(slots))][:count]
            else:
                orders = [tuple(slots[view:] + slots[:view]) for view in range(count)]
        if labels is None:
            return tuple(JudgeView(order=order) for order in orders)
        called = list(sides)
        if shuffle:
            source.shuffle(called)
        return tuple(
            JudgeView(order=order, labels={side: labels[(at + view) % len(called)] for at, side in enumerate(called)})
            for view, order in enumerate(orders)
        )


def sampled(n: int) -> Schedule:
    """Create a schedule of `n` random orders; raise ConfigurationError if `n` is below one."""
    return Schedule(kind="sampled", size=n)


def as_schedule(
    value: object, *, location: str, field: str = "schedule", problem: str = f"must be {NAMES}"
) -> Schedule:
    """Convert `value` to a schedule, or raise ConfigurationError with a list of the valid names.

    >>> as_schedule("sampled(5)", location="debate").size
    5
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        if drawn := re.fullmatch(r"sampled\(([0-9]{1,6})\)", value):
            return sampled(int(drawn[1]))
        if value in get_args(ScheduleKind) and value != "sampled":
            return Schedule(kind=value)  # type: ignore[arg-type] # it is one of them
    raise ConfigurationError(location, field, value, problem, choices=get_args(ScheduleKind))


def order_for_judge(
    entries: Sequence[DebateContributionEntry], *, shuffle: bool = True, random: Random | None = None
) -> list[int]:
    """Sort the indexes of `entries` by round.

    With `shuffle`, the entries in each round are shuffled using `random`, by default `Random(0)`.
    """
    rounds = _rounds_for_judge(entries, shuffle=shuffle, random=random)
    return [index for units in rounds for unit in units for index in unit]


def orders_for_judge(
    entries: Sequence[DebateContributionEntry], *, shuffle: bool = True, random: Random | None = None
) -> tuple[list[int], list[int]]:
    """Return the order from `order_for_judge`, followed by the same order with each round reversed.

    >>> orders_for_judge([])
    ([], [])
    """
    rounds = _rounds_for_judge(entries, shuffle=shuffle, random=random)
    first = [index for units in rounds for unit in units for index in unit]
    return first, [index for units in rounds for unit in reversed(units) for index in unit]


def _rounds_for_judge(
    entries: Sequence[DebateContributionEntry], *, shuffle: bool, random: Random | None
) -> list[list[list[int]]]:
    """Group the indexes of `entries` by round and unit; a question and its answer form one unit."""
    rounds: dict[int, list[list[int]]] = {}
    open_questions: dict[tuple[int, str, str | None], list[int]] = {}
    for index, entry in enumerate(entries):
        question = open_questions.pop((entry.round, entry.to or "", entry.agent_name), None) if entry.kind else None
        if entry.kind == "answer" and question is not None:
            question.append(index)
            continue
        rounds.setdefault(entry.round, []).append(unit := [index])
        if entry.kind == "question":
            open_questions[entry.round, entry.agent_name, entry.to] = unit
    source = Random(0) if random is None else random  # noqa: S311 - repeatable on purpose
    for number in sorted(rounds) if shuffle else ():
        source.shuffle(rounds[number])
    return [rounds[number] for number in sorted(rounds)]


def format_transcript_for_judge(
    entries: Sequence[DebateContributionEntry],
    *,
    anonymize: bool = True,
    shuffle: bool = True,
    random: Random | None = None,
) -> str:
    """Render the transcript for a judge, with a heading `Round N:` for each round.

    Arguments begin with `[stance]`, or with `[name, stance]` unless `anonymize` is set. With `shuffle`, the order
    within each round is drawn from `random` (by default, `Random(0)`). An empty transcript is rendered as `(empty)`.

    >>> format_transcript_for_judge([])
    '(empty)'
    """
    order = order_for_judge(entries, shuffle=shuffle, random=random)
    return render_entries([entries[index] for index in order], names=not anonymize)


def in_view(entries: Sequence[DebateContributionEntry], view: JudgeView) -> list[int]:
    """Sort the indexes of `entries` by round, and within each round by the slots of `view`.

    If a side has several arguments in a round, their order is kept, and an answer stays with its question. An entry
    from an unknown side raises ConfigurationError.
    """
    slots = {side: slot for slot, side in enumerate(view.order)}
    for index, entry in enumerate(entries):
        if entry.stance not in slots:
            raise ConfigurationError(
                "judge", f"entries[{index}].stance", entry.stance, f"must be {join_choices(view.order)}"
            )

    def place(index: int) -> tuple[int, int, str]:
        entry = entries[index]
        if entry.kind is None:
            return entry.round, slots[entry.stance], ""
        asker, side = (entry.agent_name, entry.stance)
        if entry.kind == "answer" and entry.to is not None and entry.to_stance in slots:
            asker, side = entry.to, entry.to_stance
        return entry.round, slots[side], asker

    return sorted(range(len(entries)), key=place)


def render_view(entries: Sequence[DebateContributionEntry], view: JudgeView, *, names: bool = False) -> str:
    """Render the transcript in the order of `view`; with `names`, tags also include the speaker's name.

    >>> render_view([], JudgeView(order=("for", "against")))
    '(empty)'
    """
    return render_entries(apply_labels([entries[index] for index in in_view(entries, view)], view), names=names)


def apply_labels(entries: Sequence[DebateContributionEntry], view: JudgeView) -> Sequence[DebateContributionEntry]:
    """Replace the stances in `entries` with the labels from `view`."""
    if view.labels is None:
        return entries
    return [
        entry.model_copy(
            update={
                "stance": view.named(entry.stance),
                **({} if entry.to_stance is None else {"to_stance": view.named(entry.to_stance)}),
            }
        )
        for entry in entries
    ]


# Blind reading


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindTurn:
    """Contribution by a side identified only by its letter."""

    label: str
    text: str
    flag: Flag | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindRound:
    """A round's contributions, in reading order."""

    title: str
    turns: tuple[BlindTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindReading:
    """A debate prepared for blind reading; it does not reveal who is speaking."""

    question: str
    sides: tuple[tuple[str, str], ...]
    """Each side's letter and stance, in reading order."""
    rounds: tuple[BlindRound, ...]

    @property
    def order(self) -> list[str]:
        """The sides in reading order."""
        return [stance for _, stance in self.sides]

    @classmethod
    def of(
        cls, raw: DebateRawOutput, *, view: int, names: Sequence[str] = (), models: Sequence[str] = ()
    ) -> BlindReading:
        """Create a reading of one of the debate's `blind_views`, replacing `names` and `models` with aliases."""
        views = blind_views(raw)
        view_shown = views[view % len(views)]
        spoke = dict.fromkeys([*names, *(entry.agent_name for entry in raw.transcript)])
        aliases = make_aliases(
            spoke,
            models=[model for model in models if "/" in model],
            question=raw.question,
            stances=view_shown.order,
            random=Random(f"{raw.seed}:reader"),  # noqa: S311 - every reader reads the same
        )
        later = [] if raw.mirrored is None else list(_rounds(raw.mirrored, view_shown, aliases, ", speakers reversed"))
        return cls(
            question=raw.question,
            sides=tuple((view_shown.named(side), side) for side in view_shown.order),
            rounds=(*_rounds(raw, view_shown, aliases, ""), *later),
        )


def blind_views(raw: DebateRawOutput) -> tuple[JudgeView, ...]:
    """Return the orders for blind readings of a debate; the first side in each order is labeled A.

    The result is empty if there is only one side.
    """
    sides = list(dict.fromkeys(entry.stance for entry in raw.transcript))
    if len(sides) < 2:  # noqa: PLR2004 - nothing to choose from
        return ()
    letters = [f"Side {chr(ord('A') + at % 26)}{at // 26 or ''}" for at in range(len(sides))]
    # cyclic, so that each side comes first in one of the orders
    orders = [view.order for view in Schedule(kind="cyclic").views(sides, shuffle=False)]
    return tuple(JudgeView(order=order, labels=dict(zip(order, letters, strict=True))) for order in orders)


def _rounds(raw: DebateRawOutput, view: JudgeView, aliases: Aliases, more: str) -> Iterator[BlindRound]:
    shown_entries = [entry for entry in raw.transcript if entry.stance in view.order]
    ordered = [shown_entries[index] for index in in_view(shown_entries, view)]
    for number, entries in groupby(ordered, key=lambda entry: entry.round):
        turns = tuple(
            BlindTurn(label=view.named(entry.stance), text=aliases.hide(entry.text).text, flag=entry.flag)
            for entry in entries
        )
        yield BlindRound(title=f"Round {number}{more}", turns=turns)
