"""Review a plan: three models find problems and confirm or refute each other's findings; then a rule decides.

Run it with `python examples/review.py`; set FLOWDEBATE_MODEL to choose a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Persona, review

if TYPE_CHECKING:
    from flowdebate import ReviewRawOutput
    from flowdebate.models import Model

PLAN = """\
Move all customers to the new database in one night.
If something fails, we restore the backup of the evening.
The old servers are switched off the next morning.
"""

pattern = review(
    name="move",
    reviewers=[Persona("Ada"), Persona("Ben"), Persona("Cleo")],
    focus={"Ada": "what cannot be undone", "Ben": "what nobody has counted"},
    gate="no confirmed blocker",
    sources={"plan.md": PLAN},
)


def main(model: Model | str | None = None) -> ReviewRawOutput:
    """Print each finding, the other reviewers' opinions on it, and the gate."""
    found: ReviewRawOutput = pattern.run_sync("What is wrong with this plan?", model=model, seed=7).output
    for finding in found.findings:
        print(f"{finding.state}: {finding.severity}, {finding.place.text or 'no place'}: {finding.title}")
        print(f"  raised by {', '.join(finding.raisers)}")
        for said in finding.verdicts:
            print(f"  {said.agent_name}: {said.verdict}. {said.reason}")
    if found.gate is not None:
        print(f"\n{found.gate.rule}: {'holds' if found.gate.holds else 'does not hold'} ({found.gate.why})")
    return found


if __name__ == "__main__":
    main()
