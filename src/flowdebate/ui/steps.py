"""Steps of stored runs as shown in front ends, and the relation between a fork's steps and its parent's steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from pydantic import Field, ValidationError

from flowdebate._text import error_text
from flowdebate._util.json_data import json_data
from flowdebate._util.wire import WireModel
from flowdebate.models.base import Attempt, ModelRequest, without_images
from flowdebate.models.codec import attempts_of, digest_of, failure_of, usage_of
from flowdebate.store.base import StepRow, StoredRun
from flowdebate.ui.text import as_json


class StepTokens(WireModel):
    """Token counts of a call; a count is None if it is unknown."""

    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None


class RefusedAnswer(WireModel):
    """Failed request to a model, and the unusable answer, if any."""

    model: str
    error: str
    """Class name of the error, such as "SchemaViolation"."""
    answer: str | None
    """Text of the model's answer, if any."""
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Build the description of a failed attempt."""
        return cls(
            model=attempt.model,
            error=attempt.error or "",
            answer=attempt.answer,
            prompt_tokens=attempt.usage.prompt_tokens,
            completion_tokens=attempt.usage.completion_tokens,
            seconds=attempt.seconds,
        )


class StepState(WireModel):
    """A step of a run: a model call, a side effect, an accepted failure, or a human's answer."""

    place: str
    """Path of the step, unique within the run."""
    kind: str
    finished: bool
    at: float | None
    """Time when the step ended, in seconds since the epoch."""
    attempts: int
    failures: list[str]
    """Reasons why previous attempts at the step failed."""
    refused: list[RefusedAnswer]
    """Failed requests for this call; if the call was answered, they all precede the answer."""
    repaired: list[str]
    """Names of the repairs made to a structured answer, such as "code fence"."""
    model: str | None
    usage: StepTokens | None
    seconds: float | None
    origin: str | None
    """Origin of the answer: "asked" or, in forks only, "reused" or "edited"."""
    text: str
    """Text of the answer, or JSON if the answer is structured."""

    @classmethod
    def of(cls, step: StepRow) -> Self:
        body = call_body(step)
        seconds = body.get("seconds")
        return cls(
            place=step.key,
            kind=step.kind,
            finished=step.body is not None,
            at=step.at,
            attempts=step.attempts,
            failures=list(map(failure_text, step.failures)),
            refused=_refused(step, body),
            repaired=_repairs(body),
            model=_model(body),
            usage=_usage(body),
            seconds=seconds if isinstance(seconds, (int, float)) else None,
            origin=str(_recorded(step).get("origin", "asked"))
            if step.body and step.kind in ("call", "human")
            else None,
            text=_text(step, body),
        )


class CallTool(WireModel):
    """A tool offered to the model."""

    name: str
    description: str
    parameters: dict[str, Any]


class CallDetails(WireModel):
    """A model call as prepared by the library, before its conversion to the provider's format."""

    place: str
    block: str
    messages: list[dict[str, Any]]
    answer_schema: dict[str, Any] | None
    """JSON Schema for the answer; None for a text answer."""
    tools: list[CallTool]
    choices: list[str]
    begins: str
    """Required beginning of the answer, for models that can continue existing text."""
    recorded: bool
    """True if the journal shows that exactly this request was sent; False if the actual request may have differed."""

    @classmethod
    def of(cls, place: str, request: ModelRequest, steps: Iterable[StepRow]) -> Self:
        """Build the details from a request obtained by replaying the run."""
        digest = digest_of(request)
        return cls(
            place=place,
            block=request.block,
            messages=[
                json_data({**message, "content": without_images(message.get("content"))})
                for message in request.messages
            ],
            answer_schema=request.output_schema,
            tools=[
                CallTool(name=tool.name, description=tool.description, parameters=dict(tool.parameters))
                for tool in request.tools
            ],
            choices=list(request.choices),
            begins=request.begins,
            recorded=any(step.key == place and step.request == digest for step in steps),
        )


