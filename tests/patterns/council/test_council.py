"""Councils: what each role sees in each phase, the number of calls, and the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowdebate import (
    CouncilOutput,
    FailurePolicy,
    Persona,
    PromptOptions,
    council,
    human,
    outline,
)
from flowdebate.errors import ConfigurationError, FlowDebateError, OutputError, ProviderFailed
from flowdebate.patterns.council import ReviewRequest
from flowdebate.patterns.council.page import CouncilDocument
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.ui.sections import Group

from .councils import NAMES, QUESTION, by_text, letters_in, reply, run_council

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flowdebate.models import ModelRequest


class Plan(BaseModel):
    """Schema for the chair's answer."""

    ship: bool
    why: str


class Listening:
    """A model that answers with `reply` or another function and records the requests."""

    def __init__(self, other: Callable[[ModelRequest], Any] = reply) -> None:
        self.asked: list[tuple[str, str]] = []
        self._other = other
        self.model = FunctionModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        self.asked.append((request.block, str(request.messages[-1]["content"])))
        return self._other(request)

    def of(self, part: str) -> list[str]:
        """Return the prompts of blocks whose names contain `part`."""
        return [prompt for block, prompt in self.asked if part in block]


def test_council_makes_two_calls_per_member_and_one_for_the_chair() -> None:
    result = run_council()
    raw = result.output
    assert isinstance(raw, CouncilOutput)
    assert result.usage.calls == 7
    assert (raw.answer, raw.dissent, raw.status, raw.stop_reason) == (
        "Wait a week.",
        "How long to wait.",
        "complete",
        "reviewed",
    )
    assert [opinion.agent_name for opinion in raw.opinions] == list(NAMES[:3])
    assert [review.agent_name for review in raw.reviews] == list(NAMES[:3])
    assert sorted(opinion.alias for opinion in raw.opinions) == ["A", "B", "C"]
    assert {rank.reviews for rank in raw.ranking} == {2}
    assert raw.agreement is not None
    assert raw.subject == QUESTION
    assert [entry.speaker for entry in raw.entries] == [*NAMES[:3], *NAMES[:3]]
    assert CouncilOutput.model_validate(raw.to_wire()) == raw


def test_members_answer_independently() -> None:
    """The prompt for a member's opinion contains nothing but the question."""
    model = Listening()
    run_council(model=model.model)
    for prompt in model.of("-member-"):
        assert QUESTION in prompt
        assert "says the block" not in prompt


@given(st.integers(2, 5), st.integers(0, 2**32), st.sampled_from(["others", "all"]))
def test_reviewers_and_chair_see_no_names(count: int, seed: int, scope: str) -> None:
    names = NAMES[:count]

    def boastful(request: ModelRequest) -> Any:
        if "-member-" in request.block:
            return f"I, {request.block.rpartition('-')[2]}, disagree with {', '.join(names)}."
        return reply(request)

    model = Listening(boastful)
    run_council(names, model=model.model, seed=seed, review=scope)
    prompts = [*model.of("-reviewer-"), *model.of("-chair")]
    assert len(prompts) == (count if scope == "all" or count > 1 else 0) + 1
    for text in prompts:
        assert not [name for name in names if name in text]


def test_hiding_names_can_be_disabled() -> None:
    model = Listening(lambda request: "I am Ann." if "-member-" in request.block else reply(request))
    run_council(model=model.model, prompts=PromptOptions(hide_names=False))
    assert "I am Ann." in model.of("-chair")[0]


@given(st.integers(2, 5), st.integers(0, 2**32))
def test_each_answer_is_listed_first_equally_often(count: int, seed: int) -> None:
    """A reviewer that always prefers the first answer favors nobody, so the ranking is a tie."""
    raw = run_council(NAMES[:count], seed=seed).output
    assert {rank.rank for rank in raw.ranking} == {1}
    assert all(rank.tied for rank in raw.ranking)


def test_ranking_does_not_depend_on_the_order_of_answers() -> None:
    rankings = [
        [rank.agent_name for rank in run_council(model=FunctionModel(by_text), seed=seed).output.ranking]
        for seed in range(5)
    ]
    assert all(ranking == rankings[0] for ranking in rankings)


