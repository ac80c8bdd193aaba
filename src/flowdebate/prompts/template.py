"""Prompt templates: named texts with fields, checked when they are created; inserted values are never parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from flowdebate.errors import ConfigurationError

Profile: TypeAlias = Literal["concise", "full"]
"""Kind of default prompts: short steps for small models, or the whole task."""
Length: TypeAlias = Literal["short", "medium", "long"] | int
"""How long a turn is: a name, or a number of words."""

# Each length as a prompt states it, and the words that it takes at most.
_LENGTHS: dict[object, tuple[str, int]] = {
    "short": ("two or three short sentences", 60),
    "medium": ("two to four paragraphs", 320),
    "long": ("five to eight paragraphs", 800),
}
_SHORTEST, _LONGEST = 10, 2_000  # words of a turn

_FIELD = re.compile(r"\{(\w+)\}")
# Fields that are rendered as whole lines: each must be alone on its line.
_LINES = frozenset(
    {"context", "critiques", "decisions", "framing", "positions", "proposals", "roster", "sources", "transcript"}
)
# Fields that may be anywhere. All others are text of models or users, and must follow a label.
_PLAIN = frozenset({"label", "length", "max_rounds", "position", "round", "rounds"})


def filled(template: str, **values: object) -> str:
    """`template` with each `{field}` replaced; inserted values are never parsed.

    >>> filled("Question: {question}", question="Who is {round}?")
    'Question: Who is {round}?'
    """
    return _format(template) % values


@lru_cache(maxsize=256)
def _format(template: str) -> str:
    """The template as a format of the operator `%`, which fills in all fields in C."""
    return _FIELD.sub(r"%(\1)s", template.replace("%", "%%"))


def listed(*items: str) -> str:
    """`items`, each on its own line."""
    return "\n".join(map("- {}".format, items))


def uses(*names: str, lines: Iterable[str] = ()) -> Mapping[str, frozenset[str]]:
    """A template part's metadata: the fields that it may use; those of `lines` are rendered as whole lines."""
    return {"uses": frozenset({*names, *lines}), "lines": _LINES.union(lines)}


def part(default: str, allowed: Mapping[str, frozenset[str]] = uses()) -> Any:  # noqa: ANN401 - as of `field()`
    """A part of a template: its default text, and the fields that it may use."""
    return field(default=default, metadata=allowed)


@dataclass(frozen=True, kw_only=True)
class Template:
    """The texts of one role; override any of them by keyword.

    ConfigurationError for a `{field}` that the template does not have, and for one in a place where its text could pass
    for the prompt's own words: text of others must not begin a line, and a transcript must not share one.
    """

    def __post_init__(self) -> None:
        for part in fields(self):
            text = getattr(self, part.name)
            known = part.metadata["uses"]
            if not isinstance(text, str):
                raise ConfigurationError(type(self).__name__, part.name, text, "text")
            for match in _FIELD.finditer(text):
                if problem := _problem(match, known, part.metadata["lines"]):
                    raise ConfigurationError(type(self).__name__, part.name, match[0], problem)


TemplateT = TypeVar("TemplateT", bound=Template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles(Generic[TemplateT]):
    """Default templates of a role, one for each profile."""

    full: TemplateT
    concise: TemplateT
    tasks: tuple[str, ...] = ()
    """Parts in which the concise template says how a turn begins and what each of its sentences does."""

    def template(self, profile: Profile, *, instructed: bool = False) -> TemplateT:
        """The template of `profile`; with the application's instructions (`instructed`) no task prescribes a form."""
        if profile == "full":
            return self.full
        if instructed and self.tasks:
            return replace(self.concise, **{part: getattr(self.full, part) for part in self.tasks})
        return self.concise


def check_profile(where: str, profile: object, *, field: str = "profile") -> None:
    """ConfigurationError unless `profile` is one of the profiles, or None."""
    if profile is not None and (not isinstance(profile, str) or profile not in get_args(Profile)):
        raise ConfigurationError(where, field, profile, "'concise', 'full' or None")


def check_length(where: str, length: object, *, field: str = "length") -> None:
    """ConfigurationError unless `length` is a name, a number of words, or None."""
    known = isinstance(length, str) and length in _LENGTHS
    number = isinstance(length, int) and not isinstance(length, bool) and _SHORTEST <= length <= _LONGEST
    if length is not None and not known and not number:
        allowed = f"'short', 'medium', 'long', a number of words from {_SHORTEST} to {_LONGEST:,}, or None"
        raise ConfigurationError(where, field, length, allowed)


def length_text(length: Length) -> str:
    """`length` as prompts state it.

    >>> length_text("medium"), length_text(120)
    ('two to four paragraphs', 'about 120 words')
    """
    return _LENGTHS[length][0] if isinstance(length, str) else f"about {length} words"


def words_of(length: Length) -> int:
    """The words that a turn of `length` takes at most."""
    return _LENGTHS[length][1] if isinstance(length, str) else length


def _problem(match: re.Match[str], known: frozenset[str], lines: frozenset[str]) -> str | None:
    """The rule that a field breaks, or None."""
    name, text = match[1], match.string
    begins = match.start() == 0 or text[match.start() - 1] == "\n"
    ends = match.end() == len(text) or text[match.end()] == "\n"
    if name not in known:
        allowed = ", ".join(f"{{{field}}}" for field in sorted(known))
        return f"text whose fields are among {allowed}" if allowed else "text without fields"
    if name in lines and not (begins and ends):
        return f"text in which {match[0]} stands alone on its line"
    if name not in lines | _PLAIN and begins:
        return f"text in which {match[0]} does not begin a line (put a label before it)"
    return None
