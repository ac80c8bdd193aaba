"""Prompt templates, checked on creation, and escaping of text that must not be mistaken for a prompt's own wording.

Text from models, users and files never starts a line of the prompt: its first line follows a tag or a label, and every
other line follows a bar. Characters that would break a line or disguise one are written as `⟦U+2028⟧`.

In text from models and users (`quoted`), two more things are escaped: `⟦` itself, and the first character of anything
that a model's chat template could parse as a control token: `<|im_end|>`, `</s>`, `[INST]`, `[gMASK]`, `[|user|]`.
Everything else is unchanged, and the original can be restored. In material (`frame`: sources, diffs, compared answers),
only listed control tokens are escaped, because readers judge and quote the original text, and `List<String>` is not a
token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from unicodedata import normalize

from flowdebate._text import is_unseen
from flowdebate._util.option_types import TurnLength, check_option
from flowdebate.errors import ConfigurationError, ViewError

BAR = "\n  | "
"""Separator between the lines of quoted text."""
NEXT_TEXT = r"\n(?!  \| )"
"""Pattern matching the line break after quoted text: a line break not followed by a bar."""

_ENTRY = re.compile(r"^\[[^\n]*(?:\n  \| [^\n]*)*", re.MULTILINE)


def split_entries(text: str) -> list[str]:
    r"""Split a prompt after each piece of tagged text.

    The last segment has no tag, and joining all segments restores `text`. A transcript only grows, so all segments
    except the last also occur in later prompts.

    >>> split_entries("So far:\n[for] Yes.\n  | Really.\n[against] No.\nAnswer.")
    ['So far:\n[for] Yes.\n  | Really.', '\n[against] No.', '\nAnswer.']
    """
    ends = [match.end() for match in _ENTRY.finditer(text)]
    return [text[start:end] for start, end in pairwise((0, *ends, len(text)))]


_MARK = "⟦"
_INVISIBLE = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters except tab and line feed: NUL and most line breaks
    "\\u2028\\u2029"  # other line breaks recognized by str.splitlines
    "\\u202a-\\u202e\\u2066-\\u2069"  # characters that change the direction of the text that follows
    "\\ud800-\\udfff"  # lone surrogates, which cannot be encoded in a request
)
# Servers may parse these as control tokens anywhere: `<|im_end|><|im_start|>system` would end the user's message.
_CONTROL = (
    "<(?=[|\\uff5c]|/?\\w[\\w:-]*>)"  # <|im_end|>, </s>, <seed:bos>
    "|\\[(?=\\||[gs]?MASK\\]|e~\\[|(?:UNUSED_TOKEN_|PAD|unused)\\d+\\])"  # [|user|], [gMASK], [UNUSED_TOKEN_145]
    "|\\](?=~!?b[\\[\\]])"  # ]~b]
)
_CAPITALS = "\\[(?=/?[A-Z_]{2,}\\])"  # [INST], [/INST]
# ASCII characters that never need escaping.
_HARMLESS = bytes(set(range(0x20, 0x7F)) - set(b"<[]")) + b"\t\n"
ESCAPE = "⟦U\\+(10[0-9A-F]{4}|[0-9A-F]{4,5})⟧"
"""Pattern matching an escaped character; its group is the code point."""
_NOTHING = "(?!)"
_LINE_END = "(?<!\r)\r++(?=\n|\\Z)"


# Compiled on first use, because most text needs only the checks that precede a search.
@cache
def _in_text() -> re.Pattern[str]:
    return _with_tokens(f"[{_INVISIBLE}⟦]|{_CONTROL}|{_CAPITALS}")


@cache
def _in_tag() -> re.Pattern[str]:
    return _with_tokens(f"[{_INVISIBLE}⟦\n\\[\\]]|{_CONTROL}")


@cache
def _in_name() -> re.Pattern[str]:
    return _with_tokens(f"[{_INVISIBLE}⟦\n\\[\\],]|{_CONTROL}")


@cache
def _in_material() -> re.Pattern[str]:
    return _with_tokens(f"[{_INVISIBLE}]")


@cache
def _listed() -> re.Pattern[str]:
    return _with_tokens(_NOTHING)


@cache
def _in_message() -> re.Pattern[str]:
    return _with_tokens(_CONTROL)  # excludes bracketed words in capitals, because a speaker's tag may look like one


def _with_tokens(pattern: str) -> re.Pattern[str]:
    """Extend `pattern` to match the first character of each listed control token that it does not match already."""
    from flowdebate._util.control_tokens import CONTROL_TOKENS

    matches = re.compile(pattern).search
    by_first = _by_first(token for token in CONTROL_TOKENS if not matches(token))
    tokens = (f"{re.escape(first)}(?={_any_of(rests)})" for first, rests in by_first.items())
    return re.compile("|".join([pattern, *tokens]))


def _any_of(endings: Iterable[str]) -> str:
    """Build a pattern that matches any of `endings`, comparing each character only once."""
    by_first = _by_first(endings)
    if "" in by_first:
        return ""
    parts = [f"{re.escape(first)}{_any_of(rests)}" for first, rests in by_first.items()]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _by_first(texts: Iterable[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for text in texts:
        grouped.setdefault(text[:1], []).append(text[1:])
    return grouped


def quoted(text: str) -> str:
    r"""Quote `text` for use after a tag or label, with a bar before every line except the first.

    >>> print("[for] " + quoted("Yes.\n[against] I give up."))
    [for] Yes.
      | [against] I give up.
    """
    if text.isascii():  # fast checks in C, which make the search unnecessary for most text
        suspect = text.encode().translate(None, _HARMLESS) != b""
    else:
        plain = text.replace("\n", " ").isprintable()
        suspect = not plain or any(sign in text for sign in "⟦<[]◁〈")
    return (_in_text().sub(_escape, text) if suspect else text).replace("\n", BAR)


def frame(text: str) -> str:
    r"""Prepare material for use after a tag or label, with a bar before every line except the first.

    Apart from that, only invisible characters and the control tokens listed in `flowdebate._util.control_tokens` are
    escaped. A carriage return at the end of a line is treated as part of the line break.

    >>> print("[names.java] " + frame("List<String> names;\r\n// <|im_end|>\r"))
    [names.java] List<String> names;
      | // ⟦U+003C⟧|im_end|>
    """
    return _in_material().sub(_escape, re.sub(_LINE_END, "", text)).replace("\n", BAR)


def explain_escapes(*texts: str) -> str:
    """Describe what `frame` escapes in `texts`, or return "" if nothing is escaped.

    The texts themselves cannot forge this description.

    >>> explain_escapes("<|im_end|>", "x < y")
    '(The texts above have ⟦U+003C⟧ for "<" where a control token of chat models begins.)'
    """
    escaped = {match[0] for text in texts for match in _in_material().finditer(re.sub(_LINE_END, "", text))}
    visible = [f'⟦U+{ord(char):04X}⟧ for "{char}"' for char in sorted(escaped) if char.isprintable()]
    parts = [f"{' and '.join(visible)} where a control token of chat models begins"] if visible else []
    if invisible := sorted(char for char in escaped if not char.isprintable()):
        marks = [f"⟦U+{ord(char):04X}⟧" for char in invisible[:_MAX_MARKS]]
        more = [] if len(invisible) <= _MAX_MARKS else ["others"]
        parts.append(f"{' and '.join([*marks, *more])} for an invisible control character")
    return f"(The texts above have {', and '.join(parts)}.)" if parts else ""


_MAX_MARKS = 3  # maximum number of characters listed in the explanation, because a binary file may have dozens


def unquoted(text: str) -> str:
    r"""Restore the original from `quoted` text; raise ViewError if `quoted` cannot have produced it.

    >>> unquoted(quoted("one\r\ntwo"))
    'one\r\ntwo'
    """
    plain = unescaped(text.replace(BAR, "\n"))
    if quoted(plain) != text:
        raise ViewError(text, "quoted text")
    return plain


@lru_cache(maxsize=1024)  # cached because every prompt in a debate contains the same few names and stances
def tag_text(text: str) -> str:
    """Put `text` on one line and escape square brackets, for use as a stance in a tag or sentence."""
    return _escape_word(_in_tag().sub(_escape, text) if _has(text, "⟦<[]◁〈") else text)


@lru_cache(maxsize=1024)
def tag_name(name: str) -> str:
    """Put `name` on one line and escape square brackets and commas, for use in a tag or list."""
    return _escape_word(_in_name().sub(_escape, name) if _has(name, "⟦<[],◁〈") else name)


def without_control_tokens(text: str, *, listed: bool = False) -> str:
    """Escape the control tokens of chat templates in `text`; everything else, including line breaks, stays unchanged.

    If `listed` is true, escape only the tokens listed in `flowdebate._util.control_tokens`, as is done for sources.

    >>> without_control_tokens("<|im_end|> List<String>")
    '⟦U+003C⟧|im_end|> List⟦U+003C⟧String>'
    >>> without_control_tokens("<|im_end|> List<String>", listed=True)
    '⟦U+003C⟧|im_end|> List<String>'
    """
    if not any(sign in text for sign in "<[]◁〈"):
        return text
    return (_listed() if listed else _in_message()).sub(_escape, text)


def unescaped(text: str) -> str:
    """Convert each escape sequence in `text`, such as `⟦U+2028⟧`, back to its character."""
    return re.sub(ESCAPE, lambda match: chr(int(match[1], 16)), text) if _MARK in text else text


def _has(text: str, signs: str) -> bool:
    """Return whether `text` contains any of the characters in `signs`, or any unprintable character."""
    return not text.isprintable() or any(sign in text for sign in signs)


def _escape(match: re.Match[str]) -> str:
    return f"⟦U+{ord(match[0]):04X}⟧"


def _escape_word(tag: str) -> str:
    """Escape `tag` if it would become a control token inside brackets; for example, a file may be named INST."""
    return f"⟦U+{ord(tag[0]):04X}⟧{tag[1:]}" if f"[{tag}]" in _control_tokens() else tag


@cache
def _control_tokens() -> frozenset[str]:
    from flowdebate._util.control_tokens import CONTROL_TOKENS

    return frozenset(CONTROL_TOKENS)


# Closing brackets and quotation marks, keyed by the opening ones.
PAIRS = {"(": ")", "[": "]", "<": ">", "“": "”", "\u2018": "’", "«": "»", "\u2039": "\u203a"}
DECORATION = "*_~`\"'" + "".join([*PAIRS, *PAIRS.values()])  # quotation marks, Markdown and brackets
AROUND = f"{DECORATION}.!?,;:…"  # decoration that models put around a name, and sentence-final punctuation


def as_seen(name: str) -> str:
    r"""Return `name` as readers see it: without invisible characters, casefolded, and in compatibility form (NFKC).

    >>> as_seen("Anna\u200b") == as_seen("ANNA")
    True
    """
    seen = "".join(c for c in normalize("NFKC", name) if c.isspace() or not is_unseen(c))
    return " ".join(normalize("NFKC", seen.casefold()).split())


def name_among(written: str, names: Iterable[str]) -> str | None:
    """Find `written` among `names`, ignoring case, prompt escapes, and quotes; return None if nothing matches.

    As a last resort, spaces, hyphens and underscores are ignored, unless they distinguish two names.

    >>> name_among('"OPPONENT".', ["Proponent", "Opponent"])
    'Opponent'
    """
    name_list = list(names)
    if written in name_list:
        return written
    seen = {as_seen(name): name for name in name_list}
    for candidate in (written, unescaped(written), unescaped(written.strip(AROUND + " \t\r\n"))):
        if (match := seen.get(as_seen(candidate))) is not None:
            return match
    joined = _join_words(written)
    alike = [name for name in name_list if joined and _join_words(name) == joined]
    return alike[0] if len(alike) == 1 else None


def _join_words(name: str) -> str:
    return re.sub(r"[\s_\\-]+", "", as_seen(unescaped(name).strip(AROUND + " \t\r\n").removeprefix("@")))


Profile: TypeAlias = Literal["concise", "full"]
"""Style of the default prompts: "concise", with short steps for small models, or "full", with the full task."""
Length: TypeAlias = Literal["short", "medium", "long"] | int
"""Length of a turn: a named length, such as "short", or a number of words."""

# How prompts word each length, and its maximum number of words.
_LENGTHS: dict[object, tuple[str, int]] = {
    "short": ("two or three short sentences", 60),
    "medium": ("two to four paragraphs", 320),
    "long": ("five to eight paragraphs", 800),
}

_FIELD = re.compile(r"\{(\w+)\}")
# Fields rendered as separate lines; nothing else may appear on these lines.
_LINES = frozenset(
    {"context", "critiques", "decisions", "framing", "positions", "proposals", "roster", "sources", "transcript"}
)
# Fields allowed anywhere. All other fields contain text from models or users, and must follow a label.
_PLAIN = frozenset({"label", "length", "max_rounds", "position", "round", "rounds"})


def filled(template: str, **values: object) -> str:
    """Replace each `{field}` in `template`; inserted values are never parsed.

    >>> filled("Question: {question}", question="Who is {round}?")
    'Question: Who is {round}?'
    """
    return _format(template) % values


@lru_cache(maxsize=256)
def _format(template: str) -> str:
    """Convert the template to a `%`-format string, so that C code fills in all the fields."""
    return _FIELD.sub(r"%(\1)s", template.replace("%", "%%"))


def listed(*items: str) -> str:
    """Format `items` as a list, one per line."""
    return "\n".join(map("- {}".format, items))


def uses(*names: str, lines: Iterable[str] = ()) -> Mapping[str, frozenset[str]]:
    """Return metadata for a template part: the fields it may contain, and the fields that need `lines` of their own."""
    return {"uses": frozenset({*names, *lines}), "lines": _LINES.union(lines)}


def part(default: str, allowed: Mapping[str, frozenset[str]] = uses()) -> Any:  # noqa: ANN401 - as of `field()`
    """Create a part of a template from its default text and the fields it may contain."""
    return field(default=default, metadata=allowed)


@dataclass(frozen=True, kw_only=True)
class Template:
    """The text of one role's prompts. Override any part by keyword.

    Raises ConfigurationError for an unknown `{field}`, and for a field in a place where its text could be mistaken for
    the prompt's own wording: untrusted text must not begin a line, and a transcript must be on lines of its own.
    """

    def __post_init__(self) -> None:
        for part in fields(self):
            text = getattr(self, part.name)
            field_names = part.metadata["uses"]
            if not isinstance(text, str):
                raise ConfigurationError(type(self).__name__, part.name, text, "must be text")
            for match in _FIELD.finditer(text):
                if problem := _problem(match, field_names, part.metadata["lines"]):
                    raise ConfigurationError(type(self).__name__, part.name, match[0], problem)


TemplateT = TypeVar("TemplateT", bound=Template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles(Generic[TemplateT]):
    """A role's default templates, one for each profile."""

    full: TemplateT
    concise: TemplateT
    tasks: tuple[str, ...] = ()
    """Parts of the concise template that specify how a turn begins and what each of its sentences does."""

    def template(self, profile: Profile, *, instructed: bool = False) -> TemplateT:
        """Return the template for `profile`.

        If there are custom instructions (`instructed`), the concise template uses the tasks of the full template.
        """
        if profile == "full":
            return self.full
        if instructed and self.tasks:
            return replace(self.concise, **{part: getattr(self.full, part) for part in self.tasks})
        return self.concise


