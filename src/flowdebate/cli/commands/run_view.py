"""Runs that are kept: as a table, and one of them step by step."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flowdebate.errors import BadFile, told
from flowdebate.models.codec import failure_of
from flowdebate.models.usage import Usage
from flowdebate.service.documents import Tokens, as_json
from flowdebate.service.documents import document_of as read_raw
from flowdebate.service.plan import pattern_of_run, plan_of
from flowdebate.service.runs import WORDS, ago, short_id, state_of
from flowdebate.service.text import in_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.cli.page import Page
    from flowdebate.service.documents import Document
    from flowdebate.store.base import StepRow, StoredRun

__all__ = ("document_of", "run_data", "show_run", "show_table", "step_data")

_HEAD = ("RUN", "WHEN", "WHAT", "STATUS", "STEPS", "ABOUT")
_FOUND = {"verdict": "Verdict", "finalDecision": "Decision", "winner": "Winner", "answer": "Answer"}
"""What patterns come to, by their keys in raw outputs."""
_USAGE = tuple(item.name for item in fields(Usage))
"""How the numbers of a call are kept, in their order."""


def show_table(runs: Sequence[StoredRun], page: Page, *, now: float, more: bool) -> None:
    """A line for each of `runs`; `more`: they are not all."""
    if not runs:
        page.line("No runs.")
        return
    page.columns(_HEAD, [_row(run, now) for run in runs])
    if more:
        page.line("There are more: --limit N", style="dim")


def _row(run: StoredRun, now: float) -> tuple[str, ...]:
    header = run.header
    return (
        short_id(header.run_id),
        ago(now - header.created_at) or f"{_moment(header.created_at):%Y-%m-%d}",
        _what(run),
        WORDS[state_of(run)],
        f"{run.steps}",
        header.question,
    )


def _what(run: StoredRun) -> str:
    """Its pattern; its block where it is another program's."""
    info = pattern_of_run(run)
    return run.header.block if info is None else info.name


def run_data(run: StoredRun, *, whole: bool = False) -> dict[str, Any]:
    """`run` as JSON data; with all that it was begun with and has come to, if `whole`."""
    header = run.header
    data: dict[str, Any] = {
        "runId": header.run_id,
        "block": header.block,
        "pattern": None if (info := pattern_of_run(run)) is None else info.name,
        "question": header.question,
        "status": state_of(run),
        "steps": run.steps,
        "createdAt": _moment(header.created_at).isoformat(),
        "updatedAt": _moment(run.updated_at).isoformat(),
        "labels": dict(header.labels),
    }
    if whole:
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
    """A step as JSON data."""
    kept = _kept(step)
    return {
        "place": step.key,
        "kind": step.kind,
        "finished": step.body is not None,
        "at": None if step.at is None else _moment(step.at).isoformat(),
        "attempts": step.attempts,
        "failures": list(step.failures),
        "model": kept.get("model"),
        "usage": _usage(kept),
        "seconds": kept.get("seconds"),
        "text": _text(step, kept),
    }


def show_run(run: StoredRun, steps: Sequence[StepRow], page: Page) -> None:
    """What `run` was begun with, its steps, and what it came to."""
    header = run.header
    page.labelled("Run", header.run_id, "bold", indent="")
    page.labelled("About", header.question, "bold", indent="")
    page.labelled("Block", header.block, "dim")
    if (info := pattern_of_run(run)) is not None:
        page.labelled("Command", f"flowdebate {info.verb}", "dim")
    page.labelled("Models", ", ".join(header.fingerprint.get("model", "").splitlines()) or "unknown", "dim")
    page.labelled("Started", f"{_moment(header.created_at).astimezone():%Y-%m-%d %H:%M:%S %z}", "dim")
    page.labelled("Seed", str(header.seed), "dim")
    page.labelled("Status", WORDS[state_of(run)], "dim")
    for step in steps:
        _show_step(step, page)
    _show_outcome(run, page)


