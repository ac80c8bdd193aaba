from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate.testing import forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest


def test_audit_detects_a_position_biased_judge(capsys: pytest.CaptureFixture[str]) -> None:
    with forbid_real_models():
        audit = asyncio.run(load_script("audit_a_judge").main())
    assert audit.slots[0].p is not None
    assert audit.slots[0].p < 0.001
    assert (audit.items, audit.ballots) == (60, 120)
    assert capsys.readouterr().out.startswith("- favors the first slot: 82 of 120 (68%, ")
