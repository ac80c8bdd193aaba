"""Options and debate files: the resulting plans, and the errors for invalid ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.errors import BadFile, ConfigurationError, FlowDebateError
from flowdebate.patterns import PATTERNS
from flowdebate.ui.files import read_plan_file
from flowdebate.ui.options import parse_entry
from flowdebate.ui.plan import make_plan

DEBATE = PATTERNS["debate"]
TOML = """
question = "Cap rents?"
max_rounds = 3
moderator = true
model = "ollama/gemma3"
instructions = "Be brief."
seed = 7

[[debaters]]
name = "anna"
stance = "cap rents"
role = "tenant"

[[debaters]]
name = "ben"
stance = "free rents"
model = "ollama/qwen3"

[output_schema]
type = "object"
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Invalid debate file with its error."""

    id: str
    text: str
    message: str
    name: str = "debate.toml"


SIDES = 'debaters = [{name = "a", stance = "x"}, {name = "b", stance = "y"}]\n'
BAD = [
    Case(id="unknown key", text="round = 2", message="unknown key `round`. Did you mean "),
    Case(
        id="wrong type",
        text='max_rounds = "two"',
        message="`max_rounds` must be a whole number of at least 1 (got two)",
    ),
    Case(
        id="a bool is not an int",
        text="max_rounds = true",
        message="`max_rounds` must be a whole number of at least 1 (got true)",
    ),
    Case(id="no round", text="max_rounds = 0", message="`max_rounds` must be at least 1 (got 0)"),
    Case(id="blank question", text='question = " "', message="`question` must not be blank"),
    Case(id="moderator", text='moderator = "yes"', message="`moderator` must be true or false (got yes)"),
    Case(id="seed", text="seed = 1.5", message="`seed` must be a whole number (got 1.5)"),
    Case(id="debaters", text='debaters = "a=b"', message="`debaters` must be a list of tables with name and stance"),
    Case(id="debater", text='debaters = ["a=b"]', message="`debaters[0]` must be a table with name and stance"),
    Case(id="no stance", text='debaters = [{name = "a"}]', message="`debaters[0].stance` is required"),
    Case(id="name", text="debaters = [{name = 1}]", message="`debaters[0].name` must be text (got 1)"),
    Case(
        id="debater's key",
        text='debaters = [{nam = "a"}]',
        message="unknown key `debaters[0].nam`. Did you mean `name`?",
    ),
    Case(id="one side", text='debaters = [{name = "a", stance = "x"}]', message="`debaters` must be given at least"),
    Case(
        id="same name",
        text='debaters = [{name = "a", stance = "x"}, {name = "a", stance = "y"}]',
        message="`debaters[1].name` must differ from the name of debaters[0] (got a)",
    ),
    Case(id="model", text='model = "nobody/x"', message="`model` must be"),
    Case(id="debater's model", text='debaters=[{name="a",stance="x",model="no"}]', message="`debaters[0].model` must"),
    Case(id="base_url", text='model = "x"\nbase_url = "ftp://x"', message="`base_url` must begin with http"),
    Case(
        id="base_url with a password",
        text='model = "x"\nbase_url = "http://me:hunter2@[::1/v1"',
        message="got http://[::1/v1",
    ),
    Case(
        id="no model",
        text='base_url = "http://me:pw@x/v1"',
        message="model is required with base_url: specify a model on the server at http://x/v1",
    ),
    Case(
        id="schema is a list",
        text="output_schema = [1]",
        message="`output_schema` must be a JSON Schema, or the path of one",
    ),
    Case(id="schema", text='output_schema = {type = "nothing"}', message="`output_schema` must be a valid JSON Schema"),
    Case(id="no schema file", text='output_schema = "none.json"', message="none.json: cannot be read: No such file"),
    Case(
        id="schema, but no synthesizer",
        text='synthesizer = false\noutput_schema = {type = "object"}',
        message="`output_schema` cannot be combined with `synthesizer` switched off: only a synthesizer writes",
    ),
    Case(id="not TOML", text="question = \nx", message="is not valid TOML: Invalid value (at line 1, column 12)"),
    Case(id="not JSON", name="debate.json", text='{"a":\n x}', message="line 2, column 2: not valid JSON"),
    Case(id="NaN", name="debate.json", text='{"seed": NaN}', message="NaN is not a valid JSON number"),
    Case(id="no object", name="debate.json", text="[]", message="must contain a JSON object (got [])"),
    Case(id="deep JSON", name="debate.json", text="[" * 100_000, message="is nested too deeply"),
    Case(id="deep TOML", text="a = " + "[" * 100_000, message="is nested too deeply"),
    Case(
        id="huge number", name="debate.json", text='{"seed": 1' + "0" * 5000 + "}", message="is not valid JSON: Exceeds"
    ),
    Case(id="too large", text="# " + "x" * 1_000_000, message="is larger than 1 MB"),
    Case(id="YAML", name="debate.yaml", text="question: x", message="YAML files are not supported: write TOML or JSON"),
]


def build_plan(path: Path, **options: Any) -> Any:
    """Return the plan built from a file and some options."""
    return make_plan(DEBATE, {"question": None, **options}, file=str(path))


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_invalid_file_causes_one_error_that_names_file_and_key(case: Case, tmp_path: Path) -> None:
    path = tmp_path / case.name
    path.write_text(case.text)
    with pytest.raises((BadFile, ConfigurationError)) as caught:
        make_plan(DEBATE, {"question": None if "question" in case.text else "Why?"}, file=str(path))
    assert case.message in str(caught.value)
    assert "\n" not in str(caught.value)
    location = "command line" if "--model" in case.message else str(tmp_path)
    assert str(caught.value).startswith(location)


def test_plan_file_can_set_every_option(tmp_path: Path) -> None:
    path = tmp_path / "debate.toml"
    path.write_text(TOML)
    plan = build_plan(path)
    assert (plan.subject, plan.length, plan.options.moderator, plan.seed) == ("Cap rents?", 3, True, 7)
    assert [(side.name, side.stance, side.role, side.model) for side in plan.speakers] == [
        ("anna", "cap rents", "tenant", None),
        ("ben", "free rents", None, "ollama/qwen3"),
    ]
    assert (plan.models, plan.options.instructions) == (
        {"chat": "ollama/gemma3", "synthesize": "ollama/gemma3"},
        "Be brief.",
    )
    assert plan.options.synthesizes
    assert plan.schema.validate({"x": 1}) == {"x": 1}


def test_json_and_toml_plans_are_equivalent(tmp_path: Path) -> None:
    """The file's suffix determines which of the two formats is parsed."""
    toml, also = tmp_path / "debate.toml", tmp_path / "debate.JSON"
    toml.write_text(TOML)
    also.write_text(json.dumps(read_plan_file(str(toml))))
    assert read_plan_file(str(also)) == read_plan_file(str(toml))