def test_reviews_are_optional() -> None:
    result = run_council(review="none")
    raw = result.output
    assert (result.usage.calls, raw.reviews, raw.ranking, raw.agreement) == (4, [], [], None)
    assert (raw.answer, raw.stop_reason) == ("Wait a week.", "not_reviewed")


def test_reviewing_all_answers_measures_self_preference() -> None:
    """Self-preference can be measured only if members rank their own answers as well."""
    raw = run_council(review="all").output
    assert {rank.reviews for rank in raw.ranking} == {3}
    assert all(rank.self_preference is not None for rank in raw.ranking)


def test_chair_answer_follows_the_output_schema() -> None:
    model = FunctionModel(
        lambda request: {"ship": False, "why": "Tests fail."} if "chair" in request.block else reply(request)
    )
    result = run_council(model=model, output_schema=Plan)
    assert result.output == Plan(ship=False, why="Tests fail.")
    assert result.raw.answer == result.output
    assert result.raw.to_wire()["answer"] == {"ship": False, "why": "Tests fail."}


@pytest.mark.parametrize("ranking", [[], [("A", "B")], "twice", "stranger"], ids=str)
def test_invalid_rankings_are_retried_before_an_error_is_raised(ranking: Any) -> None:
    def broken(request: ModelRequest) -> Any:
        if "-reviewer-" not in request.block:
            return reply(request)
        letters = letters_in(request)
        letters_ = {"twice": [letters[0]] * len(letters), "stranger": ["Z", *letters[1:]]}.get(str(ranking), [])
        return {"ranking": [{"answer": letter, "reason": "-"} for letter in letters_]}

    with pytest.raises(FlowDebateError):
        run_council(model=FunctionModel(broken), failures=FailurePolicy(on_failure="fail"))
    result = run_council(model=FunctionModel(broken))
    assert {loss.role for loss in result.output.losses} == {"reviewer"}
    assert (result.status, result.output.reviews, result.output.ranking) == ("degraded", [], [])


