"""Parser for structured answers, with repairs for broken JSON and for values in an unexpected form.

An answer accepted by its schema is never changed. Any other answer is repaired by fixed rules based on its text and the
schema, and validated again. No rule relies on similarity: unless an answer is unambiguously equivalent to a valid one,
it is requested again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel

from flowdebate.errors import SchemaViolation
from flowdebate.models.output import OutputSchema
from flowdebate.prompts import as_seen, unescaped


class Reading(NamedTuple):
    """A validated answer and the repairs made to it."""

    data: Any
    repairs: tuple[str, ...]


class Parsed(NamedTuple):
    """JSON data parsed from text, along with any repairs made to its syntax."""

    value: object
    repairs: tuple[str, ...]


def repair_answer(answer: object, output: OutputSchema, violation: SchemaViolation) -> Reading:
    """Repair `answer`, which `output` rejected with `violation`; raise SchemaViolation if it cannot be repaired."""
    fitting = _Fitting(output)
    try:
        parsed = parse_json(answer) if isinstance(answer, str) else Parsed(answer, ())
        value = fitting.fit(answer if parsed is None else parsed.value, fitting.root)
    except RecursionError:
        raise violation from None
    if parsed is None and isinstance(value, str):
        raise violation
    repairs = tuple(dict.fromkeys((*(() if parsed is None else parsed.repairs), *fitting.repairs)))
    if repairs:
        try:
            return Reading(_checked(value, output), repairs)
        except SchemaViolation as error:
            violation = error
    remaining, counts = fitting.drop_items(value, violation)
    if counts:
        try:
            return Reading(_checked(remaining, output), (*repairs, *counts))
        except SchemaViolation as error:
            violation = error
    raise SchemaViolation(violation.problems, answer=answer if isinstance(answer, str) else None)


def has_answer(text: str, output: OutputSchema) -> bool:
    """Return whether `text` contains JSON data, or words that can be interpreted as an answer matching `output`."""
    try:
        if parse_json(text) is not None:
            return True
        fitting = _Fitting(output)
        return not isinstance(fitting.fit(text, fitting.root), str)
    except RecursionError:
        return False


def _checked(value: object, output: OutputSchema) -> object:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):  # an adapter may return data that is not plain JSON
        return output.validate(value)
    return output.validate(text)  # as JSON, because only then do strict schemas accept a list in place of a tuple


# Syntax


def parse_json(text: str) -> Parsed | None:
    """Find the JSON data in `text` and repair its syntax; return None unless there is exactly one answer.

    >>> parse_json('Sure: {"winner": "for",}')
    Parsed(value={'winner': 'for'}, repairs=('text around the JSON', 'trailing comma'))
    >>> parse_json('{"winner": "for"} or {"winner": "against"}') is None
    True
    """
    text = text.strip()
    for repairs, part in _parts(text):
        try:
            value = _strict.decode(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str):
            inner = parse_json(value) if value.lstrip()[:1] in _OPENING else None
            return inner and Parsed(inner.value, (*repairs, "double encoding", *inner.repairs))
        if isinstance(value, (dict, list)):
            return Parsed(value, repairs)
    spans = _spans(text)
    # after "[" or ":", the object would be part of a broken answer
    if spans is not None and not text[: spans[0][0]].rstrip().endswith(("[", ":")):
        value, between = spans[0][2], "".join(_gaps(text, spans))
        if any(other != value for _, _, other in spans):
            return None
        around = ("text around the JSON",) if between.strip() else ()
        return Parsed(value, (*around, *(("repeated object",) if len(spans) > 1 else ())))
    for repairs, part in _parts(text):
        repaired = _repair(part)
        if repaired is not None:
            return Parsed(repaired.value, (*repairs, *repaired.repairs))
    return None


def find_object(text: str) -> str | None:
    """Find the only valid JSON object in `text`, exactly as written; return None unless there is exactly one.

    Parts of a broken object do not count; an object with a repeated field does not count either.

    >>> find_object('Sure: {"winner": null} - that is all.')
    '{"winner": null}'
    >>> find_object('{"winner": "for"} or {"winner": "against"}') is None
    True
    >>> find_object('{"draft": {"winner": "for"}, oh no') is None
    True
    """
    spans = _spans(text)
    return text[spans[0][0] : spans[0][1]] if spans is not None and len(spans) == 1 else None


def _spans(text: str) -> list[tuple[int, int, object]] | None:
    """Return the start, end and value of each object in `text`; return None if there are none or one is broken."""
    spans: list[tuple[int, int, object]] = []
    begin = text.find("{")
    tried = 0
    while begin != -1:
        tried += 1
        if tried > _TRIES:
            return None
        try:
            value, end = _strict.raw_decode(text, begin)
        except (ValueError, RecursionError):
            if _OBJECT.match(text, begin):
                return None
            begin = text.find("{", begin + 1)
            continue
        spans.append((begin, end, value))
        begin = text.find("{", end)
    return spans or None


def _gaps(text: str, spans: Sequence[tuple[int, int, object]]) -> Iterator[str]:
    """Yield the text before, between and after the spans."""
    end = 0
    for begin, after, _ in spans:
        yield text[end:begin]
        end = after
    yield text[end:]


def repeats_key(text: str) -> bool:
    """Return whether `text` is valid JSON but ambiguous because an object in it repeats a key.

    >>> repeats_key('{"winner": "for", "winner": "against"}'), repeats_key('{"winner": "for"}')
    (True, False)
    """
    try:
        _strict.decode(text.strip())
    except ValueError as error:
        return isinstance(error, _Repeated)
    except RecursionError:
        return False
    return False


class _Repeated(ValueError):
    """Raised if a key is repeated in an object."""


def _reject_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Repeated(pairs)
    return fields


_strict = json.JSONDecoder(object_pairs_hook=_reject_repeated_keys)
_OPENING = ("{", "[", '"')
# The beginning of an object, complete or broken; any other brace is part of the prose.
_OBJECT = re.compile("\\{\\s*[\"'“\u2018]")
# Maximum number of braces to try: a model can write any number of them, and each may take time proportional to the
# length of the text.
_TRIES = 200
_FENCE = re.compile(r"```[ \t]*[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)


def _parts(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the parts of `text` that may be the answer, each with the repairs made to obtain it.

    A part is the whole text, the content of a code fence, or the JSON surrounded by other text.
    """
    yield (), text
    if text.startswith('{\\"'):
        yield ("double encoding",), re.sub(r"\\(.)", r"\1", text)
    fences = [part.strip() for part in _FENCE.findall(text)]
    if fences:
        # a fence inside an object would be part of a string
        if len(set(fences)) == 1 and not _OBJECT.search(_FENCE.sub("", text)):
            yield ("code fence",), fences[0]
    elif opened := re.match(r"```[\w+-]*\s*", text):  # an unclosed fence
        yield ("code fence",), text[opened.end() :]
    begin = _OBJECT.search(text)
    if begin is not None and not fences:
        first = begin.start()
        before = text[:first].rstrip()
        if before.endswith("["):
            first = len(before) - 1
        part = text[first : max(text.rfind("}"), text.rfind("]")) + 1]
        if _missing(part):  # if brackets are unclosed, text after the last bracket belongs to the object
            part = text[first:]
        if part != text:
            yield ("text around the JSON",), part


