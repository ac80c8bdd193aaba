"""Commands of the other patterns: documents, files, limits, failures and signals."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS
from flowdebate.patterns.handoff.page import HandoffPlanOptions
from flowdebate.ui.plan import make_plan

from .siblings import VERBS, build_document, serve_stage
from .stage import PATIENCE, OnTerminal, Stage, start_on_pipes

if TYPE_CHECKING:
    from typer.testing import Result

each_verb = pytest.mark.parametrize("verb", VERBS)
OWN_PAGES = {
    "audit": "judges.md#From the command line",
    "batch": "batch.md#On the command line",
    "compare": "compare.md#From the command line",
    "critic": "critique.md#Is it worthwhile with your models?",
    "benefit": "evaluate.md#On the command line",
    "leaderboard": "judges.md#A leaderboard from the command line",
    "study": "evaluate.md#Study files",
}
"""Commands whose options are documented on the page for their task, given as page#heading."""
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
_TOP: Any = get_command(app)
GROUPS = ("runs", "eval")
COMMANDS = {
    **{name: command for name, command in _TOP.commands.items() if name not in GROUPS},
    **{name: command for group in GROUPS for name, command in _TOP.commands[group].commands.items()},
}
SECTIONS = {name: f"runs {name}" for name in _TOP.commands["runs"].commands if name not in _TOP.commands}
SECTIONS["list"] = "runs"
"""Headings of the commands' sections, if they differ from the command names."""
TURNS = {"handoff": ("--transition", "text")}
"""Options that make a pattern request text answers, so that a stage can delay them."""


def run_pattern(on: Stage, verb: str, *more: str) -> Result:
    """Run a pattern's command on the stage, in this process."""
    options = (*VERBS[verb][1], *more)
    return CliRunner(env={"FORCE_COLOR": "1"}).invoke(app, on.options(*options, verb=verb), catch_exceptions=False)


def sorted_lines(page: str) -> list[str]:
    """Return the lines of a page without times and ids, sorted because speakers may be simultaneous."""
    return sorted(
        filter(None, re.sub(r"Time: .*? s|Run: \w+|^Model: .*| · flowdebate show \w+", "", page).splitlines())
    )


@each_verb
def test_rendered_json_document_matches_the_run(verb: str, tmp_path: Path) -> None:
    """Only the document goes to stdout, and rendering it later gives the same page and report as the run itself."""
    report, markdown = tmp_path / "report.md", tmp_path / "again.md"
    with serve_stage() as on:
        result = run_pattern(on, verb, "--json", "--markdown", str(report))
    with serve_stage() as on:
        plain = run_pattern(on, verb, "--seed", str(json.loads(result.stdout)["seed"]))
    assert (result.exit_code, result.stderr, plain.exit_code, plain.stderr) == (0, "", 0, "")
    document = json.loads(result.stdout)
    assert (document["pattern"], document["status"]) == (VERBS[verb][0], "complete")
    assert document["usage"]["calls"] == len(on.bodies)
    page = CliRunner().invoke(app, ["runs", "render", "-", "--markdown", str(markdown)], input=result.stdout)
    assert sorted_lines(page.stdout) == sorted_lines(plain.stdout)
    assert "\x1b" not in plain.stdout
    assert markdown.read_text() == report.read_text()
    assert "Homes first" in report.read_text() or verb == "handoff"


@each_verb
def test_bare_raw_output_is_assigned_to_its_pattern(verb: str, tmp_path: Path) -> None:
    """Keys in camel case and in snake case are recognized even if the output is not inside a document."""
    path = tmp_path / "raw.json"
    value = build_document("Homes first.")[VERBS[verb][0]]["raw"]
    pages = []
    for keys in (value, _snake(value)):
        path.write_text(json.dumps(keys))
        result = CliRunner().invoke(app, ["runs", "render", str(path)], catch_exceptions=False)
        assert (result.exit_code, result.stderr) == (0, "")
        pages.append(result.stdout)
    assert pages[0] == pages[1]
    assert "Homes first." in pages[0]


def _snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            re.sub(r"(?<=[a-z])[A-Z]", lambda m: f"_{m[0].lower()}", key): _snake(entry) for key, entry in value.items()
        }
    return [_snake(entry) for entry in value] if isinstance(value, list) else value


