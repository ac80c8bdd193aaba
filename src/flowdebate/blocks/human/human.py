"""Human block: lets a person take any role in a pattern, answering immediately or while the run is suspended."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from pydantic import BaseModel

from flowdebate._text import error_text, one_line
from flowdebate.blocks.base import Block, Outline
from flowdebate.blocks.functions import Invocation, invocation, result_of
from flowdebate.blocks.generator import TextSlot
from flowdebate.blocks.human.answers import parse_data, parse_text
from flowdebate.blocks.human.prompt import render_contributions, render_expected, render_request, render_task
from flowdebate.errors import ConfigurationError, OutputError, SchemaViolation
from flowdebate.models.output import OutputSchema
from flowdebate.resources.resource import ResourceScope
from flowdebate.runs.context import Context
from flowdebate.runs.events import BlockAnswered, HumanAsked
from flowdebate.runs.journal import Journal
from flowdebate.runs.suspend import HumanRequest, Suspended, answer_text, read_answer
from flowdebate.sources.source import Source

Ask = Callable[[HumanRequest], Any]
"""Function, sync or async, that takes a request to a human and returns the human's answer."""


@dataclass(frozen=True, slots=True)
class StoreRequirement:
    """Resource that requires the run to have a store, because the human answers after the run has been suspended."""

    key: str = "flowdebate.human"
    needs_store: bool = True

    def open(self, scope: ResourceScope, /) -> StoreRequirement:
        """Return the resource itself, because there is nothing to open."""
        del scope
        return self


class Human(Block[Any, Any]):
    """Block that requests answers from a human; create it with `human`."""

    def __init__(
        self,
        name: str,
        *,
        prompt: Invocation | None,
        context: Invocation | None,
        output: OutputSchema | None,
        ask: Ask | None,
    ) -> None:
        resource = StoreRequirement()
        super().__init__(name, resources=None if ask is not None else {resource.key: resource})
        self.output = output
        self._prompt = prompt
        self._context = context
        self._ask = ask
        self._who: str | None = None
        self._blind: Callable[[Context], Iterable[Any]] | None = None
        self._sources: Callable[[Context], tuple[Source, ...]] | None = None

    def with_answer_schema(
        self, schema: object, who: str | None, sources: Callable[[Context], tuple[Source, ...]] | None
    ) -> Self:
        """Return a copy of this human for a role whose answer schema is `schema`; None means that any text is accepted.

        An explicit output schema takes precedence. `who` describes the role to the human; None leaves the description
        as it is. `sources` lists the sources that the human may quote.
        """
        fitted = copy.copy(self)
        if self.output is None and schema is not None:
            fitted.output = OutputSchema.of(schema, location=f"human {self.name!r}")
        fitted._who = self._who if who is None else who  # noqa: SLF001 - its own class
        fitted._sources = self._sources if sources is None else sources  # noqa: SLF001 - its own class
        return fitted

    def reading_blind(self, entries: Callable[[Context], Iterable[Any]]) -> Self:
        """Return a copy of this human that sees `entries(ctx)`, without author names, instead of the transcript."""
        fitted = copy.copy(self)
        fitted._blind = entries  # noqa: SLF001 - its own class
        return fitted

    def in_role(self, role: str) -> Self:
        """Return a copy of this human with `role` set; the pattern can still set the copy's answer schema."""
        placed = copy.copy(self)
        placed.role = role
        return placed

    async def act(self, value: object, ctx: Context, /) -> object:
        spec = self.output
        if spec is None and callable(ask_for := getattr(value, "answer_schema", None)):
            spec = ask_for()  # some inputs, such as a ballot, determine the form of the answer
        check = _Check(self.name, None if spec is None else OutputSchema.of(spec))
        request = await self._request(value, ctx, check)
        ctx.emit(HumanAsked(block=self.name, path=ctx.path))
        output = await self._answer(request, check, ctx)
        ctx.emit(BlockAnswered(block=self.name, output=output))
        return output

    async def _answer(self, request: HumanRequest, check: _Check, ctx: Context) -> object:
        """Return the validated answer; repeat the request if a submitted answer is invalid."""
        journal, number = ctx.run.journal, 1
        while journal is not None:
            place = f"{ctx.path}#human" if number == 1 else f"{ctx.path}#human#{number}"
            request = replace(request, place=place)
            row = journal.find(place, request.text)
            if row is None or row.body is None:
                return await self._ask_and_record(request, check, journal)
            answer, suspended = read_answer(row.body)
            if suspended:
                journal.reviewed.add(place)
            try:
                return check(answer)
            except OutputError as error:
                request, number = replace(request, problem=one_line(error_text(error))), number + 1
        if self._ask is None:
            hint = (
                "Pass a store, so that the run can be suspended: run(…, store=…); or pass a function: human(…, ask=…)"
            )
            raise ConfigurationError(
                f"human {self.name!r}", "store", None, "is required for a human without an `ask` function", hint=hint
            )
        return check(await result_of(self._ask(request)))

    async def _ask_and_record(self, request: HumanRequest, check: _Check, journal: Journal) -> object:
        # record the request before the human sees it, because the recorded answer will refer to it
        await journal.ask(request.place, request.text)
        if self._ask is None:
            raise Suspended([request])
        checked = check(await result_of(self._ask(request)))
        await journal.commit(request.place, "human", answer_text(check.dump(checked), suspended=False))
        return checked

    async def _request(self, value: object, ctx: Context, check: _Check) -> HumanRequest:
        transcript = ctx.scope.handles.get("transcript")
        schema = None if check.output is None else check.output.json_schema
        question = getattr(value, "task", None)
        if not question:  # fall back to the enclosing pattern's question, or to the input itself
            state = None if ctx.scope.sequencer is None else ctx.scope.sequencer.state
            question = getattr(state, "question", None) or getattr(value, "subject", value)
        render = partial(
            render_request,
            who=self._who,
            prompt=await _text(self._prompt, value, ctx),
            question=str(question),
            context=await _text(self._context, value, ctx),
            task=render_task(value),
        )
        transcript_text = None
        # a complete input already contains everything the human needs
        if transcript is not None and not getattr(value, "is_complete", False):
            blind = self._blind
            transcript_text = (
                render_contributions(transcript.state.entries)
                if blind is None
                else render_contributions(blind(ctx), names=False)
            )
        return HumanRequest(
            block=self.name,
            role=ctx.role,
            place=ctx.path,
            shown=render(transcript=transcript_text),
            expects=render_expected(schema),
            schema=schema,
            sources=() if self._sources is None else self._sources(ctx),
            check=check,
        )

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="human")


