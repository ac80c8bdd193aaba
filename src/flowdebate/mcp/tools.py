"""Tools for runs (start, wait, read, cancel, resume, fork, delete, take a turn), and prompts that use them.

The SDK evaluates annotations when a tool is registered, so this module does not postpone their evaluation.
"""

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature, cleandoc
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, create_model

from flowdebate._text import join_choices
from flowdebate._util.option_types import Quorum
from flowdebate.blocks.human.prompt import kind_of
from flowdebate.blocks.human.terminal import value_typed
from flowdebate.errors import ConfigurationError, NotAwaited
from flowdebate.mcp.progress import wait_with_progress
from flowdebate.mcp.reports import DATA, HOW_TO_READ, RunList, RunReport, make_list, make_report
from flowdebate.patterns import DEFAULT, PATTERNS, find_pattern
from flowdebate.prompts import filled, quoted
from flowdebate.runs.durable.fork import MAX_ADDED_QUESTION_LENGTH, MAX_ADDED_ROUNDS
from flowdebate.service.service import Service
from flowdebate.service.state import PendingInput, RunDetails
from flowdebate.sources.files import outside_of
from flowdebate.ui.options import Depth
from flowdebate.ui.page import StartTool
from flowdebate.ui.plan import continuation_option
from flowdebate.ui.statuses import State

ServiceOf: TypeAlias = Callable[[Context[Any, Any]], Service]
"""Function that returns the service for a tool call; if there are several users, each caller gets their own service."""


# Arguments


class Side(BaseModel):
    """A participant in a debate."""

    # Reject a misspelled `human`; otherwise, a model would argue in the person's place.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    stance: str = Field(
        max_length=500, description="In a debate, the position to argue, as a claim; in other patterns, the role."
    )
    name: str | None = Field(default=None, max_length=60, description="Default: Side A, Side B, …")
    human: bool = Field(default=False, description="The person at this host argues this side. Only in a debate.")


Question: TypeAlias = Annotated[str, Field(min_length=1, max_length=20_000, description="The question or the task.")]
# The limits on sides and rounds are low: a host's model may start debates unprompted, and each turn costs money.
Sides: TypeAlias = Annotated[
    list[Side],
    Field(
        min_length=2,
        max_length=6,
        description="Who argues what. If omitted, the sides follow from the question, or a model proposes them in one "
        "call; other patterns have their own speakers.",
    ),
]
# Bounds are part of each alternative, because hosts with strict validators reject bounds on a union.
Sources: TypeAlias = Annotated[
    Annotated[dict[str, Annotated[str, Field(max_length=500_000)]], Field(max_length=50)]
    | Annotated[list[str], Field(max_length=50)],
    Field(
        description="What the speakers may quote: texts by name, or paths of files and folders that this server "
        "allows. Quotes are checked against them.",
    ),
]
Rounds: TypeAlias = Annotated[
    int,
    Field(
        ge=1,
        le=10,
        description="Maximum number of rounds (in a handoff, turns).",
    ),
]
HowDeep: TypeAlias = Annotated[
    Depth,
    Field(description="How deep the run goes; deeper takes more calls. auto goes deeper only if the judges disagree."),
]
Models: TypeAlias = Annotated[
    Annotated[str, Field(max_length=200)] | Annotated[dict[str, str], Field(max_length=100)],
    Field(
        description="The model for all, or an object with models by the name of a side or member, by role (judge, "
        'moderator, synthesizer, chair), and as `default` for the rest. Alone or as `default`, "each" gives each side '
        "a different vendor's model."
    ),
]
Listed: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(
        min_length=1,
        max_length=10,
        description="One member per model, named after it. The other roles use `model`, the server's default "
        "model, or otherwise the first in the list. Not in a debate, which has sides.",
    ),
]
Level: TypeAlias = Literal["low", "medium", "high"]
Efforts: TypeAlias = Annotated[
    Level | Annotated[dict[str, Level], Field(max_length=100)],
    Field(description="How much models think before they answer: one level for all, or an object as in `model`."),
]
Needed: TypeAlias = Annotated[
    Quorum,
    Field(description="Number of members that must answer for the run to continue without the others. Default: 2."),
]
Archived: TypeAlias = Annotated[
    bool, Field(description="In a consensus: show what earlier debates found, and remember this one. Default: true.")
]
Seconds: TypeAlias = Annotated[
    float, Field(ge=0, le=50, description="Maximum seconds to wait; hosts abort calls after about a minute.")
]
RunId: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Place: TypeAlias = Annotated[
    str, Field(max_length=1_000, description="Which request, as named in `pending`; required if there are several.")
]
Seen: TypeAlias = Annotated[
    int, Field(ge=0, description="Number of parts you have read; `said` contains only later ones.")
]


