"""Pydantic models for plan options, which are read from a plan file and can be overridden by a front end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from flowdebate._text import did_you_mean
from flowdebate._util.option_types import (
    NOTHING,
    Money,
    PlainText,
    Quorum,
    Reach,
    RoundsOrAll,
    Seconds,
    TurnLength,
    Whole,
    choices_of,
    explained,
    is_text,
    problem_of,
    rejected,
)
from flowdebate._util.option_types import Count as Count
from flowdebate._util.option_types import Flag as Flag
from flowdebate._util.option_types import Text as Text
from flowdebate.chassis.seats import DEFAULT
from flowdebate.errors import ConfigurationError, ConflictingOptions
from flowdebate.models.base import Effort
from flowdebate.models.openai.endpoint import ADDRESS, address_of, check_address
from flowdebate.prompts import Profile
from flowdebate.sources.source import Page, Source, is_image, name_problem
from flowdebate.ui.files import read_plan_file

COMMAND = "command line"
"""Location named in errors about command-line options."""
_STORED = "the stored run"
PlanValues: TypeAlias = Mapping[str, JsonValue]
"""Options from a plan file, before validation."""
PlanFile: TypeAlias = str | Mapping[str, Any] | None
"""Plan file, given as its path or its content; None for no file."""


Depth: TypeAlias = Literal["quick", "balanced", "thorough", "auto"]
"""Depth of a run, as a single choice for users who do not know the pattern's options. Each depth takes more calls than
the previous one; "auto" moves on to the next depth only if the deciding members disagree.
"""


def misuse(field: str, got: object, sentence: str) -> ConfigurationError:
    """Create the error for missing or incompatible front-end options; `sentence` is the complete error message."""
    return ConfigurationError(COMMAND, field, got, message=sentence)


# Types used only by front ends; those shared with the Python API are in `_util/option_types.py`


def _address(value: str) -> str:
    check_address(COMMAND, "base_url", value)
    return value


def _condition(value: str) -> str:
    from flowdebate.stop import parse

    try:
        parse(value, flags=False)
    except ConfigurationError as error:
        raise rejected(f"{error.problem} ({error.hint})" if error.hint else error.problem) from None
    return value


Table = Annotated[dict[str, Any], NOTHING]
Conditions = Annotated[str, NOTHING, AfterValidator(_condition)]
ModelName = Annotated[PlainText, Reach("model"), explained("must be a model name")]
SeatModels = Annotated[
    PlainText | dict[PlainText, PlainText],
    Reach("model"),
    explained('must be a model name, "each", or a table of model names by speaker or role'),
]
SeatEfforts = Annotated[
    Effort | dict[PlainText, Effort],
    NOTHING,
    explained("must be low, medium or high, or a table of these by speaker or role"),
]
ModelNames = Annotated[list[PlainText], Reach("model"), explained("must be a list of model names")]
# Nine digits are enough for prices, and a float can represent them exactly.
PRICE = re.compile(r"(?:(?P<model>.+)=)?(?P<prompt>\d{1,9}(?:\.\d+)?)/(?P<completion>\d{1,9}(?:\.\d+)?)")
_PRICE = "must be prices per million tokens, such as 0.25/2 or MODEL=0.25/2"
PriceTexts = Annotated[list[Annotated[str, Field(pattern=f"^{PRICE.pattern}$")]], NOTHING, explained(_PRICE)]
_WEIGHED = r"^[^=]*[^=\s][^=]*(=\d{1,4}(\.\d{1,9})?)?$"
Criterion = Annotated[str, Field(pattern=_WEIGHED), NOTHING, explained("must be NAME or NAME=WEIGHT")]
FilePath = Annotated[PlainText, Reach("file"), explained("must be the path of a file")]
Address = Annotated[PlainText, Reach("server"), AfterValidator(_address), explained(ADDRESS)]


def or_off(text: str) -> float | str | bool:
    """Parse a number from the command line; "off" is parsed as False."""
    try:
        return False if text == "off" else float(text)
    except ValueError:
        return text


def read_models(value: object, flag: str = "--model", word: str = "MODEL") -> Any:  # noqa: ANN401 - or what a file says already
    """Parse a plan's `model` option from the command line: [NAME|ROLE=]MODEL, given once or several times.

    Two or more values without a seat form a list.

    >>> read_models(["local"]), read_models(["openai/gpt-5", "judge=gemini/flash"])
    ('local', {'default': 'openai/gpt-5', 'judge': 'gemini/flash'})
    >>> read_models(["openai/gpt-5", "gemini/flash", "chair=local"])
    {'default': ['openai/gpt-5', 'gemini/flash'], 'chair': 'local'}
    """
    if not isinstance(value, (list, tuple)):
        return value
    models: dict[str, str | list[str]] = {}
    for text in value:
        before, sign, after = (part.strip() for part in text.partition("="))
        seat, model = (before, after) if sign else ("", before)
        if not model or (sign and not seat):
            raise ConfigurationError(COMMAND, flag, text, f"must be {word}, NAME={word} or ROLE={word}")
        if not seat and DEFAULT in models:
            before = models[DEFAULT]
            models[DEFAULT] = [*(before if isinstance(before, list) else [before]), model]
        elif seat in models:
            raise ConfigurationError(
                COMMAND,
                flag,
                text,
                f"may be given only once per speaker or role, but {seat} already has {models[seat]}",
            )
        else:
            models[seat or DEFAULT] = model
    return models[DEFAULT] if [*models] == [DEFAULT] else models


def read_by_seat(value: object, flag: str, word: str) -> Any:  # noqa: ANN401 - as `read_models`
    """Parse an option as `read_models` does, but accept only one value without a seat."""
    values = read_models(value, flag, word)
    of_all = values.get(DEFAULT) if isinstance(values, dict) else values
    if isinstance(of_all, list) and isinstance(value, (list, tuple)):
        problem = f"may be given only once without a name, but {of_all[0]} is already the default"
        raise ConfigurationError(COMMAND, flag, of_all[1], problem)
    return values


def read_efforts(value: object) -> object:
    """Parse a plan's `effort` option from the command line, in the same way as `model`.

    >>> read_efforts(["low", "judge=high"])
    {'default': 'low', 'judge': 'high'}
    """
    return read_by_seat(value, "--effort", "LEVEL")


def join_models(before: object, after: object) -> object:
    """Merge another value into a plan's `model` option; models for seats replace only the models in those seats.

    >>> join_models("local", {"judge": "openai/gpt-5"}), join_models({"judge": "openai/gpt-5"}, "local")
    ({'default': 'local', 'judge': 'openai/gpt-5'}, 'local')
    """
    if not isinstance(after, Mapping) or DEFAULT in after or before is None:
        return after
    return {**(before if isinstance(before, Mapping) else {DEFAULT: before}), **after}


def format_length(length: str) -> int | str:
    """Convert a length to its command-line form: a number of words, or a name."""
    return int(length) if length.isdecimal() else length


Panel: TypeAlias = Literal[
    "Selection",
    "Answers",
    "Sides",
    "Rounds",
    "Judge",
    "Model",
    "Prompts",
    "Limits",
    "Budget of all runs",
    "Storage",
    "Output",
]
"""Option groups on a help page, in display order."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """Metadata for a field that front ends present as an option.

    Commands declare their own options as `Annotated[Count, Option(help="…")]`.
    """

    help: str
    panel: Panel | None = None
    """Group under which the help page lists the option; None for options specific to one command."""
    flag: str | None = None
    """Command-line flag, if it differs from the field's name; "--yes -y" adds a short form, and "" means no flag."""
    metavar: str | None = None
    repeated: bool = False
    """True if the option may be given several times although its type is not a list; `read` then receives
    all values.
    """
    read: Callable[[Any], Any] | None = None
    """Function that converts a command-line value to plan file format."""
    on: bool = False
    """Default value of an on/off flag."""


