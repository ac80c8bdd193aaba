"""Store addresses. An invalid address is rejected with a list of the valid forms, and never treated as a path."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from flowdebate._text import hide_credentials
from flowdebate.errors import ConfigurationError

FORMS = 'must be a path, "sqlite:///PATH", "postgresql://USER:PASSWORD@HOST:PORT/DATABASE" or "memory:"'
POSTGRES = "must be a PostgreSQL address: postgresql://user:password@host:port/database"
_ENCODE = "In a user or password, / and @ must be written as %2F and %40"
_SCHEME = re.compile(r"(?P<kind>[A-Za-z][A-Za-z0-9]*)(?:\+[A-Za-z0-9_]+)?://")
"""Pattern for the scheme of an address, including the driver suffix used by SQLAlchemy."""
# Anything that contains "://", has a password before an "@", or begins with a scheme (a single letter is a Windows
# drive).
_LOOKS_LIKE_ADDRESS = re.compile(
    r".*://|(?![a-z]:\\)[^@/]*:.*@|[a-z][\w+.-]+:/|(?:postgres|postgresql|mysql|mariadb|redis|mongodb|sqlite|file):",
    re.DOTALL | re.IGNORECASE,
)
_PAIR = r"[a-z_]+\s*=\s*(?:'(?:\\.|[^'\\])*'|[^\s']*)"
_PAIRS = re.compile(rf"{_PAIR}(?:\s+{_PAIR})*", re.DOTALL)
_NAMES_DATABASE = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|service|password)\s*=")


def parse_address(text: str, *, location: str, field: str = "store") -> str:
    """Parse the address of a store: "memory:", a postgresql:// address, or a file path.

    Raises ConfigurationError for any other address; the error message omits the user and password.

    >>> parse_address("POSTGRES+psycopg://ann:s3cret@db/app", location="run")
    'postgresql://ann:s3cret@db/app'
    >>> parse_address("sqlite:///runs.sqlite3", location="run")
    'runs.sqlite3'
    """
    plain = text.strip()
    scheme = _SCHEME.match(plain)
    kind = scheme["kind"].lower() if scheme else ""
    if kind in ("postgresql", "postgres") or _is_pairs(plain):
        return read_postgres_address(plain, location=location, field=field)
    if scheme and kind == "sqlite" and re.fullmatch(r"/[^?#]+", rest := plain[scheme.end() :]):
        text = plain = rest[1:]
    if plain == "memory:":
        return plain
    check_path(text, location=location, field=field)
    return text


def check_path(text: str, *, location: str, field: str) -> None:
    """Raise ConfigurationError if the path of a store looks like an address."""
    plain = text.strip()
    if _LOOKS_LIKE_ADDRESS.match(plain) or plain == ":memory:" or _is_pairs(plain):
        raise ConfigurationError(location, field, hide_credentials(plain), FORMS)


def read_postgres_address(text: str, *, location: str, field: str = "url") -> str:
    """Parse a PostgreSQL address, with or without a driver name, or in libpq's own format: `host=db dbname=app`.

    Raises ConfigurationError for any other address, and for an address in which the user and password are ambiguous.
    """
    plain = text.strip()
    if _is_pairs(plain):
        return _address_of_pairs(plain, location=location, field=field)
    scheme = _SCHEME.match(plain)
    if scheme is None or scheme["kind"].lower() not in ("postgresql", "postgres"):
        raise ConfigurationError(location, field, hide_credentials(plain) if scheme else "…", POSTGRES)
    authority, _, rest = plain[scheme.end() :].partition("/")
    # after host=, an "@" begins the name of an abstract socket rather than ending a password
    if authority.count("@") > 1 or "@" in re.sub(r"(?<=[?&]host=)@", "", rest):
        raise ConfigurationError(location, field, hide_credentials(plain), POSTGRES, hint=_ENCODE)
    return f"postgresql://{plain[scheme.end() :]}"


def _is_pairs(text: str) -> bool:
    return bool(_PAIRS.fullmatch(text) and _NAMES_DATABASE.search(text))


def _address_of_pairs(text: str, *, location: str, field: str) -> str:
    try:
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        hint = "pip install 'flowdebate[postgres]'"
        raise ConfigurationError(
            location, field, None, "cannot be a PostgreSQL address, because psycopg is not installed", hint=hint
        ) from None
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(text).items() if value is not None}
    except (Error, UnicodeDecodeError):  # these messages may contain the password
        raise ConfigurationError(location, field, "pairs such as host=…", POSTGRES) from None
    user, password, database = (quote(parts.pop(name, ""), safe="") for name in ("user", "password", "dbname"))
    credentials = f"{user}{password and ':' + password}"
    options = urlencode(parts, quote_via=quote)
    return f"postgresql://{credentials and credentials + '@'}/{database}{options and '?' + options}"
