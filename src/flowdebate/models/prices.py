"""Known model prices in US dollars, from `genai-prices` if it is installed (the `prices` extra)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec

from flowdebate.models.base import Usage
from flowdebate.models.providers import PROVIDERS

_VENDORS = {"gemini": "google", "xai": "x-ai"}  # vendors that go by different names in `genai-prices`
HOW = 'pip install "flowdebate[prices]"'
GIVEN = "by given prices"
"""Label shown instead of a currency if costs are computed with the application's own prices, whose currency
is unknown.
"""


@lru_cache(maxsize=1)
def are_prices_known() -> bool:
    """Return whether model prices are available; this requires `genai-prices`."""
    return find_spec("genai_prices") is not None


def prices_source() -> str | None:
    """Describe the source of known prices: currency, price list, version and date; return None if there is none.

    The price list itself has no date. If it was downloaded while the program was running, the download date is used;
    otherwise, the start date of its newest price is used.
    """
    if not are_prices_known():
        return None
    from genai_prices.data_snapshot import get_snapshot

    snapshot, today = get_snapshot(), datetime.now(UTC).date()
    # only prices in a list may have dates; a single price always applies
    lists = (model.prices for source in snapshot.providers for model in source.models if isinstance(model.prices, list))
    dates = (getattr(price.constraint, "start_date", None) for prices in lists for price in prices)
    days = [day for day in dates if day is not None and day <= today]
    day = snapshot.timestamp.date() if snapshot.from_auto_update else max(days, default=None)
    return f"USD by genai-prices {version('genai-prices')}" + ("" if day is None else f" of {day}")


def known_price(model: str, usage: Usage) -> float | None:
    """Return the cost of a model's `usage` in US dollars at today's prices; None if no price is known.

    Tokens read from or written to a cache are charged at the provider's caching prices; thinking costs the same as the
    answer. Models running on this machine are free. The first call imports the prices, which takes half a second.
    """
    provider, _, name = model.partition("/")
    preset = PROVIDERS.get(provider)
    if model == "local" or (preset is not None and name and preset.key_env is None):
        return 0.0
    if preset is None or not name or not are_prices_known():
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
