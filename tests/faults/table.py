"""Write the table of faults to its record: `python -m tests.faults.table`."""

from __future__ import annotations

from pathlib import Path

from .debate_rows import DEBATE
from .rows import ROWS

__all__ = ("PAGE", "table", "with_table")

PAGE = Path(__file__).parents[2] / "evidence" / "records" / "faults.md"
_BEGIN, _END = "<!-- faults -->", "<!-- /faults -->"


def table() -> str:
    """Return all rows as Markdown, one table per group."""
    groups = {
        name: [(fault.title, fault.description, len(fault.attempts)) for fault in faults]
        for name, faults in ROWS.items()
    }
    groups["In a debate of two sides, with a judge"] = [
        (fault.title, fault.description, fault.posts) for fault in DEBATE
    ]
    return "\n\n".join(_group(name, rows) for name, rows in groups.items())


def with_table(page: str) -> str:
    """Return `page` with the table inserted between its markers."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{after}"


def _group(name: str, rows: list[tuple[str, str, int]]) -> str:
    lines = [f"| {_cell(title)} | {_cell(description)} | {requests} |" for title, description, requests in rows]
    return "\n".join((f"**{name}**", "", "| Fault | What happens | Requests |", "|---|---|---|", *lines))


def _cell(text: str) -> str:
    text = text.replace("|", "\\|")
    return f"{text[:1].upper()}{text[1:]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
