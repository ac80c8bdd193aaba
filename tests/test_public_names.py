"""The public names of the package, where they are defined, and the cost of importing them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, get_overloads

import pytest

import flowdebate
from flowdebate import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAVY = (
    "openai",
    "anthropic",
    "genai_prices",
    "instructor",
    "jsonschema",
    "anyio",
    "rich",
    "typer",
    "hypothesis",
    "pytest",
    "xllamacpp",
    "aiohttp",
)

DESIGN = [
    "debate",
    "Debater",
    "create_debate_transcript",
    "create_debater",
    "create_judge",
    "create_moderator",
    "create_synthesizer",
    "create_init_transcript",
    "create_record_argument",
    "format_transcript_for_judge",
    "DebateInput",
    "DebateState",
    "DebateContributionEntry",
    "DebateVerdict",
    "DebateTranscriptState",
    "DebateModeratorOutput",
    "DebateModeratorDecision",
    "DebateRawOutput",
    "handler",
    "generator",
    "router",
    "sequencer",
    "TaskCollection",
    "Task",
]


def import_modules() -> Iterator[ModuleType]:
    """Import all modules of the package that need no optional dependency."""
    yield flowdebate
    for info in pkgutil.walk_packages(flowdebate.__path__, "flowdebate."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def has_stub(module: ModuleType) -> bool:
    """Return whether the names in `module` are imported on first use."""
    return Path(str(module.__file__)).with_suffix(".pyi").exists()


MODULES = {module.__name__: module for module in import_modules()}


def public_definitions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Return the public definitions of `module`."""
    for name, value in vars(module).items():
        # pydantic leaves names such as "Generic[Argument]" there
        public_name = name.isidentifier() and not name.startswith("_")
        if public_name and isinstance(value, (FunctionType, type)) and value.__module__ == module.__name__:
            yield name, value


def test_public_names_can_be_imported_from_the_top() -> None:
    assert [name for name in DESIGN if name not in dir(flowdebate)] == []


def lazy_names(package: str) -> dict[str, str]:
    """Return the module below `package` that defines each lazy name, according to its stub."""
    stub = ast.parse(Path(str(MODULES[package].__file__)).with_suffix(".pyi").read_text("utf-8"))
    imports = [statement for statement in stub.body if isinstance(statement, ast.ImportFrom)]
    # type checkers re-export only these
    assert all(alias.name == alias.asname for statement in imports for alias in statement.names)
    return {
        alias.name: f"{package}.{statement.module}"
        for statement in imports
        if statement.module
        for alias in statement.names
    }


def test_package_imports_lazily() -> None:
    visible = {
        name
        for name, value in vars(importlib.reload(flowdebate)).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible <= set(dir(flowdebate))


@pytest.mark.parametrize("package", [name for name, module in MODULES.items() if has_stub(module)])
def test_stub_locates_each_lazy_name(package: str) -> None:
    module = MODULES[package]
    assert set(lazy_names(package)) <= set(dir(module))
    for name, home in lazy_names(package).items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match=f"No {package} attribute discussion"):
        _ = module.discussion


def test_every_error_is_exported_and_in_the_tree() -> None:
    """The tree in the docstring of `flowdebate.errors` shows each error below its base class."""
    classes = {name: value for name, value in public_definitions(errors) if is_error_class(value)}
    assert set(classes) == set(errors.__all__)
    tree = [line for line in (errors.__doc__ or "").splitlines() if line.startswith("    ")]
    stack: list[tuple[int, str]] = []
    drawn = set()
    for line in tree:
        name = line.lstrip(" │├└─").split()[0]
        depth = line.index(name)
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if stack:
            assert issubclass(classes[name], classes[stack[-1][1]]), name
        stack.append((depth, name))
        drawn.add(name)
    assert drawn == set(classes)


PROGRAMS = ("flowdebate.cli", "flowdebate.testing")
"""Packages that may define errors: applications never import the first, and the second raises errors on purpose."""


def is_error_class(value: object) -> bool:
    """Return whether a value is an error or warning class."""
    return isinstance(value, type) and issubclass(value, Exception)


def test_every_error_of_the_package_is_in_one_tree() -> None:
    elsewhere = [
        f"{module}.{name}"
        for module, member in MODULES.items()
        for name, value in public_definitions(member)
        if is_error_class(value) and member is not errors and not module.startswith(PROGRAMS)
    ]
    assert elsewhere == []


def is_exported(kind: type) -> bool:
    """Return whether a package exports `kind`."""
    return any(
        kind.__name__ in lazy_names(package)
        for package, module in MODULES.items()
        if kind.__module__.startswith(f"{package}.") and has_stub(module)
    )


@pytest.mark.parametrize("name", sorted(MODULES))
def test_everything_public_is_documented(name: str) -> None:
    """Methods and properties of exported classes must have docstrings as well."""
    module = MODULES[name]
    assert module.__doc__
    undocumented = [item for item, value in public_definitions(module) if not value.__doc__]
    for item, value in public_definitions(module):
        if isinstance(value, type) and is_exported(value):
            bases = value.__mro__[1:]
            undocumented += [
                f"{item}.{method}"
                for method, member in vars(value).items()
                if not method.startswith("_")
                and isinstance(member, (FunctionType, property, classmethod, staticmethod))
                and not inspect.getdoc(member)
                and not any(hasattr(base, method) for base in bases)
            ]
    assert undocumented == []