# Maximum length, in characters, of broken text to repair, because a repair can take quadratic time.
_MAX_LENGTH = 50_000
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_COMMENT = re.compile(r"(\"(?:\\.|[^\"\\])*\")|(?<![^\s,{}\[\]])(?://[^\n]*|/\*.{0,500}?\*/|#[^\n]*)", re.DOTALL)
_ENDS = re.compile(r"(?:[\"}\]]|\b(?:true|false|null|True|False|None))\Z")


def _repair(text: str) -> Parsed | None:
    """Repair the syntax of one object or list; return None if that would lose or invent content."""
    if text[:1] not in ("{", "[") or len(text) > _MAX_LENGTH:
        return None
    try:
        return Parsed(
            json.JSONDecoder(strict=False, object_pairs_hook=_reject_repeated_keys).decode(text), (_LINE_BREAK,)
        )
    except (ValueError, RecursionError):
        pass
    for bare in dict.fromkeys((text.strip(), _COMMENT.sub(lambda match: match[1] or "", text).strip())):
        value = _repair_syntax(bare)
        if value is not None:
            repairs = (*(("comment",) if bare != text.strip() else ()), *_repairs_of(bare))
            return Parsed(value, repairs or ("broken JSON",))
    return None


def _repair_syntax(text: str) -> dict[str, object] | list[object] | None:
    from json_repair import (
        repair_json,
    )  # imported lazily, because it takes half as long to import as this whole library

    outside = _STRING.sub('""', text)
    if _missing(text) and (outside.count('"') % 2 or not _ENDS.search(text)):
        return None  # the text breaks off in the middle of a value
    try:
        value = repair_json(text, return_objects=True, skip_json_loads=True, strict=True)
    except (ValueError, RecursionError):
        return None
    same = isinstance(value, (dict, list)) and _content(text) == _content(_flat(value))
    return value if same and isinstance(value, (dict, list)) else None


