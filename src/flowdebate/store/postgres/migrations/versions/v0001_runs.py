"""Tables of schema 0001: runs, their steps, documents."""  # noqa: INP001

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE runs (
        run_id text COLLATE "C" PRIMARY KEY,
        block text COLLATE "C" NOT NULL,
        folded bytea NOT NULL,
        labels text[] COLLATE "C" NOT NULL,
        status text COLLATE "C" NOT NULL,
        created_at double precision NOT NULL,
        updated_at double precision NOT NULL,
        steps integer NOT NULL DEFAULT 0,
        recoveries integer NOT NULL DEFAULT 0,
        owner bigint,
        claim bigint NOT NULL,
        header text NOT NULL,
        outcome text
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX runs_created ON runs (created_at DESC, run_id)",
    "COMMENT ON COLUMN runs.folded IS 'the question in UTF-8, as Python folds the case: what searches look at'",
    "COMMENT ON COLUMN runs.owner IS 'the advisory lock that whoever carries the run out holds'",
    "COMMENT ON COLUMN runs.claim IS 'the last change of owner, so that it can be asked for twice'",
    """
    CREATE TABLE steps (
        run_id text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        kind text NOT NULL,
        request text,
        attempts integer NOT NULL,
        failures text[] NOT NULL DEFAULT '{}',
        seq integer,
        at double precision,
        body text,
        PRIMARY KEY (run_id, key)
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE TABLE documents (
        collection text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        body text NOT NULL,
        PRIMARY KEY (collection, key)
    )
    """,
)


def upgrade() -> None:
    """Create the tables in the schema that the search path names."""
    for statement in _TABLES:
        op.execute(statement)