def make_options(
    pattern: str,
    sides: Sequence[Side] | None,
    max_rounds: int | None,
    depth: Depth | None = None,
    model: str | Mapping[str, str] | None = None,
    effort: str | Mapping[str, str] | None = None,
    quorum: int | None = None,
    models: Sequence[str] | None = None,
) -> dict[str, Any] | None:
    """Build the plan options for the built-in `pattern`; return None if there are none.

    Raises ConfigurationError for an option that the pattern does not have.
    """
    info = find_pattern(pattern)
    if info is None:
        problem = f"must be {join_choices(PATTERNS)}, or a pattern registered by the application"
        raise ConfigurationError("start_debate", "pattern", pattern, problem, choices=PATTERNS)
    kind = info.load_page().options
    shared = {"depth": depth, "model": model, "effort": effort, "quorum": quorum}
    options: dict[str, Any] = {name: value for name, value in shared.items() if value is not None}
    if models is not None:
        if sides or not kind.lists_models():
            why = "combined with `sides`" if sides else f"used in a {info.name}"
            problem = f"cannot be {why}; assign models by name in `model`"
            raise ConfigurationError("start_debate", "models", None, problem)
        options[kind.ROSTER] = [*models]
    if sides:
        key = info.load_page().speaks_for
        names = [side.name or f"Side {ascii_uppercase[at]}" for at, side in enumerate(sides)]
        humans = [name for name, side in zip(names, sides, strict=True) if side.human]
        if humans and "humans" not in kind.model_fields:
            problem = f"cannot have `human`: only models speak in {info.name}"
            raise ConfigurationError("start_debate", "sides", humans, problem)
        options[kind.ROSTER] = [{"name": name, key: side.stance} for name, side in zip(names, sides, strict=True)]
        if humans:
            options |= {"humans": humans, "suspend": True}
    if max_rounds is not None:
        if kind.LENGTH not in kind.model_fields:
            raise ConfigurationError("start_debate", "max_rounds", None, f"cannot be set: {info.name} has no rounds")
        options[kind.LENGTH] = max_rounds
    return options or None


@contextmanager
def _naming_models(pattern: str, models: Sequence[str] | None) -> Iterator[None]:
    """Report errors about the roster as errors about `models`, if the caller set that argument."""
    try:
        yield
    except ConfigurationError as error:
        info = find_pattern(pattern)
        roster = "" if info is None else info.load_page().options.ROSTER
        if models is None or not error.field.startswith(roster):
            raise
        field = f"models{error.field.removeprefix(roster).removesuffix('.model')}"
        raise error.moved(error.location, field) from None


def start_tools() -> dict[str, StartTool]:
    """Return the start tools for individual patterns, keyed by pattern; `start_debate` is not included."""
    tools = {name: info.load_page().start_tool for name, info in PATTERNS.items()}
    return {name: tool for name, tool in tools.items() if tool is not None}


def _signature_of(tool: StartTool, question: str | None) -> Signature:
    """Return the signature of a pattern's own tool; sources are required if `question` has a default."""
    arguments: dict[str, tuple[Any, Any]] = {
        "question": (Question, Parameter.empty if question is None else question),
        "sources": (Sources | None, None) if question is None else (Sources, Parameter.empty),
        **{name: (Annotated[str | None, description], None) for name, description in tool.texts.items()},
        "depth": (HowDeep, "balanced"),
        "models": (Listed | None, None),
        "model": (Models | None, None),
        "effort": (Efforts | None, None),
        "quorum": (Needed | None, None),
        "wait": (Seconds, 20),
    }
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in arguments.items()
        if name not in tool.without
    ]
    return Signature(parameters, return_annotation=RunReport)


# Tools

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ASKS_MODELS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
ASKS_ONCE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
REPLACES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
"""Annotations, in this order, for read-only tools, tools that call models each time, tools that call models only once
even if repeated, tools that change a run, and tools that permanently delete an earlier run or note.
"""


READER = "get_run"
"""Name of the only tool listed with a result schema; most tools return the same kind of report, so one schema is
enough.
"""