def option(help: str, **settings: Any) -> Any:  # noqa: A002, ANN401 - as in Option; a field
    """Create an optional field, presented by front ends as an option; further arguments are passed to `Option`.

    For example, `max_rounds: Count | None = option("Maximum number of rounds.", panel="Rounds")`. An option is declared
    only once, in its field. Its flag, its key in a plan file, its validation, and its entries in the help, the form,
    and the HTTP and MCP arguments are all derived from it.
    """
    field: Any = Field(default=None)
    field.metadata.append(Option(help=help, **settings))  # pydantic stores `Annotated` metadata here
    return field


def option_of(model: type[BaseModel], name: str) -> Option:
    """Return a field's `Option`."""
    return next(item for item in model.model_fields[name].metadata if isinstance(item, Option))


# Speakers in plan files


class RosterEntry(BaseModel):
    """A speaker's entry in a plan file."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, defer_build=True)


class PersonaEntry(RosterEntry):
    """Entry for a speaker without an assigned position; a bare model name is short for `{"model": …}`."""

    name: Text | None = Field(default=None, description="Default: the name of its model.")
    role: Text | None = None
    system_prompt: Text | None = None
    model: ModelName | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_model(cls, value: object) -> object:
        """Convert a model name to an entry."""
        return {"model": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        if self.name is None and self.model is None:
            raise rejected("must be a model name, or a table with a `name` or `model` key")
        return self


_ABOUT = {"size", "sha256", "masked", "left_out", "unread", "excluded", "commits"}


def _image(value: str) -> str:
    if not is_image(value):
        raise rejected("must be an image encoded as a data URL")
    return value


class SourceEntry(RosterEntry):
    """Entry for a source in a stored plan, needed if there is more to store than the source's text."""

    text: Text | None = None
    image: Annotated[str, NOTHING, AfterValidator(_image)] | None = None
    """Image encoded as a data URL."""
    pages: Annotated[dict[str, Annotated[int, Field(ge=0)]], NOTHING] | None = None
    """Start offset of each page within the text, keyed by page name."""
    size: Annotated[int, Field(ge=0)] = 0
    sha256: Annotated[str, NOTHING, Field(pattern="^([0-9a-f]{64})?$")] = ""
    masked: Text | None = None
    """Note about secrets masked in the source."""
    left_out: Text | None = None
    """Reason why a file was not read."""
    unread: Text | None = None
    """Content skipped when a document was read, such as "2 pictures"."""
    excluded: bool = False
    """True if the source was excluded by one of the user's glob patterns."""
    commits: Text | None = None
    """Commits compared by a diff; the second may be the working tree."""

    @classmethod
    def of(cls, source: Source) -> Self | str:
        """Build the entry for a source; return only its text if there is nothing else to store."""
        if source == Source.of(source.name, source.text):
            return source.text
        pages = {page.name: page.start for page in source.pages} or None
        metadata = source.model_dump(include=_ABOUT)
        return cls(text=source.text or None, image=source.image, pages=pages, **metadata)

    @classmethod
    def of_stored(cls, value: object) -> object:
        """Read an entry in a stored plan; any string counts as the source's text.

        Other values are returned unchanged and left to validation.

        >>> SourceEntry.of_stored("data:text/html;base64,QQ==").text
        'data:text/html;base64,QQ=='
        """
        with suppress(ValidationError):
            return cls.model_validate({"text": value} if isinstance(value, str) else value)
        return value

    def source(self, name: str) -> Source:
        if not self.sha256 and self.left_out is None:
            return Source.of(name, self.text or "")
        pages = tuple(Page(start=start, name=page) for page, start in (self.pages or {}).items())
        metadata = self.model_dump(include=_ABOUT)
        return Source(name=name, text=self.text or "", image=self.image, pages=pages, **metadata)


