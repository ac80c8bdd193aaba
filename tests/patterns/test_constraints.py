"""Options that cannot be combined, with the same message in all front ends."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate import BaselineOptions, FailurePolicy, JudgeOptions, TopologyOptions, VotingOptions
from flowdebate.cli.app import app
from flowdebate.errors import ConflictingOptions
from flowdebate.mcp import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flowdebate.chassis.options import Constraint
    from tests.server.stage import Stage

SUBJECT = "Should rents be capped?"
PHASES = [{"name": "opening"}, {"name": "closing"}]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


@dataclass(frozen=True)
class Case:
    """Options that violate a constraint, given as Python arguments, in a plan file and as flags."""

    python: Mapping[str, Any]
    plan: Mapping[str, Any]
    flags: tuple[str, ...] | None = field(default=())
    """Flags for the case; None if one of the options has no flag."""


SIDES = [{"name": "ann", "stance": "Yes"}, {"name": "ben", "stance": "No"}]
PEOPLE = [{"name": "ann"}, {"name": "ben"}]
CASES: dict[tuple[str, str], Case] = {
    ("debate", "order of a mirror"): Case(
        {"mirror": True, "turn_order": "simultaneous"},
        {"mirror": True, "turn_order": "simultaneous"},
        ("--mirror", "--turn-order", "simultaneous"),
    ),
    ("debate", "rounds of phases"): Case(
        {"phases": PHASES, "max_rounds": 3}, {"phases": PHASES, "max_rounds": 3}, None
    ),
    ("debate", "decision of an audience"): Case(
        {"audience": ["a nurse"], "judge": "swap"},
        {"audience": ["a nurse"], "schedule": "swap"},
        ("--audience", "a nurse", "--schedule", "swap"),
    ),
    ("debate", "budget of baselines"): Case(
        {"baselines": BaselineOptions(["single"], equal="calls")}, {"equal": "calls"}, ("--equal", "calls")
    ),
    ("debate", "person who judges a mirror"): Case(
        {"mirror": True, "judge": JudgeOptions(schedule="swap", on_flip="human")},
        {"mirror": True, "schedule": "swap", "on_flip": "human"},
        ("--mirror", "--schedule", "swap", "--on-flip", "human"),
    ),
    ("debate", "writer of the output"): Case(
        {"output_schema": SCHEMA, "synthesizer": False}, {"output_schema": SCHEMA, "synthesizer": False}, None
    ),
    ("round_robin", "writer of the output"): Case(
        {"output_schema": SCHEMA, "synthesizer": False}, {"output_schema": SCHEMA, "synthesizer": False}, None
    ),
    ("consensus", "hub of a star"): Case(
        {"topology": TopologyOptions("ring", hub="ann")},
        {"topology": "ring", "hub": "Maker"},
        ("--topology", "ring", "--hub", "Maker"),
    ),
    ("consensus", "weights of a weighted vote"): Case(
        {"voting": VotingOptions("unanimous", weights={"ann": 2})},
        {"voting": "unanimous", "weights": {"Maker": 2}},
        None,
    ),
    ("consensus", "votes of all agents"): Case(
        {"voting": VotingOptions(min_votes=3)},
        {"agents": [{"name": "ann"}, {"name": "ben"}], "min_votes": 3},
        ("--agent", "ann", "--agent", "ben", "--min-votes", "3"),
    ),
    **{
        (pattern, "quorum of all members"): Case(
            {"failures": FailurePolicy(quorum=3)}, {"quorum": 3, roster: members}, (*flags, "--quorum", "3")
        )
        for pattern, (roster, members, flags) in {
            "debate": ("debaters", SIDES, ("--debater", "ann=Yes", "--debater", "ben=No")),
            "deliberation": ("debaters", PEOPLE, ("--debater", "ann", "--debater", "ben")),
            "round_robin": ("debaters", PEOPLE, ("--debater", "ann", "--debater", "ben")),
            "consensus": ("agents", PEOPLE, ("--agent", "ann", "--agent", "ben")),
            "council": ("members", PEOPLE, ("--member", "ann", "--member", "ben")),
            "review": ("reviewers", PEOPLE, ("--reviewer", "ann", "--reviewer", "ben")),
            "critique": ("critics", PEOPLE, ("--critic", "ann", "--critic", "ben")),
        }.items()
    },
}
"""A case for each constraint declared by a pattern."""
ROSTERS = {
    "debate": ("debaters", SIDES),
    "deliberation": ("debaters", PEOPLE),
    "round_robin": ("debaters", PEOPLE),
    "consensus": ("agents", PEOPLE),
    "council": ("members", PEOPLE),
    "review": ("reviewers", PEOPLE),
    "critique": ("critics", PEOPLE),
}


def declared_constraints() -> Iterator[tuple[str, Constraint[Any]]]:
    """Yield each constraint with the name of its pattern."""
    for name in PATTERNS:
        spec = getattr(import_module(f"flowdebate.patterns.{name}.factory"), name.upper())
        for constraint in spec.constraints:
            yield name, constraint


DECLARED = list(declared_constraints())
EACH = pytest.mark.parametrize(
    ("pattern", "constraint"), DECLARED, ids=[f"{pattern}: {constraint.name}" for pattern, constraint in DECLARED]
)


def test_every_declared_constraint_has_a_case() -> None:
    assert {(pattern, constraint.name) for pattern, constraint in DECLARED} == set(CASES)


def expected_message(constraint: Constraint[Any], spelled: Mapping[str, str] | None = None) -> str:
    """Return a constraint's message, with options spelled the way the front end spells them."""
    names = {option: option for option in constraint.options} | dict(spelled or {})
    return constraint.sentence.format_map({option: f"`{name}`" for option, name in names.items()})


