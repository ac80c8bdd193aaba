"""Usage: counts of calls and tokens."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = (
    "Usage",
    "estimated_tokens",
)

_CHARACTERS = 4
"""Characters of a token, approximately."""


def estimated_tokens(characters: int) -> int:
    """Estimate the tokens of a text of `characters` length, for servers that report none.

    >>> estimated_tokens(400)
    100
    """
    return characters // _CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Calls and tokens of one or many calls; None means unknown, which is not 0.

    >>> Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=2) + Usage(calls=1)
    Usage(calls=2, prompt_tokens=None, cached_tokens=None, completion_tokens=None)
    """

    calls: int = 0
    prompt_tokens: int | None = None
    """Prompt tokens, cached ones included."""
    cached_tokens: int | None = None
    """Prompt tokens that the server took from its cache."""
    completion_tokens: int | None = None

    @classmethod
    def unknown(cls) -> Usage:
        """Return the usage of one call whose server reports no tokens."""
        return _UNKNOWN

    @classmethod
    def none(cls) -> Usage:
        """Return the usage of no call."""
        return _NONE

    @property
    def total_tokens(self) -> int | None:
        """Prompt and completion tokens together."""
        return _sum(self.prompt_tokens, self.completion_tokens)

    def __add__(self, other: Usage) -> Usage:
        """Add two usages; a part that is unknown on either side is unknown."""
        if not self.calls:
            return other
        if not other.calls:
            return self
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=_sum(self.prompt_tokens, other.prompt_tokens),
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            completion_tokens=_sum(self.completion_tokens, other.completion_tokens),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


_NONE = Usage(calls=0, prompt_tokens=0, cached_tokens=0, completion_tokens=0)
_UNKNOWN = Usage(calls=1)