def _missing(text: str) -> bool:
    """Return whether `text` has unclosed brackets."""
    outside = _STRING.sub('""', text)
    return sum(map(outside.count, "{[")) > sum(map(outside.count, "}]"))


def _repairs_of(text: str) -> tuple[str, ...]:
    """Return the names of the syntax errors in `text`."""
    outside = _STRING.sub('""', text)
    signs = {
        "trailing comma": re.search(r",\s*[}\]]", outside),
        "missing brace": _missing(text),
        _LINE_BREAK: any("\n" in string for string in _STRING.findall(text)),
        "Python literals": re.search(r"[{,\[:]\s*(?:'|True\b|False\b|None\b)", outside),
        "curly quotes": re.search(r"[{,\[:]\s*[“”\u2018\u2019]", outside),
    }
    return tuple(name for name, is_there in signs.items() if is_there)


_LINE_BREAK = "line break in a string"
_SYNTAX = re.compile(r"[\s{}\[\],:\"'“”\u2018\u2019\\]+")


def _content(text: str) -> str:
    """Return `text` without whitespace, brackets or quotes; a repair that changes this has lost or added content."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    text = re.sub(r"\\[nrtbf]", " ", text)
    return _SYNTAX.sub("", re.sub(r"\bNone\b", "null", text)).casefold()


def _flat(value: object) -> str:
    """Concatenate the keys and values of JSON data."""
    if isinstance(value, dict):
        return " ".join(f"{key} {_flat(part)}" for key, part in value.items())
    if isinstance(value, list):
        return " ".join(map(_flat, value))
    return value if isinstance(value, str) else json.dumps(value)


# Choices


def find_choice(text: str, choices: Sequence[str], synonyms: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """Find the choice that `text` expresses; return None unless there is exactly one.

    The text is tried unchanged, then ignoring case and Unicode form, then without surrounding brackets, quotes,
    emphasis, label or period, and finally as one of the `synonyms`.

    >>> find_choice("**Position:** [Cap Rents].", ["cap rents", "free rents"])
    'cap rents'
    >>> find_choice("not cap rents", ["cap rents", "free rents"]) is None
    True
    """
    for values in ({choice: choice for choice in choices}, {key: to for key, to in synonyms.items() if to in choices}):
        if text in values:
            return values[text]
        for written, form in ((_plain(text), _plain), (_bare(text), _plain), (_bare(text), _bare)):
            matches = {choice for key, choice in values.items() if written and form(key) == written}
            if matches:
                return matches.pop() if len(matches) == 1 else None
    return None


def find_name(text: str, names: Sequence[str]) -> str | None:
    """Find the name in `text`, allowing only filler words around it; return None unless exactly one name matches.

    Spaces, hyphens, underscores and dots in a name do not matter.

    >>> find_name("I vote for the proposal of **Agent-1**.", ["agent 1", "agent 2"])
    'agent 1'
    >>> find_name("Ann or Bob", ["Ann", "Bob"]) is None
    True
    """
    from flowdebate.measures.statements import answer_words  # imported lazily, because most debates need no measures

    choice = find_choice(text, names) or find_choice(unescaped(text), names)
    if choice is not None or len(text) > _MAX_SENTENCE_LENGTH:
        return choice
    written = {name: _joined(answer_words(name)) for name in names}
    words = answer_words(unescaped(text))
    for left_out in range(len(words)):  # try all words first, then fewer, dropping meaningless words at either end
        forms: set[str] = set()
        for start in range(left_out + 1):
            end = len(words) - left_out + start
            if _ABOUT_NAMES.issuperset((*words[:start], *words[end:])):
                form = _joined(words[start:end])
                forms |= {form, form.removesuffix("'s")}
        matches = [name for name, form in written.items() if form and form in forms]
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None


def _joined(words: Iterable[str]) -> str:
    return re.sub("[-_.]", "", "".join(words))


_MAX_SENTENCE_LENGTH = 200  # maximum length in characters; longer strings are not names
# Words that models write around the name they choose.
_ABOUT_NAMES = frozenset(
    "a agent an answer by candidate choice choose for from i is my of option proposal support the to vote".split()  # noqa: SIM905
)


def is_none(text: str) -> bool:
    """Return whether `text` expresses the absence of a value.

    >>> is_none("Tie."), is_none("neither of them"), is_none("")
    (True, False, True)
    """
    return not text.strip() or _bare(text) in _NONE


_NONE = frozenset({"tie", "draw", "none", "neither", "n/a", "null"})
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">", "“": "”", "\u2018": "’", "«": "»", "„": "“"}
_PAIRS |= {sign: sign for sign in "\"'`*_"}
_LABEL = re.compile(
    r"[*_]*(?:(?:the |my |final )?(?:position|winner|winning (?:position|side|stance)|stance|side|answer|choice|option|"
    r"vote|speaker|agent|debater|name|status|severity|verdict))[*_]*\s*[:\uff1a][*_]*\s*(?=\S)",
    re.IGNORECASE,
)
_SIGNS = str.maketrans(dict.fromkeys("\u2018\u2019\u201a", "'") | dict.fromkeys("“”„", '"'))
_SIGNS |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")


# Maximum length, in characters, of a choice, a number or a short list: a model can put any number of brackets around
# it.
_MAX_PROSE_LENGTH = 4_000


def _plain(text: str) -> str:
    """Return `text` in lowercase, in a single Unicode form, and with single spaces; return long text unchanged."""
    if len(text) > _MAX_PROSE_LENGTH:
        return text
    return as_seen(unescaped(text)).translate(_SIGNS)


def _bare(text: str) -> str:
    """Strip surrounding brackets, quotes, emphasis, label and period from `text`, leaving its plain form."""
    bare, stops = text.strip(), 1
    while bare and len(bare) <= _MAX_PROSE_LENGTH:
        if bare[-1] in ".。" and stops and not bare.endswith(".."):
            inner, stops = bare[:-1], 0
        elif len(bare) > 1 and _PAIRS.get(bare[0]) == bare[-1]:
            inner = bare[1:-1]
        else:
            inner = _LABEL.sub("", bare, count=1) if _LABEL.match(bare) else bare
        if inner == bare:
            break
        bare = inner.strip()
    return _plain(bare)


# Values

_Schema = Mapping[str, Any]
# Neutral names for an object wrapping the answer; a name like "rejected" would change the meaning.
_WRAPPERS = frozenset(
    {"answer", "response", "result", "output", "data", "json", "object", "value", "content", "final", "finalanswer"}
    | {"finalresponse", "arguments", "parameters", "properties", "input"}
)
# Keys that belong to a JSON Schema itself, as opposed to the fields of an answer.
_FRAME = frozenset({"properties", "$schema", "$id", "$defs", "title", "type", "description", "required"})
_FRAME |= {"additionalProperties", "strict"}
_EMPTY = re.compile(
    r"(?:i (?:found|see|have found) )?(?:there (?:are|were|is) )?(?:no|none|nothing)"
    r"(?: (?:issues?|problems?|findings?|bugs?|errors?|defects?|concerns?|flaws?|vulnerabilities))?"
    r"(?: (?:were |was )?(?:found|detected|identified|to report))?"
)
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,15})?)\s*(?:(%|percent)|(?:/|out of|of)\s*(\d{1,9}(?:\.\d{1,9})?))?")
_LINE = re.compile(r"(?:lines?|ln?\.?|#)?\s*(\d{1,9})")
_LINES = re.compile(r"(?:lines?|ln?\.?|#)?\s*(\d{1,9})\s*(?:-|to|\.\.)\s*(?:ln?\.?|#)?\s*(\d{1,9})")
_ITEM = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+", re.MULTILINE)
_YES = {"true": True, "yes": True, "false": False, "no": False}
_MAX_SCALE = 10  # a score up to 10 may be on a scale of 5 or 10, so it is not taken as a percentage


@dataclass
class _Fitting:
    """Converter that fits a value to the form required by a schema, and records the changes made."""

    output: OutputSchema
    repairs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root: _Schema = self.output.json_schema
        self._synonyms = self.output.synonyms

    def fit(self, value: object, schema: object) -> Any:  # noqa: ANN401, PLR0911 - JSON data; one return for each type
        """Convert `value` to the form required by `schema`, if that is unambiguous."""
        schema, nullable = self._resolve(schema)
        if value is None and nullable:
            return None
        choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if choices is not None:
            return self._fit_choice(value, choices, nullable=nullable or None in choices)
        kind = schema.get("type")
        if nullable and kind in ("integer", "number", "boolean") and isinstance(value, str) and is_none(value):
            return self._note("word for none", None)
        if kind == "object":
            return self._fit_object(value, schema)
        if kind == "array":
            return self._fit_list(value, schema)
        if kind in ("integer", "number"):
            return self._fit_number(value, schema, nullable=nullable)
        if kind == "boolean" and isinstance(value, str) and _bare(value) in _YES:
            return self._note("word for a truth value", _YES[_bare(value)])
        return value

    def drop_items(self, value: object, violation: SchemaViolation) -> tuple[object, list[str]]:
        """Copy `value`, dropping and counting the invalid items in lists of objects.

        A list with only invalid items is kept.
        """
        counts: list[str] = []
        if not isinstance(value, dict):
            return value, counts
        copy = dict(value)
        paths = [path.split(".") for path, _ in violation.problems]
        for name, part in self.root.get("properties", {}).items():
            items = value.get(name)
            item, _ = self._resolve(self._resolve(part)[0].get("items"))
            if not isinstance(items, list) or item.get("type") != "object":
                continue
            bad = {int(path[1]) for path in paths if path[0] == name and len(path) > 1 and path[1].isdecimal()}
            if bad and len(bad) < len(items):
                copy[name] = [item for at, item in enumerate(items) if at not in bad]
                counts.append(f"{len(bad)} of {len(items)} {name} dropped")
        return copy, counts

    def _note(self, repair: str, value: object) -> Any:  # noqa: ANN401 - `value`
        self.repairs.append(repair)
        return value

    def _resolve(self, schema: object) -> tuple[_Schema, bool]:
        """Resolve a reference or a union with null; return the resulting schema and whether null is allowed."""
        nullable = False
        for _ in range(50):  # limited, because references may be circular
            if not isinstance(schema, Mapping):
                return {}, nullable
            reference, branches = schema.get("$ref"), schema.get("anyOf", schema.get("oneOf"))
            if isinstance(reference, str):
                section, _, name = reference.removeprefix("#/").rpartition("/")
                schema = self.root.get(section, {}).get(name) if section in ("$defs", "definitions") else None
            elif isinstance(branches, list):
                rest = [branch for branch in branches if branch != {"type": "null"}]
                if len(rest) != 1 or len(rest) == len(branches):
                    return {}, nullable or len(rest) < len(branches)
                schema, nullable = rest[0], True
            elif isinstance(kinds := schema.get("type"), list):
                rest = [kind for kind in kinds if kind != "null"]
                schema = {**schema, "type": rest[0] if len(rest) == 1 else None}
                nullable = nullable or "null" in kinds
            else:
                return schema, nullable
        return {}, nullable

    def _fit_choice(self, value: object, choices: Sequence[object], *, nullable: bool) -> object:
        if isinstance(value, list) and len(value) == 1:
            value = self._note("list around a value", value[0])
        if not isinstance(value, str) or value in choices:
            return value
        words = [choice for choice in choices if isinstance(choice, str)]
        choice = find_choice(value, words, self._synonyms)
        if choice is not None:
            return self._note("spelling of a choice", choice)
        if nullable and is_none(value) and not any(_bare(value) in (_plain(word), _bare(word)) for word in words):
            return self._note("word for none", None)
        return value

    def _fit_object(self, value: object, schema: _Schema) -> object:
        properties: dict[str, Any] = schema.get("properties") or {}
        names = [name for name in schema.get("required", ()) if name in properties]
        only = names[0] if len(names) == 1 else None
        listed = only is not None and self._resolve(properties[only])[0].get("type") == "array"
        if isinstance(value, str) and value.lstrip()[:1] in _OPENING and (parsed := parse_json(value)) is not None:
            value = self._note("double encoding", parsed.value)
        if isinstance(value, list) and value and not listed:
            pairs = self._fit_pairs(value, properties)
            if pairs is not None:
                value = self._note("list of pairs", pairs)
            elif isinstance(value[0], dict) and all(item == value[0] for item in value):
                value = self._note("list around the object" if len(value) == 1 else "repeated object", value[0])
        if only is not None and (isinstance(value, list) if listed else isinstance(value, str)):
            return self._fit_only(value, only, schema)
        if only is not None and listed and isinstance(value, str):
            return self._fit_only(value, only, schema)
        if not isinstance(value, dict):
            return value
        value = self._unwrap(value, schema)
        if only is not None and listed and only not in value and self._is_item(value, properties[only]):
            return self._fit_only([value], only, schema)
        return self._fit_fields(value, schema)

    def _fit_only(self, value: object, name: str, schema: _Schema) -> object:
        """Wrap a value in an object under `name`, the only required key.

        If the value does not fit under that key, it is returned unchanged.
        """
        inner, _ = self._resolve(schema["properties"][name])
        if inner.get("type") != "array" and "enum" not in inner:
            return value
        before = list(self.repairs)
        fitted = self.fit(value, inner)
        if isinstance(fitted, str) and ("enum" not in inner or fitted not in inner["enum"]):
            self.repairs[:] = before
            return value
        return self._note("missing key", {name: fitted})

    def _is_item(self, value: Mapping[str, object], schema: object) -> bool:
        """Return whether `value` has all the required fields of a list item."""
        item, _ = self._resolve(self._resolve(schema)[0].get("items"))
        required = set(item.get("required", ()))
        return bool(required) and required <= value.keys()

    def _fit_pairs(self, items: Sequence[object], properties: Mapping[str, Any]) -> dict[str, object] | None:
        """Convert `[{"position": "a", "score": 80}, …]` to `{"a": 80, …}`; return None for any other list."""
        fields: dict[str, object] = {}
        for item in items:
            parts = list(item.values()) if isinstance(item, dict) else []
            keys = [name for part in parts if isinstance(part, str) and (name := find_choice(part, list(properties)))]
            rest = [part for part in parts if not (isinstance(part, str) and find_choice(part, list(properties)))]
            if len(parts) != 2 or len(keys) != 1 or keys[0] in fields:  # noqa: PLR2004 - a pair
                return None
            fields[keys[0]] = rest[0]
        return fields if fields.keys() == properties.keys() else None

    def _unwrap(self, value: dict[str, object], schema: _Schema) -> dict[str, object]:
        """Return the object nested under a wrapper key: a generic word such as "answer", or the schema's name."""
        properties = schema.get("properties") or {}
        titles = {_key(str(schema.get("title", ""))), _key(self.output.name)}
        inner = value.get("properties")
        if isinstance(inner, dict) and "properties" not in properties and value.keys() - properties.keys() <= _FRAME:
            # the model filled in the schema: either `properties` contains the values, or each field's schema has a
            # "value" key
            values = {name: part["value"] for name, part in inner.items() if isinstance(part, dict) and "value" in part}
            value = {"properties": values if len(values) == len(inner) else inner}
        if len(value) == 2 and {_key(str(value.get("name", "")))} <= titles:  # noqa: PLR2004 - name and arguments
            value = {key: part for key, part in value.items() if key != "name"}
        [*keys] = value
        if len(keys) != 1 or keys[0] in properties or _key(keys[0]) not in _WRAPPERS | titles:
            return value
        inner = value[keys[0]]
        if isinstance(inner, str) and (parsed := parse_json(inner)) is not None:
            inner = parsed.value
        if isinstance(inner, dict) and any(_name_of(key, properties) for key in inner):
            self._note("wrapper key", None)
            return inner
        return value

    def _fit_fields(self, value: dict[str, object], schema: _Schema) -> dict[str, object]:
        properties: dict[str, Any] = schema.get("properties") or {}
        required = schema.get("required", ())
        fields: dict[str, object] = {}
        for key, part in value.items():
            name = key if key in properties else _name_of(key, properties)
            if name is None:
                if schema.get("additionalProperties") is not False:
                    fields[key] = part
                else:
                    self._note("unknown key", None)
                continue
            # snake_case in place of camelCase does not count as a repair
            if name != key and not (key.islower() and name == to_camel(key)):
                self._note("spelling of a key", None)
            if name in fields or (name != key and name in value):  # a second answer for the same field
                if fields.get(name, value.get(name)) != part:
                    return value
                continue
            fields[name] = part
        if value and not fields:  # an empty result is not an answer
            return value
        self._fit_lines(fields, properties)
        fitted: dict[str, object] = {}
        for key, part in fields.items():
            _, nullable = self._resolve(properties.get(key))
            if part is None and key in properties and key not in required and not nullable:
                self._note("null for a default", None)
            else:
                fitted[key] = self.fit(part, properties[key]) if key in properties else part
        return fitted

    def _fit_lines(self, fields: dict[str, object], properties: Mapping[str, Any]) -> None:
        """Interpret "12-14" in a field such as `line` as the first and last line, if there is an `endLine` field."""
        for name in properties:
            end, part = f"end{name[:1].upper()}{name[1:]}", fields.get(name)
            if end in properties and isinstance(part, str) and (lines := _LINES.fullmatch(_bare(part))):
                fields[name] = self._note("line numbers", int(lines[1]))
                if fields.get(end) is None:
                    fields[end] = int(lines[2])

    def _fit_list(self, value: object, schema: _Schema) -> object:
        item, _ = self._resolve(schema.get("items"))
        may_be_empty = not schema.get("minItems")
        if isinstance(value, str) and value.lstrip()[:1] in _OPENING and (parsed := parse_json(value)) is not None:
            value = self._note("double encoding", parsed.value)
        if value is None and may_be_empty:
            return self._note("words for an empty list", [])
        if isinstance(value, str):
            if may_be_empty and (is_none(value) or _EMPTY.fullmatch(_bare(value))):
                return self._note("words for an empty list", [])
            split = self._split(value, item)
            if split is None:
                return value
            value = self._note("list as text", split)
        if isinstance(value, dict) and item.get("type") == "object" and set(item.get("required", ())) <= value.keys():
            value = self._note("missing list", [value])
        return [self.fit(part, item) for part in value] if isinstance(value, list) else value

    def _split(self, text: str, item: _Schema) -> list[str] | None:
        """Split a list written as text; return None unless all its items are choices of `item`."""
        if len(text) > _MAX_PROSE_LENGTH:
            return None
        required = item.get("required", ())
        if item.get("type") == "object" and len(required) == 1:
            item, _ = self._resolve(item["properties"].get(required[0]))
        choices = [choice for choice in item.get("enum", ()) if isinstance(choice, str)]
        for parts in ([text], text.strip().splitlines(), text.split(">"), re.split("[,;]", text)):
            words = [_ITEM.sub("", part).strip() for part in parts if part.strip()]
            if words and all(find_choice(word, choices, self._synonyms) for word in words):
                return words
        return None

    def _fit_number(self, value: object, schema: _Schema, *, nullable: bool) -> object:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return value
        low, high = schema.get("minimum"), schema.get("maximum")
        is_integer = schema.get("type") == "integer"
        line = _LINE.fullmatch(_bare(value)) if high is None and is_integer and isinstance(value, str) else None
        number = Fraction(line[1]) if line else _number(value, low=low, high=high)
        if number == 0 and nullable and low == 1:
            return self._note("0 for none", None)
        if number is None or (not isinstance(value, str) and number == value):
            return value
        self._note("number as text" if isinstance(value, str) else "percentage", None)
        return round(number) if is_integer else float(number)


