"""End a debate early when its budget is spent, or when the application requests it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Debater, Session, debate

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model
    from flowdebate.runs import Context

QUESTION = "Should the meeting be a document instead?"


def budget_is_used_up(ctx: Context) -> bool:
    """Return whether to stop; called once after each round, unless the debate ends anyway."""
    budget = ctx.session.state["budget"]
    tokens = ctx.usage.total_tokens  # None if the server does not report usage; unknown is not 0
    too_many_tokens = tokens is not None and tokens > budget["tokens"]
    return bool(ctx.session.state.get("stop_now") or too_many_tokens or ctx.usage.calls >= budget["calls"])


pattern = debate(
    name="meeting",
    debaters=[Debater("writer", "it should be a document"), Debater("talker", "it should stay a meeting")],
    max_rounds=4,
    terminate_when=budget_is_used_up,
    synthesizer=False,
)


def main(model: Model | str | None = None, *, calls: int = 4, tokens: int = 6_000) -> DebateRawOutput:
    # Other parts of the application may set `stop_now` in this session while the debate is in progress.
    session = Session(state={"budget": {"calls": calls, "tokens": tokens}})
    result = pattern.run_sync(QUESTION, model=model, session=session)
    raw: DebateRawOutput = result.output
    print(f"{raw.rounds} rounds, {result.usage.calls} calls, ended by: {raw.stop_reason}")
    return raw


if __name__ == "__main__":
    main()
