"""Parts of debate prompts that have to be recomputed, in characters by turn order and in the local model's tokens.

`MODEL_FILE=path.gguf` runs it on another model.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, create_debate_transcript, debate, generator
from flowdebate.chassis.state import TURN_ORDERS
from flowdebate.errors import ModelUnavailable
from flowdebate.models import LocalModel, ModelSettings
from flowdebate.patterns.debate.debater import DebaterIdentity, render_debater_system, render_debater_turn
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import FunctionModel
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.base import Block
    from flowdebate.chassis.state import TurnOrder
    from flowdebate.models import Model
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.runs.context import Context
    from flowdebate.runs.result import RunResult
    from flowdebate.testing import ModelRequest

    Layout = Callable[[str, str, Transcript], Block[Any, str]]

QUESTION = "How should a small town make its power?"
SIDES = {
    "dam": "The town should build a dam on its river",
    "wind": "The town should build wind turbines on its hill",
    "thrift": "The town should use less power instead of making more",
}
ROUNDS = 4
SHORT = 4
SETTINGS = ModelSettings(max_tokens=60)


def stance_first(name: str, stance: str, transcript: Transcript) -> Block[Any, str]:
    """Arrange the same words as most prompts do: role and round first, then the transcript."""

    def system(_: object, ctx: Context) -> str:
        number = ctx.sequencer.state.round
        rules = render_debater_system(question=QUESTION, stances=list(SIDES.values()), max_rounds=ROUNDS)
        return f"You argue for: {stance}. This is round {number} of {ROUNDS}.\n\n{rules}"

    def turn(_: object, ctx: Context) -> str:
        return render_debater_turn(
            DebaterIdentity(stance=stance, positions=tuple(SIDES.values()), max_rounds=ROUNDS),
            entries=ctx.resources.transcript.state.entries,
            round=ctx.sequencer.state.round,
        )

    return generator(
        name=f"first-{name}", prompt=system, user=turn, resources={"transcript": transcript}, settings=SETTINGS
    )


def role_last(name: str, stance: str, transcript: Transcript) -> Block[Any, str]:
    """Use the library's own prompt layout."""
    from flowdebate import create_debater

    return create_debater(
        name="last",
        agent_name=name,
        stance=stance,
        stances=list(SIDES.values()),
        max_rounds=ROUNDS,
        transcript=transcript,
        settings=SETTINGS,
    )


async def argued(layout: Layout, model: Model, turn_order: TurnOrder = "declared") -> list[tuple[int, int, float]]:
    """Return for each turn the tokens of its prompt, the tokens computed anew, and the seconds of the call."""
    transcript = create_debate_transcript()
    pattern = debate(
        name="prefix",
        transcript=transcript,
        debaters=[Debater(name, stance, block=layout(name, stance, transcript)) for name, stance in SIDES.items()],
        max_rounds=ROUNDS,
        turn_order=turn_order,
        judge=lambda _: {"verdict": "", "winner": None, "reasoning": ""},
        synthesizer=False,
    )
    result: RunResult[object] = await pattern.run(QUESTION, model=model, seed=1)
    turns = []
    for event in result.events:
        if isinstance(event, ModelCalled):
            prompt, cached = event.usage.prompt_tokens, event.usage.cached_tokens
            assert prompt is not None  # noqa: S101 - the local server always says
            assert cached is not None  # noqa: S101
            turns.append((prompt, prompt - cached, event.seconds))
    return turns


MEASURED: tuple[tuple[str, Layout, TurnOrder], ...] = (
    *((f"role last (flowdebate), {order}", role_last, order) for order in TURN_ORDERS),
    ("stance and round first, declared", stance_first, "declared"),
)


async def compare(model: Model) -> None:
    rows = []
    for name, layout, order in MEASURED:
        turns = await argued(layout, model, order)
        few = sum(fresh for _, fresh, _ in turns[:SHORT])
        for part in (turns[:SHORT], turns):
            total = sum(prompt for prompt, _, _ in part)
            anew = sum(fresh for _, fresh, _ in part)
            seconds = sum(duration for _, _, duration in part)
            rows.append(
                [
                    name,
                    f"{len(part)} turns",
                    total,
                    anew,
                    f"{anew / total:.0%}",
                    f"{seconds:.1f}",
                    f"x {anew / few:.1f}",
                ]
            )
    print_table(
        "Prompt tokens computed anew, one slot, local model",
        ["layout", "after", "prompt tokens", "computed anew", "share", "seconds", "growth"],
        rows,
        note="The layouts say the same; seconds include the answers, which differ. With one slot, those who speak at "
        "once are answered one after the other, and find each other's prompt.",
    )


async def shared_by_order() -> None:
    """Compute how much of each prompt is a prefix of an earlier prompt, from any round or only from earlier rounds."""
    rows = []
    for order in TURN_ORDERS:
        prompts: list[tuple[int, str]] = []

        def answer(request: ModelRequest, prompts: list[tuple[int, str]] = prompts) -> str:
            prompts.append(
                (len(prompts) // len(SIDES), "\n".join(str(message["content"]) for message in request.messages))
            )
            return f"Argument {len(prompts)}: {'the river is high in spring and low in summer. ' * 6}"

        await debate(
            name="prefix",
            debaters=[Debater(name, stance) for name, stance in SIDES.items()],
            max_rounds=ROUNDS,
            turn_order=order,
            judge=lambda _: {"verdict": "", "winner": None, "reasoning": ""},
            synthesizer=False,
        ).run(QUESTION, model=FunctionModel(answer), seed=1)
        total = sum(len(prompt) for _, prompt in prompts)
        in_turn = sum(_shared(prompt, prompts[:at]) for at, (_, prompt) in enumerate(prompts))
        at_once = sum(
            _shared(prompt, [earlier_prompt for earlier_prompt in prompts if earlier_prompt[0] < number])
            for number, prompt in prompts
        )
        together = f"{1 - at_once / total:.0%}" if order == "simultaneous" else "does not apply"
        rows.append([order, total, f"{1 - in_turn / total:.0%}", together])
    print_table(
        "Characters of debaters' prompts to be computed anew, three sides, four rounds, by turn order",
        ["turn order", "characters", "one after the other", "at once"],
        rows,
        note="At best, with nothing evicted. At once: turns of one round start together, and cannot reuse each other.",
    )


def _shared(prompt: str, earlier: list[tuple[int, str]]) -> int:
    by_character = os.path.commonprefix  # intentionally used for strings that are not paths
    return max((len(by_character([prompt, previous])) for _, previous in earlier), default=0)


def main() -> None:
    asyncio.run(shared_by_order())
    try:
        asyncio.run(compare(LocalModel(os.environ.get("MODEL_FILE"))))
    except ModelUnavailable as missing:
        print(f"prefix reuse: not measured: {missing}")


if __name__ == "__main__":
    main()
