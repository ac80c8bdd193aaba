"""Rendering and parsing of prompts for humans: the role, the question, the transcript so far, and the expected answer.

As in prompts for models, untrusted text follows a tag or a label, so it cannot be mistaken for another author's text or
for the request's own wording. It cannot move a terminal's cursor either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flowdebate._text import join_choices
from flowdebate.errors import ViewError
from flowdebate.prompts import NEXT_TEXT, quoted, tag_name, tag_text, unescaped, unquoted

TEXT = "Answer in text."
_FIELDS = "Answer with these fields:"
_QUESTION = "Question: "
_SAID = "What was said so far:\n"
_NOTHING = "(nothing yet)"
_KINDS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


def render_request(
    *, who: str | None, prompt: str | None, question: str, context: str | None, transcript: str | None, task: str | None
) -> str:
    """Render the parts of a request, skipping those that are None."""
    parts = [
        who,
        None if prompt is None else _lines(prompt),
        f"{_QUESTION}{quoted(question)}" if question else None,
        None if context is None else _lines(context),
        None if transcript is None else f"{_SAID}{transcript}",
        task,
    ]
    return "\n\n".join(part for part in parts if part)


def describe_role(name: str, *, stance: str | None = None, role: str | None = None) -> str:
    """Describe the human's role.

    >>> describe_role("ann", stance="for")
    'You are ann. You argue for this position: for'
    """
    role_text = "" if role is None else f", {tag_text(role)}"
    position = "" if stance is None else f" You argue for this position: {tag_text(stance)}"
    return f"You are {tag_name(name)}{role_text}.{position}"


def _lines(text: str) -> str:
    """Split the application's `text` into lines, removing control characters."""
    return "\n".join(map(quoted, text.split("\n")))


def render_contributions(entries: Iterable[Any], *, names: bool = True) -> str:
    """Render any pattern's transcript, with a heading for each round; unless `names` is set, tags show only stances.

    >>> from types import SimpleNamespace
    >>> print(render_contributions([SimpleNamespace(round=1, agent_name="ann", stance="for", text="Yes.")]))
    Round 1:
    [ann, for] Yes.
    """
    lines: list[str] = []
    heading: int | None = None
    for entry in entries:
        if entry.round != heading:
            heading = entry.round
            lines.append(f"Round {heading}:")
        name = getattr(entry, "agent_name", None) or getattr(entry, "name", "")
        stance = getattr(entry, "stance", None) or getattr(entry, "role", None)
        if kind := getattr(entry, "kind", None):  # set during a cross-examination
            verb = "asks" if kind == "question" else "answers"
            name, stance = f"{name} {verb} {entry.to}", f"{stance}" if names else f"{stance} {verb} {entry.to_stance}"
        tag = tag_name(name) if stance is None else f"{tag_name(name)}, {tag_text(stance)}"
        if not names and stance is not None:
            tag = tag_text(stance)
        lines.append(f"[{tag}] {quoted(entry.text)}")
    return "\n".join(lines) if lines else _NOTHING


@dataclass(frozen=True, slots=True)
class Statement:
    """A contribution and its author's tag."""

    name: str
    position: str
    """Stance or role of the author; empty if the tag contains neither."""
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A round of the transcript, or a paragraph of the request."""

    round: int | None
    """Round number; None for a paragraph of the request."""
    parts: tuple[Statement | str, ...]


@dataclass(frozen=True, slots=True)
class RequestParts:
    """A rendered request, parsed into its parts."""

    who: str
    """Description of the human's role; empty if there is none."""
    question: str
    sections: tuple[Section, ...]


def parse_request(text: str) -> RequestParts:
    """Parse a request rendered by `render_request` into its parts; any other text becomes a single paragraph."""
    who, question, sections = "", "", list[Section]()
    # untrusted text cannot contain an empty line, because all its lines after the first begin with a bar
    first, *parts = text.split("\n\n")
    if re.fullmatch("You are .+", first):
        who = unescaped(first)
    else:
        parts = [first, *parts]
    for part in parts:
        if part.startswith(_QUESTION) and not question:
            question = _plain(part.removeprefix(_QUESTION))
        elif part.startswith(_SAID):
            before, *rounds = re.split(r"^Round (\d+):\n", part.removeprefix(_SAID), flags=re.MULTILINE)
            if before not in ("", _NOTHING):
                sections.append(Section(None, _parts(before)))
            for number, entries in zip(rounds[::2], rounds[1::2], strict=True):
                sections.append(Section(int(number), _parts(entries.removesuffix("\n"))))
        elif part:
            sections.append(Section(None, _parts(part)))
    return RequestParts(who, question, tuple(sections))


def _parts(text: str) -> tuple[Statement | str, ...]:
    parts: list[Statement | str] = []
    for line in re.split(NEXT_TEXT, text):
        tagged = re.fullmatch(r"\[([^\[\]]*)\] (.*)", line, re.DOTALL)
        if tagged is None:
            parts.append(_plain(line))
        else:
            name, _, description = tagged[1].partition(", ")
            parts.append(Statement(unescaped(name), unescaped(description), _plain(tagged[2])))
    return tuple(parts)


def _plain(text: str) -> str:
    with suppress(ViewError):
        return unquoted(text)
    return text


def render_task(value: object) -> str | None:
    """Return the text that the input adds to a request, such as the text to be judged; None if there is none."""
    task = getattr(value, "task_for_human", None)
    return task() if callable(task) else None


def render_expected(schema: Mapping[str, Any] | None) -> str:
    """Describe the expected answer in prose, with one line per field in `schema`.

    >>> print(render_expected({"properties": {"winner": {"enum": ["for", "against"]}}, "required": ["winner"]}))
    Answer with these fields:
    - winner: for or against
    """
    if schema is None:
        return TEXT
    definitions = schema.get("$defs", {})
    needed = schema.get("required", ())
    lines = [_FIELDS]
    for name, part in schema.get("properties", {}).items():
        optional = "" if name in needed else " (optional)"
        description = f" - {part['description']}" if part.get("description") else ""
        lines.append(f"- {name}: {kind_of(part, definitions)}{optional}{description}")
    return "\n".join(_lines(line) for line in lines)


def kind_of(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Describe a field's valid values in prose."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        # omit the definition itself; otherwise, a recursive schema would recurse endlessly
        return kind_of(
            definitions.get(name, {}), {key: definition for key, definition in definitions.items() if key != name}
        )
    allowed = part.get("enum") or ([part["const"]] if "const" in part else [])
    if allowed:
        return join_choices(allowed, most=None)
    choices = part.get("anyOf") or part.get("oneOf") or []
    if choices:
        kinds = [kind_of(choice, definitions) for choice in choices if choice.get("type") != "null"]
        text = " or ".join(kinds)
        return f"{text}{',' if ' or ' in text else ''} or null" if len(kinds) < len(choices) else text
    if part.get("type") == "array":
        return f"a list, each {kind_of(part.get('items', {}), definitions)}"
    if part.get("type") == "object" or "properties" in part:
        inner = (f"{name}: {kind_of(field, definitions)}" for name, field in part.get("properties", {}).items())
        return f"{{{', '.join(inner)}}}"
    bounds = [f"{word} {part[key]:g}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in part]
    return " ".join([_KINDS.get(str(part.get("type")), "anything"), *bounds])
