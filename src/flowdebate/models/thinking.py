"""Filters that remove thinking and template tokens from an answer's text.

Servers without a reasoning parser send a model's thinking as part of its text: in tags (`<think>…</think>`), before a
closing tag whose opening tag is in the prompt template, or in Harmony channels. `without_thinking` removes it from
complete answers, and an `AnswerStream` from streamed ones.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from flowdebate.models.base import Attempts, Flag, ModelResponse, TextWithdrawn, Usage, estimate_tokens

TEMPLATE_TOKENS: tuple[str, ...] = (
    "<|im_end|>",
    "<|im_start|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<|end_of_turn_token|>",
    "<|end_of_sentence|>",
    "<|end_of_role|>",
    "<|endofprompt|>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001 - DeepSeek writes it so
    "<end_of_turn>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "</s>",
)
"""Chat template tokens, in lowercase, to remove from the end of an answer."""

_NAMES: tuple[str, ...] = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad")
_NAMES += ("inner_monologue", "antthinking")
# Tags in which models wrap the answer that follows their thinking.
_WRAPPERS = ("answer", "output", "response", "final", "final_answer", "solution")
_HARMONY = ("<|channel|>", "<|start|>assistant", "<|message|>", "<|constrain|>")
_SLASHES = ("", "/")
_TAGS = (
    *(f"<{slash}{name}>" for name in (*_NAMES, *_WRAPPERS) for slash in _SLASHES),
    *(
        f"{opening}{slash}think{closing}"
        for slash in _SLASHES
        for opening, closing in (("[", "]"), ("\u25c1", "\u25b7"), ("<|", "|>"))
    ),
    *(
        f"<|{edge}_{of}{name}|>"
        for edge in ("begin", "start", "end")
        for of in ("", "of_")
        for name in _NAMES + _WRAPPERS
    ),
    *_HARMONY,
    *TEMPLATE_TOKENS,
)
_MAX_TAG_LENGTH = max(map(len, _TAGS))
_SIGNS = "<[\u25c1"
# A tag may have a prefix: `<seed:think>`.
_PREFIXED = re.compile(r"</?\w{1,12}(?::\w{0,16})?\Z")

# Code delimiters and tags. Code is skipped, because tags in code are only mentioned, not used.
_MARK = re.compile(
    r"^[ \t]*```(?![^\n]*```)|`[^`\n]+`"
    rf"|<(?P<slash>/?)(?P<name>(?:\w{{1,12}}:)?(?:{'|'.join(_NAMES)}))[ \t]{{0,3}}>"
    r"|(?:\[(?P<closes>/?)think(?:ing)?\]|\u25c1(?P<ends>/?)think(?:ing)?\u25b7|<\|(?P<bars>/?)think(?:ing)?\|>)"
    rf"|<\|(?P<edge>begin|start|end)_(?:of_)?(?P<token>{'|'.join(_NAMES)})\|>",
    re.IGNORECASE | re.MULTILINE,
)
_STRAY = re.compile(rf"(?:\s*</(?:{'|'.join(_NAMES)})>\s*)+", re.IGNORECASE)
_WRAPPED = re.compile(
    rf"\s*(?:<(?P<tag>{'|'.join(_WRAPPERS)})>|<\|(?:begin|start)_(?P<of>of_)?(?P<token>{'|'.join(_WRAPPERS)})\|>)\s*",
    re.IGNORECASE,
)
_END_OF_STRIKE = "</s>"
_SPACE = re.compile(r"\s*")
_REST_OF_LINE = re.compile(r"[ \t\r]*(?:\n|(\Z))")
# "<think> and </think> are tags" is a sentence about tags, not a thought
_BETWEEN_MENTIONS = re.compile(r"\s*(?:and|or|,|/)\s*")
# A tag within a line counts only after one of these characters; elsewhere it is part of a word or of code.
_BEFORE_INLINE = frozenset(" \t\n\r.!?…\"'”’)*_")
_CHANNEL = re.compile(
    r"(?:<\|start\|>\w*)?<\|channel\|>[ \t]*(\w+)"
    r"(?:[^<>\n]*(?:<\|message\|>|<\|constrain\|>\w*[ \t]*(?:<\|message\|>|(?:<[|\w]*)?\Z)))?"
)
_END_OF_MESSAGE = re.compile(r"<\|(?:end|return|call|start)\|>")
_BEGINS_WITH_CHANNEL = re.compile(r"\s*(?:<\|start\|>assistant|<\|channel\|>)")
_FINAL = "<|start|>assistant<|channel|>final<|message|>"


@dataclass(frozen=True, slots=True)
class SeparatedText:
    """An answer's text, separated from its thinking and template tokens."""

    text: str
    thought: int = 0
    """Length of the removed thinking, in characters."""
    unannounced: bool = False
    """True if the thinking had no opening tag and was recognized only by its closing tag."""
    tokens: bool = False
    """True if template tokens were removed."""
    thinks: bool = False
    """True if an unfinished answer ends in the middle of a thought."""
    open: bool = False
    """True if the last characters of an unfinished answer are being held back."""


