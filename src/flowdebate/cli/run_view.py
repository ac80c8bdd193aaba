"""Views of stored runs: a table of runs, and one run step by step."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flowdebate.errors import BadFile, error_text
from flowdebate.models.codec import failure_of
from flowdebate.models.usage import Usage
from flowdebate.runs.batch.batch import BATCH_LABEL
from flowdebate.service.documents import Tokens, as_json
from flowdebate.service.documents import document_of as read_raw
from flowdebate.service.plan import pattern_of_run, plan_of
from flowdebate.service.runs import WORDS, ago, short_id, state_of
from flowdebate.service.sections import Output
from flowdebate.service.text import in_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.cli.page import Page
    from flowdebate.service.documents import Document
    from flowdebate.store.base import StepRow, StoredRun

__all__ = ("document_of", "folded", "prose", "run_data", "show_run", "show_table", "step_data")

_HEAD = ("RUN", "WHEN", "WHAT", "STATUS", "STEPS", "ABOUT")
_USAGE = tuple(item.name for item in fields(Usage))
"""The counts of a stored call, in their order."""


def show_table(rows: Sequence[Sequence[StoredRun]], page: Page, *, now: float, more: bool) -> None:
    """Write a table with a row for each run, or for the runs of a batch; `more` says that the store has others."""
    if not rows:
        page.line("No runs.")
        return
    page.columns(_HEAD, [_row(runs, now) for runs in rows])
    if folded := next((runs[0].header.labels[BATCH_LABEL] for runs in rows if len(runs) > 1), None):
        page.line(f"The runs of a batch, one by one: --batch {in_line(folded)}", style="dim")
    if more:
        page.line("There are more: --limit N", style="dim")


def folded(runs: Iterable[StoredRun]) -> list[list[StoredRun]]:
    """`runs` with those of one batch together, where its newest one is."""
    rows: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        batch = run.header.labels.get(BATCH_LABEL)
        rows.setdefault(("run", run.header.run_id) if batch is None else ("batch", batch), []).append(run)
    return list(rows.values())


def _row(runs: Sequence[StoredRun], now: float) -> tuple[str, ...]:
    run, header = runs[0], runs[0].header
    states = Counter(WORDS[state_of(each)] for each in runs)
    several = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return (
        short_id(header.run_id) if len(runs) == 1 else f"{header.labels[BATCH_LABEL]} ({len(runs)} runs)",
        ago(now - header.created_at) or f"{_moment(header.created_at):%Y-%m-%d}",
        _what(run),
        next(iter(states)) if len(states) == 1 else several,
        f"{sum(each.steps for each in runs)}",
        header.question,
    )


def _what(run: StoredRun) -> str:
    """The pattern; the block's name for a run of another program."""
    info = pattern_of_run(run)
    return run.header.block if info is None else info.name


def run_data(run: StoredRun, *, whole: bool = False) -> dict[str, Any]:
    """`run` as JSON data; `whole` adds its input, options and outcome."""
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
    body = _body(step)
    return {
        "place": step.key,
        "kind": step.kind,
        "finished": step.body is not None,
        "at": None if step.at is None else _moment(step.at).isoformat(),
        "attempts": step.attempts,
        "failures": list(step.failures),
        "model": _model(body),
        "usage": _usage(body),
        "seconds": body.get("seconds"),
        "text": _text(step, body),
    }