def _show_step(step: StepRow, page: Page) -> None:
    kept = _kept(step)
    page.line()
    page.line(in_line(step.key), style="bold cyan")
    facts = [str(kept["model"])] if kept.get("model") else []
    usage = _usage(kept)
    if usage:
        counts = (usage["promptTokens"], usage["completionTokens"])
        facts.append(
            "tokens: {} in, {} out".format(*("unknown" if count is None else f"{count:,}" for count in counts))
        )
    if isinstance(kept.get("seconds"), (int, float)):
        facts.append(f"{kept['seconds']:.1f} s")
    if step.attempts > 1:
        facts.append(f"begun {step.attempts} times")
    if facts:
        page.remark(", ".join(facts))
    for failure in step.failures:
        page.labelled("Failed", failure, "yellow")
    if step.body is None:
        page.remark("not finished")
        return
    page.text(_text(step, kept))
    page.end_text()


def _show_outcome(run: StoredRun, page: Page) -> None:
    outcome = run.outcome
    if outcome is None:
        return
    page.heading("Outcome")
    page.line(f"  {WORDS[state_of(run)]}")
    if outcome.get("error"):
        page.labelled("Error", str(outcome["error"]), "red")
    output, raw = outcome.get("output"), outcome.get("raw")
    if isinstance(raw, dict) and output in (None, raw):  # what was said stands above
        for label, found in ((label, raw.get(name)) for name, label in _FOUND.items()):
            if found is not None:
                page.labelled(label, found if isinstance(found, str) else as_json(found), "bold")
    elif output is not None:
        page.text(output if isinstance(output, str) else as_json(output))
        page.end_text()


def document_of(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    """What the command that has begun `run` would have saved of it; BadFile where that cannot be told."""
    outcome = run.outcome or {}
    raw = outcome.get("raw")
    if run.outcome is None and pattern_of_run(run) is not None:
        from flowdebate.service.runs import replayed

        return asyncio.run(replayed(run, steps))
    if not isinstance(raw, dict):
        raise BadFile(f"run {run.header.run_id}", "has come to nothing that a page could be made of; leave out --page")
    bare = read_raw(raw, where=f"run {run.header.run_id}")
    usage = outcome.get("usage") or {}
    facts = {
        "status": run.status,
        "error": outcome.get("error") if run.status in ("failed", "limit") else None,
        "usage": Tokens(**{name: usage.get(name) for name in Tokens.model_fields}) if usage else None,
        "seconds": outcome.get("seconds"),
        "seed": run.header.seed,
        "run_id": run.header.run_id,
    }
    if pattern_of_run(run) is None:
        return bare.model_copy(update=facts)
    return plan_of(run, {}, to_ask=False).document(bare.raw, outcome.get("output"), **facts)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _kept(step: StepRow) -> dict[str, Any]:
    """What is kept of a call; nothing for other steps."""
    if step.body is None or step.kind != "call":
        return {}
    kept = json.loads(step.body)
    return kept if isinstance(kept, dict) else {}


def _usage(kept: dict[str, Any]) -> dict[str, Any] | None:
    numbers = kept.get("usage")
    if not isinstance(numbers, list) or len(numbers) != len(_USAGE):
        return None
    counts = dict(zip(_USAGE, numbers, strict=True))
    names = {"promptTokens": "prompt_tokens", "cachedTokens": "cached_tokens", "completionTokens": "completion_tokens"}
    return {name: counts.get(own) for name, own in names.items()}


def _text(step: StepRow, kept: dict[str, Any]) -> str:
    """What a step says."""
    if step.body is None:
        return ""
    if step.kind == "loss":
        return told(failure_of(step.body))
    if step.kind != "call":
        value = json.loads(step.body)
        return value if isinstance(value, str) else as_json(value)
    if kept.get("tool_calls"):
        return "\n".join(f"{name}({arguments})" for _, name, arguments in kept["tool_calls"])
    return str(kept.get("text") or as_json(kept.get("data")))