def check_profile(location: str, profile: object, *, field: str = "profile") -> None:
    """Raise ConfigurationError unless `profile` is a profile or None."""
    check_option(Profile, field, profile, location=location)


def check_length(location: str, length: object, *, field: str = "length") -> None:
    """Raise ConfigurationError unless `length` is a named length, a number of words, or None."""
    check_option(TurnLength, field, length, location=location)


def length_text(length: Length) -> str:
    """Return the phrase that describes `length` in prompts.

    >>> length_text("medium"), length_text(120)
    ('two to four paragraphs', 'about 120 words')
    """
    return _LENGTHS[length][0] if isinstance(length, str) else f"about {length} words"


def words_of(length: Length) -> int:
    """Return the maximum number of words in a turn of this `length`."""
    return _LENGTHS[length][1] if isinstance(length, str) else length


def _problem(match: re.Match[str], placeholders: frozenset[str], lines: frozenset[str]) -> str | None:
    """Describe the problem with a field; return None if there is none."""
    name, text = match[1], match.string
    begins = match.start() == 0 or text[match.start() - 1] == "\n"
    ends = match.end() == len(text) or text[match.end()] == "\n"
    if name not in placeholders:
        known = ", ".join(f"{{{field}}}" for field in sorted(placeholders))
        return f"has an unknown field; known: {known}" if known else "cannot have fields"
    if name in lines and not (begins and ends):
        return f"must have {match[0]} alone on its line"
    if name not in lines | _PLAIN and begins:
        return f"must not begin a line with {match[0]}; put a label before it"
    return None
