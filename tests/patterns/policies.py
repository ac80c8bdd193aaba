"""Helper that turns a test's failure options into a failure policy."""

from __future__ import annotations

from typing import Any

from flowdebate import FailurePolicy

FIELDS = ("on_failure", "quorum", "turn_timeout", "round_timeout")


def with_policy(options: dict[str, Any]) -> dict[str, Any]:
    """Move the fields of a failure policy from `options` to a `FailurePolicy`."""
    policy_fields = {name: options[name] for name in FIELDS if name in options}
    rest = {name: value for name, value in options.items() if name not in policy_fields}
    return {**rest, "failures": FailurePolicy(**policy_fields)} if policy_fields else rest
