"""Store addresses: parsed or rejected, never used as a path, and displayed without the user name and password."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate._text import hide_credentials
from flowdebate.errors import ConfigurationError
from flowdebate.models.openai.endpoint import address_of, check_address
from flowdebate.store.address import parse_address
from flowdebate.store.open import open_store
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.workers import Workers
from tests.cli.stage import COMMAND
from tests.warm import run_warm

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3kret"  # noqa: S105 - of no account
POSTGRES = f"postgresql://ann:{SECRET}@db/app"
UNKNOWN = [
    f"mysql://ann:{SECRET}@db/app",
    f"redis://:{SECRET}@db:6379/0",
    f"jdbc:postgresql://ann:{SECRET}@db/app",
    f"postgresql:/ann:{SECRET}@db/app",
    f"postgresql:ann:{SECRET}@db/app",
    f"ann:{SECRET}@db/app",
    f"postgresql://ann:{SECRET}/x@db/app",
    f"postgresql://ann:{SECRET}@x@db/app",
    f"htps://ann:{SECRET}@db",
    f"MongoDB+srv://ann:{SECRET}@db",
    f"sqlite://ann:{SECRET}@db",
    "file:runs.sqlite3",
    "sqlite://",
    "sqlite:///runs.sqlite3?mode=ro",
    ":memory:",
    "s3://bucket/runs.sqlite3",
]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert not [path for path in tmp_path.rglob("*") if path.suffix != ".sqlite3"], "an address became a path"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (POSTGRES, POSTGRES),
        (POSTGRES.replace("postgresql", "postgres"), POSTGRES),
        (POSTGRES.replace("postgresql", "POSTGRESQL"), POSTGRES),
        (POSTGRES.replace("postgresql", "postgresql+psycopg"), POSTGRES),
        (POSTGRES.replace("postgresql", "postgresql+asyncpg"), POSTGRES),
        (f" {POSTGRES}\n", POSTGRES),
        ("postgresql:///app?host=@socket", "postgresql:///app?host=@socket"),
        (
            f"host=db port=5433 dbname=app user=ann password='{SECRET} @/'",
            f"postgresql://ann:{SECRET}%20%40%2F@/app?host=db&port=5433",
        ),
        ("dbname=app", "postgresql:///app"),
        ("service=debates", "postgresql:///?service=debates"),
        ("memory:", "memory:"),
        ("sqlite:///runs.sqlite3", "runs.sqlite3"),
        ("SQLite+aiosqlite:////data/runs.sqlite3", "/data/runs.sqlite3"),
        ("runs.sqlite3", "runs.sqlite3"),
        ("runs:today.sqlite3", "runs:today.sqlite3"),
        ("me@home/runs.sqlite3", "me@home/runs.sqlite3"),
        ("year=2026/runs.sqlite3", "year=2026/runs.sqlite3"),
        (r"C:\me@home\runs.sqlite3", r"C:\me@home\runs.sqlite3"),
    ],
)
def test_store_addresses_are_parsed(text: str, place: str) -> None:
    """An address can include a driver name, use any case, follow libpq's format, or be a plain path."""
    if "=" in text and "/" not in text.partition("=")[0]:
        pytest.importorskip("psycopg")
    assert parse_address(text, location="run") == place


@pytest.mark.parametrize("text", UNKNOWN)
def test_error_for_an_unknown_address_lists_the_valid_forms(text: str) -> None:
    for name in (text, Path(text)):
        with pytest.raises(ConfigurationError, match="postgresql://") as refused:
            open_store(name)
        assert SECRET not in str(refused.value)
    if "postgresql:" not in text:
        with pytest.raises(ConfigurationError, match="postgresql://"):
            SqliteStore(text)
    with pytest.raises(ConfigurationError, match="postgresql://") as refused:
        Workers(text, {}, model="openai/gpt-5-mini", version="1")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("text", [f"mysql://ann:{SECRET}@db/app", f"postgresql+psycopg://ann:{SECRET}/x@db/app"])
def test_error_names_the_option_or_variable_that_holds_an_invalid_address(text: str) -> None:
    for arguments, variables in ((("--store", text), {}), ((), {"FLOWDEBATE_STORE": text})):
        done = run_warm(COMMAND, "runs", *arguments, env={**os.environ, **variables}, check=False)
        assert done.returncode == 2
        assert ("FLOWDEBATE_STORE" if variables else "--store") in done.stderr
        assert SECRET not in done.stderr + done.stdout


hostile = st.text("ab3:/@?#%=&' \\[]+", min_size=1, max_size=12)
names = st.sampled_from(
    ["postgresql", "POSTGRES", "postgresql+psycopg", "mysql", "http", "https", "socks5", "sqlite", "x", ""]
)


@example(scheme="postgresql", credentials="%a3", sign="://", rest="")  # invalid UTF-8
@example(scheme="postgresql", credentials="://", sign=":", rest="")
@given(names, hostile, st.sampled_from(["://", ":/", ":"]), st.sampled_from(["", "/db", "/v1?key=1", ":5432/db"]))
def test_everything_up_to_the_last_at_sign_is_hidden(scheme: str, credentials: str, sign: str, rest: str) -> None:
    secret = f"{SECRET}{credentials}{SECRET}"
    for address in (f"{scheme}{sign}{secret}@host.example{rest}", f"{scheme}{sign}ann:{secret}@host.example{rest}"):
        texts = [hide_credentials(address), address_of(address)]
        for show in (
            lambda text: parse_address(text, location="run"),
            lambda text: check_address("m", "base_url", text),
        ):
            try:
                place = show(address)
                store = open_store(address) if place else None
            except ConfigurationError as error:
                texts.append(str(error))
            else:
                assert place is None or place.startswith("postgresql://"), "it became a path"
                texts.append(store.name if store else "")
        assert not [text for text in texts if SECRET in text]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_percent_encoded_password_is_decoded_for_the_driver(password: str) -> None:
    conninfo = pytest.importorskip("psycopg.conninfo")
    address = parse_address(f"postgresql+psycopg://ann:{quote(password, safe='')}@db/app", location="run")
    assert conninfo.conninfo_to_dict(address)["password"] == password


def test_errors_about_an_unreachable_database_omit_its_password(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    caplog.set_level(logging.DEBUG)
    store = open_store(f"host=127.0.0.1 port=1 dbname=app user=ann password={SECRET}")
    assert store is not None
    with pytest.raises(Exception, match="cannot be used") as failed:
        asyncio.run(store.run("none"))
    assert SECRET not in f"{failed.value}{caplog.text}{store.name}"
