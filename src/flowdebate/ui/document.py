"""Run documents, written by `--json` and read by `render`."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from flowdebate._text import counted, typed, unknown_choice
from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel
from flowdebate.chassis.registry import find_pattern, load_patterns
from flowdebate.chassis.state import DebateStatus
from flowdebate.errors import BadFile
from flowdebate.measures.courses import AnswerCourse, count_changes
from flowdebate.sources.source import omissions
from flowdebate.ui.files import parse_json, problem_of, read_text
from flowdebate.ui.sections import Entry, Fact, Quoted, Section, failures, incomplete_fact, round_heading, step_cost
from flowdebate.ui.steps import Fork
from flowdebate.ui.text import as_json, cost_text, models_text, time_text

if TYPE_CHECKING:
    from flowdebate.chassis.output import PatternOutput
    from flowdebate.chassis.registry import PatternInfo
    from flowdebate.models.base import Usage


_MEGABYTES = 16
"""Maximum size of a file that `render` reads, in megabytes."""
_LAST = ("models", "remarks", "usage", "cost", "prices", "seconds", "seed", "runId", "fork")
"""Keys that are placed last in a document."""
_STOP_REASONS: Mapping[str, str] = {
    "max_rounds": "the maximum",
    "predicate": "stopped by the application",
}
"""Descriptions of the stop reasons for patterns with rounds."""


class Speaker(WireModel):
    """A speaker in a run."""

    name: str
    role: str | None = None

    @property
    def about(self) -> str:
        """Description to show next to the speaker's name."""
        return self.role or ""


class Side(Speaker):
    """A debater and the position it argues in the run."""

    stance: str

    @property
    def about(self) -> str:
        """Position (and role, if there is one) to show next to the debater's name."""
        return self.stance if self.role is None else f"{self.stance} ({self.role})"


_WHERE_TOLD = Field(exclude_if=lambda count: count is None)


class Tokens(WireModel):
    """Tokens used by a run; a count is None if it is unknown."""

    calls: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: Annotated[int | None, _WHERE_TOLD] = None
    """Number of completion tokens spent on reasoning."""
    cache_written_tokens: Annotated[int | None, _WHERE_TOLD] = None

    @classmethod
    def of(cls, usage: Usage) -> Self:
        return cls(**{name: getattr(usage, name) for name in cls.model_fields})

    @classmethod
    def read(cls, stored: object) -> Self | None:
        """Read an outcome's token counts; return None if they are missing or unreadable."""
        try:
            return cls.model_validate({name: stored.get(name) for name in cls.model_fields})  # type: ignore[attr-defined]
        except (AttributeError, ValidationError):  # an imported run may contain any values
            return None

    def lines(self) -> list[str]:
        """Describe the token counts and the number of calls, one per line."""
        tokens = "unknown"
        if self.prompt_tokens is not None or self.completion_tokens is not None:
            prompt, completion = (
                "unknown" if count is None else f"{count:,}" for count in (self.prompt_tokens, self.completion_tokens)
            )
            cached = f" (cached {self.cached_tokens:,})" if self.cached_tokens else ""
            thought = f" (thinking {self.reasoning_tokens:,})" if self.reasoning_tokens else ""
            tokens = f"prompt {prompt}{cached}, completion {completion}{thought}"
        return [f"Tokens: {tokens}", f"Calls: {self.calls:,}"]


_MODELS = TypeAdapter(dict[str, list[str]])


def read_models(stored: object) -> dict[str, list[str]] | None:
    """Parse the models recorded for a run or an outcome, keyed by seat; return None if they are missing or invalid."""
    try:
        return _MODELS.validate_python(stored)
    except ValidationError:  # an imported run may contain any values
        return None


_REMARKS = TypeAdapter(list[str])


def read_remarks(stored: object) -> list[str] | None:
    """Parse the recorded remarks about a run's calls; return None if they are missing or invalid."""
    try:
        return _REMARKS.validate_python(stored) or None
    except ValidationError:
        return None


