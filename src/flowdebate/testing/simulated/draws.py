"""Keyed random draws: each draw depends only on its key, regardless of order or concurrency.

Splitmix64 (Steele, Lea and Flood 2014) derives a number from a seed, an item, a view and a slot; the first 16 bits of
this number choose one of 65,536 quantiles of the standard normal distribution. Numbers drawn singly and those
drawn as a numpy array are the same.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # numpy is an optional dependency
    from numpy import float64, uint64
    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[float64]
    Words: TypeAlias = NDArray[uint64]  # wraps around on overflow, as `_mix` expects

# The constants of splitmix64; with different ones, the numbers might fail tests of randomness.
_ALL = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# Number of quantiles: the table for arrays takes half a megabyte and makes a million draws cheap.
_LEVELS = 1 << 16


def key_of(*texts: str) -> int:
    """Compute a 64-bit hash of strings, identical on every machine."""
    return int.from_bytes(blake2b("\0".join(texts).encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def normal(seed: int, item: int, view: int, slot: int) -> float:
    """Draw from the standard normal distribution.

    >>> normal(0, 0, 0, 0) == normal(0, 0, 0, 0), normal(0, 0, 0, 0) == normal(0, 0, 0, 1)
    (True, False)
    """
    return _quantile(_draw(seed, item, view, slot) >> 48)  # the upper bits are mixed most thoroughly


def uniform(seed: int, item: int, view: int, slot: int) -> float:
    """Draw uniformly from 0 (inclusive) to 1 (exclusive)."""
    return (_draw(seed, item, view, slot) >> 11) / (1 << 53)


def normals(seed: int, items: ArrayLike, views: ArrayLike, slots: ArrayLike) -> Floats:
    """Compute `normal()` for arrays of integers, broadcasting them against each other; needs numpy."""
    import numpy as np

    state = np.full(1, seed & _ALL, dtype=np.uint64)
    for part in (items, views, slots):
        state = _mix_array(state) ^ np.asarray(part).astype(np.uint64)
    return _quantiles()[(_mix_array(state) >> np.uint64(48)).astype(np.intp)]


def _draw(seed: int, item: int, view: int, slot: int) -> int:
    state = seed & _ALL
    for part in (item, view, slot):
        state = _mix(state) ^ (part & _ALL)
    return _mix(state)


def _mix(state: int) -> int:
    state = (state + _STEP) & _ALL
    state = ((state ^ (state >> 30)) * _FIRST) & _ALL
    state = ((state ^ (state >> 27)) * _SECOND) & _ALL
    return state ^ (state >> 31)


def _mix_array(state: Words) -> Words:
    import numpy as np

    state = state + np.uint64(_STEP)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    return state ^ (state >> np.uint64(31))


def _quantile(level: int) -> float:
    return NormalDist().inv_cdf((level + 0.5) / _LEVELS)


@cache
def _quantiles() -> Floats:
    import numpy as np

    return np.array([_quantile(level) for level in range(_LEVELS)])
