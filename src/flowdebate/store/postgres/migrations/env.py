"""Alembic environment: applies the migrations in versions/ to the given connection and schema."""  # noqa: INP001

from __future__ import annotations

from alembic import context

_given = context.config.attributes
context.configure(
    connection=_given["connection"],
    version_table=_given["table"],
    version_table_schema=_given["schema"],
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