def may_have_tags(text: str) -> bool:
    """Return whether `text` contains the first character of a tag or token."""
    return "<" in text or "[" in text or "\u25c1" in text


def separate_thinking(text: str) -> SeparatedText:
    r"""Separate the thinking and any trailing template tokens from `text`; text without either is returned unchanged.

    >>> separate_thinking("<think>They will say x.</think>\nRents rise.<|im_end|>").text
    'Rents rise.'
    >>> separate_thinking("They will say x.\n</think>\n\nRents rise.").text
    'Rents rise.'
    >>> separate_thinking("Such models write <think> first.").text
    'Such models write <think> first.'
    """
    if not may_have_tags(text):
        return SeparatedText(text)
    thought, unannounced, tokens, rest = 0, False, False, text
    while True:
        part = _separate(rest, ended=True)
        thought, unannounced = thought + part.thought, unannounced or part.unannounced
        spoken = _without_tokens(part.text.rstrip() if part.thought else part.text)
        tokens = tokens or len(spoken) < len(part.text.rstrip())
        if spoken == rest:
            return SeparatedText(rest, thought, unannounced, tokens)
        rest = spoken  # another thought may follow


def separate_beginning(text: str) -> SeparatedText:
    """Separate the thinking from the beginning of an unfinished answer, holding back ambiguous text."""
    part = _separate(text, ended=False)
    end = _end_of_speech(part.text)
    spoken = part.text[:end] if part.text[:end].strip() else ""  # whitespace may precede a thought
    return replace(part, text=spoken, open=part.thinks or part.open or end < len(part.text) or not spoken)


def _separate(text: str, *, ended: bool) -> SeparatedText:
    if _BEGINS_WITH_CHANNEL.match(text) or _FINAL in text:
        channels = list(_CHANNEL.finditer(text))
        if channels or not ended:
            return _separate_channels(text, channels)
    return _separate_blocks(text, ended=ended)


def _separate_channels(text: str, channels: list[re.Match[str]]) -> SeparatedText:
    """Separate the text in Harmony's final channel from the text in the other channels."""
    if not channels:
        return SeparatedText("", 1, thinks=True)
    before = text[: channels[0].start()]
    ends = [*(channel.start() for channel in channels[1:]), len(text)]
    spoken, thought = "", len(before.strip())
    for channel, end in zip(channels, ends, strict=True):
        message = _END_OF_MESSAGE.split(text[channel.end() : end], maxsplit=1)[0]
        if channel[1] == "final":
            spoken = f"{spoken}\n\n{message.strip()}" if spoken else message.lstrip()
        else:
            thought += len(message)
    unannounced = bool(before.strip())
    return SeparatedText(spoken, max(thought, 1), unannounced, thinks=channels[-1][1] != "final")