def show_run(run: StoredRun, steps: Sequence[StepRow], page: Page) -> None:
    """Write the options of `run`, its steps, and its outcome."""
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
    body = _body(step)
    page.line()
    page.line(in_line(step.key), style="bold cyan")
    model = _model(body)
    facts = [model] if model else []
    usage = _usage(body)
    if usage:
        counts = (usage["promptTokens"], usage["completionTokens"])
        facts.append(
            "tokens: {} in, {} out".format(*("unknown" if count is None else f"{count:,}" for count in counts))
        )
    if isinstance(body.get("seconds"), (int, float)):
        facts.append(f"{body['seconds']:.1f} s")
    if step.attempts > 1:
        facts.append(f"started {step.attempts} times")
    if facts:
        page.remark(", ".join(facts))
    for failure in step.failures:
        page.labelled("Failed", _failure(failure), "yellow")
    if step.body is None:
        page.remark("not finished")
        return
    data = body.get("data")
    page.text(_text(step, body) if data is None or body.get("tool_calls") else prose(data))
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
    if isinstance(raw, dict):
        with suppress(BadFile):  # of a block that is no pattern
            sections = list(document_of(run, ()).outcome())  # the contributions are shown above
            for section in sections:
                page.show(section)
            if output in (None, raw) or any(isinstance(section, Output) for section in sections):
                return
    if output is not None:
        page.output(output)


def document_of(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    """The document of a stored run, as its command would save it; BadFile if it has none."""
    outcome = run.outcome or {}
    raw = outcome.get("raw")
    if run.outcome is None and pattern_of_run(run) is not None:
        from flowdebate.service.runs import replayed

        return asyncio.run(replayed(run, steps))
    if not isinstance(raw, dict):
        raise BadFile(f"run {run.header.run_id}", "has no output to show as a page; leave out --page")
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


def prose(value: object) -> str:
    """JSON data as lines for readers: labels, values, and lists.

    >>> print(prose({"winner": None, "nextSpeakers": ["ann", "bob"], "issues": [{"text": "No source.", "score": 5}]}))
    Winner: none
    Next speakers: ann, bob
    Issues:
      - Text: No source.
        Score: 5
    """
    match value:
        case dict():
            return "\n".join(_labelled(str(key), each) for key, each in value.items()) or "nothing"
        case list() if any(isinstance(each, (dict, list)) for each in value):
            return "\n".join(f"- {_indented(prose(each))}" for each in value)
        case list():
            return ", ".join(map(prose, value)) or "none"
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _labelled(key: str, value: object) -> str:
    words = re.sub(r"(?<=[a-z])_?([A-Z])|_", lambda found: f" {(found[1] or '').lower()}", key)
    text = prose(value)
    behind = " " if "\n" not in text or isinstance(value, str) else "\n  "
    return f"{words[:1].upper()}{words[1:]}:{behind}{_indented(text)}"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _failure(text: str) -> str:
    """What failed, from its record."""
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text
    return str(error)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _body(step: StepRow) -> dict[str, Any]:
    """The stored body of a call; empty for other steps."""
    if step.body is None or step.kind != "call":
        return {}
    body = json.loads(step.body)
    return body if isinstance(body, dict) else {}


def _model(body: dict[str, Any]) -> str | None:
    """The model that answered, by the name that it was asked by, not the one that its server gave."""
    attempts = body.get("attempts")
    if isinstance(attempts, list) and attempts and isinstance(attempts[-1], list) and attempts[-1]:
        return str(attempts[-1][0])
    return None if body.get("model") is None else str(body["model"])


def _usage(body: dict[str, Any]) -> dict[str, Any] | None:
    numbers = body.get("usage")
    if not isinstance(numbers, list) or len(numbers) != len(_USAGE):
        return None
    counts = dict(zip(_USAGE, numbers, strict=True))
    names = {"promptTokens": "prompt_tokens", "cachedTokens": "cached_tokens", "completionTokens": "completion_tokens"}
    return {name: counts.get(own) for name, own in names.items()}


def _text(step: StepRow, body: dict[str, Any]) -> str:
    """The text of a step."""
    if step.body is None:
        return ""
    if step.kind == "loss":
        return error_text(failure_of(step.body))
    if step.kind != "call":
        value = json.loads(step.body)
        return value if isinstance(value, str) else as_json(value)
    if body.get("tool_calls"):
        return "\n".join(f"{name}({arguments})" for _, name, arguments in body["tool_calls"])
    return str(body.get("text") or as_json(body.get("data")))
