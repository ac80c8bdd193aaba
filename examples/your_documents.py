"""Let a council read a folder: every quote is looked up in the files, and secrets are never read.

Run it with `python examples/your_documents.py`; set FLOWDEBATE_MODEL to choose a model.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from flowdebate import Persona, council

if TYPE_CHECKING:
    from flowdebate import CouncilOutput
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models import Model

FILES = {
    "plan.md": "The trams open in 2031. They cost 30 million, and carry 9,000 people a day.",
    "survey/answers.txt": "Of 400 households, 260 would leave the car at home if a tram came every ten minutes.",
    ".env": "BUDGET_PASSWORD=never-sent",
}
MEMBERS = [Persona("Ada", role="plans lines"), Persona("Ben", role="pays for them")]


def build(folder: Path) -> Sequencer[Any, Any]:
    """Build the council, with all allowed files of a folder as sources."""
    return council(name="trams", members=MEMBERS, review="none", sources=[folder])


def main(model: Model | str | None = None) -> CouncilOutput:
    """Print the files that were read and omitted, and the result for each member's quotes."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "trams"
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        pattern = build(folder)
    found: CouncilOutput = pattern.run_sync("Should the city build the tram line?", model=model, seed=7).output
    for source in found.sources or ():
        print(f"{source.name}: {source.left_out or f'{source.characters} characters'}")
    for opinion, quotes in zip(found.opinions, found.quotes or (), strict=True):
        print(f"\n{opinion.agent_name}: {opinion.text}")
        for quote in quotes:
            print(f"  “{quote.text}”: {quote.status}{f', in {quote.source}' if quote.source else ''}")
    print(f"\n{found.answer}")
    return found


if __name__ == "__main__":
    main()
