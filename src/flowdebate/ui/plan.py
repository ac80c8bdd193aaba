"""Plans: a run's options and models, taken from a front end's values, a plan file or a stored run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Required

from flowdebate._text import typed
from flowdebate.chassis.registry import find_pattern, load_patterns
from flowdebate.chassis.roles import CommonKeywords
from flowdebate.chassis.seats import DEFAULT, Seats, deal_roles, seat_models, with_first
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.models.openai.endpoint import address_of
from flowdebate.models.prices import HOW, are_prices_known
from flowdebate.models.programs import PROGRAMS
from flowdebate.models.resolve import EACH, full_name, model_of_environment
from flowdebate.sources.source import Source, matches_glob
from flowdebate.store.base import PLAN_FORMAT
from flowdebate.ui.depth import with_depth, without_depth
from flowdebate.ui.files import MEGABYTES, parse_json, read_plan_file, read_text
from flowdebate.ui.models import AllowedModels, Models, Policies, prices_of
from flowdebate.ui.options import (
    COMMAND,
    OutputOptions,
    PlanFile,
    PlanOptions,
    RosterEntry,
    SourceEntry,
    join_models,
    misuse,
)

if TYPE_CHECKING:
    from flowdebate.blocks.human.human import Ask
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.material import History
    from flowdebate.chassis.registry import PatternInfo
    from flowdebate.chassis.roster import Debater
    from flowdebate.chassis.turn import FailurePolicy
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.resources.archive import Archive
    from flowdebate.runs.limits import Limits
    from flowdebate.stop import Condition
    from flowdebate.store.base import StoredRun
    from flowdebate.ui.page import PatternPage


class PlanKeywords(CommonKeywords):
    """Arguments shared by all pattern functions, as set by a plan."""

    name: Required[str]
    model: NotRequired[ModelChoice]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything needed for one run."""

    info: PatternInfo
    name: str
    """Name of the pattern's block, used in errors, events and steps."""
    options: Any
    """Options set for the pattern."""
    speakers: tuple[Any, ...]
    """Debaters or personas, depending on the pattern; empty if a model will propose the sides."""
    models: Mapping[str, Model | str] | None
    """Models keyed by intent ("chat" or "synthesize"); None to take the models from the environment."""
    seats: Mapping[str, Model | str]
    """Models keyed by role, for roles that have a model of their own."""
    first: Model | str | None = None
    """Model used by default if the roster is a list of models and no default model is set."""
    dealt: Any = None
    """Value of the `model` option once "each" has been replaced with model names; None if "each" was not used."""
    apply: Callable[[Model | str], Model | str] = field(default_factory=lambda: lambda model: model)
    """Function that applies the plan's policies to a model; set by `with_policies`."""
    model_pool: Models
    schema: OutputSchema | None
    limits: Limits | None
    policies: Policies
    ask: Ask | None = None
    """Function that asks humans immediately; None to let them answer later."""
    archive: Archive | None = None
    """Archive of earlier debates, for patterns that have one."""

    @property
    def subject(self) -> str:
        """The question, topic, proposition or task, depending on the pattern."""
        return str(getattr(self.options, self.info.subject))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources for the run, and files omitted from folders."""
        declared = self.options.sources
        return tuple(
            source.source(name) if isinstance(source, SourceEntry) else Source.of(name, source)
            for name, source in (declared.items() if isinstance(declared, dict) else ())
        )

    @property
    def seed(self) -> int | None:
        seed: int | None = self.options.seed
        return seed

    @property
    def length(self) -> int:
        """Maximum number of rounds or turns."""
        length: int = self.info.load_page().length(self.options)
        return length

    @property
    def usual_calls(self) -> int:
        """Approximate number of calls per run: one per turn, plus one for the result."""
        turns: int = self.info.load_page().turns(self)
        return turns + 1

    @property
    def keywords(self) -> PlanKeywords:
        """Arguments shared by all pattern functions."""
        from flowdebate.chassis.material import Material, Window
        from flowdebate.chassis.options import PromptOptions

        options, sources = self.options, None
        history: History = Window(rounds=options.history) if isinstance(options.history, int) else "all"
        if self.sources:
            sources = Material(sources=self.sources, tokens=options.source_tokens, in_plan=True)
        return {
            "name": self.name,
            "instructions": options.instructions,
            "model": with_first(self.seats or None, [] if self.first is None else [self.first]),
            "prompts": PromptOptions(profile=options.profile, length=options.length, history=history),
            "sources": sources,
            "failures": self.failures,
        }

    @property
    def failures(self) -> FailurePolicy:
        from flowdebate.chassis.turn import FailurePolicy

        return FailurePolicy(on_failure=self.options.on_failure, quorum=self.options.quorum)

    @property
    def terminate_when(self) -> Condition | None:
        """Condition that ends the rounds early; None if not set."""
        if self.options.terminate_when is None:
            return None
        from flowdebate.stop import parse

        return parse(self.options.terminate_when)

    def pattern(self) -> Sequencer[Any, Any]:
        """Build the pattern; if a value is rejected, the ConfigurationError includes the name of the option or key."""
        page: PatternPage = self.info.load_page()
        with self.options.placing():
            return page.build_at_depth(self)


def make_plan(
    info: PatternInfo,
    values: Mapping[str, Any],
    *,
    file: PlanFile = None,
    location: str | None = None,
    name: str | None = None,
    ask: Ask | None = None,
    begins: bool = False,
    allow: AllowedModels | None = None,
) -> Plan:
    """Build the plan from a front end's values (None if not set), which override those in `file`.

    If `begins` is set, speakers without a model get a new run's default model, unless one model is set for everyone.
    "each" assigns models permitted by `allow`. For invalid options, raises ConfigurationError or BadFile, naming the
    option, or the file and the key.
    """
    page = info.load_page()
    options: PlanOptions = page.options.read(values, file=file, location=location)
    if options.base_url is None:
        options = _with_full_names(options)
    options = _with_subject(info, page, options)
    models = Models(options.base_url, allow, without=getattr(options, "not_vendor", None) or ())
    options, schema = _read_schema(with_depth(page, options))
    options = _read_sources(options)
    if begins:
        options = _with_vendor_models(page, options, models, allow)
    limits = _limits_in(options)
    place, field = options.place("fallback")
    fallback = [models(spec, place, f"{field}[{index}]") for index, spec in enumerate(options.fallback or ())]
    if options.record is not None and options.replay is not None:
        raise ConfigurationError(*options.place("replay"), None, "cannot be combined with --record")
    speakers = page.speakers(options, models)
    plan = Plan(
        info=info,
        name=name or info.name,
        options=options,
        speakers=speakers,
        first=speakers[0].model if _are_listed(options) else None,
        models=None,
        seats={},
        model_pool=models,
        schema=schema,
        limits=limits or None,
        policies=Policies(
            attempts=options.attempts, fallback=tuple(fallback), record=options.record, replay=options.replay
        ),
        ask=ask,
    )
    plan = _with_defaults(plan)
    with plan.options.placing():
        page.check(plan)
    plan = _at_address(_with_seats(replace(plan, policies=replace(plan.policies, effort=_efforts(plan)))))
    if begins:
        page.check_models(plan)
    return plan


def _with_subject(info: PatternInfo, page: PatternPage, options: PlanOptions) -> PlanOptions:
    """Return the options with a subject; some patterns default to a question about the sources.

    Raises ConfigurationError if there is no subject.
    """
    if page.question_about_sources and getattr(options, info.subject) is None and (options.sources or options.diff):
        options = options.replaced(**{info.subject: page.question_about_sources})
    if getattr(options, info.subject) is None:
        example = f'flowdebate {info.verb} "{page.example}"'
        sentence = f"Give a {info.subject}, for example: {example}; or set `{info.subject}` in the --file file."
        raise misuse(options.flag_of(info.subject), None, sentence)
    return options


def _with_vendor_models(
    page: PatternPage, options: PlanOptions, models: Models, allow: AllowedModels | None
) -> PlanOptions:
    """Return the options with models from all configured vendors, if the page defaults to them and no model is set."""
    has_models = any(speaker.model for speaker in getattr(options, options.ROSTER) or ())
    if not page.each_by_default or options.model is not None or has_models:
        return options
    installed = models.find() if options.base_url is None and model_of_environment() is None else ()
    if len(installed) > 1 or (installed and (allow is not None or getattr(options, "not_vendor", None))):
        return options.replaced(model=deal_roles(page.independent_roles, installed) or EACH)
    return options


def _limits_in(options: PlanOptions) -> Limits:
    """Return a run's limits; raise ConfigurationError if a cost limit is set but no prices are known."""
    from flowdebate.runs.limits import Limits

    prices = prices_of(options.price or ())
    if options.max_cost is not None and prices is None and not are_prices_known():
        sentence = f"No prices are known: pass --price, or install known prices: {HOW}"
        raise misuse(options.place("max_cost")[1], options.max_cost, sentence)
    return Limits(
        calls=options.max_calls,
        tokens=options.max_tokens,
        cost=options.max_cost,
        seconds=options.max_seconds,
        prices=prices,
    )


