"""Helpers for untrusted text: cleaning, redacting and folding it, and rendering it on one line for messages."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from sys import float_info
from types import NoneType
from typing import TYPE_CHECKING, Any
from unicodedata import category, combining, normalize

if TYPE_CHECKING:
    from pydantic_core import ValidationError

__all__ = ("add_note", "cut", "error_text", "is_deeper", "listed", "pickles", "problems_of", "short_repr")

_MAX_VALUE_LENGTH, _MAX_LIST_LENGTH, _MAX_KEY_LENGTH = 200, 1_500, 60
"""Maximum lengths, in characters, of three parts of error messages: an external value, a list of problems, and a key in
a field's path.
"""
_DEEPEST_VALUE = 100
"""Maximum nesting depth for showing a value in full; the inner levels of a deeper value are omitted."""


def short_repr(value: object) -> str:
    """Render `value` for an error message, as its `repr` on one line, truncated to a readable length.

    >>> short_repr("x" * 500)[-9:]
    'xx… (500)'
    """
    try:
        text = reprlib.repr(value) if is_deeper(value, _DEEPEST_VALUE) else repr(value)
    except Exception as error:  # noqa: BLE001 - a hostile __repr__ must not hide the error that is being raised
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if len(text) <= _MAX_VALUE_LENGTH:
        return text
    return f"{cut(text, _MAX_VALUE_LENGTH)} ({len(value) if isinstance(value, str) else len(text)})"


def typed(value: object) -> str:
    """Render a value as a user would type it, showing text unchanged and data as JSON.

    The result is one line, truncated to a readable length.

    >>> typed("debte"), typed({"rounds": True}), typed(" "), typed(None)
    ('debte', '{"rounds": true}', '" "', 'null')
    """
    import json

    if isinstance(value, str) and value.strip() == value != "" and value.isprintable():
        return value if len(value) <= _MAX_VALUE_LENGTH else f"{cut(value, _MAX_VALUE_LENGTH)} ({len(value)})"
    if isinstance(value, (str, dict, list, tuple, bool, NoneType)) and not is_deeper(value, _DEEPEST_VALUE):
        with suppress(TypeError, ValueError):
            return cut(json.dumps(value, ensure_ascii=not str(value).isprintable()), _MAX_VALUE_LENGTH)
    return short_repr(value)


def join_choices(values: Iterable[object], *, most: int | None = 8, word: str = "or") -> str:
    """Join up to `most` of a field's valid values, quoting those that contain spaces or commas.

    >>> join_choices(["pro", "con"]), join_choices(["cap rents", "free rents", "b"])
    ('pro or con', '"cap rents", "free rents" or b')
    >>> join_choices(range(5), most=2)
    '0, 1 or 3 others'
    """
    import json

    texts = [json.dumps(text, ensure_ascii=False) if re.search(r"[\s,]", text) else text for text in map(typed, values)]
    if most is not None and len(texts) > most + 1:
        texts[most:] = [f"{len(texts) - most} others"]
    return f" {word} ".join(part for part in (", ".join(texts[:-1]), *texts[-1:]) if part)


def number_problem(
    value: object,
    *,
    whole: bool = False,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
) -> str:
    """Describe the problem with `value`, or return "" if it is a number within the limits.

    >>> number_problem(0, minimum=1), number_problem("x", whole=True, minimum=1), number_problem(2, minimum=0)
    ('must be at least 1', 'must be a whole number of at least 1', '')
    >>> number_problem(2, minimum=0, maximum=1), number_problem(1, above=0, below=1)
    ('must be between 0 and 1', 'must be strictly between 0 and 1')
    """
    limits = " and ".join(
        f"{words} {limit:,}"
        for words, limit in (
            ("at least", minimum), ("greater than", above), ("at most", maximum), ("less than", below)
        )
        if limit is not None
    )  # fmt: skip
    if minimum is not None and maximum is not None:
        limits = f"between {minimum:,} and {maximum:,}"
    elif above is not None and below is not None:
        limits = f"strictly between {above:,} and {below:,}"
    if not isinstance(value, int if whole else (int, float)) or isinstance(value, bool):
        noun = "a whole number" if whole else "a number"
        return f"must be {noun}{' of' * limits.startswith('at')} {limits}".rstrip()
    if not whole and not abs(value) <= float_info.max:
        return "must be a finite number"
    is_inside = (
        (minimum is None or value >= minimum)
        and (above is None or value > above)
        and (maximum is None or value <= maximum)
        and (below is None or value < below)
    )
    return "" if is_inside else f"must be {limits}"


def text_problem(value: object) -> str:
    r"""Describe the problem with `value`, or return "" if it is text with visible characters.

    >>> text_problem(" \n"), text_problem(None), text_problem(3), text_problem("a")
    ('must not be blank', 'is required', 'must be text', '')
    """
    if isinstance(value, str):
        return "must not be blank" if is_blank(value) else ""
    return "is required" if value is None else "must be text"


def is_deeper(value: object, levels: int) -> bool:
    """Return whether `value` nests lists and objects more than `levels` deep, without using recursion.

    Recursing up to the recursion limit would not be safe, because finalizers fail if they run close to that limit.

    >>> is_deeper({"a": [[]]}, 2), is_deeper({"a": [[]]}, 3)
    (True, False)

    A value that contains itself exceeds any limit.
    """
    level = [value]
    for _ in range(levels):
        # Keyed by identity: nested lists that each contain the next list twice would otherwise double in size at every
        # level.
        each_once = {
            id(inner): inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, (dict, list))
        }
        if not each_once:
            return False
        level = [*each_once.values()]
    return True


def error_text(error: BaseException) -> str:
    """Format `error` for messages and events, as its type and message, even if its `__str__` raises.

    >>> error_text(ValueError("no such side"))
    'ValueError: no such side'
    """
    try:
        message = str(error)
    except Exception as another:  # noqa: BLE001 - it must not hide the error that is being reported
        return f"{type(error).__name__}, whose __str__ raises {type(another).__name__}"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an application's exception, even if the exception is frozen or rejects `add_note`."""
    with suppress(Exception):
        error.add_note(note)


