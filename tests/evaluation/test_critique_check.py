"""Critique checks: decisions about labeled answers, and the resulting advice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ConfigurationError, ProviderFailed, QuorumLost
from flowdebate.evaluation import critique_check, critique_check_sync
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.models import ModelRequest

FACT = "The bridge of the town was built in 1874 by its own masons."


def rows_of(count: int) -> list[dict[str, Any]]:
    """Return rows about different bridges, half of which are wrong."""
    return [
        {
            "question": f"When was bridge {number} built?",
            "answer": f"Bridge {number} was built in {1874 if number % 2 else 1900}.",
            "right": bool(number % 2),
            "sources": {"chronicle": FACT},
        }
        for number in range(count)
    ]


def model_of(*, critic: float, alone: float, failing: str = "") -> FunctionModel:
    """Create a model whose critic and standalone judge notice the given shares of wrong answers."""

    def notices(request: ModelRequest, share: float) -> bool:
        text = str(request.messages[-1]["content"])
        number = int(re.findall(r"bridge (\d+)", text)[0])
        return "1900" in text and number % 100 < 100 * share

    def reply(request: ModelRequest) -> Any:
        if failing and failing in str(request.messages[-1]["content"]):
            raise ProviderFailed("down", status=500)
        if "-critic-" in request.block:
            wrong = notices(request, critic)
            return {"claims": [{"claim": "It was 1874.", "kind": "false", "place": "1900"}] if wrong else []}
        holds = request.block == "critique-judge" or notices(request, alone)
        ruling = {"claim": "C1", "reason": "-", "ruling": "holds" if holds else "does_not_hold"}
        return {"rulings": [{**ruling, "quotes": ["built in 1874 by its own masons"]}]}

    return FunctionModel(reply)


def test_critics_that_find_more_faults_than_the_judge_are_recommended() -> None:
    check = critique_check_sync(rows_of(100), model=model_of(critic=0.9, alone=0.3))
    assert check.critique.found is not None
    assert check.alone.found is not None
    assert (check.critique.found.value, check.alone.found.value) == (0.9, 0.3)
    assert (check.critique.accuracy.value, check.alone.accuracy.value) == (0.95, 0.65)
    assert check.critique.false_alarms is not None
    assert check.critique.false_alarms.value == 0
    assert check.comparison.difference == pytest.approx(0.3)
    assert 0 < check.comparison.low < 0.3 < check.comparison.high
    assert check.found is not None
    assert check.found.difference == pytest.approx(0.6)
    assert check.helps is True
    assert check.summary.splitlines()[-1].startswith("Use critique()")
    assert 2 <= check.calls <= 3


def test_critics_that_find_fewer_faults_than_the_judge_are_not_recommended() -> None:
    """If there are too few answers, nothing is decided, and the report states how many are needed."""
    worse = critique_check_sync(rows_of(100), model=model_of(critic=0.3, alone=0.9))
    assert worse.helps is False
    assert "Do not use critique()" in worse.summary
    weak = critique_check_sync(rows_of(6), model=model_of(critic=1.0, alone=0.03))
    assert weak.helps is None
    assert re.search(r"takes about [\d,]+ labeled answers, and there are 6", weak.advice)


def test_answers_without_a_decision_are_excluded_and_counted() -> None:
    """A failed call counts as neither right nor wrong."""
    model = model_of(critic=1.0, alone=1.0, failing="bridge 4 ")
    check = critique_check_sync(rows_of(10), model=model)
    assert (len(check.answers), check.left_out) == (9, 1)
    assert "Excluded: 1 answer" in check.summary
    with pytest.raises(QuorumLost):
        critique_check_sync(rows_of(2), model=model_of(critic=1, alone=1, failing="bridge"))


@pytest.mark.anyio
async def test_stored_checks_do_not_repeat_calls() -> None:
    """A check with the same `batch_id` continues where the last one stopped."""
    store, requests = MemoryStore(), []
    inner = model_of(critic=1.0, alone=1.0)

    async def reply(request: ModelRequest) -> Any:
        requests.append(request.block)
        return await inner.request(request)

    first = await critique_check(rows_of(4), model=FunctionModel(reply), store=store, batch_id="b")
    calls = len(requests)
    second = await critique_check(rows_of(6), model=FunctionModel(reply), store=store, batch_id="b")
    assert (len(first.answers), len(second.answers)) == (4, 6)
    assert len(requests) - calls == sum(2 + (not row["right"]) for row in rows_of(6)[4:])
    assert second.answers[:4] == first.answers


@pytest.mark.parametrize(
    ("value", "right"), [(True, True), ("wrong", False), ("Yes", True), (0, False), ([], True), (["late"], False)]
)
def test_labels_can_be_words_or_lists_of_faults(value: object, right: bool) -> None:  # noqa: FBT001 - a label
    """Data sets use labels of either kind."""
    [row] = rows_of(1)
    check = critique_check_sync([{**row, "label": value}], truth="label", model=model_of(critic=1, alone=1))
    assert check.answers[0].is_right is right


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"right": "perhaps"}, "truth of row 0"),
        ({"answer": " "}, "answer of row 0"),
        ({"question": 3}, "question of row 0"),
    ],
)
def test_invalid_rows_are_rejected(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        critique_check_sync([{**rows_of(1)[0], **change}], model=FunctionModel(lambda _: pytest.fail("asked")))
    assert error.value.field == field


def test_critics_and_judge_use_the_models_of_their_roles() -> None:
    """The judge of the standalone check must be the model that a critique would use as its judge."""
    models: dict[str, set[str]] = {}

    def named_model(name: str) -> FunctionModel:
        inner = model_of(critic=1.0, alone=1.0)

        async def reply(request: ModelRequest) -> Any:
            models.setdefault(request.block, set()).add(name)
            return await inner.request(request)

        return FunctionModel(reply, name=name)

    seats = {"critic": named_model("critic"), "judge": named_model("judge")}
    critique_check_sync(rows_of(2), critics=[{"name": "Ada"}], model=seats)
    assert models == {"critique-critic-Ada": {"critic"}, "critique-judge": {"judge"}, "alone-judge": {"judge"}}
