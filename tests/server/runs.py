"""Runs of any pattern with any outcome, and the updates that their followers receive."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from flowdebate import Limits
from flowdebate.errors import FlowDebateWarning, ModelError
from flowdebate.models.call import Retry
from flowdebate.models.wrapper import Retrying, Wrapper
from flowdebate.patterns import PATTERNS
from flowdebate.service.service import Service
from flowdebate.testing.examples import ExampleModel
from flowdebate.testing.strategies import debates, examples
from flowdebate.ui.plan import make_plan

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.service.channel import Update
    from flowdebate.service.state import RunDetails

__all__ = ("Followed", "Play", "any_play", "carry_out", "debate_plays", "follow_run")

_SIDES = [{"name": "pro", "stance": "cap rents"}, {"name": "con", "stance": "free rents"}]
_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "debate": [
        {"debaters": _SIDES},
        {"debaters": _SIDES, "moderator": True, "synthesizer": False},
        {"debaters": _SIDES, "turn_order": "simultaneous", "on_failure": "skip"},
        {"debaters": _SIDES, "mirror": True, "max_rounds": 1},
        {"debaters": _SIDES, "humans": ["con"], "suspend": True},
        {"debaters": _SIDES, "humans": ["pro", "con"], "turn_order": "simultaneous", "suspend": True, "max_rounds": 1},
    ],
    "round_robin": [{}, {"referee": True, "on_failure": "skip"}],
}


@dataclass(frozen=True, kw_only=True)
class Play:
    """Description of a run and of what happens during it."""

    block: Any
    model: Any
    question: str = "Should rents be capped?"
    seed: int = 1
    limits: Limits | None = None
    cancel_after: int | None = None
    """Number of updates after which the run is cancelled."""
    answers: tuple[Any, ...] = ()
    """Human answers in order."""


@dataclass(frozen=True, kw_only=True)
class Followed:
    """Updates that a follower of a run receives, from the beginning until the run ends or waits for a human."""

    updates: list[Update]
    details: RunDetails


async def follow_run(service: Service, run_id: str, *, cancel_after: int | None = None) -> Followed:
    """Follow a run, and cancel it after the given number of updates."""
    updates = []
    async for update in service.follow(run_id):
        updates.append(update)
        if len(updates) == cancel_after:
            await service.cancel(run_id)
    return Followed(updates=updates, details=await service.run(run_id))


def carry_out(play: Play) -> list[Followed]:
    """Carry out a play, and return one `Followed` for it and another after each human answer."""

    async def run() -> list[Followed]:
        async with Service({"it": play.block}, store="memory:", model=play.model) as service:
            started = await service.begin("it", play.question, seed=play.seed, limits=play.limits)
            documents = [await follow_run(service, started.run_id, cancel_after=play.cancel_after)]
            for answer in play.answers:
                if documents[-1].details.pending:
                    await service.answer(started.run_id, answer, place=documents[-1].details.pending[0].place)
                    documents.append(await follow_run(service, started.run_id))
            return documents

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        return asyncio.run(run())


_NEVER = st.none()
_PIECES = st.sampled_from([4, 0, 1, 9])


class Streaming(Wrapper):
    """Model that streams its text in pieces, including some text before a failure."""

    def __init__(self, inner: Model, pieces: int) -> None:
        super().__init__(inner)
        self._pieces = pieces

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        try:
            response = await self.inner.request(replace(request, on_text=None))
        except ModelError:
            await self._write("I was about to say", request)
            raise
        await self._write(response.text, request)
        return response

    async def _write(self, text: object, request: ModelRequest) -> None:
        if request.on_text is not None and isinstance(text, str) and text:
            size = max(1, len(text) // self._pieces)
            for at in range(0, len(text), size):
                request.on_text(text[at : at + size])
                await asyncio.sleep(0)


def make_streaming(inner: Any, pieces: int) -> Any:
    """Make `inner` stream its text and retry failed calls once. If there are 0 pieces, return it unchanged."""
    if not pieces:
        return inner
    return Retrying(Streaming(inner, pieces), Retry(attempts=2, first_wait=0))


@st.composite
def any_play(draw: DrawFn) -> Play:
    """Draw any pattern with any answers, failures and delays. Some runs are cancelled, limited, or wait for humans."""
    name = draw(st.sampled_from(sorted(PATTERNS)))
    info = PATTERNS[name]
    options = draw(st.sampled_from(_OPTIONS.get(name, [{}])))
    example = draw(examples())
    return Play(
        block=make_plan(info, {}, file={info.subject: "Should rents be capped?", **options}).pattern(),
        model=make_streaming(ExampleModel(example, answers=None, max_calls=500), draw(_PIECES)),
        question=example.question,
        seed=example.seed,
        limits=draw(_NEVER | st.builds(Limits, calls=st.integers(1, 8))),
        cancel_after=draw(_NEVER | st.integers(1, 40)),
        answers=tuple(draw(st.lists(st.sampled_from(["I say yes.", "I say no."]), max_size=4))),
    )


def debate_plays(*, hostile: bool) -> SearchStrategy[Play]:
    """Draw any debate from `debates()`. In hostile debates, models and blocks misbehave."""
    return st.tuples(debates(hostile=hostile), _PIECES).map(
        lambda parts: Play(
            block=parts[0].debate(),
            model=make_streaming(parts[0].model(), parts[1]),
            question=parts[0].question,
            seed=parts[0].seed,
        )
    )