def cut(text: str, longest: int) -> str:
    """Truncate `text` to at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def pickles(value: object) -> bool:
    """Return whether `value` can be pickled."""
    import pickle

    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - the value is the application's, and may fail in any way
        return False
    return True


def listed(problems: Iterable[tuple[str, str]]) -> str:
    """Join `problems` into one printable line, truncated in case a model's answer has a great many of them."""
    text = "; ".join(f"`{field}` {problem}" if field else problem for field, problem in problems)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return cut(text, _MAX_LIST_LENGTH)


def problems_of(
    error: ValidationError, *, got: bool = True, show: Callable[[object], str] = typed
) -> list[tuple[str, str]]:
    """Return the `(field, problem)` pairs of a pydantic `ValidationError`; if `got` is set, include invalid values."""
    problems = []
    for item in error.errors(include_url=False, include_context=False):
        path = ".".join(
            cut(str(part), _MAX_KEY_LENGTH) for part in item["loc"]
        )  # a model can invent keys of any length
        problems.append((path, describe_problem(item, got=got, show=show)))
    return problems


def describe_problem(item: Mapping[str, Any], *, got: bool = True, show: Callable[[object], str] = typed) -> str:
    """Describe a pydantic error in plain language; if `got` is set, append the invalid value."""
    problem = rephrase_problem(str(item["msg"]))
    is_told = item["type"] in _WITHOUT_VALUE or (item["type"] == "value_error" and not isinstance(item["input"], str))
    return problem if is_told or not got else f"{problem} (got {show(item.get('input'))})"


