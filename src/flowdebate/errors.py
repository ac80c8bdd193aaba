"""All errors and warnings raised by the library.

    FlowDebateError
    ├── ConfigurationError (ValueError)      invalid options: the block or run cannot be built
    │   ├── ConflictingOptions               options that cannot be combined
    │   └── ResourceConflict                 two different resources under one key
    ├── ModelError                           a model could not be called, or gave no usable answer
    │   ├── ModelUnavailable                 no model is configured, or its endpoint cannot be reached
    │   │   └── ConnectionLost               the connection broke before the answer was complete
    │   ├── ModelTimeout                     the call exceeded its deadline
    │   ├── RequestRejected                  the endpoint rejected the request
    │   │   ├── AuthenticationFailed         the key is missing, wrong or lacks permission
    │   │   ├── ModelNotFound                the endpoint does not know the model
    │   │   ├── ContextTooLong               the prompt does not fit the model's context
    │   │   └── RateLimited                  too many requests, or the quota is used up
    │   ├── ProviderFailed                   the endpoint reported an internal error (5xx)
    │   ├── CircuitOpen                      the circuit breaker is open after repeated failures
    │   ├── BadAnswer                        an answer arrived but cannot be used
    │   │   ├── MalformedResponse            the response violates the protocol
    │   │   ├── ResponseTooLarge             it is longer than allowed
    │   │   ├── EmptyResponse                it has no text
    │   │   ├── OutputTruncated              it was cut off
    │   │   │   └── LostToThinking           the model used up its token limit by thinking
    │   │   ├── Refused                      the model declined to answer
    │   │   │   └── ContentFiltered          the provider's filter stopped the answer
    │   │   └── SchemaViolation              it does not match the schema
    │   ├── ToolLoopExceeded                 the model kept calling tools
    │   ├── RealModelForbidden               a test forbids real model calls
    │   ├── CassetteMismatch (AssertionError) a replayed run made an unrecorded call, or left a recorded one unused
    │   └── ScriptError (AssertionError)     a scripted model was called too often, or not often enough
    ├── OutputError                          a block of the application returned an unusable value
    │   └── RosterError                      a moderator or a speaker named an invalid next speaker
    ├── ReadOnly                             a block tried to change state reserved for its pattern
    ├── LimitReached                         the run reached one of its limits
    │   └── BudgetReached                    a budget shared by several runs is used up
    ├── TooManyRuns                          a service is already executing its maximum number of runs
    ├── QuorumLost                           too few stances were heard in a round
    ├── NoProposals                          no agent made a proposal
    ├── LoopLimitExceeded                    a loop did not end within its limit
    ├── PromiseBroken (AssertionError)       a check found that a pattern breaks a promise
    ├── ViewError                            a string cannot be parsed as a rendered transcript
    ├── BadFile                              a file named by the user cannot be used
    ├── StoreError                           a store of runs cannot be read or written
    │   ├── StoreLost                        its records may be lost: the file is gone, or the disk failed
    │   ├── RunNotFound                      no run with this id
    │   ├── RunExists                        another run has this id
    │   ├── RunConflict                      another process is executing the run
    │   ├── RunChanged                       the run was started with different options
    │   ├── RunUncertain                     a call may have been made already, and must not be made twice
    │   ├── JournalMismatch                  a step makes a request different from the recorded one
    │   ├── NotRecordable                    the result of a step cannot be stored
    │   ├── NotAwaited                       the run is not waiting for this answer
    │   └── DeadLetter                       the run has crashed its process too often to be resumed
    └── TaskError
        ├── TaskNotFound                     no task with this id
        └── IllegalTransition                the task's status does not allow the change

    FlowDebateWarning (UserWarning)          suspicious but allowed

Each class takes the facts as arguments and composes the message from them; the facts remain available as attributes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, Unpack

from flowdebate._text import did_you_mean, join_choices, listed, pickles, short_repr, typed

__all__ = (
    "AuthenticationFailed", "BadAnswer", "BadFile", "BudgetReached", "CassetteMismatch", "CircuitOpen",
    "ConfigurationError", "ConflictingOptions", "ConnectionLost", "ContentFiltered", "ContextTooLong",
    "DeadLetter", "EmptyResponse",
    "FlowDebateError", "FlowDebateWarning", "IllegalTransition", "JournalMismatch", "LimitReached",
    "LoopLimitExceeded", "LostToThinking", "MalformedResponse", "ModelError", "ModelNotFound", "ModelTimeout",
    "ModelUnavailable", "NoProposals", "NotAwaited", "NotRecordable", "OutputError", "OutputTruncated",
    "PromiseBroken", "ProviderFailed", "QuorumLost", "RateLimited", "ReadOnly", "RealModelForbidden", "Refused",
    "RequestRejected", "ResourceConflict", "ResponseTooLarge", "RosterError", "RunChanged", "RunConflict",
    "RunExists", "RunNotFound", "RunUncertain", "SchemaViolation", "ScriptError", "StoreError", "StoreLost",
    "TaskError", "TaskNotFound", "TooManyRuns", "ToolLoopExceeded", "ViewError",
)  # fmt: skip


def _restored(kind: type[FlowDebateError], args: tuple[object, ...]) -> FlowDebateError:
    """Recreate a pickled error without its attributes; pickle sets them afterwards."""
    error = kind.__new__(kind)
    error.args = args
    return error


class FlowDebateWarning(UserWarning):
    """Warning about something suspicious but allowed; the message says what to write instead."""


class FlowDebateError(Exception):
    """Base class of the library's errors: `except FlowDebateError` catches all of them."""

    run: Any = None  # actually a RunView, but the layer that defines it imports this module
    """View of the run ended by the error, with its transcript, events and raw output so far (a `RunView`); None outside
    a run.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle any error, replacing an unpicklable attribute with its text and an unpicklable `run` with None."""
        facts, run = vars(self).copy(), self.run
        try:
            self.run = None  # avoids a cycle, because a run may refer to the error that ended it
            facts = {name: fact if name == "run" or pickles(fact) else short_repr(fact) for name, fact in facts.items()}
            facts["run"] = run if run is not None and pickles(run) else None
        finally:
            self.run = run
        return _restored, (type(self), self.args), facts


