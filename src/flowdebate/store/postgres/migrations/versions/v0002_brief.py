"""Outcomes in brief, as lists of runs show them, in a column of their own."""  # noqa: INP001

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; the runs that ended before have it once they end again, and lists read their outcomes."""
    op.execute("ALTER TABLE runs ADD COLUMN brief text")
    op.execute("COMMENT ON COLUMN runs.brief IS 'the outcome without its outputs, which lists do not show'")
