"""End a debate when it repeats itself, exceeds its budget, or satisfies a fact checker.

Run it with `python examples/stop_early.py`. It uses the default model (see docs/models.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate, stop

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model
    from flowdebate.runs import Context

QUESTION = "Should the library open on Sundays?"


def names_a_figure(ctx: Context) -> bool:
    """Return whether both sides mentioned a number in the last round."""
    last = [each.text for each in ctx.resources.transcript.state.entries if each.round == ctx.sequencer.state.round]
    return all(any(character.isdigit() for character in text) for text in last)


pattern = debate(
    name="sundays",
    debaters=[Debater("reader", "it should open on Sundays"), Debater("staff", "it should stay closed")],
    max_rounds=4,
    terminate_when=(
        stop.repeated(0.95)
        | stop.tokens(30_000)
        | stop.flag("enough")
        | stop.rounds(2) & stop.when(names_a_figure, name="both name a figure")
    ),
    synthesizer=False,
)


def main(model: Model | str | None = None, *, session: dict[str, Any] | None = None) -> DebateRawOutput:
    # Other parts of the application may set session["enough"] = True while the debate is in progress.
    raw: DebateRawOutput = pattern.run_sync(QUESTION, model=model, session=session).output
    print(f"{raw.rounds} rounds, ended by {raw.stop_reason}")
    return raw


if __name__ == "__main__":
    main()
