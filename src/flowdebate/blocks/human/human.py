"""`human`: a person as a block."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.blocks.handler import Invocation, invocation, result_of
from flowdebate.blocks.human.data import as_data, as_said
from flowdebate.blocks.human.prompt import render_expected, render_request, render_said, render_task
from flowdebate.blocks.outline import Outline
from flowdebate.errors import ConfigurationError, OutputError, SchemaViolation, told
from flowdebate.models.output import OutputSchema
from flowdebate.runs.durable.suspend import HumanRequest, Suspended, answer_text, read_answer
from flowdebate.runs.events import BlockAnswered, HumanAsked

if TYPE_CHECKING:
    from flowdebate.blocks.generator import TextSlot
    from flowdebate.resources.resource import ResourceScope
    from flowdebate.runs.context import Context
    from flowdebate.runs.durable.journal import Journal

__all__ = (
    "Ask",
    "Human",
    "HumanRequest",
    "human",
)

Ask = Callable[[HumanRequest], Any]
"""What takes a request to a human and gives the answer, sync or async."""


@dataclass(frozen=True, slots=True)
class NeedsStore:
    """Declared by a human who answers later, so that a run without a store is refused before it begins."""

    key: str = "flowdebate.human"
    needs_store: bool = True

    def open(self, scope: ResourceScope, /) -> NeedsStore:
        """Itself: there is nothing to hold."""
        del scope
        return self


class Human(Block[Any, Any]):
    """A block that asks a human; made by `human`."""

    def __init__(
        self,
        name: str,
        *,
        prompt: Invocation | None,
        context: Invocation | None,
        output: OutputSchema | None,
        ask: Ask | None,
    ) -> None:
        resource = NeedsStore()
        super().__init__(name, resources=None if ask is not None else {resource.key: resource})
        self.output = output
        self._prompt = prompt
        self._context = context
        self._ask = ask
        self._who: str | None = None

    def fitted(self, schema: object, who: str | None) -> Self:
        """This human on a seat whose pattern needs `schema` (None: text), which it is asked for unless it has one.

        `who` is what it is told to be there; None for nothing.
        """
        seated = copy.copy(self)
        if self.output is None and schema is not None:
            seated.output = OutputSchema.of(schema, where=f"human {self.name!r}")
        seated._who = self._who if who is None else who  # noqa: SLF001 - its own kind
        return seated

    async def act(self, value: Any, ctx: Context, /) -> Any:  # noqa: ANN401 - whatever the schema says
        check = _Check(self.name, self._output_for(value))
        request = await self._request(value, ctx, check)
        ctx.emit(HumanAsked(block=self.name, path=ctx.path))
        output = await self._answered(request, check, ctx)
        ctx.emit(BlockAnswered(block=self.name, output=output))
        return output

    async def _answered(self, request: HumanRequest, check: _Check, ctx: Context) -> Any:  # noqa: ANN401 - see act
        """The checked answer; where one that was given later does not fit after all, there is a request more."""
        journal, number = ctx.run.journal, 1
        while journal is not None:
            place = f"{ctx.path}#human" if number == 1 else f"{ctx.path}#human#{number}"
            request = replace(request, place=place)
            row = journal.found(place, request.text)
            if row is None or row.body is None:
                return await self._recorded(request, check, journal)
            answer, parked = read_answer(row.body)
            if parked:
                journal.reviewed.add(place)
            try:
                return check(answer)
            except OutputError as error:
                request, number = replace(request, problem=one_line(told(error))), number + 1
        if self._ask is None:
            raise _without_store(self.name)
        return check(await result_of(self._ask(request)))

    async def _recorded(self, request: HumanRequest, check: _Check, journal: Journal) -> Any:  # noqa: ANN401 - see act
        await journal.ask(request.place, request.text)
        if self._ask is None:
            raise Suspended([request])
        checked = check(await result_of(self._ask(request)))
        await journal.commit(request.place, "human", answer_text(check.kept(checked), parked=False))
        return checked

    def _output_for(self, value: object) -> OutputSchema | None:
        spec = self.output if self.output is not None else _asked_for(value)
        return None if spec is None else OutputSchema.of(spec)

    async def _request(self, value: object, ctx: Context, check: _Check) -> HumanRequest:
        transcript = ctx.scope.handles.get("transcript")
        schema = None if check.output is None else check.output.json_schema
        shown = render_request(
            who=self._who,
            prompt=await _text(self._prompt, value, ctx),
            question=_question(value, ctx),
            context=await _text(self._context, value, ctx),
            said=None if transcript is None else render_said(transcript.state.entries),
            task=render_task(value),
        )
        return HumanRequest(
            block=self.name,
            place=ctx.path,
            shown=shown,
            expects=render_expected(schema),
            schema=schema,
            check=check,
        )

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="human")


def _asked_for(value: object) -> object:
    """The schema that an input asks for by itself (`answer_schema()`); None for text."""
    schema = getattr(value, "answer_schema", None)
    return schema() if callable(schema) else None


def _question(value: object, ctx: Context) -> str:
    """The task or the subject of the input; else the question of the state around the block, or the input itself."""
    if task := getattr(value, "task", None):
        return str(task)
    state = None if ctx.scope.sequencer is None else ctx.scope.sequencer.state
    return str(getattr(state, "question", None) or getattr(value, "subject", value))


@dataclass(frozen=True, slots=True)
class _Check:
    """Makes the value of an answer; OutputError for what does not fit."""

    block: str
    output: OutputSchema | None

    def __call__(self, answer: object) -> Any:  # noqa: ANN401 - the application's own type
        if self.output is None:
            return as_said(answer, block=self.block)
        if isinstance(answer, BaseModel):
            answer = answer.model_dump(by_alias=True)
        data = as_data(answer, self.output.json_schema, block=self.block)
        try:
            return self.output.validate(data)
        except SchemaViolation as violation:
            raise OutputError(self.block, f"a {self.output.name}", violation.problems) from None

    def kept(self, value: object) -> Any:  # noqa: ANN401 - JSON data
        """`value`, which it made, as JSON data that it makes the same of."""
        return value if self.output is None else self.output.dumped(value)


async def _text(slot: Invocation | None, value: object, ctx: Context) -> str | None:
    given = None if slot is None else await result_of(slot(value, ctx))
    return None if given is None else str(given)


def _without_store(name: str) -> ConfigurationError:
    hint = "Keep the run, so that it can wait for the answer: run(…, store=…); or say how to ask: human(…, ask=…)"
    return ConfigurationError(f"human {name!r}", "store", None, "a store, where there is no ask", hint=hint)


def human(
    *,
    name: str,
    prompt: TextSlot | None = None,
    output_schema: Any = None,  # noqa: ANN401 - a pydantic model, any type, or a JSON Schema
    ask: Ask | None = None,
    context: TextSlot | None = None,
) -> Human:
    """A block that asks a human, for any seat of any pattern; its output is text, or what `output_schema` validates.

    The human is shown `prompt`, the question, `context`, what was said so far, and what is asked: `prompt` and
    `context` are text, or functions of `(input, ctx)` or `(input)`. On a seat that text will not do for, such as a
    judge's, the answer has the fields of that seat unless there is an `output_schema`.

    `ask(request)`, sync or async, gives the answer at once: `ask=terminal` has it typed. A run that is kept records it,
    and never asks it again. Without `ask` a run that is kept comes to a stand: what else goes on at that moment comes
    to its end, `result.status` is "awaiting", and `result.awaiting` has the requests. Once `flowdebate.answer` has
    recorded the answers, `resume(run_id)` goes on, in any process. No deadline counts meanwhile.

    ConfigurationError for a run that is not kept, without an `ask`; OutputError for an answer of `ask` that does not
    fit.

    >>> ann = human(name="ann", ask=lambda request: "Homes first.")
    >>> ann.run_sync("Should rents be capped?").output
    'Homes first.'
    """
    where = f"human {name!r}"
    if ask is not None and not callable(ask):
        raise ConfigurationError(where, "ask", ask, "a function of (request), or None")
    return Human(
        name,
        prompt=_slot(prompt, where, "prompt"),
        context=_slot(context, where, "context"),
        output=None if output_schema is None else OutputSchema.of(output_schema, where=where),
        ask=ask,
    )


def _slot(value: TextSlot | None, where: str, field: str) -> Invocation | None:
    if value is None:
        return None
    if callable(value):
        return invocation(value, where=where, field=field)
    if not isinstance(value, str):
        raise ConfigurationError(where, field, value, "text, a function of (input, ctx) that gives it, or None")
    return lambda *_: value
