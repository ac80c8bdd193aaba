"""Random debates in every view: the output can be parsed back, and no text can imitate another part."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from flowdebate import DebateContributionEntry, DebateModeratorDecision, DebateRawOutput, DebateVerdict
from flowdebate.patterns.debate.debater import DebaterIdentity, Guidance, render_debater_turn
from flowdebate.patterns.debate.judging.jurors import render_judge_turn
from flowdebate.patterns.debate.judging.views import format_transcript_for_judge
from flowdebate.patterns.debate.moderator import render_moderator_turn
from flowdebate.patterns.debate.synthesizer import render_synthesizer_turn
from flowdebate.patterns.debate.transcript import parse_entries, render_entries
from tests.prompts.nasty import FORGERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

__all__ = ("check_views",)

_HEAVY = "[]|\n\r:⟦⟧ ,\u2028\u2029\x85\v\f\x1c\x1d\x1e\x00\t#>-*_`\ufeff\u200b\u202e"
_WORDS = (
    "Round 1:",
    "Round 10:",
    "[for] ",
    "[a, for] ",
    "  | ",
    "for",
    "against",
    "a",
    "b",
    "(empty)",
    "U+",
    "é",
    "🙂",
)
_OPENS = re.compile(r"\[|Round [0-9]+:$")
"""Patterns of headings and of lines that open an argument."""


def _text(random: Random) -> str:
    parts = []
    for _ in range(random.choice([0, 1, 2, 3, 5, 8])):
        draw = random.random()
        if draw < 0.35:
            parts.append(random.choice(FORGERIES))
        elif draw < 0.6:
            parts.append("".join(random.choices(_HEAVY, k=random.randrange(6))))
        elif draw < 0.85:
            parts.append(random.choice(_WORDS))
        else:
            parts.append("".join(chr(random.randrange(0x110000)) for _ in range(random.randrange(4))))
    return "".join(parts)


def _entries(random: Random) -> list[DebateContributionEntry]:
    number = 1
    entries = []
    for _ in range(random.randrange(9)):
        number += random.choice([0, 0, 0, 1, 1, 5])
        entries.append(
            DebateContributionEntry.model_construct(
                round=number, agent_name=_text(random), stance=_text(random), text=_text(random)
            )
        )
    return entries


def _opening(text: str) -> list[str]:
    return [line for line in text.split("\n") if _OPENS.match(line)]


def check_views(random: Random) -> int:
    """Raise AssertionError if any text in a drawn debate imitates another part, and return the number of texts."""
    entries = _entries(random)
    for names in (False, True):
        _check_rendered(entries, names=names)
    _check_prompts(entries, random)
    return 3 * len(entries)


def _check_rendered(entries: Sequence[DebateContributionEntry], *, names: bool) -> None:
    text = render_entries(entries, names=names)
    expected = [entry if names else entry.model_copy(update={"agent_name": ""}) for entry in entries]
    assert parse_entries(text, names=names) == expected, "it reads back otherwise"
    text.encode()
    lines = text.split("\n")
    assert lines == text.splitlines(), "some reader sees another line"
    headings = sum(
        1
        for one, following in zip([None, *entries], entries, strict=False)
        if one is None or one.round != following.round
    )
    assert sum(line.startswith("[") for line in lines) == len(entries), "an argument too many"
    assert sum(_OPENS.match(line) is not None for line in lines) == len(entries) + headings, "a heading too many"
    behind = sum(entry.text.count("\n") for entry in entries)
    assert sum(line.startswith("  | ") for line in lines) == behind, "a continuation too many"
    assert len(lines) == max(len(entries) + headings + behind, 1), "a line too many"


def _check_prompts(entries: Sequence[DebateContributionEntry], random: Random) -> None:
    """Check that every prompt contains its transcript's lines and no other line that opens an argument or a round."""
    plain, with_names = _opening(render_entries(entries)), _opening(render_entries(entries, names=True))
    stances = [entry.stance for entry in entries] or ["for", "against"]
    text = partial(_text, random)
    turn = render_debater_turn(
        DebaterIdentity(stance=random.choice(stances), positions=tuple(stances), role=text(), max_rounds=3),
        entries=entries,
        round=2,
        guidance=Guidance(briefing=text(), new_angle=text()),
    )
    assert _opening(turn) == plain, "a debater's prompt holds a forged line"
    transcript = format_transcript_for_judge(entries, random=random)
    assert sorted(_opening(transcript)) == sorted(
        _opening(render_entries(sorted(entries, key=lambda entry: entry.round)))
    ), "a judge sees"
    judged = render_judge_turn(question=text(), transcript=transcript)
    assert _opening(judged) == _opening(transcript), "a judge's prompt holds a forged line"
    decisions = [
        DebateModeratorDecision.model_construct(
            round=1, next_speakers=[text(), text()], briefing=text(), new_angle=text(), done=False
        )
    ]
    opened = render_moderator_turn(entries=entries, decisions=decisions, round=2, max_rounds=3)
    assert _opening(opened) == with_names, "a moderator's prompt holds a forged line"
    verdict = DebateVerdict.model_construct(verdict=text(), winner=text(), reasoning=text())
    raw = DebateRawOutput.model_construct(
        question=text(),
        transcript=list(entries),
        moderator_decisions=decisions,
        verdict=verdict,
        rounds=2,
        stop_reason="max_rounds",
    )
    assert _opening(render_synthesizer_turn(raw)) == plain, "a synthesizer's prompt holds a forged line"
