"""What is told at the end of a debate about how fairly it was judged: quotes, hidden names, baselines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdebate.patterns.debate.schemas import DebateRawOutput
    from flowdebate.service.documents import Tokens

__all__ = ("notes_on",)


def notes_on(raw: DebateRawOutput, usage: Tokens | None) -> list[str]:
    """A line for each thing that there is to tell.

    >>> from flowdebate.patterns.debate.schemas import DebateRawOutput
    >>> notes_on(DebateRawOutput(rounds=1, question="Q?", transcript=[], verdict=None, quotes=[]), None)
    ['Quotes: none']
    """
    return [line for line in (_quotes(raw), _names(raw), _baselines(raw, usage)) if line is not None]


def _quotes(raw: DebateRawOutput) -> str | None:
    if raw.quotes is None:
        return None
    counted = Counter(quote.status for quotes in raw.quotes for quote in quotes)
    found, missing = counted["verified"], counted["unverified"]
    return f"Quotes: {found} verified, {missing} not found in the sources" if found or missing else "Quotes: none"


def _names(raw: DebateRawOutput) -> str | None:
    if raw.leaks is None:
        return None
    named = ", ".join(dict.fromkeys(leak.meant for leak in raw.leaks.leaks))
    return f"Names in arguments that were hidden from debaters and judge: {raw.leaks.count} ({named})"


def _baselines(raw: DebateRawOutput, usage: Tokens | None) -> str | None:
    if raw.baselines is None or raw.verdict is None or usage is None:
        return None
    from flowdebate.evaluation.benefit.comparison import benefit_item
    from flowdebate.evaluation.benefit.report import change_summary

    known = usage.prompt_tokens is not None and usage.completion_tokens is not None
    tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) if known else None
    return change_summary(benefit_item(raw, baselines=raw.baselines, calls=usage.calls, tokens=tokens))
