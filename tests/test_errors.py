"""Errors, which must keep all their attributes when they are copied or sent to another process."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from typing import Any

import pytest

from flowdebate import errors, generator
from flowdebate.errors import ConfigurationError, FlowDebateError, ProviderFailed, RunConflict, ScriptError
from flowdebate.testing import ScriptedModel

ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "BadFile": (("debate.toml", "is larger than 1 MB"), {}),
    "CircuitOpen": ((3.0,), {"model": "m"}),
    "ConfigurationError": (("debate 'x'", "max_rounds", 0, "must be at least 1"), {"hint": "Use 2."}),
    "ContentFiltered": (("no",), {"block": "b"}),
    "DeadLetter": (("memory", "r", 3), {}),
    "FlowDebateError": (("message",), {}),
    "IllegalTransition": (("t",), {"action": "claim", "status": "blocked", "allowed": ["pending"]}),
    "JournalMismatch": (("memory", "r", "k", "differs"), {}),
    "BudgetReached": (("calls",), {"limit": 10, "used": 10}),
    "LimitReached": (("calls",), {"limit": 10, "used": 10}),
    "LoopLimitExceeded": (("block", 3), {}),
    "ModelTimeout": ((2.5,), {"what": "first token", "model": "m", "block": "b"}),
    "NoProposals": (("consensus", {"ann": "ModelTimeout"}), {}),
    "NotAwaited": (("memory", "r", "is not waiting for an answer", ["here"]), {}),
    "NotRecordable": (("memory", "r", "k", object()), {}),
    "OutputError": (("block", "text", [("field", "is missing")]), {}),
    "PromiseBroken": (("counts", "It counts.", "it does not"), {"example": "one", "reproduce": "check(…)"}),
    "ProviderFailed": (("it failed",), {"status": 503, "retry_after": 2.0}),
    "ConflictingOptions": (("debate", ("mirror", "turn_order"), "{mirror} without {turn_order}"), {}),
    "LostToThinking": ((), {"room": 400, "thought": 380, "model": "m"}),
    "QuorumLost": (("debate",), {"round": 1, "heard": ["for"], "quorum": 2}),
    "RateLimited": (("slow down",), {"retry_after": 1.0, "quota_exhausted": True}),
    "ReadOnly": (("`round` of 'rent'", "answer instead"), {"block": "pro"}),
    "RealModelForbidden": ((), {"model": "m"}),
    "Refused": (("no",), {"model": "m"}),
    "ResourceConflict": (("debate", "tasks", ["a", "b"]), {}),
    "ResponseTooLarge": ((10, "bytes"), {"model": "m"}),
    "RosterError": (("moderator", "eve", ["ann", "bob"]), {}),
    "RunChanged": (("memory", "r", {"block": ["- a", "+ b"]}), {}),
    "RunConflict": (("memory", "r"), {}),
    "RunExists": (("memory", "r"), {}),
    "RunNotFound": (("memory", "r"), {}),
    "RunUncertain": (("memory", "r", "k", 2), {}),
    "SchemaViolation": (([("field", "is missing")],), {"answer": "{}", "model": "m"}),
    "StoreError": (("memory", "is closed"), {}),
    "StoreLost": (("runs.sqlite3", "was deleted"), {}),
    "TaskError": (("message",), {}),
    "TaskNotFound": (("tasks", "t"), {}),
    "ToolLoopExceeded": ((8,), {"block": "b"}),
    "ViewError": (("got", "a transcript"), {}),
}
"""Arguments for error classes whose constructors take more than a message."""


@pytest.mark.parametrize("name", errors.__all__)
def test_error_survives_pickling_and_copying(name: str) -> None:
    arguments, options = ARGUMENTS.get(name, (("message",), {}))
    error = getattr(errors, name)(*arguments, **options)
    error.add_note("in block 'x'")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own bytes
        assert (type(other), str(other), other.args) == (type(error), str(error), error.args)
        assert {"run": None, **vars(other)} == {"run": None, **vars(error)}


def test_unpicklable_attribute_becomes_text() -> None:
    """An error can have any object as an attribute.

    If the object cannot be pickled, it is replaced by its text, which is already part of the message.
    """
    error = ConfigurationError("debate", "judge", threading.Lock(), "must be a block")
    other = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert str(other) == str(error)
    assert other.got.startswith("<unlocked _thread.lock")


@pytest.mark.parametrize("lock", [None, threading.Lock()], ids=["with its run", "without a run that cannot be pickled"])
def test_error_with_a_run_can_be_pickled(lock: object) -> None:
    """If possible, the run is pickled along with the error. Pickling does not change the original error."""
    model = ScriptedModel()
    model.lock = lock  # type: ignore[attr-defined]  # as models that hold connections do
    with pytest.raises(ScriptError) as failed:
        generator(name="poet", model=model).run_sync("Rivers.")
    error = failed.value
    run = error.run
    run.session.state["lock"] = lock
    other: FlowDebateError = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert error.run is run
    assert (str(other), other.__notes__) == (str(error), error.__notes__)
    assert (other.run is None) == (lock is not None)
    if other.run is not None:
        assert other.run.status == "failed"


def fail_in_pool(store: str) -> None:
    """Run a failing debate in one process of a pool, where the run is attached to the error."""
    if store:
        raise RunConflict(store, "r")
    generator(name="ask").run_sync("?", model=ScriptedModel(ProviderFailed("down", status=503)))


@pytest.mark.parametrize(
    ("store", "kind", "facts"),
    [
        ("memory", RunConflict, {"store": "memory", "run_id": "r"}),
        ("", ProviderFailed, {"status": 503, "block": "ask"}),
    ],
)
def test_error_can_be_returned_from_a_process_pool(
    store: str, kind: type[FlowDebateError], facts: dict[str, object]
) -> None:
    """`multiprocessing.Pool` waits forever for an error that cannot be unpickled."""
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(kind) as raised:
        pool.apply_async(fail_in_pool, (store,)).get(timeout=60)
    assert {name: getattr(raised.value, name) for name in facts} == facts
