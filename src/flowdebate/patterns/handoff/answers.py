"""Answers of a handoff: offered in three forms, read leniently from any, checked, recorded, and followed.

A model answers by calling `handoff`, in JSON with the same fields, or in text that ends in "Transition to NAME". The
schema allows only those who can speak next; any answer is read, so that a wrong name costs one more call and no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, partial
from json import JSONDecoder
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic_core import from_json

from flowdebate._text import CutOff, clean_text, is_blank, shown
from flowdebate._util.wire import WireModel, one_of
from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import Handler, Tool, function_schema, handler
from flowdebate.chassis.roster import check_choice
from flowdebate.chassis.sentences import trim_to_sentence
from flowdebate.chassis.state import Flag, accepted, round_of, state_of
from flowdebate.chassis.turn import (
    audit_resources,
    complete_turn,
    record_failure,
    record_flag,
    text_said,
    warn_of_nothing,
)
from flowdebate.errors import OutputError, RosterError
from flowdebate.models.base import ModelResponse, ToolSpec
from flowdebate.prompts import AROUND, DECORATION, PAIRS, name_among, tag_name
from flowdebate.runs.context import Context

from .schemas import (
    ChosenBy,
    HandoffAnswer,
    HandoffEntry,
    HandoffMade,
    HandoffState,
    HandoffTranscript,
    OnInvalid,
    TransitionForm,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Result of `read_transition`."""

    text: str
    """The answer without the marker; nothing else of it is changed."""
    name: str | None
    """The name, as it is spelt among the names, or as written if it is none of them; None without a marker."""


_MARKER = re.compile(r"\btransition[^\S\n]+to\b", re.IGNORECASE)
_GAPS = (re.compile(r"[^\S\n]*"), re.compile(r"[^\S\n]*:?[^\S\n]*"))
_BETWEEN = re.compile(rf"[^\S\n]*:?[^\S\n]*([{re.escape(DECORATION)}]*)[^\S\n]*:?[^\S\n]*")
"""Characters allowed between "Transition to" and the name."""
_BEHIND = re.compile(rf"(?:[{re.escape(AROUND)}]|[^\S\n])*")
_BULLET = re.compile(r"(?:[-+•>=#→⇒]|[^\S\n])*")
_SENTENCE_END = re.compile(rf"[.!?…:;。！？][{re.escape(DECORATION)}]*[^\S\n]+$")
_EDGE = f"{AROUND} \t\r\n"
_LOOKED_AT = 50  # markers, from the last on: a model can write any number of them
_LONGEST_STRANGER = 80  # characters of a name that nobody has; what is longer is a sentence about some transition
_OPENERS = {closes: opens for opens, closes in PAIRS.items()}


def read_transition(text: str, names: Iterable[str]) -> Transition:
    r"""The name that `text` hands over to, and the rest of the text.

    A marker is "Transition to" with one of `names`, in any case, maybe in quotes, brackets or markdown, where the text
    ends or in a sentence or line of its own; the last one counts, and is taken off. Of names that begin alike the
    longest that fits is meant. In the last line also a name that nobody has is a marker, if it is a sentence of its
    own: such a name is given as it was written.

    >>> read_transition("Machines err.\n\n**Transition to: opponent.**", ["Proponent", "Opponent"])
    Transition(text='Machines err.', name='Opponent')
    >>> read_transition("The transition to Opponent rule failed.", ["Proponent", "Opponent"]).name is None
    True
    """
    known = tuple(names)
    for marker in reversed(list(_MARKER.finditer(text))[-_LOOKED_AT:]):
        found = _read(text, marker, known)
        if found is not None:
            return found
    return Transition(text=text, name=None)


