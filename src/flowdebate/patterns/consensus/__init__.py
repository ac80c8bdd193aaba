"""`consensus`: agents propose, criticise, revise and vote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.consensus.factory import CONSENSUS_FAILURES, consensus

__all__ = ("CONSENSUS_FAILURES", "consensus")

_LAZY = {"CONSENSUS_FAILURES": "factory", "consensus": "factory"}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
