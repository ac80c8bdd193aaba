"""Views of stored runs: a table of runs, and a single run step by step."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flowdebate.errors import BadFile
from flowdebate.runs.batch import BATCH_LABEL
from flowdebate.service.runs import ago, document_of_run, short_id, state_of, to_datetime
from flowdebate.ui.plan import pattern_of_run
from flowdebate.ui.sections import Output
from flowdebate.ui.statuses import status_text
from flowdebate.ui.steps import Fork, StepState, call_body
from flowdebate.ui.text import in_line

if TYPE_CHECKING:
    from flowdebate.cli.terminal.page import Page
    from flowdebate.store.base import StepRow, StoredRun
    from flowdebate.ui.document import Document


_ORIGINS: dict[str | None, str] = {"reused": "taken from the parent run", "edited": "edited"}
"""Labels for a fork's answers if they did not come from a new model call."""


def show_table(rows: Sequence[Sequence[StoredRun]], page: Page, *, now: float, following: str | None = None) -> None:
    """Write a table with one row per run or batch; `following` is the command for listing the next rows."""
    if not rows:
        page.line("No runs.")
        return
    table: list[tuple[str, ...]] = []
    for runs in rows:
        header, info = runs[0].header, pattern_of_run(runs[0])
        states = Counter(status_text(state_of(run)) for run in runs)
        several = ", ".join(f"{count} {state}" for state, count in states.most_common())
        cells = (
            short_id(header.run_id) if len(runs) == 1 else f"{header.labels[BATCH_LABEL]} ({len(runs)} runs)",
            ago(now - header.created_at) or f"{to_datetime(header.created_at):%Y-%m-%d}",
            header.block if info is None else info.name,  # a run without a pattern was started by another program
            next(iter(states)) if len(states) == 1 else several,
            f"{sum(run.steps for run in runs)}",
            header.question,
        )
        table.append(cells)
    page.columns(("RUN", "WHEN", "WHAT", "STATUS", "STEPS", "ABOUT"), table)
    if batch := next((runs[0].header.labels[BATCH_LABEL] for runs in rows if len(runs) > 1), None):
        page.line(f"To list the runs of a batch: --batch-id {in_line(batch)}", style="dim")
    if following is not None:
        page.line(f"Next page: {in_line(following)}", style="dim")


def run_data(run: StoredRun, *, complete: bool = False) -> dict[str, Any]:
    """Convert `run` to JSON data; `complete` adds its input, options and outcome."""
    header = run.header
    data: dict[str, Any] = {
        "runId": header.run_id,
        "block": header.block,
        "pattern": None if (info := pattern_of_run(run)) is None else info.name,
        "question": header.question,
        "status": state_of(run),  # the stored status stays "running" if the process dies
        "steps": run.steps,
        "createdAt": to_datetime(header.created_at).isoformat(),
        "updatedAt": to_datetime(run.updated_at).isoformat(),
        "labels": dict(header.labels),
        "parent": None if header.parent is None else header.parent.get("run"),
    }
    if complete:
        data |= {
            "seed": header.seed,
            "input": header.input,
            "models": header.fingerprint.get("model"),
            "limits": header.limits,
            "plan": header.plan,
            "recoveries": run.recoveries,
            "outcome": run.outcome,
        }
    return data


def step_data(step: StepRow) -> dict[str, Any]:
    """Convert a step to JSON data."""
    state = StepState.of(step).model_dump(by_alias=True, exclude={"origin"})
    at = None if step.at is None else to_datetime(step.at).isoformat()
    return {**state, "at": at, "failures": list(step.failures)}


def show_run(run: StoredRun, steps: Sequence[StepRow], page: Page, note: str = "") -> None:
    """Write a run's options, labels, note, steps and outcome."""
    show_head(run, page)
    for label, value in run.header.labels.items():
        page.labeled("Label", f"{label}={value}", "dim")
    if note:
        page.labeled("Note", note, "")
    if (fork := Fork.of(run, steps)) is not None:
        page.labeled("Fork of", f"{fork.parent}: {fork.counts}", "dim")
    for step in steps:
        show_step(step, page)
    show_outcome(run, page)