def test_options_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "debate.toml"
    path.write_text(TOML)
    plan = build_plan(
        path,
        question="Why?",
        max_rounds=1,
        moderator=False,
        model={"synthesize": "local"},
        debaters=["c=one", "d=two=2"],
    )
    assert (plan.subject, plan.length, plan.options.moderator, plan.seed) == ("Why?", 1, False, 7)
    assert [(side.name, side.stance) for side in plan.speakers] == [("c", "one"), ("d", "two=2")]
    assert plan.models == {"chat": "ollama/gemma3", "synthesize": "local"}


def test_schema_paths_are_relative_to_the_plan_file(tmp_path: Path) -> None:
    """A folder that contains both the plan and its schema can be moved as a whole."""
    (tmp_path / "answer.json").write_text('{"type": "object", "required": ["x"]}')
    path = tmp_path / "debate.toml"
    path.write_text('question = "Why?"\noutput_schema = "answer.json"')
    assert build_plan(path).schema.json_schema["required"] == ["x"]


def test_model_names_are_sent_unchanged_to_a_base_url() -> None:
    plan = make_plan(
        DEBATE, {"question": "Why?", "model": ["a/b", "synthesize=a/b"], "base_url": "http://127.0.0.1:1/v1"}
    )
    assert plan.models is not None
    assert plan.models["chat"] is plan.models["synthesize"]
    with pytest.raises(ConfigurationError, match="--model` cannot be local if a base URL is set"):
        make_plan(DEBATE, {"question": "Why?", "model": "local", "base_url": "http://127.0.0.1:1/v1"})


