"""Documentation that mentions only what exists and covers everything public."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import shlex
import tomllib
from contextlib import suppress
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from typer import Exit
from typer.main import get_command

import flowdebate
from flowdebate import Debater, DebateRawOutput, debate, errors
from flowdebate.blocks.base import Block
from flowdebate.blocks.sequencer import Sequencer
from flowdebate.cli.app import app
from flowdebate.models import PROVIDERS, OpenAIModel
from flowdebate.models.local import gguf
from flowdebate.patterns.debate.schemas import StopReason
from flowdebate.runs.result import RunResult
from flowdebate.testing import FunctionModel, strategies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import BaseModel

    from flowdebate.testing import ModelRequest

SIBLING_OUTPUTS: dict[type[BaseModel], str] = {
    flowdebate.ConsensusOutput: "consensus",
    flowdebate.DeliberationOutput: "deliberation",
    flowdebate.HandoffOutput: "handoff",
    flowdebate.RoundRobinOutput: "round_robin",
}

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page: page.read_text("utf-8") for page in PAGES}
DOCS = "\n".join(TEXTS.values())

LANGUAGE = (
    *("durable run", "persist", "resume", "journal", "recorded answer", "retry", "attempt", "backoff", "fallback"),
    *("circuit breaker", "timeout", "provider failure", "skip", "stand-in", "degraded", "suspended run"),
    *("pending input", "role", "prompt", "template", "judge view", "order", "ballot", "schedule", "panel of judges"),
    *("round robin", "task board", "audit trail", "judge audit", "report", "plan", "benefit", "paired comparison"),
    *("decision rule", "max_concurrency"),
)
"""Terms used in code, errors and pages, which the glossary has to define."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """Return a page without its code fences and comments."""
    return _COMMENT.sub("", _FENCE.sub("", TEXTS[page]))


def tables(page: Path) -> list[list[str]]:
    """Return the cells of a page's tables, row by row."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in prose(page).splitlines()
        if line.startswith("| ")
    ]


def first_cells(page: str) -> set[str]:
    """Return the code in the first cells of a page's tables."""
    return {name for row in tables(ROOT / "docs" / page) for name in re.findall(r"`(\w+)", row[0])}


def options(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword-only options of a function with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {item.name: item.default for item in parameters if item.kind is item.KEYWORD_ONLY}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    titles = _HEADING.findall(_FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(program: str) -> Iterator[tuple[str, str]]:
    """Return the lines in shell fences that call `program`, with their page and with continued lines joined."""
    for page, text in TEXTS.items():
        for language, body in _FENCE.findall(text):
            if language in {"bash", "console", "sh", "shell"}:
                for line in body.replace("\\\n", " ").splitlines():
                    prompted = line.startswith("$ ")
                    command = line.removeprefix("$ ").strip()
                    if command.split(" ")[0] == program and (prompted or language != "console"):
                        yield page.name, command


def test_every_public_name_is_documented() -> None:
    missing = [name for name in dir(flowdebate) if not re.search(rf"\b{name}\b", DOCS)]
    assert missing == []


def test_every_error_and_warning_is_documented() -> None:
    page = TEXTS[ROOT / "docs" / "troubleshooting.md"]
    missing = [name for name in errors.__all__ if f"`{name}`" not in page]
    assert missing == []


def test_every_debate_option_is_listed_with_its_default() -> None:
    section = TEXTS[ROOT / "docs" / "debate.md"].split("## Options")[1].split("A `Debater` has")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE))
    assert list(rows) == list(options(flowdebate.debate))
    for name, default in options(flowdebate.debate).items():
        if default is inspect.Parameter.empty:
            assert rows[name] == "required", name
        elif not name.endswith("_visibility"):
            assert rows[name] in {f"`{default}`", f'`"{default}"`'}, name