def _read(text: str, marker: re.Match[str], names: tuple[str, ...]) -> Transition | None:
    """The transition that `marker` begins; None where it is only words."""
    begin = marker.start()
    while begin > 0 and text[begin - 1] in DECORATION:  # quotes, brackets and markdown right before it are its own
        begin -= 1
    opened = text[begin : marker.start()]
    between = _BETWEEN.match(text, marker.end())
    assert between is not None  # noqa: S101 - it matches nothing at all, too
    opened += between[1]
    # a sentence or a line of its own begins with it; the end of a sentence is no more than 20 characters away
    before = text[max(_line_start(text, begin), begin - 20) : begin]
    own = _bulleted(text, begin) or _SENTENCE_END.search(before) is not None
    # a name may begin with what else would be a colon, a quote or a bracket
    begins = dict.fromkeys(gap.end() for gap in (*(g.match(text, marker.end()) for g in _GAPS), between) if gap)
    known = next(filter(None, (_named(text, place, names) for place in begins)), None)
    if known is not None:
        name, name_end = known
        line_end = _line_end(text, name_end)
        behind = _BEHIND.match(text, name_end, line_end)
        end = name_end if behind is None else behind.end()
        ends = end == line_end and (own or not text[end:].strip())
        if ends or (own and any(c in ".!…" for c in text[name_end:end])):
            return Transition(text=_without(text, begin, name_end, end, opened), name=name)
    line_end = _line_end(text, between.end())
    name_end = _undecorated(text, between.end(), line_end)
    stranger = text[between.end() : name_end].strip(_EDGE)
    if own and 0 < len(stranger) <= _LONGEST_STRANGER and not text[line_end:].strip():
        return Transition(text=_without(text, begin, name_end, line_end, opened), name=stranger)
    return None


def _named(text: str, begin: int, names: tuple[str, ...]) -> tuple[str, int] | None:
    """The one of `names` at `begin`, and where it ends."""
    match = _pattern(names).match(text, begin)
    if match is not None:
        written = " ".join(match["name"].split())
        return name_among(written, names) or name_among(match["name"], names) or written, match.end()
    line_end = _line_end(text, begin)
    rest = text[begin:line_end]
    # other forms of the same characters, which no pattern of the name itself finds
    name = name_among(rest, names) or name_among(rest.removeprefix("the "), names)
    if name is None:
        return None
    return name, line_end if name[-1] in AROUND else _undecorated(text, begin, line_end)


def _undecorated(text: str, begin: int, end: int) -> int:
    """The end of `text[begin:end]` without quotes, markdown and the like."""
    return begin + len(text[begin:end].rstrip(_EDGE))


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of `names`, as it is or as prompts show it, the longest first; not within a longer word."""
    spelt = sorted({form for name in names for form in (name, tag_name(name))}, key=len, reverse=True)
    forms = "|".join(r"\s+".join(map(re.escape, form.split())) for form in spelt if form.strip())
    # "the" is lazy, for a name may begin with it
    return re.compile(rf"(?:the\s+)??(?P<name>{forms or '(?!)'})(?!\w)", re.IGNORECASE)


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end == -1 else end


def _bulleted(text: str, begin: int) -> bool:
    """Whether only a bullet precedes `begin` on its line."""
    return _BULLET.fullmatch(text, _line_start(text, begin), begin) is not None


def _without(text: str, begin: int, name_end: int, end: int, opened: str) -> str:
    """`text` without the marker between `begin` and `end`, and without the white space that set it off."""
    line = _line_start(text, begin)
    if _bulleted(text, begin):
        begin = line
    before, behind = text[:begin], text[end:]
    kept = _unopened(text[name_end:end], opened, before)
    if not behind.strip():
        return before.rstrip() + kept
    if begin == line and behind.startswith("\n"):
        return before + kept + behind[1:]
    return before + kept + behind.lstrip(" \t")


def _unopened(closing: str, opened: str, before: str) -> str:
    """The part of `closing` that closes something opened before the marker: the bold of a whole paragraph."""
    run = re.search(rf"[{re.escape(DECORATION)}]+\s*$", closing.rstrip(".!?…,;: \t\r"))
    if run is None:
        return ""
    closers = run[0].strip()
    if opened or closers[0] in PAIRS or closers[0] == "'":
        return ""
    opener = _OPENERS.get(closers[0])
    if opener is None:
        return closers if before.count(closers) % 2 else ""
    return closers if before.count(opener) > before.count(closers[0]) else ""


# The three forms


_DECODER = JSONDecoder()
_TRIES = 50  # braces that are looked at: each can cost as much time as the text is long


class HandoffFields(BaseModel):
    """The fields of a handover, as a model wrote them."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", defer_build=True)

    response: Any = None
    next_agent_name: Any = None

    def answer(self) -> HandoffAnswer:
        response = clean_text(self.response) if isinstance(self.response, str) else ""
        return HandoffAnswer(response=response, next_agent_name=spell_name(self.next_agent_name))


