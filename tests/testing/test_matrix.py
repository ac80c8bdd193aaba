"""Every promise of `check_debate` in every kind of debate: bugs are found there, and nothing in correct debates."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import JudgeOptions, human, stop, submit_answer
from flowdebate.blocks.base import Wrapped
from flowdebate.errors import ConfigurationError
from flowdebate.runs.durable.resume import load_fork
from flowdebate.runs.execute import run_sync, start_block
from flowdebate.store import MemoryStore
from flowdebate.testing.check import PROMISES, find_broken_promise
from flowdebate.testing.examples import answer_of
from tests.testing.planted import CHEAP, EXAMPLES, PLANTED, SKIP, TakenAlready, rent, search, varied

if TYPE_CHECKING:
    from flowdebate.testing.examples import ExampleModel


class Forked(Wrapped):
    """Instead of a run, a fork of one that is over: the latter half of its answers is asked for anew."""

    async def act(self, value: Any, ctx: Any, /) -> Any:
        return await self._inner.act(value, ctx)

    def start(self, value: Any, *, model: ExampleModel, seed: int, store: Any) -> Any:  # type: ignore[override]
        store = store or MemoryStore()

        async def fork() -> Any:
            with suppress(Exception):
                parent = await self._inner.run(value, model=model, store=store, run_id="parent", seed=seed)
                while parent.status == "awaiting":
                    for asked in parent.pending:
                        answer = answer_of(model._example, asked)
                        await submit_answer(store, "parent", answer, place=asked.place)
                    parent = await self._inner.resume("parent", model=model, store=store)
            places = [row.key for row in await store.steps("parent") if row.kind == "call" and row.body is not None]
            at = places[len(places) // 2] if places else None
            model.calls.clear()
            return await load_fork("parent", block=self._inner, model=model, store=store, at=at)

        run, value = run_sync(fork)
        return start_block(self._inner, value, run)


VARIANTS: dict[str, dict[str, Any]] = {
    "rotated": {"turn_order": "rotated"},
    "shuffled": {"turn_order": "shuffled"},
    "simultaneous": {"turn_order": "simultaneous"},
    "mirror": {"mirror": True},
    "letter": {"judge": JudgeOptions(answer="letter")},
    "letter after reasons": {"judge": JudgeOptions(answer="letter_after_reasons", schedule="swap")},
    "stop condition": {"terminate_when": stop.rounds(2) & stop.repeated() | stop.seconds(60) | stop.flag("enough")},
    "person speaks": {"ann": human(name="ann")},
    "person moderates": {"moderator": human(name="solomon")},
    "person judges": {"judge": human(name="solomon")},
    "fork": {"around": Forked},
}

DEBATES = [name for name, planted in PLANTED.items() if planted.of_debates]
TAKEN = {
    "letter": ["judges_regardless_of_order", "winner_is_among_the_positions"],
    "letter after reasons": ["judges_regardless_of_order", "winner_is_among_the_positions"],
    "person judges": ["judges_regardless_of_order", "winner_is_among_the_positions"],
}
"""Promises whose planted bugs are in the part that a kind of debate replaces."""
ELSEWHERE = "fails_only_for_a_reason"
"""The promise that a crash breaks: a journal notices an order, or a place, that is not what it was."""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", DEBATES)
def test_a_planted_bug_is_found_in_any_kind_of_debate(name: str, variant: str) -> None:
    """Wherever the two can be built together."""
    planted = PLANTED[name]
    if variant in planted.apart_from:
        pytest.skip("no bug there")
    with varied(**VARIANTS[variant]):
        try:
            planted.make()
        except (TakenAlready, ConfigurationError) as taken:
            pytest.skip(str(taken))
        found = search(planted, 1, max_examples=CHEAP.get(name, EXAMPLES))
    assert found.broken is not None
    assert found.broken.promise in (planted.promise, ELSEWHERE)


def test_every_promise_is_broken_in_every_kind_of_debate() -> None:
    """But for that of patterns whose answers arrive together, and where a kind takes the part that has the bug."""
    for variant, options in VARIANTS.items():
        met = set()
        for planted in PLANTED.values():
            with varied(**options), suppress(TakenAlready, ConfigurationError):
                if planted.of_debates and variant not in planted.apart_from:
                    planted.make()
                    met.add(planted.promise)
        assert set(PROMISES) - met <= {"arrival_does_not_matter", *TAKEN.get(variant, ())}


PAIRS = [pair for pair in combinations(VARIANTS, 2) if not VARIANTS[pair[0]].keys() & VARIANTS[pair[1]].keys()]


@pytest.mark.parametrize("kinds", [*((name,) for name in VARIANTS), *PAIRS], ids=", ".join)
def test_nothing_is_found_in_a_correct_debate_of_any_kind(kinds: tuple[str, ...]) -> None:
    """Nor of two kinds at once; with failures, and with verdicts that nobody has won."""
    options = {key: value for kind in kinds for key, value in VARIANTS[kind].items()}
    with varied(**options):
        try:
            rent()
        except ConfigurationError as refused:
            pytest.skip(str(refused))
        for seed in range(2):
            found = find_broken_promise(lambda: rent(failures=SKIP), seed=seed, max_examples=8)
            assert found.broken is None, str(found.broken)