def _with_defaults(plan: Plan) -> Plan:
    """Return `plan` with its page's defaults added."""
    defaults = plan.info.load_page().defaults(plan.options, plan.speakers)
    return replace(plan, options=plan.options.replaced(**defaults)) if defaults else plan


def _at_address(plan: Plan) -> Plan:
    """Return `plan` with each call assigned to a model at the base URL; raise ConfigurationError if a seat has none.

    The default model cannot be used in such a plan, because it is on another server.
    """
    options, people = plan.options, getattr(plan.options, "humans", None) or ()
    if options.base_url is None or set(plan.models or ()) == {"chat", "synthesize"}:
        return plan
    models = plan.models or {}
    chat, synthesize = (models.get(intent, plan.first) for intent in ("chat", "synthesize"))
    seats = {speaker.name: speaker.model or chat for speaker in plan.speakers} or {f"{options.SPEAKER}s": chat}
    seats |= {role: plan.seats.get(role, synthesize) for role in options.roles}
    if getattr(options, "panel", None):
        del seats["judge"]
    unassigned = [seat for seat, model in seats.items() if model is None and seat not in people]
    if unassigned:
        place, base_url = options.place("base_url")
        field = options.flag_of("model") if place == COMMAND else "model"
        missing = plan.model_pool.missing(field, base_url, seats=() if len(unassigned) == len(seats) else unassigned)
        sentence = missing if place == COMMAND else f"{place}: {missing}"
        raise ConfigurationError(place, field, options.model, message=sentence)
    first = next(
        (model for model in seats.values() if model is not None), None
    )  # for calls that belong to no seat, such as summaries
    return plan if first is None else replace(plan, models={"chat": first, "synthesize": first, **models})


