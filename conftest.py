"""Tests of everything that the documentation shows: Python examples in the README, docs/ and the docstrings in src/.

In Markdown, the fences marked `python` in a file are executed in order, in one namespace. Their output must match their
`# =>` comments. Setup that readers need not see is in functions in `tests/pages/`: `<!--- setup: model --->` in
`docs/first-debate.md` calls `tests.pages.first_debate.model()` with the page's namespace. A few lines can also go into
an `<!--- invisible-code-block: python` comment.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import importlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sybil import Region, Sybil
from sybil.document import PythonDocStringDocument
from sybil.evaluators.python import PythonEvaluator
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer
from sybil.parsers.rest import DocTestParser

from flowdebate.testing import forbid_real_models

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from sybil import Document, Example

pytest_plugins = ("tests.event_watch", "tests.processes", "tests.profiles")
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it for its workers, which would wrap terminal pages at that width

_SHOWN = re.compile(r"^[ ]*# =>[ ]?(.*)$", re.MULTILINE)
_run = PythonEvaluator()


def _run_and_compare(example: Example) -> str | None:
    """Run a fence, and return a description of how its output differs from its `# =>` comments; None if it does not."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _run(example)
    wanted = [line.rstrip() for line in _SHOWN.findall(str(example.parsed))]
    got = [line.rstrip() for line in printed.getvalue().splitlines()]
    return None if got == wanted else "printed:\n{}\nshown:\n{}".format("\n".join(got), "\n".join(wanted))


class _SetupParser:
    """Parser for `<!--- setup: NAME --->`, which calls a function in the page's module."""

    def __init__(self) -> None:
        self._lexer = DirectiveInHTMLCommentLexer("setup")

    def __call__(self, document: Document) -> Iterator[Region]:
        """Yield the setup comments in `document`."""
        for comment in self._lexer(document):
            yield Region(comment.start, comment.end, comment.lexemes["arguments"].strip(), self._call)

    @staticmethod
    def _call(example: Example) -> None:
        module = importlib.import_module(f"tests.pages.{Path(example.path).stem.replace('-', '_')}")
        getattr(module, str(example.parsed))(example.namespace)


def _name_module(namespace: dict[str, object]) -> None:
    namespace["__name__"] = "documentation"  # classes defined on a page look up their module by name
    namespace["_began_in"] = Path.cwd()


def _return(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_began_in"])  # a page may have changed the working directory


_pages = Sybil(
    parsers=[CodeBlockParser(language="python", evaluator=_run_and_compare), _SetupParser(), SkipParser()],
    patterns=["README.md", "docs/*.md"],
    setup=_name_module,
    teardown=_return,
    fixtures=["no_real_models"],
    name="pages",
)


class _Docstrings(PythonDocStringDocument):
    @staticmethod
    def extract_docstrings(python_source_code: str) -> Iterator[tuple[int, int, str]]:
        """Yield the docstrings of a file if it contains examples; parsing all other files would take too long."""
        if ">>>" in python_source_code:
            yield from PythonDocStringDocument.extract_docstrings(python_source_code)


_docstrings = Sybil(
    parsers=[DocTestParser(doctest.ELLIPSIS)],
    patterns=["src/flowdebate/*.py", "src/flowdebate/*/*.py", "src/flowdebate/*/*/*.py", "src/flowdebate/*/*/*/*.py"],
    document_types={".py": _Docstrings},
    fixtures=["no_real_models"],
    name="docstrings",
)

pytest_collect_file = (_pages + _docstrings).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--part`, for machines that run one part of the slow tests at a time."""
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the selected tests")


@pytest.fixture
def no_real_models() -> Iterator[None]:
    """Run examples without a network."""
    with forbid_real_models():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection while tests are collected.

    The million objects created by then are kept anyway, and looking for garbage among them would cost seconds of CPU
    time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the examples of each file together and in order, even if the tests are shuffled."""
    places = [index for index, item in enumerate(items) if isinstance(item, SybilItem)]
    ordered = sorted(
        (item for item in items if isinstance(item, SybilItem)),
        key=lambda item: (str(item.path), item.example.start),
    )
    for index, item in zip(places, ordered, strict=True):
        items[index] = item