def test_failed_members_are_excluded_and_reported() -> None:
    def flaky(request: ModelRequest) -> Any:
        return ProviderFailed("down", status=503) if request.block.endswith("-member-Bea") else reply(request)

    def model(request: ModelRequest) -> Any:
        answer = flaky(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    result = run_council(NAMES[:3], model=FunctionModel(model), failures=FailurePolicy(on_failure="skip"))
    raw = result.output
    assert (raw.status, [loss.name for loss in raw.losses]) == ("degraded", ["Bea"])
    assert [opinion.agent_name for opinion in raw.opinions] == ["Ann", "Cid"]
    assert {rank.agent_name for rank in raw.ranking} == {"Ann", "Cid"}


def test_missing_reviews_are_reported_with_the_ranking() -> None:
    """If a review is missing, some answers were listed first more often than others, and the report says so."""

    def model(request: ModelRequest) -> Any:
        if request.block.endswith("-reviewer-Bea"):
            raise ProviderFailed("down", status=503)
        return reply(request)

    def ranking(raw: CouncilOutput) -> str:
        groups = [part for part in CouncilDocument.of_raw(raw).sections() if isinstance(part, Group)]
        return groups[-1].text

    incomplete = run_council(model=FunctionModel(model), failures=FailurePolicy(on_failure="skip")).output
    assert "1 of 3 reviews missing, so not every answer was read in every place equally often" in ranking(incomplete)
    assert "missing" not in ranking(run_council().output)


def test_custom_blocks_can_take_any_role() -> None:
    def member(value: Any) -> Any:
        if isinstance(value, ReviewRequest):
            return {"ranking": [{"answer": letter, "reason": "-"} for letter, _ in value.answers]}
        return f"On {value.question}: no."

    inputs: list[Any] = []

    def chair(value: Any) -> str:
        inputs.append(value)
        return "No."

    pattern = council(name="ship", members=[Persona("Ann", block=member), Persona("Bea", block=member)], chair=chair)
    raw = pattern.run_sync(QUESTION, model=ScriptedModel()).output
    assert (raw.answer, raw.dissent) == ("No.", None)
    assert [letter for letter, _ in inputs[0].answers] == ["A", "B"]
    assert len(inputs[0].ranking) == 2


def test_errors_name_the_block_that_returned_an_invalid_answer() -> None:
    members = [Persona("Ann", block=lambda _: "Yes."), Persona("Bea")]
    with pytest.raises(OutputError, match="ship-member-Ann"):
        council(name="ship", members=members).run_sync(QUESTION, model=FunctionModel(reply))


def test_people_can_take_all_roles(tmp_path: Path) -> None:
    from flowdebate import submit_answer_sync

    pattern = council(
        name="ship", members=[Persona("Ann", block=human(name="ann")), Persona("Bea")], chair=human(name="cy")
    )
    store, model = tmp_path / "runs.sqlite3", FunctionModel(reply)
    result = pattern.run_sync(QUESTION, model=model, store=store, run_id="c", seed=1)
    assert [request.block for request in result.pending] == ["ann"]
    submit_answer_sync(store, "c", "I, Ann, say wait.")
    result = pattern.resume_sync("c", model=model, store=store)
    (request,) = result.pending
    assert "[Answer " in request.shown
    assert "Bea" not in request.shown
    letter = request.shown.split("[Answer ")[1][0]
    submit_answer_sync(store, "c", {"ranking": [{"answer": letter, "reason": "The only one."}]})
    result = pattern.resume_sync("c", model=model, store=store)
    (request,) = result.pending
    assert "Bea" not in request.shown
    submit_answer_sync(store, "c", {"answer": "Wait.", "dissent": None})
    result = pattern.resume_sync("c", model=model, store=store)
    assert (result.status, result.output.answer) == ("complete", "Wait.")


def test_resumed_councils_repeat_no_call(tmp_path: Path) -> None:
    pattern = council(name="ship", members=[{"name": name} for name in NAMES[:3]])
    store = tmp_path / "runs.sqlite3"

    def until_the_chair(request: ModelRequest) -> Any:
        if request.block.endswith("-chair"):
            raise ProviderFailed("down", status=503)
        return reply(request)

    interrupted = pattern.run_sync(QUESTION, model=FunctionModel(until_the_chair), store=store, run_id="c", seed=1)
    assert (interrupted.status, interrupted.output.answer) == ("degraded", None)
    model = Listening()
    result = pattern.resume_sync("c", model=model.model, store=store)
    assert [block for block, _ in model.asked] == ["ship-chair"]
    assert result.output == run_council(seed=1).output


def test_councils_can_run_in_batches() -> None:
    pattern = council(name="ship", members=[{"name": name} for name in NAMES[:2]])
    batch = pattern.batch_sync(["Ship?", "Wait?"], model=FunctionModel(reply))
    assert [item.result and item.result.output.question for item in batch] == ["Ship?", "Wait?"]


def test_every_phase_emits_events() -> None:
    kinds = [
        event.kind
        for event in run_council(NAMES[:2]).events
        if not event.kind.startswith(("model_", "task_", "block_"))
    ]
    assert kinds.count("round_started") == 2
    assert kinds.count("turn_started") == kinds.count("turn_finished") == 4
    assert kinds.count("review_finished") == 2
    assert kinds.count("rounds_ended") == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"members": [{"name": "Ann"}]}, "members"),
        ({"members": [{"name": "Ann"}, {"name": "ann"}]}, r"members\[1\].name"),
        ({"review": "some"}, "review"),
        ({"review": True}, "review"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"chair": False}, "chair"),
        ({"name": " "}, "name"),
        ({"output_schema": 3}, "output_schema"),
    ],
    ids=str,
)
def test_invalid_councils_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        council(**{"name": "ship", "members": [{"name": "Ann"}, {"name": "Bea"}], **options})


def test_outline_shows_the_phases() -> None:
    text = str(outline(council(name="ship", members=[{"name": "Ann"}, {"name": "Bea"}])))
    places = [
        text.index(part)
        for part in (
            "ship-opinions",
            "ship-open-reviews",
            "ship-reviews",
            "ship-rank",
            "ship-chair",
            "ship-build-output",
        )
    ]
    assert places == sorted(places)
