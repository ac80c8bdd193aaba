"""Indexes for lists of runs, and the oldest schema whose processes may go on beside this one."""  # noqa: INP001

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

_STATEMENTS = (
    "CREATE INDEX runs_status ON runs (status, created_at DESC, run_id)",
    "CREATE INDEX runs_block ON runs (block, created_at DESC, run_id)",
    # In the order of lists: an index of `runs.labels` would read all runs of a label to find the newest ones. Labels
    # of any length begin an entry; `runs.labels` decides. Triggers, since processes of the schema before write as well.
    """
    CREATE TABLE run_labels (
        label text COLLATE "C" NOT NULL,
        created_at double precision NOT NULL,
        run_id text COLLATE "C" NOT NULL
    )
    """,
    """
    CREATE FUNCTION index_labels() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO run_labels
            SELECT DISTINCT left(label, 200), NEW.created_at, NEW.run_id FROM unnest(NEW.labels) AS label;
        ELSE
            DELETE FROM run_labels WHERE label IN (SELECT left(each, 200) FROM unnest(OLD.labels) AS each)
            AND created_at = OLD.created_at AND run_id = OLD.run_id;
        END IF;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER index_labels AFTER INSERT OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION index_labels()",
    """
    INSERT INTO run_labels
    SELECT DISTINCT left(label, 200), created_at, run_id FROM runs, unnest(labels) AS label
    """,
    "CREATE UNIQUE INDEX run_labels_created ON run_labels (label, created_at DESC, run_id)",
    # What pg_trgm does, for bytes, without an extension that somebody has to install.
    """
    CREATE FUNCTION grams(folded bytea) RETURNS bytea[] LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
        SELECT array_agg(DISTINCT substring(flat FROM number FOR 3))
        FROM (SELECT folded || ''::bytea AS flat OFFSET 0) AS once, generate_series(1, length(flat) - 2) AS number
    $$
    """,
    "CREATE INDEX runs_grams ON runs USING gin (grams(folded)) WITH (gin_pending_list_limit = 256)",
    "ANALYZE runs",
    "ANALYZE run_labels",
    "ALTER TABLE migrations ADD COLUMN oldest text NOT NULL DEFAULT '0001'",
    "COMMENT ON COLUMN migrations.oldest IS 'the lowest schema whose processes can read and write this one'",
)


def upgrade() -> None:
    """Add all of it; nothing that an older process uses changes."""
    for statement in _STATEMENTS:
        op.execute(statement)