def _separate_blocks(text: str, *, ended: bool) -> SeparatedText:
    """Separate tagged thinking at the beginning of the text or of a line, or after another block on the same line."""
    blocks = _Blocks(text)
    for mark in _MARK.finditer(text):
        name, closes = _read_tag(mark)
        if blocks.opening is not None:
            blocks.close(mark, name if closes else "")
        elif not name:
            blocks.in_fence ^= mark[0].endswith("```")
        elif blocks.in_fence:
            continue
        elif not closes:
            blocks.open(mark, name)
        elif _begins_line(text, mark.start()) and (line_end := _REST_OF_LINE.match(text, mark.end())):
            if line_end[1] is not None and not ended:
                return blocks.cut(mark.start(), open=True)
            blocks.close_unopened(mark)
    opening = blocks.opening
    if opening is not None and (not ended or blocks.is_thought_to_the_end(opening)):
        blocks.thought += max(len(text) - opening.end(), 1)
        return blocks.cut(opening.start(), thinks=True)
    if not blocks.thought:
        return SeparatedText(text)
    return blocks.cut(len(text), open=blocks.start == len(text))  # also drop whitespace after a thought


def _read_tag(mark: re.Match[str]) -> tuple[str, bool]:
    """Return the name of a tag (empty for code marked with backticks), and whether it is a closing tag."""
    kind = mark.lastgroup
    if kind == "name":
        # "think" and "thinking" count as the same name, because some models open with one and close with the other
        return mark["name"].lower().removesuffix("ing"), bool(mark["slash"])
    if kind == "token":
        return f"|{mark['token'].lower()}", mark["edge"].lower() == "end"
    if kind is not None:  # a tag in brackets, triangles or bars
        return mark[0][0], bool(mark[kind])
    return "", False


@dataclass(slots=True)
class _Blocks:
    """Parser state for an answer's text; its tags are processed in order."""

    text: str
    pieces: list[str] = field(default_factory=list)
    """Segments of the answer's text before `start`."""
    start: int = 0
    """Index at which the answer's text resumes."""
    thought: int = 0
    """Length of the thinking, in characters."""
    unannounced: bool = False
    in_fence: bool = False
    opening: re.Match[str] | None = None
    """Opening tag of an unclosed thought."""
    name: str = ""
    """Name of the open tag."""

    def open(self, tag: re.Match[str], name: str) -> None:
        """Begin a thought at `tag`, if one is allowed to begin there."""
        place = tag.start()
        inline = self.thought > 0 and self.text[place - 1 : place] in _BEFORE_INLINE
        if place == self.start or inline or _begins_line(self.text, place):
            self.opening, self.name = tag, name

    def close(self, tag: re.Match[str], name: str) -> None:
        """End the open thought if `tag`, whose name is `name`, closes it."""
        opening = self.opening
        if opening is None or name != self.name:
            return
        inside = self.text[opening.end() : tag.start()]
        if not _BETWEEN_MENTIONS.fullmatch(inside):
            self.pieces.append(self.text[self.start : opening.start()])
            self.start = _end_of_space(self.text, tag.end())
            self.thought += max(len(inside), 1)
        self.opening = None

    def close_unopened(self, tag: re.Match[str]) -> None:
        """Treat all text before `tag` as a thought."""
        before = sum(map(len, self.pieces)) + tag.start() - self.start
        self.pieces, self.start = [], _end_of_space(self.text, tag.end())
        self.thought, self.unannounced = self.thought + max(before, 1), True

    def is_thought_to_the_end(self, opening: re.Match[str]) -> bool:
        """Return whether an unclosed tag opens a thought.

        A tag that is merely mentioned never comes first in an answer.
        """
        is_first = not any(map(str.strip, self.pieces)) and not self.text[self.start : opening.start()].strip()
        return is_first or self.thought > 0 or _REST_OF_LINE.match(self.text, opening.end()) is not None

    def cut(self, end: int, *, thinks: bool = False, open: bool = False) -> SeparatedText:  # noqa: A002 - the field
        """Return the answer's text up to `end`, separated from its thinking."""
        spoken = "".join((*self.pieces, self.text[self.start : end]))
        if self.thought and not (self.pieces and self.pieces[0].strip()):
            spoken = _unwrap(spoken.lstrip())
        return SeparatedText(spoken, self.thought, self.unannounced, thinks=thinks, open=open)


