"""The cost of a debate in counts that do not depend on the machine: function calls, imports and new classes."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
import warnings
import weakref
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

import flowdebate
from flowdebate import Debater, FlowDebateWarning, debate
from flowdebate.testing import FunctionModel
from tests.patterns.every import PATTERNS
from tests.patterns.talks import Talkers, talk

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest, Reply

HOME = str(Path(flowdebate.__file__).parent)
MAX_FUNCTION_CALLS = 225
"""Maximum number of library function calls per model call; it was 224.4 when the bound was set."""
MAX_BYTES = 4_800
"""Maximum memory used by a result, in bytes per model call; a debate with 13 calls used 4,450 when the
bound was set.
"""
NAMES = ("ada", "ben", "cy", "dee", "eve")


def build_debate(debaters: int, rounds: int) -> Sequencer[Any, Any]:
    """Build a moderated debate with many rounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        return debate(
            name="cost",
            debaters=[Debater(name, f"the plan of number {place}") for place, name in enumerate(NAMES[:debaters])],
            max_rounds=rounds,
            moderator=True,
            synthesizer=False,
        )


def make_model(debaters: int) -> FunctionModel:
    """Create a model that answers immediately and never gives the same answer twice."""
    replies: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        if request.output is None:
            replies.append(f"Point {len(replies)}.\n" + "A second line, as long as any other. " * 8)
            return replies[-1]
        if request.block.endswith("judge"):
            return {"reasoning": "Weighed.", "winner": "the plan of number 0", "verdict": "The first."}
        return {"nextSpeakers": list(NAMES[:debaters]), "briefing": "Mind the cost.", "newAngle": None, "done": False}

    return FunctionModel(answer)


def count_functions(debaters: int, rounds: int) -> Counter[str]:
    """Count the library's function calls in one debate by name, after another debate has filled the caches."""
    pattern = build_debate(debaters, rounds)
    pattern.run_sync("What should we pay for?", model=make_model(debaters), seed=1)
    called: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        pattern.run_sync("What should we pay for?", model=make_model(debaters), seed=1)
    finally:
        sys.setprofile(before)
    counts: Counter[str] = Counter()
    for code, times in called.items():
        if code.co_filename.startswith(HOME):
            counts[code.co_qualname] += times
    return counts


@pytest.fixture(scope="module")
def short_count() -> Counter[str]:
    """Count the function calls in a debate that makes 13 model calls."""
    return count_functions(3, 3)


@pytest.fixture(scope="module")
def long_count() -> Counter[str]:
    """Count the function calls in a debate that makes 121 model calls."""
    return count_functions(5, 20)


def test_model_call_costs_a_bounded_number_of_function_calls(short_count: Counter[str]) -> None:
    """A change that makes every turn more expensive has to justify a higher bound."""
    assert short_count.total() / 13 < MAX_FUNCTION_CALLS, short_count.most_common(15)


def test_call_in_a_long_debate_costs_no_more_than_in_a_short_one(
    short_count: Counter[str], long_count: Counter[str]
) -> None:
    assert long_count.total() / 121 < 1.15 * short_count.total() / 13, (long_count - short_count).most_common(15)


def test_memory_of_a_result_is_bounded() -> None:
    """The events, the audit trail and the transcript share one string per argument."""
    pattern = build_debate(3, 3)
    pattern.run_sync("What should we pay for?", model=make_model(3), seed=1)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        results = [pattern.run_sync("What should we pay for?", model=make_model(3), seed=seed) for seed in range(10)]
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert size / len(results) / 13 < MAX_BYTES


def test_each_argument_is_scanned_once_for_names(long_count: Counter[str]) -> None:
    """The 100 arguments and the briefing each appear in many prompts but are scanned only once."""
    assert long_count["Names.find"] == 101


def test_each_argument_is_escaped_only_a_few_times(long_count: Counter[str]) -> None:
    """An argument is escaped separately for the debaters, the moderators and the judge.

    It is escaped once more when a debater has to reply to it.
    """
    assert long_count["quoted"] < 8 * 121


@pytest.mark.parametrize("name", PATTERNS)
def test_rebuilding_a_pattern_creates_no_new_schema(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def hold() -> None:
        talk(name).run_sync("What should we pay for?", model=Talkers().model(), seed=1)

    hold()
    class_names: list[str] = []

    def noted(cls: Any, /, **_: object) -> None:
        class_names.append(cls.__name__)

    monkeypatch.setattr(pydantic.BaseModel, "__pydantic_init_subclass__", classmethod(noted))
    hold()
    assert class_names == []


def test_finished_pattern_is_garbage_collected() -> None:
    """Everything that a pattern caches for its next run must be freed along with the pattern."""
    pattern = build_debate(2, 1)
    pattern.run_sync("What should we pay for?", model=make_model(2))
    reference = weakref.ref(pattern)
    del pattern
    gc.collect()
    assert reference() is None


def test_import_loads_only_modules_needed_for_a_debate() -> None:
    """Other patterns, text measures, database stores, pages and commands are imported on first use."""
    code = "import sys; from flowdebate import Debater, debate; "
    code += "print(*[name for name in sys.modules if name.startswith('flowdebate')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603
    modules = run.stdout.split()
    banned: tuple[str, ...] = (
        "cli",
        "evaluation",
        "service",
        "workers",
        "store.sqlite",
        "store.postgres",
        "measures.similarity",
        "measures.statements",
    )
    banned += ("patterns.consensus", "patterns.council", "patterns.anonymity.names", "models.openai", "runs.batch")
    banned += ("blocks.human.", "models.local", "testing")
    assert [name for name in modules if name.removeprefix("flowdebate.").startswith(banned)] == []
    assert len(modules) < 98, modules