@each_verb
def test_plan_file_can_set_every_option(verb: str, tmp_path: Path) -> None:
    (key,) = {"debaters", "agents"} & set(_parameters(verb))
    subject = next(iter(_parameters(verb)))
    file = tmp_path / "plan.toml"
    persons = "\n".join(
        f'[[{key}]]\nname = "{name}"\nrole = "of {name}"\nsystem_prompt = "Say {name}-word."\nmodel = "{name}-model"'
        for name in ("ann", "bob")
    )
    file.write_text(f'{subject} = "Free rents?"\nmodel = "other"\n{persons}\n')
    names = {"next_agent_name": {"response": "Yes.", "next_agent_name": "bob"}}
    with serve_stage() as on:
        on.answers = {**on.answers, **names}
        run = ["--base-url", on.base_url, "--file", str(file), *VERBS[verb][1], "--json"]
        result = CliRunner().invoke(app, [verb, *run], catch_exceptions=False)
        models = {body["model"] for body in on.bodies}
        prompts = json.dumps(on.bodies)
    document = json.loads(result.stdout)
    assert {"ann-model", "bob-model"} <= models <= {"ann-model", "bob-model", "other"}
    assert all(word in prompts for word in ("ann-word", "bob-word", "Free rents?"))
    assert [agent["name"] for agent in document[key]] == ["ann", "bob"]
    assert document[key][0]["role"] == "of ann"
    with serve_stage() as on:
        more = (
            "--file",
            str(file),
            f"--{key.removesuffix('s')}",
            "eve=the new one",
            f"--{key.removesuffix('s')}",
            "kim",
        )
        result = run_pattern(on, verb, *more, "--json")
        assert {body["model"] for body in on.bodies} == {"staged"}
    assert json.loads(result.stdout)[key] == [{"name": "eve", "role": "the new one"}, {"name": "kim", "role": None}]


def _parameters(verb: str) -> list[str]:
    return [parameter.name for parameter in COMMANDS[verb].params]


@each_verb
def test_limit_ends_the_run_with_a_partial_result(verb: str) -> None:
    with serve_stage() as on:
        result = run_pattern(on, verb, "--max-calls", "1", "--json")
    with serve_stage() as on:
        plain = run_pattern(on, verb, "--max-calls", "1")
    assert (result.exit_code, plain.exit_code) == (3, 3)
    assert result.stderr.endswith(" --max-calls N\n")
    document = json.loads(result.stdout)
    assert document["status"] == document["raw"]["status"] == "limit"
    assert "calls=1" in document["error"]
    assert "Ended by a limit after " in plain.stdout


@each_verb
def test_failure_prints_one_message_and_keeps_the_transcript(verb: str) -> None:
    with serve_stage(broken=range(100)) as on:
        result = run_pattern(on, verb, "--attempts", "1", "--json")
    with serve_stage(broken=range(100)) as on:
        plain = run_pattern(on, verb, "--attempts", "1")
    assert (result.exit_code, plain.exit_code) == (1, 1)
    assert result.stderr.startswith("Error: ")
    assert json.loads(result.stdout)["status"] == "failed"
    assert "503" in result.stderr
    assert "Failed after 0 complete " in plain.stdout


@each_verb
def test_repeated_call_is_reported(verb: str) -> None:
    """The page says why there is no text and which of the simultaneous speakers is being called again."""
    with serve_stage(broken={0}) as on:
        plain = run_pattern(on, verb)
    assert plain.exit_code == 0
    who = {"deliberation": "(Optimist|Skeptic): ", "consensus": "(Planner|Maker|Guardian): "}.get(verb, "")
    assert re.search(rf"\n  \({who}the endpoint answered 503: overloaded; asking again\)", plain.stdout)


@each_verb
def test_recording_is_replayed_without_a_server(verb: str, tmp_path: Path) -> None:
    cassette = tmp_path / "cassette"
    options = ("--seed", "3", "--json")
    with serve_stage() as on:
        first = run_pattern(on, verb, *options, "--record", str(cassette))
        posts = len(on.bodies)
    replayed = CliRunner().invoke(app, [verb, "Cap rents?", *VERBS[verb][1], *options, "--replay", str(cassette)])
    assert (first.exit_code, replayed.exit_code) == (0, 0)
    raws = [json.loads(result.stdout)["raw"] for result in (first, replayed)]
    for raw in raws:
        raw.get("analytics", {}).pop("seconds", None)
    assert raws[0] == raws[1]
    assert len(cassette.read_text().splitlines()) == 1 + posts


