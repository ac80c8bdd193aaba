"""Turns of people: the person at the host is asked by elicitation, or the host's model answers in their place.

The SDK evaluates annotations when a tool is registered, so this module does without postponed ones.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field, create_model

from flowdebate.blocks.human.prompt import kind_of
from flowdebate.blocks.human.terminal import value_typed
from flowdebate.errors import NotAwaited
from flowdebate.mcp.progress import wait_with_progress
from flowdebate.mcp.reports import HOW_TO_READ, RunReport, report_of
from flowdebate.mcp.tools import ASKS_MODELS, Place, RunId, Seconds, ServiceOf, described
from flowdebate.service.state import PendingInput, RunDetails


def add_turn_tools(server: MCPServer[Any], service_of: ServiceOf) -> None:
    """Register `take_turn` and `answer_turn`."""

    async def ask(ctx: Context[Any, Any], run_id: str, place: str | None) -> Elicit[Form]:
        request = _pending_of(await service_of(ctx).run(run_id), place)
        able = None if ctx.client_capabilities is None else ctx.client_capabilities.elicitation
        if able is None or (able.form is None and able.url is not None):
            raise ToolError(_CANNOT_ASK)
        problem = "" if request.problem is None else f"\n\nThe answer before does not fit: {request.problem}"
        return Elicit(f"{request.shown}\n\n[{request.block}] {request.expects}{problem}", form_of(request))

    async def take_turn(
        ctx: Context[Any, Any],
        run_id: RunId,
        filled_in: Annotated[ElicitationResult[Form], Resolve(ask)],
        *,
        place: Place | None = None,  # noqa: ARG001 - `ask` takes it
        wait: Seconds = 20,
    ) -> RunReport:
        """Ask the person at this host for the answer that a run waits for, and go on with the run.

        They see the request itself. If they decline, the run waits as before.
        """
        service = service_of(ctx)
        if isinstance(filled_in, AcceptedElicitation):
            form = filled_in.data
            await service.answer(run_id, form.answer(), place=form.request.place)
            return report_of(await wait_with_progress(service, run_id, wait, ctx))
        report = report_of(await service.run(run_id))
        return report.model_copy(update={"next": f"The person did not answer ({filled_in.action}). {report.next}"})

    async def answer_turn(
        ctx: Context[Any, Any],
        run_id: RunId,
        answer: Annotated[
            str | dict[str, Any], Field(description="Text, or an object that fits `answer_schema` of the request.")
        ],
        *,
        place: Place | None = None,
        wait: Seconds = 20,
    ) -> RunReport:
        """Answer a request of a run in the place of a person, and go on with the run.

        Do so only if the person wants it: the answer is recorded as given by the host, not by a person.
        """
        service = service_of(ctx)
        await service.answer(run_id, answer, place=place, by=_HOST)
        return report_of(await wait_with_progress(service, run_id, wait, ctx))

    for tool in (take_turn, answer_turn):
        server.add_tool(tool, description=f"{described(tool)}\n\n{HOW_TO_READ}", annotations=ASKS_MODELS)


_HOST = "the host's model"
"""Who has answered, in the journal."""
_CANNOT_ASK = (
    "This host cannot show a form to its user. Show them `shown` and `expects` of the request in `pending`, and pass "
    "what they write to answer_turn."
)


# Forms


class Form(BaseModel):
    """A form that a person fills in; a subclass for each request has the fields of its answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", title="Answer")
    request: ClassVar[PendingInput]

    def answer(self) -> Any:  # noqa: ANN401 - text, or JSON data
        """What was filled in, as the run takes it."""
        request = self.request
        given = self.model_dump(by_alias=True, exclude_none=True)
        if request.answer_schema is None:
            return given["answer"]
        known, parts = request.answer_schema.get("$defs", {}), request.answer_schema.get("properties", {})
        return {
            name: value_typed(value, parts[name], known) if isinstance(value, str) else value
            for name, value in given.items()
        }


def form_of(request: PendingInput) -> type[Form]:
    """The form for a request: a field for each field of its schema, of a type that every host can show.

    Lists and objects are typed as text: names with commas between them, or JSON.
    """
    schema: Mapping[str, Any] = {"properties": {"answer": _TEXT}, "required": ["answer"]}
    schema = schema if request.answer_schema is None else request.answer_schema
    known, required = schema.get("$defs", {}), schema.get("required", ())
    fields: dict[str, Any] = {}
    for number, (name, part) in enumerate(schema.get("properties", {}).items()):
        kind, nullable = _kind_of(part, known)
        described_by, typed_as = part.get("description"), kind_of(part, known)
        about = f"{described_by} ({typed_as})" if described_by else typed_as
        optional = nullable or name not in required
        default: Any = None if optional else ...
        field = Field(default, alias=name, title=name, description=about)
        fields[f"field_{number}"] = (kind | None if optional else kind, field)  # a name of the schema may be none here
    form = create_model("Answer", __base__=Form, **fields)
    form.request = request
    return form


def _pending_of(run: RunDetails, place: str | None) -> PendingInput:
    """The request at `place`, or the first one; NotAwaited where the run does not wait for it."""
    waiting = [each for each in run.pending if place in (None, each.place)]
    if not waiting:
        where = "" if place is None else f" at {place}"
        raise NotAwaited("", run.run_id, f"waits for no answer{where}", [each.place for each in run.pending])
    return waiting[0]


_TEXT = {"type": "string", "description": "Your answer, as text"}
_PRIMITIVES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _kind_of(part: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Any, bool]:
    """The type of a form's field, and whether it may be left out."""
    if "$ref" in part:
        return _kind_of(known.get(part["$ref"].rpartition("/")[2], {}), known)
    choices = part.get("anyOf") or part.get("oneOf") or []
    if choices:
        kinds = [each for each in choices if each.get("type") != "null"]
        kind = _kind_of(kinds[0], known)[0] if len(kinds) == 1 else str
        return kind, len(kinds) < len(choices)
    allowed = part.get("enum") or ([part["const"]] if "const" in part else [])
    texts = [each for each in allowed if isinstance(each, str)]
    if allowed:
        all_texts = len(texts) == len([each for each in allowed if each is not None])
        return (Literal[tuple(texts)] if texts and all_texts else str), None in allowed
    return _PRIMITIVES.get(str(part.get("type")), str), False
