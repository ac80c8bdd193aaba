"""Hypothesis profiles, which determine the kind and number of examples per property.

A pytest plugin, registered by conftest.py. `--hypothesis-profile` selects a profile other than `suite`.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ("example_count",)

_SUITE = 15

# All machines use the same examples, regardless of earlier failures, and no deadline, since machines may be busy.
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
    """Scale a property's number of examples in the `suite` profile to the loaded profile."""
    return max(1, number * settings().max_examples // _SUITE)
