"""Requests to humans as pages show them: what was said, read back from the text, and who asks."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ViewError
from flowdebate.prompts.escaping import BAR, unescaped, unquoted
from flowdebate.service.documents.sections import Entry
from flowdebate.web.sheet import Turn, parties_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.service.documents.document import Document
    from flowdebate.service.state import PendingInput

__all__ = ("Asked", "AskedRound", "Line", "Said", "role_in_words", "said_since")

_SAID = "What was said so far:"
_NOTHING = "(nothing yet)"
_ROUND = re.compile(r"Round (\d+):")
_TAGGED = re.compile(r"\[([^\[\]]*)\] (.*)", re.DOTALL)
_WHO = re.compile(r"You are .+")
_QUESTION = "Question: "


@dataclass(frozen=True, slots=True)
class Said:
    """A contribution, as the text tells it."""

    name: str
    stance: str
    text: str
    label: str
    """Its heading: for a judge the stance's letter, for others the name."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the request's own."""

    text: str


@dataclass(frozen=True, slots=True)
class AskedRound:
    """What was said in a round; without a title, what the request says besides."""

    title: str
    parts: tuple[Said | Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, taken apart."""

    who: str
    """What it says about the person's role; empty where it says nothing."""
    question: str
    rounds: tuple[AskedRound, ...]
    blind: Mapping[str, str]
    """The letters of the stances where the reader is a judge, who reads without names."""

    @classmethod
    def of(cls, pending: PendingInput) -> Asked:
        """The request as `flowdebate.blocks.human.prompt` renders it; what it cannot read is a line of text."""
        lines = list(_lines(pending.shown))
        who = lines.pop(0) if lines and _WHO.fullmatch(lines[0]) else ""
        question = next((line for line in lines if line.startswith(_QUESTION)), "")
        stances = _stances(pending.answer_schema)
        spoken = {_stance(found[1]) for line in lines if (found := _TAGGED.fullmatch(line)) is not None}
        judged = bool(spoken) and spoken <= set(stances)
        blind = {stance: f"Side {_letter(at)}" for at, stance in enumerate(stances)} if judged else {}
        return cls(
            who=unescaped(who),
            question=_plain(question.removeprefix(_QUESTION)),
            rounds=tuple(_rounds([line for line in lines if line not in (question, _NOTHING)], blind)),
            blind=blind,
        )


def role_in_words(block: str, pattern: str) -> str:
    """The role of a block, as its person is called.

    >>> role_in_words("rent-judge", "rent"), role_in_words("rent-debater-Ann", "rent"), role_in_words("chair", "rent")
    ('the judge', 'Ann', 'chair')
    """
    role = block.removeprefix(f"{pattern}-")
    name = role.removeprefix("debater-")
    return name if name != role or role == block else f"the {role}"


def said_since(document: Document, answer: object) -> list[Turn]:
    """What was said after somebody's contribution `answer`; nothing where that is not among those of the document."""
    parties = parties_of(document)
    entries = [each for each in document.sections() if isinstance(each, Entry)]
    found = [at for at, each in enumerate(entries) if isinstance(answer, str) and each.text.strip() == answer.strip()]
    return [
        Turn(number=at + 1, entry=each, party=parties.get(each.name), call=None)
        for at, each in enumerate(entries)
        if found and at > found[-1]
    ]


def _lines(text: str) -> Iterator[str]:
    """The lines of a request, each with those that a bar joins to it; an empty one ends a part."""
    return (line.replace("\0", BAR) for line in text.replace("\0", "").replace(BAR, "\0").split("\n"))


def _rounds(lines: list[str], blind: Mapping[str, str]) -> Iterator[AskedRound]:
    title, parts, told = "", list[Said | Line](), False
    for line in [*lines, ""]:
        number = _ROUND.fullmatch(line) if told else None
        if number is not None or not line or line == _SAID:
            if parts:
                yield AskedRound(title, tuple(parts))
            title, parts = f"Round {number[1]}" if number else "", []
            told = number is not None or line == _SAID
        else:
            parts.append(_part(line, blind))


def _part(line: str, blind: Mapping[str, str]) -> Said | Line:
    found = _TAGGED.fullmatch(line)
    if found is None:
        return Line(_plain(line))
    name, stance = unescaped(found[1].partition(", ")[0]), _stance(found[1])
    return Said(name=name, stance=stance, text=_plain(found[2]), label=blind.get(stance, name))


def _stance(tag: str) -> str:
    return unescaped(tag.partition(", ")[2])


def _plain(text: str) -> str:
    with suppress(ViewError):
        return unquoted(text)
    return text


def _stances(schema: Mapping[str, Any] | None) -> Sequence[str]:
    """What a judge chooses a winner from; nothing for a request of another kind."""
    part = (schema or {}).get("properties", {}).get("winner", {})
    return next((each["enum"] for each in (part, *part.get("anyOf", ())) if "enum" in each), [])


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)  # noqa: PLR2004 - letters
