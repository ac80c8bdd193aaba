"""Faults in whole debates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, OpenAIModel, Retry, StandIn, create_debate_transcript, create_moderator, debate
from flowdebate.runs.events import ModelCalled
from tests.cases import slow_but_first
from tests.models.server import ChatServer, fine
from tests.patterns.policies import with_policy

from .debate_rows import DEBATE, decides, finds

if TYPE_CHECKING:
    from flowdebate.models.openai.clients import Transport
    from tests.models.server import Exchange, Handler

    from .debate_rows import DebateFault

# the servers in these tests report the same small token count for every prompt
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.fault,
    pytest.mark.filterwarnings("ignore:.*probably truncated the prompt"),
]

SIDES = [Debater("tenant", "cap rents"), Debater("owner", "free rents")]


class Roles:
    """A handler that dispatches each request to the handler for its role."""

    def __init__(self, fault: DebateFault) -> None:
        self._handlers = {"judge": fault.judge or (finds,), "moderator": fault.moderator or (decides,)}
        self._handlers["turns"] = fault.turns
        self._asked: dict[str, int] = {}

    async def __call__(self, exchange: Exchange) -> None:
        schema = json.dumps([exchange.body.get("response_format"), exchange.body.get("tools")])
        role = "judge" if "winner" in schema else "moderator" if "nextSpeakers" in schema else "turns"
        number = self._asked[role] = self._asked.get(role, 0) + 1
        handlers: tuple[Handler, ...] = self._handlers[role]
        await handlers[min(number, len(handlers)) - 1](exchange)


async def _no_wait(_: float) -> None:
    """Skip waits."""


def _pattern(fault: DebateFault, options: dict[str, Any]) -> Any:
    if fault.moderator:
        options["transcript"] = create_debate_transcript()
        options["moderator"] = create_moderator(
            name="rent", roster_names=["tenant", "owner"], transcript=options["transcript"]
        )
    options = {"name": "rent", "debaters": SIDES, "max_rounds": 1, "synthesizer": False, **options}
    return debate(**with_policy(options))


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("fault", DEBATE, ids=str)
async def test_each_debate_fault_has_the_documented_outcome(fault: DebateFault, transport: Transport) -> None:
    async with ChatServer({"roles": Roles(fault), "stand-in": fine}) as server:

        def model(name: str) -> OpenAIModel:
            retry = Retry(sleep=_no_wait)
            return OpenAIModel(name, base_url=server.base_url, api_key="k", retry=retry, transport=transport)

        options = dict(fault.options)
        if isinstance(options["on_failure"], StandIn):
            options["on_failure"] = StandIn(model("stand-in"))
        run: Any
        if fault.error is None:
            run = await _pattern(fault, options).run("Cap?", model=model("roles"), limits=fault.limits)
        else:
            with pytest.raises(fault.error) as caught:
                await _pattern(fault, options).run("Cap?", model=model("roles"))
            run = getattr(caught.value, "run")  # noqa: B009 - of the library's errors
        last = "\n".join(str(message["content"]) for message in server.bodies[-1]["messages"])
        assert server.posts == fault.posts
    raw = run.raw
    assert (run.status, raw.status) == (fault.status, fault.status)
    assert tuple((loss.role, loss.instead) for loss in raw.losses) == fault.losses
    assert tuple(entry.agent_name for entry in raw.transcript) == fault.spoke
    assert (raw.verdict is None) == (fault.status in {"no_verdict", "failed", "limit"})
    counted = [attempt for event in run.events if isinstance(event, ModelCalled) for attempt in event.attempts]
    assert (len(counted), run.usage.calls) == (fault.posts, fault.posts)
    if raw.verdict is not None:
        assert all(entry.text in last for entry in raw.transcript)