MAX_SOURCES = 1_000
"""Maximum number of sources in a plan; each source adds a line to every prompt."""


def _check_sources(value: object) -> object:
    """Reject too many sources, invalid names, and tables; in a table, users could set a source's computed fields."""
    problem = None
    if isinstance(value, (list, dict)) and len(value) > MAX_SOURCES:
        problem = f"must have at most {MAX_SOURCES:,} entries"
    for name, entry in value.items() if isinstance(value, dict) else ():
        if isinstance(entry, dict):
            keys = ", ".join(f"`{key}`" for key in entry if key != "text")
            problem = f"must map each name to text or a data URL, but `{name}` is a table"
            problem += f" with {keys}, which cannot be set" if keys else ""
        elif isinstance(name, str) and (must := name_problem(name)) is not None:
            problem = f"has a source with an invalid name: it {must}"
    if problem is not None:
        raise rejected(problem)
    return value


Globs = Annotated[list[PlainText], NOTHING, explained("must be a list of glob patterns")]
Sources = Annotated[
    list[FilePath] | dict[str, Text | SkipJsonSchema[SourceEntry]],
    explained('must be a list of paths ("-" is stdin, NAME=FILE sets a name), or a table of non-blank texts by name'),
    BeforeValidator(_check_sources),
]


def roster_option(flag: str, help: str, *, key: str = "role", needed: bool = False) -> Any:  # noqa: A002, ANN401 - as in option
    """Create the option for a roster; `flag` is given once per speaker (see `parse_entry`)."""
    metavar = f"NAME={key.upper()}" if needed else f"NAME[={key.upper()}]"

    def read(texts: list[str]) -> list[dict[str, str]]:
        return [parse_entry(text, flag, key=key, needed=needed) for text in texts]

    return option(help, flag=flag, panel="Sides", metavar=metavar, read=read)


