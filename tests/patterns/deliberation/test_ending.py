"""How deliberations end, and how they decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.chassis.state import RoundsEnded
from flowdebate.errors import FlowDebateError, OutputError
from flowdebate.patterns.deliberation.schemas import DeliberationOutput, ModeratorReport
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.strategies import hostile_replies, hostile_values
from tests.patterns.debates import events

from .deliberations import SETTLED, TOPIC, by_role, deal, entries_of, report

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def test_moderator_settles_a_deliberation() -> None:
    result = deal().run_sync(TOPIC, model=by_role(reports=SETTLED))
    output = result.output
    assert (output.rounds, output.is_settled, output.final_decision) == (1, True, "Invest half.")
    assert (output.stop_reason, output.summaries, output.status) == ("settled", ["They agree."], "complete")
    assert [event.reason for event in events(result, RoundsEnded)] == ["settled"]
    assert result.raw == output


def test_summary_replaces_a_missing_decision() -> None:
    for summary in ("They agree.", ""):
        output = deal().run_sync(TOPIC, model=by_role(reports=report("SETTLED", None, summary))).output
        assert (output.is_settled, output.final_decision) == (True, summary)


@pytest.mark.parametrize("decision", [None, "Invest a quarter."])
def test_reaching_max_rounds_does_not_settle_a_deliberation(decision: str | None) -> None:
    """The decision in the last report, if it contains one, still becomes the final decision."""
    reports = iter([report(decision="Invest all."), report(decision=decision)])
    output = deal(max_rounds=2).run_sync(TOPIC, model=by_role(reports=lambda _: next(reports))).output
    assert (output.rounds, output.is_settled, output.stop_reason) == (2, False, "max_rounds")
    assert output.final_decision == decision
    assert [report_.status for report_ in output.reports] == ["CONTINUE", "CONTINUE"]


def test_deliberations_can_be_settled_in_the_last_round() -> None:
    output = deal(max_rounds=1).run_sync(TOPIC, model=by_role(reports=SETTLED)).output
    assert (output.is_settled, output.stop_reason) == (True, "settled")


def test_predicate_ends_a_deliberation_after_a_round() -> None:
    rounds: list[int] = []

    async def stop(ctx: Context) -> bool:
        state = ctx.sequencer.state
        rounds.append(state.round)
        return bool(state.report.decision == "Enough.")

    reports = iter([report(), report(decision="Enough.")])
    output = deal(terminate_when=stop).run_sync(TOPIC, model=by_role(reports=lambda _: next(reports))).output
    assert (output.stop_reason, output.is_settled, output.final_decision) == ("predicate", False, "Enough.")
    assert rounds == [1, 2]
    deal(terminate_when=stop).run_sync(TOPIC, model=by_role())
    assert rounds == [1, 2]


FORMS: list[Any] = [
    ModeratorReport(summary="They agree.", status="SETTLED", decision="Invest half."),
    SETTLED,
    "SUMMARY: They agree.\nSTATUS: SETTLED\nDECISION: Invest half.",
    "**Decision:** Invest half.\n\n## Status\nsettled\n\n## Summary\nThey agree.",
]


@pytest.mark.parametrize("value", FORMS, ids=["the model", "a dict", "lines", "markdown"])
def test_custom_moderators_can_report_in_any_form(value: Any) -> None:
    def moderate(topic: Any, ctx: Context) -> Any:
        assert topic.topic == TOPIC
        assert len(ctx.resources.transcript.state.entries) == 2
        return value

    output = deal(moderator=moderate).run_sync(TOPIC, model=by_role()).output
    assert output.reports == [FORMS[0]]
    assert output.final_decision == "Invest half."


def test_moderator_text_without_a_status_becomes_the_summary() -> None:
    output = deal(moderator=lambda _: "Go \ud800on.\0", max_rounds=1).run_sync(TOPIC, model=by_role()).output
    assert (output.summaries, output.is_settled) == (["Go \ufffdon."], False)


@pytest.mark.parametrize(
    "value", [None, 3, {}, {"summary": "x"}, {**SETTLED, "status": "settled"}, {**SETTLED, "mood": 1}, ["SETTLED"]]
)
def test_invalid_reports_raise_an_error_naming_the_block_and_field(value: Any) -> None:
    with pytest.raises(OutputError) as caught:
        deal(moderator=lambda _: value).run_sync(TOPIC, model=by_role())
    assert caught.value.block == "deal-moderator"
    assert caught.value.run is not None
    assert len(caught.value.run.raw.history) == 2


reports = st.builds(
    report,
    st.sampled_from(["SETTLED", "CONTINUE"]),
    st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
)


@given(st.lists(reports, min_size=4, max_size=4), st.integers(1, 4), st.booleans())
def test_output_is_determined_by_the_reports(
    report_values: list[dict[str, Any]],
    max_rounds: int,
    custom: bool,  # noqa: FBT001
) -> None:
    given_out = iter(report_values)
    options: dict[str, Any] = {"moderator": lambda _: next(given_out)} if custom else {}
    model = by_role(reports=lambda _: next(given_out))
    output = deal(max_rounds=max_rounds, **options).run_sync(TOPIC, model=model).output
    expected = [ModeratorReport(**values) for values in report_values[:max_rounds]]
    settled = [number for number, one in enumerate(expected, 1) if one.settled]
    rounds = settled[0] if settled else max_rounds
    last = expected[rounds - 1]
    assert (output.rounds, output.is_settled) == (rounds, bool(settled))
    assert output.stop_reason == ("settled" if settled else "max_rounds")
    assert output.reports == expected[:rounds]
    assert output.summaries == [one.summary for one in expected[:rounds]]
    assert output.final_decision == (last.summary if settled and last.decision is None else last.decision)
    assert len(output.history) == 2 * rounds
    for by_alias in (True, False):
        assert DeliberationOutput.model_validate_json(output.model_dump_json(by_alias=by_alias)) == output
    assert DeliberationOutput.model_validate(output.to_wire()) == output


@given(
    st.lists(hostile_replies(), min_size=1, max_size=4), st.integers(1, 3), st.sampled_from(["fail", "skip"]), st.data()
)
def test_deliberations_end_whatever_the_models_answer(
    replies: list[Any], max_rounds: int, on_failure: str, data: st.DataObject
) -> None:
    calls: list[str] = []

    def answer(request: Any) -> Any:
        calls.append(request.block)
        reply = replies[len(calls) % len(replies)]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def own(_: object) -> Any:
        value = data.draw(hostile_values())
        if isinstance(value, Exception):
            raise value
        return value

    options: dict[str, Any] = {"moderator": own} if data.draw(st.booleans()) else {}
    pattern = deal(max_rounds=max_rounds, on_failure=on_failure, quorum=1, **options)
    try:
        result = pattern.run_sync(TOPIC, model=FunctionModel(answer))
    except (FlowDebateError, Sabotage) as error:
        raw = error.run.raw if isinstance(error, FlowDebateError) else None
    else:
        raw = result.output
        assert raw.stop_reason in {"settled", "max_rounds"}
    assert len(calls) <= 3 * 9 * max_rounds  # each role may have up to eight rounds of tool calls
    if raw is not None:
        assert raw.rounds <= max_rounds
        assert [number for number, _, _ in entries_of(raw)] == sorted(number for number, _, _ in entries_of(raw))
        assert isinstance(raw.to_wire(), dict)


def test_output_records_the_seed_of_the_run() -> None:
    """Nothing but the seed is needed to repeat a recorded run."""
    model = ScriptedModel("A", "B", SETTLED)
    assert deal().run_sync(TOPIC, model=model, seed=11).output.seed == 11
