"""Requests to humans as pages show them: who asks, what was said so far, and what was said since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.human.prompt import RequestParts, Said, parse_request
from flowdebate.runs.context import place_of
from flowdebate.runs.durable.suspend import role_in_name
from flowdebate.service.documents.sections import Entry
from flowdebate.web.run.sheet import Turn, parties_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.service.documents.document import Document
    from flowdebate.service.state import PendingInput


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as its reader may see it."""

    parts: RequestParts
    blind: Mapping[str, str]
    """The letters of the stances where the reader is a judge, who reads without names."""

    @classmethod
    def of(cls, pending: PendingInput) -> Asked:
        """The request, blind if all who speak in it argue for what its reader chooses a winner from."""
        parts = parse_request(pending.shown)
        stances = _stances(pending.answer_schema)
        spoken = {each.about for section in parts.sections for each in section.parts if isinstance(each, Said)}
        judged = bool(spoken) and spoken <= set(stances)
        return cls(parts, {stance: f"Side {_letter(at)}" for at, stance in enumerate(stances)} if judged else {})


def role_in_words(block: str, pattern: str) -> str:
    """The role of a block, as its person is called.

    >>> role_in_words("rent-judge", "rent"), role_in_words("rent-debater-Ann", "rent"), role_in_words("chair", "rent")
    ('the judge', 'Ann', 'chair')
    """
    role = role_in_name(block, place_of(pattern))
    if role is None:
        return block
    return block.removeprefix(f"{pattern}-").partition("-")[2] if role in ("debater", "reviewer") else f"the {role}"


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


def _stances(schema: Mapping[str, Any] | None) -> Sequence[str]:
    """What a judge chooses a winner from; nothing for a request of another kind."""
    part = (schema or {}).get("properties", {}).get("winner", {})
    return next((each["enum"] for each in (part, *part.get("anyOf", ())) if "enum" in each), [])


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)  # noqa: PLR2004 - letters
