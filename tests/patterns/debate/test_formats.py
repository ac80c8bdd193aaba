"""Debate formats: all built-in formats, and custom formats as a single declaration."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowdebate import AudienceVote, Debater, Format, Persona, Phase, add_format, consensus, debate
from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS
from flowdebate.patterns.debate.audience import verdict_of
from flowdebate.patterns.debate.formats import FORMATS, names_of
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from flowdebate.ui.plan import make_plan

SIDES = [Debater("pro", "Trams are better"), Debater("con", "Buses are better")]


def answer(request: Any) -> Any:
    """Answer as listeners who favor the first side, or as a judge who names no winner."""
    if request.output_schema is None:
        return f"{request.block} speaks."
    if "-audience" in request.block:
        sides = request.output_schema["properties"]["choice"]["enum"]
        return {"reason": "So it is.", "choice": sides["-before" in request.block]}
    return {"verdict": "Neither.", "winner": None, "reasoning": "Both had a point."}


def run_debate(format_: Any, **options: Any) -> Any:
    """Run a debate in the given format to its end."""
    known_format = FORMATS.get(format_) if isinstance(format_, str) else None
    members: Any = options.pop("debaters", None) or (known_format.members if known_format is not None else ()) or SIDES
    pattern = debate(name="city", debaters=members, format=format_, synthesizer=False, **options)
    return pattern.run_sync("Trams or buses?", model=FunctionModel(answer), seed=1)


@pytest.mark.parametrize("name", names_of("debate"))
def test_formats_run_all_of_their_phases(name: str) -> None:
    raw = run_debate(name).raw
    spoken = list(dict.fromkeys(entry.phase for entry in raw.transcript))
    assert spoken == [phase.name for phase in FORMATS[name].phases if isinstance(phase, Phase)]
    assert all(pair.answer is not None for pair in raw.cross_questions)
    assert len(FORMATS[name].purpose) < 120


def test_delphi_is_anonymous() -> None:
    prompts: list[str] = []

    def estimate(request: Any) -> Any:
        prompts.append(str(request.messages))
        match request.block.split("-")[1]:
            case "propose":
                return "35 hours, 30 to 40."
            case "criticize":
                return {"reasoning": "Sound.", "issues": [], "suggestions": [], "severity": 0.1}
            case "revise":
                return {"proposal": "34 hours, 30 to 38.", "position": "34", "enough": True}
            case _:
                return {"reasoning": "Clear.", "choice": "Expert 1", "confidence": 0.9}

    agents = [Persona("ada", "an economist"), Persona("bob")]
    study = consensus(name="hours", agents=agents, format="delphi", max_rounds=1)
    output = study.run_sync("How many hours a week in 2040?", model=FunctionModel(estimate)).output
    assert output.winner == "Expert 1"
    assert not [prompt for prompt in prompts if "ada" in prompt.split()]
    assert all("Delphi study" in prompt for prompt in prompts)


def test_side_that_swayed_more_of_the_audience_wins() -> None:
    """Both listeners favored buses before the debate and trams after it, and only changes of mind count."""
    raw = run_debate("oxford", audience=["a nurse", "a baker"]).raw
    assert raw.winner is not None
    assert raw.winner.debaters == ("pro",)
    assert raw.verdict.verdict == "The audience moved most toward: Trams are better (from 0 to 2 of 2 votes)."
    assert [(vote.before, vote.after) for vote in raw.audience] == [("Buses are better", "Trams are better")] * 2


def test_formats_do_not_include_an_audience() -> None:
    """Each listener costs two calls, so a debate has an audience only if the application asks for one."""
    assert not [name for name in FORMATS if FORMATS[name].audience]
    raw = run_debate("oxford").raw
    assert raw.audience == []
    assert raw.verdict is not None


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        ([("tea", "coffee"), ("coffee", "tea")], None),
        ([("tea", "tea")], None),
        ([("tea", "coffee"), (None, "tea")], "coffee"),
        ([], None),
    ],
)
def test_no_side_wins_if_equal_numbers_of_listeners_were_swayed(votes: Any, winner: str | None) -> None:
    """A listener whose first vote is missing does not count as swayed."""
    cast = [AudienceVote(voter="a nurse", before=before, after=after) for before, after in votes]
    assert verdict_of(cast, ["tea", "coffee"]).winner == winner


def test_custom_formats_need_only_one_declaration() -> None:
    """`debate()` accepts a custom format at once. All front ends accept it as soon as it has been registered."""
    trial = Format(name="mock_trial", purpose="Trying a case.", phases=["opening", Phase("questions", asks="pairs")])
    assert {entry.phase for entry in run_debate(trial).raw.transcript} == {"opening", "questions"}
    add_format(trial)
    try:
        plan = {"debaters": [{"name": side.name, "stance": side.stance} for side in SIDES], "format": "mock-trial"}
        plan_ = make_plan(PATTERNS["debate"], {}, file={"question": "Trams?", **plan})
        assert (plan_.length, plan_.usual_calls) == (2, 2 + 4 + 1)
        assert plan_.pattern().name == "debate"
    finally:
        del FORMATS["mock_trial"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format_": "rodeo"}, r"`format` must be oxford, .*, or a Format for debate \(got rodeo\)"),
        ({"format_": "delphi"}, "`format` must be oxford"),
        (
            {"format_": "oxford", "audience": ["a nurse"], "judge": "swap"},
            "`audience` cannot be combined with a `judge` or its options: the audience decides",
        ),
        (
            {"format_": "oxford", "debaters": [*SIDES, Debater("neither", "Walk")]},
            "must have 2 entries in the format oxford",
        ),
        ({"format_": "oxford", "audience": []}, "`audience` must be 1 to 100 listeners"),
    ],
)
def test_incompatible_options_are_rejected(options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_debate(**options)


def test_services_run_formats_by_name() -> None:
    asyncio.run(run_premortem())


async def run_premortem() -> None:
    """Run a premortem, a format that defines its own members, on a service."""
    async with Service(store="memory:", model=FunctionModel(answer)) as service:
        handle = await service.begin("debate", "Should we open a second shop?", options={"format": "premortem"})
        details = await service.wait(handle.run_id)
        assert details.document is not None
        raw = details.document.raw
    assert details.document.title == "Debate, premortem"
    assert details.document.to_data()["format"] == "premortem"
    assert {entry.agent_name for entry in raw.transcript} == {"People", "Facts", "World"}
