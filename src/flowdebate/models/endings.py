"""Finish reasons, normalized across providers.

No list of reasons is complete, so reasons are classified by the words they contain, regardless of case and separators:
`MAX_TOKENS`, `maxPredictedTokensReached` and `model_context_window_exceeded` all mean that the answer was truncated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from flowdebate._text import one_line
from flowdebate.errors import ContentFiltered, ProviderFailed
from flowdebate.models.base import FinishReason, Flag

Ending = Literal["stop", "tool_calls", "length", "filtered", "failed", "missing", "unknown"]
"""Meaning of a finish reason: the answer is complete, calls tools, reached a length or time limit, was stopped by a
filter, or failed partway; or the reason is missing or unknown.
"""

_FILTERED = (
    r"filter|safe|block(ed|list|ing)?\b|black ?list|prohibit|forbidden|disallow|recit|\bs?pii\b|sensitiv|moderat"
    r"|guard|refus|declin|reject|polic|violat|complian|toxic|harm|flagged|censor|copyright|armou?r|shield"
    r"|inspection|\brisk|illegal|inappropriate|offensive|nsfw|abus|jailbreak|profan|hate|sexual|violen|privacy"
)
_THROTTLED = r"\brate\b|quota|throttl"
_LENGTH = (
    r"\blen(gth)?\b|\bmax|limit|truncat|context|window|overflow|\bcut\b|cutoff|out of|too (long|large|many token)"
    r"|budget|exhausted|partial|incomplete|unfinished|not finished|time ?(d )?out|deadline|\btime\b|exceed"
    r"|tokens? reached"
)
_FAILED = (
    r"error|fail|abort|cancel|interrupt|terminated|unload|resource|network|overload|crash|disconnect|shut ?down"
    r"|preempt|kill|unavailable|exception|user stopped"
)
_STOP = (
    r"stop(ped)?( (sequence|token|word|string|criteria|phrase))?( (found|reached|hit|matched))?|eo[stmd]|end"
    r"|(eos|eot|end)( of)?( the)?( (text|turn|token|stream|sequence|message|answer|string))?( id)?( found)?"
    r"|completed?|completion|done|final|finish(ed)?|success(ful(ly)?)?|succeed(ed)?|normal|natural|word|ok"
    r"|sequence|endof(text|turn|sequence)"
)
# The first match wins, so order matters: a reason with the word "error" may come from a filter, and one with "limit"
# may concern the answer or the number of requests.
_MEANINGS: tuple[tuple[Ending, re.Pattern[str]], ...] = (
    ("missing", re.compile(r"\A(null|none|nil|undefined|unspecified|n a)?\Z")),
    ("filtered", re.compile(_FILTERED)),
    ("failed", re.compile(_THROTTLED)),
    ("length", re.compile(_LENGTH)),
    ("failed", re.compile(_FAILED)),
    ("tool_calls", re.compile(r"\A((tool|function)s?( ?(calls?|use))?|calls?)\Z")),
    ("stop", re.compile(rf"\A({_STOP})\Z")),
)
_FILLERS = re.compile(r"\b((finish|stop|end|done|complete|completion) (reason|status)|alternative|status|reason)\b")


@lru_cache(maxsize=1_000)
def _parse_ending(reason: str) -> Ending:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason[:200])
    words = " ".join(re.findall(r"[^\W_]+", words)).lower()
    words = " ".join(_FILLERS.sub(" ", words).split())
    return next((ending for ending, pattern in _MEANINGS if pattern.search(words)), "unknown")


def ending_of(reason: object) -> Ending:
    """Classify a server's finish reason.

    >>> [ending_of(reason) for reason in ("end_turn", "MAX_TOKENS", "prohibited_content", "sparkle", None)]
    ['stop', 'length', 'filtered', 'unknown', 'missing']
    """
    if isinstance(reason, Mapping):  # some servers send an object instead of a word
        reason = reason.get("type", reason.get("reason"))
    if reason is None or isinstance(reason, str):
        return _parse_ending(reason or "")
    return "unknown"


class Finish(NamedTuple):
    """Normalized finish reason of a usable answer, and any flags."""

    reason: FinishReason
    flags: tuple[Flag, ...]


def read_finish(reason: object, *, calls: bool, spent: bool = False) -> Finish:
    """Determine how an answer ended; `calls` is True if it contains tool calls.

    If the reason is missing or unknown, an answer counts as truncated if it `spent` its entire token limit, and as
    complete otherwise.

    Raises ContentFiltered if a filter stopped the answer, and ProviderFailed if the server failed partway.
    """
    ending = ending_of(reason)
    if ending == "filtered":
        raise ContentFiltered(f"the provider's content filter stopped the answer{_named(reason)}")
    if ending == "failed":
        raise ProviderFailed(f"the endpoint failed while answering{_named(reason)}")
    if ending == "length" or (spent and ending in ("missing", "unknown")):
        return Finish("length", ())
    return Finish("tool_calls" if calls else "stop", ("unknown_finish",) if ending == "unknown" else ())


def _named(reason: object) -> str:
    """Format a finish reason for an error message; return "" for the standard reasons, since they add nothing."""
    plain = isinstance(reason, str) and reason not in ("content_filter", "error")
    return f" ({one_line(str(reason)[:100])})" if plain else ""