def show_head(run: StoredRun, page: Page) -> None:
    """Write a run's options and status."""
    header = run.header
    page.labeled("Run", header.run_id, "bold", indent="")
    page.labeled("About", header.question, "bold", indent="")
    page.labeled("Block", header.block, "dim")
    if (info := pattern_of_run(run)) is not None:
        page.labeled("Command", f"flowdebate {info.verb}", "dim")
    page.labeled("Models", ", ".join(header.fingerprint.get("model", "").splitlines()) or "unknown", "dim")
    page.labeled("Started", f"{to_datetime(header.created_at).astimezone():%Y-%m-%d %H:%M:%S %z}", "dim")
    page.labeled("Seed", str(header.seed), "dim")
    page.labeled("Status", status_text(state_of(run)), "dim")


def show_step(step: StepRow, page: Page) -> None:
    """Write a step: its path, the name of the block that answered, and the answer."""
    state, body = StepState.of(step), call_body(step)
    page.line()
    page.line(in_line(step.key), style="bold cyan")
    facts = [state.model] if state.model and state.origin != "edited" else []
    origin = _ORIGINS.get(state.origin)
    if origin:
        facts.append(origin)
    elif state.usage:
        counts = (state.usage.prompt_tokens, state.usage.completion_tokens)
        facts.append(
            "tokens: {} in, {} out".format(*("unknown" if count is None else f"{count:,}" for count in counts))
        )
    if not origin and state.seconds is not None:
        facts.append(f"{state.seconds:.1f} s")
    if step.attempts > 1:
        facts.append(f"started {step.attempts} times")
    if facts:
        page.remark(", ".join(facts))
    for failure in state.failures:
        page.labeled("Failed", failure, "yellow")
    if not state.finished:
        page.remark("not finished")
        return
    data = body.get("data")
    page.text(state.text if data is None or body.get("tool_calls") else prose(data))
    page.end_text()


def show_outcome(run: StoredRun, page: Page) -> None:
    """Write a run's outcome, if it has ended."""
    outcome = run.outcome
    if outcome is None:
        return
    page.heading("Outcome")
    page.line(f"  {status_text(state_of(run))}")
    if outcome.get("error"):
        page.labeled("Error", str(outcome["error"]), "red")
    output, raw = outcome.get("output"), outcome.get("raw")
    if isinstance(raw, dict):
        with suppress(BadFile):  # raised for a block that is not a pattern
            sections = list(document_of(run, ()).outcome())  # the contributions have already been shown
            for section in sections:
                page.show(section)
            if output in (None, raw) or any(isinstance(section, Output) for section in sections):
                return
    if output is not None:
        page.output(output)


def document_of(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    """Return a stored run's document, as the original command would have saved it; raise BadFile if there is none."""
    return asyncio.run(document_of_run(run, steps))


def prose(value: object) -> str:
    """Render JSON data as readable lines of labels, values and lists.

    >>> print(prose({"winner": None, "nextSpeakers": ["ann", "bob"], "issues": [{"text": "No source.", "score": 5}]}))
    Winner: none
    Next speakers: ann, bob
    Issues:
      - Text: No source.
        Score: 5
    """
    match value:
        case dict():
            return "\n".join(_prose_line(str(key), item) for key, item in value.items()) or "nothing"
        case list() if any(isinstance(item, (dict, list)) for item in value):
            return "\n".join("- " + prose(item).replace("\n", "\n  ") for item in value)
        case list():
            return ", ".join(map(prose, value)) or "none"
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _prose_line(key: str, value: object) -> str:
    words = re.sub(r"(?<=[a-z])_?([A-Z])|_", lambda match: f" {(match[1] or '').lower()}", key)
    text = prose(value)
    behind = " " if "\n" not in text or isinstance(value, str) else "\n  "
    indented = text.replace("\n", "\n  ")
    return f"{words[:1].upper()}{words[1:]}:{behind}{indented}"