def _are_listed(options: PlanOptions) -> bool:
    """Return whether the roster is a list of models whose first entry serves as the default."""
    entries = getattr(options, options.ROSTER)
    # FLOWDEBATE_MODEL refers to a model on another server, not at the base URL
    at_address = options.base_url is not None
    return bool(entries) and all(entry.name is None for entry in entries) and (at_address or not model_of_environment())


def _efforts(plan: Plan) -> Seats | None:
    """Return the thinking effort for each seat; raise ConfigurationError for an unknown seat."""
    options = plan.options
    if options.effort is None:
        return None
    place, field = options.place("effort")
    members = {speaker.name: None for speaker in plan.speakers}
    seat_arguments = {"speaker": options.SPEAKER, "location": place, "field": field}
    return seat_models(options.effort, members, options.roles, **seat_arguments, check=lambda *_, **__: None)


def _with_seats(plan: Plan) -> Plan:
    """Return `plan` with the models that its options assign to seats; raise ConfigurationError for an unknown seat."""
    options, people = plan.options, getattr(plan.options, "humans", None) or ()
    if options.model is None:
        return plan
    place, field = options.place("model")
    members = {speaker.name: speaker.model for speaker in plan.speakers if speaker.name not in people}
    roles = [role for role in options.roles if role not in people]
    seats = seat_models(
        options.model,
        members,
        roles,
        speaker=options.SPEAKER,
        location=place,
        field=field,
        check=plan.model_pool,
        find=plan.model_pool.find,
    )
    deals = EACH in (options.model, options.model.get(DEFAULT) if isinstance(options.model, Mapping) else None)

    def make(spec: Any) -> Any:  # noqa: ANN401 - a model, and what the run takes
        return plan.apply(plan.model_pool(spec, location=place, field=field))

    rest = seats.rest if isinstance(seats.rest, Mapping) else {"chat": seats.rest, "synthesize": seats.rest}
    speakers = (
        replace(speaker, model=make(seats.members[speaker.name])) if speaker.name in seats.members else speaker
        for speaker in plan.speakers
    )
    return replace(
        plan,
        dealt=seats.choice if deals and plan.speakers else None,
        speakers=tuple(speakers),
        models={**(plan.models or {}), **{intent: make(spec) for intent, spec in rest.items() if spec is not None}}
        or None,
        seats={role: make(spec) for role, spec in seats.roles.items()},
    )


