"""Judge that answers with one letter; its scores are the probabilities of the letters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flowdebate.errors import MalformedResponse
from flowdebate.models.base import ModelResponse
from flowdebate.models.local.server import running_server
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flowdebate.models.base import ModelRequest

__all__ = ("LetterModel", "shares_in")

MOST = 1_000
"""Tokens that are told, the likeliest first: with twenty of them a letter that a small model shuns is not there."""


class LetterModel:
    """The engine of a `LocalModel`, asked for one token with its log-probabilities; None is the model "local"."""

    def __init__(self, path: Path | None, *, letters: tuple[str, ...]) -> None:
        self.name = f"{'local' if path is None else path.stem}, by letter"
        self._path = path
        self._letters = letters

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Scores from 0 to 100; MalformedResponse where no letter is among the likeliest tokens."""
        from openai import AsyncOpenAI

        endpoint = await running_server(self._path).endpoint()
        async with AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key) as client:
            messages: Any = list(request.messages)
            answer = await client.chat.completions.create(
                model="local", messages=messages, max_tokens=1, temperature=0, logprobs=True, top_logprobs=MOST
            )
        told = answer.choices[0].logprobs
        tokens = [] if told is None or not told.content else told.content[0].top_logprobs
        shares = shares_in(((token.token, token.logprob) for token in tokens), self._letters)
        if not any(shares.values()):
            raise MalformedResponse("no letter is among the likeliest tokens", model=self.name, block=request.block)
        usage = Usage(calls=1, prompt_tokens=None, cached_tokens=None, completion_tokens=1)
        return ModelResponse(data={"scores": {name: 100 * share for name, share in shares.items()}}, usage=usage)


def shares_in(tokens: Iterable[tuple[str, float]], letters: tuple[str, ...]) -> dict[str, float]:
    """What each letter has of the probability of all of them; 0 for all where none is there.

    >>> shares_in([(" A", -1.0), ("B", -1.0), ("The", -0.1)], ("A", "B"))
    {'A': 0.5, 'B': 0.5}
    """
    found = dict.fromkeys(letters, 0.0)
    for token, logprob in tokens:
        if token.strip() in found:
            found[token.strip()] += math.exp(logprob)
    whole = sum(found.values())
    return {letter: share / whole if whole else 0.0 for letter, share in found.items()}