class ConfigurationError(FlowDebateError, ValueError):
    """The block or run cannot be built, because its options are invalid; raised before anything runs.

    `problem` is the predicate of a sentence whose subject is the field. `choices` lists the valid values, from which
    the message suggests one. If there is no `problem`, the message says that the value must be one of the `choices`.
    `message` replaces the entire sentence.

    >>> print(ConfigurationError("debate 'rent'", "max_rounds", 0, "must be at least 1"))
    debate 'rent': `max_rounds` must be at least 1 (got 0)
    >>> print(ConfigurationError("debate 'rent'", "on_failure", "skp", choices=["fail", "skip"]))
    debate 'rent': `on_failure` must be fail or skip (got skp). Did you mean skip?
    """

    def __init__(
        self,
        location: str,
        field: str,
        got: object,
        problem: str = "",
        *,
        hint: str = "",
        choices: Iterable[str] = (),
        message: str | None = None,
    ) -> None:
        self.location = location
        self.field = field
        self.got = got
        names = list(choices)
        self.problem: str = problem or message or f"must be {join_choices(names)}"
        """Problem with the field: a sentence without its subject."""
        if not hint and names:
            listed = join_choices(names)
            hint = did_you_mean(got, names) if isinstance(got, str) else ""
            hint = hint or ("" if listed in self.problem else f"Choose {listed}")
        self.hint: str = hint
        # The name `message` is avoided because frameworks such as Inspect expect text in an attribute with that name.
        self.whole_message = message
        """The complete message, if it is about something other than a wrong value; otherwise None."""
        if message is None:
            received = "" if self.given is None else f" (got {self.given})"
            message = f"{location}: `{field}` {self.problem}{received}"
        super().__init__(f"{message}. {hint}" if hint else message)

    def moved(self, location: str, field: str) -> ConfigurationError:
        """Return a copy of the error for a different location and field."""
        return ConfigurationError(location, field, self.got, self.problem, hint=self.hint)

    @property
    def given(self) -> str | None:
        """The value as shown in the message; None if it is missing or irrelevant to the problem."""
        if self.got is None or (isinstance(self.got, str) and not self.got.strip()):
            return None
        if isinstance(self.got, type):
            return self.got.__name__
        return f'"{self.got}"' if isinstance(self.got, str) and _SCALAR.fullmatch(self.got) else typed(self.got)


_SCALAR = re.compile(r"-?\d[\d.e+-]*|true|false|null|True|False|None")
"""Regular expression matching text that would look like a value of another type if it were not quoted."""


