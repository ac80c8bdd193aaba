"""Values and problems as messages show them: on one line, cut to a readable length, whatever a value does."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

__all__ = ("add_note", "cut", "error_text", "listed", "pickles", "problems_of", "shown")

_LONGEST_VALUE, _LONGEST_LIST, _LONGEST_KEY = 200, 1_500, 60
"""Characters that an error message shows of a foreign value, of a list of problems, and of a key in a field's path."""


def shown(value: object) -> str:
    """`value` as an error message shows it: its `repr`, on one line, cut to a readable length.

    >>> shown("x" * 500)[-9:]
    'xx… (500)'
    """
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a hostile __repr__ must not hide the error that is being raised
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{cut(text, _LONGEST_VALUE)} ({len(value) if isinstance(value, str) else len(text)})"


def error_text(error: BaseException) -> str:
    """The type and message of `error`, for messages and events; its own `__str__` may raise.

    >>> error_text(ValueError("no such side"))
    'ValueError: no such side'
    """
    try:
        message = str(error)
    except Exception as another:  # noqa: BLE001 - it must not hide the error that is being reported
        return f"{type(error).__name__}, whose __str__ raises {type(another).__name__}"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def add_note(error: BaseException, note: str) -> None:
    """`error.add_note`, for errors of the application, which may be frozen or refuse it in other ways."""
    with suppress(Exception):
        error.add_note(note)


def cut(text: str, longest: int) -> str:
    """`text` in at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def pickles(value: object) -> bool:
    """Whether `value` can be pickled."""
    import pickle

    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - the value is the application's, and may fail in any way
        return False
    return True


def listed(problems: Iterable[tuple[str, str]]) -> str:
    """`problems` on one printable line of readable length: a model can invent any number of fields, of any name."""
    text = "; ".join(f"`{field}` {problem}" if field else problem for field, problem in problems)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return cut(text, _LONGEST_LIST)


def problems_of(error: Any, *, got: bool = True) -> list[tuple[str, str]]:  # noqa: ANN401 - pydantic is not imported here
    """The `(field, what is wrong)` pairs of a pydantic `ValidationError`; with `got`, each shows what was given."""
    found = []
    for item in error.errors(include_url=False, include_context=False):
        path = ".".join(cut(str(part), _LONGEST_KEY) for part in item["loc"])  # a model can invent keys of any length
        problem = item["msg"].removeprefix("Value error, ")
        found.append((path, f"{problem}, got {shown(item.get('input'))}" if got else problem))
    return found
