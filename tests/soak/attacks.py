"""Corrupt every value of an export and forge every value of a journal: `python -m tests.soak.attacks`.

A wrong value must either be rejected with its location or affect only its own run. A report rebuilt from a forged
journal may pass verification only in parts that the report marks as unchecked. The summary goes to stdout; the exit
code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

from flowdebate.errors import BadFile, FlowDebateError, FlowDebateWarning
from flowdebate.patterns import PATTERNS
from flowdebate.service.evidence import evidence_of
from flowdebate.store.export import read_runs
from flowdebate.web.report import report_html, verify_report
from tests.service.test_broken_exports import exported_pattern, replace_value, survives, value_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ("WRONG", "main")

WRONG: list[Any] = [None, -1, 1e308, True, "x", "", [], {"x": None}, "\ud800"]
SAID = (
    "text",
    "data",
    "transcript",
    "verdict",
    "winner",
    "reasoning",
    "input",
    "question",
    "output",
    "prompt",
    "scores",
)
"""Path segments whose values are statements, questions or decisions; no forgery of them may pass."""
MADE = ("usage", "attempts", "seconds", "at", "model", "finish", "flags", "labels", "duration")
"""Path segments whose values only a store or a provider knows; a forgery may pass, even below a segment in `SAID`."""


def changes(lines: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines with one value changed at a time, together with the value's path."""
    for index, line in enumerate(lines):
        read = json.loads(line)
        for path in value_paths(read):
            for value in values:
                forged = json.dumps(replace_value(read, path, value))
                if forged != line:
                    location = f"line {index + 1}: {'.'.join(map(str, path))}"
                    yield f"{location} as {value!r}", [*lines[:index], forged, *lines[index + 1 :]]


async def check_exports(pattern: str, every: int, counts: Counter[str], problems: list[str]) -> None:
    """Check that each wrong value is rejected with its location, or can be listed, rendered and verified."""
    for number, (location, lines) in enumerate(changes(await exported_pattern(pattern), WRONG)):
        if number % every == 0:
            try:
                await survives(lines)
                counts["exports that break nothing"] += 1
            except BadFile:
                counts["exports that are refused"] += 1
            except Exception:  # noqa: BLE001 - it is what is looked for
                problems.append(f"{pattern}, {location}: {traceback.format_exc(limit=-3)}")


async def verify_rebuilt(lines: Sequence[str]) -> tuple[str, bool]:
    """Verify a report rebuilt from forged lines, and return the outcome and whether the report shows `FORGED`."""
    [evidence] = read_runs(lines, "forged")
    html = await report_html(lines, await evidence_of(*evidence))
    return (await verify_report(html)).outcome, FORGED in html


FORGED = "Never said!"


def forge_value(value: Any) -> Any:
    """Return a different value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value if value is not None else FORGED
    return value + 1 if isinstance(value, (int, float)) else f"{value} {FORGED}"


async def check_journals(pattern: str, counts: Counter[str], problems: list[str]) -> None:
    """Forge each leaf and rebuild the page, checking that no forged statement, question or decision is verified."""
    lines = await exported_pattern(pattern)
    assert await verify_rebuilt(lines) == ("verified", False), pattern
    for index, line in enumerate(lines):
        read = json.loads(line)
        for path in value_paths(read):
            leaf = read
            for key in path:
                leaf = json.loads(leaf) if key == "JSON" else leaf[key]
            if isinstance(leaf, (dict, list)) or path[-1] == "body":
                continue
            altered = [*lines[:index], json.dumps(replace_value(read, path, forge_value(leaf))), *lines[index + 1 :]]
            try:
                outcome, visible = await verify_rebuilt(altered)
            except FlowDebateError:
                outcome, visible = "refused", False
            except Exception:  # noqa: BLE001 - it is what is looked for
                problems.append(f"{pattern}, line {index + 1}: {path}: {traceback.format_exc(limit=-3)}")
                continue
            counts[f"forged journals: {outcome}"] += 1
            checked = any(part in SAID for part in path) and not any(part in MADE for part in path)
            # text in the journal only counts if a reader of the report sees it
            if outcome == "verified" and checked and (visible or not isinstance(leaf, str)) and "documents" not in path:
                problems.append(f"{pattern}, line {index + 1}: {path} was forged from {leaf!r}, and is verified")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.attacks", description=__doc__)
    parser.add_argument("--patterns", nargs="*", choices=sorted(PATTERNS), default=sorted(PATTERNS))
    parser.add_argument("--every", type=int, default=1, help="only each nth wrong value")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", FlowDebateWarning)
    start, counts, problems = time.monotonic(), Counter[str](), list[str]()
    for pattern in options.patterns:
        asyncio.run(check_exports(pattern, options.every, counts, problems))
        asyncio.run(check_journals(pattern, counts, problems))
        sys.stderr.write(f"{pattern}: {dict(counts)}, {len(problems)} problems, {time.monotonic() - start:.0f} s\n")
    sys.stdout.write(json.dumps({**counts, "seconds": round(time.monotonic() - start), "problems": problems}, indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