def _with_full_names(options: PlanOptions) -> PlanOptions:
    """Return the options with full model names, including providers, for use in a stored plan."""

    def named(value: Any, place: tuple[str, str]) -> Any:  # noqa: ANN401 - a value of any option
        match value:
            case str():
                return full_name(value, *place)
            case list():
                return [named(entry, place) for entry in value]
            case dict():
                return {key: named(entry, place) for key, entry in value.items()}
            case RosterEntry() if isinstance(model := getattr(value, "model", None), str):
                return value.model_copy(update={"model": full_name(model, *place)})
            case _:
                return value

    names = [name for name in type(options).model_fields if name == options.ROSTER or "model" in options.reaches(name)]
    values = {name: getattr(options, name) for name in names}
    full = {name: named(value, options.place(name)) for name, value in values.items() if value is not None}
    changed = {name: value for name, value in full.items() if value != values[name]}
    return options.replaced(**changed) if changed else options


def _read_sources(options: PlanOptions) -> PlanOptions:
    """Replace source files in the options with their text, which is needed to resume the run."""
    if options.sources is None and options.diff is None:
        return options
    from flowdebate.sources.diff import Diff, read_diff
    from flowdebate.sources.files import check_size, read_sources, read_texts

    location, field = options.place("sources")
    entries: dict[str, SourceEntry | str] = {}
    read: list[Source] = []
    if isinstance(options.sources, dict):
        read = read_texts({name: text for name, text in options.sources.items() if isinstance(text, str)})
        entries = {name: entry for name, entry in options.sources.items() if isinstance(entry, SourceEntry)}
    elif options.sources is not None:
        read = read_sources(options.sources, folder=options.folder("sources"))
    if options.diff is not None:
        read += read_diff(Diff(options.diff, folder=options.folder("diff"), exclude=options.exclude or ()))
        check_size(read, "diff")
        check_plan_file(options, read)
    excluded = options.exclude or ()
    for loaded in read:
        source = Source.of_excluded(loaded.name) if matches_glob(loaded.name, excluded) else loaded
        if source.name in entries:  # speakers cite sources by this name
            raise ConfigurationError(
                location, field, source.name, "must be sources with different names; NAME=FILE sets a name"
            )
        entries[source.name] = SourceEntry.of(source)
    return options.replaced(sources=entries, diff=None, exclude=None)


def check_plan_file(options: PlanOptions, changes: Sequence[Source]) -> None:
    """Reject a plan file that sets a gate or exclusions, if the file itself is part of the change under review.

    Such a file is controlled by the author of the change.
    """
    if not options.is_of_file(source.name for source in changes):
        return
    if options.from_file("exclude") or getattr(options, "gate", None) is not None:
        sentence = (
            "The plan file is part of the change under review. Give the options on the command line, or "
            "take the file from the base commit."
        )
        raise misuse("--file", None, sentence)


def with_sources(plan: Plan, sources: Sequence[Source]) -> Plan:
    """Return `plan` with sources already read by the front end."""
    entries: dict[str, SourceEntry | str] = {source.name: SourceEntry.of(source) for source in sources}
    return replace(plan, options=plan.options.replaced(sources=entries))


def with_sides(plan: Plan, sides: Sequence[Debater]) -> Plan:
    """Add `sides` to a debate plan that has none; raise ConfigurationError if they do not fit the plan."""
    decided = _with_defaults(replace(plan, speakers=plan.info.load_page().fitting(plan.options, sides)))
    with decided.options.placing():
        plan.info.load_page().check(decided)
    return _at_address(_with_seats(decided))


def pattern_of_file(path: str) -> PatternInfo:
    """Return the pattern named in the plan file at `path`; raise ConfigurationError if the file names none."""
    name = read_plan_file(path).get("pattern")
    if not isinstance(name, str) or name not in load_patterns():
        raise ConfigurationError(path, "pattern", name, choices=load_patterns())
    return load_patterns()[name]


def _read_schema(options: PlanOptions) -> tuple[PlanOptions, OutputSchema | None]:
    """Replace the options' schema file with its content; raise BadFile or ConfigurationError for an invalid file."""
    from flowdebate.models.output import OutputSchema

    if not isinstance(options, OutputOptions) or options.output_schema is None:
        return options, None
    schema = options.output_schema
    location, field = options.place("output_schema")
    if isinstance(schema, str):
        location = str(options.folder("output_schema") / schema)
        schema = parse_json(read_text(location, megabytes=MEGABYTES), path=location)
        if not isinstance(schema, dict):
            raise BadFile(location, f"must contain a JSON Schema object (got {typed(schema)})")
    try:
        output_schema = OutputSchema.of(schema, location=location, field=field)
    except RecursionError:
        raise BadFile(location, "the schema is nested too deeply") from None
    return options.replaced(output_schema=schema), output_schema