_WITHOUT_VALUE = {
    "missing",
    "unknown_field",
    "extra_forbidden",
    "json_invalid",
    "recursion_loop",
    "too_long",
    "too_short",
    "string_too_short",
}
"""Pydantic error types for which the invalid value is not shown, because it is missing, long, or uninformative."""
_BOUND = r"(?:the )?(?P<bound>[\d.e+-]+)"
_PYDANTIC = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^(?:Value error|Assertion failed), ", ""),
        (r"^Field required$", "is missing"),
        (r"^Extra inputs are not permitted$", "is not a known field"),
        (r"^Invalid JSON: (.+)", r"is not JSON: \1"),
        (r"^Unable to extract tag using discriminator '(\w+)'$", r"has no `\1`"),
        (
            r"^Input tag '.*' found using '(\w+)' does not match any of the expected tags: ",
            r"has an unknown `\1`; known: ",
        ),
        (rf"^Input should be greater than or equal to {_BOUND}$", r"must be at least \g<bound>"),
        (rf"^Input should be less than or equal to {_BOUND}$", r"must be at most \g<bound>"),
        (rf"^Input should be greater than {_BOUND}$", r"must be greater than \g<bound>"),
        (rf"^Input should be less than {_BOUND}$", r"must be less than \g<bound>"),
        (r"^String should have at least 1 character$", "must not be empty"),
        (r"^String should have at (least|most) (\d+) characters?$", r"must have at \1 \2 characters"),
        (r"^String should match pattern .*", "has an invalid format"),
        (r"^(?:List|Tuple|Dictionary) should have at least 1 item after validation, not 0$", "must not be empty"),
        (
            r"^(?:List|Tuple|Dictionary) should have at (least|most) (\d+) items? after validation, not (.+)$",
            r"must have at \1 \2 entries, not \3",
        ),
        (r"^Input should be a valid string.*", "must be text"),
        (r"^Input should be a valid (?:list|tuple|set).*", "must be a list"),
        (r"^Input should be (?:a valid dictionary|a valid mapping|an object|an instance of).*", "must be an object"),
        (r"^Input should be a valid boolean.*", "must be true or false"),
        (r"^Input should be a (?:valid|finite) number.*", "must be a number"),
        (r"^Input should be a valid integer.*|^Unable to parse input string as an integer.*", "must be a whole number"),
        (r"^Input should be None$", "must be null"),
        (r"^Input should be ", "must be "),
    )
)
_LITERAL, _QUOTED = re.compile(r"'([^'\s]+)'"), re.compile(r"'([^']+)'")


def rephrase_problem(problem: str) -> str:
    """Rephrase a pydantic error message in plainer language.

    >>> rephrase_problem("Field required"), rephrase_problem("Input should be 'cap' or 'free'")
    ('is missing', 'must be cap or free')
    """
    for pattern, words in _PYDANTIC:
        if match := pattern.search(problem):
            rest = problem[match.end() :]
            return match.expand(words) + (_QUOTED.sub(r'"\1"', _LITERAL.sub(r"\1", rest)) if words else rest)
    return problem


_MAX_SERVER_TEXT_LENGTH = 500  # maximum length in characters of server text quoted in an error message
_LOOKED_AT = 20_000  # search only this many characters for keys, because error pages can be megabytes long
# minimum length of a key to redact; shorter values are placeholders, or could occur in ordinary words
_MIN_SECRET_LENGTH = 6
_REDACTED = "[redacted]"
# API keys, including those with the middle masked by the server.
_KEYS = (
    r"\bBearer\s+[^\s'\"]+"
    r"|\b(?:sk|pk|rk|gsk|xai|csk|fw|tgp|hf|AIza)[-_][A-Za-z0-9*._-]{6,}"
    r"|\bAIza[A-Za-z0-9*_-]{16,}"
)


def nearest(word: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the choice most similar to `word`, or None if no choice is similar.

    >>> nearest("rounds", ["max_rounds", "model"])
    'max_rounds'
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(choices), n=1, cutoff=cutoff)), None)


