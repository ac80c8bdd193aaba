"""All `check_debate` promises in every kind of debate, with and without bugs."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import JudgeOptions, Phase, human, stop, submit_answer
from flowdebate.blocks.base import Wrapped
from flowdebate.errors import ConfigurationError
from flowdebate.runs.durable.resume import load_fork
from flowdebate.runs.execute import run_sync, start_block
from flowdebate.store import MemoryStore
from flowdebate.testing import Example, check
from flowdebate.testing.check import find_broken_promise
from flowdebate.testing.examples import answer_of
from tests.cases import slow_but_first
from tests.testing.planted import CHEAP, EXAMPLES, PLANTED, SKIP, TakenAlready, entries_of, rent, search, varied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.testing.examples import ExampleModel
    from tests.testing.planted import Planted

PROMISES = set(check.PROMISES) - {"ignores_arrival_order"}
"""All promises except the one about patterns with simultaneous answers."""


class Forked(Wrapped):
    """A fork of a finished run that repeats the requests for the latter half of its answers."""

    async def act(self, value: Any, ctx: Any, /) -> Any:
        return await self._inner.act(value, ctx)

    def start(self, value: Any, *, override_model: ExampleModel, seed: int, store: Any) -> Any:  # type: ignore[override]
        store, model = store or MemoryStore(), override_model

        async def fork() -> Any:
            with suppress(Exception):
                parent = await self._inner.run(value, override_model=model, store=store, run_id="parent", seed=seed)
                while parent.status == "awaiting":
                    for request in parent.pending:
                        answer = answer_of(model._example, request)
                        await submit_answer(store, "parent", answer, place=request.place)
                    parent = await self._inner.resume("parent", override_model=model, store=store)
            places = [row.key for row in await store.steps("parent") if row.kind == "call" and row.body is not None]
            at = places[len(places) // 2] if places else None
            model.calls.clear()
            return await load_fork("parent", block=self._inner, override_model=model, store=store, at=at)

        run, value = run_sync(fork)
        return start_block(self._inner, value, run)


@stop.when
def agreed(ctx: Any) -> bool:
    """Return True if a debater has conceded."""
    return any("I am convinced." in entry.text for entry in entries_of(ctx))


VARIANTS: dict[str, dict[str, Any]] = {
    "rotated": {"turn_order": "rotated"},
    "shuffled": {"turn_order": "shuffled"},
    "simultaneous": {"turn_order": "simultaneous"},
    "mirror": {"mirror": True},
    "phases": {"phases": ["opening", Phase("cross-examination", asks="pairs"), Phase("closing", length="short")]},
    "letter": {"judge": JudgeOptions(answer_form="letter")},
    "letter after reasons": {"judge": JudgeOptions(answer_form="letter_after_reasons", schedule="swap")},
    "stop condition": {"terminate_when": agreed | stop.flag("enough") | stop.rounds(1) & stop.repeated()},
    "person speaks": {"ann": human(name="ann")},
    "person moderates": {"moderator": human(name="solomon")},
    "person judges": {"judge": human(name="solomon")},
    "fork": {"around": Forked},
}

NOT_IN = {
    "stop condition": {"terminate_when_can_fire"},
    "simultaneous": {"ends_when_cancelled"},
    "mirror": {"ends_when_cancelled"},
    "phases": {"gives_every_side_a_turn"},  # in a cross-examination, the side being asked speaks without being called
    "person moderates": {"gives_every_side_a_turn", "ends_when_cancelled"},
}
ELSEWHERE = "fails_only_with_known_errors"
"""Promise that a bug may break instead of its own: the run crashes if its journal detects a changed order or path."""


def bugs_in(variant: str) -> dict[str, Planted]:
    """Return the planted bugs that apply to a kind of debate."""
    findings = {}
    with varied(**VARIANTS[variant]):
        for name, planted in PLANTED.items():
            with suppress(TakenAlready, ConfigurationError):
                if planted.of_debates and variant not in planted.apart_from:
                    planted.make()
                    findings[name] = planted
    return findings


def find_all(variant: str, names: Iterable[str]) -> None:
    """Check that each bug is found in this kind of debate."""
    with varied(**VARIANTS[variant]):
        for name in names:
            planted = PLANTED[name]
            broken = search(planted, 1, max_examples=CHEAP.get(name, EXAMPLES)).broken
            assert broken is not None, name
            assert broken.promise in (planted.promise, ELSEWHERE), f"{name}: {broken}"


@pytest.mark.parametrize("variant", slow_but_first(VARIANTS))
def test_broken_promises_are_found_in_every_kind_of_debate(variant: str) -> None:
    bugs = bugs_in(variant)
    assert PROMISES - {bug.promise for bug in bugs.values()} == NOT_IN.get(variant, set())
    find_all(variant, {bug.promise: name for name, bug in reversed(bugs.items())}.values())


@pytest.mark.simulation
@pytest.mark.parametrize("variant", VARIANTS)
def test_planted_bugs_are_found_in_every_kind_of_debate(variant: str) -> None:
    find_all(variant, bugs_in(variant))


STOPPING = Example(
    question="Should rents be capped?",
    texts=("I am convinced.", "Now I am convinced.", "No."),
    choices=(1, 4),
    faults={4: "lost"},
)
PAIRS = [pair for pair in combinations(VARIANTS, 2) if not VARIANTS[pair[0]].keys() & VARIANTS[pair[1]].keys()]


@pytest.mark.parametrize("kinds", slow_but_first([*((name,) for name in VARIANTS), *PAIRS], len), ids=", ".join)
def test_correct_debates_of_any_kind_have_no_bug(kinds: tuple[str, ...]) -> None:
    """The debates also combine every two compatible kinds, and some have failures or end without a winner."""
    options = {key: value for kind in kinds for key, value in VARIANTS[kind].items()}
    with varied(**options):
        try:
            rent()
        except ConfigurationError as refused:
            pytest.skip(str(refused))
        pattern = rent(failures=SKIP)
    finding = find_broken_promise(pattern, seed=1, max_examples=4 if len(kinds) == 1 else 1, examples=[STOPPING])
    assert finding.broken is None, str(finding.broken)