POSITIONAL = {
    "BaselineOptions",
    "Confidence",
    "ConvergenceOptions",
    "Debater",
    "Diff",
    "Persona",
    "Phase",
    "Sources",
    "StandIn",
    "TopologyOptions",
    "VotingOptions",
}
"""Dataclasses whose first fields may be positional, because callers often construct them."""


def test_public_dataclasses_are_keyword_only() -> None:
    """If positional arguments were allowed, a new field could break callers."""
    positional = [
        name
        for name in dir(flowdebate)
        if is_dataclass(value := getattr(flowdebate, name)) and not all(field.kw_only for field in fields(value))
    ]
    assert set(positional) == POSITIONAL


def test_options_of_public_functions_are_keyword_only() -> None:
    """Only the main argument of a function may be positional."""
    for name in dir(flowdebate):
        value = getattr(flowdebate, name)
        if isinstance(value, FunctionType):
            positional = [p for p in inspect.signature(value).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
            assert len(positional) <= (2 if name == "compare" else 1), name  # a question and its answers


def test_submodules_need_no_separate_import() -> None:
    """After `import flowdebate`, `flowdebate.errors` is available at once. Other submodules load on first access."""
    code = "import flowdebate; print(flowdebate.errors.FlowDebateError.__name__, flowdebate.stop.__name__)"
    assert run_interpreter(code) == "FlowDebateError flowdebate.stop"


def test_import_loads_no_other_packages() -> None:
    """`import flowdebate` does not even import asyncio.

    Importing every public name loads no module for a provider, a terminal, testing or networking.
    """
    assert run_interpreter("import sys, flowdebate; print({'asyncio', 'pydantic'} & set(sys.modules))") == "set()"
    code = f"import sys; from flowdebate import *; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run_interpreter(code) == "[]"


def test_any_name_can_be_imported_first() -> None:
    """No module may rely on another one having been imported before it. The test tries one name per folder."""
    firsts = sorted({home.rpartition(".")[0]: name for name, home in lazy_names("flowdebate").items()}.values())
    code = (
        "import asyncio, os, flowdebate, pydantic\n"
        f"for name in {firsts}:\n"
        "    if os.fork() == 0:\n"
        "        getattr(flowdebate, name)\n"
        "        os._exit(0)\n"
        "    os.wait()"
    )
    assert not run_interpreter(code)


def test_import_builds_no_validator() -> None:
    """Building a pydantic validator would search all installed packages."""
    code = "import sys; from flowdebate import consensus, council, debate, deliberation, handoff, round_robin; "
    assert run_interpreter(code + "print('pydantic.plugin._loader' in sys.modules)") == "False"


def test_import_has_no_side_effects() -> None:
    """The import prints nothing, issues no warnings and changes no environment variable.

    It leaves no active logging handler or thread behind.
    """
    code = (
        "import logging, os, threading, warnings; before = dict(os.environ); warnings.simplefilter('error');"
        "from flowdebate import *;"
        "print(before == dict(os.environ), logging.root.handlers,"
        " [type(each).__name__ for each in logging.getLogger('flowdebate').handlers],"
        " threading.active_count())"
    )
    assert run_interpreter(code) == "True [] ['NullHandler'] 1"


def run_interpreter(code: str) -> str:
    """Return the output of a new interpreter that runs the given code."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603
    assert run.stderr == ""
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("debate", ["name", "debaters", "max_rounds", "judge", "model"]),
        ("round_robin", ["name", "debaters", "max_rounds", "referee", "model"]),
        ("deliberation", ["name", "debaters", "max_rounds", "moderator", "model"]),
        ("handoff", ["name", "debaters", "max_turns", "first", "model"]),
        ("consensus", ["name", "agents", "max_rounds", "judge", "model"]),
        ("council", ["name", "members", "chair", "review", "model"]),
        ("review", ["name", "reviewers", "sources", "gate", "model"]),
    ],
)
def test_hovering_over_a_pattern_shows_common_options(pattern: str, first: list[str]) -> None:
    """Each overload begins with the common options, and the docstring is short enough for a tooltip."""
    function: Any = getattr(flowdebate, pattern)
    signatures = [inspect.signature(overload_) for overload_ in (function, *get_overloads(inspect.unwrap(function)))]
    assert [list(signature.parameters)[: len(first)] for signature in signatures] == [first] * len(signatures)
    text = inspect.getdoc(function) or ""
    assert len(text.split()) <= 200
    assert "await pattern.run(" in text.splitlines()[0]


def test_speaker_options_have_a_public_type() -> None:
    for kind in (flowdebate.Debater, flowdebate.Persona):
        assert inspect.signature(kind).parameters["options"].annotation == "DebaterOptions | None"
