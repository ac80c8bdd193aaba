"""Let a model argue one side, and a function that reads the shared transcript argue the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Debater, create_debate_transcript, debate, handler

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model
    from flowdebate.runs import Context

QUESTION = "Is the old parser fast enough?"

BENCHMARK = {"cold start": "410 ms", "large file": "12 s", "memory": "1.9 GB"}

transcript = create_debate_transcript()


@handler(name="measurements", resources={"transcript": transcript})
def measurements(_: object, ctx: Context) -> str:
    """Argue with figures that have not been used yet."""
    said = " ".join(entry.text for entry in ctx.resources.transcript.state.entries)
    fresh = [f"{what} takes {figure}" for what, figure in BENCHMARK.items() if figure not in said]
    return f"Measured: {fresh[0]}." if fresh else "All figures stand, and none was answered."


pattern = debate(
    name="parser",
    debaters=[
        Debater("keeper", "the old parser is fast enough"),
        Debater("figures", "the old parser is too slow", block=measurements),
    ],
    transcript=transcript,
    synthesizer=False,
)


def main(model: Model | str | None = None) -> DebateRawOutput:
    raw: DebateRawOutput = pattern.run_sync(QUESTION, model=model).output
    for entry in raw.transcript:
        print(f"{entry.round}. {entry.agent_name}: {entry.text}")
    print(f"Winner: {raw.found.winner}")
    return raw


if __name__ == "__main__":
    main()
