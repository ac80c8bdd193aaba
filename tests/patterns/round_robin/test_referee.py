"""The referee of a panel, whose audits inform later rounds but affect neither the order nor the length of the panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Persona, handler, round_robin
from flowdebate.chassis.state import RoundStarted, TurnStarted
from flowdebate.errors import (
    ConfigurationError,
    ConnectionLost,
    FlowDebateError,
    OutputError,
    ResourceConflict,
    SchemaViolation,
)
from flowdebate.patterns.round_robin import (
    RefereeAudit,
    RefereeReport,
    RefereeReported,
    create_referee,
    create_round_robin_transcript,
)
from flowdebate.patterns.round_robin.referee import audit_of
from flowdebate.patterns.round_robin.schemas import Assessment
from flowdebate.runs.events import RunFinished
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.strategies import arguments, hostile_replies, hostile_values, names
from tests.patterns.debates import blocks_asked, events, turn_of

from .panels import NAMES, PANEL, QUESTION, REPORT, bridge, by_role, entries_of, refereed

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

KEPT = RefereeAudit(
    round=1, assessments=[Assessment(agent_name="ada", issues=["no figures"], score=40)], notes="Give figures."
)


def test_rounds_are_audited_after_their_turns() -> None:
    model = ScriptedModel("A1", "B1", REPORT, "A2", "B2", {"assessments": [], "notes": "Better."})
    result = bridge(**refereed()).run_sync(QUESTION, model=model)
    assert blocks_asked(model) == [*(["bridge-debater-ada", "bridge-debater-ben", "bridge-referee"] * 2)]
    assert result.output.audits == [KEPT, RefereeAudit(round=2, notes="Better.")]
    assert [event.audit for event in events(result, RefereeReported)] == result.output.audits
    model.assert_complete()


def test_referee_sees_all_entries_and_its_earlier_audits() -> None:
    model = ScriptedModel("A1", "B1", REPORT, "A2", "B2", REPORT)
    bridge(**refereed(max_rounds=2)).run_sync(QUESTION, model=model)
    first, second = (turn_of(call) for call in model.calls if call.block == "bridge-referee")
    assert "[ada, economist] A1\n[ben, engineer] B1" in first
    assert "Referee" not in first
    assert "Referee: Give figures.\nReferee on [ada]: 40 of 100; no figures\nRound 2:" in second
    assert second.endswith("Round 2 of at most 2 is over. Assess what these members said in round 2: ada, ben")


def test_later_panelists_see_earlier_audits() -> None:
    """Each audit is added after its round, so the prompt's beginning stays the same from round to round.

    Each panelist is reminded of the findings about its own last turn.
    """
    model = ScriptedModel("A1", "B1", REPORT, "A2", "B2", REPORT)
    bridge(**refereed()).run_sync(QUESTION, model=model)
    ada_1, ben_1, _, ada_2, ben_2, _ = (turn_of(call) for call in model.calls)
    audited = "[ben, engineer] B1\nReferee: Give figures.\nReferee on [ada]: no figures"
    assert "Referee" not in ada_1 + ben_1
    assert audited in ada_2
    assert audited in ben_2
    assert "The referee raised these issues about your last turn: no figures." in ada_2
    assert "The referee found" not in ben_2
    transcript = ben_2.partition("\n\n")[0]
    assert transcript.startswith(ada_2.partition("\n\n")[0])
    assert transcript.startswith(ben_1.partition("\n\n")[0])


def test_prompts_mention_a_referee_only_if_there_is_one() -> None:
    """With a referee, the system message explains which lines the referee wrote."""
    with_one, without = ScriptedModel(*"AB", REPORT), ScriptedModel(*"AB")
    bridge(max_rounds=1, **refereed()).run_sync(QUESTION, model=with_one)
    bridge(max_rounds=1).run_sync(QUESTION, model=without)
    assert 'starts with "Referee"' in with_one.calls[0].prompt
    assert "referee" not in without.calls[0].prompt.casefold()


def test_default_referee_schema_lists_the_panel() -> None:
    """The issues come before the score in the schema, because a model should give its reasons first.

    An enum restricts the names to those of the panelists.
    """
    model = ScriptedModel(*"AB", REPORT)
    bridge(max_rounds=1, **refereed()).run_sync(QUESTION, model=model)
    schema = model.calls[2].output_schema
    assert schema is not None
    assert list(schema["properties"]) == ["assessments", "notes"]
    assessment = schema["$defs"]["Assessment"]
    assert list(assessment["properties"]) == ["agentName", "issues", "score"]
    assert assessment["properties"]["agentName"]["enum"] == list(NAMES)
    limits = [schema["properties"]["assessments"][key] for key in ("minItems", "maxItems")]
    assert limits == [len(NAMES)] * 2


@pytest.mark.parametrize("form", ["model", "snake", "camel", "audit"])
def test_functions_can_be_referees(form: str) -> None:
    report = RefereeReport.model_validate(REPORT)

    async def audit(value: Any, ctx: Context) -> Any:
        assert value.question == QUESTION
        assert ctx.sequencer.state.round == 1
        return {
            "model": report,
            "snake": report.model_dump(),
            "camel": report.model_dump(by_alias=True),
            "audit": RefereeAudit(round=9, notes=report.notes, assessments=report.assessments),
        }[form]

    result = bridge(max_rounds=1, referee=audit).run_sync(QUESTION, model=by_role())
    assert result.output.audits == [KEPT]


def test_custom_referees_read_the_shared_transcript() -> None:
    transcript = create_round_robin_transcript()

    @handler(name="counting", resources={"transcript": transcript})
    def counting(_: object, ctx: Context) -> dict[str, str]:
        return {"notes": f"{len(ctx.resources.transcript.state.entries)} so far"}

    result = bridge(referee=counting, transcript=transcript).run_sync(QUESTION, model=by_role())
    assert [audit.notes for audit in result.output.audits] == ["2 so far", "4 so far"]
    with pytest.raises(ResourceConflict, match="transcript=transcript"):
        bridge(referee=counting)


def test_invalid_reports_raise_an_error_naming_the_block_and_field() -> None:
    """An invalid output from a custom block is an error in the application."""
    with pytest.raises(OutputError) as caught:
        bridge(referee=lambda _: {"assessments": [{"agent_name": "ada", "score": 101}]}).run_sync(
            QUESTION, model=by_role()
        )
    assert caught.value.block == "bridge-referee"
    assert [field for field, _ in caught.value.problems] == ["assessments.0.score", "notes"]


def test_referees_without_a_valid_report_count_as_failures() -> None:
    """With the policy "fail", the run raises an error. By default, the round has no audit, and the panel continues."""
    bad = {"assessments": "all fine", "notes": 3}
    with pytest.raises(SchemaViolation):
        bridge(on_failure="fail", **refereed()).run_sync(QUESTION, model=by_role(report=bad))
    result = bridge(**refereed()).run_sync(QUESTION, model=by_role(report=bad))
    assert len(result.output.transcript) == 4
    assert (result.output.audits, result.status) == ([], "degraded")
    assert [(loss.role, loss.round, loss.instead) for loss in result.output.losses] == [
        ("referee", 1, "no_report"),
        ("referee", 2, "no_report"),
    ]


def test_endless_reports_are_rejected() -> None:
    """A long report would be repeated in every later prompt.

    The model is therefore called again and told that its report is too long.
    """
    endless = {"assessments": [], "notes": "x" * 1_001}
    with pytest.raises(SchemaViolation, match="`notes` it has 1,001 characters, but at most 1,000 are allowed"):
        bridge(max_rounds=1, on_failure="fail", **refereed()).run_sync(QUESTION, model=ScriptedModel("A", "B", endless))


@pytest.mark.parametrize("none", ["", " ", "None", "no issues.", "N/A"])
def test_issues_called_none_are_dropped(none: str) -> None:
    """No panelist should be asked to fix "none"."""
    report = {"assessments": [{"agentName": "ada", "issues": [none, "No figures."], "score": 40}], "notes": "-"}
    output = bridge(max_rounds=1, **refereed()).run_sync(QUESTION, model=by_role(report=report)).output
    assert output.audits[0].assessments[0].issues == ["No figures."]


def test_unknown_and_repeated_names_are_dropped_and_reported() -> None:
    """Case and brackets around a name make no difference.

    If a panelist has several findings, only the first one counts.
    """
    scores = [("Zoe", 1), ("[ADA]", 90), ("ada", 5), ("ben", 60), ("Zoe", 2)]
    report = RefereeReport(notes="-", assessments=[Assessment(agent_name=name, score=score) for name, score in scores])
    audit = audit_of(report, round=3, spoke=NAMES)
    assert [(item.agent_name, item.score) for item in audit.assessments] == [("ada", 90), ("ben", 60)]
    assert (audit.dropped, audit.round) == (["Zoe", "ada"], 3)


def test_silent_panelists_are_not_assessed() -> None:
    """If a panelist's turn failed, there is nothing to assess."""
    report = {"assessments": [{"agentName": name, "issues": [], "score": 50} for name in NAMES], "notes": "-"}
    model = ScriptedModel(ConnectionLost("gone"), "B1", report)
    output = bridge(max_rounds=1, on_failure="skip", quorum=1, **refereed()).run_sync(QUESTION, model=model).output
    assert [assessment.agent_name for assessment in output.audits[0].assessments] == ["ben"]
    assert output.audits[0].dropped == ["ada"]