class RunTools:
    """Methods offered as MCP tools for runs; their docstrings are shown to the host's model."""

    def __init__(self, service_of: ServiceOf, patterns: Collection[str], folders: Sequence[Path] = ()) -> None:
        self._of = service_of
        self._patterns = patterns
        self._folders = folders

    async def start_debate(  # noqa: PLR0913 - what a host may say
        self,
        ctx: Context[Any, Any],
        question: Question,
        *,
        sides: Sides | None = None,
        max_rounds: Rounds | None = None,
        sources: Sources | None = None,
        pattern: Annotated[str, Field(max_length=200)] = DEFAULT,
        depth: HowDeep | None = None,
        models: Listed | None = None,
        model: Models | None = None,
        effort: Efforts | None = None,
        quorum: Needed | None = None,
        archive: Archived | None = None,
        wait: Seconds = 20,
    ) -> RunReport:
        """Start a debate between language models; it continues after this call and survives restarts.

        Returns after at most `wait` seconds with the contributions so far. Then call wait_for_run until it is over.
        `depth` for two sides: "quick" makes 4 model calls (one round), "balanced" 7 (two rounds, judged in both
        orders), "thorough" 17 (three rounds, repeated with the speakers reversed, judged in both orders), and "auto" 5
        if its judge reaches the same verdict in both orders at once, otherwise 12 or 29. A hosted model usually needs
        half a minute for "quick", one minute for "balanced" and two to four for "thorough"; a small local one takes
        longer.
        """
        service = self._of(ctx)
        if pattern in self._patterns:
            given_here: dict[str, object] = {"sides": sides, "max_rounds": max_rounds, "sources": sources}
            given_here |= {"depth": depth, "models": models, "model": model}
            given_here |= {"effort": effort, "quorum": quorum, "archive": archive}
            for field, field_value in given_here.items():
                if field_value is not None:
                    problem = f"cannot be set: the pattern {pattern} defines it"
                    raise ConfigurationError("start_debate", field, None, problem)
            options = None
        else:
            options = make_options(pattern, sides, max_rounds, depth, model, effort, quorum, models)
        self._check_sources("start_debate", sources)
        for name, value in (("archive", archive), ("sources", sources)):
            if value is not None:
                options = {**(options or {}), name: value}
        with _naming_models(pattern, models):
            run = await service.begin(pattern, question, options=options)
        return make_report(await wait_with_progress(service, run.run_id, wait, ctx))

    def start_tool_of(self, pattern: str, tool: StartTool) -> Callable[..., Coroutine[Any, Any, RunReport]]:
        """Build the tool that starts runs of one pattern."""

        async def start(
            ctx: Context[Any, Any],
            question: str,
            *,
            sources: dict[str, str] | list[str] | None = None,
            depth: Depth,
            models: list[str] | None = None,
            wait: float,
            **options: str | int | dict[str, str] | None,
        ) -> RunReport:
            plan = make_options(pattern, None, None, depth, models=models) or {}
            self._check_sources(tool.name, sources)
            plan |= {name: value for name, value in {"sources": sources, **options}.items() if value is not None}
            service = self._of(ctx)
            with _naming_models(pattern, models):
                run = await service.begin(pattern, question, options=plan)
            return make_report(await wait_with_progress(service, run.run_id, wait, ctx))

        start.__name__, start.__doc__ = tool.name, tool.description
        signature = _signature_of(tool, PATTERNS[pattern].load_page().question_about_sources)
        start.__dict__["__signature__"] = signature  # read by the SDK
        return start

    def _check_sources(self, tool: str, sources: dict[str, str] | list[str] | None) -> None:
        """Raise ConfigurationError if a path is not allowed by this server."""
        if isinstance(sources, list) and (refused := outside_of(self._folders, sources)):
            places = ", ".join(map(str, self._folders)) or "none; pass their texts by name instead"
            raise ConfigurationError(tool, "sources", refused[0], f"must be in an allowed folder ({places})")

    async def wait_for_run(
        self, ctx: Context[Any, Any], run_id: RunId, *, seconds: Seconds = 45, seen: Seen = 0
    ) -> RunReport:
        """Wait until a run is over or waits for a person, at most `seconds`, and return the contributions so far.

        Call it again while `status` is running. Progress notifications say who is speaking.
        """
        return make_report(await wait_with_progress(self._of(ctx), run_id, seconds, ctx), seen=seen)

    async def get_run(self, ctx: Context[Any, Any], run_id: RunId, *, seen: Seen = 0) -> RunReport:
        """Return a run in its current state: status, contributions, verdict or output, open requests, and note."""
        service = self._of(ctx)
        return make_report(await service.run(run_id), seen=seen, note=await service.note(run_id))

    async def list_runs(
        self,
        ctx: Context[Any, Any],
        *,
        status: State | None = None,
        pattern: Annotated[str | None, Field(max_length=200)] = None,
        text: Annotated[str | None, Field(max_length=200, description="Text in the question.")] = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 20,
        before: Annotated[str | None, Field(max_length=500, description="`next` from the previous page.")] = None,
    ) -> RunList:
        """List runs, newest first."""
        page = await self._of(ctx).runs(status=status, pattern=pattern, text=text, limit=limit, before=before)
        return make_list(page)

    async def write_note(
        self,
        ctx: Context[Any, Any],
        run_id: RunId,
        note: Annotated[str, Field(max_length=2_000, description='Replaces the previous note; "" deletes it.')],
    ) -> str:
        """Write a note on a run for later readers; get_run, lists, pages and exports show it."""
        await self._of(ctx).write_note(run_id, note)
        return f"The note on run {run_id} is {'written' if note.strip() else 'deleted'}."

    async def cancel_run(self, ctx: Context[Any, Any], run_id: RunId) -> RunReport:
        """Stop a run. Its contributions are kept, and resume_run can continue it."""
        service = self._of(ctx)
        await service.cancel(run_id)
        return make_report(await service.run(run_id))

    async def resume_run(
        self,
        ctx: Context[Any, Any],
        run_id: RunId,
        *,
        on_uncertain: Annotated[
            Literal["retry", "raise"],
            Field(description="About a call in flight when the run stopped, which may have been paid for."),
        ] = "retry",
        allow_changes: Annotated[
            bool, Field(description="Resume although the model or the version of flowdebate has changed.")
        ] = False,
        retry_dead_letter: Annotated[bool, Field(description="Resume although it has crashed repeatedly.")] = False,
        wait: Seconds = 20,
    ) -> RunReport:
        """Resume a run that was interrupted, failed or was abandoned. Recorded calls are not repeated."""
        service = self._of(ctx)
        await service.resume(
            run_id, on_uncertain=on_uncertain, allow_changes=allow_changes, retry_dead_letter=retry_dead_letter
        )
        return make_report(await wait_with_progress(service, run_id, wait, ctx))

    async def fork_run(  # noqa: PLR0913 - a tool's arguments are its parameters
        self,
        ctx: Context[Any, Any],
        run_id: RunId,
        *,
        at: Annotated[
            str | None,
            Field(max_length=1_000, description="Place of a step; that step and all later ones are repeated."),
        ] = None,
        edits: Annotated[
            dict[str, Any] | None,
            Field(max_length=50, description="Answers to use instead, keyed by the place of their step."),
        ] = None,
        seed: int | None = None,
        model: Models | None = None,
        more_rounds: Annotated[
            int | None, Field(ge=1, le=MAX_ADDED_ROUNDS, description="Continue a finished debate for N more rounds.")
        ] = None,
        ask: Annotated[
            str | None,
            Field(
                min_length=1,
                max_length=MAX_ADDED_QUESTION_LENGTH,
                description="Continue a finished debate: its debaters answer this question in another round.",
            ),
        ] = None,
        wait: Seconds = 20,
    ) -> RunReport:
        """Start a new run from a recorded one, reusing unaffected answers and requesting only the others.

        The recorded run is not changed. `more_rounds` or `ask` continues a finished debate: only the new rounds and the
        verdict are requested.
        """
        service = self._of(ctx)
        options = continuation_option(more_rounds, ask) | ({} if model is None else {"model": model})
        run = await service.fork(run_id, at=at, edits=edits, seed=seed, options=options)
        return make_report(await wait_with_progress(service, run.run_id, wait, ctx))

    async def delete_run(self, ctx: Context[Any, Any], run_id: RunId) -> str:
        """Permanently delete a run and everything recorded about it."""
        await self._of(ctx).delete(run_id)
        return f"Run {run_id} is deleted."