def typed_message(constraint: Constraint[Any], spelled: Mapping[str, str] | None = None) -> str:
    """Return a constraint's message, with values spelled as people type them rather than as Python literals."""
    return re.sub(r"'([\w-]+)'", r"\1", expected_message(constraint, spelled))


def flag_names(pattern: str, constraint: Constraint[Any]) -> dict[str, str]:
    """Return the flags that a pattern's command has for its options."""
    options = PATTERNS[pattern].load_page().options
    return {name: options.flag_of(name) for name in constraint.options if name in options.model_fields}


@EACH
def test_python_raises_an_error_for_each_violated_constraint(pattern: str, constraint: Constraint[Any]) -> None:
    roster, members = ROSTERS[pattern]
    with pytest.raises(ConflictingOptions) as caught:
        PATTERNS[pattern].load_factory()(name="rent", **{roster: members}, **CASES[pattern, constraint.name].python)
    assert str(caught.value) == f"{pattern} 'rent': {expected_message(constraint)}"
    assert caught.value.options == constraint.options


@EACH
def test_command_line_names_the_flags_that_violate_each_constraint(pattern: str, constraint: Constraint[Any]) -> None:
    flags = CASES[pattern, constraint.name].flags
    if flags is None:
        options = PATTERNS[pattern].load_page().options
        assert any(not options.flag_of(name).startswith("--") or name == "output_schema" for name in constraint.options)
        return
    command = [PATTERNS[pattern].verb, SUBJECT, "--model", "openai/gpt-5-mini", *flags]
    result = CliRunner().invoke(app, command, env={"OPENAI_API_KEY": "none", "COLUMNS": "500"})
    assert result.exit_code == 2, result.output
    assert typed_message(constraint, flag_names(pattern, constraint)) in " ".join(result.output.split())


@EACH
def test_plan_files_that_violate_a_constraint_are_rejected(
    pattern: str, constraint: Constraint[Any], tmp_path: Path
) -> None:
    plan = {"pattern": pattern, PATTERNS[pattern].subject: SUBJECT, **CASES[pattern, constraint.name].plan}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    command = ["run", str(path), "--model", "openai/gpt-5-mini"]
    result = CliRunner().invoke(app, command, env={"OPENAI_API_KEY": "none", "COLUMNS": "500"})
    assert result.exit_code == 2, result.output
    assert f"{path}: {typed_message(constraint)}" in " ".join(result.output.split())


@pytest.fixture(scope="module")
def server() -> Iterator[Stage]:
    """Start a server whose model answers immediately."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


@EACH
def test_http_returns_422_for_each_violated_constraint(
    server: Stage, pattern: str, constraint: Constraint[Any]
) -> None:
    options = dict(CASES[pattern, constraint.name].plan)
    answer = server.post("/runs", {"pattern": pattern, "question": SUBJECT, "options": options})
    assert answer.status_code == 422, answer.text
    assert typed_message(constraint) in answer.text.replace('\\"', '"')
    assert server.get("/runs").json()["runs"] == []


def test_mcp_rejects_a_quorum_above_the_number_of_members() -> None:
    async def refusal() -> Any:
        async with (
            Service(store="memory:", model=FunctionModel(answer_debate)) as service,
            Client(create_server(service)) as client,
        ):
            return await client.call_tool("start_council", {"question": SUBJECT, "quorum": 4})

    answer = asyncio.run(refusal())
    assert answer.is_error
    assert "`quorum` cannot be more than the number of `sides`" in answer.content[0].text


@EACH
def test_mcp_has_no_tool_with_conflicting_options(pattern: str, constraint: Constraint[Any]) -> None:
    plan = CASES[pattern, constraint.name].plan

    async def arguments_of() -> dict[str, set[str]]:
        async with (
            Service(store="memory:", model=FunctionModel(answer_debate)) as service,
            Client(create_server(service)) as client,
        ):
            return {tool.name: set(tool.input_schema["properties"]) for tool in (await client.list_tools()).tools}

    assert not [name for name, arguments in asyncio.run(arguments_of()).items() if plan.keys() <= arguments]
