"""Write the table of adapter promises (`make adapter-table`).

The script runs the suite for each adapter. It writes nothing if a promise is broken or could not be tested because a
framework is missing.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdebate.testing import AdapterConformance
from tests.adapters import test_inspect_ai, test_langgraph, test_litellm, test_openai_agents, test_pydantic_ai

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("BEGIN", "END", "PAGE", "SUITES", "table", "untested_promises")

PAGE = Path(__file__).parents[2] / "evidence" / "records" / "adapters.md"
BEGIN, END = "<!-- table of promises: make adapter-table -->\n", "<!-- end of the table -->\n"
SUITES: dict[str, type[AdapterConformance]] = {
    "pydantic_ai": test_pydantic_ai.TestAgentModel,
    "openai_agents": test_openai_agents.TestAgentModel,
    "langgraph: chat model": test_langgraph.TestChatModel,
    "langgraph: graph": test_langgraph.TestGraph,
    "litellm": test_litellm.TestLiteLLM,
    "inspect_ai": test_inspect_ai.TestInspectModel,
}
PROMISES = {name: inspect.getdoc(test) for name, test in vars(AdapterConformance).items() if name.startswith("test_")}


def table() -> str:
    """Return a table with one row per promise in the suite and one column per adapter."""
    rows = [["Promise", *SUITES], ["---"] * (1 + len(SUITES))]
    for name, promise in PROMISES.items():
        cells = ["no" if name in suite.lacks else "yes" for suite in SUITES.values()]
        if name == "test_tools":
            cells = ["called" if suite.takes_tools else "refused" for suite in SUITES.values()]
        statement = (promise or "").removeprefix("Check that ")
        rows.append([statement[:1].upper() + statement[1:], *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def suite_id(suite: type[AdapterConformance]) -> str:
    """Return the suite's pytest node id."""
    return f"{suite.__module__.replace('.', '/')}.py::{suite.__name__}"


def untested_promises(outcomes: Mapping[str, str]) -> list[str]:
    """Return the tests that should have passed for an adapter but did not."""
    promises = [(f"{suite_id(suite)}::{name}", name, suite) for suite in SUITES.values() for name in PROMISES]
    return [test for test, name, suite in promises if name not in suite.lacks and outcomes.get(test) != "passed"]


class Outcomes:
    """A pytest plugin that records outcomes by test name."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test's outcome."""
        if report.when == "call" or not report.passed:
            self.found[report.nodeid] = report.outcome


def main() -> None:
    """Test all promises, then write the table."""
    outcomes = Outcomes()
    pytest.main(["--quiet", *(suite_id(suite) for suite in SUITES.values())], plugins=[outcomes])
    if missing := untested_promises(outcomes.found):
        sys.exit("\n".join(["The table is not written. These have not passed:", *missing]))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{PAGE} has no lines {BEGIN}and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
