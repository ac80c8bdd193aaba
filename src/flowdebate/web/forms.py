"""Forms for starting a run (derived from its pattern's options) and for giving an answer (derived from its schema)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from flowdebate.blocks.human.prompt import RequestParts, Statement, kind_of, parse_request
from flowdebate.runs.context import escape_path_segment
from flowdebate.runs.suspend import role_in_name
from flowdebate.ui.options import Panel, PlanOptions, option_of
from flowdebate.ui.sections import Entry
from flowdebate.web.run.sheet import Turn, parties_of

if TYPE_CHECKING:
    from flowdebate.patterns import PatternInfo
    from flowdebate.service.state import PendingInput
    from flowdebate.ui.document import Document


Kind: TypeAlias = Literal[
    "text", "long", "number", "mixed", "flag", "choice", "choices", "lines", "numbers", "pairs", "entries", "schema",
    "json", "group",
]  # fmt: skip
"""Kind of input for a field: "long" (long text), "mixed" (text, a number or off), "choice" (one option), "choices"
(several options), "lines" (lines of text), "numbers", "pairs" (names and values), "entries" (items with their own
fields), "schema" (the fields of a schema), "json" (any other value in an answer), or "group" (a group of fields).
"""

_FRONT = ("answer", "model")
"""Options shown at the top of the form in this order, in addition to the question, speakers and material."""
_PANELS: Mapping[str, str] = {"format": "Format", "exclude": "Material", "focus": "Focus"}
"""Groups under which the form lists options, where they differ from the command line's groups."""
_LABELS: Mapping[str, str] = {
    "answer_form": "How the judge answers",
    "attempts": "Attempts for each call",
    "baselines": "Also answer without a debate",
    "crossed_labels": "Cross orders and labels",
    "curtail": "Skip needless ballots",
    "decided_by": "How ballots decide",
    "effort": "Thinking effort",
    "equal": "Budget of self-consistency",
    "exclude": "Files to leave out",
    "fallback": "Fallback models",
    "format": "Choose a format",
    "first": "First speaker",
    "history": "Rounds shown in full",
    "length": "Length of a turn",
    "max_calls": "Most requests",
    "max_cost": "Highest cost",
    "max_rounds": "Rounds",
    "max_seconds": "Most seconds",
    "max_tokens": "Most tokens",
    "max_turns": "Turns",
    "model": "Models",
    "min_log_odds": "Smallest lead",
    "min_vendors": "Fewest vendors",
    "min_votes": "Fewest votes",
    "not_vendor": "Vendors to leave out",
    "on_failure": "If a model fails",
    "on_flip": "If the order changes the verdict",
    "on_invalid": "If nobody is named",
    "output_schema": "Fields of the output",
    "panel": "Panel of judges",
    "profile": "Style of prompts",
    "schedule": "Orders for the judge",
    "source_tokens": "Source tokens",
    "terminate_when": "End early when",
    "turn_timeout": "Most seconds for an answer",
}
"""Labels for options whose names are not self-explanatory."""
_ELSEWHERE = frozenset({"suspend", "continuation", "earlier"})
"""Options omitted from the form because they only make sense in terminals, forks or programs."""
_SPECIAL = frozenset({"humans", "sources"})
_HELP: Mapping[str, str] = {
    "answer": "The answer to check. Default: the author, a model, answers first.",
    "phases": "What the rounds are for, one phase after the other.",
    "output_schema": "Fields of the output; a model fills them in.",
    "effort": "How much models think before they answer. Default: set by each model.",
    "focus": "What reviewers look for, such as security. A reviewer's role says what this one looks for.",
    "weights": "Weights of votes by name, one a line, as Planner=2; a weight that is not given is 1.",
}
"""Help texts that differ from those on the command line."""
_LONG_TEXTS = ("TEXT", "FILE")
"""Placeholders in command-line help that mark options with multi-line text."""
_SCHEMA_TYPES = ("Text", "Number", "Whole number", "Yes or no", "List of texts")
_FLAG = re.compile(r"--([a-z][a-z-]*)")
_REPEATED = re.compile(r"[;,] repeat (?:for each|for more than one|with [^.]*)(?=\.)")
_ONE_LINE: Mapping[str, Mapping[str, Any]] = {"name": {"kind": "text"}, "model": {"kind": "text", "models": True}}
"""Speaker fields shown on a single line."""
_OF_ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "name": {"placeholder": "opening"},
    "rounds": {"placeholder": "1"},
    "asks": {"label": "Cross-examination"},
    "speakers": {"label": "Sides that speak", "placeholder": "1, 3"},
    "aim": {"placeholder": "what the turns are for"},
    "length": {"placeholder": "short"},
}
"""Labels and placeholders (sample values) for the fields of a phase."""
_FEW = 6
"""Maximum number of choices shown individually; longer lists become drop-down lists."""
_NULL = re.compile(r"\bnull\b")
_DEEPEST = 4
"""Maximum nesting depth of a schema shown as fields. Schemas may be recursive, so deeper levels are entered as JSON."""
_SIMPLE = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field in a form."""

    name: str
    """Key of the field in the request body."""
    label: str
    help: str = ""
    kind: Kind = "text"
    choices: tuple[Any, ...] = ()
    """Values to choose from; for a text field, they are only suggestions."""
    required: bool = False
    nullable: bool = False
    """True if the field is sent as null when empty, instead of being omitted."""
    minimum: float | None = None
    maximum: float | None = None
    is_integer: bool = False
    """True if the field takes an integer."""
    value: object = None
    """Initial value of the field."""
    placeholder: str = ""
    """Gray text shown while the field is empty; never sent."""
    explanations: Mapping[str, str] = field(default_factory=dict)
    """Explanations of individual choices."""
    none: str = "Default"
    """Label for the empty choice."""
    flag: str = ""
    """Command-line flag for the option, also used in error messages."""
    models: bool = False
    """True if the field's values are model names."""
    parts: tuple[Field, ...] = ()

    @property
    def few(self) -> bool:
        """Return whether there are few enough choices to show one per line."""
        return len(self.choices) <= _FEW

    @property
    def folds(self) -> bool:
        """Return whether all parts except the first start out collapsed, as in a field with a model for each role."""
        return self.kind == "group" and self.models and len(self.parts) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Form for starting a new run of a pattern."""

    pattern: str
    subject: str
    """Key of the subject, such as "question"."""
    question: str
    """Initial question."""
    example: str = ""
    """Sample question, filled in only when the user asks for it."""
    about_material: str = ""
    """Default question to ask about the material."""
    roster: str = ""
    """Key of the list of speakers."""
    speakers: tuple[tuple[Field, ...], ...] = ()
    """One list of fields per speaker."""
    blank: tuple[Field, ...] = ()
    """Empty fields for an additional speaker."""
    proposes: bool = False
    """True if speakers may be omitted; a model then proposes them unless the question names them."""
    people: tuple[str, ...] | None = None
    """Roles that people can play, in addition to the speakers; None if people cannot take part."""
    front: tuple[Field, ...] = ()
    folded: Mapping[str, tuple[Field, ...]] = field(default_factory=dict)
    """Other options, grouped by panel and initially collapsed."""

    @property
    def body(self) -> dict[str, Any]:
        """Request that would be sent if the form were submitted unchanged."""
        entries = [
            {field_.name: field_.value for field_ in speaker if field_.value is not None} for speaker in self.speakers
        ]
        options = {self.roster: entries} if any(entries) else {}
        return {"pattern": self.pattern, "question": self.question, "options": options}


def form_of(
    info: PatternInfo,
    *,
    question: str = "",
    example: bool = False,
    is_option_allowed: Callable[[type[PlanOptions], str], bool],
) -> Form:
    """Build a built-in pattern's form from its options class; if `example` is set, fill in the pattern's sample.

    If neither `example` nor `question` is set, the sample is shown only as a placeholder, because its sides may not fit
    the user's question.
    """
    page = info.load_page()
    options: type[PlanOptions] = page.options
    schema = options.model_json_schema(by_alias=True)
    folded: dict[str, list[Field]] = {panel: [] for panel in ("Format", "Focus", *get_args(Panel), "Material", "Other")}
    front: list[Field] = []
    for name in options.model_fields:
        # Omit people, who are selected next to the speakers on the page, and options that the server would reject.
        hidden = options.WITHOUT | _ELSEWHERE | _SPECIAL | {info.subject, options.ROSTER}
        if name in hidden or not is_option_allowed(options, name):
            continue
        option = option_of(options, name)
        field = _field(name, schema["properties"][name], schema)
        field = replace(
            field,
            label=_LABELS.get(name, field.label),
            help=_HELP.get(name) or _without_flags(option.help),
            kind="text" if field.kind == "long" and option.metavar not in _LONG_TEXTS else field.kind,
            value=option.on or None,
            flag=options.flag_of(name),
            models=(option.metavar or "").endswith("SPEC"),
        )
        if field.kind == "json":
            field = _without_json(field, schema["properties"][name], schema)
        if option.repeated:
            levels = next(
                (part["enum"] for part in _alternatives(schema["properties"][name], schema) if "enum" in part), ()
            )
            help_text = _HELP.get(name) or (field.help if levels else _IN_FORM)
            parts = (
                _seats_of(options, levels) if levels or field.models else (Field(name="default", label="For everyone"),)
            )
            field = replace(field, kind="group", parts=parts, help=help_text, choices=())
        field = _explained(field)
        if name in _FRONT:
            front.append(field)
        else:
            folded[_PANELS.get(name) or option.panel or "Other"].append(field)
    sample = str(page.sample.get(info.subject, ""))
    blank, entries = _speakers(info, schema, filled=example, placeholders=not question)
    people = tuple(options.PEOPLE) if "humans" in options.model_fields else None
    front.sort(key=lambda field: _FRONT.index(field.name))
    folded["Rounds"].sort(key=lambda field: field.name != options.LENGTH)
    return Form(
        pattern=info.name,
        subject=info.subject,
        question=sample if example else question,
        example="" if example or question else sample,
        about_material=page.question_about_sources or "",
        roster=options.ROSTER if blank else "",
        speakers=entries,
        blank=blank,
        proposes=page.proposes,
        people=people,
        front=tuple(front),
        folded={panel: tuple(fields) for panel, fields in folded.items() if fields},
    )


_IN_FORM = "Optional: provider/model. “each” gives each speaker a model from a different provider."
_CHOICE = r" ?\b{}: "


def _seats_of(options: type[PlanOptions], levels: Sequence[str]) -> tuple[Field, ...]:
    """Build the fields for an option that can be set per seat: one field per role, and one for all other seats.

    The fields are for model names, unless there are `levels` to choose from.
    """
    labels = {"default": "For everyone", **{role: _label(role) for role in options.ROLES}}
    kind: Kind = "choice" if levels else "text"
    parts = (Field(name=name, label=label, kind=kind, choices=tuple(levels)) for name, label in labels.items())
    return tuple(replace(part, models=not levels) for part in parts)


def _explained(field: Field) -> Field:
    """Move the lines about individual choices from a field's help text to its explanations."""
    starts = {choice: match for choice in field.choices if (match := re.search(_CHOICE.format(choice), field.help))}
    if not starts or len(starts) < len(field.choices):
        return field
    first = min(match.start() for match in starts.values())
    ends = sorted([*(match.start() for match in starts.values()), len(field.help)])
    explanations = {
        choice: field.help[match.end() : next(end for end in ends if end > match.start())].strip()
        for choice, match in starts.items()
    }
    if field.name == "format":
        return replace(field, help="", explanations=explanations, none="No format")
    return replace(field, help=field.help[:first].strip(), explanations=explanations)