def handoff_form(transition: TransitionForm, others: Sequence[str], *, where: str) -> dict[str, Any]:
    """The options of `generator` by which its model hands over to one of `others` in the form of `transition`."""
    check_choice(transition, TransitionForm, where=where, field="transition")
    if transition == "text":
        return {}
    if transition == "tool":
        return {"answer_tool": handoff_tool(others)}
    return {"output_schema": handoff_model(tuple(others))}


def handoff_spec(others: Sequence[str]) -> ToolSpec:
    """Schema of the function `handoff`, by which a model hands over to one of `others`.

    >>> handoff_spec(["Con", "Neutral"]).parameters["properties"]["next_agent_name"]["enum"]
    ['Con', 'Neutral']
    """

    def handoff(response: str, next_agent_name: str) -> None:
        """Say something in the debate, and hand over to whoever speaks next.

        Args:
            response: What you say.
            next_agent_name: Who speaks next.
        """

    handoff.__annotations__["next_agent_name"] = one_of(others)
    return function_schema(handoff)


def handoff_tool(others: Sequence[str]) -> Tool:
    """The function `handoff`, whose call is an answer; any JSON object will do as its arguments."""

    async def call(values: dict[str, Any], _: Context) -> HandoffAnswer:
        return HandoffFields(**values).answer()

    return Tool(spec=handoff_spec(others), call=call, arguments=HandoffFields)


@lru_cache(maxsize=64)
def handoff_model(others: tuple[str, ...]) -> type[HandoffFields]:
    """The same as an output schema: it says what `handoff_spec` says, and takes any JSON object."""
    parameters = handoff_spec(others).parameters

    def as_told(schema: dict[str, Any]) -> None:
        title = schema["title"]  # servers without schemas, but with tools, get it under this name
        schema.clear()
        schema.update({"title": title, **parameters})

    return create_model(
        "Handoff", __base__=(type("Told", (HandoffFields,), {"model_config": ConfigDict(json_schema_extra=as_told)}),)
    )


def read_output(names: Sequence[str], output: Any, response: ModelResponse, _: Context) -> HandoffAnswer:  # noqa: ANN401 - by the form
    """The answer in what a model wrote, in whichever form it was asked for."""
    if isinstance(output, str):
        if response.finish != "length":
            return read_text(output, names)
        return read_text(trim_to_sentence(output), names).model_copy(update={"cut_off": True})
    answer: HandoffAnswer = output if isinstance(output, HandoffAnswer) else output.answer()
    if is_blank(answer.response) and response.tool_calls and not is_blank(response.text):
        return answer.model_copy(update={"response": response.text})  # it spoke beside its call
    return answer


def read_text(text: str, names: Sequence[str]) -> HandoffAnswer:
    """The answer in a model's text, which may contain the fields, or the call, as JSON."""
    # without tools or schemas a model may write the call itself as text
    fields = _written_down(text) if '"response"' in text else None
    if fields is not None:
        return fields.answer()
    transition = read_transition(text, names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name)


def salvage_json(answer: str, names: Sequence[str]) -> HandoffAnswer:
    """The answer in invalid JSON: prose, or an object that was cut off, or that goes on too long."""
    if not answer.lstrip().startswith(("{", "[")):
        return read_text(answer, names)
    try:
        from_json(answer)
        cut_short = False
    except ValueError as error:
        cut_short = str(error).startswith(("EOF", "trailing characters"))
    if not cut_short:  # what is broken within may be broken anywhere
        return HandoffAnswer(response="")
    # the name is not taken from what was cut off: it could be the beginning of another one
    if (said := _part(answer, partial=True)) is not None:
        return HandoffAnswer(response=clean_text(said))
    part = trim_to_sentence(_part(answer, partial="trailing-strings") or "")
    return HandoffAnswer(response=clean_text(part), cut_off=True)