class ConflictingOptions(ConfigurationError):
    """Options that cannot be combined, although each is valid on its own.

    >>> sentence = "{mirror} cannot be combined with {turn_order} simultaneous"
    >>> error = ConflictingOptions("debate 'rent'", ("mirror", "turn_order"), sentence)
    >>> print(error)
    debate 'rent': `mirror` cannot be combined with `turn_order` simultaneous
    >>> print(error.at("command line", {"mirror": "--mirror", "turn_order": "--turn-order"}))
    command line: `--mirror` cannot be combined with `--turn-order` simultaneous
    """

    def __init__(
        self, location: str, options: Sequence[str], sentence: str, *, spelled: Mapping[str, str] | None = None
    ) -> None:
        names = {option: option for option in options} | dict(spelled or {})
        self.options: tuple[str, ...] = tuple(options)
        self.sentence = sentence
        """The message without its location, with each option name in braces."""
        text = sentence.format_map({name: f"`{text}`" for name, text in names.items()})
        super().__init__(location, names[self.options[0]], None, text, message=f"{location}: {text}")

    def at(self, location: str, spelled: Mapping[str, str]) -> ConflictingOptions:
        """Return a copy of the error for another location; `spelled` maps each option to its spelling there."""
        return ConflictingOptions(location, self.options, self.sentence, spelled=spelled)


class ResourceConflict(ConfigurationError):
    """Two different resource objects have the same key in one pipeline."""

    def __init__(self, location: str, key: str, owners: Sequence[str]) -> None:
        self.key = key
        self.owners: tuple[str, ...] = tuple(owners)
        super().__init__(
            location,
            f"resources.{key}",
            None,
            f"must be the same object in {' and '.join(owners)}",
            hint=f"Create the {key} once and pass the same reference to every block (and to the pattern: {key}={key})",
        )


class _Asker(TypedDict, total=False):
    model: str | None
    block: str | None
    transient: bool | None


class ModelError(FlowDebateError):
    """A model could not be called, or gave no usable answer.

    `model` is the model's name, and `block` is the calling block; each is None if unknown.
    """

    transient: bool = False
    """True if another attempt may succeed, either later or once the model has been told why it failed; a `Retry`
    retries only such calls.
    """
    retry_after: float | None = None
    """Number of seconds to wait, as requested by the endpoint; None if it did not specify a time."""
    providers_fault: bool = True
    """True if a debate may continue without this answer; False for errors that must be fixed in the application or its
    tests.
    """

    def __init__(
        self, message: str, *, model: str | None = None, block: str | None = None, transient: bool | None = None
    ) -> None:
        self.message = message
        self.model = model
        self.block = block
        if transient is not None:
            self.transient = transient
        super().__init__(message)

    def __str__(self) -> str:
        location = [f"block {self.block!r}"] if self.block else []
        if self.model:
            location.append(f"model {self.model!r}")
        return f"{self.message} ({', '.join(location)})" if location else self.message


class ModelUnavailable(ModelError):
    """No model is configured, or its endpoint cannot be reached; the message lists the ways to configure one."""


class ConnectionLost(ModelUnavailable):
    """The connection broke before the answer was complete; the call may have been billed."""

    transient = True


class ModelTimeout(ModelError):
    """The call did not finish within its deadline of `seconds` seconds."""

    transient = True

    def __init__(self, seconds: float, *, what: str = "answer", **asker: Unpack[_Asker]) -> None:
        self.seconds = seconds
        late = f"no {what} within {seconds:g} s" if seconds > 0 else "the deadline passed before the call began"
        super().__init__(late, **asker)


class RequestRejected(ModelError):
    """The endpoint rejected the request; sending it again unchanged is pointless.

    `status` is the HTTP status; None if there is none.
    """

    certain: bool = True
    """True if it is clear which part of the request was rejected; False if the request may be accepted in a different
    form.
    """
    words: str = ""
    """Complete text of the rejection in lower case, including its codes and parameters."""

    def __init__(self, message: str, *, status: int | None = None, **asker: Unpack[_Asker]) -> None:
        self.status = status
        super().__init__(message, **asker)


class AuthenticationFailed(RequestRejected):
    """The key is missing, wrong, or lacks permission; the key itself is never shown."""

    providers_fault = False


class ModelNotFound(RequestRejected):
    """The endpoint does not know the model."""


class ContextTooLong(RequestRejected):
    """The prompt exceeds the model's context window."""


