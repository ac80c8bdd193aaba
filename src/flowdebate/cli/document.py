"""What was held, as it is saved: what `--json` writes, and what `render` reads."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from flowdebate._util.wire import WireModel
from flowdebate.cli.files import parse_json, read_text
from flowdebate.errors import BadFile, problems_of, shown
from flowdebate.patterns.debate.schemas import DebateRawOutput
from flowdebate.patterns.state import DebateStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flowdebate.cli.page import Page

__all__ = (
    "DebateDocument",
    "Document",
    "Side",
    "Speaker",
    "Tokens",
    "as_json",
    "document_of",
    "read_document",
    "seen_json",
    "speakers_of",
)

_MEGABYTES = 16
"""Of a file that `render` reads."""
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What JSON may hold as it is, and a terminal should not."""
_LAST = ("usage", "seconds", "seed", "runId")
"""What a document ends with."""


class Speaker(WireModel):
    """Somebody who speaks."""

    name: str
    role: str | None = None

    @property
    def about(self) -> str:
        """What is said of it beside its name."""
        return self.role or ""


class Side(Speaker):
    """A debater."""

    stance: str

    @property
    def about(self) -> str:
        """The position, and the role behind it."""
        return self.stance if self.role is None else f"{self.stance} ({self.role})"


class Tokens(WireModel):
    """What the calls came to; None is unknown."""

    calls: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None

    def told(self) -> list[str]:
        """The counts, in words."""
        prompt, cached, completion = (
            "unknown" if count is None else f"{count:,}"
            for count in (self.prompt_tokens, self.cached_tokens, self.completion_tokens)
        )
        return [f"Tokens: prompt {prompt} (cached {cached}), completion {completion}", f"Calls: {self.calls:,}"]


class Document(WireModel):
    """What every document has: how it ended, all that was said, and what it took; each pattern adds its own."""

    TITLE: ClassVar[str]
    """The heading of its report."""
    LABEL: ClassVar[str]
    """What stands before its subject."""
    SPEAKERS: ClassVar[str]
    """The heading over those who speak."""
    RAW: ClassVar[type[Any]]
    """What its pattern comes to."""
    pattern: str
    status: DebateStatus
    error: str | None = None
    """Why it failed, or which limit ended it."""
    raw: Any
    usage: Tokens | None = None
    seconds: float | None = None
    seed: int | None = None
    run_id: str | None = None
    """What it is kept under; None where it is not."""

    def to_json(self) -> str:
        """The document, in camelCase."""
        value = self.model_dump(mode="json", by_alias=True)
        return as_json({key: value[key] for key in (*(key for key in value if key not in _LAST), *_LAST)})

    @classmethod
    def of_raw(cls, value: Any) -> Self:  # noqa: ANN401 - any JSON object
        """The document of a bare raw output; ValidationError for what is none."""
        raw = cls.RAW.model_validate(value)
        return cls.model_validate({"status": raw.status, "raw": raw, "seed": raw.seed})

    @property
    @abstractmethod
    def subject(self) -> str:
        """What it is about."""

    @property
    @abstractmethod
    def speakers(self) -> list[Speaker]:
        """Who spoke; where the document does not name them, those whom its raw output names."""

    @property
    def notes(self) -> list[str]:
        """What else there is to say at the end, a line each."""
        return []

    @property
    @abstractmethod
    def found(self) -> bool:
        """Whether there is what was asked for."""

    @property
    @abstractmethod
    def said(self) -> tuple[int, str]:
        """How much was said, and the word for one of it."""

    @property
    @abstractmethod
    def held(self) -> str | None:
        """How long it was and why it ended, in words; None where it did not come to its end."""

    @abstractmethod
    def show(self, page: Page) -> None:
        """Write what was said, and what it came to, on `page`."""

    @abstractmethod
    def report(self) -> Iterator[str]:
        """The lines of Markdown of the same."""