class Document(InNotebooks, WireModel):
    """A saved run: how it ended, all contributions, and the usage. Each pattern adds fields of its own."""

    SPEAKERS: ClassVar[str] = "Who spoke"
    """Heading for the list of speakers."""
    ROSTER: ClassVar[str] = "debaters"
    """Name of the field that lists the speakers."""
    UNIT: ClassVar[str] = "argument"
    """Singular noun for a contribution."""
    STOP_REASONS: ClassVar[Mapping[str, str]] = {}
    """Descriptions of the stop reasons specific to the pattern."""
    CHANGING: ClassVar[str | None] = None
    """Noun for the speakers' answers, used in the note on how many changed; None to omit the note."""
    GOES_ON: ClassVar[bool] = False
    """True if a finished run of this pattern can be continued."""
    MEASURED: ClassVar[tuple[str, ...]] = ()
    """Dotted paths of raw output fields that contain durations; replaying a run cannot reproduce them."""
    pattern: str
    format: str | None = None
    """The debate's format; omitted if the pattern does not support formats."""
    status: DebateStatus
    incomplete: str | None = None
    """Line about participants missing from the result; omitted if nobody is missing."""
    error: str | None = None
    """Error message of a failed run, or a description of the limit that ended the run."""
    raw: Any
    models: dict[str, list[str]] | None = None
    """Models used in the run, keyed by seat (a speaker's name or a role); omitted if they were not recorded."""
    remarks: list[str] | None = None
    """Remarks on the calls, such as a note about a setting rejected by a model; omitted if there are none."""
    usage: Tokens | None = None
    cost: float | None = None
    """Cost of the run at configured or known prices; omitted if no prices are available."""
    prices: str | None = None
    """Currency of `cost` and source of the prices, as far as they are known; omitted if neither is known."""
    seconds: float | None = None
    seed: int | None = None
    run_id: str | None = None
    """Run ID in the store; None if the run is not stored."""
    fork: Fork | None = None
    """Relation of a fork to its parent run; omitted if the run is not a fork."""

    @model_validator(mode="after")
    def _set_incomplete(self) -> Self:
        object.__setattr__(self, "incomplete", self.raw.incomplete)  # a file may contain anything
        return self

    def to_data(self) -> dict[str, Any]:
        """Convert the document to JSON data with camelCase keys."""
        optional = ("format", "incomplete", "models", "remarks", "cost", "prices", "fork")
        left_out = {name for name in optional if getattr(self, name) is None}
        value = self.model_dump(mode="json", by_alias=True, exclude=left_out)
        # A subclass's fields come after those of its base class, but readers want to see them before the usage.
        first, last = (key for key in value if key not in _LAST), (key for key in _LAST if key in value)
        return {key: value[key] for key in (*first, *last)}

    def to_json(self) -> str:
        return as_json(self.to_data())

    @classmethod
    def of_raw(cls, value: object) -> Self:
        """Build a document from raw output alone; raise ValidationError if it is invalid."""
        raw: Any = load_patterns()[cls.model_fields["pattern"].default].load_output().model_validate(value)
        return cls.model_validate({"status": raw.status, "raw": raw, "seed": raw.seed})

    @property
    def last_calls(self) -> int:
        """Typical number of calls needed after the last turn to produce the result."""
        return 1

    @property
    def title(self) -> str:
        """Heading for the report, made up of the names of the pattern and the format."""
        format_text = "" if self.format is None else f", {self.format}"
        return f"{self.pattern.capitalize()}{format_text}".replace("_", " ")

    @property
    def label(self) -> str:
        return load_patterns()[self.pattern].subject.capitalize()

    @property
    def subject(self) -> str:
        """The question, topic, proposition or task, depending on the pattern."""
        return str(getattr(self.raw, load_patterns()[self.pattern].subject))

    @property
    def speakers(self) -> list[Any]:
        """Speakers listed in the document; if there are none, those found in its raw output."""
        return getattr(self, self.ROSTER) or self.raw_speakers()

    @property
    def models_line(self) -> str | None:
        """Description of the models used; None if there are no models."""
        return models_text({seat: ", ".join(names) for seat, names in self.models.items()}) if self.models else None

    @property
    def totals(self) -> list[str]:
        """Description of the known totals: tokens, calls, duration and cost."""
        seconds = [] if self.seconds is None else [f"Time: {time_text(self.seconds)}"]
        cost = [] if self.cost is None else [f"Cost: {cost_text(self.cost, self.prices, complete=True)}"]
        return [*([] if self.usage is None else self.usage.lines()), *seconds, *cost]

    def describe_reason(self, reason: str) -> str:
        """Describe a stop reason in words, naming the stop condition if one ended the run."""
        return self.STOP_REASONS.get(reason) or _STOP_REASONS.get(reason) or f"stopped by {reason}"

    @abstractmethod
    def raw_speakers(self) -> list[Any]:
        """Return the speakers found in the raw output."""

    @property
    def notes(self) -> list[str]:
        """List the notes at the end of a page, such as those on changed answers, calls, sources and quotes."""
        changed = None if self.CHANGING is None else changes_note(self.raw, self.CHANGING)
        cut = [
            f"Round {answer.round}: {answer.name} also wrote a turn for {answer.other}, which was removed"
            for answer in self.raw.cut_answers or ()
        ]
        steps = [
            f"Depth {step.name} ({step_cost(step)}): {step.reason or 'continues'}" for step in self.raw.escalation or ()
        ]
        return [*steps, *([] if changed is None else [changed]), *cut, *(self.remarks or ()), *material_notes(self.raw)]

    def quoted(self, index: int) -> tuple[Quoted, ...]:
        """Return the checked quotes in the contribution at `index` in `raw.entries`, with their offsets and sources."""
        # empty if there are no sources, because then no quotes are looked up
        looked_up = (self.raw.quotes or ())[index : index + 1]
        return tuple(
            Quoted(
                start=quote.start,
                end=quote.end,
                source=f"{quote.source}, {quote.page}" if quote.page else quote.source,
            )
            for quotes in looked_up
            for quote in quotes
            if quote.status != "too_short"
        )

    def judging(self) -> Iterator[Fact]:
        """Describe how the result was judged, omitting anything the page already shows."""
        yield from ()

    @property
    @abstractmethod
    def has_result(self) -> bool:
        """Return whether the run has a result."""

    @property
    def holds_gate(self) -> bool:
        """Return whether the result satisfies all rules of the user's gate."""
        return True

    @property
    def contributions(self) -> int:
        """Number of contributions, not counting truncated and empty ones."""
        return sum(entry.flag is None for entry in self.raw.transcript)

    @property
    def ending(self) -> str | None:
        """Description of the run's length and of why it ended; None if there is no stop reason."""
        reason = self.raw.stop_reason
        return None if reason is None else f"Rounds: {self.raw.rounds}, {self.describe_reason(reason)}"

    def about(self) -> Callable[[str, str | None], str]:
        """Return a function that chooses the text shown next to a speaker's name.

        The function returns its argument unchanged, or "" if the page header already shows the text.
        """
        heads = {
            (speaker.name, text)
            for speaker in self.speakers
            for text in (speaker.about, getattr(speaker, "stance", None))
        }
        return lambda name, text: "" if (name, text) in heads else text or ""

    @abstractmethod
    def sections(self) -> Iterator[Section]:
        """Build the sections of the page: all contributions, followed by the result."""

    def result(self) -> Iterator[Section]:
        """Build the sections of the result that a live view cannot derive from events."""
        yield from ()

    def mark(self, answer: object = None) -> Iterator[Section]:
        """Yield the line about missing participants, unless the `answer` shown below already begins with it."""
        fact = incomplete_fact(self.raw.losses)
        if fact is not None and not (isinstance(answer, str) and answer.startswith(f"{fact.label}: {fact.text}")):
            yield fact

    def outcome(self) -> Iterator[Section]:
        """Build the sections shown after the contributions."""
        return self.result()


