"""What is to be debated, by whom and with which models: the options of the command, over those of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate.cli.files import parse_json, parse_toml, read_text
from flowdebate.cli.sides import default_sides
from flowdebate.errors import BadFile, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.roster import Debater
    from flowdebate.runs.limits import Limits

__all__ = ("Plan", "make_plan", "parse_side", "read_debate_file")

_COMMAND = "command line"
_MEGABYTES = 1
"""Of a debate file, and of a schema."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a debate is made of."""

    question: str
    debaters: tuple[Debater, ...]
    rounds: int
    moderator: bool
    models: Mapping[str, Model | str] | None
    """By intent; None leaves it to the environment."""
    schema: OutputSchema | None
    synthesize: bool
    instructions: str | None
    seed: int | None
    limits: Limits | None
    skips: bool
    """Whether the debate goes on without what a provider loses."""
    policies: Policies


@dataclass(frozen=True, kw_only=True)
class Policies:
    """What is put around the models."""

    attempts: int | None = None
    """How often a call is made at most; None leaves it to the model."""
    fallback: tuple[Model | str, ...] = ()
    """Models that are asked when the first one fails."""
    record: str | None = None
    """The file that answers are written to."""
    replay: str | None = None
    """The file that answers are read from, instead of asking."""

    @property
    def are_none(self) -> bool:
        """Whether the models are asked as they are."""
        return self.attempts is None and not self.fallback and self.record is None and self.replay is None


@dataclass(frozen=True)
class _Key:
    fits: Callable[[Any], bool]
    allowed: str
    option: str | None = None
    """What the command line calls it; None where it has no such option."""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.encode(errors="replace").decode() == value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


_TEXT = "text that is not blank"
_COUNT = "an int >= 1"
_KEYS = {
    "question": _Key(_is_text, _TEXT, "QUESTION"),
    "debaters": _Key(lambda value: isinstance(value, list), "a list of tables with name and stance", "--debater"),
    "rounds": _Key(_is_count, _COUNT, "--rounds"),
    "moderator": _Key(lambda value: isinstance(value, bool), "true or false", "--moderator"),
    "model": _Key(_is_text, "the name of a model", "--model"),
    "judge_model": _Key(_is_text, "the name of a model", "--judge-model"),
    "base_url": _Key(
        lambda value: _is_text(value) and value.startswith(("http://", "https://")),
        "an address that begins with http:// or https://",
        "--base-url",
    ),
    "schema": _Key(
        lambda value: _is_text(value) or isinstance(value, dict), "a JSON Schema, or the path of one", "--schema"
    ),
    "synthesize": _Key(lambda value: isinstance(value, bool), "true or false", "--synthesize"),
    "instructions": _Key(_is_text, _TEXT),
    "seed": _Key(_is_int, "an int", "--seed"),
    "max_calls": _Key(_is_count, _COUNT, "--max-calls"),
    "max_tokens": _Key(_is_count, _COUNT, "--max-tokens"),
    "max_seconds": _Key(_is_seconds, "a number of seconds > 0", "--max-seconds"),
    "attempts": _Key(_is_count, _COUNT, "--attempts"),
    "fallback": _Key(
        lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of names of models", "--fallback"
    ),
    "on_failure": _Key(lambda value: value in ("fail", "skip"), "'fail' or 'skip'", "--on-failure"),
    "record": _Key(_is_text, "the path of a file", "--record"),
    "replay": _Key(_is_text, "the path of a file", "--replay"),
}
_SIDE_KEYS = {
    "name": _Key(_is_text, _TEXT),
    "stance": _Key(_is_text, _TEXT),
    "role": _Key(_is_text, _TEXT),
    "model": _Key(_is_text, "the name of a model"),
}


def make_plan(options: Mapping[str, Any], *, file: str | None = None) -> Plan:
    """The plan of what was given on the command line (None: not given), over what `file` says.

    ConfigurationError or BadFile for what cannot be debated; it names the option, or the file and the key.
    """
    given = _Given(options, {} if file is None else read_debate_file(file), file)
    if given["question"] is None:
        allowed = f'{_TEXT}: give it as an argument, or as "question" in --file'
        raise ConfigurationError(_COMMAND, "QUESTION", None, allowed)
    question = str(given["question"])
    schema = _schema(given)
    synthesize = given["synthesize"]
    if schema is not None and synthesize is False:
        raise ConfigurationError(*given.place("synthesize"), False, "left out where there is a schema")  # noqa: FBT003
    base_url = given["base_url"]
    if base_url is not None and given["model"] is None:
        raise ConfigurationError(*given.place("model"), None, f"the model's name as the server at {base_url} has it")
    made: dict[str, Model | str] = {}

    def model(key: str) -> Model | str | None:
        return None if given[key] is None else _model(given[key], base_url, made, *given.place(key))

    chat, synthesizing = model("model"), model("judge_model")
    by_intent = {"chat": chat, "synthesize": chat if synthesizing is None else synthesizing}
    return Plan(
        question=question,
        debaters=_debaters(given, question, base_url, made),
        rounds=2 if given["rounds"] is None else given["rounds"],
        moderator=bool(given["moderator"]),
        models={intent: spec for intent, spec in by_intent.items() if spec is not None} or None,
        schema=schema,
        synthesize=schema is not None or bool(synthesize),
        instructions=given["instructions"],
        seed=given["seed"],
        limits=_limits(given),
        skips=given["on_failure"] == "skip",
        policies=_policies(given, base_url, made),
    )