def _written_down(text: str) -> HandoffFields | None:
    """The fields in the first object of `text` that has any words, or is a call with them."""
    begin = text.find("{")
    for _ in range(_TRIES):
        if begin == -1:
            break
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):  # no object begins here, or one nested deeper than the decoder goes
            begin = text.find("{", begin + 1)
            continue
        if value.get("name") == "handoff" and isinstance(value.get("arguments"), dict):
            value = value["arguments"]
        if isinstance(value.get("response"), str):
            return HandoffFields.model_validate(value)
        begin = text.find("{", end)
    return None


def _part(text: str, *, partial: Literal[True, "trailing-strings"]) -> str | None:
    """The response in a part of an object; with "trailing-strings" also where it is itself cut off."""
    value = from_json(text, allow_partial=partial)
    response = value.get("response") if isinstance(value, dict) else None
    return response if isinstance(response, str) else None


# What was decided


NOTHING = "nothing was said"

_TEXTS = ("response", "text")
_NAMES = ("next_agent_name", "nextAgentName")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDecision:
    """A speaker's text, and its choice of the next speaker."""

    text: str
    next_agent_name: str | None = None
    """The next speaker; None if nobody was named who can speak."""
    chosen_by: ChosenBy | None = None
    problem: str | None = None
    """The problem of the answer; None without one."""
    named: str | None = None
    """Whom it named, as it did."""
    cut_off: bool = False
    """Whether the text ran out of room."""
    speaker: Block[Any, Any] | None = field(default=None, repr=False, compare=False)
    """The block to ask once more; None for one that cannot be asked again."""

    @property
    def flag(self) -> Flag | None:
        """What is wrong with the text."""
        return "empty" if not self.text else "cut_off" if self.cut_off else None


def read_said(value: object, agent_name: str, names: Sequence[str], ctx: Context) -> HandoffAnswer:
    """The output of a block for a turn of `agent_name`, as an answer.

    A dict or an object with a `response` or a `text`, and maybe a `next_agent_name`, in either key style; else text, as
    `text_said` takes it. Text that comes without a name hands over as `read_transition` reads it.
    """
    said = _held(value, _TEXTS)
    text = text_said(said if isinstance(said, str) else value, agent_name, ctx)
    named, cut_off = _held(value, _NAMES), isinstance(text, CutOff)
    if named is not None:
        return HandoffAnswer(response=str(text), next_agent_name=spell_name(named), cut_off=cut_off)
    transition = read_transition(str(text), names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name, cut_off=cut_off)


def check_decision(
    answer: HandoffAnswer,
    *,
    agent_name: str,
    names: Sequence[str],
    chosen_by: ChosenBy = "speaker",
    speaker: Block[Any, Any] | None = None,
) -> HandoffDecision:
    """`answer` with what is wrong with it: nothing said, or nobody named who can speak after `agent_name`.

    >>> answer = HandoffAnswer(response="Well.", next_agent_name="pro")
    >>> check_decision(answer, agent_name="Pro", names=["Pro", "Con"]).problem
    "'Pro' handed over to itself"
    """
    text, named = "" if is_blank(answer.response) else answer.response, answer.next_agent_name
    name = None if named is None or is_blank(named) else name_among(named, names)
    problem: str | None = None  # a model that is asked once more is shown it
    if named is None or is_blank(named):
        problem = "nobody was named to speak next"
    elif name is None:
        problem = f"{shown(named)} is nobody in this debate"
    elif name == agent_name:  # `names` has its own, so that this is told from a name that nobody has
        name, problem = None, f"{name!r} handed over to itself"
    if not text:
        problem = NOTHING if problem is None else f"{NOTHING}, and {problem}"
    return HandoffDecision(
        text=text,
        next_agent_name=name,
        chosen_by=None if name is None else chosen_by,
        problem=problem,
        named=named,
        cut_off=answer.cut_off,
        speaker=speaker,
    )


def _held(value: object, keys: Sequence[str]) -> object:
    """The value of the first of `keys` that `value` has; None if it has none."""
    if isinstance(value, Mapping):
        return next((value[key] for key in keys if value.get(key) is not None), None)
    if isinstance(value, str):  # whatever a subclass of str has besides
        return None
    return next((held for key in keys if (held := getattr(value, key, None)) is not None), None)


