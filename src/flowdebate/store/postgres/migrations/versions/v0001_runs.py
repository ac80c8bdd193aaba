"""Schema version 0001: tables for runs, their labels and steps, and documents."""  # noqa: INP001

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
        outcome text,
        brief text
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX runs_created ON runs (created_at DESC, run_id)",
    "CREATE INDEX runs_status ON runs (status, created_at DESC, run_id)",
    "CREATE INDEX runs_block ON runs (block, created_at DESC, run_id)",
    "COMMENT ON COLUMN runs.folded IS 'the question in UTF-8, as Python folds the case: what searches look at'",
    "COMMENT ON COLUMN runs.owner IS 'the advisory lock that whoever carries the run out holds'",
    "COMMENT ON COLUMN runs.claim IS 'the last change of owner, so that it can be asked for twice'",
    "COMMENT ON COLUMN runs.brief IS 'the outcome without its outputs, which lists do not show'",
    # One row per run and label, indexed in list order: with an index on `runs.labels` instead, finding the newest run
    # would mean reading every run with the label. A row contains only the beginning of a long label; `runs.labels` is
    # authoritative.
    """
    CREATE TABLE run_labels (
        label text COLLATE "C" NOT NULL,
        created_at double precision NOT NULL,
        run_id text COLLATE "C" NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX run_labels_created ON run_labels (label, created_at DESC, run_id)",
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
    # A pg_trgm equivalent for bytes that requires no extension.
    """
    CREATE FUNCTION grams(folded bytea) RETURNS bytea[] LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
        SELECT array_agg(DISTINCT substring(flat FROM number FOR 3))
        FROM (SELECT folded || ''::bytea AS flat OFFSET 0) AS once, generate_series(1, length(flat) - 2) AS number
    $$
    """,
    "CREATE INDEX runs_grams ON runs USING gin (grams(folded)) WITH (gin_pending_list_limit = 256)",
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
    "ALTER TABLE migrations ADD COLUMN oldest text NOT NULL DEFAULT '0001'",
    "COMMENT ON COLUMN migrations.oldest IS 'the lowest schema whose processes can read and write this one'",
)


def upgrade() -> None:
    """Create the tables in the first schema of the search path."""
    for statement in _TABLES:
        op.execute(statement)
