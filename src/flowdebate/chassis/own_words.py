"""Extraction of a speaker's own words: the answer without its label, up to the start of another speaker's turn."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from flowdebate._text import Trimmed
from flowdebate.chassis.roles import INSTRUCTIONS
from flowdebate.chassis.state import CutAnswer, pattern_state, round_of

if TYPE_CHECKING:
    from flowdebate.chassis.roster import Debater, Persona
    from flowdebate.models.base import Message
    from flowdebate.runs.context import Context

# Instructions that explicitly request a label, such as "begin with your name".
_ASKS_FOR_LABEL = re.compile(
    r"\b(?:begin|start|open|prefix|sign|label|head)\w*\b[^.\n]{0,40}\b(?:your (?:own )?(?:name|tag|label)|labels?)\b",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_LETTERED = re.compile(r"^[ \t]*\w[.:)][ \t]", re.MULTILINE)
_MAX_FRAME_LENGTH = len("**The debater for [], []:** ")


@dataclass(frozen=True, kw_only=True)
class LabelParser:
    r"""Parser that extracts a speaker's own words from an answer in a discussion.

    >>> ada = LabelParser(name="Ada", stance="cap rents", other_stances={"Ben": "free rents"})
    >>> ada.separate("**Ada:** Rents rise.\n\n[free rents] No, they fall.")
    ('Rents rise.', 'Ben')
    """

    name: str
    stance: str | None = None
    other_stances: dict[str, str | None]
    """Stances of the other speakers, keyed by speaker name."""
    system_prompt: str | None = None
    """The application's description of the speaker; if it asks for a label, labels are not removed."""

    @classmethod
    def of(cls, member: Debater | Persona, roster: Iterable[Debater | Persona]) -> LabelParser:
        """Create a parser for the answers of one `member` of the `roster`."""
        return cls(
            name=member.name,
            stance=getattr(member, "stance", None),
            other_stances={other.name: getattr(other, "stance", None) for other in roster if other.name != member.name},
            system_prompt=getattr(member, "system_prompt", None),
        )

    def read(self, text: str, messages: Sequence[Message], ctx: Context) -> str:
        """Return the speaker's own words in `text`.

        If another speaker's turn follows in the text, it is cut off: the cut is recorded, and the result is a
        `Trimmed`.
        """
        if "[" not in text and ":" not in text:  # text without either character cannot contain a speaker label
            return text
        system = str(messages[0]["content"]) if messages and messages[0]["role"] == "system" else ""
        return self.keep(text, ctx, instructions=system.partition(INSTRUCTIONS)[2])

    def keep(self, text: str, ctx: Context, *, instructions: str = "") -> str:
        """Return the speaker's own words in `text`, as `read` does, given the speaker's `instructions`."""
        words, other = self.separate(text, instructions=instructions)
        if other is None:
            return words
        if ctx.scope.sequencer is not None:  # a block used outside a pattern has no state
            cut = CutAnswer(round=round_of(ctx), name=self.name, other=other, answer=text)
            ctx.scope.handle.update(cut_answers=[*pattern_state(ctx).cut_answers, cut])
        return Trimmed(words)

    def separate(self, text: str, *, instructions: str = "") -> tuple[str, str | None]:
        """Return the speaker's own words in `text`, and the name of any other speaker whose turn follows them."""
        other = self._find_other_speaker(text)
        own_text = text if other is None else text[: other[0]].rstrip()
        return self.without_label(own_text, instructions), None if other is None else other[1]

    def listen(self, listener: Callable[[str], None]) -> LabelFilter:
        """Return a listener that forwards a streamed answer, without its label, to `listener`."""
        return LabelFilter(self, listener)

    def without_label(self, text: str, instructions: str = "") -> str:
        """Return `text` without the label at its beginning, unless the `instructions` ask for one."""
        if not self.may_be_label(text[: self._longest]):
            return text
        prompt = f"{instructions}\n{self.system_prompt or ''}"
        while (label := self._label.match(text)) is not None:
            rest = text[label.end() :]
            word = label[0].strip()
            is_item = len(self.name) == 1 and word[:1].isalnum() and _LETTERED.search(rest) is not None
            is_needed = word.strip("*_# ").casefold() in prompt.casefold() or _ASKS_FOR_LABEL.search(prompt) is not None
            if not rest.strip() or is_item or is_needed:
                break
            text = rest
        return text

    def may_be_label(self, begins: str) -> bool:
        """Return whether an answer that begins with `begins` may start with a label."""
        begins = begins.lstrip()
        if len(begins) > self._longest:
            return False
        if not begins or begins[0] in "[*_#":
            return True
        folded = begins.casefold()
        for label in self._label_beginnings:  # noqa: SIM110 - a generator takes four calls, for each part of a stream
            if label.startswith(folded[: len(label)]):
                return True
        return False

    @cached_property
    def _label_beginnings(self) -> tuple[str, ...]:
        return (self.name.casefold(), "debater for", "the debater for")

    @cached_property
    def _longest(self) -> int:
        return 2 * (len(self.name) + len(self.stance or "")) + _MAX_FRAME_LENGTH

    @cached_property
    def _label(self) -> re.Pattern[str]:
        return re.compile(rf"\s*(?:{_label_of(self.name, self.stance)})[ \t]*:?\s*", re.IGNORECASE)

    @cached_property
    def _other_patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """Patterns for the first line of another speaker's turn, keyed by the speaker's name."""
        return tuple(
            (name, re.compile(_turn_of(name, stance), re.MULTILINE)) for name, stance in self.other_stances.items()
        )

    def _find_other_speaker(self, text: str) -> tuple[int, str] | None:
        """Find the first line of another speaker's turn, provided that some of the speaker's own words precede it."""
        other_line = min(
            (line for line in map(partial(_first_turn, text), self._other_patterns) if line is not None), default=None
        )
        if (
            other_line is None
            or not text[: other_line[0]].strip()
            or self._label.fullmatch(text[: other_line[0]].rstrip())
        ):
            return None  # the speaker says nothing before this line, so the text only concerns the other speaker
        return other_line


