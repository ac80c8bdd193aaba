"""Test support for debates: scripted and simulated models, attacks, and conformance suites.

`flowdebate.testing.strategies` has hypothesis strategies (hypothesis has to be installed: `flowdebate[testing]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names
from flowdebate.models.base import ModelRequest, ModelResponse, ToolCall
from flowdebate.models.guard import allow_real_models, forbid_real_models

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing.adapter import AdapterConformance, FakeAnswer
    from flowdebate.testing.attacks import ATTACKS, Attack
    from flowdebate.testing.check import check_debate, check_pattern
    from flowdebate.testing.examples import Example
    from flowdebate.testing.models import FunctionModel, RecordedCall, Reply, ScriptedModel
    from flowdebate.testing.simulated.debaters import SimDebater, conformist, stubborn
    from flowdebate.testing.simulated.judge import SimJudge
    from flowdebate.testing.store.suite import StoreConformance

__all__ = (
    "ATTACKS",
    "AdapterConformance",
    "Attack",
    "Example",
    "FakeAnswer",
    "FunctionModel",
    "ModelRequest",
    "ModelResponse",
    "RecordedCall",
    "Reply",
    "ScriptedModel",
    "SimDebater",
    "SimJudge",
    "StoreConformance",
    "ToolCall",
    "allow_real_models",
    "check_debate",
    "check_pattern",
    "conformist",
    "forbid_real_models",
    "stubborn",
)

_LAZY = {
    "ATTACKS": "attacks",
    "AdapterConformance": "adapter",
    "Attack": "attacks",
    "Example": "examples",
    "FakeAnswer": "adapter",
    "FunctionModel": "models",
    "RecordedCall": "models",
    "Reply": "models",
    "ScriptedModel": "models",
    "SimDebater": "simulated.debaters",
    "SimJudge": "simulated.judge",
    "StoreConformance": "store.suite",
    "check_debate": "check",
    "check_pattern": "check",
    "conformist": "simulated.debaters",
    "stubborn": "simulated.debaters",
}
"""Each is imported from its module at first use: a test needs few of them."""
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
