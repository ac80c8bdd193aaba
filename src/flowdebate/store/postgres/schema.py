"""The tables of a PostgreSQL store: made and changed by numbered migrations, which alembic applies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate.errors import StoreError

if TYPE_CHECKING:
    import psycopg

    from flowdebate.store.postgres.address import Address

__all__ = (
    "KNOWN",
    "prepare",
)

KNOWN = "0001"
"""The schema that this version of the library writes: the number of the last migration."""

_FOLDER = Path(__file__).with_name("migrations")
_TABLE = "migrations"
_ONE_AT_A_TIME = 0x464C4442
"""The number of the lock under which migrations are applied: "FLDB"."""
_THERE = "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL"
_STANDS = "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL"


def prepare(address: Address) -> None:
    """Bring the tables up to what this version writes; StoreError, and nothing written, for those of a newer one."""
    connection = address.connect()
    try:
        if _version(connection, address) != KNOWN:
            connection.autocommit = False
            _migrate(connection, address)
    finally:
        connection.close()


def _version(connection: psycopg.Connection[tuple[Any, ...]], address: Address) -> str | None:
    """The number of the schema that stands there; None for none."""
    row = connection.execute(_STANDS, (address.schema, _TABLE)).fetchone()
    if row is None or not row[0]:
        return None
    found = connection.execute(f"SELECT version_num FROM {_TABLE}").fetchone()  # noqa: S608 - a constant
    version = None if found is None else str(found[0])
    if version is not None and version > KNOWN:
        raise StoreError(
            address.name, f"was written by a newer version of flowdebate (its schema is {version}, known: {KNOWN})"
        )
    return version


def _make_schema(connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> None:
    """Make `schema` where there is none; asked first, because making it needs a right that not everybody has."""
    from psycopg import sql

    row = connection.execute(_THERE, (schema,)).fetchone()
    if row is None or not row[0]:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def _migrate(connection: psycopg.Connection[tuple[Any, ...]], address: Address) -> None:
    """Apply what is missing, in one transaction; nothing of it stays if it fails."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import StaticPool

    engine = create_engine("postgresql+psycopg://", creator=lambda: connection, poolclass=StaticPool)
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    try:
        with engine.connect() as session:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
            if _version(connection, address) == KNOWN:  # another process was quicker
                return
            _make_schema(connection, address.schema)
            config.attributes.update(connection=session, schema=address.schema, table=_TABLE)
            command.upgrade(config, "head")
            session.commit()
            connection.commit()
    except DBAPIError as error:
        raise (error.orig or error) from None  # so that it is known as what it is