# Plans of stored runs


def stored_plan(plan: Plan) -> dict[str, Any]:
    """Convert `plan` to JSON data without secrets, removing any user, password and query from a base URL."""
    options = {**plan.options.stored(), **plan.info.load_page().settled(plan)}
    if plan.dealt is not None:  # a resumed run uses the same models even if the environment has changed
        options["model"] = plan.dealt
    stored: dict[str, Any] = {"format": PLAN_FORMAT, "pattern": plan.info.name, "options": options}
    if "base_url" in options:
        address = address_of(options["base_url"])
        if address != options["base_url"]:
            options["base_url"] = address
            stored["withheld"] = ["base_url"]
    for key in ("record", "replay"):
        if key in options:
            options[key] = str(Path(options[key]).absolute())  # the run may be resumed from another folder
    return stored


def plan_of(  # noqa: PLR0913 - what may be changed, and by whom
    run: StoredRun,
    values: Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    location: str | None = None,
    to_ask: bool = True,
    trusted: bool = False,
    ask: Ask | None = None,
    verb: str = "resume",
    allow: AllowedModels | None = None,
) -> Plan:
    """Build the plan of a stored run, with changes made in the front end.

    `values` (None if unchanged) and `changes` (in plan file format) replace options in the stored plan. Errors refer to
    `verb` as the command that needs the plan.

    Raises ConfigurationError for a run without a plan. If `to_ask` is set because models will be called, it also raises
    ConfigurationError if a secret has to be entered again, or if an imported run is not `trusted` and `reached_by`
    finds something in its plan. If an imported run is only displayed, its plan omits all file options.
    """
    stored = run.header.plan
    if stored is None:
        raise _foreign_run_error(run, verb)
    info, options, name = _read_stored(run)
    if changes and "model" in changes:
        changes = {**changes, "model": join_models(options.get("model"), changes["model"])}
    if changes and "depth" in changes:
        options = without_depth(info.load_page(), options)
    options = {**options, **(changes or {})}
    # Anyone may have written an imported plan. The address it contains would receive the prompts, and perhaps an API
    # key from the environment.
    if to_ask and not trusted and (reached := reached_by(run, values)):
        run_id = run.header.run_id
        reached_flags = "; ".join(f"{flag} {', '.join(map(typed, texts))}" for flag, texts in reached.items())
        raise misuse(
            "RUN",
            run_id,
            f"Run {run_id} was imported, and its plan sets {reached_flags}. "
            f"To use them: flowdebate {verb} {run_id} --trust-plan. To use another address: --base-url URL",
        )
    if to_ask and values.get("base_url") is None and stored.get("withheld") == ["base_url"]:
        secret = f"the run's base URL, {options.get('base_url')}, contained a secret, which is not stored"
        raise misuse("--base-url", None, f"--base-url must be given again: {secret}.")
    if run.header.foreign and not to_ask:
        keys = info.load_page().options
        # The plan may name any file on this machine, and showing the run would reveal the file's contents.
        unread = keys.read({}, file=options).reached("file")
        options = {key: value for key, value in options.items() if key not in unread}
    location = location or ("options" if changes else None)
    return make_plan(info, values, file=options, location=location, name=name, ask=ask, allow=allow)


def continuation_option(more_rounds: int | None, ask: str | None) -> dict[str, Any]:
    """Build the option that makes a fork continue a finished debate; return {} if neither argument is set."""
    continuation = {"rounds": more_rounds, "ask": ask}
    values = {key: value for key, value in continuation.items() if value is not None}
    return {"continuation": values} if values else {}


