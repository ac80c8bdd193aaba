"""History windows, which limit the length of prompts in a long discussion."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, PromptOptions, Window, debate, deliberation, handoff, round_robin
from flowdebate.errors import ConfigurationError, ContextTooLong, QuorumLost
from flowdebate.store.open import open_store
from flowdebate.testing import FunctionModel

from .talks import QUESTION, Talkers, role_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flowdebate.testing import ModelRequest

ROUNDS = 6
TWO_ROUNDS = PromptOptions(history=Window(rounds=2))
PEOPLE = [{"name": "ann"}, {"name": "bob"}, {"name": "cy"}]
SIDES = [Debater(name, stance) for name, stance in (("ann", "for"), ("bob", "against"), ("cy", "neither"))]
PATTERNS: dict[str, Callable[..., Any]] = {
    "debate": lambda **more: debate(name="x", debaters=SIDES, max_rounds=ROUNDS, **more),
    "deliberation": lambda **more: deliberation(name="x", debaters=PEOPLE, max_rounds=ROUNDS, **more),
    "handoff": lambda **more: handoff(name="x", debaters=PEOPLE, max_turns=ROUNDS, **more),
    "round_robin": lambda **more: round_robin(name="x", debaters=PEOPLE, max_rounds=ROUNDS, referee=True, **more),
}
SUMS = re.compile(r"^Summary of (?:round 1|rounds 1 to (\d+)): I say w\w+\.$", re.MULTILINE)
pytestmark = pytest.mark.filterwarnings("ignore:.*tend to agree after 4 rounds")


def prompt_of(request: ModelRequest) -> str:
    """Return the last message of a request."""
    return str(request.messages[-1]["content"])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_prompts_contain_the_last_rounds_and_a_summary(pattern: str) -> None:
    talkers = Talkers()
    raw = PATTERNS[pattern](prompts=TWO_ROUNDS).run_sync(QUESTION, model=talkers.model(), seed=1).raw
    of_round = {entry.text: entry.round for entry in raw.entries}
    assert max(of_round.values()) == ROUNDS
    assert raw.older.rounds == ROUNDS - 3
    sums = [request for request in talkers.asked if role_of(request) == "summary"]
    assert len(sums) == ROUNDS - 3
    for request in talkers.asked:
        summary = SUMS.search(prompt_of(request))
        visible_rounds = {number for text, number in of_round.items() if f"] {text}" in prompt_of(request)}
        if role_of(request) == "summary" or not visible_rounds:
            continue
        assert len(visible_rounds) <= 3
        older = 0 if summary is None else int(summary[1] or 1)
        assert min(visible_rounds) == older + 1
    last = next(request for request in reversed(talkers.asked) if SUMS.search(prompt_of(request)))
    assert f": {raw.older.text}" in prompt_of(last)
    assert type(raw).model_validate_json(raw.model_dump_json(by_alias=True)) == raw


@pytest.mark.parametrize("pattern", PATTERNS)
def test_long_discussions_complete_all_rounds(pattern: str) -> None:
    """The visible part of the transcript fits the model's context window, although the whole transcript would not."""
    room = 5_000

    def answer(request: ModelRequest) -> Any:
        if len(prompt_of(request)) > room:
            error = "the prompt is too long"
            raise ContextTooLong(error)
        reply = talkers.reply(request)
        long = f"{reply} {'So it is. ' * 40}"
        return long if isinstance(reply, str) and role_of(request) != "summary" else reply

    talkers = Talkers()
    make = PATTERNS[pattern]
    if pattern != "handoff":  # a handoff has turns instead of rounds
        with pytest.raises((ContextTooLong, QuorumLost), match="the prompt is too long"):
            make().run_sync(QUESTION, model=FunctionModel(answer), seed=1)
    last_round = PromptOptions(history=Window(rounds=1))
    raw = make(prompts=last_round).run_sync(QUESTION, model=FunctionModel(answer), seed=1).raw
    assert max(entry.round for entry in raw.entries) == ROUNDS
    assert raw.status == "complete"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_summaries_are_recorded_as_steps(pattern: str, tmp_path: Path) -> None:
    """A resumed run must reuse the summary, or its prompts would differ."""
    sums, talkers = 0, Talkers()

    def failing(request: ModelRequest) -> Any:
        nonlocal sums
        sums += role_of(request) == "summary"
        if sums == 2:
            raise RuntimeError
        return Talkers().reply(request)

    async def run_twice() -> Any:
        store: Any = open_store(str(tmp_path / "runs.sqlite3"))
        long = PATTERNS[pattern](prompts=TWO_ROUNDS)
        with pytest.raises(RuntimeError):
            await long.run(QUESTION, model=FunctionModel(failing, name="talkers"), store=store, run_id="a", seed=1)
        result = await long.resume("a", model=talkers.model(), store=store)
        await store.close()
        return result

    raw = asyncio.run(run_twice()).raw
    resumed = Talkers()
    assert raw == PATTERNS[pattern](prompts=TWO_ROUNDS).run_sync(QUESTION, model=resumed.model(), seed=1).raw
    assert sum(role_of(request) == "summary" for request in talkers.asked) == ROUNDS - 4


def test_invalid_windows_are_rejected() -> None:
    assert PromptOptions(history="all") == PromptOptions()
    wrongs: list[Any] = [2, "last", None, {"rounds": 2}]
    for wrong in wrongs:
        with pytest.raises(ConfigurationError, match=r"PromptOptions: `history` (?:must be|is required)"):
            PromptOptions(history=wrong)
    with pytest.raises(ConfigurationError, match="rounds"):
        Window(rounds=0)
