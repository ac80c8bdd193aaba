"""Hold a council: three models answer and review each other anonymously, then a chair decides.

Run it with `python examples/council.py`; set FLOWDEBATE_MODEL to choose a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Persona, council

if TYPE_CHECKING:
    from flowdebate import CouncilOutput
    from flowdebate.models import Model

QUESTION = "Our nightly export fails once a week. Should we rewrite it, or add retries?"

pattern = council(
    name="repair",
    members=[
        Persona("Ada", role="maintains the export"),
        Persona("Ben", role="runs the servers"),
        Persona("Cleo", role="uses the exported files"),
    ],
    review="all",
)


def main(model: Model | str | None = None) -> CouncilOutput:
    """Print the ranking, each member's self-preference, and the answer."""
    found: CouncilOutput = pattern.run_sync(QUESTION, model=model, seed=7).output
    for rank in found.ranking:
        own = f", self-preference {rank.self_preference:+.2f}" if rank.self_preference is not None else ""
        print(f"{rank.rank}. {rank.agent_name}: mean rank {rank.mean_rank:.2f}{own}")
    if found.agreement is not None:
        print(f"agreement W = {found.agreement.w:.2f} of {found.agreement.reviews} reviews")
    print(f"\n{found.answer}")
    if found.dissent:
        print(f"\nStill open: {found.dissent}")
    return found


if __name__ == "__main__":
    main()