@each_verb
def test_transcript_is_kept_after_ctrl_c(verb: str, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    options = (*VERBS[verb][1], *TURNS.get(verb, ()), "--markdown", str(report))
    with serve_stage(hold=(1, 1)) as on, OnTerminal(*on.options(*options, verb=verb)) as terminal:
        terminal.until("Homes first.")
        on.wait_for_turn(2)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert re.search(r"Interrupted after \d complete ", terminal.screen)
    assert "Traceback" not in terminal.seen
    assert "Homes first." in report.read_text()
    assert "- Status: interrupted" in report.read_text()


@pytest.mark.parametrize("verb", ["deliberation", "consensus"])
def test_terminated_run_still_writes_its_document(verb: str) -> None:
    options = (*VERBS[verb][1], *TURNS.get(verb, ()), "--json")
    with serve_stage(hold=(0, 0)) as on, start_on_pipes(*on.options(*options, verb=verb)) as process:
        on.wait_for_turn(1)
        process.terminate()
        stdout, stderr = process.communicate(timeout=PATIENCE)
    document = json.loads(stdout)
    assert (process.returncode, document["status"]) == (143, "interrupted")
    assert stderr.decode() == f"To resume: flowdebate resume {document['runId'][:8]}\n"
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=stdout)
    assert (rendered.exit_code, rendered.stderr) == (0, "")
    assert "Interrupted after " in rendered.stdout


MISUSE = [
    (["deliberation"], 'Give a topic, for example: flowdebate deliberation "'),
    (["deliberation", "Q", "--debater", "a"], '--debater must be given at least twice (got ["a"])'),
    (["deliberation", "Q", "--debater", "a="], "--debater must be NAME or NAME=ROLE (got a=)"),
    (["deliberation", "Q", "--report", "json"], "--report must be structured or text (got json)"),
    (["handoff", "Q", "--first", "nobody"], "--first must be Proponent, Opponent"),
    (
        ["handoff", "Q", "--transition", "sign"],
        "--transition must be text, tool or structured (got sign)",
    ),
    (["handoff", "Q", "--max-turns", "0"], "--max-turns must be at least 1 (got 0)"),
    (["round-robin", "Q", "--debater", "a", "--debater", "A"], "differ from the name of debaters[0]"),
    (["round-robin", "Q", "--output-schema", "none.json"], "none.json: cannot be read: No such file"),
    (["consensus", "Q", "--hub", "Maker"], "`--hub` requires `--topology` star: no other topology has a hub"),
    (["consensus", "Q", "--topology", "star", "--hub", "x"], "--hub must be"),
    (["consensus", "Q", "--convergence", "2"], "--convergence must be a number between 0 and 1, or off"),
    (["consensus", "Q", "--convergence", "yes"], "--convergence must be a number between 0 and 1, or off"),
    (["consensus", "Q", "--min-votes", "4"], "`--min-votes` cannot be more than the number of `--agent`"),
    (["consensus", "Q", "--turn-timeout", "0"], "--turn-timeout must be a number of seconds greater than 0, or off"),
    (["consensus", "Q", "--sparsity", "2"], "--sparsity must be between 0 and 1 (got 2.0)"),
    (["consensus", "Q", "--voting", "loud"], "--voting must be majority, supermajority"),
]


