"""How many examples hypothesis draws for a law, and which: here and nowhere else.

A pytest plugin, which conftest.py registers: `--hypothesis-profile` chooses another profile than the suite's.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ("example_count",)

_SUITE = 15

# The same examples for everybody who runs the tests, whatever failed on their machine before; machines are busy.
settings.register_profile(
    "suite",
    max_examples=_SUITE,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("coverage", settings.get_profile("suite"), max_examples=100)
settings.register_profile("fuzz", settings.get_profile("suite"), max_examples=1500, derandomize=False, print_blob=True)
settings.load_profile("suite")


def example_count(number: int) -> int:
    """Scale the number of examples that a law has in the suite to the profile that is loaded."""
    return max(1, number * settings().max_examples // _SUITE)
