from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.measures import Strength, agreement, strength
from tests.ids import case_id

ORDER: dict[Strength, int] = {"contested": 0, "split": 0, "weak": 1, "moderate": 2, "strong": 3, "unanimous": 4}
votes = st.dictionaries(st.text(max_size=3), st.integers(0, 10), max_size=5)


@st.composite
def elections(draw: st.DrawFn) -> tuple[dict[str, int], int]:
    """Draw vote counts and the number of eligible voters."""
    counts = draw(votes)
    return counts, max(1, sum(counts.values()) + draw(st.integers(0, 5)))


@pytest.mark.parametrize(
    ("counts", "eligible", "word"),
    [
        ([1], 1, "unanimous"),
        ([10], 10, "unanimous"),
        ([9], 10, "strong"),
        ([4, 1], 5, "moderate"),  # 4/5 is not more than 4/5
        ([3, 2], 5, "moderate"),
        ([2, 1], 3, "moderate"),
        ([59, 41], 100, "weak"),
        ([4, 3], 7, "weak"),
        ([2, 2], 4, "split"),
        ([5], 10, "split"),
        ([2, 1, 1, 1], 5, "split"),
        ([1, 1], 2, "contested"),
        ([1, 1, 1], 5, "contested"),
        ([1, 0], 3, "split"),  # only one proposal has a vote
        ([0, 0], 2, "split"),
        ([], 3, "split"),
    ],
    ids=case_id,
)
def test_grades_follow_the_thresholds_in_the_table(counts: list[int], eligible: int, word: Strength) -> None:
    assert strength(dict(enumerate(counts)), eligible=eligible) == word  # type: ignore[arg-type] # keys do not matter


@given(elections(), elections())
def test_more_agreement_never_lowers_the_grade(
    one: tuple[dict[str, int], int], other: tuple[dict[str, int], int]
) -> None:
    """For any number of voters, a larger share never leads to a lower grade.

    "Split" and "contested" count as the same grade here, since both mean that there is no majority.
    """
    shares, words = zip(
        *(
            (agreement(counts, eligible), ORDER[strength(counts, eligible=eligible)])
            for counts, eligible in (one, other)
        ),
        strict=True,
    )
    assert words[0] <= words[1] or shares[0] > shares[1]


@given(elections())
def test_grades_above_split_require_a_majority(election: tuple[dict[str, int], int]) -> None:
    """More than half of all eligible voters must agree.

    The grade "contested" means that no proposal received more than one vote.
    """
    counts, eligible = election
    word = strength(counts, eligible=eligible)
    assert word in get_args(Strength)
    assert (ORDER[word] > 0) is (2 * max(counts.values(), default=0) > eligible)
    assert word != "contested" or sorted(counts.values())[-2:] == [1, 1]


@given(elections())
def test_agreement_is_a_share_of_all_voters(election: tuple[dict[str, int], int]) -> None:
    counts, eligible = election
    share = agreement(counts, eligible)
    assert 0 <= share <= 1
    assert share * eligible == max(counts.values(), default=0)
    assert isinstance(share, Fraction)


@pytest.mark.parametrize(
    ("field", "counts", "eligible"),
    [
        ("eligible", {}, 0),
        ("eligible", {}, True),
        ("eligible", {}, 2.0),
        ("counts", {"a": -1}, 3),
        ("counts", {"a": 1.5}, 3),
        ("counts", {"a": 2, "b": 2}, 3),
    ],
    ids=case_id,
)
def test_invalid_counts_are_rejected(field: str, counts: Any, eligible: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        strength(counts, eligible=eligible)
    assert caught.value.field == field