class RateLimited(RequestRejected):
    """Too many requests were sent, or the quota is used up.

    `retry_after` is the number of seconds to wait; None if the endpoint did not specify one. If `quota_exhausted` is
    true, waiting is pointless.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        quota_exhausted: bool = False,
        status: int | None = 429,
        **asker: Unpack[_Asker],
    ) -> None:
        self.retry_after = retry_after
        self.quota_exhausted = quota_exhausted
        self.transient: bool = not quota_exhausted
        super().__init__(message, status=status, **asker)


class ProviderFailed(ModelError):
    """The endpoint reported an internal error; `status` is the HTTP status, or None if there is none.

    `retry_after` is the number of seconds to wait; None if the endpoint did not specify one.
    """

    transient = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        **asker: Unpack[_Asker],
    ) -> None:
        self.status = status
        self.retry_after = retry_after
        super().__init__(message, **asker)


class CircuitOpen(ModelError):
    """After repeated failures, the circuit breaker stays open for another `seconds` seconds; no call was made."""

    def __init__(self, seconds: float, **asker: Unpack[_Asker]) -> None:
        self.seconds = seconds
        super().__init__(
            f"not called: the circuit breaker is open for another {seconds:.3g} s after repeated failures", **asker
        )


class BadAnswer(ModelError):
    """An answer arrived but cannot be used."""

    transient = True


class MalformedResponse(BadAnswer):
    """The response violates the protocol."""


class ResponseTooLarge(BadAnswer):
    """The answer is longer than `limit` units ("bytes" or "characters"); the rest was not read."""

    transient = False

    def __init__(self, limit: int, unit: str, **asker: Unpack[_Asker]) -> None:
        self.limit = limit
        self.unit = unit
        super().__init__(f"the answer is longer than {limit:,} {unit}", **asker)


class EmptyResponse(BadAnswer):
    """The answer has no text."""


class OutputTruncated(BadAnswer):
    """The answer was cut off; a higher `max_tokens` gives the model more room."""


class LostToThinking(OutputTruncated):
    """The model spent its output on thinking and wrote no answer: it hit the token limit, or `stopped` on its own.

    `room` is the limit in tokens; None for the server's own limit.
    """

    def __init__(
        self, *, room: int | None = None, thought: int | None = None, stopped: bool = False, **asker: Unpack[_Asker]
    ) -> None:
        self.room = room
        self.thought = thought
        self.stopped = stopped
        used = "" if not thought else f" ({thought:,} tokens)"
        if stopped:
            advice = "check the server's chat template and reasoning parser, or lower effort"
            super().__init__(f"the model stopped after thinking{used} and wrote no answer: {advice}", **asker)
            return
        first_step = "set max_tokens (currently unset)" if room is None else f"raise max_tokens ({room:,})"
        super().__init__(
            f"the model used its token limit for thinking{used} and wrote no answer: {first_step}, or lower effort",
            **asker,
        )


class Refused(BadAnswer):
    """The model declined to answer; `reason` is the text of its refusal."""

    transient = False

    def __init__(self, reason: str, **asker: Unpack[_Asker]) -> None:
        self.reason = reason
        super().__init__(f"the model declined to answer: {short_repr(reason)}", **asker)


class ContentFiltered(Refused):
    """The provider's content filter stopped the answer or rejected the request."""

    status: int | None = None
    """HTTP status of the rejected request; None if the filter stopped an answer instead."""


class SchemaViolation(BadAnswer):
    """A model's answer does not match the schema; `problems` are `(field, problem)` pairs.

    `answer` is the text of the invalid answer, if there is one; the message does not show it.
    """

    def __init__(
        self,
        problems: Iterable[tuple[str, str]],
        *,
        answer: str | None = None,
        **asker: Unpack[_Asker],
    ) -> None:
        self.problems: tuple[tuple[str, str], ...] = tuple(problems)
        self.answer = answer
        super().__init__(f"the answer does not match its schema: {listed(self.problems)}", **asker)


class ToolLoopExceeded(ModelError):
    """The model kept calling tools for `rounds` requests without giving an answer."""

    def __init__(self, rounds: int, **asker: Unpack[_Asker]) -> None:
        self.rounds = rounds
        super().__init__(
            f"the model was still calling tools after {rounds} rounds; raise `max_tool_rounds`, or offer fewer tools",
            **asker,
        )