def test_default_referee_must_match_the_roster() -> None:
    with pytest.raises(ConfigurationError, match=r"`referee` must have roster_names=") as caught:
        bridge(**refereed(names=("ada", "zoe")))
    assert caught.value.got == ["ada", "zoe"]
    for roster in ([], [""], "ada", [1]):
        with pytest.raises(ConfigurationError, match="roster_names"):
            create_referee(name="x", roster_names=roster, transcript=create_round_robin_transcript())


words = arguments()
reports = st.fixed_dictionaries(
    {
        "assessments": st.lists(
            st.fixed_dictionaries(
                {
                    "agent_name": st.sampled_from(NAMES) | names(),
                    "issues": st.lists(words, max_size=3),
                    "score": st.integers(0, 100),
                }
            ),
            max_size=4,
        ),
        "notes": words,
    }
)
ORDER = [(number, name) for number in (1, 2, 3) for name in NAMES]


@given(reports=st.lists(reports, min_size=1, max_size=3))
def test_reports_affect_neither_the_speakers_nor_the_end_of_the_panel(reports: list[dict[str, Any]]) -> None:
    def audit(_: object, ctx: Context) -> Any:
        return reports[ctx.sequencer.state.round % len(reports)]

    output = bridge(max_rounds=3, referee=audit).run_sync(QUESTION, model=by_role()).output
    assert [(entry.round, entry.agent_name) for entry in output.transcript] == ORDER
    assert (output.stop_reason, [audit.round for audit in output.audits]) == ("max_rounds", [1, 2, 3])
    for audit_ in output.audits:
        assessed = [assessment.agent_name for assessment in audit_.assessments]
        assert set(assessed) <= set(NAMES)
        assert len(assessed) == len(set(assessed))


