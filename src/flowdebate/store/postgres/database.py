"""PostgreSQL database: address, session settings, errors, and schema.

Alembic creates and changes the tables by applying numbered migrations.
"""

from __future__ import annotations

import math
import threading
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate._util.importing import IMPORTING
from flowdebate.errors import ConfigurationError, StoreError
from flowdebate.store.address import POSTGRES, read_postgres_address
from flowdebate.store.base import decode_text, encode_text

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg

    Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]


_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
# Error codes from a server that is stopping or starting, has crashed, has ended an idle session, or has run out of
# sessions.
_PASSING = {"57P01", "57P02", "57P03", "57P05", "25P03", "53300"}
_FULL = "53300"
_FULL_TEXTS = ("too many clients already", "connection slots are reserved", "too many connections for")
_TIMED_OUT = {"57014", "55P03"}  # the statement was cancelled, or a lock was not available
# Override the server's defaults: a `lock_timeout` would cut short waits that `timeout` already limits, and with
# synchronous_commit = off, a power failure could lose a completed commit.
_BEGIN = """
SELECT set_config('search_path', quote_ident(%(schema)s), false),
       set_config('statement_timeout', %(timeout)s, false),
       set_config('lock_timeout', '0', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                  ELSE current_setting('synchronous_commit') END, false)
"""


class Address:
    """Address of a database; `name` shows it without the user and password.

    `timeout` is the time limit per statement in seconds, and `schema` is the schema containing the tables. Raises
    ConfigurationError if the address is invalid or psycopg is not installed.
    """

    def __init__(self, url: str, *, schema: str, timeout: float, patience: float) -> None:
        self._driver = _driver()
        url = read_postgres_address(url, location="PostgresStore")
        try:
            parts: dict[str, Any] = dict(self._driver.conninfo.conninfo_to_dict(url))
        except (self._driver.Error, UnicodeDecodeError):  # these messages may contain the password
            raise ConfigurationError("PostgresStore", "url", None, POSTGRES) from None
        # An unescaped "@" or ":" in a password ends up in the host or port.
        ports = str(parts.get("port") or "").replace(",", "")
        if "@" in str(parts.get("host") or "")[1:] or (ports and not ports.isdecimal()):
            raise ConfigurationError("PostgresStore", "url", None, POSTGRES)
        self.schema = schema
        self.timeout = timeout
        self.patience = patience
        self.name: str = _name(parts)
        self.reached: bool = False
        """True once a session has been opened; an address that fails earlier is likely wrong, not temporarily down."""
        self.prepared = False
        """True once the tables have this version's schema."""
        self.preparing: threading.Lock = threading.Lock()
        self._secrets = [parts[part] for part in _SECRETS if parts.get(part)]
        # Detect a silently lost peer within 20 seconds rather than hours.
        defaults = {
            "application_name": "flowdebate",
            "connect_timeout": max(2, math.ceil(patience)),
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
        }
        connection_options: dict[str, Any] = {name: value for name, value in defaults.items() if name not in parts}
        self._conninfo = self._driver.conninfo.make_conninfo(url, **connection_options, client_encoding="utf8")

    def connect(self) -> Session:
        """Open a session that can store any string and that runs each statement in its own transaction."""
        connection: Session = self._driver.connect(self._conninfo, autocommit=True)
        try:
            _store_any_text(connection)
            connection.execute(_BEGIN, {"schema": self.schema, "timeout": str(max(1, round(self.timeout * 1000)))})
        except BaseException:
            connection.close()
            raise
        self.reached = True
        return connection

    def is_away(self) -> bool:
        """Return whether no server at the address accepts connections.

        A server that rejects only this user still counts as accepting connections.
        """
        pq = self._driver.pq
        return pq.PGconn.ping(self._conninfo.encode()) in (pq.Ping.REJECT, pq.Ping.NO_RESPONSE)

    def is_full(self, error: BaseException) -> bool:
        """Return whether the server rejected a session because it has reached its connection limit."""
        while error.__cause__ is not None and getattr(error, "sqlstate", None) is None:
            error = error.__cause__
        # An error without a code means that the session was never opened.
        return getattr(error, "sqlstate", None) == _FULL or any(text in str(error) for text in _FULL_TEXTS)

    def count_free(self, maximum: int) -> int:
        """Count the sessions that the server can still open, up to `maximum`."""
        with ExitStack() as opened:
            for count in range(maximum):
                try:
                    opened.enter_context(closing(self.connect()))
                except self._driver.Error as error:
                    if not self.is_full(error):
                        raise
                    return count
        return maximum

    def is_error(self, error: BaseException) -> bool:
        """Return whether `error` was raised by the database driver."""
        return isinstance(error, self._driver.Error)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether retrying may help, because a session or server was lost or transactions conflicted."""
        if not isinstance(error, self._driver.Error):
            return False
        code = error.sqlstate
        # 08: the connection failed; 40: the transaction was rolled back, for example after a deadlock
        if code is not None:
            return code[:2] in ("08", "40") or code in _PASSING
        if not isinstance(error, (self._driver.OperationalError, self._driver.InterfaceError)):
            return False
        # A server that rejects every connection may be starting up.
        pq = self._driver.pq
        return self.reached or bool(pq.PGconn.ping(self._conninfo.encode()) == pq.Ping.REJECT)

    def describe(self, error: BaseException) -> str:
        """Describe `error` for a StoreError's message, without secrets."""
        if getattr(error, "sqlstate", None) in _TIMED_OUT:
            return f"did not answer within {self.timeout:g} s"
        return f"cannot be used: {self.without_secrets(' '.join(str(error).split()))}"

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text