class RealModelForbidden(ModelError):
    """A real model would have been called although `forbid_real_models()` is in force."""

    providers_fault = False

    def __init__(self, *, model: str | None = None) -> None:
        super().__init__(
            "real model calls are forbidden here; use ScriptedModel or FunctionModel from flowdebate.testing, "
            "or allow_real_models() around the call",
            model=model,
        )


class CassetteMismatch(ModelError, AssertionError):
    """A replayed run made a call that is not in the cassette, or left recorded calls unused."""

    providers_fault = False


class ScriptError(ModelError, AssertionError):
    """A scripted model was called more often than its script allows, or not often enough."""

    providers_fault = False


class OutputError(FlowDebateError):
    """One of the application's blocks, or a human answering for it, returned an unusable value.

    `problems` are `(field, problem)` pairs; the field is empty if the problem concerns the whole value.

    >>> str(OutputError("ann", "a Vote", [("choice", "is missing")], by_person=True))
    'the answer for ann is invalid: `choice` is missing'
    """

    def __init__(
        self, block: str, expected: str, problems: Iterable[tuple[str, str]], *, by_person: bool = False
    ) -> None:
        self.block = block
        self.expected = expected
        self.problems: tuple[tuple[str, str], ...] = tuple(problems)
        frame = f"block {block!r} must return {expected}:"
        if by_person:
            has_field = any(field for field, _ in self.problems)
            frame = f"the answer for {block}{' is invalid:' if has_field else ''}"
        super().__init__(f"{frame} {listed(self.problems)}")


class RosterError(OutputError):
    """A moderator or a speaker named somebody who cannot speak next.

    `available` lists the possible speakers in declared order, and `field` is the location of the name. `problem`
    describes what is wrong with the name; if it is "", no debater has this name.
    """

    def __init__(
        self, block: str, name: str, available: Sequence[str], *, field: str = "next_speakers", problem: str = ""
    ) -> None:
        self.name = name
        self.available: tuple[str, ...] = tuple(available)
        problem = problem or f"{typed(name)} is not a debater"
        super().__init__(
            block, "names of debaters", [(field, f"{problem}; available: {', '.join(map(typed, available))}")]
        )


class ReadOnly(FlowDebateError):
    """A block tried to change state reserved for its pattern: the transcript, the round, or a turn's task.

    >>> str(ReadOnly("`round` of 'rent'", "to add to the debate, return an answer", block="pro"))
    "block 'pro' must not change `round` of 'rent'; to add to the debate, return an answer"
    """

    def __init__(self, what: str, hint: str, *, block: str | None = None) -> None:
        self.what = what
        self.hint = hint
        self.block = block
        """The block that attempted the change; None outside of a run."""
        super().__init__(what, hint)

    def __str__(self) -> str:
        who = "nobody may" if self.block is None else f"block {self.block!r} must not"
        return f"{who} change {self.what}; {self.hint}"


class LimitReached(FlowDebateError):
    """The run has reached one of its limits, and the next call would exceed it.

    `kind` is the limit's field name in `Limits`.

    >>> str(LimitReached("calls", limit=10, used=10))
    'the run has reached its limit: calls=10 (10 used)'
    """

    def __init__(self, kind: str, *, limit: float, used: float) -> None:
        self.kind = kind
        self.limit = limit
        self.used = used
        super().__init__(f"the run has reached its limit: {kind}={limit:g} ({used:.6g} used)")


class BudgetReached(LimitReached):
    """A budget shared by several runs, such as a service's budget for all its runs, is used up.

    `budget` is the budget's name. `until` is the time at which an owner's daily budget is reset, in seconds since the
    epoch; None for other budgets.

    >>> str(BudgetReached("calls", limit=1000, used=1000))
    'the budget for all runs is exhausted: 1,000 of 1,000 calls used'
    >>> str(BudgetReached("calls", limit=50, used=50, budget="'ann'", until=86_400))
    "the budget for 'ann' is exhausted: 50 of 50 calls used; it resets at 1970-01-02 00:00 UTC"
    """

    def __init__(
        self, kind: str, *, limit: float, used: float, budget: str = "all runs", until: float | None = None
    ) -> None:
        self.kind = kind
        self.limit = limit
        self.used = used
        self.budget = budget
        self.until = until
        what = "spent" if kind == "cost" else f"{kind} used"
        sentence = f"the budget for {budget} is exhausted: {round(used, 6):,} of {limit:,} {what}"
        if until is not None:
            sentence += f"; it resets at {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"
        super(LimitReached, self).__init__(sentence)

    @property
    def retry_after(self) -> float | None:
        """Number of seconds until the budget is reset; None if it is never reset."""
        return None if self.until is None else max(0.0, self.until - time.time())


