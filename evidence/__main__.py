"""Write evidence/records/evidence.md: `python -m evidence`, or with `--model local` to query the local models first."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from evidence.facts import fact_pairs, stored_pairs
from evidence.judgements import BALLOTS, MODELS, measure, rows_of
from evidence.page import merged, page, stored_published, stored_real
from evidence.real import real


def main() -> None:
    """Query the models if requested, then write the page."""
    parser = argparse.ArgumentParser(prog="python -m evidence", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=["local"], help="ask the local models; goes on where it stopped")
    parser.add_argument("--out", type=Path, default=Path("evidence/records/evidence.md"), help="the page")
    parser.add_argument("--judgements", type=Path, default=BALLOTS, help="the models' answers")
    options = parser.parse_args()
    if options.model is not None:
        asyncio.run(measure(MODELS, fact_pairs(), options.judgements))
    section = merged(real(rows_of(options.judgements), stored_pairs()), stored_real(options.out))
    options.out.write_text(page(section, published=stored_published(options.out)), "utf-8")


if __name__ == "__main__":
    main()