def _speakers(
    info: PatternInfo, schema: Mapping[str, Any], *, filled: bool, placeholders: bool
) -> tuple[tuple[Field, ...], tuple[tuple[Field, ...], ...]]:
    """Build the empty fields for a speaker, and the fields for each initial speaker.

    The speakers of the pattern's sample are either `filled` in or shown as `placeholders`.
    """
    page = info.load_page()
    options = page.options
    entry = _alternatives(schema["properties"][options.ROSTER], schema)
    items = entry[0].get("items", {}) if entry else {}
    blank = tuple(replace(field, **_ONE_LINE.get(field.name, {})) for field in _parts(items, schema))
    sample = page.sample.get(options.ROSTER)
    if sample and not filled:
        entries = [
            tuple(replace(part, placeholder=str(speaker.get(part.name, "")) if placeholders else "") for part in blank)
            for speaker in sample
        ]
    else:
        speakers = sample or page.default_speakers or [{}] * page.min_speakers
        entries = [tuple(replace(part, value=speaker.get(part.name)) for part in blank) for speaker in speakers]
    return blank, tuple(entries) if blank else ()


def answer_fields(schema: Mapping[str, Any] | None) -> tuple[Field, ...]:
    """Build the fields for an answer: a single unnamed field if the answer is not an object."""
    if schema is None:
        return (Field(name="", label="Your answer", kind="long", required=True),)
    definitions, properties = schema.get("$defs", {}), schema.get("properties", {})
    parts = tuple(
        replace(part, help=f"{part.help} It is {kind_of(properties[part.name], definitions)}.".strip())
        if part.kind == "json"
        else part
        for part in _parts(schema, schema)
    )
    return parts or (replace(_field("", schema, schema), label="Your answer", required=True),)


