"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("suite", settings(), max_examples=60, deadline=None)  # machines are busy
settings.load_profile("suite")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that openai's client needs."""
    return "asyncio"
