"""Where a PostgreSQL database is, how sessions there are begun, and what its errors mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg

__all__ = ("Address",)

_ALLOWED = "a PostgreSQL address: postgresql://user:password@host:port/database"
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_PASSING = {"57P01", "57P02", "57P03", "57P05", "25P03", "53300"}
"""What a server says that is stopped, started, or has too many sessions."""
_TIMED_OUT = {"57014", "55P03"}
_BEGIN = """
SELECT set_config('search_path', quote_ident(%(schema)s), false),
       set_config('statement_timeout', %(timeout)s, false),
       set_config('lock_timeout', '0', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                  ELSE current_setting('synchronous_commit') END, false)
"""


class Address:
    """A database of a server; `name` says where it is, without user and password.

    `timeout` is how many seconds a statement may take; `schema` is where the tables are.
    Raises ConfigurationError for what is no address, and where psycopg is not installed.
    """

    def __init__(self, url: str, *, schema: str, timeout: float, patience: float) -> None:
        self._driver = _driver()
        try:
            parts: dict[str, Any] = dict(self._driver.conninfo.conninfo_to_dict(url))
        except self._driver.Error:  # its text may show the password
            raise ConfigurationError("PostgresStore", "url", "postgresql://…", _ALLOWED) from None
        if not _sensible(parts):
            raise ConfigurationError("PostgresStore", "url", "postgresql://…", _ALLOWED)
        self.schema = schema
        self.timeout = timeout
        self.patience = patience
        self.name = _name(parts)
        self.reached = False
        """Whether there was ever a session: what fails before is more likely to be misspelt than to pass."""
        self._secrets = [parts[part] for part in _SECRETS if parts.get(part)]
        self._conninfo = self._driver.conninfo.make_conninfo(url, **_defaults(parts, patience))

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Begin a session, in which each statement is a transaction."""
        connection: psycopg.Connection[tuple[Any, ...]] = self._driver.connect(self._conninfo, autocommit=True)
        try:
            connection.execute(_BEGIN, {"schema": self.schema, "timeout": str(max(1, round(self.timeout * 1000)))})
        except BaseException:
            connection.close()
            raise
        self.reached = True
        return connection

    def is_error(self, error: BaseException) -> bool:
        """Whether `error` is one of the driver's."""
        return isinstance(error, self._driver.Error)

    def may_pass(self, error: BaseException) -> bool:
        """Whether the same again may succeed: the session or the server was lost, or transactions were in the way."""
        if not isinstance(error, self._driver.Error):
            return False
        code = error.sqlstate
        if code is not None:
            return code[:2] in ("08", "40") or code in _PASSING
        if not isinstance(error, (self._driver.OperationalError, self._driver.InterfaceError)):
            return False
        return self.reached or self._rejects()

    def told(self, error: BaseException) -> str:
        """What `error` says, in the words of StoreError's sentence, with no secret in it."""
        if getattr(error, "sqlstate", None) in _TIMED_OUT:
            return f"did not answer within {self.timeout:g} s"
        return f"cannot be used: {self.without_secrets(' '.join(str(error).split()))}"

    def without_secrets(self, text: str) -> str:
        """`text` with dots in place of passwords."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    def _rejects(self) -> bool:
        """Whether there is a server that lets nobody in at the moment, as one does that is starting."""
        ping: int = self._driver.pq.PGconn.ping(self._conninfo.encode())
        return ping == int(self._driver.pq.Ping.REJECT)


def _driver() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise ConfigurationError(
            "PostgresStore", "url", "a PostgreSQL address", "a path", hint="pip install 'flowdebate[postgres]'"
        ) from None
    return psycopg


def _sensible(parts: dict[str, Any]) -> bool:
    """Whether host and port can be such: an unquoted "@" or ":" in a password makes it part of them."""
    ports = str(parts.get("port") or "").replace(",", "")
    return "@" not in str(parts.get("host") or "")[1:] and (not ports or ports.isdecimal())


def _name(parts: dict[str, Any]) -> str:
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    port, database = parts.get("port"), parts.get("dbname", "")
    if host.startswith(("/", "@")):
        return f"postgresql:///{database}?host={host}" + (f"&port={port}" if port else "")
    return f"postgresql://{host}{f':{port}' if port else ''}/{database}"


def _defaults(parts: dict[str, Any], patience: float) -> dict[str, Any]:
    """A peer that is gone without a word is noticed after 20 seconds, not after hours."""
    settings = {
        "application_name": "flowdebate",
        "connect_timeout": max(2, math.ceil(patience)),
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    return {"client_encoding": "utf8"} | {name: value for name, value in settings.items() if name not in parts}
