"""Write docs/evidence.md: `python -m evidence`, and with `--model local` the real part too."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from evidence.facts import fact_pairs
from evidence.judgements import MODELS, measure, rows_of
from evidence.page import kept_real, page
from evidence.real import real


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m evidence", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=["local"], help="ask the local models; goes on where it stopped")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence.md"), help="the page")
    parser.add_argument("--judgements", type=Path, default=Path("build/evidence.jsonl"), help="the models' answers")
    parser.add_argument("--only-summary", action="store_true", help="with --model: of the answers that there are")
    chosen = parser.parse_args()
    if chosen.model is None:
        told = kept_real(chosen.out)
    else:
        pairs = fact_pairs()
        if not chosen.only_summary:
            chosen.judgements.parent.mkdir(parents=True, exist_ok=True)
            asyncio.run(measure(MODELS, pairs, chosen.judgements))
        told = real(rows_of(chosen.judgements), pairs)
    chosen.out.write_text(page(told), "utf-8")


if __name__ == "__main__":
    main()