def parse_entry(text: str, option: str, *, key: str = "role", needed: bool = False) -> dict[str, str]:
    """Parse a speaker from the command line: a name and one other field, which is optional unless `needed`.

    >>> parse_entry("Ada = an economist", "--agent"), parse_entry("Ben", "--agent")
    ({'name': 'Ada', 'role': 'an economist'}, {'name': 'Ben'})
    """
    name, sign, value = (part.strip() for part in text.partition("="))
    if not is_text(name) or (not is_text(value) if sign else needed):
        raise ConfigurationError(
            COMMAND, option, text, f"must be NAME={key.upper()}" if needed else f"must be NAME or NAME={key.upper()}"
        )
    return {"name": name, key: value} if sign else {"name": name}


# Options shared by all patterns


class PlanOptions(BaseModel):
    """Options shared by all patterns; each pattern adds its own, and rejects any shared options it does not use."""

    # strict: `rounds = "2"` in a file is a mistake; defer_build: listing the commands needs no validators
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, populate_by_name=True, defer_build=True
    )
    SUBJECT: ClassVar[str] = ""
    """Name of the subject field."""
    ROSTER: ClassVar[str] = "debaters"
    """Name of the field listing the speakers."""
    LENGTH: ClassVar[str] = "max_rounds"
    """Name of the field limiting the run's length."""
    WITHOUT: ClassVar[frozenset[str]] = frozenset()
    """Names of the shared fields that the pattern does not use."""
    PEOPLE: ClassVar[tuple[str, ...]] = ()
    """Roles, besides the speakers, that humans can play."""
    SPEAKER: ClassVar[str] = "debater"
    """Name of the role played by the speakers."""
    ROLES: ClassVar[tuple[str, ...]] = ()
    """Roles other than the speakers; a role with a field of the same name exists only if that field is enabled."""

    model: SeatModels | None = option(
        '"local", or "provider/model" such as "openai/gpt-5-mini"; repeat with NAME= or ROLE= to set the '
        'model of one speaker or role, such as judge. "each" assigns a different provider to each. Default: '
        "FLOWDEBATE_MODEL, else a small model of the first provider with a key, else the model of a server "
        "on this machine, else the local model if installed.",
        panel="Model",
        metavar="[NAME=]SPEC",
        repeated=True,
        read=read_models,
    )
    effort: SeatEfforts | None = option(
        "How much models think before they answer: low, medium or high; repeat with NAME= or ROLE=, such as "
        "judge=high. Default: set by each model.",
        panel="Model",
        metavar="[NAME=]LEVEL",
        repeated=True,
        read=read_efforts,
    )
    base_url: Address | None = option(
        "OpenAI-compatible server, up to and including /v1. --model is then the model's name on that "
        "server; the key is OPENAI_API_KEY, or that of the provider whose server it is.",
        panel="Model",
        metavar="URL",
    )
    profile: Profile | None = option(
        'Default prompts: "concise" for small models, "full" for others. Default: set by each model.',
        panel="Prompts",
    )
    length: TurnLength | None = option(
        "Length of a turn: short, medium, long, or a number of words from 10 to 2000. Default: short with "
        "concise prompts, medium with full ones.",
        panel="Prompts",
        metavar="LENGTH",
        read=format_length,
    )
    instructions: Text | None = option(
        "Instructions for all models, before the rules of their prompts.", panel="Prompts", metavar="TEXT"
    )
    terminate_when: Conditions | None = option(
        "Condition that ends the rounds early, composed of tokens(N), seconds(S), rounds(N), "
        'converged(SHARE), repeated(SHARE) with |, & and ~: "tokens(20000) | seconds(120) & rounds(2)".',
        panel="Limits",
        metavar="CONDITION",
    )
    sources: Sources | None = option(
        "File or folder to quote from, - for stdin, or NAME=FILE; repeat for each. Quotes are checked against it.",
        panel="Sides",
        flag="--source",
        metavar="[NAME=]FILE",
    )
    diff: FilePath | None = option(
        "Show changes of the git repository here. main..HEAD: what the branch changed since it left main; "
        "main: the same with uncommitted changes. Without a value: uncommitted changes.",
        panel="Sides",
        metavar="[BASE..HEAD]",
    )
    exclude: Globs | None = option(
        "Files to leave out of diffs, folders and gates, as a glob such as *.lock; repeat for each.",
        panel="Sides",
        metavar="GLOB",
    )
    source_tokens: Count | None = option(
        "Maximum number of source tokens in a prompt; from longer sources, each turn gets the most relevant "
        "passages. Default: a quarter of the model's context, or 32000 if that is unknown.",
        panel="Limits",
        metavar="N",
    )
    history: RoundsOrAll | None = option(
        "Number of recent rounds that prompts show in full, with a summary of older ones; or all. Default: all.",
        panel="Prompts",
        metavar="ROUNDS",
        read=format_length,
    )
    depth: Depth | None = option(
        "Depth of the run: quick, balanced (the default) or thorough; auto starts quick and goes deeper if those who "
        "decide disagree. Other options override it.",
        panel="Rounds",
    )
    seed: Whole | None = option("Seed for reproducible random choices.")
    max_calls: Count | None = option("Maximum number of requests.", panel="Limits", metavar="N")
    max_tokens: Count | None = option("Maximum number of tokens.", panel="Limits", metavar="N")
    max_seconds: Seconds | None = option(
        "Maximum time. A run that reaches a limit ends with what it has.", panel="Limits", metavar="S"
    )
    max_cost: Money | None = option(
        "Maximum cost: in US dollars, or in the currency of --price.", panel="Limits", metavar="AMOUNT"
    )
    price: PriceTexts | None = option(
        "Price per million prompt tokens and per million completion tokens, such as 0.25/2. Repeat with "
        "MODEL= for models with different prices. Default: known prices, if genai-prices is installed.",
        panel="Limits",
        metavar="[MODEL=]IN/OUT",
    )
    attempts: Count | None = option("Maximum number of attempts for each call. Default: 3.", panel="Model", metavar="N")
    fallback: ModelNames | None = option(
        "Model to ask if the first one fails; repeat for more than one.", panel="Model", metavar="SPEC"
    )
    on_failure: Literal["fail", "skip"] | None = option(
        "Fail the run if a model fails for good, or continue without its answer. Default: panels continue without a "
        "member and debates without a judge; everything else fails.",
        panel="Model",
    )
    quorum: Quorum | None = option(
        "Minimum number of members that must answer for the run to continue without the others. Default: 2.",
        panel="Model",
        metavar="N",
    )
    record: FilePath | None = option("Record all answers in a new file, for --replay.", panel="Storage", metavar="FILE")
    replay: FilePath | None = option(
        "Take all answers from a recording instead of models; needs the same options and seed.",
        panel="Storage",
        metavar="FILE",
    )

    _file: str = PrivateAttr(default=_STORED)
    _of_file: frozenset[str] = PrivateAttr(default=frozenset())

    @classmethod
    def names(cls) -> list[str]:
        """Return the field names, which are also the keys of a plan file."""
        return [name for name in cls.model_fields if name not in cls.WITHOUT]

    @classmethod
    def flag_of(cls, name: str) -> str:
        """Return a field's command-line flag, or the field's name if it has no flag."""
        if name == cls.SUBJECT:
            return name.upper()
        flag = option_of(cls, name).flag
        return name if flag == "" else flag or f"--{name.replace('_', '-')}"

    @classmethod
    def read(cls, values: Mapping[str, Any], *, file: PlanFile = None, location: str | None = None) -> Self:
        """Merge options from a front end (None if not set) with those in a plan file.

        Invalid options raise ConfigurationError or BadFile, naming either the option or the file and the key.
        `location` describes the plan's origin if it was not read from a file.
        """
        location = file if isinstance(file, str) else location or _STORED
        content = read_plan_file(file) if isinstance(file, str) else dict(file or {})
        content.pop("pattern", None)  # already read by `flowdebate run`
        keys = cls.names()
        for key, value in content.items():
            if key not in keys:
                raise unknown_key(location, key, value, keys)
        of_file = cls._list_members({key: value for key, value in content.items() if value is not None}, location)
        # A repeatable option is [] if it does not appear on the command line.
        over = {key: value for key, value in values.items() if value is not None and value != []}
        over = {
            key: value if (read := option_of(cls, key).read) is None else read(value) for key, value in over.items()
        }
        over = cls._list_members(over, COMMAND)
        for key in {"model", "effort"} & over.keys():
            over[key] = join_models(of_file.get(key), over[key])
        try:
            options = cls.model_validate({**of_file, **over})
        except ValidationError as error:
            raise cls._refused(error, location, over) from None
        options._file = location  # noqa: SLF001 - its own
        options._of_file = frozenset(of_file).difference(over)  # noqa: SLF001 - its own
        return options

    @classmethod
    def lists_models(cls) -> bool:
        """Return whether the roster may be a list of models, each standing for a speaker without a position."""
        entry = _entry_model(cls.model_fields[cls.ROSTER].annotation)
        return entry is not None and issubclass(entry, PersonaEntry)

    @classmethod
    def _list_members(cls, options: dict[str, Any], location: str) -> dict[str, Any]:
        """Convert a list of models in `options` to a roster with one member per model, named after it."""
        models = options.get("model")
        seats = models if isinstance(models, dict) else {DEFAULT: models}
        if not isinstance(listed := seats.get(DEFAULT), list):
            return options
        field, place = cls.ROSTER, cls.flag_of("model") if location == COMMAND else "model"
        if not cls.lists_models():
            problem = f"must be a single model: assign models to a {cls.SPEAKER} with NAME=MODEL"
            raise ConfigurationError(location, place, listed, problem)
        if field in options:
            problem = f"must be a single model if `{field}` is set"
            raise ConfigurationError(location, place, listed, problem)
        rest = {seat: model for seat, model in seats.items() if seat != DEFAULT}
        remaining = {key: value for key, value in options.items() if key != "model"}
        return {**remaining, field: listed, **({"model": rest} if rest else {})}

    @classmethod
    def _refused(cls, error: ValidationError, location: str, over: Mapping[str, Any]) -> ConfigurationError:
        # A misspelled key causes two errors, one for an unknown key and one for a missing key. Reporting the unknown
        # key is more helpful.
        problems: Any = error.errors()
        problem = next((entry for entry in problems if entry["type"] == "extra_forbidden"), problems[0])
        first, *rest = problem["loc"]
        name = str(first)
        field = cls.flag_of(name) if name in over else name
        field += "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)
        location = COMMAND if name in over else location
        entry = _entry_model(cls.model_fields[name].annotation)
        fields = {} if entry is None else entry.model_fields
        if problem["type"] == "extra_forbidden":
            return unknown_key(location, field, problem["input"], list(fields), key=str(rest[-1]))
        got = None if problem["type"] == "missing" else problem["input"]
        if name == "base_url" and isinstance(got, str):
            got = address_of(got)  # hides the password
        needed = tuple(key for key, option in fields.items() if option.is_required()) or tuple(fields)[:1]
        return ConfigurationError(location, field, got, problem_of(problem, needed), choices=choices_of(problem))

    @property
    def roles(self) -> list[str]:
        """Roles, besides the speakers, in a run with these options."""
        return [role for role in self.ROLES if self._has(role)]

    def _has(self, role: str) -> bool:
        if role not in type(self).model_fields:
            return True
        value = getattr(self, role)
        return option_of(type(self), role).on if value is None else bool(value)

    def stored(self) -> dict[str, Any]:
        """Return all values that were set, in plan file format."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)

    def from_file(self, name: str) -> bool:
        """Return whether the field's value comes from the plan file."""
        return name in self._of_file

    def reached(self, *kinds: Literal["file", "server", "model"]) -> dict[str, list[str]]:
        """Return the paths, URLs and models named in the plan file, keyed by field.

        Ambiguous text counts as all three.
        """
        reaching: dict[str, list[str]] = {}
        for name, field in type(self).model_fields.items():
            if self.from_file(name):  # the other values were typed by the user, who may refer to any file
                texts = _texts(field.annotation, getattr(self, name), _reach(field.metadata))
                reaching[name] = [text for text, reach in texts if reach is None or reach.of in kinds]
        return {name: texts for name, texts in reaching.items() if texts}

    @classmethod
    def reaches(cls, name: str) -> frozenset[str]:
        """Return what a field's values can refer to: "nothing", "file", "server" or "model"."""
        field = cls.model_fields[name]
        return frozenset(_reaches(field.annotation, _reach(field.metadata)))

    def is_of_file(self, names: Iterable[str]) -> bool:
        """Return whether one of `names` is the plan file's path relative to one of the folders above it."""
        spellings = {path.as_posix() for path in (Path(self._file).absolute(), Path(self._file).resolve())}
        return bool(self._of_file) and any(path.endswith(f"/{name}") for name in names for path in spellings)

    def folder(self, name: str) -> Path:
        """Return the base folder for a field's relative paths."""
        return Path(self._file).parent if self.from_file(name) else Path()

    def place(self, name: str) -> tuple[str, str]:
        """Return where the user set a field, or could have set it, and what the field is called there."""
        if self.from_file(name):
            return self._file, name
        return COMMAND, self.flag_of(name)

    def replaced(self, **fields: object) -> Self:
        """Return a copy of these options with some values replaced."""
        copied = self.model_copy(update=fields)
        copied._file, copied._of_file = self._file, self._of_file  # noqa: SLF001 - its own
        return copied

    @contextmanager
    def placing(self, names: Mapping[str, str] | None = None) -> Iterator[None]:
        """Replace option names with flags or plan file keys in errors raised within the `with` block.

        `names` maps the pattern's argument names to option names where they differ.
        """
        names = names or {}
        try:
            yield
        except ConflictingOptions as error:
            field_names = [name for name in error.options if name in type(self).model_fields]
            typed = [name for name in field_names if getattr(self, name) is not None and not self.from_file(name)]
            read = [name for name in field_names if self.from_file(name)]
            by_flag = typed if read else field_names
            spelled = {name: self.flag_of(name) for name in by_flag}
            raise error.at(COMMAND if typed or not read else self._file, spelled) from None
        except ConfigurationError as error:
            first = re.split(r"\W", error.field, maxsplit=1)[0]  # `debaters` in `debaters[0].name`
            name = names.get(first, first)
            if name not in type(self).model_fields or error.location in (COMMAND, self._file) or error.whole_message:
                raise
            location, field = self.place(name)
            rest = error.field.removeprefix(first)
            raise error.moved(location, f"{field}{rest}") from None