def _unwrap(text: str) -> str:
    """Remove stray closing tags after a thought, and the tags around the answer that follows."""
    stray = _STRAY.match(text)
    text = text if stray is None else text[stray.end() :]
    opening = _WRAPPED.match(text)
    if opening is None:
        return text
    token = opening["token"]
    closing = f"<|end_{opening['of'] or ''}{token}|>" if token else f"</{opening['tag']}>"
    text = text[opening.end() :]
    bare = text.rstrip()
    return bare[: -len(closing)].rstrip() if bare.lower().endswith(closing.lower()) else text


def _begins_line(text: str, place: int) -> bool:
    while place and text[place - 1] in " \t":
        place -= 1
    return place == 0 or text[place - 1] == "\n"


def _end_of_space(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return place if space is None else space.end()


def _without_tokens(text: str) -> str:
    """Remove template tokens from the end of `text`."""
    end = _end_before_tokens(text, len(text))
    return text if end == len(text) else text[:end].rstrip()


def _end_before_tokens(text: str, end: int) -> int:
    """Return the index at which the template tokens at the end of `text[:end]` begin.

    A `</s>` that closes an earlier `<s>` is HTML, not a token.
    """
    surplus: int | None = None
    last = end
    while last:
        while last and text[last - 1].isspace():
            last -= 1
        tail = text[max(last - _MAX_TAG_LENGTH, 0) : last].lower()
        token = next((token for token in TEMPLATE_TOKENS if tail.endswith(token)), None)
        if token is None:
            return end
        if token == _END_OF_STRIKE:
            if surplus is None:
                surplus = text.count(token, 0, last) - text.count("<s>", 0, last)
            if surplus <= 0:
                return end
            surplus -= 1
        end = last = last - len(token)
    return end


def _end_of_speech(text: str) -> int:
    """Return the index at which the unambiguous text ends, before any template tokens or partial tag."""
    end = len(text)
    begin = max(text.rfind(sign, max(end - _MAX_TAG_LENGTH, 0)) for sign in _SIGNS)
    if begin != -1:
        last = text[begin:].lower()
        if _PREFIXED.match(last) or any(tag.startswith(last) for tag in _TAGS):
            end = begin
    return _end_before_tokens(text, end)


def without_thinking(response: ModelResponse) -> ModelResponse:
    """Return `response` without thinking or template tokens; the thinking is counted as reasoning tokens."""
    text = response.text
    if not may_have_tags(text):
        return response
    separated = separate_thinking(text)
    if separated.text == text:
        return response
    odd: dict[Flag, bool] = {
        "thought_aloud": separated.thought > 0,
        "thought_unannounced": separated.unannounced,
        "template_tokens": separated.tokens,
    }
    flags = dict.fromkeys((*response.flags, *(flag for flag, is_so in odd.items() if is_so)))
    usage = count_reasoning(response.usage, separated.thought, len(text))
    return replace(response, text=separated.text, usage=usage, flags=tuple(flags))


def count_reasoning(usage: Usage, thought: int, length: int) -> Usage:
    """Count some of the completion tokens as reasoning tokens, unless the provider reports a count.

    The fraction counted is `thought / length`. If the number of completion tokens is unknown, the reasoning tokens are
    estimated from `thought`, the length of the thinking.
    """
    if not thought or usage.reasoning_tokens:
        return usage
    completion = usage.completion_tokens
    tokens = estimate_tokens(thought) if completion is None else round(completion * min(thought / length, 1))
    return replace(usage, reasoning_tokens=tokens)


# Whether a model has omitted the opening tag of its thinking since the process started, keyed by address and name.
_unannounced: OrderedDict[tuple[str | None, str], bool] = OrderedDict()
_REMEMBERED = 1_000
# Model families whose templates put the opening tag in the prompt.
_THINKERS = re.compile(r"deepseek-?r1|r1-distill|qwq|thinking|reasoner|magistral", re.IGNORECASE)


def remember_thinking(server: str | None, model: str, *, unannounced: bool) -> None:
    """Record whether a model at an address has sent thinking without an opening tag, since it may do so again."""
    announced = _unannounced.get((server, model), False)
    _unannounced[server, model] = announced or unannounced
    while len(_unannounced) > _REMEMBERED:
        _unannounced.popitem(last=False)


def may_omit_opening_tag(server: str | None, model: str) -> bool:
    """Return whether a model at an address may omit the opening tag.

    This is known from earlier answers or, if there are none, guessed from the model's name.
    """
    recorded = _unannounced.get((server, model))
    return _is_thinker(model) if recorded is None else recorded


@lru_cache(maxsize=1_000)
def _is_thinker(model: str) -> bool:
    return _THINKERS.search(model) is not None


class AnswerStream:
    """Filter that strips thinking and template tokens from an answer's text, and forwards the rest to `listener`.

    An opening tag holds the text back until the thought is closed. If a closing tag reveals that text already streamed
    was thinking, a `TextWithdrawn` event withdraws that text, and this model's later text is held back. All text the
    listener receives after the event forms the complete answer, except for trailing whitespace.
    """

    def __init__(self, listener: Callable[[str], None], attempts: Attempts, *, block: str) -> None:
        self._listener = listener
        # a listener that holds back text has to know where each answer begins and ends
        self._begin: Callable[[], None] | None = getattr(listener, "begin", None)
        self._finish: Callable[[], None] | None = getattr(listener, "finish", None)
        self._attempts = attempts
        self._block = block
        self.begin(None, "")

    def begin(self, server: str | None, model: str) -> None:
        """Prepare for the answer to a new request."""
        self._asked = server, model
        if self._begin is not None:
            self._begin()
        self._holds_all = may_omit_opening_tag(server, model)
        self._pieces: list[str] = []
        self._emitted: list[str] = []
        self._flows = self._thinks = self._tagged = False

    def __call__(self, piece: str) -> None:
        """Process the next chunk of the answer."""
        pieces = self._pieces
        pieces.append(piece)
        if "<" not in piece and "[" not in piece and "\u25c1" not in piece:
            if self._flows:
                self._emit(piece)
                return
            if not self._emitted and not self._holds_all and not self._thinks and piece.strip():
                text = "".join(pieces)
                if not may_have_tags(text):  # fast path: in almost all answers, the first word contains no tag
                    self._flows = True
                    self._emit(text)
                    return
        self._tagged = True
        if (self._thinks or self._holds_all) and not any(sign in last for last in pieces[-2:] for sign in ">]\u25b7"):
            return  # a thinking block cannot end here
        self._flows = False
        part = separate_beginning("".join(pieces))
        self._thinks = part.thinks
        if self._holds_all and not part.thought:
            return
        if part.thought and not part.thinks:
            self._holds_all = False
        self._emit_all(part.text)
        self._flows = not part.open and not self._holds_all

    def finish(self) -> None:
        """Forward the remaining text at the end of the answer."""
        if self._tagged:
            separated = separate_thinking("".join(self._pieces))
            if self._holds_all:
                remember_thinking(*self._asked, unannounced=separated.unannounced)
            self._emit_all(separated.text)
        if self._finish is not None:
            self._finish()

    def _emit_all(self, text: str) -> None:
        """Send the rest of `text` to the listener.

        If `text` begins differently from the text already sent, that text is withdrawn first.
        """
        heard = "".join(self._emitted)
        if heard.startswith(text) and not heard[len(text) :].strip():
            return
        if not text.startswith(heard):
            self._attempts.notify(TextWithdrawn(block=self._block))
            if self._begin is not None:
                self._begin()
            self._emitted, heard = [], ""
        self._emit(text[len(heard) :])

    def _emit(self, piece: str) -> None:
        if piece:
            self._emitted.append(piece)
            self._listener(piece)
