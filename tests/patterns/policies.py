"""Failure policies in the options of tests."""

from __future__ import annotations

from typing import Any

from flowdebate import FailurePolicy

FIELDS = ("on_failure", "quorum", "turn_timeout", "round_timeout")


def with_policy(options: dict[str, Any]) -> dict[str, Any]:
    """`options`, with the fields of a failure policy that stand among them as the policy."""
    given = {name: options[name] for name in FIELDS if name in options}
    others = {name: value for name, value in options.items() if name not in given}
    return {**others, "failures": FailurePolicy(**given)} if given else others