def did_you_mean(word: str, choices: Iterable[str], *, form: str = "{}", cutoff: float = 0.6) -> str:
    """Return a question suggesting the choice most similar to `word`, or "" if no choice is similar.

    >>> did_you_mean("debte", ["council", "debate"])
    'Did you mean debate?'
    """
    meant = nearest(word, choices, cutoff=cutoff)
    return "" if meant is None else f"Did you mean {form.format(meant)}?"


def unknown_choice(field: str, value: object, choices: Iterable[str]) -> str:
    """Describe an invalid choice for a field, suggesting the most similar choice or else listing all choices.

    >>> unknown_choice("`pattern`", "debte", ["council", "debate"])
    '`pattern` is unknown: debte. Did you mean debate?'
    >>> unknown_choice("`pattern`", 3, ["council", "debate"]), unknown_choice("`pattern`", None, ["council", "debate"])
    ('`pattern` must be council or debate (got 3)', '`pattern` is required: council or debate')
    """
    names = list(choices)
    if value is None:
        return f"{field} is required: {join_choices(names)}"
    if isinstance(value, str) and (meant := did_you_mean(value, names)):
        return f"{field} is unknown: {typed(value)}. {meant}"
    return f"{field} must be {join_choices(names)} (got {typed(value)})"


def missing_column(column: str, columns: Sequence[str]) -> str:
    """Describe a missing table column, suggesting the most similar column or else listing all columns.

    >>> missing_column("question", ["Qestion", "truth"]), missing_column("truth", ["a", "b"])
    ('there is no column `question`. Did you mean `Qestion`?', 'there is no column `truth`; columns: `a`, `b`')
    """
    if meant := did_you_mean(column, columns, form="`{}`"):
        return f"there is no column `{column}`. {meant}"
    return f"there is no column `{column}`; columns: {', '.join(f'`{name}`' for name in columns)}"


