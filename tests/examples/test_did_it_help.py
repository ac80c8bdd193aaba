from __future__ import annotations

import pytest

from flowdebate.testing import forbid_real_models
from tests.test_examples import load_script


@pytest.mark.slow
def test_vote_matches_the_debate_at_equal_token_cost(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("did_it_help")
    with forbid_real_models():
        report = example.main()
        better = example.main(example.simulated(0.98, direct=0.4), questions=60)
    single, samples = report.comparisons
    assert (single.finding, samples.finding, report.finding) == ("helped", "none_worth_it", "none_worth_it")
    assert better.finding == "helped"
    printed = capsys.readouterr().out
    assert "debate            right in 139 of 150, 5.0 calls each\n" in printed
    expected = "the debate was right in 139 of 150, self-consistency in 146 (difference -4.7 points"
    assert f"No gain of 5 points or more: {expected}" in printed