def _limits(given: _Given) -> Limits | None:
    from flowdebate.runs.limits import Limits

    limits = Limits(calls=given["max_calls"], tokens=given["max_tokens"], seconds=given["max_seconds"])
    return limits or None


def _policies(given: _Given, base_url: str | None, made: dict[str, Model | str]) -> Policies:
    where, field = given.place("fallback")
    fallback = [
        _model(spec, base_url, made, where, f"{field}[{index}]") for index, spec in enumerate(given["fallback"] or ())
    ]
    record, replay = given["record"], given["replay"]
    if record is not None and replay is not None:
        raise ConfigurationError(*given.place("replay"), replay, "left out where answers are recorded")
    return Policies(attempts=given["attempts"], fallback=tuple(fallback), record=record, replay=replay)


def read_debate_file(path: str) -> dict[str, Any]:
    """What the TOML (or, by its suffix, JSON) file at `path` says, checked key by key."""
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml"):
        raise BadFile(path, "YAML is not read: write TOML or JSON")
    text = read_text(path, megabytes=_MEGABYTES)
    said = parse_json(text, path=path) if suffix == ".json" else parse_toml(text, path=path)
    if not isinstance(said, dict):
        raise BadFile(path, f"must hold a JSON object, got {type(said).__name__}")
    _check(said, _KEYS, path, "")
    for index, side in enumerate(said.get("debaters", ())):
        place = f"debaters[{index}]"
        if not isinstance(side, dict):
            raise ConfigurationError(path, place, side, "a table with name and stance")
        _check(side, _SIDE_KEYS, path, f"{place}.")
        for key in ("name", "stance"):
            if key not in side:
                raise ConfigurationError(path, f"{place}.{key}", None, _TEXT)
    return said


def parse_side(text: str) -> dict[str, str]:
    """A debater as the command line names it.

    >>> parse_side("skeptic = cars should stay")
    {'name': 'skeptic', 'stance': 'cars should stay'}
    """
    name, sign, stance = (part.strip() for part in text.partition("="))
    if not sign or not _is_text(name) or not _is_text(stance):
        raise ConfigurationError(_COMMAND, "--debater", text, "name=stance")
    return {"name": name, "stance": stance}


class _Given:
    """The options by key, and where each was given."""

    def __init__(self, options: Mapping[str, Any], said: Mapping[str, Any], file: str | None) -> None:
        self._options = {key: value for key, value in options.items() if value is not None}
        self._said = said
        self.file = file
        for key, value in self._options.items():
            if not _KEYS[key].fits(value):
                raise ConfigurationError(*self.place(key), value, _KEYS[key].allowed)

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - each key has a type of its own
        return self._options.get(key, self._said.get(key))

    def place(self, key: str) -> tuple[str, str]:
        """Where `key` is, or should have been, given; and what it is called there."""
        if self.from_file(key):
            return str(self.file), key
        return _COMMAND, _KEYS[key].option or key

    def from_file(self, key: str) -> bool:
        return key in self._said and key not in self._options


def _check(said: Mapping[str, Any], keys: Mapping[str, _Key], where: str, prefix: str) -> None:
    for key, value in said.items():
        if key not in keys:
            raise ConfigurationError(where, f"{prefix}{key}", value, f"one of the keys {', '.join(keys)}")
        if not keys[key].fits(value):
            raise ConfigurationError(where, f"{prefix}{key}", value, keys[key].allowed)


def _schema(given: _Given) -> OutputSchema | None:
    from flowdebate.models.output import OutputSchema

    schema = given["schema"]
    if schema is None:
        return None
    where, field = given.place("schema")
    if isinstance(schema, str):
        where = str(Path(where).parent / schema) if given.from_file("schema") else schema
        schema = parse_json(read_text(where, megabytes=_MEGABYTES), path=where)
        if not isinstance(schema, dict):
            raise BadFile(where, f"must hold a JSON Schema, which is an object, got {type(schema).__name__}")
    try:
        return OutputSchema.of(schema, where=where, field=field)
    except RecursionError:
        raise BadFile(where, "the schema is nested too deeply") from None


def _debaters(given: _Given, question: str, base_url: str | None, made: dict[str, Model | str]) -> tuple[Debater, ...]:
    from flowdebate.patterns.roster import Debater, checked_roster

    sides = given["debaters"] or default_sides(question)
    where, field = given.place("debaters")

    def debaters() -> Iterator[Debater]:
        for index, side in enumerate(sides):
            spec = side.get("model")
            model = None if spec is None else _model(spec, base_url, made, where, f"{field}[{index}].model")
            yield Debater(side["name"], side["stance"], role=side.get("role"), model=model)

    try:
        return checked_roster(list(debaters()), where=where)
    except ConfigurationError as error:
        if error.field == "debaters":
            raise ConfigurationError(where, field, [side["name"] for side in sides], "given at least twice") from None
        raise


def _model(spec: str, base_url: str | None, made: dict[str, Model | str], where: str, field: str) -> Model | str:
    """The model that `spec` names; one object for each name, so that its connections are shared."""
    from flowdebate.models.openai import OpenAIModel
    from flowdebate.models.resolve import check_model

    if base_url is None:
        check_model(spec, where=where, field=field)
        return spec
    if spec == "local":
        raise ConfigurationError(where, field, spec, "the name of a model at the base URL: the local model has none")
    if spec not in made:
        made[spec] = OpenAIModel(spec, base_url=base_url)
    return made[spec]