class DebateDocument(Document):
    """A debate."""

    TITLE: ClassVar[str] = "Debate"
    LABEL: ClassVar[str] = "Question"
    SPEAKERS: ClassVar[str] = "Positions"
    RAW: ClassVar[type[Any]] = DebateRawOutput
    pattern: Literal["debate"] = "debate"
    debaters: list[Side] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: DebateRawOutput
    output: Any = None
    """The synthesizer's, as plain JSON data; None without one."""

    @model_validator(mode="after")
    def _a_whole_debate_has_a_verdict(self) -> DebateDocument:
        if self.status in {"complete", "degraded"} and self.raw.verdict is None:
            message = "a debate that came to its end has a verdict"
            raise ValueError(message)
        return self

    @property
    def subject(self) -> str:
        return self.raw.question

    @property
    def speakers(self) -> list[Speaker]:
        return [*self.sides]

    @property
    def sides(self) -> list[Side]:
        """The debaters; where the document does not name them, those who spoke."""
        spoke = {(entry.agent_name, entry.stance): None for entry in self.raw.transcript}
        return self.debaters or [Side(name=name, stance=stance) for name, stance in spoke]

    @property
    def rounds(self) -> list[int]:
        """The rounds of which something is told."""
        told = {entry.round for entry in self.raw.transcript}
        return sorted(told | {decision.round for decision in self.raw.moderator_decisions})

    @property
    def found(self) -> bool:
        return self.raw.verdict is not None

    @property
    def said(self) -> tuple[int, str]:
        return len(self.raw.transcript), "argument"

    @property
    def held(self) -> str | None:
        endings = {
            "max_rounds": "as many as were allowed",
            "moderator_done": "ended by the moderator",
            "predicate": "ended by the application",
        }
        reason = self.raw.stop_reason
        return None if reason is None else f"Rounds: {self.raw.rounds}, {endings[reason]}"

    @property
    def notes(self) -> list[str]:
        from flowdebate.cli.fairness import notes_on

        return notes_on(self.raw, self.usage)

    def show(self, page: Page) -> None:
        from flowdebate.cli.pages.debate import show

        show(self, page)

    def report(self) -> Iterator[str]:
        from flowdebate.cli.reports.debate import body

        return body(self)


_DOCUMENTS = {
    "debate": (__name__, "DebateDocument"),
    "deliberation": ("flowdebate.cli.pages.deliberation", "DeliberationDocument"),
    "handoff": ("flowdebate.cli.pages.handoff", "HandoffDocument"),
    "panel": ("flowdebate.cli.pages.panel", "PanelDocument"),
    "consensus": ("flowdebate.cli.pages.consensus", "ConsensusDocument"),
}
"""Where the documents of each pattern are."""
_OWN = {"history": "deliberation", "proposition": "handoff", "task": "consensus", "audits": "panel"}
"""Fields by which bare raw outputs are told from those of a debate."""


def speakers_of(roster: Iterable[Any]) -> list[Any]:
    """Debaters as sides, personas as speakers: as they are shown and saved."""
    return [
        Side(name=member.name, stance=member.stance, role=member.role)
        if hasattr(member, "stance")
        else Speaker(name=member.name, role=member.role)
        for member in roster
    ]


def as_json(value: object) -> str:
    r"""`value` as indented JSON in which nothing acts on a terminal; it reads back as the same value.

    >>> as_json("é\x7f")
    '"é\\u007f"'
    """
    return seen_json(json.dumps(value, ensure_ascii=False, indent=2))


def seen_json(text: str) -> str:
    """JSON `text` with escapes in place of what a terminal would obey, or would not show."""
    return _UNSEEN.sub(_escape, text)


def read_document(path: str) -> Document:
    """What is saved at `path` ("-": on stdin): a document, or a bare raw output in either key style.

    BadFile with the line or the field of what is wrong.
    """
    value = parse_json(read_text(path, megabytes=_MEGABYTES), path=path)
    if not isinstance(value, dict):
        raise BadFile(path, f"must hold a JSON object, got {type(value).__name__}")
    return document_of(value, where=path)


def document_of(value: Mapping[str, Any], *, where: str) -> Document:
    """What `value` is: a document, or a bare raw output; BadFile with the field of what is wrong."""
    try:
        if "raw" in value:
            return _kind(value.get("pattern", "debate"), where).model_validate(value)
        return _kind(next((_OWN[key] for key in value if key in _OWN), "debate"), where).of_raw(value)
    except ValidationError as error:
        problems = problems_of(error)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        field, problem = problems[0]
        raise BadFile(where, f"`{field}`: {problem}{more}" if field else f"{problem}{more}") from None
    except RecursionError:
        raise BadFile(where, "is nested too deeply") from None


def _kind(pattern: object, path: str) -> type[Document]:
    if not isinstance(pattern, str) or pattern not in _DOCUMENTS:
        raise BadFile(path, f"`pattern`: must be one of {', '.join(_DOCUMENTS)}, got {shown(pattern)}")
    module, name = _DOCUMENTS[pattern]
    kind: type[Document] = getattr(import_module(module), name)
    return kind


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0], ensure_ascii=True)[1:-1] if match[0] != "\x7f" else "\\u007f"
