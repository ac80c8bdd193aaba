"""Use a debate as one step of a pipeline that debates several topics and writes a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Debater, debate, handler, outline, sequencer

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model

TOPICS = ["tabs", "trailing commas", "monorepos"]


def questions(topics: list[str]) -> list[str]:
    """Turn topics into questions."""
    return [f"Should our style guide require {topic}?" for topic in topics]


duel = debate(
    name="duel",
    debaters=[Debater("yes", "the style guide should require it"), Debater("no", "it should be left to each team")],
    max_rounds=1,
    synthesizer=False,  # the report below is the only text we need
)


@handler(name="report")
def report(outcomes: list[DebateRawOutput]) -> str:
    """Write one line per debate."""
    return "\n".join(f"- {raw.question} {raw.found.winner or 'No clear winner'}." for raw in outcomes)


# Each debate of a run has its own transcript, round count and audit trail, so two of them can run at the same time.
pattern = sequencer(name="style-guide").map(questions).for_each(duel, max_concurrency=2).then(report)


def main(model: Model | str | None = None) -> str:
    print(outline(pattern))
    result = pattern.run_sync(TOPICS, model=model)
    print(result.output)
    text: str = result.output
    return text


if __name__ == "__main__":
    main()