@given(replies=st.lists(hostile_replies() | reports, min_size=1, max_size=4))
def test_referee_models_affect_neither_the_speakers_nor_the_end_of_the_panel(replies: list[Any]) -> None:
    replies_sent: list[Any] = []

    def answer(_: object) -> Any:
        replies_sent.append(reply := replies[len(replies_sent) % len(replies)])
        return reply

    options = refereed(model=FunctionModel(answer))
    handle = None
    try:
        handle = bridge(max_rounds=3, on_failure="skip", **options).run_sync(QUESTION, model=by_role())
    except Sabotage:  # the test double raised this itself, like broken application code
        return
    output = handle.output
    assert [(entry.round, entry.agent_name) for entry in output.transcript] == ORDER
    assert output.stop_reason == "max_rounds"
    lost_rounds = [loss.round for loss in output.losses]
    assert sorted([*lost_rounds, *(audit.round for audit in output.audits)]) == [1, 2, 3]


@given(values=st.lists(hostile_values() | reports, min_size=1, max_size=3))
def test_hostile_referee_functions_do_not_end_a_panel_early(values: list[Any]) -> None:
    panelists = [Persona(panelist.name, block=lambda _: "said") for panelist in PANEL]

    def audit(_: object, ctx: Context) -> Any:
        value = values[(ctx.sequencer.state.round - 1) % len(values)]
        if isinstance(value, BaseException):
            raise value
        return value

    pattern = round_robin(name="any", debaters=panelists, max_rounds=3, referee=audit, synthesizer=False)
    try:
        run: Any = pattern.run_sync(QUESTION)
    except FlowDebateError as error:
        run = error.run
    except Sabotage:
        return
    spoken = [(event.round, event.agent_name) for event in events(run, TurnStarted)]
    assert spoken == ORDER[: 2 * len(events(run, RoundStarted))]
    assert run.status == ("complete" if spoken == ORDER and run.raw.stop_reason else "failed")
    assert isinstance(run.events[-1], RunFinished)
    assert entries_of(run.raw) == [(number, name, "said") for number, name in spoken]
