"""Runs what is written: the Python examples in the README and in docs/, and those in the docstrings of src/.

In Markdown a fence marked `python` is executed, all of a file in one namespace, in order. What it prints must be what
its `# =>` comments show. Set-up that readers need not see is a function of `tests/pages/`: `<!--- setup: model --->` in
`docs/first-debate.md` calls `tests.pages.first_debate.model()` with the page's namespace. A few lines may also
be an `<!--- invisible-code-block: python` comment.
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
os.environ.pop("COLUMNS", None)  # workers of pytest-xdist have one, and pages would be broken there

_SHOWN = re.compile(r"^[ ]*# =>[ ]?(.*)$", re.MULTILINE)
_run = PythonEvaluator()


def _run_and_compare(example: Example) -> str | None:
    """What is wrong with a fence: its output is not what its `# =>` comments show."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _run(example)
    wanted = [line.rstrip() for line in _SHOWN.findall(str(example.parsed))]
    got = [line.rstrip() for line in printed.getvalue().splitlines()]
    return None if got == wanted else "printed:\n{}\nshown:\n{}".format("\n".join(got), "\n".join(wanted))


class _SetupParser:
    """Parser of `<!--- setup: NAME --->`, which calls a function of the page's module."""

    def __init__(self) -> None:
        self._lexer = DirectiveInHTMLCommentLexer("setup")

    def __call__(self, document: Document) -> Iterator[Region]:
        """Find the set-up comments of `document`."""
        for comment in self._lexer(document):
            yield Region(comment.start, comment.end, comment.lexemes["arguments"].strip(), self._call)

    @staticmethod
    def _call(example: Example) -> None:
        module = importlib.import_module(f"tests.pages.{Path(example.path).stem.replace('-', '_')}")
        getattr(module, str(example.parsed))(example.namespace)


def _name_module(namespace: dict[str, object]) -> None:
    namespace["__name__"] = "documentation"  # classes that a page defines ask for the name of their module
    namespace["_began_in"] = Path.cwd()


def _return(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_began_in"])  # a page may have gone to a folder of its own


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
        """Those of a file with examples; no tree of statements is built for the others."""
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
    """Add `--part`, for machines that run a share of the slow tests at a time."""
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the selected tests")


@pytest.fixture
def no_real_models() -> Iterator[None]:
    """Examples run without a network."""
    with forbid_real_models():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for in what is collected, a million objects that stay: it would cost seconds of CPU."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the examples of a file together and in their order, whatever shuffles the tests."""
    places = [index for index, item in enumerate(items) if isinstance(item, SybilItem)]
    ordered = sorted(
        (item for item in items if isinstance(item, SybilItem)),
        key=lambda item: (str(item.path), item.example.start),
    )
    for index, item in zip(places, ordered, strict=True):
        items[index] = item
