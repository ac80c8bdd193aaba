from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.measures import Convergence, Embeddings, Jaccard, convergence
from tests.ids import case_id
from tests.measures.drawn import names, texts

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Level:
    """A similarity with the same value for any two different texts."""

    level: float
    name: str = "level"

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[1.0 if one == other else self.level for other in texts] for one in texts]


class Given:
    """A custom similarity with predefined, possibly invalid, values."""

    name = "given"

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __call__(self, texts: Sequence[str], /) -> Any:
        return self.matrix


@dataclass(frozen=True, kw_only=True)
class Debate:
    """Two rounds of proposals, with the agents' positions."""

    now: dict[str, str]
    before: dict[str, str] | None
    positions: dict[str, str] | None


@st.composite
def debates(draw: st.DrawFn) -> Debate:
    """Draw one to ten agents, some without an earlier text or without a position."""
    agents = draw(names)
    some = st.dictionaries(st.sampled_from(agents), texts)
    answers = st.dictionaries(
        st.sampled_from(agents), st.sampled_from(["yes", "Yes.", "no", "", " ", "\u200b", "...", "3%"])
    )
    return Debate(
        now={name: draw(texts) for name in agents},
        before=draw(st.none() | some),
        positions=draw(st.none() | answers),
    )


@given(debates())
def test_both_measures_are_between_0_and_1(debate: Debate) -> None:
    result = convergence(debate.now, debate.before, positions=debate.positions, similarity=Jaccard())
    assert 0 <= result.similarity <= 1
    assert len(set(debate.now.values())) > 1 or result.similarity == 1.0
    assert (result.stability is None) is (not debate.before or not debate.before.keys() & debate.now.keys())
    assert result.stability is None or 0 <= result.stability <= 1
    assert result.backend == "jaccard"


@given(debates(), st.data())
def test_order_of_agents_does_not_matter(debate: Debate, data: st.DataObject) -> None:
    order = data.draw(st.permutations(list(debate.now)))
    one = convergence(debate.now, debate.before, positions=debate.positions, similarity=Jaccard())
    shuffled = {name: debate.now[name] for name in order}
    assert one == convergence(shuffled, debate.before, positions=debate.positions, similarity=Jaccard())


@given(debates())
def test_different_positions_never_converge(debate: Debate) -> None:
    """However similar the texts are, agents with different positions have not converged.

    A single agent can never converge.
    """
    result = convergence(debate.now, debate.before, positions=debate.positions, similarity=Level(1.0))
    stated = {
        text.strip(" .\u200b").lower() for name, text in (debate.positions or {}).items() if name in debate.now
    } - {""}
    assert (result.status == "converged") is (len(stated) < 2 <= len(debate.now))
    assert result.status != "stagnant" or len(stated) > 1


@given(debates())
def test_agents_repeating_opposite_answers_are_stagnant(debate: Debate) -> None:
    """Agents that repeat their texts word for word are stagnant, however dissimilar their texts are."""
    if len(debate.now) < 2:
        return
    positions = dict(zip(debate.now, ["yes", "no"] * 5, strict=False))
    result = convergence(debate.now, debate.now, positions=positions, similarity=Jaccard())
    assert (result.stability, result.status) == (1.0, "stagnant")


@pytest.mark.parametrize(
    ("level", "before", "positions", "status"),
    [
        (0.85, None, {}, "converged"),
        (math.nextafter(0.85, 0), None, {}, "refining"),
        (0.40, None, {}, "refining"),
        (math.nextafter(0.40, 0), None, {}, "diverging"),
        (1.0, None, {"a": "yes", "b": "YES!"}, "converged"),
        (1.0, None, {"a": "yes"}, "converged"),
        (1.0, None, {"a": "yes", "b": " "}, "converged"),
        (1.0, None, {"a": "yes", "z": "no"}, "converged"),  # z has no proposal
        (1.0, None, {"a": "yes", "b": "no"}, "refining"),
        (0.85, "other", {"a": "yes", "b": "no"}, "stagnant"),
        (0.84, "other", {"a": "yes", "b": "no"}, "refining"),
        (0.1, "same", {"a": "yes", "b": "no"}, "stagnant"),
        (0.1, "other", {"a": "yes", "b": "no"}, "diverging"),
        (0.1, "same", {}, "diverging"),
        (0.9, "same", {}, "converged"),
    ],
    ids=case_id,
)
def test_status_follows_from_both_measures_and_the_positions(
    level: float, before: str | None, positions: dict[str, str], status: str
) -> None:
    now = {"a": "text of a", "b": "text of b", "c": "text of c"}
    earlier = {None: None, "same": now, "other": {name: f"{text}, once" for name, text in now.items()}}[before]
    result = convergence(now, earlier, positions=positions, similarity=Level(level))
    assert result.status == status
    assert result.similarity == level


def test_stability_covers_agents_with_an_earlier_text() -> None:
    """An agent that is new in this round has no stability yet, and an agent that has left is ignored."""
    result = convergence({"a": "x", "b": "y"}, {"b": "other", "c": "gone"}, similarity=Level(0.25))
    assert result.stability == 0.25
    assert convergence({"a": "x"}, {"c": "gone"}, similarity=Level(0.25)).stability is None


def test_default_measure_is_the_best_installed_one() -> None:
    now = {"ann": "Rents should be capped now.", "bob": "Rents should not be capped now."}
    alike = convergence(now)
    assert (alike.status, alike.backend) == ("converged", Embeddings.name)
    assert convergence(now, positions={"ann": "cap", "bob": "no cap"}).status == "refining"


def test_convergence_survives_serialization() -> None:
    result = convergence({"a": "x"}, similarity=Jaccard())
    assert Convergence.model_validate(result.model_dump(mode="json", by_alias=True)) == result


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("now", {"now": {}}),
        ("converged", {"converged": 1.1}),
        ("converged", {"converged": math.nan}),
        ("converged", {"converged": True}),
        ("diverging", {"diverging": -0.1}),
        ("diverging", {"diverging": "0.4"}),
        ("diverging", {"diverging": 0.9}),
        ("diverging", {"converged": 0.3}),
    ],
    ids=case_id,
)
def test_invalid_thresholds_are_rejected(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        convergence(options.pop("now", {"a": "x"}), **options)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "matrix",
    [[], [[1.0]], [[1.0, 0.5], [0.5]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, math.nan], [math.nan, 1.0]]],
    ids=case_id,
)
def test_invalid_values_from_a_measure_raise_an_output_error(matrix: Any) -> None:
    with pytest.raises(OutputError, match="block 'given' must return 2 rows of 2 numbers from 0 to 1"):
        convergence({"a": "x", "b": "y"}, similarity=Given(matrix))


class Apart:
    """A measure that treats all texts as equal except "other"."""

    name = "apart"

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[1.0 if one == other else 0.1 * ("other" not in (one, other)) for other in texts] for one in texts]


def test_outliers_prevent_convergence() -> None:
    """With 19 identical texts and one outlier, the mean similarity is still 0.9."""
    texts = {f"agent {number}": "same" for number in range(19)}
    assert convergence(texts, similarity=Apart()).status == "converged"
    result = convergence({**texts, "loner": "other"}, similarity=Apart())
    assert result.similarity == pytest.approx(0.9)
    assert result.status == "refining"
    assert convergence({"ann": "alone"}, similarity=Apart()).status == "refining"
