"""Suspended runs: requests for human input, and the exception that suspends a run until they are answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flowdebate.sources.source import Source, listed

if TYPE_CHECKING:
    from flowdebate.resources.tasks import TaskCollection


def _unchecked(answer: object) -> object:
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanRequest:
    """A question to a human."""

    block: str
    """Name of the block that made the request."""
    role: str | None = field(default=None, compare=False)
    """Role of the block in its pattern, such as "judge"; None if it has no role."""
    place: str
    """Unique path of the request within the run."""
    shown: str
    """Text for the human to read: the question and the transcript so far; text written by models is fenced."""
    expects: str
    """Description of the expected answer."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema for the answer; None if the answer is text."""
    problem: str | None = None
    """Problem with the previous answer; None for the first request."""
    sources: tuple[Source, ...] = field(default=(), repr=False, compare=False)
    """Sources that the human may quote; they are stored once, in the journal or the plan, and are not part
    of `text`.
    """
    check: Callable[[Any], Any] = field(default=_unchecked, repr=False, compare=False)
    """Function that converts an answer to its value, or raises an OutputError that lists all invalid fields."""

    @property
    def to_read(self) -> str:
        """Render `shown` and the sources as plain text.

        Short sources are included in full, long ones only by name and length.
        """
        return f"{self.shown}\n\n{listed(self.sources)}" if self.sources else self.shown

    @property
    def text(self) -> str:
        """JSON text of the request, as stored."""
        stored = {"shown": self.shown, "expects": self.expects, "schema": self.schema, "problem": self.problem}
        return json.dumps({"block": self.block, **stored})


def request_of(place: str, text: str) -> HumanRequest:
    """Parse a request from its stored `text`; raise ValueError, KeyError or TypeError if the text is invalid."""
    stored = json.loads(text)
    names = ("block", "shown", "expects", "schema", "problem")
    role = role_in_name(stored["block"], place)
    return HumanRequest(place=place, role=role, **{name: stored[name] for name in names})


_ROLES_IN_NAMES = {
    **dict.fromkeys(("debater", "speaker", "member", "agent", "propose", "criticize", "revise", "vote"), "debater"),
    **{role: role for role in ("moderator", "judge", "synthesizer", "chair", "referee", "reviewer", "merger")},
    "examiner": "reviewer",
}


def role_in_name(block: str, path: str) -> str | None:
    """Derive a block's role from its name, for stored records that lack a role.

    Older journals do not record the roles of failed calls, because the calls' events had no role. Stored requests to
    humans never include a role, because a resumed run has to find them unchanged. Patterns name their blocks
    "{pattern}-{role}" or "{pattern}-{role}-{member}". Returns None for a block named by the application.

    >>> role_in_name("rent-debater-ann", "rent/round[1]/rent-turn-ann"), role_in_name("solomon", "rent/solomon")
    ('debater', None)
    """
    for pattern in path.split("/"):
        before, separator, name = block.partition(f"{unquote(pattern)}-")
        if separator and not before:
            return _ROLES_IN_NAMES.get(name.removeprefix("stand-in-").partition("-")[0])
    return None


def answer_text(answer: object, *, suspended: bool, by: str | None = None) -> str:
    """Serialize an answer, its author (`by`; None for a human), and whether the run was `suspended` to wait for it."""
    stored = {"answer": answer, "parked": suspended}
    return json.dumps(stored if by is None else {**stored, "by": by})


def read_answer(body: str) -> tuple[Any, bool]:
    """Parse a stored answer; return the answer, and whether the run was suspended to wait for it."""
    stored = json.loads(body)
    return stored["answer"], stored["parked"]


class Suspended(BaseException):
    """Exception that suspends the run until `requests` are answered.

    The run ends with the status "awaiting", and can be resumed. It is not a subclass of `Exception`, so patterns'
    failure policies and blocks' `except Exception` clauses do not catch it.
    """

    def __init__(self, requests: Sequence[HumanRequest]) -> None:
        self.requests: tuple[HumanRequest, ...] = tuple(requests)
        blocks_waiting = ", ".join(f"{request.block!r} (at {request.place})" for request in self.requests)
        super().__init__(f"is waiting for an answer from {blocks_waiting}")


def merge_suspensions(branches: Mapping[int, Suspended]) -> Suspended:
    """Combine the suspensions of several branches into one exception that lists the requests in branch order.

    This way, all humans in a round are asked at the same time, and in the same order if the run is suspended again.
    """
    return Suspended([request for _, branch in sorted(branches.items()) for request in branch.requests])


def suspend_task(tasks: TaskCollection, task_id: str, suspended: Suspended) -> None:
    """Mark a task as awaiting review because its turn has been suspended."""
    if tasks.get(task_id).status == "in_progress":
        tasks.await_review(task_id, str(suspended))


def resume_task(tasks: TaskCollection, task_id: str) -> None:
    """Record the review of a task once its suspended turn has been answered."""
    task = tasks.get(task_id)
    if task.status == "in_progress":
        tasks.await_review(task_id)
        tasks.resume_from_review(task_id)
        tasks.claim(task_id=task_id, by=task.claimed_by)