def _number(value: str | float, *, low: float | None, high: float | None) -> Fraction | None:
    """Convert a number, a percentage or a fraction such as "8/10" to the scale from `low` to `high`.

    Returns None for any other text.
    """
    match = _NUMBER.fullmatch(_bare(value) if isinstance(value, str) else repr(value))
    if match is None:
        return None
    number = Fraction(match[1])
    total = Fraction(100) if match[2] else Fraction(match[3]) if match[3] else None
    if total is not None:
        if low != 0 or high is None or not 0 <= number <= total or not total:
            return None
        return number * Fraction(high) / total
    if low == 0 and high == 1 and _MAX_SCALE < number <= 100:  # noqa: PLR2004 - percent
        return number / 100
    return number


def _key(name: str) -> str:
    return re.sub(r"[\W_]", "", as_seen(name))


def _name_of(key: str, names: Iterable[str]) -> str | None:
    """Find the name in `names` that `key` stands for; return None unless there is exactly one.

    A name matches if it equals `key` apart from case and punctuation. If no single name does, `find_choice` looks for
    one.
    """
    candidates = list(names)
    if key in candidates:
        return key
    same = [name for name in candidates if _key(key) and _key(name) == _key(key)]
    return same[0] if len(same) == 1 else find_choice(key, candidates)