def _parts(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> tuple[Field, ...]:
    resolved = _resolved(schema, root)
    needed = resolved.get("required", ())
    properties: Mapping[str, Any] = resolved.get("properties", {})
    return tuple(replace(_field(name, part, root, depth), required=name in needed) for name, part in properties.items())


def _field(name: str, part: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Field:
    """Build the field for a value described by the schema `part`."""
    alternatives = _alternatives(part, root)
    field = Field(
        name=name,
        label=_label(name),
        help=_NULL.sub("none", str(part.get("description", _resolved(part, root).get("description", "")))),
        nullable=len(alternatives) < len(_all(part, root)),
    )
    if len(alternatives) == 1:
        return _single(field, alternatives[0], root, depth)
    if all(alternative.get("type") in _SIMPLE for alternative in alternatives) and alternatives:
        return replace(
            field, kind="mixed", choices=tuple(c for alternative in alternatives for c in alternative.get("enum", ()))
        )
    several = [alternative["items"]["enum"] for alternative in alternatives if "enum" in alternative.get("items", {})]
    if several and all(alternative.get("type") in ("array", "boolean") for alternative in alternatives):
        return replace(field, kind="choices", choices=tuple(several[0]))
    return replace(field, kind="json")


def _without_json(field: Field, part: Mapping[str, Any], root: Mapping[str, Any]) -> Field:
    """Replace an option's JSON field with one that is easier for people to fill in."""
    for alternative in _alternatives(part, root):
        items = _resolved(alternative.get("items", {}), root)
        if items.get("type") == "object":
            entries = (replace(part, **_OF_ENTRIES.get(part.name, {})) for part in _parts(items, root, 1))
            return replace(field, kind="entries", parts=tuple(entries))
        if isinstance(alternative.get("additionalProperties"), Mapping):
            return replace(field, kind="pairs")
        if alternative.get("type") == "object":
            parts = (
                Field(name="name", label="Name", required=True),
                Field(name="type", label="Type", kind="choice", choices=_SCHEMA_TYPES, value="Text"),
                Field(name="description", label="Description"),
            )
            return replace(field, kind="schema", parts=parts)
    return field


def _single(field: Field, part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Field:
    choices = part.get("enum") or ([part["const"]] if "const" in part else None)
    if choices:
        return replace(field, kind="choice", choices=tuple(choices))
    match part.get("type"):
        case "string":
            return replace(field, kind="text" if depth else "long")
        case "boolean":
            return replace(field, kind="flag", value=part.get("default"))
        case "integer" | "number" as kind:
            minimum = part.get("minimum", part.get("exclusiveMinimum"))
            is_integer = kind == "integer"
            return replace(field, kind="number", minimum=minimum, maximum=part.get("maximum"), is_integer=is_integer)
        case "array":
            items = _resolved(part.get("items", {}), root)
            lists: Mapping[object, Kind] = {"string": "lines", "integer": "numbers", "number": "numbers"}
            of_items = lists.get(items.get("type"), "json")
            return replace(field, kind="choices" if "enum" in items else of_items, choices=tuple(items.get("enum", ())))
        case _:
            inner = _parts(part, root, depth + 1) if depth < _DEEPEST else ()
            return replace(field, kind="group", parts=inner) if inner else replace(field, kind="json")


def _alternatives(part: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of all possible values except null."""
    return [alternative for alternative in _all(part, root) if alternative.get("type") != "null"]


def _all(part: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    part = _resolved(part, root)
    choices: Iterable[Mapping[str, Any]] = part.get("anyOf") or part.get("oneOf") or [part]
    return [_resolved(choice, root) for choice in choices]


def _resolved(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_DEEPEST):
        if "$ref" not in part:
            break
        part = root.get("$defs", {}).get(str(part["$ref"]).rpartition("/")[2], {})
    return part


def _label(name: str) -> str:
    """Convert a key to words.

    >>> _label("max_calls"), _label("nextSpeakers")
    ('Max calls', 'Next speakers')
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()
    return words[:1].upper() + words[1:]


def _without_flags(help: str) -> str:  # noqa: A002 - as in Option
    """Replace command-line flags in an option's help text with labels.

    >>> _without_flags("Default: that of --model.")
    'Default: that of “Models”.'
    """
    plain = _REPEATED.sub("", help)
    keys = {flag: flag.replace("-", "_") for flag in _FLAG.findall(plain)}
    return _FLAG.sub(lambda match: f"“{_LABELS.get(keys[match[1]], _label(keys[match[1]]))}”", plain)


# Requests to people, as shown on pages: who is asking, the contributions so far, and those since the answer


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request to a human, containing only the information meant for that person."""

    parts: RequestParts
    blind: Mapping[str, str]
    """Letters that stand for the stances if a judge must not see names."""

    @classmethod
    def of(cls, pending: PendingInput) -> OpenRequest:
        """Build the request, hiding names if the recipient has to choose a winner from the speakers' stances."""
        parts = parse_request(pending.shown)
        # Only judges pick a winner from several stances; in other requests, there are no names to hide.
        part = (pending.answer_schema or {}).get("properties", {}).get("winner", {})
        stances: Sequence[str] = next(
            (part_["enum"] for part_ in (part, *part.get("anyOf", ())) if "enum" in part_), []
        )
        # Names are hidden, so use the stance as the tag; it may contain commas.
        parts = replace(
            parts,
            sections=tuple(
                replace(subpart, parts=tuple(_by_stance(part, stances) for part in subpart.parts))
                for subpart in parts.sections
            ),
        )
        spoken = {
            entry.position for section in parts.sections for entry in section.parts if isinstance(entry, Statement)
        }
        if not spoken or not spoken <= set(stances):
            return cls(parts, {})
        letters = [*ascii_uppercase, *map(str, range(len(ascii_uppercase) + 1, len(stances) + 1))]
        return cls(parts, {stance: f"Side {letter}" for stance, letter in zip(stances, letters, strict=False)})


def _by_stance(part: Statement | str, stances: Sequence[str]) -> Statement | str:
    if isinstance(part, Statement):
        tag = f"{part.name}, {part.position}" if part.position else part.name
        return replace(part, name="", position=tag) if tag in stances else part
    return part


def role_title(block: str, pattern: str) -> str:
    """Describe a block's role to the person who plays it.

    >>> role_title("rent-judge", "rent"), role_title("rent-debater-Ann", "rent"), role_title("chair", "rent")
    ('the judge', 'Ann', 'chair')
    """
    role = role_in_name(block, escape_path_segment(pattern))
    if role is None:
        return block
    return block.removeprefix(f"{pattern}-").partition("-")[2] if role in ("debater", "reviewer") else f"the {role}"


def contributions_since(document: Document, answer: object) -> list[Turn]:
    """Return the contributions after `answer`; empty if the document does not contain that answer."""
    parties = parties_of(document)
    entries = [section for section in document.sections() if isinstance(section, Entry)]
    positions = [
        at for at, entry in enumerate(entries) if isinstance(answer, str) and entry.text.strip() == answer.strip()
    ]
    # Use the last match, because an earlier contribution may contain the same words.
    return [
        Turn(number=at + 1, entry=entry, party=parties.get(entry.name), call=None)
        for at, entry in enumerate(entries)
        if positions and at > positions[-1]
    ]