def spell_name(named: object) -> str | None:
    """A name as somebody wrote it; an enum's member by its value."""
    if isinstance(named, Enum):
        named = named.value
    return clean_text(str(named)) if isinstance(named, str) else None if named is None else shown(named)


def handoff_schema(names: Sequence[str]) -> type[WireModel]:
    """Schema of an answer: the text, and which of `names` is next."""
    return create_model(
        "HandoffAnswer",
        __base__=WireModel,
        response=(str, Field(description="What you say")),
        next_agent_name=(one_of(names), Field(description="Who speaks next")),
    )


def record_said(
    *,
    name: str,
    agent_name: str,
    names: Sequence[str],
    transcript: HandoffTranscript,
    collection_id: str,
    own: bool = False,
) -> Handler[Any, HandoffDecision]:
    """A block that adds what a speaker said to the transcript, before it is decided who is next."""

    @handler(name=f"{name}-record-{agent_name}", resources=audit_resources(transcript, collection_id))
    async def record(value: object, ctx: Context) -> HandoffDecision:
        if not isinstance(value, HandoffDecision):
            read = partial(read_said, value, agent_name, names, ctx)
            answer = await accepted(read, ctx, returns=HandoffAnswer, own=own)
            value = check_decision(answer, agent_name=agent_name, names=names)
        entry = HandoffEntry(round=round_of(ctx), agent_name=agent_name, text=value.text, flag=value.flag)
        held = ctx.scope.handles["transcript"]
        held.set(held.state.with_entry(entry))
        complete_turn(agent_name, value.text, ctx)
        return value

    return record


def needs_another_word(value: object) -> bool:
    """Whether a turn's speaker is to be asked once more, and can be."""
    return isinstance(value, HandoffDecision) and value.problem is not None and value.speaker is not None


def draw_instead(error: Exception, value: HandoffDecision, ctx: Context) -> HandoffDecision:
    """Go on with a speaker's first answer if its provider fails when it is asked once more."""
    speaker = state_of(ctx, HandoffState).speaker
    record_failure(error, ctx, block=ctx.block, role="debater", name=speaker, instead="drawn")
    return value


def hand_over(
    *, name: str, names: Sequence[str], on_invalid: OnInvalid, transcript: HandoffTranscript
) -> Handler[Any, None]:
    """A block that decides who speaks next: whom the speaker named, or the lot; with "error", a RosterError."""

    @handler(name=f"{name}-hand-over", resources={"transcript": transcript})
    def decide(value: HandoffDecision | None, ctx: Context) -> None:
        speaker = state_of(ctx, HandoffState).speaker
        others = [other for other in names if other != speaker]
        said = HandoffDecision(text="", problem="the turn was lost") if value is None else value
        if value is not None and on_invalid == "error":
            _refuse_problem(value, others, ctx)
        next_name, by = said.next_agent_name, said.chosen_by  # an application's decision may lack either
        if next_name is None or by is None:
            next_name, by = ctx.random.choice(others), "random"
        if value is not None:
            if said.flag is not None:
                record_flag(said.flag, speaker, ctx)
            if said.flag == "empty" and said.speaker is None:
                warn_of_nothing(speaker, ctx)
            decided = {"next_agent_name": next_name, "chosen_by": by, "problem": said.problem}
            held = ctx.scope.handles["transcript"]
            *before, last = held.state.entries
            last = last.model_copy(update={"text": said.text, "flag": said.flag, **decided})
            held.set(held.state.with_entries([*before, last]))
        number = state_of(ctx, HandoffState).round
        ctx.scope.handle.update(speaker=next_name)
        ctx.emit(
            HandoffMade(round=number, agent_name=speaker, next_agent_name=next_name, chosen_by=by, problem=said.problem)
        )

    return decide


def _refuse_problem(said: HandoffDecision, others: Sequence[str], ctx: Context) -> None:
    """An error for an answer with a problem, which names the block that gave it."""
    if said.problem is None:
        return
    block = ctx.block if said.speaker is None else said.speaker.name
    if said.next_agent_name is not None:
        raise OutputError(block, "what is said, and who speaks next", [("response", NOTHING)])
    raise RosterError(block, said.named or "", others, field="next_agent_name", problem=said.problem)