class OutputOptions(PlanOptions):
    """Options for patterns with an optional synthesizer."""

    output_schema: Annotated[Table | FilePath, explained("must be a JSON Schema, or the path of one")] | None = option(
        "File with a JSON Schema for the synthesizer's output.",
        panel="Output",
        metavar="FILE",
    )
    synthesizer: Flag | None = option(
        "A synthesizer writes the output at the end. Default: on.", panel="Output", on=True
    )

    @property
    def synthesizes(self) -> bool:
        """Return whether the pattern has a synthesizer; by default, it does."""
        return self.synthesizer is not False


def _texts(kind: Any, value: Any, reach: Reach | None) -> Iterator[tuple[str, Reach | None]]:  # noqa: ANN401 - any type
    """Find the strings in `value`, and determine from the type `kind` what each of them may refer to."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _texts(parts[0], value, _reach(parts[1:]) or reach)  # the innermost type takes precedence
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _texts(part, value, reach)
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _texts(field.annotation, getattr(value, name), _reach(field.metadata))
    elif isinstance(value, (list, dict)) and (kind is Any or origin is type(value)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(parts[-1] if parts else Any, item, reach)
    elif isinstance(value, str) and kind in (str, Any):
        yield value, reach


def _reaches(kind: Any, reach: Reach | None) -> Iterator[str]:  # noqa: ANN401 - any type
    """Return what values of type `kind`, or of the types it contains, may refer to."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _reaches(parts[0], _reach(parts[1:]) or reach)
    elif origin in (Union, UnionType, list):
        for part in parts:
            yield from _reaches(part, reach)
    elif kind is not NoneType:
        yield "nothing" if reach is None else reach.of


def _reach(metadata: Iterable[Any]) -> Reach | None:
    return next((item for item in metadata if isinstance(item, Reach)), None)


def _entry_model(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _entry_model(part)) is not None), None)


def unknown_key(
    location: str, field: str, value: object, keys: list[str], *, key: str | None = None
) -> ConfigurationError:
    """Return the error for an unknown option key, suggesting a similar one."""
    unknown = field if key is None else key
    hint = did_you_mean(unknown, keys, form="`{}`") or f"Valid keys: {', '.join(keys)}."
    return ConfigurationError(location, field, value, message=f"{location}: unknown key `{field}`. {hint}")