def add_run_tools(
    server: MCPServer[Any],
    service_of: ServiceOf,
    *,
    patterns: Collection[str],
    plans: bool,
    models: Collection[str],
    folders: Sequence[Path],
) -> None:
    """Register the tools for runs of the application's own `patterns` and, if `plans` is True, of the built-in ones.

    Hosts may choose among `models`, and sources must be inside `folders`.
    """
    tools = RunTools(service_of, patterns, folders)
    starters: list[Callable[..., Any]] = [tools.start_tool_of(*item) for item in start_tools().items()] if plans else []
    model_text = f"Models that you may name: {', '.join(models) or 'none is set up'}."
    pattern_text = f"`pattern` is one of {', '.join(dict.fromkeys([*patterns, *(PATTERNS if plans else ())]))}."
    registered: list[tuple[Callable[..., Any], ToolAnnotations, tuple[str, ...]]] = [
        (tools.start_debate, ASKS_MODELS, (pattern_text, model_text, DATA)),
        *((tool, ASKS_MODELS, (model_text, DATA)) for tool in starters),
        (tools.wait_for_run, READS, (HOW_TO_READ,)),
        (tools.get_run, READS, (HOW_TO_READ,)),
        (tools.list_runs, READS, ()),
        (tools.write_note, REPLACES, ()),
        (tools.cancel_run, CHANGES, ()),
        (tools.resume_run, ASKS_MODELS, (DATA,)),
        (tools.fork_run, ASKS_MODELS, (DATA,)),
        (tools.delete_run, REPLACES, ()),
    ]
    for tool, hints, more in registered:
        server.add_tool(tool, description="\n\n".join([describe(tool), *more]), annotations=hints)