def counted(number: int, one: str) -> str:
    """Format a number and its noun, using the plural form if necessary.

    >>> counted(1, "ballot"), counted(1200, "ballot")
    ('1 ballot', '1,200 ballots')
    """
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def clean_text(text: str) -> str:
    r"""Convert `text` to valid Unicode without NUL.

    Each surrogate pair is joined into one character, and lone surrogates become U+FFFD.

    >>> clean_text("a\ud800b\x00c")
    'a\ufffdbc'
    >>> clean_text("\ud83d\ude42")
    '🙂'
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class CutOff(str):
    """Truncated text from a model."""

    __slots__ = ()


class Trimmed(str):
    """Text from a model, shortened on purpose and therefore not treated as truncated."""

    __slots__ = ()


def is_blank(text: str) -> bool:
    r"""Return whether `text` is empty or consists only of whitespace and characters invisible on their own.

    >>> is_blank(" \u200b\u3164\n"), is_blank("\x08"), is_blank("."), is_blank("")
    (True, True, False, True)
    """
    if "!" <= text[:1] <= "~":  # fast path: almost all text starts with a visible ASCII character
        return False
    return text.isspace() or all(c.isspace() or is_unseen(c) for c in text)


def is_unseen(char: str) -> bool:
    """Return whether `char` is invisible on its own: a control, format or filler character, or a variation selector."""
    return category(char) in {"Cf", "Cc"} or char == "\u2800" or _UNSEEN.match(char) is not None


def clean_data(value: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    r"""Return plain data with all text cleaned by `clean_text`; other values are unchanged.

    >>> clean_data({"briefing": ["a\ud800"], "done": True})
    {'briefing': ['a\ufffd'], 'done': True}
    """
    kind = type(value)
    if kind is str:
        return clean_text(value)
    if kind is dict:
        return {clean_data(key): clean_data(inner) for key, inner in value.items()}
    if kind is list or kind is tuple:
        return kind([clean_data(inner) for inner in value])
    return value


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every occurrence of any of the `secrets` in `text` with "[redacted]".

    >>> redact("the key is hunter2", ["hunter2"])
    'the key is [redacted]'
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_LENGTH and secret in text:
            text = text.replace(secret, _REDACTED)
    return text


def without_keys(text: str) -> str:
    """Replace everything in `text` that looks like an API key with "[redacted]".

    >>> without_keys("bad key sk-abcdef123456")
    'bad key [redacted]'
    """
    return re.sub(_KEYS, _REDACTED, text)


def one_line(text: str, *, secrets: Iterable[str] = ()) -> str:
    r"""Format server text for an error message: one printable line of at most 500 characters, with secrets redacted.

    >>> one_line("bad key sk-abcdef123456\x1b[2J")
    'bad key [redacted]\\x1b[2J'
    """
    text = without_keys(redact(text[:_LOOKED_AT], secrets))
    excerpt = text[: _MAX_SERVER_TEXT_LENGTH + 1]
    if not excerpt.isprintable():  # escaping may make the excerpt too long again
        excerpt = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in excerpt)
    return excerpt if len(excerpt) <= _MAX_SERVER_TEXT_LENGTH else f"{excerpt[: _MAX_SERVER_TEXT_LENGTH - 1]}…"


def hide_credentials(address: str) -> str:
    """Render an address in any format, leaving out anything that might be a user name, password or query.

    >>> hide_credentials("postgresql+psycopg://ann:s3/cr#t@db/app"), hide_credentials("host=db password=s3cret")
    ('postgresql+psycopg://db/app', 'host=… password=…')
    """
    if re.match(r"\s*[a-z_]+\s*=", address):
        return " ".join(f"{name}=…" for name in _LIBPQ if re.search(rf"(?<![a-z_]){name}\s*=", address)) or "…=…"
    before, at, rest = address.rpartition("@")
    scheme = re.match(r"\s*(?:jdbc:)?[A-Za-z][A-Za-z0-9+.-]*:/+", before)
    return one_line(re.split("[?#]", (scheme[0] if scheme else "") + rest if at else rest)[0])


_LIBPQ = ("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "sslmode")


MAX_ARGUMENT_LENGTH = 1_000_000  # maximum length in characters; every later prompt includes every earlier argument

# Letters and marks that are invisible on their own.
_UNSEEN = re.compile(
    "[\u034f\u0640\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SAME = (
    dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4\u2032", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-")
    | dict.fromkeys("\x85\u2028\u2029", "\n")
)


def _is_accent(char: str) -> bool:
    """Return whether `char` is an accent, or one of the vowel signs usually omitted in Hebrew and Arabic."""
    kind = combining(char)
    return 10 <= kind <= 35 or kind >= 200  # noqa: PLR2004 - canonical combining classes


class _Folds(dict[int, str]):
    """Cache of folded characters; each character is folded on its first occurrence."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _SAME:
            folded = _SAME[char]
        elif category(char) == "Cf" or _UNSEEN.match(char):
            folded = ""
        else:
            apart = normalize("NFKD", normalize("NFKD", char).casefold())
            folded = normalize("NFC", "".join(part for part in apart if not _is_accent(part))).replace("\u2044", "/")
            if category(char) == "No":  # 10² must not become 102
                folded = f"^{folded}"
        self[code] = folded
        return folded


_FOLDS = _Folds()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def fold(text: str) -> str:
    r"""Fold `text` to lowercase and compatibility form (NFKC), removing accents and invisible characters.

    >>> fold("\uff2ao\u200bsé’s")
    "jose's"
    """
    return text.lower() if text.isascii() else _NOT_ASCII.sub(lambda match: match[0].translate(_FOLDS), text.lower())


def origins(text: str) -> list[int] | None:
    """Return the index in `text` of each character of `fold(text)`, or None for ASCII, where the indices match."""
    return None if text.isascii() else [place for place, char in enumerate(text) for _ in _FOLDS[ord(char)]]


def with_accents(text: str, end: int) -> int:
    """Extend a span ending at `end` to include any combining accents after it."""
    while end < len(text) and _is_accent(text[end]):
        end += 1
    return end