@given(st.text(), st.text())
def test_side_is_parsed_or_rejected(name: str, stance: str) -> None:
    """The first "=" in `name=stance` separates the two parts, which are otherwise kept unchanged."""
    try:
        side = parse_entry(f"{name}={stance}", "--debater", key="stance", needed=True)
    except ConfigurationError as error:
        assert error.field == "--debater"  # noqa: PT017 - it may also not be raised
    else:
        line = f"{name}={stance}"
        assert side == {"name": line.split("=", maxsplit=1)[0].strip(), "stance": line.split("=", 1)[1].strip()}
        assert all(side.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["debate"], 'Give a question, for example: flowdebate debate "Should we cap rents?"'),
        (["debate", " "], "QUESTION must not be blank"),
        (["debate", "Q", "--debater", "pro"], "--debater must be NAME=STANCE (got pro)"),
        (["debate", "Q", "--debater", "a=b"], '--debater must be given at least twice (got ["a"])'),
        (["debate", "Q", "--debater", "=b"], "--debater must be NAME=STANCE (got =b)"),
        (["debate", "Q", "--max-rounds", "0"], "--max-rounds must be at least 1 (got 0)"),
        (["debate", "Q", "--model", "\x1b[2J"], "--model must be"),
        (["debate", "Q", "--file", "none\x1b.toml"], "none\\x1b.toml: cannot be read: No such file"),
        (["debate", "Q", "--output-schema", "."], ".: cannot be read: Is a directory"),
        (["debate", "Q", "--markdown", "no/folder/x.md"], "no/folder/x.md: cannot be written: there is no folder"),
        (["debate", "Q", "--markdown", "."], ".: cannot be written: it is a folder"),
        (["debate", "Q\ud800"], "QUESTION must be valid Unicode"),
    ],
)
def test_misuse_prints_one_line_and_exits_with_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "plan", "suggestion"),
    [
        (["--modell", "x"], "", "--model"),
        (["--model", "openai:gpt-5-mini"], "", "Did you mean openai/gpt-5-mini?"),
        (["--fallback", "openai:gpt-5-mini"], "", "Did you mean openai/gpt-5-mini?"),
        ([], 'modle = "local"', "Did you mean `model`?"),
        (["--model", "judgde=local", "--debater", "a=x", "--debater", "b=y"], "", "Did you mean judge?"),
        ([], 'model = "opnai/gpt-5"', "Did you mean openai/gpt-5?"),
        ([], '[[debaters]]\nname = "a"\nstanse = "x"', "Did you mean `stance`?"),
        ([], '[[debaters]]\nname = "a"\nstance = "x"\nmodel = "openai:gpt-5"', "Did you mean openai/gpt-5?"),
    ],
    ids=str,
)
def test_typos_get_a_suggestion(arguments: list[str], plan: str, suggestion: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(plan)
    result = CliRunner().invoke(app, ["debate", "Q?", "--file", str(path), "--no-store", *arguments])
    assert result.exit_code == 2
    assert suggestion in result.stderr


@given(
    st.dictionaries(
        st.sampled_from(["question", "debaters", "max_rounds", "model", "output_schema", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "stance", "model"]), inner)
            ),
            max_leaves=5,
        ),
    )
)
def test_any_file_yields_a_plan_or_raises_a_library_error(settings: dict[str, Any]) -> None:
    """Whatever a file contains, every exception raised must be one of the library's own."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(settings, file)
        file.flush()
        try:
            plan = make_plan(DEBATE, {"question": "Should we ship?"}, file=file.name)
        except FlowDebateError as error:
            # the error names the file itself or the schema file that it refers to
            assert str(Path(file.name).parent) in str(error)  # noqa: PT017 - it may also not be raised
        else:
            assert len(plan.speakers) >= 2
