"""What may be asked of a command: keys, each with what it may be, from its options over those of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate.cli.files import parse_json, parse_toml, read_text
from flowdebate.errors import BadFile, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = (
    "COMMAND",
    "MEGABYTES",
    "Given",
    "Key",
    "PlanFile",
    "choice",
    "count",
    "flag",
    "model_name",
    "number",
    "or_off",
    "path",
    "read_plan_file",
    "seconds",
    "share",
    "speakers",
    "text",
    "whole",
)

COMMAND = "command line"
"""Where options were given, in errors."""
MEGABYTES = 1
"""Of a file with a plan, and of a schema."""
_TEXT = "text that is not blank"
_KEPT = "the run as it was begun"
"""Where options were given that a store has kept, in errors."""
PlanFile: TypeAlias = str | Mapping[str, Any] | None
"""A plan as a file: its path, or what a store has kept of it."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """What may stand under a key of a file, and be given as its option."""

    fits: Callable[[Any], bool]
    allowed: str
    option: str | None = None
    """What the command line calls it; None where it has no such option."""
    read: Callable[[Any], Any] | None = None
    """Makes of what the option was given what a file would say; None takes it as it is."""
    entries: Mapping[str, Key] | None = None
    """Of a list of tables: the keys of each."""
    needed: tuple[str, ...] = ()
    """Those of them that each entry has to have."""


def text(option: str | None = None, allowed: str = _TEXT) -> Key:
    """Text that is not blank."""
    return Key(fits=_is_text, allowed=allowed, option=option)


def model_name(option: str | None = None) -> Key:
    """The name of a model."""
    return text(option, "the name of a model")


def path(option: str) -> Key:
    """The path of a file."""
    return text(option, "the path of a file")


def whole(option: str) -> Key:
    """Any int."""
    return Key(fits=_is_int, allowed="an int", option=option)


def count(option: str) -> Key:
    """An int of at least 1."""
    return Key(fits=lambda value: _is_int(value) and value >= 1, allowed="an int >= 1", option=option)


def number(option: str, allowed: str, fits: Callable[[float], bool]) -> Key:
    """A number, but no bool, that `fits`."""
    return Key(
        fits=lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and fits(value),
        allowed=allowed,
        option=option,
    )


def seconds(option: str) -> Key:
    """A time that is not over at once."""
    return number(option, "a number of seconds > 0", lambda value: 0 < value < float("inf"))


def share(option: str) -> Key:
    """A number from 0 to 1."""
    return number(option, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def or_off(key: Key) -> Key:
    """What `key` takes, or False: "off" on the command line, whose option is text."""

    def read(given: str) -> float | str | bool:
        try:
            return False if given == "off" else float(given)
        except ValueError:
            return given

    return replace(
        key,
        fits=lambda value: value is False or key.fits(value),
        allowed=f"{key.allowed}, or off (in a file: false)",
        read=read,
    )


def flag(option: str) -> Key:
    """A bool."""
    return Key(fits=lambda value: isinstance(value, bool), allowed="true or false", option=option)


def choice(option: str, values: Sequence[str]) -> Key:
    """One of a few words."""
    allowed = " or ".join(map(repr, values)) if len(values) == 2 else f"one of {', '.join(map(repr, values))}"  # noqa: PLR2004
    return Key(fits=lambda value: isinstance(value, str) and value in values, allowed=allowed, option=option)


def speakers(option: str, read: Callable[[str], Any], entries: Mapping[str, Key], needed: tuple[str, ...]) -> Key:
    """A list of tables, one for each who speaks; the command line names one at a time."""
    return Key(
        fits=lambda value: isinstance(value, list),
        allowed=f"a list of tables with {' and '.join(needed)}",
        option=option,
        read=lambda given: [read(each) for each in given],
        entries=entries,
        needed=needed,
    )


class Given:
    """What was asked for, by key; and where each was given.

    `options` are those of the command line (None: not given), and win over what `file` says. ConfigurationError or
    BadFile for what cannot be, with the option, or with the file and its key.
    """

    def __init__(self, keys: Mapping[str, Key], options: Mapping[str, Any], file: PlanFile) -> None:
        self.keys = keys
        self.file = file if isinstance(file, str) else _KEPT
        self._said = _said(file, keys)
        self._options = {}
        for key, value in options.items():
            if value is None or value == []:
                continue
            read = keys[key].read
            self._options[key] = value if read is None else read(value)
            if not keys[key].fits(self._options[key]):
                raise ConfigurationError(*self.place(key), value, keys[key].allowed)

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - each key has a type of its own
        return self._options.get(key, self._said.get(key))

    def get(self, key: str, default: Any) -> Any:  # noqa: ANN401 - see above
        """What was given under `key`; `default` where nothing was."""
        value = self[key]
        return default if value is None else value

    def put(self, key: str, value: object) -> None:
        """Give `value` under `key` from now on: what stands in the file that was given there."""
        (self._said if self.from_file(key) else self._options)[key] = value

    def values(self) -> dict[str, Any]:
        """All that was given, as a file would say it."""
        return {key: self[key] for key in self.keys if self[key] is not None}

    def place(self, key: str) -> tuple[str, str]:
        """Where `key` is, or should have been, given; and what it is called there."""
        if self.from_file(key):
            return self.file, key
        return COMMAND, self.keys[key].option or key

    def from_file(self, key: str) -> bool:
        """Whether it is the file that says it."""
        return key in self._said and key not in self._options

    @contextmanager
    def placing(self, fields: Mapping[str, str]) -> Iterator[None]:
        """Inside, a ConfigurationError of a pattern about one of `fields` says which key it is about, and where.

        `fields` are keys, by what the pattern calls them.
        """
        try:
            yield
        except ConfigurationError as error:
            name = re.split(r"\W", error.field, maxsplit=1)[0]
            if name not in fields:
                raise
            where, field = self.place(fields[name])
            rest = error.field.removeprefix(name)
            raise ConfigurationError(where, f"{field}{rest}", error.got, error.allowed) from None


def _said(file: PlanFile, keys: Mapping[str, Key]) -> dict[str, Any]:
    if isinstance(file, str):
        return read_plan_file(file, keys)
    kept = {} if file is None else dict(file)
    _check(kept, keys, _KEPT, "")
    return kept


def read_plan_file(path: str, keys: Mapping[str, Key]) -> dict[str, Any]:
    """What the TOML (or, by its suffix, JSON) file at `path` says, checked key by key."""
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml"):
        raise BadFile(path, "YAML is not read: write TOML or JSON")
    content = read_text(path, megabytes=MEGABYTES)
    said = parse_json(content, path=path) if suffix == ".json" else parse_toml(content, path=path)
    if not isinstance(said, dict):
        raise BadFile(path, f"must hold a JSON object, got {type(said).__name__}")
    _check(said, keys, path, "")
    return said


def _check(said: Mapping[str, Any], keys: Mapping[str, Key], where: str, prefix: str) -> None:
    for name, value in said.items():
        if name not in keys:
            raise ConfigurationError(where, f"{prefix}{name}", value, f"one of the keys {', '.join(keys)}")
        key = keys[name]
        if not key.fits(value):
            raise ConfigurationError(where, f"{prefix}{name}", value, key.allowed)
        if key.entries is not None:
            _check_entries(value, key, key.entries, where, name)


def _check_entries(said: Sequence[Any], key: Key, entries: Mapping[str, Key], where: str, name: str) -> None:
    for index, entry in enumerate(said):
        place = f"{name}[{index}]"
        if not isinstance(entry, dict):
            raise ConfigurationError(where, place, entry, f"a table with {' and '.join(key.needed)}")
        _check(entry, entries, where, f"{place}.")
        for needed in key.needed:
            if needed not in entry:
                raise ConfigurationError(where, f"{place}.{needed}", None, entries[needed].allowed)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.encode(errors="replace").decode() == value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