@dataclass(frozen=True, slots=True)
class _Check:
    """Validator that parses an answer into a value, or raises OutputError if the answer is invalid."""

    block: str
    output: OutputSchema | None

    def __call__(self, answer: object) -> object:
        if self.output is None:
            return parse_text(answer, block=self.block)
        if isinstance(answer, BaseModel):  # `ask` may return an instance of the schema
            answer = answer.model_dump(by_alias=True)
        data = parse_data(answer, self.output.json_schema, block=self.block)
        try:
            return self.output.validate(data)
        except SchemaViolation as violation:
            raise OutputError(self.block, f"a {self.output.name}", violation.problems, by_person=True) from None

    def dump(self, value: object) -> object:
        """Convert `value` to JSON data from which the validator can restore it."""
        return value if self.output is None else self.output.dump(value)


async def _text(slot: Invocation | None, value: object, ctx: Context) -> str | None:
    text = None if slot is None else await result_of(slot(value, ctx))
    return None if text is None else str(text)


def human(
    *,
    name: str,
    prompt: TextSlot | None = None,
    output_schema: object = None,
    ask: Ask | None = None,
    context: TextSlot | None = None,
) -> Human:
    """Create a block that asks a human and can take any role in any pattern.

    The output is text, or conforms to `output_schema` if there is one. The human sees `prompt`, the question,
    `context`, the transcript so far, and the expected form of the answer. `prompt` and `context` are text, or functions
    of `(input, ctx)` or `(input)`. In a role that requires more than text, such as judge, the human fills in that
    role's fields, unless there is an `output_schema`.

    `ask(request)`, sync or async, returns the answer immediately: `ask=ask_in_terminal` lets the human type it. A
    durable run records the answer and never requests it again. Without `ask`, the run is suspended: calls in flight
    finish, `result.status` is "awaiting", and `result.pending` contains the requests. Once `submit_answer` has recorded
    the answers, `resume(run_id)` continues the run, in any process. Time spent suspended does not count toward
    timeouts.

    A run raises ConfigurationError if there is neither `ask` nor a store, and OutputError if `ask` returns an invalid
    answer.

    >>> ann = human(name="ann", ask=lambda request: "Homes first.")
    >>> ann.run_sync("Should rents be capped?").output
    'Homes first.'
    """
    location = f"human {name!r}"
    if ask is not None and not callable(ask):
        raise ConfigurationError(location, "ask", ask, "must be a function of (request)")
    return Human(
        name,
        prompt=_slot(prompt, location, "prompt"),
        context=_slot(context, location, "context"),
        output=None if output_schema is None else OutputSchema.of(output_schema, location=location),
        ask=ask,
    )


def _slot(value: TextSlot | None, location: str, field: str) -> Invocation | None:
    if value is None:
        return None
    if callable(value):
        return invocation(value, location=location, field=field)
    if not isinstance(value, str):
        raise ConfigurationError(location, field, value, "must be text or a function of (input, ctx) that returns text")
    return lambda *_: value