def _driver() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise ConfigurationError(
            "PostgresStore",
            "url",
            None,
            "requires psycopg, which is not installed",
            hint="pip install 'flowdebate[postgres]'",
        ) from None
    return psycopg


def _store_any_text(connection: Session) -> None:
    """Make `connection` escape strings with `encode_text` when writing, and decode them when reading."""
    from psycopg.types.string import StrDumperUnknown, TextLoader

    class Dumper(StrDumperUnknown):
        def dump(self, obj: str) -> Any:  # noqa: ANN401 - a buffer
            return super().dump(encode_text(obj))

    class Loader(TextLoader):
        def load(self, data: Any) -> Any:  # noqa: ANN401 - a buffer; a text, as all sessions are UTF-8
            text = super().load(data)
            return decode_text(text) if isinstance(text, str) else text

    connection.adapters.register_dumper(str, Dumper)
    connection.adapters.register_loader("text", Loader)


def _name(parts: dict[str, Any]) -> str:
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    port, database = parts.get("port"), parts.get("dbname", "")
    if host.startswith(("/", "@")):
        return f"postgresql:///{database}?host={host}" + (f"&port={port}" if port else "")
    return f"postgresql://{host}{f':{port}' if port else ''}/{database}"


KNOWN = "0001"
"""Latest migration number; this version of the library writes the resulting schema."""

_FOLDER = Path(__file__).with_name("migrations")
_TABLE = "migrations"
_ONE_AT_A_TIME = 0x464C4442
"""Key of the advisory lock held during migrations: "FLDB" in ASCII."""
_SCHEMA_THERE = "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL"
_TABLE_THERE = "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL"


def open_prepared(address: Address) -> Session:
    """Open a session, after migrating the tables to this version's schema if necessary.

    Raises StoreError for a newer schema, without writing anything.
    """
    with address.preparing:
        if not address.prepared:
            connection = address.connect()
            try:
                if (read_version(connection, address) or "") < KNOWN:
                    connection.autocommit = False
                    _migrate(connection, address)
            finally:
                connection.close()
            address.prepared = True
    return address.connect()


def read_version(connection: Session, address: Address) -> str | None:
    """Read the database's schema version, or None if it has no schema.

    Raises StoreError if this version of the library cannot use the schema. A newer schema is usable as long as it only
    extends this version's; it records the oldest compatible version.
    """
    row = connection.execute(_TABLE_THERE, (address.schema, _TABLE)).fetchone()
    if row is None or not row[0]:
        return None
    version_row = connection.execute(f"SELECT version_num, to_jsonb({_TABLE})->>'oldest' FROM {_TABLE}").fetchone()  # noqa: S608 - a constant
    version = None if version_row is None else str(version_row[0])
    if (
        version_row is not None
        and version is not None
        and version > KNOWN
        and (version_row[1] is None or version_row[1] > KNOWN)
    ):
        raise StoreError(
            address.name,
            f"was written by a newer version of flowdebate (schema {version}; this version supports {KNOWN}): "
            "update flowdebate",
        )
    return version


def make_schema(connection: Session, schema: str) -> None:
    """Create `schema` if it is missing; check first, since not every user has the privilege to create schemas."""
    from psycopg import sql

    row = connection.execute(_SCHEMA_THERE, (schema,)).fetchone()
    if row is None or not row[0]:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def _migrate(connection: Session, address: Address) -> None:
    """Apply all missing migrations in one transaction: either all or none take effect."""
    with IMPORTING:
        # SQLAlchemy's ORM patches modules used below, so nothing else may import them at the same time
        import_module("sqlalchemy.orm")
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
            # This lock is released when the transaction ends.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
            # another process has migrated the tables in the meantime
            if (read_version(connection, address) or "") >= KNOWN:
                return
            connection.execute("SET LOCAL statement_timeout = 0")  # indexing many runs may take a long time
            make_schema(connection, address.schema)
            config.attributes.update(connection=session, schema=address.schema, table=_TABLE)
            command.upgrade(config, "head")
            session.commit()
            connection.commit()
    except DBAPIError as error:
        raise (error.orig or error) from None  # raise the driver's own error
