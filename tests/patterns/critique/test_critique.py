"""A critique step by step: answer, claims, rulings and decision, with each role's calls and the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    CritiqueOutput,
    FailurePolicy,
    FlowDebateWarning,
    Limits,
    Persona,
    SynthesizerOptions,
    critique,
    human,
    outline,
)
from flowdebate.errors import ConfigurationError, ProviderFailed, QuorumLost
from flowdebate.patterns.critique import ClaimsRequest, CritiqueInput, RevisionRequest, RulingsRequest
from flowdebate.testing import FunctionModel, check_pattern

from .critiques import ANSWER, APART, CLAIM, LEASE, QUESTION, QUOTE, REVISED, ids_in, model_of, run_critique

if TYPE_CHECKING:
    from flowdebate.models import ModelRequest

ABSENT = {"claim": "It says 60 days.", "kind": "false", "place": "within 60 days of the end"}


def failing_model(part: str, **options: Any) -> FunctionModel:
    """Return the model for these tests, but make it fail in blocks whose names contain `part`."""
    inner = model_of(**options)

    async def reply(request: ModelRequest) -> Any:
        if part in request.block:
            raise ProviderFailed("down", status=500)
        return await inner.request(request)

    return FunctionModel(reply)


def test_critique_takes_three_calls_or_four_with_a_revision() -> None:
    revised, standing, silent = (
        run_critique(),
        run_critique(model_of(ruling="does_not_hold")),
        run_critique(model_of(claims=[])),
    )
    assert (revised.usage.calls, standing.usage.calls, silent.usage.calls) == (4, 3, 2)
    assert run_critique(answer=ANSWER).usage.calls == 3
    assert run_critique(model_of(claims=[]), answer=ANSWER).usage.calls == 1
    assert [result_.output.outcome for result_ in (revised, standing, silent)] == ["revised", "stands", "stands"]
    assert [result_.output.stop_reason for result_ in (revised, standing, silent)] == ["revised", "ruled", "no_claims"]
    assert [result_.output.answer for result_ in (revised, standing, silent)] == [REVISED, ANSWER, ANSWER]
    assert {result_.output.status for result_ in (revised, standing, silent)} == {"complete"}


def test_output_lists_claims_with_rulings_and_evidence() -> None:
    raw = run_critique().output
    assert isinstance(raw, CritiqueOutput)
    [claim] = raw.claims
    assert (claim.id, claim.agent_names, claim.place_found, claim.ruling, claim.judged) == (
        "C1", ["Ada"], True, "holds", "holds",
    )  # fmt: skip
    assert [(item.quote, item.source, item.start) for item in claim.evidence] == [(QUOTE, "lease.md", None)]
    assert [(entry.round, entry.speaker) for entry in raw.entries] == [(1, "author"), (2, "Ada"), (3, "author")]
    assert (raw.original, raw.is_given, raw.decision_line) == (ANSWER, False, "revised: 1 of 1 claim held up")
    assert CritiqueOutput.model_validate(raw.to_wire()) == raw


def test_contradictory_passages_in_the_answer_count_as_evidence() -> None:
    """The critic must quote two different passages from the answer."""
    assert run_critique(model_of(quotes=APART)).output.outcome == "revised"
    for quotes in (APART[:1], APART[:1] * 2, [APART[0], "paid back within 14 days"]):
        raw = run_critique(model_of(quotes=quotes), sources=None).output
        assert (raw.outcome, raw.claims[0].ruling, raw.claims[0].judged) == ("stands", "cannot_tell", "holds")
        assert "one passage of the answer" in raw.claims[0].why


def test_question_counts_as_a_source() -> None:
    """If an answer ignores the question, a critic may refute it by quoting the question."""
    raw = run_critique(model_of(quotes=["the deposit be paid back"]), sources=None).output
    assert [item.source for item in raw.claims[0].evidence] == ["question"]
    assert raw.outcome == "revised"


@pytest.mark.parametrize(
    ("quotes", "why"),
    [([], "quotes nothing"), (["the moon is full today"], "do not exist"), (["30 days"], "too short")],
)
def test_claims_with_invented_quotes_change_nothing(quotes: list[str], why: str) -> None:
    """A claim whose quote is invented is void, however the judge rules on it."""
    raw = run_critique(model_of(quotes=quotes)).output
    assert (raw.outcome, raw.answer, raw.claims[0].ruling) == ("stands", ANSWER, "cannot_tell")
    assert why in raw.claims[0].why


def test_quotes_may_include_their_line_label() -> None:
    """When models quote words from a line in a source, they sometimes copy the line's label as well."""
    raw = run_critique(model_of(quotes=[f"Settled by: {QUOTE}"])).output
    assert (raw.outcome, raw.claims[0].evidence[0].quote) == ("revised", QUOTE)