class RoundsDocument(Document):
    """A saved run of a pattern with rounds."""

    LATE: ClassVar[tuple[str, ...]] = ()
    """Names of the roles that act after the last round."""
    max_rounds: int | None = None

    @property
    def notes(self) -> list[str]:
        """List the notes, including the turn order if it differs from the declared order."""
        order = getattr(self.raw, "turn_order", "declared")  # in a deliberation, all personas speak at once
        return [*([] if order == "declared" else [f"Turn order: {order}"]), *super().notes]

    @abstractmethod
    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Return all contributions, each paired with its round."""

    def phases(self) -> Mapping[int, str | None]:
        """Return the name of each round's phase; empty if the pattern has no phases."""
        return {}

    def opening(self, number: int) -> Iterator[Section]:  # noqa: ARG002 - for the patterns
        """Build the sections shown before a round's contributions."""
        yield from ()

    def closing(self, number: int) -> Iterator[Section]:  # noqa: ARG002 - for the patterns
        """Build the sections shown after a round's contributions."""
        yield from ()

    def rounds(self) -> Iterable[int]:
        return range(1, self.raw.rounds + 1)

    def raw_speakers(self) -> list[Any]:
        spoke = dict.fromkeys((entry.name, entry.about) for _, entry in self.entries())
        return [Speaker(name=name, role=role or None) for name, role in spoke]

    def sections(self) -> Iterator[Section]:
        failed, phases, about_sections = self.raw.losses, self.phases(), self.about()
        entries: dict[int, list[Entry]] = {}
        for index, (number, entry) in enumerate(self.entries()):
            beside = entry.does or about_sections(entry.name, entry.about)
            entries.setdefault(number, []).append(replace(entry, quotes=self.quoted(index), about=beside))
        for number in self.rounds():
            yield round_heading(number, self.max_rounds, phases.get(number))
            yield from self.opening(number)
            yield from entries.get(number, ())
            yield from failures(loss for loss in failed if loss.round == number and loss.role not in self.LATE)
            yield from self.closing(number)
        yield from failures(loss for loss in failed if loss.role in self.LATE)
        yield from self.outcome()