@pytest.mark.parametrize("name", ["consensus", "deliberation", "handoff", "round_robin"])
def test_every_option_of_other_patterns_is_listed_with_its_default(name: str) -> None:
    """The first table under "Options" must agree with the signature."""
    page = TEXTS[ROOT / "docs" / f"{name}.md"]
    table = page.split("## Options")[1].split("| Option |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE))
    signature = options(getattr(flowdebate, name))
    assert list(rows) == list(signature)
    for option, default in signature.items():
        if default is inspect.Parameter.empty:
            assert rows[option] == "required", option
        elif not option.endswith("_visibility"):
            assert rows[option] in {f"`{default}`", f'`"{default}"`'}, option


@pytest.mark.parametrize("output", SIBLING_OUTPUTS, ids=lambda output: output.__name__)
def test_every_output_field_of_other_patterns_is_in_a_table(output: type[BaseModel]) -> None:
    assert set(output.model_fields) <= first_cells(f"{SIBLING_OUTPUTS[output]}.md")


@pytest.mark.parametrize("page", SIBLING_OUTPUTS.values())
def test_each_event_of_other_patterns_is_on_its_page(page: str) -> None:
    try:
        events_module = importlib.import_module(f"flowdebate.patterns.{page}.events")
    except ModuleNotFoundError:
        return  # this page describes events common to all patterns
    text = TEXTS[ROOT / "docs" / f"{page}.md"]
    kinds = [value.kind for value in vars(events_module).values() if isinstance(value, type) and hasattr(value, "kind")]
    assert [kind for kind in kinds if f"`{kind}`" not in text and f"`{kind}`" not in DOCS] == []


def test_every_field_of_a_debater_is_in_its_table() -> None:
    """The table lists the keys of a `Debater` and of its dict form."""
    assert {field.name for field in fields(flowdebate.Debater)} <= first_cells("debate.md")


def test_every_field_of_the_raw_output_is_in_its_table() -> None:
    """Readers of the wire format need an explanation of each key, and of each reason why a debate can end."""
    assert set(DebateRawOutput.model_fields) <= first_cells("debate.md")
    assert all(f'`"{reason}"`' in TEXTS[ROOT / "docs" / "debate.md"] for reason in get_args(get_args(StopReason)[0]))


@pytest.mark.parametrize(
    ("function", "page"),
    [
        (flowdebate.generator, "custom-blocks.md"),
        (flowdebate.sequencer, "custom-blocks.md"),
        (OpenAIModel, "models.md"),
    ],
    ids=["generator", "sequencer", "OpenAIModel"],
)
def test_every_option_of_a_constructor_is_in_a_table(function: Callable[..., Any], page: str) -> None:
    assert set(options(function)) - {"name"} <= first_cells(page)


def test_every_sequencer_method_is_in_its_table() -> None:
    verbs = {name for name, _ in inspect.getmembers(Sequencer, inspect.isfunction) if not name.startswith("_")}
    of_every_block = {name for name, _ in inspect.getmembers(Block, inspect.isfunction)}
    sequencer_verbs = verbs - of_every_block
    rows = [row[0] for row in tables(ROOT / "docs" / "custom-blocks.md") if "(" in row[0]]
    assert sequencer_verbs == {name for cell in rows for name in re.findall(r"`(\w+)\(", cell)}


def test_every_event_and_every_strategy_is_documented() -> None:
    event_names = [kind.__name__ for kind in get_args(flowdebate.Event)]
    assert [name for name in event_names if f"`{name}`" not in TEXTS[ROOT / "docs" / "service.md"]] == []
    documented = first_cells("testing.md") | set(re.findall(r"`(\w+)\(", TEXTS[ROOT / "docs" / "testing.md"]))
    public = {
        name for name, value in vars(strategies).items() if getattr(value, "__module__", "") == strategies.__name__
    }
    assert {name for name in public if name[0].islower() and name[0] != "_"} <= documented


def test_every_attribute_of_a_result_is_documented() -> None:
    public = {name for name, _ in inspect.getmembers(RunResult) if not name.startswith("_")}
    assert [name for name in sorted(public) if f"`{name}`" not in DOCS and f"result.{name}" not in DOCS] == []


def test_every_provider_is_in_the_table() -> None:
    rows = [row for row in tables(ROOT / "docs" / "models.md") if len(row) == 3]
    for name, provider in PROVIDERS.items():
        (row,) = [row for row in rows if f"`{name}`" in row[0].split(", ")]
        if provider.key_env is not None:
            assert row[1:] == [f"`{provider.key_env}`", f"`{provider.default}`"]


def test_documented_local_model_hash_is_checked() -> None:
    """A downloaded model is checked against the hash shown in the documentation."""
    assert gguf._SHA256 in TEXTS[ROOT / "docs" / "models.md"]
    assert f"as {gguf._PARTS} packages" in TEXTS[ROOT / "docs" / "models.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_are_valid(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_index_lists_every_page() -> None:
    index = TEXTS[ROOT / "docs" / "index.md"]
    pages = [page.name for page in PAGES if page.parent == ROOT / "docs" and page.name != "index.md"]
    assert [name for name in pages if f"({name})" not in index] == []


def test_every_term_is_in_the_glossary() -> None:
    glossary = TEXTS[ROOT / "docs" / "concepts.md"].split("## Glossary")[1]
    words = [row.strip("`") for row in re.findall(r"^\| ([^|]+) \| ", glossary, re.MULTILINE)][1:]
    assert [word for word in LANGUAGE if word not in words] == []
    assert words == sorted(words, key=lambda word: ("_" in word, word))


def test_every_benchmark_is_described() -> None:
    text = (ROOT / "scripts" / "benchmarks" / "run.py").read_text("utf-8")
    modules = set(re.findall(r"^import (\w+)$", text, re.MULTILINE))
    described = set(re.findall(r"^\| `(\w+)\.py` \|", TEXTS[ROOT / "docs" / "evidence.md"], re.MULTILINE))
    assert described == modules
    assert all((ROOT / "scripts" / "benchmarks" / f"{name}.py").exists() for name in described)


def test_documented_make_targets_exist() -> None:
    files = (ROOT / "Makefile", ROOT / "scripts" / "maintenance.mk")
    targets = re.findall(r"^([a-z0-9.%-]+):.*##", "\n".join(file.read_text("utf-8") for file in files), re.MULTILINE)
    named_targets = {command.split()[1] for _, command in commands("make")} | set(
        re.findall(r"`make ([a-z0-9.-]+)", DOCS)
    )
    assert {
        name for name in named_targets if not any(fnmatch(name, target.replace("%", "*")) for target in targets)
    } == set()
    assert {"debate", "test"} <= named_targets


def test_documented_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named_extras = {extra for group in re.findall(r"flowdebate\[([\w,-]+)\]", DOCS) for extra in group.split(",")}
    assert named_extras == set(project["optional-dependencies"])


def test_documented_commands_can_be_parsed() -> None:
    """Every `flowdebate …` command in a shell code block is parsed but not run."""
    program = get_command(app)
    shown_commands = list(commands("flowdebate"))
    for _, command in shown_commands:
        _, *arguments = shlex.split(command, comments=True)
        parse_arguments(program, arguments)
    assert shown_commands


def parse_arguments(program: Any, arguments: list[str]) -> None:
    """Let click parse `arguments`, including the subcommand, without running anything."""
    try:
        context = program.make_context("flowdebate", list(arguments))
        rest = [*context._protected_args, *context.args]
        name, command, remaining = program.resolve_command(context, rest)
        command.make_context(name, remaining, parent=context)
    except Exit as end:  # --help and --version exit as soon as they are parsed
        if end.exit_code:
            raise


def test_changelog_has_one_unreleased_section() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert sections.count("Unreleased") == 1


_HOP = re.compile(r"\[`(?:(\w+)\.)?(\w+)(?:\(\))?`\]\((\.\./src/[^)#]+)\)")


@pytest.mark.parametrize(
    ("owner", "name", "path"), _HOP.findall(TEXTS[ROOT / "docs" / "architecture.md"]), ids=lambda part: part or "-"
)
def test_architecture_links_lead_to_definitions(owner: str, name: str, path: str) -> None:
    source = (ROOT / "docs" / path).resolve().read_text("utf-8")
    assert re.search(rf"\b(def|class|function) {name}\b", source)
    assert not owner or re.search(rf"\bclass {owner}\b|^from .* import .*\b{owner}\b", source, re.MULTILINE)


def test_call_stack_has_the_documented_depth() -> None:
    """Readers of tracebacks want to know which layers lie between a run and its model."""
    stacks: list[list[str]] = []

    def reply(_: ModelRequest) -> str:
        package = f"{Path(flowdebate.__file__).parent}{os.sep}"
        stacks.append([frame.filename for frame in inspect.stack(context=0)[2:] if frame.filename.startswith(package)])
        return "An argument."

    sides = [Debater("ada", "build dams"), Debater("ben", "build turbines")]
    jury = debate(name="power", debaters=sides, max_rounds=1, moderator=False, synthesizer=False)
    with suppress(errors.FlowDebateError):  # the judge's answer is not a valid verdict
        asyncio.run(jury.run("How should we make power?", model=FunctionModel(reply)))
    sentence = f"the call stack has {len(stacks[0])} functions in {len(set(stacks[0]))} modules."
    assert sentence in TEXTS[ROOT / "docs" / "architecture.md"]


def test_each_threat_names_existing_tests() -> None:
    table = (ROOT / "evidence" / "records" / "threats.md").read_text("utf-8")
    rows = [line.rsplit("|", 2) for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 21
    for threat, tests, _ in rows:
        test_references = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
        assert test_references, threat
        for path, name in test_references:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text("utf-8"), re.MULTILINE), name


def test_notebook_is_committed_with_its_output() -> None:
    """The notebook was executed in order, so that readers on a code host see its reports and tables."""
    cells = json.loads((ROOT / "examples" / "notebook.ipynb").read_text("utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in codes] == list(range(1, len(codes) + 1))
    outputs = [output for cell in codes for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"display_data", "execute_result"}
    html = "".join("".join(output["data"].get("text/html", "")) for output in outputs)
    assert all(text in html for text in ("Winner: Ines", "Judge audit", "A covered pool teaches on two hundred days."))