class TooManyRuns(FlowDebateError):
    """A service is already executing `most` runs, with `queued` more waiting; try again after `retry_after` seconds."""

    def __init__(self, maximum: int, *, queued: int = 0, retry_after: float = 5.0) -> None:
        self.maximum = maximum
        self.queued = queued
        self.retry_after = retry_after
        super().__init__(f"too many runs: {maximum} in progress and {queued} waiting; try again later")


class QuorumLost(FlowDebateError):
    """Fewer stances than `quorum` were `heard` in `round`, so the debate cannot continue.

    `failures` contains the errors, keyed by name.
    """

    def __init__(
        self,
        block: str,
        *,
        round: int,  # noqa: A002 - the field's word for it
        heard: Sequence[str],
        quorum: int,
        failures: Mapping[str, str] | None = None,
    ) -> None:
        self.block = block
        self.round = round
        self.heard: tuple[str, ...] = tuple(heard)
        self.quorum = quorum
        self.failures: dict[str, str] = dict(failures or {})
        names = f"only {join_choices(heard, word='and')}" if heard else "nobody"
        why = "; ".join(f"{name}: {error}" for name, error in self.failures.items())
        message = f"block {block!r}: {names} answered in round {round}, but the quorum is {quorum}"
        super().__init__(f"{message} ({why})" if why else message)


class NoProposals(FlowDebateError):
    """No agent made a proposal; `failures` contains the errors, keyed by agent."""

    def __init__(self, pattern: str, failures: Mapping[str, str]) -> None:
        self.pattern = pattern
        self.failures: dict[str, str] = dict(failures)
        listed = "; ".join(f"{agent}: {error}" for agent, error in self.failures.items())
        super().__init__(f"{pattern}: no agent made a proposal ({listed})")


class LoopLimitExceeded(FlowDebateError):
    """A `do_while` or `do_until` loop did not end within `limit` iterations."""

    def __init__(self, block: str, limit: int) -> None:
        self.block = block
        self.limit = limit
        super().__init__(
            f"block {block!r} did not end within {limit} iterations; if it needs more, raise `max_iterations`"
        )


class PromiseBroken(FlowDebateError, AssertionError):
    """`check_debate` or `check_pattern` has found a pattern that breaks one of the library's promises.

    `example` is the smallest failing example; None if the promise is about all examples taken together. `reproduce` is
    a call that repeats the check.
    """

    def __init__(self, promise: str, meaning: str, problem: str, *, example: object = None, reproduce: str) -> None:
        self.promise = promise
        self.meaning = meaning
        self.problem = problem
        self.example = example
        self.reproduce = reproduce
        drawn = "" if example is None else f"\n  example: {example!r}"
        super().__init__(f"{promise}: {meaning}\n  found: {problem}{drawn}\n  reproduce: {reproduce}")


class ViewError(FlowDebateError):
    """A string is not a valid rendered transcript: no renderer could have produced it."""

    def __init__(self, got: str, expected: str) -> None:
        self.got = got
        self.expected = expected
        super().__init__(f"expected {expected}, got {short_repr(got)}")


class BadFile(FlowDebateError):
    """A file named by the user cannot be used: for example, it is missing, too large, or of the wrong kind.

    >>> str(BadFile("debate.toml", "is larger than 1 MB"))
    'debate.toml: is larger than 1 MB'
    """

    def __init__(self, path: str, problem: str, *, no_changes: Literal["none", "unread"] | None = None) -> None:
        self.path = path
        self.problem = problem
        self.no_changes = no_changes
        """State of a diff without readable changes; None for all other problems.

        It is "none" if there are no changes, and "unread" if none can be read. This lets a hook tell such diffs
        from mistakes.
        """
        super().__init__(f"{path}: {problem}")


class StoreError(FlowDebateError):
    """A store of runs cannot be read or written.

    The failed operation left the store unchanged; `store` is the store's location.

    >>> str(StoreError("runs.sqlite3", "is not a database"))
    'store runs.sqlite3: is not a database'
    """

    def __init__(self, store: str, problem: str) -> None:
        self.store = store
        self.problem = problem
        super().__init__(f"store {store}: {problem}")