_MAX_SOURCES = 20
"""Maximum number of sources listed individually in the notes."""


def material_notes(raw: PatternOutput) -> list[str]:
    """Build the notes on a run's sources and quotes.

    >>> from flowdebate.patterns.debate.schemas import DebateRawOutput
    >>> material_notes(DebateRawOutput(rounds=1, question="Q?", transcript=[], verdict=None, quotes=[]))
    ['Quotes: none']
    """
    notes, sources = [], [source for source in raw.sources or () if source.left_out is None]
    for source in sources[:_MAX_SOURCES]:
        pages = "" if source.pages is None else f"{counted(source.pages, 'page')}, "
        masked = f", {source.masked}" if source.masked else ""
        notes.append(f"Source: {source.name} ({pages}{source.size:,} bytes, SHA-256 {source.sha256}{masked})")
    if more := len(sources) - _MAX_SOURCES:
        notes += [f"Sources: {more:,} more"] if more > 0 else []
    if raw.passages:
        sources_shown = {passage.source for turn in raw.passages for passage in turn.passages}
        notes.append(
            f"Shown: {len(sources_shown):,} of {counted(len(sources), 'file')}, in the passages that fit each turn best"
        )
    if omitted := omissions(raw.sources or ()):
        rest = f" and {len(omitted) - _MAX_SOURCES:,} more" if len(omitted) > _MAX_SOURCES else ""
        notes.append(f"Left out: {', '.join(omitted[:_MAX_SOURCES])}{rest}")
    if raw.older is not None:
        notes.append(f"History: prompts had a summary of the rounds up to {raw.older.rounds} instead of their text")
    if raw.quotes is not None:
        counts = Counter(quote.status for quotes in raw.quotes for quote in quotes)
        sought = f"{counts['verified']} verified, {counts['unverified']} not found in the sources"
        quote_text = sought if counts["verified"] or counts["unverified"] else "none"
        notes.append(f"Quotes: {quote_text}")
    return notes


def changes_note(raw: PatternOutput, word: str) -> str | None:
    """Describe how many speakers changed their answers; return None if fewer than two speakers answered."""
    voices, changed, adopted = count_changes(  # a missing answer does not count as a change
        AnswerCourse(voices={name: [text for text in texts if text is not None] for name, texts in answers.items()})
        for answers, _ in raw.answer_courses()
    )
    if not voices:
        return None
    to = f", of which {adopted} to another's first answer" if adopted else ""
    return f"Changed {word}: {changed} of {voices}, compared by their words{to}"


def speakers_of(roster: Iterable[Any]) -> list[Any]:
    """Convert debaters to sides, and personas to speakers, for use in pages and documents."""
    return [
        Side(name=member.name, stance=member.stance, role=member.role)
        if hasattr(member, "stance")
        else Speaker(name=member.name, role=member.role)
        for member in roster
    ]


def read_document(path: str) -> Document:
    """Read a document from `path` ("-" for stdin).

    Raw output alone, with snake_case or camelCase keys, is converted to a document. Raises BadFile, naming the invalid
    line or field.
    """
    value = parse_json(read_text(path, megabytes=_MEGABYTES), path=path)
    if not isinstance(value, dict):
        raise BadFile(path, f"must contain a JSON object (got {typed(value)})")
    return document_of(value, location=path)


def document_of(value: Mapping[str, Any], *, location: str) -> Document:
    """Build a document from JSON data for a document or for raw output alone; raise BadFile if a field is invalid."""
    try:
        if "raw" not in value:  # raw output alone does not name its pattern
            return _kind(_nearest(value)).of_raw(value)
        info = find_pattern(value.get("pattern"))
        if info is None:
            raise BadFile(location, unknown_choice("`pattern`", value.get("pattern"), load_patterns()))
        return _kind(info).model_validate({**value, "pattern": info.name})
    except ValidationError as error:
        raise BadFile(location, problem_of(error)) from None
    except RecursionError:  # even a small file can be nested too deeply for pydantic
        raise BadFile(location, "is nested too deeply") from None


def _kind(info: PatternInfo) -> type[Document]:
    kind: type[Document] = info.load_page().document
    return kind


def _nearest(value: Mapping[str, Any]) -> PatternInfo:
    """Find the pattern whose raw output shares the most fields with `value`."""

    def differences(info: PatternInfo) -> int:
        fields = info.load_output().model_fields
        names = {key: name for name, field in fields.items() for key in (name, field.alias or name)}
        needed = {name for name, field in fields.items() if field.is_required()}
        return sum(key not in names for key in value) + len(needed.difference(names.get(key, key) for key in value))

    return min(load_patterns().values(), key=differences)