def describe(tool: Callable[..., Any]) -> str:
    """Return a tool's docstring, for use as its description."""
    return cleandoc(tool.__doc__ or "")


# Human turns: the host asks the person (elicitation), or its model answers for them


def add_turn_tools(server: MCPServer[Any], service_of: ServiceOf) -> None:
    """Register `take_turn` and `answer_turn`."""

    async def ask(ctx: Context[Any, Any], run_id: str, place: str | None) -> Elicit[Form]:
        request = _pending_of(await service_of(ctx).run(run_id), place)
        able = None if ctx.client_capabilities is None else ctx.client_capabilities.elicitation
        # Older clients declare no mode and support only forms.
        if able is None or (able.form is None and able.url is not None):
            raise ToolError(_CANNOT_ASK)
        problem = "" if request.problem is None else f"\n\nThe previous answer was rejected: {request.problem}"
        return Elicit(f"{request.to_read}\n\n[{request.block}] {request.expects}{problem}", make_form(request))

    async def take_turn(
        ctx: Context[Any, Any],
        run_id: RunId,
        filled_in: Annotated[ElicitationResult[Form], Resolve(ask)],
        *,
        place: Place | None = None,  # noqa: ARG001 - `ask` takes it
        wait: Seconds = 20,
    ) -> RunReport:
        """Ask the person at this host for the answer that a run is waiting for, then continue the run.

        The person sees the request itself. If they decline, the run keeps waiting.
        """
        service = service_of(ctx)
        if isinstance(filled_in, AcceptedElicitation):
            form = filled_in.data
            await service.answer(run_id, form.answer(), place=form.request.place)
            return make_report(await wait_with_progress(service, run_id, wait, ctx))
        report = make_report(await service.run(run_id))
        return report.model_copy(update={"next": f"The person did not answer ({filled_in.action}). {report.next}"})

    async def answer_turn(
        ctx: Context[Any, Any],
        run_id: RunId,
        answer: Annotated[
            str | dict[str, Any], Field(description="Text, or an object that matches the request's `answer_schema`.")
        ],
        *,
        place: Place | None = None,
        wait: Seconds = 20,
    ) -> RunReport:
        """Answer a run's request in place of a person, then continue the run.

        Only do so if the person wants it: the answer is recorded as given by the host, not by a person.
        """
        service = service_of(ctx)
        await service.answer(run_id, answer, place=place, by=_HOST)
        return make_report(await wait_with_progress(service, run_id, wait, ctx))

    for tool in (take_turn, answer_turn):
        server.add_tool(tool, description=f"{describe(tool)}\n\n{DATA}", annotations=ASKS_MODELS)


_HOST = "the host's model"
"""Author recorded in the journal when the host's model gives the answer."""
_CANNOT_ASK = (
    "This host cannot show a form to its user. Show them `shown` and `expects` of the request in `pending`, and pass "
    "what they write to answer_turn."
)


