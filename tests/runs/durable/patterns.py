"""Helpers for the tests of durable runs: every pattern, a model that answers any request, and the state of a run."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    Persona,
    consensus,
    create_debate_transcript,
    create_moderator,
    debate,
    deliberation,
    handoff,
    round_robin,
)
from flowdebate.chassis.state import RoleFailed
from flowdebate.errors import ProviderFailed
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.runs.events import BlockAnswered, RunFinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.result import RunResult

SKIP = FailurePolicy(on_failure="skip")

QUESTION = "How can rents be affordable?"
_NAMES = ("ann", "bob", "cy")


def _debate() -> Any:
    return debate(
        name="rent",
        debaters=[Debater("ann", "for"), Debater("bob", "against")],
        max_rounds=2,
        failures=SKIP,
    )


def _moderated() -> Any:
    transcript = create_debate_transcript()
    return debate(
        name="rent",
        debaters=[Debater("ann", "for"), Debater("bob", "against")],
        moderator=create_moderator(name="rent", roster_names=["ann", "bob"], transcript=transcript),
        transcript=transcript,
        max_rounds=2,
        failures=SKIP,
        synthesizer=False,
    )


def _at_once() -> Any:
    sides = [Debater("ann", "for"), Debater("bob", "against"), Debater("cy", "neither")]
    return debate(name="rent", debaters=sides, max_rounds=2, turn_order="simultaneous", failures=SKIP)


def _mirrored() -> Any:
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    return debate(name="rent", debaters=sides, max_rounds=1, turn_order="shuffled", mirror=True, failures=SKIP)


def _by_letter(judge: JudgeOptions) -> Any:
    """Use a quorum, so that a failed ballot does not cancel another one at a random time."""
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    return debate(name="rent", debaters=sides, max_rounds=2, judge=judge, synthesizer=False, failures=SKIP)


def _personas() -> list[Persona]:
    return [Persona(name, role="expert") for name in _NAMES]


PATTERNS: dict[str, Callable[[], Any]] = {
    "debate": _debate,
    "moderated": _moderated,
    "at once": _at_once,
    "mirrored": _mirrored,
    "by letter": lambda: _by_letter(JudgeOptions(answer_form="letter", crossed_labels=True, quorum=1)),
    "reasons and letter": lambda: _by_letter(JudgeOptions(answer_form="letter_after_reasons", quorum=1)),
    "deliberation": lambda: deliberation(name="deal", debaters=_personas(), max_rounds=2, failures=SKIP),
    "handoff": lambda: handoff(name="talk", debaters=_personas(), max_turns=4, failures=SKIP),
    "consensus": lambda: consensus(name="plan", agents=_personas(), max_rounds=2),
    "round_robin": lambda: round_robin(name="panel", debaters=_personas(), max_rounds=2, failures=SKIP),
}


def answer_to(request: ModelRequest, *, failing: float = 0.0) -> Any:
    """Return an answer that depends only on the request, or fail like a provider with probability `failing`."""
    text = json.dumps([request.block, request.messages], default=str)
    draw = Random(sha256(text.encode()).hexdigest())
    if draw.random() < failing:
        raise ProviderFailed("overloaded", status=503)
    if request.choices:
        return {choice: -draw.uniform(0.1, 2.0) for choice in request.choices}
    schema = request.output_schema
    if schema is None:
        return f"Point {draw.randrange(10**6)}."
    return fill_schema(schema, schema.get("$defs", {}), draw)


def fill_schema(schema: dict[str, Any], definitions: dict[str, Any], draw: Random) -> Any:  # noqa: PLR0911 - a case each
    """Return a value that fits `schema`, resolving references in `definitions`."""
    if "$ref" in schema:
        return fill_schema(definitions[schema["$ref"].rpartition("/")[2]], definitions, draw)
    for choices in ("anyOf", "oneOf", "allOf"):
        if choices in schema:
            return fill_schema(schema[choices][0], definitions, draw)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: fill_schema(part, definitions, draw) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [fill_schema(schema.get("items", {"type": "string"}), definitions, draw)]
    if kind == "boolean":
        return draw.random() < 0.3
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        return draw.randint(int(low), int(min(schema.get("maximum", low + 1), low + 10)))
    return None if kind == "null" else f"Words {draw.randrange(10**6)}."


def run_state(result: RunResult[Any], *, usage: bool = True) -> str:
    """Return the result of a run as text: output, raw output, the audit trails, and the events.

    Concurrent work is ordered differently in each run, so events and tasks are sorted and have no numbers. If a process
    was killed after a call had failed, the call is repeated, so its failure is reported and counted twice. Equal events
    therefore appear only once here, and `usage=False` omits the totals. It also omits judges' views, since the view for
    a failed ballot is not built again. Replay flags, and answers given within a failed role, are always omitted.
    """
    repeated: tuple[type, ...] = () if usage else (RunFinished, JudgeViewMade)
    failed = tuple(f"{event.path}/" for event in result.events if isinstance(event, RoleFailed))
    events = sorted(
        {
            json.dumps([type(event).__name__, _told(event)], default=to_jsonable_python, sort_keys=True)
            for event in result.events
            if not isinstance(event, repeated)
            and not (isinstance(event, BlockAnswered) and event.path.startswith(failed))
        }
    )
    state = {
        "status": result.status,
        "output": result.output,
        "raw": result.raw,
        "tasks": [
            sorted(json.dumps(task, default=str) for task in trail.to_wire()["tasks"])
            for trail in result.task_collections
        ],
        "usage": asdict(result.usage) if usage else None,
        "events": events,
    }
    return json.dumps(to_jsonable_python(state), sort_keys=True, indent=1)


def _told(event: object) -> Any:
    if not is_dataclass(event) or isinstance(event, type):
        return str(event)
    return {name: value for name, value in asdict(event).items() if name not in ("number", "replayed")}