def plan_of_fork(
    run: StoredRun,
    values: Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    location: str | None = None,
    trusted: bool = False,
    ask: Ask | None = None,
    allow: AllowedModels | None = None,
) -> Plan:
    """Build the plan for a fork of a stored run, as `plan_of` does, but with the run's seed and models.

    Errors name `location` as the source of `changes`. Also raises ConfigurationError if the subject is changed.
    """
    if run.header.plan is None:
        raise _foreign_run_error(run, "fork")
    info, options, _ = _read_stored(run)
    changes = dict(info.load_page().fork_changes(run, dict(changes or {})))
    if info.subject in changes:
        problem = f"cannot be changed: a fork keeps its run's {info.subject}"
        raise ConfigurationError(location or "options", info.subject, None, problem)
    plan_values: dict[str, Any] = {"seed": run.header.seed}  # A different seed would change the random orders.
    started_with = _models_of(run)
    if started_with and values.get("base_url", changes.get("base_url", options.get("base_url"))) is None:
        plan_values["model"] = join_models(options.get("model"), started_with)
        if "model" in changes:
            changes["model"] = join_models(plan_values["model"], changes["model"])
    changes = {**plan_values, **changes}
    return plan_of(
        run, values, changes=changes, location=location, trusted=trusted, ask=ask, verb="runs fork", allow=allow
    )


def _models_of(run: StoredRun) -> str | dict[str, str] | None:
    """Return the names of the models a run was started with."""
    names = run.header.model
    if not isinstance(names, dict):
        return names if isinstance(names, str) else None
    return {DEFAULT if key == "all" else key: name for key, name in names.items() if isinstance(name, str)}


def reached_by(run: StoredRun, values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the URLs, paths and programs in an imported run's plan, keyed by option.

    Options replaced by `values` are left out. The user must confirm the others before the run is resumed. The result is
    empty for a run started in this store.
    """
    if not run.header.foreign or run.header.plan is None:
        return {}
    info, options, _ = _read_stored(run)
    read = info.load_page().options.read(values, file=options)
    reached = {read.flag_of(name): texts for name, texts in read.reached("file", "server").items()}
    # An agent's program runs with the user's permissions. All strings are searched, because a seat's model can be
    # specified in many ways.
    programs = sorted({name for text in _texts_in([options, run.header.model]) for name in _AGENT.findall(text)})
    return reached | ({"--model": programs} if programs else {})


_AGENT = re.compile(rf"(?<![^\s=:,])cli/(?:{'|'.join(PROGRAMS)})(?:/\S+)?")


def _texts_in(value: object) -> Iterator[str]:
    """Yield all strings in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(entry)


def pattern_of_run(run: StoredRun) -> PatternInfo | None:
    """Return the pattern of a run, or None if the run has no plan or was started by another program or version."""
    plan = run.header.plan or {}
    # For a run executed by workers, "pattern" contains a name chosen by the application.
    name = None if "workers" in plan else plan.get("pattern")
    return find_pattern(name) if isinstance(name, str) else None


def _read_stored(run: StoredRun) -> tuple[PatternInfo, dict[str, Any], str]:
    """Read the pattern, the options and the block's name from a stored plan."""
    stored: Any = run.header.plan
    info, options, number = pattern_of_run(run), stored.get("options"), stored.get("format")
    if info is None or not isinstance(options, dict) or number != PLAN_FORMAT:
        raise misuse(
            "RUN",
            run.header.run_id,
            f"Run {run.header.run_id} was started by another version of flowdebate: use that version.",
        )
    return info, with_stored_sources(options), run.header.block


def with_stored_sources(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a stored plan, including the sources stored with it, without reading any files."""
    sources = options.get("sources")
    if not isinstance(sources, Mapping):
        return dict(options)
    return {**options, "sources": {name: SourceEntry.of_stored(value) for name, value in sources.items()}}


def _foreign_run_error(run: StoredRun, verb: str) -> ConfigurationError:
    run_id = run.header.run_id
    hint = f"{verb.capitalize()} it where its block is built: await block.{verb}({run_id!r}) in Python."
    return misuse("RUN", run_id, f"Run {run_id} was started by a program, not by this command. {hint}")


def with_shared_models(plan: Plan, base: Plan) -> Plan:
    """Return `plan` with the models and policies of `base`, another plan with the same speakers."""
    # All runs in a batch share one model object, including its connections, recording and circuit breaker.
    models = {_name_of(speaker.model): speaker.model for speaker in base.speakers}
    speakers = [replace(member, model=models.get(_name_of(member.model), member.model)) for member in plan.speakers]
    shared: dict[str, Any] = {name: getattr(base, name) for name in ("models", "seats", "apply", "policies", "archive")}
    return replace(plan, speakers=tuple(speakers), **shared)


def _name_of(model: Model | str | None) -> str | None:
    return model if isinstance(model, str) or model is None else model.name