class StoreLost(StoreError):
    """The store's records may be lost: its file was deleted, moved or replaced, or its disk failed."""


class RunNotFound(StoreError):
    """The store has no run with this id."""

    def __init__(self, store: str, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(store, f"there is no run {typed(run_id)}")


class RunExists(StoreError):
    """The store already has a run with this id."""

    def __init__(self, store: str, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(store, f"run {typed(run_id)} already exists")


class RunConflict(StoreError):
    """Another process is executing the run, or has taken it over."""

    def __init__(self, store: str, run_id: str, problem: str = "is being run by another process") -> None:
        self.run_id = run_id
        super().__init__(store, f"run {run_id} {problem}")


class RunChanged(StoreError):
    """The run was started with different options; `differences` contains the differing lines, keyed by part."""

    def __init__(self, store: str, run_id: str, differences: Mapping[str, Sequence[str]]) -> None:
        self.run_id = run_id
        self.differences: dict[str, tuple[str, ...]] = {name: tuple(lines) for name, lines in differences.items()}
        listed = "\n".join(f"{name}:\n  " + "\n  ".join(lines) for name, lines in self.differences.items())
        super().__init__(store, f"run {run_id} was started with different options (- then, + now)\n{listed}")


class RunUncertain(StoreError):
    """The step `key` was started `attempts` times without recording a result, so it may already have been paid for."""

    def __init__(self, store: str, run_id: str, key: str, attempts: int) -> None:
        self.run_id = run_id
        self.key = key
        self.attempts = attempts
        how_often = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(
            store,
            f"run {run_id}: {key} was started {how_often}, and its result was never recorded; "
            'on_uncertain="retry" would make the call again',
        )


class JournalMismatch(StoreError):
    """The request made by the step `key` differs from the one recorded under this key."""

    def __init__(self, store: str, run_id: str, key: str, problem: str) -> None:
        self.run_id = run_id
        self.key = key
        super().__init__(store, f"run {run_id}: {key} {problem}")


class NotRecordable(StoreError):
    """The result of the step `key` cannot be stored as JSON."""

    def __init__(self, store: str, run_id: str, key: str, got: object) -> None:
        self.run_id = run_id
        self.key = key
        super().__init__(
            store,
            f"run {run_id}: the result of {key} is not JSON data, so it could not be restored when the run is resumed: "
            f"{short_repr(got)}; declare its type: ctx.step(…, returns=TYPE)",
        )


class NotAwaited(StoreError):
    """The run is not waiting for this answer.

    `open` lists the paths where the run is waiting for an answer, and `problem` states why this answer was rejected.
    """

    def __init__(self, store: str, run_id: str, problem: str, open: Sequence[str] = ()) -> None:  # noqa: A002
        self.run_id = run_id
        self.open: tuple[str, ...] = tuple(open)
        waits = f"; it is waiting at: {', '.join(self.open)}" if self.open else ""
        super().__init__(store, f"run {run_id} {problem}{waits}")


class DeadLetter(StoreError):
    """The run has crashed its process `recoveries` times in a row without making progress."""

    def __init__(self, store: str, run_id: str, recoveries: int) -> None:
        self.run_id = run_id
        self.recoveries = recoveries
        super().__init__(
            store,
            f"run {run_id} has crashed its process {recoveries} times in a row without progress, so it is not resumed; "
            "it can still be read, or resumed with retry_dead_letter=True",
        )


class TaskError(FlowDebateError):
    """Base class of the errors raised by a `TaskCollection`; the collection is left unchanged."""


class TaskNotFound(TaskError):
    """The collection has no task with this id."""

    def __init__(self, collection_id: str, task_id: str) -> None:
        self.collection_id = collection_id
        self.task_id = task_id
        super().__init__(f"task collection {collection_id!r} has no task {task_id!r}")


class IllegalTransition(TaskError):
    """The task's status cannot be changed as requested.

    Either the current `status` does not allow the change or, if `status in allowed`, `reason` says what prevents it.
    """

    def __init__(self, task_id: str, *, action: str, status: str, allowed: Sequence[str], reason: str = "") -> None:
        self.task_id = task_id
        self.action = action
        self.status = status
        self.allowed: tuple[str, ...] = tuple(allowed)
        why = reason if status in allowed else f"it is {status}, but must be {' or '.join(allowed)}"
        super().__init__(f"cannot {action} task {task_id!r}: {why}")