def _first_turn(text: str, other: tuple[str, re.Pattern[str]]) -> tuple[int, str] | None:
    """Find the first line of a turn by `other`, skipping code and lettered lists."""
    name, begins = other
    fences: list[int] | None = None
    item = _LETTERED.search(text) if len(name) == 1 else None
    for line in begins.finditer(text):
        if fences is None:
            fences = [fence.start() for fence in _FENCE.finditer(text)]
        # "b: …" may be an item of a lettered list
        is_item = item is not None and item.start() < line.start() and "[" not in line[0]
        if not is_item and bisect(fences, line.start()) % 2 == 0:
            return line.start(), name
    return None


class LabelFilter:
    """Listener that forwards a streamed answer without the speaker's label, holding back text that may be a label."""

    def __init__(self, words: LabelParser, listener: Callable[[str], None]) -> None:
        self._words = words
        self._listener = listener
        self.begin()

    def begin(self) -> None:
        """Prepare for a new answer."""
        self._held = ""
        self._is_settled = False

    def __call__(self, piece: str) -> None:
        """Process the next chunk of the answer."""
        if self._is_settled:
            self._listener(piece)
            return
        self._held += piece
        if not self._words.may_be_label(self._held):
            self.finish()

    def finish(self) -> None:
        """Forward any text held back, unless it turned out to be a label."""
        if not self._is_settled and (own_text := self._words.without_label(self._held)):
            self._listener(own_text)
        self._is_settled = True


def _label_of(name: str, stance: str | None) -> str:
    """Build the pattern for a speaker's label: a tag, or a name and a colon, possibly bold or in a heading."""
    tag, name_pattern = _tag(name, stance), rf"{re.escape(name)}(?:[ \t]*(?:{_tag(name, stance)}))?[ \t]*"
    bold_name = rf"{name_pattern}(?::[ \t]*(?P=open)|(?P=open)[ \t]*(?::|(?=\n)))"
    bold = rf"(?P<open>[*_]{{1,3}})(?:{tag}[ \t]*:?(?P=open)|{bold_name})"
    return rf"(?:\#{{1,4}}[ \t]*)?(?:{bold}|{tag}|{name_pattern}:)|\#{{1,4}}[ \t]*{name_pattern}(?=\n)"


def _turn_of(name: str, stance: str | None) -> str:
    """Build the pattern for the start of a turn: a tag at the start of a line, or the name after a blank line."""
    tagged = rf"^[ \t]*(?:\#{{1,4}}[ \t]*)?[*_]{{0,3}}(?i:{_tag(name, stance)})"
    name_pattern = rf"[ \t]*[*_]{{0,3}}{re.escape(name)}(?:[ \t]*{_tag(name, stance)})?[*_]{{0,3}}[ \t]*:"
    return rf"{tagged}|\n[ \t\r]*\n{name_pattern}"


def _tag(name: str, stance: str | None) -> str:
    """Build the pattern for a speaker's tag in a transcript; models sometimes write "Debater for" in front of it."""
    inside = [name] if stance is None else [name, stance]
    stance_pattern = "" if stance is None else rf"|{re.escape(name)},[ \t]*{re.escape(stance)}"
    return rf"(?:(?:the )?debater for )?\[(?:{'|'.join(map(re.escape, inside))}{stance_pattern})\]"
