"""Known prices of models, in dollars, from `genai-prices` where it is installed (the extra `prices`)."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flowdebate.models.resolve import PROVIDERS

if TYPE_CHECKING:
    from flowdebate.models.base import Usage


_VENDORS = {"gemini": "google", "xai": "x-ai"}  # others are called the same there
HOW = 'pip install "flowdebate[prices]"'


@lru_cache(maxsize=1)
def prices_known() -> bool:
    """Return whether there are known prices at all: whether `genai-prices` is installed."""
    return find_spec("genai_prices") is not None


def prices_source() -> str | None:
    """Return where known prices come from, with its version, which dates them; None without any."""
    return f"genai-prices {version('genai-prices')}" if prices_known() else None


def known_price(model: str, usage: Usage) -> float | None:
    """Return the cost of `usage` of a model in dollars, as of today; None where no price is known.

    Tokens that were read from a cache, or written into one, have the provider's prices for that; thinking has that of
    the answer. Models of this machine are free. The first call imports the prices, which takes half a second.
    """
    provider, _, name = model.partition("/")
    about = PROVIDERS.get(provider)
    if model == "local" or (about is not None and name and about.key_env is None):
        return 0.0
    if about is None or not name or not prices_known():
        return None
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    prompt = usage.prompt_tokens or 0
    read = min(usage.cached_tokens or 0, prompt)
    counts = Counts(
        input_tokens=prompt,
        cache_read_tokens=read,
        cache_write_tokens=min(usage.cache_written_tokens or 0, prompt - read),
        output_tokens=usage.completion_tokens or 0,
    )
    try:
        return float(calc_price(counts, name, provider_id=_VENDORS.get(provider, provider)).total_price)
    except (LookupError, ValueError):
        return None