class Fork(WireModel):
    """Relation between a fork and its parent run."""

    parent: str
    """The parent run's ID."""
    reused: int
    """Number of answers reused from the parent's journal."""
    at: str | None = Field(default=None, exclude_if=lambda place: place is None)
    """Path of the first step that was not reused; None (and omitted from JSON) if no step was specified for
    the fork.
    """
    edited: tuple[str, ...] = ()
    """Paths of the answers replaced in the fork."""
    asked: int
    """Number of new answers obtained from models or humans."""

    @classmethod
    def of(cls, run: StoredRun, steps: Sequence[StepRow]) -> Self | None:
        """Build the relation between a forked run and its parent; return None if the run is not a fork."""
        parent = run.header.parent
        if parent is None:
            return None
        edits: dict[str, Any] = parent.get("edits") or {}
        answers = [step for step in steps if step.kind in ("call", "human") and step.body is not None]
        origins = ["edited" if step.key in edits else str(_recorded(step).get("origin", "asked")) for step in answers]
        return cls(
            parent=str(parent.get("run")),
            reused=origins.count("reused"),
            at=parent.get("at"),
            edited=tuple(step.key for step in steps if step.key in edits and step.body is not None),
            asked=origins.count("asked"),
        )

    @property
    def counts(self) -> str:
        """Text stating how many answers were reused, edited and newly requested.

        >>> Fork(parent="rents", reused=5, edited=(), asked=2).counts
        '5 answers reused, 2 asked for'
        """
        reused = f"{self.reused:,} {'answer' if self.reused == 1 else 'answers'} reused"
        edited = [f"{len(self.edited):,} edited"] if self.edited else []
        return ", ".join([reused, *edited, f"{self.asked:,} asked for"])


def check_edits(
    edits: Mapping[str, Any], steps: Sequence[StepRow], requests: Mapping[str, ModelRequest]
) -> dict[str, Any]:
    """Check that each edited answer fits its step: data for an answer with a schema, text for any other answer.

    `requests` are the run's model requests. Raises OutputError with a list of the invalid fields.
    """
    from flowdebate.blocks.human.answers import check_answer, check_submission
    from flowdebate.runs.suspend import request_of

    people = {step.key: step for step in steps if step.kind == "human" and step.request is not None}

    def one(place: str, edit: object) -> object:
        if place in people:
            return check_submission(request_of(place, people[place].request or ""), edit)
        request = requests.get(place)
        if request is None or request.output_schema is None:
            return edit
        return check_answer(request.output_schema, edit, block=request.block)

    return {place: one(place, edit) for place, edit in edits.items()}


def call_body(step: StepRow) -> dict[str, Any]:
    """Return the recorded answer to a call; return an empty dict for any other kind of step."""
    return _recorded(step) if step.kind == "call" else {}


def _recorded(step: StepRow) -> dict[str, Any]:
    body = None if step.body is None else json.loads(step.body)
    return body if isinstance(body, dict) else {}


def failure_text(recorded: str) -> str:
    """Describe a recorded failure."""
    try:
        return str(json.loads(recorded)["error"])
    except (ValueError, KeyError, TypeError):  # an imported run may contain any values
        return recorded


def _refused(step: StepRow, body: dict[str, Any]) -> list[RefusedAnswer]:
    rows = body.get("attempts") or []
    for failure in reversed(step.failures if step.kind == "call" else ()):
        with suppress(ValueError, TypeError, AttributeError):  # an imported run may contain any values
            rows = [*json.loads(failure).get("attempts", ()), *rows]
    with suppress(ValueError, TypeError):
        return [RefusedAnswer.of(attempt) for attempt in attempts_of(rows) if attempt.error is not None]
    return []


def _repairs(body: dict[str, Any]) -> list[str]:
    repaired = body.get("repaired")
    return list(map(str, repaired)) if isinstance(repaired, list) else []


def _model(body: dict[str, Any]) -> str | None:
    """Return the name of the model that answered: the name requested by the run, not the one reported by the server."""
    attempts = body.get("attempts")
    if isinstance(attempts, list) and attempts and isinstance(attempts[-1], list) and attempts[-1]:
        return str(attempts[-1][0])
    return None if body.get("model") is None else str(body["model"])


def _usage(body: dict[str, Any]) -> StepTokens | None:
    numbers = body.get("usage")
    try:
        usage = usage_of(numbers)  # type: ignore[arg-type]  # of another version, or imported from anybody
        return StepTokens(**{name: getattr(usage, name) for name in StepTokens.model_fields})
    except (ValueError, TypeError, ValidationError):
        return None


def _text(step: StepRow, body: dict[str, Any]) -> str:
    if step.body is None:
        return ""
    if step.kind == "loss":
        return error_text(failure_of(step.body))
    if step.kind != "call":
        value = json.loads(step.body)
        if step.kind == "human" and isinstance(value, dict):
            value = value.get("answer")  # the human's name is shown next to the answer
        return value if isinstance(value, str) else as_json(value)
    if body.get("tool_calls"):  # an answer with tool calls has no text
        return "\n".join(f"{name}({arguments})" for _, name, arguments in body["tool_calls"])
    return str(body.get("text") or as_json(body.get("data")))