class Form(BaseModel):
    """Base class for forms shown to a person; each request gets a subclass with fields for its answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", title="Answer")
    request: ClassVar[PendingInput]

    def answer(self) -> object:
        """Convert the submitted values to the answer expected by the run."""
        request = self.request
        values = self.model_dump(by_alias=True, exclude_none=True)
        if request.answer_schema is None:
            return values["answer"]
        definitions, parts = request.answer_schema.get("$defs", {}), request.answer_schema.get("properties", {})
        return {
            name: value_typed(value, parts[name], definitions) if isinstance(value, str) else value
            for name, value in values.items()
        }


def make_form(request: PendingInput) -> type[Form]:
    """Build the form for a request from its answer schema, field by field, using types that every host can show.

    Lists and objects are entered as text: names separated by commas, or JSON.
    """
    schema: Mapping[str, Any] = {"properties": {"answer": _TEXT}, "required": ["answer"]}
    schema = schema if request.answer_schema is None else request.answer_schema
    definitions, required = schema.get("$defs", {}), schema.get("required", ())
    fields: dict[str, Any] = {}
    for number, (name, part) in enumerate(schema.get("properties", {}).items()):
        # the protocol's forms support only text, numbers and booleans
        kind, nullable = _kind_of(part, definitions)
        described_by, typed_as = part.get("description"), kind_of(part, definitions)
        description = f"{described_by} ({typed_as})" if described_by else typed_as
        optional = nullable or name not in required
        default = None if optional else ...
        field = Field(default, alias=name, title=name, description=description)
        # Names in the request's schema might not be valid as field names here.
        fields[f"field_{number}"] = (kind | None if optional else kind, field)
    form = create_model("Answer", __base__=Form, **fields)
    form.request = request
    return form


def _pending_of(run: RunDetails, place: str | None) -> PendingInput:
    """Return the request at `place` (None for the first request); raise NotAwaited if the run is not waiting for it."""
    waiting = [request for request in run.pending if place in (None, request.place)]
    if not waiting:
        location = "" if place is None else f" at {place}"
        raise NotAwaited(
            "", run.run_id, f"is not waiting for an answer{location}", [request.place for request in run.pending]
        )
    return waiting[0]


_TEXT = {"type": "string", "description": "Your answer, as text"}
_PRIMITIVES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _kind_of(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return a form field's type, and whether it is optional."""
    if "$ref" in part:
        return _kind_of(definitions.get(part["$ref"].rpartition("/")[2], {}), definitions)
    choices = part.get("anyOf") or part.get("oneOf") or []
    if choices:
        kinds = [choice for choice in choices if choice.get("type") != "null"]
        kind = _kind_of(kinds[0], definitions)[0] if len(kinds) == 1 else str
        return kind, len(kinds) < len(choices)
    allowed = part.get("enum") or ([part["const"]] if "const" in part else [])
    texts = [value for value in allowed if isinstance(value, str)]
    if allowed:
        all_texts = len(texts) == len([value for value in allowed if value is not None])
        return (Literal[tuple(texts)] if texts and all_texts else str), None in allowed
    return _PRIMITIVES.get(str(part.get("type")), str), False


# Prompts that a host offers its user

_DEBATE = (
    "Hold a debate on a question with the tools of flowdebate.\n\n"
    "Question: {question}\n\n"
    "1. If it is not a simple yes-or-no question, find two to four positions that exclude each other, and word each "
    "one as a claim.\n"
    "2. Call start_debate with the question and these positions as `sides`, then wait_for_run until it is over.\n"
    "3. Report the strongest argument of each side, what was said against it, the verdict, and how certain it is. "
    "Make clear what is your own view and what the debaters said."
)
_STEELMAN = (
    "Find the strongest case for a position, and the objections that it must answer, with the tools of flowdebate.\n\n"
    "Position: {position}\n\n"
    "1. Word the opposite position as its best advocates would.\n"
    "2. Call start_debate with the question behind both and the two positions as `sides`, then wait_for_run until it "
    "is over.\n"
    "3. Write the case for the position as its best advocate would after this debate: only arguments that held, the "
    "strongest objection, and the best answer to it. Do not mention the debaters."
)


def add_prompts(server: MCPServer[Any]) -> None:
    """Register `debate_this` and `steelman`."""

    def debate_this(question: Annotated[str, Field(description="What to debate.")]) -> str:
        """Let language models debate a question, and report the outcome."""
        return filled(_DEBATE, question=quoted(question))

    def steelman(position: Annotated[str, Field(description="The position to defend.")]) -> str:
        """Find the strongest case for a position by debating it."""
        return filled(_STEELMAN, position=quoted(position))

    server.prompt(title="Debate this")(debate_this)
    server.prompt(title="Steelman a position")(steelman)
