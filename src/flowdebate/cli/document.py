"""A debate as it is saved: what `--json` writes, and what `render` reads."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError, model_validator

from flowdebate.cli.files import parse_json, read_text
from flowdebate.errors import BadFile, problems_of
from flowdebate.schemas import DebateRawOutput, DebateStatus, DebateVerdict, WireModel

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("DebateDocument", "Side", "Tokens", "as_json", "read_document", "winner_of")

_MEGABYTES = 16
"""Of a file that `render` reads."""
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What JSON may hold as it is, and a terminal should not."""


class Side(WireModel):
    """A debater."""

    name: str
    stance: str
    role: str | None = None


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


class DebateDocument(WireModel):
    """A debate: how it ended, who argued, all that was said, and what it took."""

    status: DebateStatus
    error: str | None = None
    """Why it failed, or which limit ended it."""
    debaters: list[Side] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: DebateRawOutput
    output: Any = None
    """The synthesizer's, as plain JSON data; None without one."""
    usage: Tokens | None = None
    seconds: float | None = None
    seed: int | None = None

    @model_validator(mode="after")
    def _a_whole_debate_has_a_verdict(self) -> DebateDocument:
        if self.status in {"complete", "degraded"} and self.raw.verdict is None:
            message = "a debate that came to its end has a verdict"
            raise ValueError(message)
        return self

    def to_json(self) -> str:
        """The document, in camelCase."""
        return as_json(self.model_dump(mode="json", by_alias=True))

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


def winner_of(verdict: DebateVerdict, sides: Sequence[Side]) -> str:
    """Who won, by name and stance.

    >>> winner_of(DebateVerdict(verdict="v", winner="cap rents", reasoning="r"), [Side(name="a", stance="cap rents")])
    'a (cap rents)'
    """
    if verdict.winner is None:
        return "none, the answer combines several positions"
    names = ", ".join(side.name for side in sides if side.stance == verdict.winner)
    return f"{names} ({verdict.winner})" if names else verdict.winner


def as_json(value: object) -> str:
    r"""`value` as indented JSON in which nothing acts on a terminal; it reads back as the same value.

    >>> as_json("é\x7f")
    '"é\\u007f"'
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSEEN.sub(_escape, text)


def read_document(path: str) -> DebateDocument:
    """The debate saved at `path` ("-": on stdin): a document, or a bare `DebateRawOutput` in either key style.

    BadFile with the line or the field of what is wrong.
    """
    value = parse_json(read_text(path, megabytes=_MEGABYTES), path=path)
    if not isinstance(value, dict):
        raise BadFile(path, f"must hold a JSON object, got {type(value).__name__}")
    try:
        if "raw" in value:
            return DebateDocument.model_validate(value)
        raw = DebateRawOutput.model_validate(value)
        return DebateDocument(status=raw.status, raw=raw, seed=raw.seed)
    except ValidationError as error:
        problems = problems_of(error)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        field, problem = problems[0]
        raise BadFile(path, f"`{field}`: {problem}{more}" if field else f"{problem}{more}") from None
    except RecursionError:
        raise BadFile(path, "is nested too deeply") from None


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0], ensure_ascii=True)[1:-1] if match[0] != "\x7f" else "\\u007f"