def test_claims_about_words_not_in_the_answer_are_not_judged() -> None:
    """If there are no other claims, the judge is not called at all."""
    rulings_asked: list[list[str]] = []
    inner = model_of(claims=[ABSENT, CLAIM])

    async def reply(request: ModelRequest) -> Any:
        if request.block.endswith("-judge"):
            rulings_asked.append(ids_in(request))
            properties = str(request.output_schema)
            assert "'const': 'C2'" in properties or "'enum': ['C2']" in properties
        return await inner.request(request)

    raw = run_critique(FunctionModel(reply)).output
    assert rulings_asked == [["C2"]]
    assert [claim.ruling for claim in raw.claims] == ["cannot_tell", "holds"]
    alone = run_critique(model_of(claims=[ABSENT]))
    assert (alone.usage.calls, alone.output.outcome, alone.output.stop_reason) == (2, "stands", "ruled")
    assert [event.claims for event in alone.events if event.kind == "claims_ruled"] == [alone.output.claims]


def test_critics_work_separately_and_duplicate_claims_are_merged() -> None:
    prompts: dict[str, str] = {}
    other = {**CLAIM, "claim": "Nothing is said about interest.", "kind": "missing", "place": None}

    def reply(request: ModelRequest) -> Any:
        prompts[request.block] = str(request.messages[-1]["content"])
        if request.block == "rent-critic-bea":
            return {"claims": [other, CLAIM]}
        if "-critic-" in request.block:
            return {"claims": [CLAIM]}
        return {"rulings": [{"claim": name, "reason": "-", "ruling": "cannot_tell"} for name in ids_in(request)]}

    result = run_critique(FunctionModel(reply), answer=ANSWER, critics=[{"name": "ann"}, {"name": "bea"}])
    raw = result.output
    assert [(claim.id, claim.agent_names) for claim in raw.claims] == [("C1", ["ann", "bea"]), ("C2", ["bea"])]
    assert "interest" not in prompts["rent-critic-ann"]
    assert "interest" in prompts["rent-judge"]
    assert not [name for name in ("ann", "bea") if f"[{name}" in prompts["rent-judge"]]
    assert result.usage.calls == 3


def test_refuted_answers_without_a_revision_are_rejected() -> None:
    raw = run_critique(revise=False).output
    assert (raw.outcome, raw.answer, raw.original, raw.stop_reason) == ("rejected", None, ANSWER, "ruled")
    for revised in (ANSWER, f" {ANSWER.upper()} ", ""):
        raw = run_critique(model_of(revised=revised)).output
        assert (raw.outcome, raw.answer) == ("rejected", None)


def test_answer_in_the_input_overrides_the_option() -> None:
    """In an escalation, the same critique runs several times, and each time its input contains a different answer."""
    question = {"question": QUESTION, "answer": "Within 14 days, on a Monday."}
    raw = run_critique(model_of(claims=[]), question=question, answer=ANSWER).output
    assert (raw.answer, raw.is_given) == (question["answer"], True)
    assert run_critique(model_of(claims=[]), question=CritiqueInput(**question)).output.answer == question["answer"]
    with pytest.raises(ConfigurationError, match='"answer": str'):
        run_critique(question={"question": QUESTION, "answer": 3})
    with pytest.raises(ConfigurationError, match="`answer` must not be blank"):
        run_critique(question={"question": QUESTION, "answer": " "})


def test_run_needs_at_least_one_working_critic() -> None:
    """An answer that no critic has checked must never be presented as checked."""
    with pytest.raises(QuorumLost):
        run_critique(failing_model("-critic-"), answer=ANSWER)
    raw = run_critique(failing_model("-critic-ann"), answer=ANSWER, critics=[{"name": "ann"}, {"name": "bea"}]).output
    assert (raw.status, raw.outcome, [loss.name for loss in raw.losses]) == ("degraded", "revised", ["ann"])
    assert raw.answer.startswith("Incomplete: ann did not answer")


@pytest.mark.parametrize("calls", range(1, 5))
def test_runs_that_reach_a_limit_keep_their_entries(calls: int) -> None:
    result = run_critique(critics=[{"name": "ann"}, {"name": "bea"}], max_concurrency=1, limits=Limits(calls=calls))
    raw = result.raw
    speakers = [(entry.round, entry.speaker) for entry in raw.entries]
    assert speakers == [(1, "author"), (2, "ann"), (2, "bea")][:calls]
    assert len(raw.claims) == (calls > 1)
    assert raw.original == ANSWER
    assert (raw.outcome, raw.stop_reason, result.status) == (None, None, "limit")
    assert [claim.judged for claim in raw.claims] == (["holds"] if calls > 3 else [None] if calls > 1 else [])


