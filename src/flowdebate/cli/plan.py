"""What every plan has, whatever the pattern: a subject, who speaks, with which models, within which limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from flowdebate.cli.files import parse_json, read_text
from flowdebate.cli.keys import COMMAND, MEGABYTES, Key, choice, count, flag, model_name, path, seconds, text, whole
from flowdebate.errors import BadFile, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypedDict

    from flowdebate._util.wire import WireModel
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.document import Document
    from flowdebate.cli.keys import Given
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.page import Page
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.runs.limits import Limits

    class Common(TypedDict):
        """The fields of `Plan`, but for who speaks."""

        given: Given
        subject: str
        rounds: int
        models: Mapping[str, Model | str] | None
        instructions: str | None
        seed: int | None
        limits: Limits | None
        skips: bool
        policies: Policies


__all__ = ("COMMON_KEYS", "OUTPUT_KEYS", "Models", "Plan", "Policies", "common", "output_schema")


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


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Everything that one run is made of; each pattern adds its own."""

    NAME: ClassVar[str]
    """What the pattern is called in errors and events."""
    VERB: ClassVar[str]
    """The command that holds it."""
    given: Given
    """What was asked for, and where."""
    subject: str
    """The question, the topic, the proposition or the task."""
    speakers: tuple[Any, ...]
    """Each a Debater or a Persona, as the pattern takes them."""
    rounds: int
    models: Mapping[str, Model | str] | None
    """By intent; None leaves it to the environment."""
    instructions: str | None
    seed: int | None
    limits: Limits | None
    skips: bool
    """Whether it goes on without what a provider loses."""
    policies: Policies

    @abstractmethod
    def pattern(self) -> Sequencer[Any, Any]:
        """The pattern; ConfigurationError, with the option or the key, for what it refuses."""

    @abstractmethod
    def document(self, raw: WireModel | None, output: object, /, **facts: Any) -> Document:  # noqa: ANN401 - fields of a Document
        """What is saved of its run, which came to `raw`; None where it ended before it began."""

    @abstractmethod
    def view(self, page: Page) -> LiveView:
        """What shows its run on `page`, from the first line on."""

    @property
    def on_failure(self) -> Any:  # noqa: ANN401 - a Literal of the patterns
        """The patterns' option."""
        return "skip" if self.skips else "fail"


COMMON_KEYS: Mapping[str, Key] = {
    "model": model_name("--model"),
    "judge_model": model_name("--judge-model"),
    "base_url": Key(
        fits=lambda value: text().fits(value) and value.startswith(("http://", "https://")),
        allowed="an address that begins with http:// or https://",
        option="--base-url",
    ),
    "instructions": text(),
    "seed": whole("--seed"),
    "max_calls": count("--max-calls"),
    "max_tokens": count("--max-tokens"),
    "max_seconds": seconds("--max-seconds"),
    "attempts": count("--attempts"),
    "fallback": Key(
        fits=lambda value: isinstance(value, list) and all(map(text().fits, value)),
        allowed="a list of names of models",
        option="--fallback",
    ),
    "on_failure": choice("--on-failure", ("fail", "skip")),
    "record": path("--record"),
    "replay": path("--replay"),
}
"""What every pattern can be told."""

OUTPUT_KEYS: Mapping[str, Key] = {
    "schema": Key(
        fits=lambda value: isinstance(value, dict) or text().fits(value),
        allowed="a JSON Schema, or the path of one",
        option="--schema",
    ),
    "synthesize": flag("--synthesize"),
}
"""What patterns with a synthesizer can be told besides."""


class Models:
    """The models that names mean; one object for each name, so that its connections are shared."""

    def __init__(self, base_url: str | None) -> None:
        self._base_url = base_url
        self._made: dict[str, Model | str] = {}

    def __call__(self, spec: str, where: str, field: str) -> Model | str:
        """The model; ConfigurationError for a name that means none."""
        from flowdebate.models.openai.model import OpenAIModel
        from flowdebate.models.resolve import check_model

        if self._base_url is None:
            check_model(spec, where=where, field=field)
            return spec
        if spec == "local":
            raise ConfigurationError(
                where, field, spec, "the name of a model at the base URL: the local model has none"
            )
        if spec not in self._made:
            self._made[spec] = OpenAIModel(spec, base_url=self._base_url)
        return self._made[spec]


def common(given: Given, made: Models, *, subject: str, rounds: int, cap: str = "rounds") -> Common:
    """What every plan has: `subject` and `cap` are the keys of what it is about and how long it may get."""
    if given[subject] is None:
        allowed = f'{given.keys[subject].allowed}: give it as an argument, or as "{subject}" in --file'
        raise ConfigurationError(COMMAND, given.keys[subject].option or subject, None, allowed)
    base_url = given["base_url"]
    if base_url is not None and given["model"] is None:
        raise ConfigurationError(*given.place("model"), None, f"the model's name as the server at {base_url} has it")
    chat, synthesizing = (
        None if given[key] is None else made(given[key], *given.place(key)) for key in ("model", "judge_model")
    )
    by_intent = {"chat": chat, "synthesize": chat if synthesizing is None else synthesizing}
    return {
        "given": given,
        "subject": str(given[subject]),
        "rounds": given.get(cap, rounds),
        "models": {intent: spec for intent, spec in by_intent.items() if spec is not None} or None,
        "instructions": given["instructions"],
        "seed": given["seed"],
        "limits": _limits(given),
        "skips": given["on_failure"] == "skip",
        "policies": _policies(given, made),
    }


def _limits(given: Given) -> Limits | None:
    from flowdebate.runs.limits import Limits

    limits = Limits(calls=given["max_calls"], tokens=given["max_tokens"], seconds=given["max_seconds"])
    return limits or None


def _policies(given: Given, made: Models) -> Policies:
    where, field = given.place("fallback")
    fallback = [made(spec, where, f"{field}[{index}]") for index, spec in enumerate(given["fallback"] or ())]
    record, replay = given["record"], given["replay"]
    if record is not None and replay is not None:
        raise ConfigurationError(*given.place("replay"), replay, "left out where answers are recorded")
    return Policies(attempts=given["attempts"], fallback=tuple(fallback), record=record, replay=replay)


def output_schema(given: Given) -> OutputSchema | None:
    """The schema of the output; BadFile or ConfigurationError for what is none, and for one without a synthesizer."""
    from flowdebate.models.output import OutputSchema

    schema = given["schema"]
    if schema is None:
        return None
    where, field = given.place("schema")
    if isinstance(schema, str):
        where = str(Path(where).parent / schema) if given.from_file("schema") else schema
        schema = parse_json(read_text(where, megabytes=MEGABYTES), path=where)
        if not isinstance(schema, dict):
            raise BadFile(where, f"must hold a JSON Schema, which is an object, got {type(schema).__name__}")
        given.put("schema", schema)
    try:
        found = OutputSchema.of(schema, where=where, field=field)
    except RecursionError:
        raise BadFile(where, "the schema is nested too deeply") from None
    if given["synthesize"] is False:
        raise ConfigurationError(*given.place("synthesize"), False, "left out where there is a schema")  # noqa: FBT003
    return found