@pytest.mark.parametrize(("arguments", "message"), MISUSE, ids=[" ".join(arguments) for arguments, _ in MISUSE])
def test_misuse_is_reported_in_one_line_with_the_option(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, [*arguments, "--model", "local"] if len(arguments) > 1 else arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


BAD = [
    ("deliberation", 'question = "x"', "unknown key `question`. Valid keys: "),
    (
        "deliberation",
        'debaters = [{role = "x"}]',
        "`debaters[0]` must be a model name, or a table with a `name` or `model` key (got",
    ),
    (
        "deliberation",
        'debaters = [{name = "x", stance = "y"}]',
        "unknown key `debaters[0].stance`. Valid keys: name, role",
    ),
    ("handoff", 'judge = "x/y"', "unknown key `judge`. Valid keys: "),
    ("consensus", 'on_failure = "retry"', "`on_failure` must be fail or skip (got retry)"),
    ("consensus", "weights = {Maker = 2}", "`weights` requires `voting` weighted"),
    (
        "consensus",
        'voting = "weighted"\nweights = {x = 2}',
        "`weights` contains an unknown agent (got x). Choose Planner",
    ),
    ("consensus", "convergence = true", "`convergence` must be a number between 0 and 1, or off"),
    ("round-robin", "referee = 1", "`referee` must be true or false (got 1)"),
    (
        "round-robin",
        'synthesizer = false\noutput_schema = {type = "object"}',
        "`output_schema` cannot be combined with `synthesizer` switched off: only a synthesizer writes an output",
    ),
]


@pytest.mark.parametrize(("verb", "text", "message"), BAD, ids=[f"{verb}: {text}" for verb, text, _ in BAD])
def test_invalid_file_is_reported_in_one_line_with_its_key(verb: str, text: str, message: str, tmp_path: Path) -> None:
    """Even if only the pattern can tell that a value is invalid, the error names the file and the key."""
    path = tmp_path / "plan.toml"
    path.write_text(text)
    result = CliRunner().invoke(app, [verb, "Q", "--model", "local", "--file", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}: {message}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_pattern_errors_name_the_source_of_the_option(tmp_path: Path) -> None:
    """The error names the user's command-line option or plan-file key instead of the pattern's field.

    Errors about other fields are unchanged.
    """
    path = tmp_path / "plan.toml"
    path.write_text("max_turns = 3")
    options = HandoffPlanOptions.read({"first": "Ann"}, file=str(path))
    fields = {"first": "first", "max_turns": "max_turns"}
    with (
        pytest.raises(ConfigurationError, match=r"^command line: `--first` x \(got 1\)$"),
        options.placing(fields),
    ):
        raise ConfigurationError("handoff", "first", 1, "x")
    with (
        pytest.raises(ConfigurationError, match=rf"^{re.escape(str(path))}: `max_turns\[0\]` x"),
        options.placing(fields),
    ):
        raise ConfigurationError("handoff", "max_turns[0]", 1, "x")
    with pytest.raises(ConfigurationError, match=r"^handoff: `name` x"), options.placing(fields):
        raise ConfigurationError("handoff", "name", 1, "x")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("x\x1b", "must be debate, deliberation, handoff"),
        (3, "must be debate, deliberation, handoff"),
        (None, "is required: debate, deliberation, handoff"),
        ("debte", "is unknown: debte. Did you mean debate?"),
    ],
)
def test_unknown_pattern_in_a_document_causes_one_error(pattern: object, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text(json.dumps({"pattern": pattern, "raw": {}}))
    result = CliRunner().invoke(app, ["runs", "render", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"`pattern` {problem}" in result.stderr
    assert "\x1b" not in result.stderr


def test_plan_files_in_the_docs_are_valid(tmp_path: Path) -> None:
    """Each TOML block in the docs is accepted by the command it is meant for."""
    fences = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (tmp_path / "answer.json").write_text('{"type": "object"}')
    path = tmp_path / "plan.toml"
    assert len(fences) == 2
    for fence in fences:
        path.write_text(fence)
        plan = make_plan(PATTERNS["deliberation" if "topic" in fence else "debate"], {}, file=str(path))
        assert (plan.subject, len(plan.speakers)) == ("Should our city build a tram?", 2)


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_is_documented_under_its_command(verb: str) -> None:
    page = DOCS.read_text("utf-8")
    shared = page.split("## Options of all patterns")[1].split("\n## ")[0]
    if verb in OWN_PAGES:
        name, heading = OWN_PAGES[verb].split("#")
        section = (DOCS.parent / name).read_text("utf-8").split(f"# {heading}\n")[1]
        section_text = re.split(r"\n##+ ", section)[0]
    else:
        section_text = page.split(f"\n## `flowdebate {SECTIONS.get(verb, verb)}`")[1].split("\n## ")[0]
    for parameter in COMMANDS[verb].params:
        for option in parameter.opts if parameter.param_type_name == "option" else []:
            assert f"`{option}" in section_text + shared, option
    flags = set(re.findall(r"^\| `(--[a-z-]+)", section_text, re.MULTILINE))
    assert flags <= {option for parameter in COMMANDS[verb].params for option in parameter.opts}