def test_answer_is_marked_as_unchecked_if_the_judge_fails() -> None:
    result = run_critique(failing_model("-judge"), answer=ANSWER)
    raw = result.output
    assert (raw.status, raw.outcome, raw.stop_reason, result.status) == ("no_verdict", None, "not_ruled", "no_verdict")
    assert raw.answer.startswith("Incomplete: the judge did not answer")
    assert [claim.ruling for claim in raw.claims] == ["cannot_tell"]


def test_answer_or_revision_is_missing_if_the_author_fails() -> None:
    with pytest.raises(QuorumLost):
        run_critique(failing_model("-author"))
    raw = run_critique(failing_model("-author"), answer=ANSWER).output
    assert (raw.outcome, raw.status, raw.answer) == ("rejected", "degraded", None)
    with pytest.raises(ProviderFailed):
        run_critique(failing_model("-author"), answer=ANSWER, failures=FailurePolicy(on_failure="fail"))


def test_empty_answers_are_not_criticized() -> None:
    with pytest.warns(FlowDebateWarning, match="returned no text"):
        result = run_critique(author=lambda _: " ")
    assert (result.usage.calls, result.output.outcome, result.output.stop_reason) == (0, None, "no_answer")
    assert result.output.status == "no_verdict"


def test_functions_can_fill_every_role() -> None:
    inputs: list[object] = []

    def author(value: Any) -> str:
        inputs.append(value)
        return REVISED if isinstance(value, RevisionRequest) else ANSWER

    def critic(value: Any) -> object:
        inputs.append(value)
        return [CLAIM]

    def judge(value: Any) -> object:
        inputs.append(value)
        return [{"claim": claim.id, "reason": "-", "quotes": [QUOTE], "ruling": "holds"} for claim in value.claims]

    pattern = critique(
        name="x", author=author, critics=[Persona("Cy", block=critic)], judge=judge, sources={"lease.md": LEASE}
    )
    result = pattern.run_sync(QUESTION)
    assert result.output.answer == REVISED
    assert [type(value) for value in inputs] == [CritiqueInput, ClaimsRequest, RulingsRequest, RevisionRequest]
    assert result.usage.calls == 0


def test_people_can_fill_every_role() -> None:
    texts: list[str] = []

    def ask(request: Any) -> object:
        texts.append(request.text)
        if request.block == "cy":
            return {"claims": [CLAIM]}
        if request.block == "eve":
            return {"rulings": [{"claim": "C1", "reason": "-", "quotes": [QUOTE], "ruling": "holds"}]}
        return REVISED if len(texts) > 1 else ANSWER

    pattern = critique(
        name="x",
        author=human(name="bob", ask=ask),
        critics=[Persona("Cy", block=human(name="cy", ask=ask))],
        judge=human(name="eve", ask=ask),
        sources={"lease.md": LEASE},
    )
    raw = pattern.run_sync(QUESTION).output
    assert (raw.outcome, raw.answer) == ("revised", REVISED)
    assert ["within 14 days" in text for text in texts] == [False, True, True, True]
    assert ["It is 30 days" in text for text in texts] == [False, False, True, True]


def test_fallback_model_replaces_a_failed_critic_or_author() -> None:
    from flowdebate import StandIn

    policy = FailurePolicy(on_failure=StandIn(model_of()))
    raw = run_critique(failing_model("rent-critic-Ada"), failures=policy, answer=ANSWER).output
    assert (raw.outcome, [loss.instead for loss in raw.losses]) == ("revised", ["stand_in"])
    raw = run_critique(failing_model("rent-author"), failures=policy).output
    assert (raw.outcome, [loss.instead for loss in raw.losses]) == ("revised", ["stand_in", "stand_in"])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"answer": " "}, "answer"),
        ({"answer": 3}, "answer"),
        ({"revise": 1}, "revise"),
        ({"critics": []}, "critics"),
        ({"critics": [{"name": "author"}]}, "critics"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"judge": False}, "judge"),
        ({"author": SynthesizerOptions(template=object())}, "template of author"),  # type: ignore[arg-type]
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        critique(name="x", **{"critics": [{"name": "Ada"}], **options})
    assert error.value.field == field


def test_outline_shows_all_steps() -> None:
    text = str(outline(critique(name="x", critics=[{"name": "Ada"}])))
    for name in ("x-author", "x-critic-Ada", "x-judge", "x-decide"):
        assert name in text


@pytest.mark.parametrize(
    "options",
    [
        {"critics": [{"name": "a"}, {"name": "b"}]},
        {"critics": [{"name": "a"}], "answer": ANSWER, "sources": {"l": LEASE}},
    ],
    ids=["written", "given"],
)
def test_critique_passes_check_pattern(options: dict[str, Any]) -> None:
    check_pattern(critique(name="x", **options), max_examples=5)
