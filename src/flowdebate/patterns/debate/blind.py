"""Blind reading: a debate as a judge reads it, without names, in one of the judge's orders."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

from flowdebate.patterns.anonymity.aliases import make_aliases
from flowdebate.patterns.debate.judging.prompt import in_view
from flowdebate.patterns.debate.judging.schedules import JudgeView, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.patterns.anonymity.aliases import Aliases
    from flowdebate.patterns.debate.schemas import DebateContributionEntry, DebateRawOutput
    from flowdebate.patterns.state import Flag


_VIEWS = Schedule(kind="cyclic")
"""Each side is in each place of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindTurn:
    """A contribution, of a side that is known by its letter."""

    label: str
    text: str
    flag: Flag | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindRound:
    """The contributions of a round, in the order of the view."""

    title: str
    turns: tuple[BlindTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindReading:
    """A debate as a reader reads it who does not know who spoke."""

    question: str
    sides: tuple[tuple[str, str], ...]
    """The letter and the stance of each side, in the order in which they are read."""
    rounds: tuple[BlindRound, ...]

    @property
    def order(self) -> list[str]:
        """The sides in the order in which they are read."""
        return [stance for _, stance in self.sides]

    @classmethod
    def of(
        cls, raw: DebateRawOutput, *, view: int, names: Sequence[str] = (), models: Sequence[str] = ()
    ) -> BlindReading:
        """One of the `blind_views` of a debate, in which `names` and `models` are replaced by aliases."""
        views = blind_views(raw)
        shown = views[view % len(views)]
        spoke = dict.fromkeys([*names, *(entry.agent_name for entry in raw.transcript)])
        aliases = make_aliases(
            spoke,
            models=[model for model in models if "/" in model],
            question=raw.question,
            stances=shown.order,
            random=Random(f"{raw.seed}:reader"),  # noqa: S311 - every reader reads the same
        )
        later = [] if raw.mirrored is None else list(_rounds(raw.mirrored, shown, aliases, ", speakers reversed"))
        return cls(
            question=raw.question,
            sides=tuple((shown.named(side), side) for side in shown.order),
            rounds=(*_rounds(raw, shown, aliases, ""), *later),
        )


def blind_views(raw: DebateRawOutput) -> tuple[JudgeView, ...]:
    """The orders in which a debate can be read; the side that is read first is A. None for a single side."""
    sides = list(dict.fromkeys(entry.stance for entry in raw.transcript))
    if len(sides) < 2:  # noqa: PLR2004 - nothing to choose from
        return ()
    orders = [view.order for view in _VIEWS.views(sides, shuffle=False)]
    return tuple(JudgeView(order=order, labels=dict(zip(order, _letters(), strict=False))) for order in orders)


def _letters() -> Iterator[str]:
    """Side A, Side B and so on; behind the last letter, numbers."""
    number = 0
    while True:
        yield f"Side {chr(ord('A') + number % 26)}{number // 26 or ''}"
        number += 1


def _rounds(raw: DebateRawOutput, view: JudgeView, aliases: Aliases, more: str) -> Iterator[BlindRound]:
    known = [entry for entry in raw.transcript if entry.stance in view.order]
    ordered = [known[index] for index in in_view(known, view)]
    for number, entries in groupby(ordered, key=lambda entry: entry.round):
        yield BlindRound(title=f"Round {number}{more}", turns=tuple(_turn(entry, view, aliases) for entry in entries))


def _turn(entry: DebateContributionEntry, view: JudgeView, aliases: Aliases) -> BlindTurn:
    return BlindTurn(label=view.named(entry.stance), text=aliases.hide(entry.text).text, flag=entry.flag)
