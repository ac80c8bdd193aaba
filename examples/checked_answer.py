"""Check a draft answer against a lease: a critic makes claims, and only claims with a verified quote change the answer.

Run it with `python examples/checked_answer.py`. It uses the default model (see docs/models.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Persona, critique

if TYPE_CHECKING:
    from flowdebate import CritiqueOutput
    from flowdebate.models import Model

QUESTION = "When does a tenant get the deposit back, and what may the landlord keep of it?"
LEASE = (
    "§ 7 The deposit is 1,200 euros. It is paid back within 30 days after the keys were handed over.\n"
    "§ 8 The landlord may keep what unpaid rent comes to. The landlord may not keep anything for normal wear."
)
DRAFT = (
    "The deposit of 1,200 euros is paid back within 14 days after the keys were handed over. "
    "The landlord may keep unpaid rent, and nothing for normal wear."
)

pattern = critique(name="lease", answer=DRAFT, critics=[Persona("Ada")], sources={"lease.md": LEASE})


def main(model: Model | str | None = None) -> CritiqueOutput:
    """Print each claim with its ruling and its quote, then the decision."""
    output: CritiqueOutput = pattern.run_sync(QUESTION, model=model, seed=7).output
    for claim in output.claims:
        print(f"{claim.id} {claim.ruling}: {claim.claim}")
        for item in claim.evidence:
            place = item.source or ("the answer" if item.is_found else None)
            print(f'   "{item.quote}" is {f"in {place}" if place else "nowhere"}')
        if claim.why:
            print(f"   {claim.why}")
    print(f"\n{output.decision_line}\n{output.answer or ''}")
    return output


if __name__ == "__main__":
    main()
